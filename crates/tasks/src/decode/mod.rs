//! Writing a sequence token by token: the best one ([`greedy`], [`beam`]) or one of many ([`sample`]).
//!
//! A search knows a model only as a [`Decoder`]: rows of sequences under way, each with the log-probabilities of its next
//! token. Rows that have ended leave the batch, so that short sentences cost nothing while long ones go on.

mod models;
mod sample;
mod search;

use regard_nn::NnError;

pub use models::{LanguageModelDecoder, RecurrentLanguageModelDecoder, RecurrentTranslatorDecoder, TranslatorDecoder};
pub use sample::{SampleOptions, Sampled, sample};
pub use search::{BeamOptions, Ending, Hypothesis, beam, greedy};

/// Sequences under way.
pub trait Decoder {
    /// How many there are.
    fn rows(&self) -> usize;

    /// Takes in the last token of each row; gives the log-probabilities of the next, `rows × vocab`, row by row.
    fn next(&mut self, last: &[u32]) -> Result<Vec<f32>, NnError>;

    /// Goes on with these rows, in this order and as often as they are named.
    fn select(&mut self, rows: &[usize]) -> Result<(), NnError>;

    /// Takes in tokens that all rows begin with, whose successors are known.
    fn read(&mut self, tokens: &[u32]) -> Result<(), NnError> {
        let rows = self.rows();
        tokens.iter().try_for_each(|&token| self.next(&vec![token; rows]).map(drop))
    }
}
