//! Recurrent models: an embedding or given features, layers of RNN, LSTM or GRU, an output layer.

use regard_nn::ConfigError;
use regard_nn::config::check_positive;
use regard_nn::layers::linear::Bias;
use serde::{Deserialize, Serialize};

use super::description::Sizes;
use super::part::Draft;
use super::quantity::{Quantity, q};

/// The kind of a recurrent layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// `tanh` of one sum.
    Rnn,
    /// Four gates.
    #[default]
    Lstm,
    /// Three gates.
    Gru,
}

impl Cell {
    /// How many times `d_hidden` its sums are wide.
    fn gates(self) -> usize {
        match self {
            Cell::Rnn => 1,
            Cell::Lstm => 4,
            Cell::Gru => 3,
        }
    }
}

/// The constants of a recurrent layer's sums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecurrentBias {
    /// As few as the layer can tell apart, like our operations: two for a GRU, one for the others.
    #[default]
    Needed,
    /// One of the input and one of the state, like PyTorch.
    Two,
    /// None.
    None,
}

/// Which way a recurrent layer reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Directions {
    /// From the first token on.
    #[default]
    Forward,
    /// Both ways side by side: `2 · d_hidden` features to the layer above.
    Both,
}

impl Directions {
    fn count(self) -> usize {
        match self {
            Directions::Forward => 1,
            Directions::Both => 2,
        }
    }
}

/// A recurrent model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecurrentConfig {
    /// RNN, LSTM or GRU.
    pub cell: Cell,
    /// Distinct tokens of an embedding of `d_in` features; without it the input has features of its own.
    pub vocab: Option<usize>,
    /// Features of a token.
    pub d_in: usize,
    /// Hidden units of a direction.
    pub d_hidden: usize,
    /// Layers.
    pub n_layers: usize,
    /// One way or both.
    pub directions: Directions,
    /// Constants of the gates.
    pub bias: RecurrentBias,
    /// Classes of an output layer over every token; none without it.
    pub outputs: Option<usize>,
    /// Of the output layer.
    pub output_bias: Bias,
}

impl Default for RecurrentConfig {
    fn default() -> Self {
        Self {
            cell: Cell::Lstm,
            vocab: None,
            d_in: 256,
            d_hidden: 256,
            n_layers: 1,
            directions: Directions::Forward,
            bias: RecurrentBias::Needed,
            outputs: None,
            output_bias: Bias::Learned,
        }
    }
}

impl RecurrentConfig {
    /// Refuses sizes of zero.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("d_in", self.d_in)?;
        check_positive("d_hidden", self.d_hidden)?;
        check_positive("n_layers", self.n_layers)?;
        self.vocab.map_or(Ok(()), |vocab| check_positive("vocab", vocab))?;
        self.outputs.map_or(Ok(()), |outputs| check_positive("outputs", outputs))
    }

    pub(super) fn draft(&self, sizes: &Sizes) -> Draft {
        let tokens = sizes.tokens();
        let width = q(self.d_hidden) * self.directions.count();
        let embedding = self.vocab.map(|vocab| {
            Draft::new("embedding").parameters(q(vocab) * self.d_in).keeps_bytes(tokens * size_of::<i64>())
        });
        let mut root = Draft::new("model").with_all(embedding);
        // A layer above a single direction keeps as its input what the one below keeps as its states.
        let joined = match self.directions {
            Directions::Forward => Quantity::ZERO,
            Directions::Both => tokens * width,
        };
        root = root.with(self.layer("first_layer", q(self.d_in), tokens * self.d_in, sizes));
        if self.n_layers > 1 {
            root = root.with(self.layer("layers", width, joined, sizes).times(self.n_layers - 1));
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
            (RecurrentBias::Needed, Cell::Rnn | Cell::Lstm) => 1,
            (RecurrentBias::Needed, Cell::Gru) | (RecurrentBias::Two, _) => 2,
        };
        let input = Draft::new("input").linear(tokens, d_in, wide, false).keeps(kept_input);
        // The hidden states and, for each cell, what its operation saves beside them; a state is one a sequence.
        let states = tokens * d_hidden;
        let first = q(sizes.batch) * d_hidden;
        let kept = match self.cell {
            Cell::Rnn => states + first,
            Cell::Lstm => states * 6 + first * 3,
            Cell::Gru => states * 5 + first,
        };
        let state = Draft::new("state").linear(tokens, d_hidden, wide, false).keeps(kept);
        let bias = Draft::new("bias").parameters(wide * biases);
        match self.directions {
            Directions::Forward => Draft::new(name).with_all([input, state, bias]),
            Directions::Both => {
                let direction = Draft::new("directions").with_all([input, state, bias]);
                Draft::new(name).with(direction.times(self.directions.count()))
            }
        }
    }
}
