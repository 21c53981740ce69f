//! Recurrent language model (Mikolov 2010): predicts the next token from a state that has read the tokens before it.
//!
//! `logits_t = V p(h_t) + c`, where `h_t = cell(x_t, h_{t−1})`, `x` is the embedding times `√d_model` and `p` an optional
//! projection.

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use regard_ops::CrossEntropyOptions;
use serde::{Deserialize, Serialize};

use super::stack::Output;
use super::transformer::OutputWeights;
use crate::config::{check_dropout, check_positive, check_product, name_or_table};
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::dropout::Dropout;
use crate::layers::embedding::{Embedding, EmbeddingConfig, check_tokens};
use crate::layers::linear::{Linear, LinearConfig};
use crate::layers::recurrent::{Cell, Recurrent, RecurrentConfig, RecurrentOutput, RecurrentState};
use crate::pass::Pass;

/// Configuration of a [`RecurrentLanguageModel`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecurrentLanguageModelConfig {
    /// Number of distinct tokens.
    pub vocab: usize,
    /// Recurrent cell: RNN, LSTM or GRU.
    #[serde(deserialize_with = "name_or_table")]
    pub cell: Cell,
    /// Number of recurrent layers.
    pub n_layers: usize,
    /// Features per token.
    pub d_model: usize,
    /// Features of a state.
    pub d_hidden: usize,
    /// Features between state and output; if `None`, there is no projection.
    pub d_projection: Option<usize>,
    /// Source of the output layer's matrix; the embedding requires that `d_model` features reach the output.
    pub output_weights: OutputWeights,
    /// Dropout probability of embeddings, between layers, and of the features before the output.
    pub dropout: f32,
}

impl Default for RecurrentLanguageModelConfig {
    fn default() -> Self {
        Self {
            vocab: 8_000,
            cell: Cell::lstm(),
            n_layers: 1,
            d_model: 256,
            d_hidden: 256,
            d_projection: None,
            output_weights: OutputWeights::default(),
            dropout: 0.1,
        }
    }
}

impl RecurrentLanguageModelConfig {
    /// Returns an error if the configuration is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("vocab", self.vocab)?;
        check_positive("d_model", self.d_model)?;
        check_product("vocab", &[self.vocab, self.d_model.max(self.d_output())])?;
        check_positive("d_hidden", self.d_hidden)?;
        check_product("d_hidden", &[self.d_hidden, self.cell.gates(), self.d_hidden.saturating_add(self.d_model)])?;
        check_dropout("dropout", self.dropout)?;
        if let Some(d_projection) = self.d_projection {
            check_positive("d_projection", d_projection)?;
        }
        if self.output_weights == OutputWeights::Embedding && self.d_output() != self.d_model {
            let field = if self.d_projection.is_some() { "d_projection" } else { "d_hidden" };
            let allowed = format!(
                "d_model = {}, or d_projection set to it, when the output uses the embedding's weights",
                self.d_model
            );
            return Err(ConfigError::new(field, self.d_output(), allowed));
        }
        self.recurrent().validate()
    }

    /// Returns the configuration of the recurrent layers.
    pub fn recurrent(&self) -> RecurrentConfig {
        RecurrentConfig::new(self.cell, self.d_model, self.d_hidden).with_layers(self.n_layers, self.dropout)
    }

    /// Returns the number of features that reach the output.
    fn d_output(&self) -> usize {
        self.d_projection.unwrap_or(self.d_hidden)
    }
}

/// Recurrent language model; see the [module](self).
#[derive(Module, Debug)]
pub struct RecurrentLanguageModel {
    /// Embedding table, `[vocab, d_model]`.
    pub embedding: Embedding,
    /// Recurrent layers.
    pub recurrent: Recurrent,
    /// Optional projection `p`, `[d_hidden, d_projection]`.
    pub projection: Option<Linear>,
    /// `V` and `c`, the output layer over the vocabulary.
    pub output: Output,
    embedding_dropout: Dropout,
    output_dropout: Dropout,
    scale: f32,
}

