//! What the `[model]` sections of the tasks are made of: the keys of each kind of network.
//!
//! A task names its kinds in an enum that is tagged by `kind`, with the keys of each: those that are here, and what the task
//! adds to them by [`Extended`](crate::extended::Extended). [`TransformerOrRecurrent`] is that enum for most tasks.

use regard_inspect::count::{Architecture, RecurrentModel, Sizes};
use regard_nn::config::{
    ActivationName, check_above_zero, check_dropout, check_layers, check_positive, check_product, name_or_table,
    no_settings,
};
use regard_nn::layers::block::NormPlace;
use regard_nn::layers::linear::Bias;
use regard_nn::layers::norm::NormKind;
use regard_nn::layers::position::Position;
use regard_nn::layers::recurrent::Cell;
use regard_nn::models::transformer::{Sight, TransformerConfig};
use regard_nn::{ConfigError, Init, Spread};
use regard_ops::Activation;
use serde::{Deserialize, Serialize};

/// The keys of a Transformer, in any task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TransformerKeys {
    /// Features of a token.
    pub d_model: usize,
    /// Number of layers; in a translator, of the encoder.
    pub n_layers: usize,
    /// Heads of self-attention.
    pub n_heads: usize,
    /// Heads of keys and values; `n_heads` by default.
    pub kv_heads: Option<usize>,
    /// Hidden features of the feed-forward parts.
    pub d_ff: usize,
    /// Activation of the feed-forward parts.
    #[serde(with = "ActivationName")]
    pub activation: Activation,
    /// Layer norm or RMS norm.
    pub norm: NormKind,
    /// Bias of all linear layers but the output layer.
    pub bias: Bias,
    /// Whether norms stand before or after the parts.
    pub norm_place: NormPlace,
    /// How the network knows the order of tokens.
    #[serde(deserialize_with = "name_or_table")]
    pub position: Position,
    /// Which tokens a token may see.
    #[serde(deserialize_with = "name_or_table")]
    pub sight: Sight,
    /// Dropout of embeddings and of what each part adds.
    pub dropout: f32,
    /// Dropout of attention weights.
    pub attention_dropout: f32,
}

impl Default for TransformerKeys {
    fn default() -> Self {
        Self {
            d_model: 128,
            n_layers: 2,
            n_heads: 4,
            kv_heads: None,
            d_ff: 256,
            activation: Activation::Relu,
            norm: NormKind::Layer,
            bias: Bias::Learned,
            norm_place: NormPlace::Pre,
            position: Position::Sinusoidal,
            sight: Sight::Full,
            dropout: 0.1,
            attention_dropout: 0.0,
        }
    }
}

impl TransformerKeys {
    /// The Transformer of this description; what a task adds to the keys has its default.
    pub fn transformer(&self, vocab: usize) -> TransformerConfig {
        TransformerConfig {
            vocab,
            n_layers: self.n_layers,
            d_model: self.d_model,
            n_heads: self.n_heads,
            kv_heads: self.kv_heads,
            d_ff: self.d_ff,
            activation: self.activation,
            norm: self.norm,
            bias: self.bias,
            norm_place: self.norm_place,
            position: self.position,
            sight: self.sight,
            dropout: self.dropout,
            attention_dropout: self.attention_dropout,
            ..TransformerConfig::default()
        }
    }
}

/// The keys of a recurrent network, in any task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecurrentKeys {
    /// Features of a token.
    pub d_model: usize,
    /// Number of layers.
    pub n_layers: usize,
    /// Features of a state; `d_model` by default.
    pub d_hidden: Option<usize>,
    /// Dropout of embeddings and between layers.
    pub dropout: f32,
}

impl Default for RecurrentKeys {
    fn default() -> Self {
        Self { d_model: 128, n_layers: 2, d_hidden: None, dropout: 0.1 }
    }
}

impl RecurrentKeys {
    /// Features of a state.
    pub fn d_hidden(&self) -> usize {
        self.d_hidden.unwrap_or(self.d_model)
    }

    /// Refuses what makes no sense.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("d_model", self.d_model)?;
        check_layers("n_layers", self.n_layers)?;
        check_positive("d_hidden", self.d_hidden())?;
        // The weights of the gates of both directions.
        let widest = self.d_hidden().max(self.d_model);
        check_product(if self.d_hidden.is_some() { "d_hidden" } else { "d_model" }, &[widest, widest, 8])?;
        check_dropout("dropout", self.dropout)
    }
}

/// The `[model]` section of a task that has a Transformer and recurrent networks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TransformerOrRecurrent<T, R> {
    /// Self-attention throughout.
    Transformer(T),
    /// A plain recurrent network.
    Rnn(R),
    /// Long short-term memory.
    Lstm(R),
    /// Gated recurrent units.
    Gru(R),
}

/// The keys of a [`TransformerOrRecurrent`], and the cell of a recurrent network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Chosen<'a, T, R> {
    /// Self-attention throughout.
    Transformer(&'a T),
    /// A recurrent network of these cells.
    Recurrent(Cell, &'a R),
}

impl<T: Default, R> Default for TransformerOrRecurrent<T, R> {
    fn default() -> Self {
        Self::Transformer(T::default())
    }
}

impl<T, R> TransformerOrRecurrent<T, R> {
    /// The network that was chosen.
    pub fn chosen(&self) -> Chosen<'_, T, R> {
        match self {
            Self::Transformer(keys) => Chosen::Transformer(keys),
            Self::Rnn(keys) => Chosen::Recurrent(Cell::Rnn, keys),
            Self::Lstm(keys) => Chosen::Recurrent(Cell::lstm(), keys),
            Self::Gru(keys) => Chosen::Recurrent(Cell::gru(), keys),
        }
    }
}

/// How matrices start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FirstWeights {
    /// [`Spread::Xavier`].
    #[default]
    #[serde(deserialize_with = "no_settings")]
    Xavier,
    /// [`Spread::Residual`], as GPT-2.
    Residual {
        /// Deviation of all but the last matrix of each part of a block.
        #[serde(default = "two_hundredths")]
        deviation: f32,
    },
}

fn two_hundredths() -> f32 {
    0.02
}

impl FirstWeights {
    /// Refuses a deviation that is none.
    pub fn validate(self) -> Result<(), ConfigError> {
        match self {
            Self::Xavier => Ok(()),
            Self::Residual { deviation } => check_above_zero("first_weights.deviation", deviation),
        }
    }

    /// The root of a model of `n_layers` that starts so.
    pub fn spread(self, n_layers: usize, init: &Init) -> Init {
        init.clone().with_spread(match self {
            Self::Xavier => Spread::Xavier,
            Self::Residual { deviation } => Spread::Residual { deviation, n_layers },
        })
    }
}

/// Vectors that are looked up and no network upon them, which no architecture describes: one recurrent unit is next to
/// nothing.
pub(crate) fn lookup(vocab: usize, d_model: usize) -> Architecture {
    Architecture::Recurrent(RecurrentModel {
        cell: Cell::Rnn,
        d_in: d_model,
        d_hidden: 1,
        n_layers: 1,
        vocab: Some(vocab),
        ..RecurrentModel::default()
    })
}

/// What a batch of `tokens` in sequences of `longest` at most looks like to the counting of its cost.
pub(crate) fn sizes(tokens: usize, longest: usize) -> Sizes {
    let seq = longest.min(tokens).max(1);
    Sizes { batch: tokens.div_ceil(seq), seq, target_seq: None }
}
