//! Masked language model (BERT, Devlin 2019): an encoder that learns from plain text by predicting hidden tokens.
//!
//! `logits = norm(gelu(h W + b)) Eᵀ + c`, where `E` is the embedding of the tokens. Logits are computed only for the tokens to
//! predict: their states are gathered first, so the product with the vocabulary covers only about 15 % of the tokens.

use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardUniform, Uniform};
use regard_ops::{Activation, CrossEntropyOptions, Precision, linear, linear_cross_entropy};

use super::encoder::Encoder;
use super::transformer::TransformerConfig;
use crate::config::{check_above_zero, check_positive};
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::linear::{Linear, LinearConfig};
use crate::layers::norm::Norm;
use crate::pass::Pass;
use crate::rows::indices;

/// Masked language model; see the [module](self).
#[derive(Module, Debug)]
pub struct MaskedLanguageModel {
    /// Encoder, from which other models can start.
    pub encoder: Encoder,
    /// `W` and `b`, `[d_model, d_model]`.
    pub transform: Linear,
    /// Norm after the activation.
    pub norm: Norm,
    /// Output bias `c`, `[vocab]`.
    pub bias: Param<Tensor<1>>,
}

impl MaskedLanguageModel {
    /// Builds the model. The output always uses the embedding's weights, whatever `config.output_weights` says.
    pub fn new(config: &TransformerConfig, init: &Init) -> Result<Self, ConfigError> {
        let encoder = Encoder::new(config, &init.enter("encoder"))?;
        Ok(Self {
            encoder,
            transform: LinearConfig::new(config.d_model, config.d_model).init(&init.enter("transform"))?,
            norm: config.block().norm().init(&init.enter("norm"))?,
            bias: init.constant([config.vocab], 0.0),
        })
    }

    /// Computes the mean cross-entropy of the tokens that were at `positions`, flat indices `sequence · seq + place`.
    ///
    /// # Shapes
    /// `ids` `[batch, seq]`, `lengths` `[batch]`, `positions` and `targets` `[n]` → `[1]`.
    pub fn loss(
        &self,
        ids: Tensor<2, Int>,
        lengths: Option<Vec<usize>>,
        positions: &[usize],
        targets: Tensor<1, Int>,
        options: CrossEntropyOptions,
        pass: &Pass,
    ) -> Result<Tensor<1>, NnError> {
        let hidden = self.hidden(ids, lengths, positions, pass)?;
        let weight = self.encoder.embedding.tokens.weight.val().transpose();
        Ok(linear_cross_entropy(hidden, weight, Some(self.bias.val()), targets, options, pass.precision())?)
    }

    /// Computes the logits of the tokens at `positions`, flat indices `sequence · seq + place`.
    ///
    /// # Shapes
    /// `ids` `[batch, seq]`, `lengths` `[batch]`, `positions` `[n]` → `[n, vocab]`.
    pub fn logits(
        &self,
        ids: Tensor<2, Int>,
        lengths: Option<Vec<usize>>,
        positions: &[usize],
        pass: &Pass,
    ) -> Result<Tensor<2>, NnError> {
        self.logits_of(self.hidden(ids, lengths, positions, pass)?)
    }

    /// Computes the logits of the tokens with these states, which are those of the encoder.
    ///
    /// # Shapes
    /// `states` `[n, d_model]` → `[n, vocab]`.
    pub fn logits_from(&self, states: Tensor<2>) -> Result<Tensor<2>, NnError> {
        self.logits_of(self.transformed(states)?)
    }

    fn logits_of(&self, hidden: Tensor<2>) -> Result<Tensor<2>, NnError> {
        let weight = self.encoder.embedding.tokens.weight.val().transpose();
        Ok(linear(hidden, weight, Some(self.bias.val()), None, Precision::F32)?)
    }

    /// Computes the features that enter the output from the states of the encoder, `[n, d_model]`.
    fn transformed(&self, states: Tensor<2>) -> Result<Tensor<2>, NnError> {
        Ok(self.norm.forward(self.transform.forward_activated(states, Activation::Gelu)?)?)
    }