impl RecurrentLanguageModel {
    /// Builds the model.
    pub fn new(config: &RecurrentLanguageModelConfig, init: &Init) -> Result<Self, ConfigError> {
        config.validate()?;
        let RecurrentLanguageModelConfig { vocab, d_model, d_hidden, .. } = *config;
        let projection = |d_out| LinearConfig::new(d_hidden, d_out).init(&init.enter("projection"));
        let output = LinearConfig::new(config.d_output(), vocab);
        Ok(Self {
            embedding: EmbeddingConfig { vocab, d_model }.init(&init.enter("embedding"))?,
            recurrent: config.recurrent().init(&init.enter("recurrent"))?,
            projection: config.d_projection.map(projection).transpose()?,
            output: Output::of(output, config.output_weights, &init.enter("output"))?,
            embedding_dropout: Dropout::new("dropout", config.dropout, &init.enter("embedding_dropout"))?,
            output_dropout: Dropout::new("dropout", config.dropout, &init.enter("output_dropout"))?,
            scale: (d_model as f32).sqrt(),
        })
    }

    /// Computes the logits of the token after each input token.
    ///
    /// # Shapes
    /// `ids` `[batch, seq]` → `[batch, seq, vocab]`.
    pub fn logits(&self, ids: Tensor<2, Int>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        let (features, _) = self.features(ids, None, pass)?;
        Ok(self.output.logits(features, &self.embedding)?)
    }

    /// Computes the mean cross-entropy of the token after each input token.
    ///
    /// # Shapes
    /// `ids` and `targets` `[batch, seq]` → `[1]`.
    pub fn loss(
        &self,
        ids: Tensor<2, Int>,
        targets: Tensor<2, Int>,
        options: CrossEntropyOptions,
        pass: &Pass,
    ) -> Result<Tensor<1>, NnError> {
        let (features, _) = self.features(ids, None, pass)?;
        Ok(self.output.loss(features, &self.embedding, targets, options, pass)?)
    }

    /// Returns the state before the first token.
    pub fn start(&self, batch: usize) -> RecurrentState {
        self.recurrent.zero_state(batch)
    }

    /// Same as [`logits`](Self::logits) for tokens that follow those that `state` has read; advances `state`.
    ///
    /// # Shapes
    /// `ids` `[batch, new]` → `[batch, new, vocab]`.
    pub fn logits_from(
        &self,
        state: &mut RecurrentState,
        ids: Tensor<2, Int>,
        pass: &Pass,
    ) -> Result<Tensor<3>, NnError> {
        let (features, after) = self.features(ids, Some(state.clone()), pass)?;
        *state = after;
        Ok(self.output.logits(features, &self.embedding)?)
    }

    /// Computes one step: the logits of the token after `ids`.
    ///
    /// # Shapes
    /// `ids` `[batch]` → `[batch, vocab]`.
    pub fn step(&self, ids: Tensor<1, Int>, state: &mut RecurrentState, pass: &Pass) -> Result<Tensor<2>, NnError> {
        Ok(self.logits_from(state, ids.unsqueeze_dim(1), pass)?.squeeze_dim(1))
    }

    /// Computes the features before the output, `[batch, seq, d_projection or d_hidden]`, and the state after the last token.
    fn features(
        &self,
        ids: Tensor<2, Int>,
        state: Option<RecurrentState>,
        pass: &Pass,
    ) -> Result<(Tensor<3>, RecurrentState), NnError> {
        check_tokens("tokens", &ids)?;
        let x = self.embedding_dropout.forward(self.embedding.forward(ids)? * self.scale, pass)?;
        let RecurrentOutput { hidden, state } = self.recurrent.forward(x, None, state, pass)?;
        let features = match &self.projection {
            Some(projection) => projection.forward(hidden)?,
            None => hidden,
        };
        Ok((self.output_dropout.forward(features, pass)?, state))
    }
}
