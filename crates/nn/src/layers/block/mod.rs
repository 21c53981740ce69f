//! Blocks of Transformer models, a convolutional block for comparison, and the residual block of convolutions over images.

pub mod conv;
pub mod decoder;
pub mod encoder;
pub mod image;
pub mod residual;

use regard_ops::Activation;
use serde::{Deserialize, Serialize};

use crate::config::{ActivationName, check_dropout};
use crate::error::ConfigError;
use crate::layers::attention::multi_head::{MultiHeadConfig, QueryKeyNorm, ScoreScale, Weighing};
use crate::layers::feed_forward::{FeedForwardConfig, Gate};
use crate::layers::linear::Bias;
use crate::layers::norm::{NormConfig, NormKind};

/// Where a block applies its norms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormPlace {
    /// After each residual sum, `norm(x + f(x))`, as originally published.
    #[default]
    Post,
    /// Before each part, `x + f(norm(x))` (Xiong 2020). Trains without warm-up.
    Pre,
}

/// Configuration of a Transformer block.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockConfig {
    /// Number of features of a token.
    pub d_model: usize,
    /// Number of query heads.
    pub n_heads: usize,
    /// Number of heads of keys and values; `n_heads` by default.
    #[serde(default)]
    pub kv_heads: Option<usize>,
    /// Number of features of a head; `d_model / n_heads` by default.
    #[serde(default)]
    pub d_head: Option<usize>,
    /// Number of hidden features of the feed-forward part.
    pub d_ff: usize,
    /// Activation of the feed-forward part.
    #[serde(default = "ActivationName::relu", with = "ActivationName")]
    pub activation: Activation,
    /// Gate of the feed-forward part.
    #[serde(default)]
    pub gate: Gate,
    /// Kind of norm: layer norm or RMS norm.
    #[serde(default)]
    pub norm: NormKind,
    /// `ε` of the norms.
    #[serde(default = "default_epsilon")]
    pub epsilon: f32,
    /// Where norms are applied: post-norm or pre-norm.
    #[serde(default)]
    pub norm_place: NormPlace,
    /// Bias of all linear layers.
    #[serde(default)]
    pub bias: Bias,
    /// Bias of the projections to queries, keys and values; `bias` by default.
    #[serde(default)]
    pub qkv_bias: Option<Bias>,
    /// Factor on the attention scores.
    #[serde(default)]
    pub score_scale: ScoreScale,
    /// Norm of queries and keys in self-attention.
    #[serde(default)]
    pub query_key_norm: QueryKeyNorm,
    /// How a query of self-attention weighs the keys.
    #[serde(default)]
    pub weighing: Weighing,
    /// Dropout probability of the output of each part, before it is added to the residual.
    #[serde(default)]
    pub dropout: f32,
    /// Dropout probability of the output of attention, before it is added to the residual; `dropout` by default.
    #[serde(default)]
    pub attention_output_dropout: Option<f32>,
    /// Dropout probability of attention weights.
    #[serde(default)]
    pub attention_dropout: f32,
    /// Dropout probability of the hidden features of the feed-forward part.
    #[serde(default)]
    pub feed_forward_dropout: f32,
}

fn default_epsilon() -> f32 {
    1e-5
}

impl BlockConfig {
    /// Returns the published configuration: post-norm, ReLU and biases, but without dropout.
    pub fn new(d_model: usize, n_heads: usize, d_ff: usize) -> Self {
        Self {
            d_model,
            n_heads,
            kv_heads: None,
            d_head: None,
            d_ff,
            activation: Activation::Relu,
            gate: Gate::None,
            norm: NormKind::Layer,
            epsilon: default_epsilon(),
            norm_place: NormPlace::Post,
            bias: Bias::Learned,
            qkv_bias: None,
            score_scale: ScoreScale::Root,
            query_key_norm: QueryKeyNorm::None,
            weighing: Weighing::Softmax,
            dropout: 0.0,
            attention_output_dropout: None,
            attention_dropout: 0.0,
            feed_forward_dropout: 0.0,
        }
    }

    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_dropout("dropout", self.dropout)?;
        check_dropout("attention_output_dropout", self.attention_output_dropout())?;
        check_dropout("attention_dropout", self.attention_dropout)?;
        check_dropout("feed_forward_dropout", self.feed_forward_dropout)?;
        self.attention().validate()?;
        self.feed_forward().validate()?;
        self.norm().validate()
    }

    /// Returns the dropout probability of the output of attention.
    pub fn attention_output_dropout(&self) -> f32 {
        self.attention_output_dropout.unwrap_or(self.dropout)
    }

    /// Returns the configuration of the attention.
    pub fn attention(&self) -> MultiHeadConfig {
        let Self { d_model, n_heads, kv_heads, d_head, weighing, query_key_norm, epsilon, .. } = *self;
        MultiHeadConfig {
            d_model,
            n_heads,
            kv_heads,
            d_head,
            bias: self.qkv_bias.unwrap_or(self.bias),
            output_bias: self.bias,
            weighing,
            scale: self.score_scale,
            query_key_norm,
            epsilon,
            dropout: self.attention_dropout,
        }
    }

    /// Returns the configuration of the feed-forward part.
    pub fn feed_forward(&self) -> FeedForwardConfig {
        let Self { d_model, d_ff, activation, gate, bias, feed_forward_dropout, .. } = *self;
        FeedForwardConfig { d_model, d_ff, activation, gate, bias, dropout: feed_forward_dropout }
    }

    /// Returns the configuration of the norms.
    pub fn norm(&self) -> NormConfig {
        NormConfig { d_model: self.d_model, kind: self.norm, epsilon: self.epsilon }
    }
}
