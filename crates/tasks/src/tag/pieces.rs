//! A pre-trained encoder and its tokeniser, and the pieces into which it splits the words of a sentence.

use std::ops::Range;
use std::path::Path;

use regard_data::{END, START, Tokenizer};
use regard_nn::models::transformer::TransformerConfig;

use crate::error::TaskError;
use crate::folder::{Files, tokenizer_file};
use crate::pretrained;

/// File with the encoder's configuration, so that a model folder does not depend on the one it started from.
const ENCODER: &str = "encoder.json";

/// The configuration and the tokeniser of a pre-trained encoder.
#[derive(Debug)]
pub struct PieceEncoder {
    pub config: TransformerConfig,
    pub tokenizer: Tokenizer,
}

/// A sentence as the encoder reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct Pieces {
    /// Tokens of the pieces, with `<s>` and `</s>`.
    pub ids: Vec<u32>,
    /// The same pieces as text.
    pub tokens: Vec<String>,
    /// Range of the pieces of each word.
    pub words: Vec<Range<usize>>,
}

impl PieceEncoder {
    /// Reads the encoder of a folder of `pretrain`. It keeps the dropout that it was trained with: the higher dropout that
    /// suits few tagged sentences would damage what it has learnt.
    pub fn of(path: &Path) -> Result<Self, TaskError> {
        let (tokenizer, theirs) = pretrained::described(path)?;
        Ok(Self { config: theirs.transformer(tokenizer.vocab()), tokenizer })
    }

    /// Reads the encoder from a tagger's model folder.
    pub fn open(files: &Files) -> Result<Self, TaskError> {
        Ok(Self { config: files.json(ENCODER)?, tokenizer: files.tokenizer()? })
    }

    /// Returns the files that [`open`](Self::open) reads.
    pub fn files(&self) -> [(String, Vec<u8>); 2] {
        let config = serde_json::to_vec_pretty(&self.config).expect("plain values");
        [(ENCODER.to_string(), config), tokenizer_file(&self.tokenizer)]
    }

    /// Splits a sentence into pieces.
    pub fn pieces(&self, words: &[String]) -> Pieces {
        let text = words.join(" ");
        let encoded = self.tokenizer.encode(&text);
        let special = |id| self.tokenizer.token(id).unwrap_or_default();
        let ids: Vec<u32> = [START].into_iter().chain(encoded.ids).chain([END]).collect();
        let tokens = [special(START)].into_iter().chain(encoded.tokens).chain([special(END)]).collect();
        let mut ranges = Vec::with_capacity(words.len());
        let mut begin = 0;
        for word in words {
            let end = begin + word.len();
            let touches = |&(from, to): &(usize, usize)| from < end && to > begin;
            let first = encoded.offsets.iter().position(touches);
            let count = encoded.offsets.iter().filter(|offset| touches(offset)).count();
            // Ranges are shifted by one for `<s>`. A word that the tokeniser drops altogether is read as `<s>`.
            let last = ids.len() - 1;
            ranges.push(first.map_or(0..1, |first| (first + 1)..(first + 1 + count).min(last)));
            begin = end + 1;
        }
        Pieces { ids, tokens, words: ranges }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regard_data::{Case, TokenizerConfig, TokenizerKind};

    use super::*;
    use crate::folder::testing::with_files;

    fn trained(kind: TokenizerKind) -> Tokenizer {
        let config = TokenizerConfig { kind, vocab: 300, case: Case::Keep, min_count: 1 };
        Tokenizer::train(&config, ["I saw a saw in the old house.", "the right to right wrongs"].into_iter()).unwrap()
    }

    fn encoder_config(vocab: usize) -> TransformerConfig {
        TransformerConfig { vocab, d_model: 8, n_heads: 2, d_ff: 8, n_layers: 1, ..TransformerConfig::default() }
    }

    #[test]
    fn an_encoder_can_be_saved_and_read() {
        let tokenizer = trained(TokenizerKind::Bpe);
        let encoder = PieceEncoder { config: encoder_config(tokenizer.vocab()), tokenizer };
        let again = with_files(encoder.files().into(), PieceEncoder::open).unwrap();
        assert_eq!((again.config, again.tokenizer.tokens()), (encoder.config, encoder.tokenizer.tokens()));
        let damaged = [(ENCODER.to_string(), b"{}x".to_vec())].into();
        let error = with_files(damaged, PieceEncoder::open).unwrap_err().to_string();
        assert!(error.contains(ENCODER), "{error}");
    }

    proptest! {
        #[test]
        fn every_word_has_its_pieces(words in prop::collection::vec("[a-zé.!]{1,6}", 1..8)) {
            for kind in [TokenizerKind::Bpe, TokenizerKind::Word, TokenizerKind::Char] {
                let tokenizer = trained(kind);
                let encoder = PieceEncoder { config: encoder_config(tokenizer.vocab()), tokenizer };
                let pieces = encoder.pieces(&words);
                prop_assert_eq!(pieces.ids.len(), pieces.tokens.len());
                prop_assert_eq!(pieces.words.len(), words.len());
                for (word, range) in words.iter().zip(&pieces.words) {
                    prop_assert!(!range.is_empty() && range.end < pieces.ids.len());
                    if kind == TokenizerKind::Bpe {
                        let text = encoder.tokenizer.decode(&pieces.ids[range.clone()]);
                        prop_assert_eq!(text.trim(), word.as_str());
                    }
                }
                prop_assert!(pieces.words.windows(2).all(|pair| pair[0].end <= pair[1].start));
            }
        }
    }
}
