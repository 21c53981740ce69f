//! Recurrent models: an optional embedding, layers of RNN, LSTM or GRU, and an optional output layer.

use regard_nn::ConfigError;
use regard_nn::config::{check_positive, name_or_table};
use regard_nn::layers::linear::Bias;
use regard_nn::layers::recurrent::{Cell, Direction, RecurrentConfig};
use serde::{Deserialize, Serialize};

use super::description::Sizes;
use super::part::Draft;
use super::quantity::{Quantity, q};

/// Biases of a recurrent layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecurrentBias {
    /// The biases that the layer can distinguish, as in our operations: two for a GRU, one for the others.
    #[default]
    Needed,
    /// One bias for the input and one for the state, as in PyTorch.
    Two,
    /// No biases.
    None,
}

/// A recurrent model: the fields of [`RecurrentConfig`], with an optional embedding and an optional output layer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecurrentModel {
    /// RNN, LSTM or GRU.
    #[serde(deserialize_with = "name_or_table")]
    pub cell: Cell,
    /// Number of features of a token.
    pub d_in: usize,
    /// Number of hidden units of each layer and direction.
    pub d_hidden: usize,
    /// Number of layers.
    pub n_layers: usize,
    /// The direction in which every layer reads.
    pub direction: Direction,
    /// Dropout between layers; 0 with one layer.
    pub dropout: f32,
    /// Biases of the gates.
    pub bias: RecurrentBias,
    /// Number of tokens of an embedding with `d_in` features. If `None`, the input consists of features.
    pub vocab: Option<usize>,
    /// Number of classes of an output layer over every token. If `None`, there is no output layer.
    pub outputs: Option<usize>,
    /// Bias of the output layer.
    pub output_bias: Bias,
}

impl Default for RecurrentModel {
    /// A forward LSTM with one layer, 256 input features and 256 units.
    fn default() -> Self {
        RecurrentConfig::new(Cell::lstm(), 256, 256).into()
    }
}

impl From<RecurrentConfig> for RecurrentModel {
    /// A model of these layers alone.
    fn from(layers: RecurrentConfig) -> Self {
        let RecurrentConfig { cell, d_in, d_hidden, n_layers, direction, dropout } = layers;
        Self {
            cell,
            d_in,
            d_hidden,
            n_layers,
            direction,
            dropout,
            bias: RecurrentBias::Needed,
            vocab: None,
            outputs: None,
            output_bias: Bias::Learned,
        }
    }
}

impl RecurrentModel {
    /// Returns the configuration of the layers.
    pub fn layers(&self) -> RecurrentConfig {
        let Self { cell, d_in, d_hidden, n_layers, direction, dropout, .. } = *self;
        RecurrentConfig { cell, d_in, d_hidden, n_layers, direction, dropout }
    }

    /// Returns an error if the layers are invalid or a size is zero.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.layers().validate()?;
        self.vocab.map_or(Ok(()), |vocab| check_positive("vocab", vocab))?;
        self.outputs.map_or(Ok(()), |outputs| check_positive("outputs", outputs))
    }

    pub(super) fn draft(&self, sizes: &Sizes) -> Draft {
        let tokens = sizes.tokens();
        let width = q(self.d_hidden) * self.layers().directions();
        let embedding = self.vocab.map(|vocab| {
            Draft::new("embedding").parameters(q(vocab) * self.d_in).keeps_bytes(tokens * size_of::<i64>())
        });
        let mut root = Draft::new("model").with_all(embedding);
        // The states passed to the next layer are those that their layer keeps anyway (reversed, only read from the end),
        // unless they are joined or dropped out.
        let joined = if self.direction == Direction::Both { tokens * width } else { Quantity::ZERO };
        let above = if self.dropout > 0.0 { tokens * width } else { joined };
        root = root.with(self.layer("first_layer", q(self.d_in), tokens * self.d_in, sizes));
        if self.n_layers > 1 {
            root = root.with(self.layer("layers", width, above, sizes).times(self.n_layers - 1));
        }
        match self.outputs {
            Some(outputs) => {
                let bias = self.output_bias == Bias::Learned;
                root.with(
                    Draft::new("output")
                        .linear(tokens, width, q(outputs), bias)
                        .keeps(tokens * width)
                        .keeps_bytes(tokens * size_of::<i64>()),
                )
            }
            None => root.keeps(joined),
        }
    }

    pub(super) fn logits(&self, sizes: &Sizes) -> Quantity {
        sizes.tokens() * self.outputs.unwrap_or(0)
    }

    fn layer(&self, name: &str, d_in: Quantity, kept_input: Quantity, sizes: &Sizes) -> Draft {
        let (tokens, d_hidden) = (sizes.tokens(), q(self.d_hidden));
        let wide = d_hidden * self.cell.gates();
        let biases = match (self.bias, self.cell) {
            (RecurrentBias::None, _) => 0,
            (RecurrentBias::Needed, Cell::Rnn | Cell::Lstm { .. }) => 1,
            (RecurrentBias::Needed, Cell::Gru { .. }) | (RecurrentBias::Two, _) => 2,
        };
        let input = Draft::new("input").linear(tokens, d_in, wide, false).keeps(kept_input);
        // The hidden states and what the operation of each cell saves beside them. An initial state has one row per sequence.
        let states = tokens * d_hidden;
        let first = q(sizes.batch) * d_hidden;
        let kept = match self.cell {
            Cell::Rnn => states + first,
            Cell::Lstm { .. } => states * 6 + first * 3,
            Cell::Gru { .. } => states * 5 + first,
        };
        let state = Draft::new("state").linear(tokens, d_hidden, wide, false).keeps(kept);
        let bias = Draft::new("bias").parameters(wide * biases);
        match self.layers().directions() {
            1 => Draft::new(name).with_all([input, state, bias]),
            both => Draft::new(name).with(Draft::new("directions").with_all([input, state, bias]).times(both)),
        }
    }
}
