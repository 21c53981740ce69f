//! Tokens as text, piece by piece.

use regard_data::Tokenizer;

/// Tokens that a character can be spread over: those of its four bytes.
const LONGEST_CHARACTER: usize = 4;
/// Tokens that wait at most. A text may have replacement characters of its own, so that the limit is not that of one
/// character; a model that writes bytes without sense must not make it wait for ever.
const WAITING: usize = 16;

/// Text under way. What a token adds can depend on the one before (a space between words) and be no whole character
/// (a byte of one): pieces are differences of decoded text, held back until characters are whole.
#[derive(Debug)]
pub(super) struct Writing<'a> {
    tokenizer: &'a Tokenizer,
    /// The last tokens that were handed out and those that were not.
    recent: Vec<u32>,
    /// How many of `recent` were handed out.
    out: usize,
}

impl<'a> Writing<'a> {
    /// Goes on from `prompt`, which is not handed out.
    pub fn after(tokenizer: &'a Tokenizer, prompt: &[u32]) -> Self {
        let recent = prompt[prompt.len().saturating_sub(LONGEST_CHARACTER)..].to_vec();
        Self { tokenizer, out: recent.len(), recent }
    }

    /// The text that is certain with one token more.
    pub fn add(&mut self, token: u32) -> Option<String> {
        self.recent.push(token);
        let held = self.recent.len() - self.out;
        let text = self.added();
        // A replacement character at the end is the beginning of one, as a rule.
        if held < WAITING && text.ends_with(char::REPLACEMENT_CHARACTER) {
            return None;
        }
        self.recent.drain(..self.recent.len().saturating_sub(LONGEST_CHARACTER));
        self.out = self.recent.len();
        Some(text)
    }

    /// What was held back, at the end.
    pub fn rest(self) -> String {
        self.added()
    }

    fn added(&self) -> String {
        let (before, all) = (self.tokenizer.decode(&self.recent[..self.out]), self.tokenizer.decode(&self.recent));
        match all.strip_prefix(&before) {
            Some(added) => added.to_string(),
            // The last character of the text before was incomplete: it was handed out as a replacement.
            None => all.chars().skip(before.chars().count()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regard_data::{Case, TokenizerConfig, TokenizerKind};

    use super::*;

    fn tokenizer(kind: TokenizerKind, texts: &[&str]) -> Tokenizer {
        let config = TokenizerConfig { kind, vocab: 300, case: Case::Keep, min_count: 1 };
        Tokenizer::train(&config, texts.iter().copied()).unwrap()
    }

    fn written(tokenizer: &Tokenizer, prompt: &[u32], tokens: &[u32]) -> Vec<String> {
        let mut writing = Writing::after(tokenizer, prompt);
        let mut pieces: Vec<String> = tokens.iter().filter_map(|&token| writing.add(token)).collect();
        pieces.push(writing.rest());
        pieces
    }

    #[test]
    fn bytes_wait_for_their_character() {
        let tokenizer = tokenizer(TokenizerKind::Bpe, &["plain"]);
        let ids = tokenizer.ids("a€b");
        assert_eq!(ids.len(), 5);
        assert_eq!(written(&tokenizer, &tokenizer.ids("x"), &ids), ["a", "€", "b", ""]);
        // An end in the middle of a character is told, not lost.
        assert_eq!(written(&tokenizer, &[], &ids[..2]), ["a", "\u{fffd}"]);
        // Bytes that are no character do not stop the text for ever.
        let broken: Vec<u32> = std::iter::repeat_n(ids[1], 40).chain([ids[0]]).collect();
        assert!(written(&tokenizer, &[], &broken).concat().ends_with('a'));
    }

    #[test]
    fn words_keep_their_spaces() {
        let text = "the cat sat, and it was the hat.";
        let tokenizer = tokenizer(TokenizerKind::Word, &[text]);
        let ids = tokenizer.ids(text);
        assert_eq!(written(&tokenizer, &ids[..2], &ids[2..]).concat(), &text["the cat".len()..]);
    }

    proptest! {
        #[test]
        fn pieces_make_the_text(prompt in "[a-c€é ]{1,6}", text in "\\PC{0,30}") {
            for kind in [TokenizerKind::Bpe, TokenizerKind::Char] {
                let tokenizer = tokenizer(kind, &[&prompt, &text]);
                let pieces = written(&tokenizer, &tokenizer.ids(&prompt), &tokenizer.ids(&text));
                prop_assert_eq!(pieces.concat(), text.clone());
            }
        }
    }
}
