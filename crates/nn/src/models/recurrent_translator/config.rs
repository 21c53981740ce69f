//! Configuration of a [`RecurrentTranslator`](super::RecurrentTranslator).

use serde::{Deserialize, Serialize};

use crate::config::{check_dropout, check_positive, check_product, name_or_table};
use crate::error::ConfigError;
use crate::layers::attention::context::{ContextConfig, Selection};
use crate::layers::attention::score::{ScoreConfig, ScoreKind};
use crate::layers::linear::LinearConfig;
use crate::layers::recurrent::{Cell, Direction, RecurrentConfig};
use crate::models::transformer::OutputWeights;

/// Score of the decoder's attention over the source, with `s` the decoder's state and `h` a state of the encoder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Alignment {
    /// No attention: the decoder gets only the last state of the encoder (Sutskever 2014, Cho 2014).
    None,
    /// `vᵀ tanh(W s + U h + b)` with `d_hidden` hidden units (Bahdanau 2015).
    Additive,
    /// `s·h` (Luong 2015).
    Dot,
    /// `sᵀ W h` (Luong 2015).
    #[default]
    General,
    /// `s·h / √d_hidden`.
    ScaledDot,
}

/// When the decoder attends to the source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attend {
    /// Before each step, with the state `s_{t−1}` as query; the context enters the step (Bahdanau 2015). The decoder runs
    /// step by step even in training.
    Before,
    /// After each step, with its state `s_t` as query; the context enters only the output (Luong 2015). All steps are
    /// computed at once, which trains about twice as fast (batch 64, 16 words, 256 features, vocabulary 4,000).
    #[default]
    After,
}

/// Configuration of a [`RecurrentTranslator`](super::RecurrentTranslator).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecurrentTranslatorConfig {
    /// Number of distinct tokens of the source.
    pub vocab: usize,
    /// Number of distinct tokens of the target; if `None`, source and target share one embedding.
    pub target_vocab: Option<usize>,
    /// Recurrent cell: RNN, LSTM or GRU.
    #[serde(deserialize_with = "name_or_table")]
    pub cell: Cell,
    /// Number of layers in the encoder, and in the decoder.
    pub n_layers: usize,
    /// Features per token.
    pub d_model: usize,
    /// Features of a state; an encoder with both directions has half of them in each.
    pub d_hidden: usize,
    /// Direction in which the encoder reads.
    pub direction: Direction,
    /// Score of the attention over the source, or no attention.
    pub attention: Alignment,
    /// Soft attention over the whole source, or hard attention to one word of it.
    #[serde(deserialize_with = "name_or_table")]
    pub selection: Selection,
    /// When the decoder attends to the source.
    pub attend: Attend,
    /// Source of the output layer's matrix.
    pub output_weights: OutputWeights,
    /// Dropout probability of embeddings, between layers, and of the features before the output.
    pub dropout: f32,
}

impl Default for RecurrentTranslatorConfig {
    fn default() -> Self {
        Self {
            vocab: 8_000,
            target_vocab: None,
            cell: Cell::lstm(),
            n_layers: 1,
            d_model: 256,
            d_hidden: 256,
            direction: Direction::Both,
            attention: Alignment::default(),
            selection: Selection::default(),
            attend: Attend::default(),
            output_weights: OutputWeights::default(),
            dropout: 0.1,
        }
    }
}

impl RecurrentTranslatorConfig {
    /// Returns an error if the configuration is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("vocab", self.vocab)?;
        if let Some(vocab) = self.target_vocab {
            check_positive("target_vocab", vocab)?;
            check_product("target_vocab", &[vocab, self.d_model])?;
        }
        check_positive("d_model", self.d_model)?;
        check_product("vocab", &[self.vocab, self.d_model])?;
        check_positive("d_hidden", self.d_hidden)?;
        check_product("d_hidden", &[self.d_hidden, self.cell.gates(), self.d_hidden.saturating_add(self.d_model)])?;
        check_dropout("dropout", self.dropout)?;
        if self.direction == Direction::Both && !self.d_hidden.is_multiple_of(2) {
            let allowed = "an even number when direction is both, half of it for each";
            return Err(ConfigError::new("d_hidden", self.d_hidden, allowed));
        }
        if self.attention == Alignment::None && self.selection != Selection::Soft {
            return Err(ConfigError::new("selection", "hard", "soft when attention is none"));
        }
        self.encoder().validate()?;
        match self.context() {
            Some(context) => context.validate(),
            None => Ok(()),
        }
    }

    /// Returns the configuration of the encoder; its directions together have `d_hidden` features.
    pub fn encoder(&self) -> RecurrentConfig {
        let one_way = RecurrentConfig { direction: self.direction, ..self.recurrent(self.d_model) };
        RecurrentConfig { d_hidden: self.d_hidden / one_way.directions(), ..one_way }
    }

    /// Returns the configuration of the decoder.
    pub fn decoder(&self) -> RecurrentConfig {
        let context = if self.looks_before() { self.d_hidden } else { 0 };
        self.recurrent(self.d_model + context)
    }

    /// Returns the configuration of the attention, or `None` for no attention.
    pub fn context(&self) -> Option<ContextConfig> {
        let kind = match self.attention {
            Alignment::None => return None,
            Alignment::Additive => ScoreKind::Additive { d_hidden: self.d_hidden },
            Alignment::Dot => ScoreKind::Dot,
            Alignment::General => ScoreKind::General,
            Alignment::ScaledDot => ScoreKind::ScaledDot,
        };
        let score = ScoreConfig { kind, d_query: self.d_hidden, d_key: self.d_hidden };
        Some(ContextConfig { score, selection: self.selection })
    }

    /// Returns the configuration of the layer between states and output.
    pub fn readout(&self) -> LinearConfig {
        let context = if self.attention == Alignment::None { 0 } else { self.d_hidden };
        LinearConfig::new(self.d_hidden + context + self.d_model, self.d_model)
    }

    /// Returns whether the decoder attends before each step.
    pub(super) fn looks_before(&self) -> bool {
        self.attention != Alignment::None && self.attend == Attend::Before
    }

    fn recurrent(&self, d_in: usize) -> RecurrentConfig {
        RecurrentConfig::new(self.cell, d_in, self.d_hidden).with_layers(self.n_layers, self.dropout)
    }
}
