//! Tokens as text, piece by piece.

use regard_data::Tokenizer;

/// Tokens that a character can be spread over: those of its four bytes.
const LONGEST_CHARACTER: usize = 4;
/// Tokens that are kept while a character is always under way.
const MOST_TOKENS: usize = 64;

/// Text under way. What a token adds can depend on the one before (a space between words) and end within a character (a
/// byte of one): pieces are differences of decoded text, of which half a character at the end is held back.
#[derive(Debug)]
pub(super) struct Writing<'a> {
    tokenizer: &'a Tokenizer,
    /// The last tokens, from the prompt on.
    recent: Vec<u32>,
    /// Characters of their text that were handed out.
    out: usize,
    /// Tokens since anything was handed out.
    waiting: usize,
}

impl<'a> Writing<'a> {
    /// Goes on from `prompt`, which is not handed out.
    pub fn after(tokenizer: &'a Tokenizer, prompt: &[u32]) -> Self {
        let mut writing = Self { tokenizer, recent: prompt.to_vec(), out: 0, waiting: 0 };
        writing.forget();
        writing
    }

    /// The text that is certain with one token more.
    pub fn add(&mut self, token: u32) -> Option<String> {
        self.recent.push(token);
        let text: Vec<char> = self.text().chars().collect();
        // A replacement character at the end is the beginning of one, unless it has taken too long for that.
        let half = text.last() == Some(&char::REPLACEMENT_CHARACTER)
            && self.waiting + 1 < LONGEST_CHARACTER
            && self.recent.len() < MOST_TOKENS;
        let end = text.len() - usize::from(half);
        let piece: String = text.get(self.out..end).unwrap_or_default().iter().collect();
        self.waiting = if piece.is_empty() { self.waiting + 1 } else { 0 };
        self.out = self.out.max(end);
        if !half {
            self.forget();
        }
        (!piece.is_empty()).then_some(piece)
    }

    /// What was held back, at the end.
    pub fn rest(self) -> String {
        self.text().chars().skip(self.out).collect()
    }

    fn text(&self) -> String {
        self.tokenizer.decode(&self.recent)
    }

    /// Keeps as many tokens as the next one's text can depend on, all of them handed out.
    fn forget(&mut self) {
        self.recent.drain(..self.recent.len().saturating_sub(LONGEST_CHARACTER));
        self.out = self.text().chars().count();
        self.waiting = 0;
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
        let broken: Vec<u32> = std::iter::repeat_n(ids[1], 9).chain([ids[0]]).collect();
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
            // A replacement character of the text itself cannot be told from half of one.
            prop_assume!(!text.contains(char::REPLACEMENT_CHARACTER));
            for kind in [TokenizerKind::Bpe, TokenizerKind::Char] {
                let tokenizer = tokenizer(kind, &[&prompt, &text]);
                let pieces = written(&tokenizer, &tokenizer.ids(&prompt), &tokenizer.ids(&text));
                prop_assert_eq!(pieces.concat(), text.clone());
            }
        }
    }
}
