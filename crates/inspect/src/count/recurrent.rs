//! Recurrent models: an embedding or given features, layers of RNN, LSTM or GRU, an output layer.

use regard_nn::ConfigError;
use regard_nn::config::{check_positive, name_or_table};
use regard_nn::layers::linear::Bias;
use regard_nn::layers::recurrent::{Cell, Direction, RecurrentConfig};
use serde::{Deserialize, Serialize};

use super::description::Sizes;
use super::part::Draft;
use super::quantity::{Quantity, q};

/// The constants of a recurrent layer's sums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecurrentBias {
    /// The fewest that the layer can tell apart, like our operations: two for a GRU, one for the others.
    #[default]
    Needed,
    /// One of the input and one of the state, like PyTorch.
    Two,
    /// None.
    None,
}

/// A recurrent model: the fields of [`RecurrentConfig`] with what stands below and above its layers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecurrentModel {
    /// RNN, LSTM or GRU.
    #[serde(deserialize_with = "name_or_table")]
    pub cell: Cell,
    /// Features of a token.
    pub d_in: usize,
    /// Units of each layer and direction.
    pub d_hidden: usize,
    /// Layers, each over the hidden states of the one before.
    pub n_layers: usize,
    /// The direction in which every layer reads.
    pub direction: Direction,
    /// Dropout between layers; 0 with one layer.
    pub dropout: f32,
    /// Constants of the gates.
    pub bias: RecurrentBias,
    /// Distinct tokens of an embedding of `d_in` features; without it the input has features of its own.
    pub vocab: Option<usize>,
    /// Classes of an output layer over every token; none without it.
    pub outputs: Option<usize>,
    /// The bias of the output layer.
    pub output_bias: Bias,
}

impl Default for RecurrentModel {
    /// An LSTM from 256 features to 256, one layer, forward.
    fn default() -> Self {
        RecurrentConfig::new(Cell::lstm(), 256, 256).into()
    }
}

impl From<RecurrentConfig> for RecurrentModel {
    /// The layers alone.
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
    /// The layers as they are built.
    pub fn layers(&self) -> RecurrentConfig {
        let Self { cell, d_in, d_hidden, n_layers, direction, dropout, .. } = *self;
        RecurrentConfig { cell, d_in, d_hidden, n_layers, direction, dropout }
    }

    /// Refuses what the layers refuse, and sizes of zero.
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
        // The states that go up are those that their layer keeps already (turned round, the same read from the end),
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
        // The hidden states and, for each cell, what its operation saves beside them; a state is one a sequence.
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
