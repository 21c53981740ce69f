//! The language models of `generate` as one.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use regard_data::SPECIALS;
use regard_nn::models::language_model::LanguageModel;
use regard_nn::models::recurrent_language_model::RecurrentLanguageModel;
use regard_nn::{NnError, Pass};
use regard_ops::CrossEntropyOptions;

use crate::decode::{Decoder, LanguageModelDecoder, RecurrentLanguageModelDecoder, SampleOptions, sample};
use crate::error::TaskError;
use crate::rows::device_of;

/// The network.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "one of them lives in a model")]
pub enum Network {
    /// Self-attention over the tokens before, as GPT.
    Transformer(LanguageModel),
    /// A state that has read them.
    Recurrent(RecurrentLanguageModel),
}

impl Network {
    /// The mean loss of the tokens after each of equally long rows.
    ///
    /// # Shapes
    /// `ids` and `targets` `[batch, seq]` → `[1]`.
    pub(super) fn loss(
        &self,
        ids: Tensor<2, Int>,
        targets: Tensor<2, Int>,
        options: CrossEntropyOptions,
        pass: &Pass,
    ) -> Result<Tensor<1>, NnError> {
        match self {
            Network::Transformer(model) => model.loss(ids, targets, options, pass),
            Network::Recurrent(model) => model.loss(ids, targets, options, pass),
        }
    }

    /// Reads a row of tokens, for what the pass wants to see of it.
    pub(super) fn read(&self, ids: &[u32], pass: &Pass) -> Result<(), NnError> {
        let ids = rows(&[ids], &device_of(self));
        match self {
            Network::Transformer(model) => model.logits(ids, pass).map(drop),
            Network::Recurrent(model) => model.logits(ids, pass).map(drop),
        }
    }

    /// Draws the tokens after `prompt`, `window` being what a Transformer may look back on, and hands them to `token`.
    pub(super) fn draw(
        &self,
        prompt: &[u32],
        window: Option<usize>,
        options: &SampleOptions,
        seed: u64,
        mut token: impl FnMut(u32),
    ) -> Result<(), TaskError> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut go = |decoder: &mut dyn Decoder| {
            sample(&mut Ordinary(decoder), prompt, options, &mut random)?.try_for_each(|drawn| drawn.map(&mut token))
        };
        match self {
            Network::Transformer(model) => go(&mut LanguageModelDecoder::new(model, 1, window)?)?,
            Network::Recurrent(model) => go(&mut RecurrentLanguageModelDecoder::new(model, 1))?,
        }
        Ok(())
    }
}

/// Rows of equally many tokens.
///
/// # Shapes
/// → `[rows, tokens]`.
pub(super) fn rows(rows: &[&[u32]], device: &Device) -> Tensor<2, Int> {
    let shape = [rows.len(), rows.first().map_or(0, |row| row.len())];
    let ids: Vec<i32> = rows.iter().copied().flatten().map(|&id| id as i32).collect();
    Tensor::from_data(TensorData::new(ids, shape), device)
}

/// A decoder that never writes a special token.
struct Ordinary<'a>(&'a mut dyn Decoder);

impl Decoder for Ordinary<'_> {
    fn rows(&self) -> usize {
        self.0.rows()
    }

    fn next(&mut self, last: &[u32]) -> Result<Vec<f32>, NnError> {
        let mut log_probabilities = self.0.next(last)?;
        let vocab = log_probabilities.len() / last.len().max(1);
        for row in log_probabilities.chunks_mut(vocab.max(1)) {
            row.iter_mut().take(SPECIALS.len()).for_each(|x| *x = f32::NEG_INFINITY);
        }
        Ok(log_probabilities)
    }

    fn select(&mut self, rows: &[usize]) -> Result<(), NnError> {
        self.0.select(rows)
    }

    fn read(&mut self, tokens: &[u32]) -> Result<(), NnError> {
        self.0.read(tokens)
    }
}
