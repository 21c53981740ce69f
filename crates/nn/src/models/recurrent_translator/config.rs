//! Configuration of a [`RecurrentTranslator`](super::RecurrentTranslator).

use serde::{Deserialize, Serialize};

use crate::config::{check_positive, check_product, name_or_table};
use crate::error::ConfigError;
use crate::layers::attention::context::Selection;
use crate::layers::recurrent::{Cell, Direction, RecurrentConfig};
use crate::models::recurrent_writer::{Alignment, Attend, RecurrentWriterConfig};
use crate::models::transformer::OutputWeights;

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
        check_product("vocab", &[self.vocab, self.d_model])?;
        self.writer().validate()?;
        if self.direction == Direction::Both && !self.d_hidden.is_multiple_of(2) {
            let allowed = "an even number when direction is both, half of it for each";
            return Err(ConfigError::new("d_hidden", self.d_hidden, allowed));
        }
        self.encoder().validate()
    }

    /// Returns the configuration of the encoder; its directions together have `d_hidden` features.
    pub fn encoder(&self) -> RecurrentConfig {
        let one_way = RecurrentConfig { direction: self.direction, ..self.writer().one_way(self.d_model) };
        RecurrentConfig { d_hidden: self.d_hidden / one_way.directions(), ..one_way }
    }

    /// Returns the configuration of the decoder, its attention and its output.
    pub fn writer(&self) -> RecurrentWriterConfig {
        RecurrentWriterConfig {
            cell: self.cell,
            n_layers: self.n_layers,
            d_model: self.d_model,
            d_hidden: self.d_hidden,
            attention: self.attention,
            selection: self.selection,
            attend: self.attend,
            dropout: self.dropout,
        }
    }
}
