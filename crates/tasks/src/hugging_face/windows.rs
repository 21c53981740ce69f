//! The windows in which a network reads the words of a sentence.

use regard_data::{Around, PublishedText, PublishedTokenizer};

use crate::error::TaskError;

/// Words of a sentence that go through the network together.
#[derive(Debug, Clone)]
pub(super) struct Window {
    pub text: PublishedText,
    /// Place of the first piece of each word.
    pub firsts: Vec<usize>,
}

/// Returns the windows of some words: one, or those of each half if they have more than `most` tokens.
pub(super) fn windows(words: &[String], tokenizer: &PublishedTokenizer, most: usize) -> Result<Vec<Window>, TaskError> {
    let text = tokenizer.encode(&words.join(" "), Around::Special)?;
    if text.ids.len() > most {
        if words.len() == 1 {
            let got = format!("{} pieces of {:?}", text.ids.len(), words[0]);
            return Err(TaskError::input("word", format!("at most {most} pieces"), got));
        }
        let (left, right) = words.split_at(words.len() / 2);
        let mut found = windows(left, tokenizer, most)?;
        found.append(&mut windows(right, tokenizer, most)?);
        return Ok(found);
    }
    let mut begin = 0;
    let mut firsts = Vec::with_capacity(words.len());
    for word in words {
        let end = begin + word.len();
        let mut pieces = text.offsets.iter().zip(&text.is_special);
        let first = pieces.position(|(&(from, to), special)| !special && from < end && to > begin);
        // A word that the tokeniser drops altogether is read as the first token.
        firsts.push(first.unwrap_or(0));
        begin = end + 1;
    }
    Ok(vec![Window { text, firsts }])
}
