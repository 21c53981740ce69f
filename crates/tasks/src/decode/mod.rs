//! Decoding, token by token: search for the most probable sequence ([`greedy`], [`beam`]) or random sampling ([`sample`]).
//!
//! Both use a model only through [`Decoder`]: a batch of unfinished sequences, each with the log-probabilities of its next token.
//! Finished sequences leave the batch, so that short ones cost nothing while long ones go on.

pub mod ctc;
mod models;
mod sample;
mod search;

use regard_nn::NnError;

pub use models::{LanguageModelDecoder, RecurrentDecoder, RecurrentLanguageModelDecoder, TransformerDecoder};
pub use sample::{SampleOptions, sample};
pub use search::{BeamOptions, Ending, Hypothesis, beam, greedy};

/// Returns an error unless there is one prompt per row and none is empty.
fn check_prompts(prompts: &[Vec<u32>], rows: usize) -> Result<(), NnError> {
    if prompts.len() != rows {
        return Err(NnError::input("prompts", format!("{rows}, one per row"), prompts.len().to_string()));
    }
    match prompts.iter().any(Vec::is_empty) {
        true => Err(NnError::input("prompt", "at least one token", "none")),
        false => Ok(()),
    }
}

/// A model that continues a batch of sequences, one per row.
pub trait Decoder {
    /// Returns the number of rows.
    fn rows(&self) -> usize;

    /// Appends the last token to each row and returns the log-probabilities of the next, `[rows, vocab]` in row-major order.
    fn next(&mut self, last: &[u32]) -> Result<Vec<f32>, NnError>;

    /// Keeps only these rows, in this order; a row may be repeated.
    fn select(&mut self, rows: &[usize]) -> Result<(), NnError>;

    /// Appends a prompt to each row and returns the log-probabilities of the next token, as [`next`](Self::next) does. Prompts
    /// must have the same length unless the decoder supports different ones.
    fn begin(&mut self, prompts: &[Vec<u32>]) -> Result<Vec<f32>, NnError> {
        check_prompts(prompts, self.rows())?;
        let length = prompts.first().map_or(0, Vec::len);
        if prompts.iter().any(|prompt| prompt.len() != length) {
            return Err(NnError::input("prompts", format!("{length} tokens each"), "different lengths"));
        }
        let mut found = Vec::new();
        for place in 0..length {
            found = self.next(&prompts.iter().map(|prompt| prompt[place]).collect::<Vec<_>>())?;
        }
        Ok(found)
    }
}
