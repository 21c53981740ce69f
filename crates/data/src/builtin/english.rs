//! Collects English words with their parts of speech.

use super::french::capitalised;
use super::{Token, Upos};

#[derive(Debug, Default)]
pub(super) struct English {
    tokens: Vec<Token>,
}

impl English {
    pub fn push(&mut self, text: &str, tag: Upos) {
        self.tokens.push(Token { text: text.to_string(), tag });
    }

    /// Returns the tokens with a capital first letter and the mark at the end.
    pub fn finish(mut self, mark: &str) -> Vec<Token> {
        if let Some(first) = self.tokens.first_mut() {
            first.text = capitalised(&first.text);
        }
        self.push(mark, Upos::Punct);
        self.tokens
    }
}
