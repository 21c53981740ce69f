//! Configuration of a [`Recurrent`] network.

use regard_ops::GruReset;
use serde::{Deserialize, Serialize};

use super::weights::RecurrentWeights;
use super::{Recurrent, RecurrentLayer};
use crate::config::{check_dropout, check_positive, name_or_table, no_settings};
use crate::error::ConfigError;
use crate::init::Init;
use crate::layers::dropout::Dropout;

/// The recurrent cell. In a file it is a name, `cell = "lstm"`, or a table, `cell = { kind = "gru", reset = … }`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Cell {
    /// Plain recurrent network, `h_t = tanh(A [h_{t−1}; x_t] + b)`.
    #[serde(deserialize_with = "no_settings")]
    Rnn,
    /// Long short-term memory.
    Lstm {
        /// Number added to the initial bias of the forget gate. The default is 0, as in PyTorch. With 1 (Jozefowicz 2015),
        /// an untrained cell remembers, which helps with long-range dependencies.
        #[serde(default)]
        forget_bias: f32,
    },
    /// Gated recurrent unit.
    Gru {
        /// Where the reset gate is applied: `after_product`, as in PyTorch, or `before_product`, as published.
        #[serde(default = "after_product", with = "ResetName")]
        reset: GruReset,
    },
}

impl Cell {
    /// Returns an LSTM with the defaults of PyTorch.
    pub fn lstm() -> Self {
        Self::Lstm { forget_bias: 0.0 }
    }

    /// Returns a GRU with the defaults of PyTorch.
    pub fn gru() -> Self {
        Self::Gru { reset: GruReset::AfterProduct }
    }

    /// Returns the width of the weights as a multiple of `d_hidden`.
    pub fn gates(&self) -> usize {
        match self {
            Self::Rnn => 1,
            Self::Lstm { .. } => 4,
            Self::Gru { .. } => 3,
        }
    }
}

/// The names of [`GruReset`] in configurations.
#[derive(Serialize, Deserialize)]
#[serde(remote = "GruReset", rename_all = "snake_case")]
enum ResetName {
    AfterProduct,
    BeforeProduct,
}

fn after_product() -> GruReset {
    GruReset::AfterProduct
}

/// The direction in which a layer reads its sequence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the first step to the last.
    #[default]
    Forward,
    /// From the last step of each sequence to the first.
    Backward,
    /// Both directions, with the forward features before the backward ones.
    Both,
}

/// Configuration of a [`Recurrent`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecurrentConfig {
    /// Recurrent cell.
    #[serde(deserialize_with = "name_or_table")]
    pub cell: Cell,
    /// Number of input features.
    pub d_in: usize,
    /// Number of hidden units of each layer and direction.
    pub d_hidden: usize,
    /// Number of layers; each reads the hidden states of the previous one.
    #[serde(default = "one")]
    pub n_layers: usize,
    /// Direction in which every layer reads.
    #[serde(default)]
    pub direction: Direction,
    /// Dropout probability between layers; must be 0 with one layer.
    #[serde(default)]
    pub dropout: f32,
}

fn one() -> usize {
    1
}

impl RecurrentConfig {
    /// Returns a configuration of one forward layer.
    pub fn new(cell: Cell, d_in: usize, d_hidden: usize) -> Self {
        Self { cell, d_in, d_hidden, n_layers: 1, direction: Direction::Forward, dropout: 0.0 }
    }

    /// Sets the number of layers, and the dropout between them if there are two or more.
    pub fn with_layers(self, n_layers: usize, dropout: f32) -> Self {
        Self { n_layers, dropout: if n_layers > 1 { dropout } else { 0.0 }, ..self }
    }

    /// Returns the number of output features.
    pub fn d_out(&self) -> usize {
        self.directions() * self.d_hidden
    }

    /// Returns the number of directions of each layer, 1 or 2.
    pub fn directions(&self) -> usize {
        if self.direction == Direction::Both { 2 } else { 1 }
    }

    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("d_in", self.d_in)?;
        check_positive("d_hidden", self.d_hidden)?;
        check_positive("n_layers", self.n_layers)?;
        check_dropout("dropout", self.dropout)?;
        if self.n_layers == 1 && self.dropout > 0.0 {
            return Err(ConfigError::new("dropout", self.dropout, "0 with one layer, as it acts between layers"));
        }
        match self.cell {
            Cell::Lstm { forget_bias } if !forget_bias.is_finite() => {
                Err(ConfigError::new("cell.forget_bias", forget_bias, "a finite number"))
            }
            _ => Ok(()),
        }
    }

    /// Creates the network. Initial weights and biases are uniform in `±1/√d_hidden`, as in PyTorch.
    pub fn init(&self, init: &Init) -> Result<Recurrent, ConfigError> {
        self.validate()?;
        let layers =
            (0..self.n_layers).map(|n| self.layer(n, &init.enter("layers").enter(n))).collect::<Result<_, _>>()?;
        Ok(Recurrent { layers, config: *self })
    }

    fn layer(&self, n: usize, init: &Init) -> Result<RecurrentLayer, ConfigError> {
        let d_in = if n == 0 { self.d_in } else { self.d_out() };
        let weights = |name| RecurrentWeights::new(self.cell, d_in, self.d_hidden, &init.enter(name));
        let dropout = || Dropout::new("dropout", self.dropout, &init.enter("dropout"));
        Ok(RecurrentLayer {
            dropout: if n == 0 { None } else { Some(dropout()?) },
            forward: (self.direction != Direction::Backward).then(|| weights("forward")),
            backward: (self.direction != Direction::Forward).then(|| weights("backward")),
        })
    }
}
