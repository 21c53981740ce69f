//! Decoding, token by token: search for the most probable sequence ([`greedy`], [`beam`]) or random sampling ([`sample`]).
//!
//! Both use a model only through [`Decoder`]: a batch of unfinished sequences, each with the logits of its next token.
//! Finished sequences leave the batch, so that short ones cost nothing while long ones go on.

pub mod ctc;
mod models;
mod plan;
mod rules;
mod sample;
mod search;
mod sequence;

use regard_nn::NnError;

pub use models::{LanguageModelDecoder, RecurrentDecoder, RecurrentLanguageModelDecoder, TransformerDecoder};
pub use plan::{Chat, Plan, Wish};
pub use rules::{Rules, Summed};
pub use sample::{Next, SampleOptions, sample, sample_by_rules};
pub use search::{BeamOptions, Ending, Hypothesis, Patience, Ranking, SearchOptions, beam, greedy, search};
pub use sequence::{Sequence, continued};

/// The beginning of a sequence, and how many tokens may follow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Tokens that the model reads first, at least one.
    pub tokens: Vec<u32>,
    /// Largest number of tokens that follow.
    pub limit: usize,
}

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

    /// Appends the last token to each row and returns the logits of the next, `[rows, vocab]` in row-major order: numbers whose
    /// softmax is its distribution.
    fn next(&mut self, last: &[u32]) -> Result<Vec<f32>, NnError>;

    /// Keeps only these rows, in this order; a row may be repeated.
    fn select(&mut self, rows: &[usize]) -> Result<(), NnError>;

    /// Appends a prompt to each row and returns the logits of the next token, as [`next`](Self::next) does. Prompts
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

impl<D: Decoder + ?Sized> Decoder for Box<D> {
    fn rows(&self) -> usize {
        (**self).rows()
    }

    fn next(&mut self, last: &[u32]) -> Result<Vec<f32>, NnError> {
        (**self).next(last)
    }

    fn select(&mut self, rows: &[usize]) -> Result<(), NnError> {
        (**self).select(rows)
    }

    fn begin(&mut self, prompts: &[Vec<u32>]) -> Result<Vec<f32>, NnError> {
        (**self).begin(prompts)
    }
}
