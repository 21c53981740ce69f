//! Configuration of the parts of a [`RecurrentWriter`](super::RecurrentWriter).

use serde::{Deserialize, Serialize};

use crate::config::{check_dropout, check_positive, check_product};
use crate::error::ConfigError;
use crate::layers::attention::context::{ContextConfig, Selection};
use crate::layers::attention::score::{ScoreConfig, ScoreKind};
use crate::layers::linear::LinearConfig;
use crate::layers::recurrent::{Cell, RecurrentConfig};

/// Score of a decoder's attention over its sources, with `s` the decoder's state and `h` a source: a state of an encoder or a
/// feature of a picture.
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

/// When a decoder attends to its sources.
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

/// Sizes and kinds of the parts of a [`RecurrentWriter`](super::RecurrentWriter). The model that owns the parts creates them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecurrentWriterConfig {
    /// Recurrent cell: RNN, LSTM or GRU.
    pub cell: Cell,
    /// Number of recurrent layers.
    pub n_layers: usize,
    /// Features per token.
    pub d_model: usize,
    /// Features of a state, and of a source.
    pub d_hidden: usize,
    /// Score of the attention over the sources, or no attention.
    pub attention: Alignment,
    /// Soft attention over all sources, or hard attention to one of them.
    pub selection: Selection,
    /// When the writer attends to the sources.
    pub attend: Attend,
    /// Dropout probability of embeddings, between layers, and of the features before the output.
    pub dropout: f32,
}

impl RecurrentWriterConfig {
    /// Returns an error if the configuration is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("d_model", self.d_model)?;
        check_positive("d_hidden", self.d_hidden)?;
        check_product("d_hidden", &[self.d_hidden, self.cell.gates(), self.d_hidden.saturating_add(self.d_model)])?;
        check_dropout("dropout", self.dropout)?;
        if self.attention == Alignment::None && self.selection != Selection::Soft {
            return Err(ConfigError::new("selection", "hard", "soft when attention is none"));
        }
        self.cells().validate()?;
        match self.context() {
            Some(context) => context.validate(),
            None => Ok(()),
        }
    }

    /// Returns the configuration of the recurrent layers.
    pub fn cells(&self) -> RecurrentConfig {
        let context = if self.looks_before() { self.d_hidden } else { 0 };
        self.one_way(self.d_model + context)
    }

    /// Returns the configuration of recurrent layers of the same kind and width that read `d_in` features forward.
    pub(in crate::models) fn one_way(&self, d_in: usize) -> RecurrentConfig {
        RecurrentConfig::new(self.cell, d_in, self.d_hidden).with_layers(self.n_layers, self.dropout)
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

    /// Returns whether the writer attends before each step.
    pub(super) fn looks_before(&self) -> bool {
        self.attention != Alignment::None && self.attend == Attend::Before
    }
}
