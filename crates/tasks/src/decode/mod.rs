//! Writing a sequence token by token: the best one ([`greedy`], [`beam`]) or one of many ([`sample`]).
//!
//! A search knows a model only as a [`Decoder`]: rows of sequences under way, each with the log-probabilities of its next
//! token. Rows that have ended leave the batch, so that short sentences cost nothing while long ones go on.

mod models;
mod sample;
mod search;

use regard_nn::NnError;

pub use models::{LanguageModelDecoder, RecurrentLanguageModelDecoder, RecurrentTranslatorDecoder, TranslatorDecoder};
pub use sample::{SampleOptions, sample};
pub use search::{BeamOptions, Ending, Hypothesis, beam, greedy};

/// Refuses another number of prompts than rows, and empty ones.
fn check_prompts(prompts: &[Vec<u32>], rows: usize) -> Result<(), NnError> {
    if prompts.len() != rows {
        return Err(NnError::input("prompts", format!("{rows}, one a row"), prompts.len().to_string()));
    }
    match prompts.iter().any(Vec::is_empty) {
        true => Err(NnError::input("prompt", "at least one token", "none")),
        false => Ok(()),
    }
}

/// Sequences under way.
pub trait Decoder {
    /// How many there are.
    fn rows(&self) -> usize;

    /// Takes in the last token of each row; gives the log-probabilities of the next, `rows × vocab`, row by row.
    fn next(&mut self, last: &[u32]) -> Result<Vec<f32>, NnError>;

    /// Goes on with these rows, in this order and as often as they are named.
    fn select(&mut self, rows: &[usize]) -> Result<(), NnError>;

    /// Takes in what each row begins with, which may differ in length where the decoder says so; gives the
    /// log-probabilities of the tokens after it, as [`next`](Self::next).
    fn begin(&mut self, prompts: &[Vec<u32>]) -> Result<Vec<f32>, NnError> {
        check_prompts(prompts, self.rows())?;
        let length = prompts.first().map_or(0, Vec::len);
        if prompts.iter().any(|prompt| prompt.len() != length) {
            return Err(NnError::input("prompts", format!("{length} tokens each"), "others"));
        }
        let mut found = Vec::new();
        for place in 0..length {
            found = self.next(&prompts.iter().map(|prompt| prompt[place]).collect::<Vec<_>>())?;
        }
        Ok(found)
    }
}