    /// Computes the features at `positions` that enter the output, `[n, d_model]`.
    fn hidden(
        &self,
        ids: Tensor<2, Int>,
        lengths: Option<Vec<usize>>,
        positions: &[usize],
        pass: &Pass,
    ) -> Result<Tensor<2>, NnError> {
        let [batch, seq] = ids.dims();
        let last = batch * seq;
        if positions.is_empty() || positions.iter().any(|&position| position >= last) {
            let got = positions.iter().max().map_or("none".to_string(), usize::to_string);
            return Err(NnError::input("positions", format!("one or more, each below {last}"), got));
        }
        let states = self.encoder.forward(ids, lengths, pass)?;
        let (d_model, rows) = (states.dims()[2], indices(positions.iter().copied(), &states.device()));
        self.transformed(states.reshape([last, d_model]).select(0, rows))
    }
}

/// Settings for choosing and hiding the tokens to predict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Masking {
    /// Number of distinct tokens.
    pub vocab: usize,
    /// Number of special tokens. Tokens with a lower id are never hidden and never replace another.
    pub specials: usize,
    /// Id of the token that hides another.
    pub mask: usize,
    /// Probability that a token is to be predicted, 0.15 as published.
    pub probability: f32,
}

/// A batch with tokens to predict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Masked {
    /// Token ids after masking, `[batch, seq]`.
    pub inputs: Vec<i32>,
    /// Positions to predict, as flat indices `sequence · seq + place`.
    pub positions: Vec<usize>,
    /// Original token id at each of the positions.
    pub targets: Vec<i32>,
}

impl Masking {
    /// Creates settings with the published probability.
    pub fn new(vocab: usize, specials: usize, mask: usize) -> Self {
        Self { vocab, specials, mask, probability: 0.15 }
    }

    /// Returns an error if the settings are invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("vocab", self.vocab)?;
        if self.specials >= self.vocab || i32::try_from(self.vocab).is_err() {
            return Err(ConfigError::new("specials", self.specials, format!("fewer than vocab, {}", self.vocab)));
        }
        if self.mask >= self.vocab {
            return Err(ConfigError::new("mask", self.mask, format!("a token id below {}", self.vocab)));
        }
        check_above_zero("probability", self.probability)?;
        if self.probability <= 1.0 {
            return Ok(());
        }
        Err(ConfigError::new("probability", self.probability, "a number above 0, up to 1"))
    }
}

/// Chooses tokens to predict. Of these, 80 % are hidden, 10 % are replaced by a random ordinary token and 10 % are left
/// unchanged, so that the model must represent every token. If none is chosen by chance, one is picked at random. The result
/// is empty only if there are no ordinary tokens.
///
/// # Shapes
/// `ids` `[batch, seq]`, `lengths` `[batch]`.
pub fn mask_tokens(
    ids: &[i32],
    seq: usize,
    lengths: &[usize],
    masking: &Masking,
    random: &mut ChaCha8Rng,
) -> Result<Masked, NnError> {
    masking.validate()?;
    if lengths.len().checked_mul(seq) != Some(ids.len()) || lengths.iter().any(|&length| length > seq) {
        let expected = format!("{} sequences of {seq} tokens, lengths at most {seq}", lengths.len());
        return Err(NnError::input("ids", expected, format!("{} tokens, lengths {lengths:?}", ids.len())));
    }
    let ordinary = |&place: &usize| usize::try_from(ids[place]).is_ok_and(|id| id >= masking.specials);
    let places = lengths.iter().enumerate().flat_map(|(sequence, &length)| sequence * seq..sequence * seq + length);
    let places: Vec<usize> = places.filter(ordinary).collect();
    let mut drawn = || -> f32 { StandardUniform.sample(random) };
    let mut positions: Vec<usize> = places.iter().copied().filter(|_| drawn() < masking.probability).collect();
    if let (true, Ok(any)) = (positions.is_empty(), Uniform::new(0, places.len())) {
        positions.push(places[any.sample(random)]);
    }
    let mut inputs = ids.to_vec();
    let targets = positions.iter().map(|&position| ids[position]).collect();
    let others = Uniform::new(masking.specials as i32, masking.vocab as i32).expect("specials is below vocab");
    for &position in &positions {
        let share: f32 = StandardUniform.sample(random);
        if share < 0.8 {
            inputs[position] = masking.mask as i32;
        } else if share < 0.9 {
            inputs[position] = others.sample(random);
        }
    }
    Ok(Masked { inputs, positions, targets })
}
