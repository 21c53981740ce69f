//! One type for the language models of `generate`, a Transformer or a recurrent network.

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use regard_data::SPECIALS;
use regard_nn::models::language_model::LanguageModel;
use regard_nn::models::recurrent_language_model::RecurrentLanguageModel;
use regard_nn::{NnError, Pass};
use regard_ops::CrossEntropyOptions;

use crate::decode::{Decoder, LanguageModelDecoder, RecurrentLanguageModelDecoder, SampleOptions, sample};
use crate::error::TaskError;
use crate::rows::{device_of, matrix};

/// A language model.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a model has only one")]
pub enum Network {
    /// Causal Transformer, such as GPT.
    Transformer(LanguageModel),
    /// Recurrent network.
    Recurrent(RecurrentLanguageModel),
}

impl Network {
    /// Computes the mean loss over rows of equal length.
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

    /// Passes a row of tokens through the model so that `pass` can capture its attention.
    pub(super) fn read(&self, ids: &[u32], pass: &Pass) -> Result<(), NnError> {
        let ids = matrix(&[ids], &device_of(self));
        match self {
            Network::Transformer(model) => model.logits(ids, pass).map(drop),
            Network::Recurrent(model) => model.logits(ids, pass).map(drop),
        }
    }

    /// Samples the tokens after a prompt and calls `token` with each. `window` is the number of tokens that a Transformer may look
    /// back on.
    pub(super) fn draw(
        &self,
        prompt: Vec<u32>,
        seed: u64,
        window: Option<usize>,
        options: &SampleOptions,
        mut token: impl FnMut(u32),
    ) -> Result<(), TaskError> {
        let mut random = [ChaCha8Rng::seed_from_u64(seed)];
        self.decode(1, window, &Pass::inference(), |decoder| {
            Ok(sample(decoder, &[prompt], options, &mut random, |_, next| token(next))?)
        })
    }

    /// Calls `go` with a decoder of `rows` empty sequences that never writes a special token. `window` is the number of tokens that
    /// a Transformer may look back on.
    pub(super) fn decode(
        &self,
        rows: usize,
        window: Option<usize>,
        pass: &Pass,
        go: impl FnOnce(&mut Ordinary) -> Result<(), TaskError>,
    ) -> Result<(), TaskError> {
        match self {
            Network::Transformer(model) => {
                go(&mut Ordinary(&mut LanguageModelDecoder::new(model, rows, window, *pass)?))
            }
            Network::Recurrent(model) => go(&mut Ordinary(&mut RecurrentLanguageModelDecoder::new(model, rows, *pass))),
        }
    }
}

/// A decoder that never generates a special token.
pub(super) struct Ordinary<'a>(&'a mut dyn Decoder);

impl Decoder for Ordinary<'_> {
    fn rows(&self) -> usize {
        self.0.rows()
    }

    fn next(&mut self, last: &[u32]) -> Result<Vec<f32>, NnError> {
        let found = self.0.next(last)?;
        Ok(without_specials(found, last.len()))
    }

    fn select(&mut self, rows: &[usize]) -> Result<(), NnError> {
        self.0.select(rows)
    }

    fn begin(&mut self, prompts: &[Vec<u32>]) -> Result<Vec<f32>, NnError> {
        let found = self.0.begin(prompts)?;
        Ok(without_specials(found, prompts.len()))
    }
}

fn without_specials(mut logits: Vec<f32>, rows: usize) -> Vec<f32> {
    let vocab = logits.len() / rows.max(1);
    for row in logits.chunks_mut(vocab.max(1)) {
        row.iter_mut().take(SPECIALS.len()).for_each(|x| *x = f32::NEG_INFINITY);
    }
    logits
}
