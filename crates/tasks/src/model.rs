//! The building blocks of the tasks' `[model]` sections: the keys of each kind of network.
//!
//! A task lists its kinds of network in an enum tagged by `kind`. Each kind has keys from this module, which the task can extend
//! with [`Extended`](crate::extended::Extended). [`TransformerOrRecurrent`] is that enum for most tasks.

use regard_inspect::count::{Architecture, RecurrentModel, Sizes};
use regard_inspect::show::position::Trained;
use regard_nn::config::{
    ActivationName, check_above_zero, check_dropout, check_layers, check_positive, check_product, name_or_table,
    no_settings,
};
use regard_nn::layers::attention::multi_head::Weighing;
use regard_nn::layers::block::NormPlace;
use regard_nn::layers::linear::Bias;
use regard_nn::layers::norm::NormKind;
use regard_nn::layers::position::Position;
use regard_nn::layers::recurrent::Cell;
use regard_nn::models::body::Body;
use regard_nn::models::encoder::Encoder;
use regard_nn::models::transformer::{Sight, TransformerConfig};
use regard_nn::{ConfigError, Init, Spread};
use regard_ops::Activation;
use serde::{Deserialize, Serialize};

/// The keys of a Transformer that all tasks share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TransformerKeys {
    /// Number of features of a token.
    pub d_model: usize,
    /// Number of layers; in a translator, those of the encoder.
    pub n_layers: usize,
    /// Number of attention heads.
    pub n_heads: usize,
    /// Number of heads of keys and values; `n_heads` by default.
    pub kv_heads: Option<usize>,
    /// Hidden width of the feed-forward parts.
    pub d_ff: usize,
    /// Activation of the feed-forward parts.
    #[serde(with = "ActivationName")]
    pub activation: Activation,
    /// Layer norm or RMS norm.
    pub norm: NormKind,
    /// Bias of all linear layers except the output layer.
    pub bias: Bias,
    /// Whether norms come before or after the parts of a block.
    pub norm_place: NormPlace,
    /// Position encoding.
    #[serde(deserialize_with = "name_or_table")]
    pub position: Position,
    /// Which other tokens a token may attend to.
    #[serde(deserialize_with = "name_or_table")]
    pub sight: Sight,
    /// How a token weighs the tokens that it attends to.
    pub attention: Weighing,
    /// Dropout of the embeddings and of the output of each part.
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
            attention: Weighing::Softmax,
            dropout: 0.1,
            attention_dropout: 0.0,
        }
    }
}

impl TransformerKeys {
    /// Returns the configuration of a Transformer with these keys and defaults for all others.
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
            attention: self.attention,
            dropout: self.dropout,
            attention_dropout: self.attention_dropout,
            ..TransformerConfig::default()
        }
    }
}

/// The keys of a recurrent network that all tasks share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecurrentKeys {
    /// Number of features of a token.
    pub d_model: usize,
    /// Number of layers.
    pub n_layers: usize,
    /// Number of features of a hidden state; `d_model` by default.
    pub d_hidden: Option<usize>,
    /// Dropout of the embeddings and between layers.
    pub dropout: f32,
}

impl Default for RecurrentKeys {
    fn default() -> Self {
        Self { d_model: 128, n_layers: 2, d_hidden: None, dropout: 0.1 }
    }
}

impl RecurrentKeys {
    /// Returns the number of features of a hidden state.
    pub fn d_hidden(&self) -> usize {
        self.d_hidden.unwrap_or(self.d_model)
    }

    /// Describes the layers, made of `cell`, so that their cost can be counted.
    pub fn counted(&self, cell: Cell) -> RecurrentModel {
        let (d_in, d_hidden, n_layers) = (self.d_model, self.d_hidden(), self.n_layers);
        RecurrentModel { cell, d_in, d_hidden, n_layers, ..RecurrentModel::default() }
    }

