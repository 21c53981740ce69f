//! The `[data.tokenizer]` section of tasks that choose what a token is by the texts.

use regard_data::{Case, DataError, Tokenizer, TokenizerConfig, TokenizerKind, lacks_spaces};
use serde::{Deserialize, Serialize};

/// How text becomes tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizerKeys {
    /// What a token is; by default a word, or a character where the texts have no spaces between words.
    #[serde(default)]
    pub kind: Option<TokenizerKind>,
    /// Number of tokens at most.
    pub vocab: usize,
    /// What becomes of capitals.
    #[serde(default)]
    pub case: Case,
    /// How often a word must occur to be one.
    #[serde(default = "once")]
    pub min_count: usize,
}

fn once() -> usize {
    1
}

impl TokenizerKeys {
    /// Refuses a vocabulary that cannot hold what every tokeniser of the kind has.
    pub(crate) fn validate(&self) -> Result<(), DataError> {
        self.of_kind(self.kind.unwrap_or(TokenizerKind::Word)).validate()
    }

    /// Learns the tokens of texts and keeps the kind that was chosen for them.
    pub(crate) fn train<'a>(
        &mut self,
        texts: impl Iterator<Item = &'a str> + Clone + Send,
    ) -> Result<Tokenizer, DataError> {
        let by_script = || if lacks_spaces(texts.clone()) { TokenizerKind::Char } else { TokenizerKind::Word };
        let kind = *self.kind.get_or_insert_with(by_script);
        Tokenizer::train(&self.of_kind(kind), texts)
    }

    fn of_kind(&self, kind: TokenizerKind) -> TokenizerConfig {
        TokenizerConfig { kind, vocab: self.vocab, case: self.case, min_count: self.min_count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_choose_unless_the_user_does() {
        let keys = |kind| TokenizerKeys { kind, vocab: 100, case: Case::Keep, min_count: 1 };
        for (text, kind, chosen) in [
            ("a few words", None, TokenizerKind::Word),
            ("这部电影很好", None, TokenizerKind::Char),
            ("这部电影很好", Some(TokenizerKind::Word), TokenizerKind::Word),
        ] {
            let mut keys = keys(kind);
            assert_eq!(keys.train([text].into_iter()).unwrap().kind(), chosen);
            assert_eq!(keys.kind, Some(chosen));
        }
    }
}