    /// Returns an error if a value is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("d_model", self.d_model)?;
        check_layers("n_layers", self.n_layers)?;
        check_positive("d_hidden", self.d_hidden())?;
        // Size of the gate weights of both directions.
        let widest = self.d_hidden().max(self.d_model);
        check_product(if self.d_hidden.is_some() { "d_hidden" } else { "d_model" }, &[widest, widest, 8])?;
        check_dropout("dropout", self.dropout)
    }
}

/// The `[model]` section of a task that offers a Transformer and recurrent networks, with keys `T` and `R`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TransformerOrRecurrent<T, R> {
    /// A Transformer: self-attention throughout.
    Transformer(T),
    /// A plain recurrent network.
    Rnn(R),
    /// A network of long short-term memory cells.
    Lstm(R),
    /// A network of gated recurrent units.
    Gru(R),
}

/// The chosen kind of a [`TransformerOrRecurrent`], with its keys and the cell of a recurrent network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Chosen<'a, T, R> {
    /// A Transformer: self-attention throughout.
    Transformer(&'a T),
    /// A recurrent network made of this cell.
    Recurrent(Cell, &'a R),
}

impl<T: Default, R> Default for TransformerOrRecurrent<T, R> {
    fn default() -> Self {
        Self::Transformer(T::default())
    }
}

impl<T, R> TransformerOrRecurrent<T, R> {
    /// Returns the kind of network that was chosen.
    pub fn chosen(&self) -> Chosen<'_, T, R> {
        match self {
            Self::Transformer(keys) => Chosen::Transformer(keys),
            Self::Rnn(keys) => Chosen::Recurrent(Cell::Rnn, keys),
            Self::Lstm(keys) => Chosen::Recurrent(Cell::lstm(), keys),
            Self::Gru(keys) => Chosen::Recurrent(Cell::gru(), keys),
        }
    }
}

/// How weight matrices are initialised.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FirstWeights {
    /// Xavier initialisation, [`Spread::Xavier`].
    #[default]
    #[serde(deserialize_with = "no_settings")]
    Xavier,
    /// Normal initialisation as in GPT-2, [`Spread::Residual`].
    Residual {
        /// Standard deviation of all matrices but the last one of each part of a block.
        #[serde(default = "two_hundredths")]
        deviation: f32,
    },
}

fn two_hundredths() -> f32 {
    0.02
}

impl FirstWeights {
    /// Returns an error if the deviation is not above zero.
    pub fn validate(self) -> Result<(), ConfigError> {
        match self {
            Self::Xavier => Ok(()),
            Self::Residual { deviation } => check_above_zero("first_weights.deviation", deviation),
        }
    }

    /// Returns `init` set to this initialisation, for a model of `n_layers` layers.
    pub fn spread(self, n_layers: usize, init: &Init) -> Init {
        init.clone().with_spread(match self {
            Self::Xavier => Spread::Xavier,
            Self::Residual { deviation } => Spread::Residual { deviation, n_layers },
        })
    }
}

/// Returns the positions of a model that has a body and perhaps an encoder below it. `longest` is the number of tokens of the
/// longest input.
pub(crate) fn positions<'a>(encoder: Option<&'a Encoder>, body: &'a Body, longest: usize) -> Vec<Trained<'a>> {
    let encoder = encoder.map(|encoder| Trained { part: "encoder", layer: &encoder.embedding.position, longest });
    let body = body.position().map(|layer| Trained { part: "body", layer, longest });
    encoder.into_iter().chain(body).collect()
}

/// Describes a table of vectors without a network. No [`Architecture`] is exactly that; the single recurrent unit here costs next
/// to nothing.
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

/// Returns the sizes of a batch of `tokens` tokens, in sequences of at most `longest`, for counting its cost.
pub(crate) fn sizes(tokens: usize, longest: usize) -> Sizes {
    let seq = longest.min(tokens).max(1);
    Sizes { batch: tokens.div_ceil(seq), seq, target_seq: None }
}
