//! Configuration of a Transformer in its three forms: encoder, decoder (language model) and encoder-decoder (translator).

use regard_ops::{Activation, Mask};
use serde::{Deserialize, Serialize};

use crate::config::{ActivationName, check_dropout, check_positive, name_or_table, no_settings};
use crate::error::ConfigError;
use crate::layers::attention::multi_head::{QueryKeyNorm, ScoreScale, Weighing};
use crate::layers::block::{BlockConfig, NormPlace};
use crate::layers::feed_forward::Gate;
use crate::layers::linear::Bias;
use crate::layers::norm::NormKind;
use crate::layers::position::{Position, PositionSizes};

/// Which tokens a token of an encoder may see. Padding is never seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Sight {
    /// All tokens.
    #[default]
    #[serde(deserialize_with = "no_settings")]
    Full,
    /// The token itself and the tokens before it.
    #[serde(deserialize_with = "no_settings")]
    Causal,
    /// The tokens nearby: truncated self-attention.
    Window {
        /// Maximum number of tokens before.
        left: usize,
        /// Maximum number of tokens after.
        right: usize,
    },
}

impl Sight {
    /// Returns the attention mask of an encoder.
    pub fn mask(self) -> Mask {
        match self {
            Sight::Full => Mask::Full,
            Sight::Causal => Mask::Causal,
            Sight::Window { left, right } => Mask::Window { left, right },
        }
    }

    /// Returns the attention mask of a decoder, which never sees later tokens: `Full` is causal. A window with `right > 0` is
    /// an error.
    pub fn causal_mask(self) -> Result<Mask, ConfigError> {
        match self {
            Sight::Full | Sight::Causal => Ok(Mask::Causal),
            Sight::Window { left, right: 0 } => Ok(Mask::Window { left, right: 0 }),
            Sight::Window { right, .. } => {
                Err(ConfigError::new("sight.right", right, "0, because a decoder does not see later tokens"))
            }
        }
    }
}

/// Factor on the token embeddings before positions are added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingScale {
    /// `√d_model`, as published.
    #[default]
    Root,
    /// No scaling.
    None,
}

/// Norm of the embedded tokens, after positions and types are added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingNorm {
    /// No norm.
    #[default]
    None,
    /// A norm of the kind of the blocks, as in BERT.
    Norm,
}

/// Factor on the states before the output layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputScale {
    /// No scaling.
    #[default]
    None,
    /// `1/√d_model`, as in T5.
    InverseRoot,
}

/// Source of the output layer's matrix.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputWeights {
    /// A separate matrix.
    #[default]
    Own,
    /// The embedding of the tokens it predicts, transposed (Press 2017).
    Embedding,
}

/// Encoder output that each layer of a translator's decoder attends to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// The output of the last encoder layer, as published.
    #[default]
    Last,
    /// The output of the encoder layer with the same index.
    LayerByLayer,
}

/// Dropout of the last states of a translator's encoder and decoder, which come out of their last norms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateDropout {
    /// None, as published.
    #[default]
    None,
    /// With the probability of other features, as in T5.
    Features,
}

/// Configuration of a Transformer. An encoder, decoder or translator ignores the fields that it does not use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TransformerConfig {
    /// Number of distinct tokens; of the source, in a translator.
    pub vocab: usize,
    /// Number of distinct target tokens of a translator; if `None`, source and target share one embedding.
    pub target_vocab: Option<usize>,
    /// Number of blocks; of the encoder, in a translator.
    pub n_layers: usize,
    /// Number of blocks of a translator's decoder; `n_layers` by default.
    pub n_decoder_layers: Option<usize>,
    /// Features per token.
    pub d_model: usize,
    /// Number of query heads.
    pub n_heads: usize,
    /// Number of heads of keys and values; `n_heads` by default.
    pub kv_heads: Option<usize>,
    /// Features per head; `d_model / n_heads` by default.
    pub d_head: Option<usize>,
    /// Hidden width of the feed-forward part.
    pub d_ff: usize,
    /// Activation of the feed-forward part.
    #[serde(with = "ActivationName")]
    pub activation: Activation,
    /// Gate of the feed-forward part.
    pub gate: Gate,
    /// Kind of norm: layer norm or RMS norm.
    pub norm: NormKind,
    /// `ε` of the norms.
    pub epsilon: f32,
    /// Place of the norms in a block: post-norm or pre-norm. Pre-norm has one more norm after the last block.
    pub norm_place: NormPlace,
    /// Bias of all linear layers except the output.
    pub bias: Bias,
    /// Bias of the projections to queries, keys and values; `bias` by default.
    pub qkv_bias: Option<Bias>,
    /// Factor on the attention scores.
    pub score_scale: ScoreScale,
    /// Norm of queries and keys in self-attention.
    pub query_key_norm: QueryKeyNorm,
    /// Position encoding.
    #[serde(deserialize_with = "name_or_table")]
    pub position: Position,
    /// Which tokens a token of an encoder may see.
    #[serde(deserialize_with = "name_or_table")]
    pub sight: Sight,
    /// How a token weighs the tokens that it sees; a translator has softmax only.
    pub attention: Weighing,
    /// Factor on the embedding.
    pub embedding_scale: EmbeddingScale,
    /// Number of token types, such as the two sentences of a pair, each with a vector that is added to its tokens; 0 for none.
    pub token_types: usize,
    /// Norm of the embedded tokens.
    pub embedding_norm: EmbeddingNorm,
    /// Source of the output layer's matrix.
    pub output_weights: OutputWeights,
    /// Bias of the output layer.
    pub output_bias: Bias,
    /// Factor on the states before the output layer.
    pub output_scale: OutputScale,
    /// Encoder output that a translator's decoder attends to.
    pub memory: Memory,
    /// Dropout probability of embeddings and of the output of each part of a block.
    pub dropout: f32,
    /// Dropout probability of embeddings alone; `dropout` by default.
    pub embedding_dropout: Option<f32>,
    /// Dropout probability of the output of attention alone; `dropout` by default.
    pub attention_output_dropout: Option<f32>,
    /// Dropout of the last states of a translator's encoder and decoder.
    pub state_dropout: StateDropout,
    /// Dropout probability of attention weights.
    pub attention_dropout: f32,
    /// Dropout probability of the hidden features of the feed-forward part.
    pub feed_forward_dropout: f32,
}

impl Default for TransformerConfig {
    /// The base model of the paper (Vaswani 2017).
    fn default() -> Self {
        let block = BlockConfig::new(512, 8, 2048);
        Self {
            vocab: 37_000,
            target_vocab: None,
            n_layers: 6,
            n_decoder_layers: None,
            d_model: block.d_model,
            n_heads: block.n_heads,
            kv_heads: None,
            d_head: None,
            d_ff: block.d_ff,
            activation: block.activation,
            gate: block.gate,
            norm: block.norm,
            epsilon: block.epsilon,
            norm_place: block.norm_place,
            bias: block.bias,
            qkv_bias: block.qkv_bias,
            score_scale: block.score_scale,
            query_key_norm: block.query_key_norm,
            position: Position::Sinusoidal,
            sight: Sight::Full,
            attention: Weighing::Softmax,
            embedding_scale: EmbeddingScale::Root,
            token_types: 0,
            embedding_norm: EmbeddingNorm::None,
            output_weights: OutputWeights::Own,
            output_bias: Bias::Learned,
            output_scale: OutputScale::None,
            memory: Memory::Last,
            dropout: 0.1,
            embedding_dropout: None,
            attention_output_dropout: None,
            state_dropout: StateDropout::None,
            attention_dropout: 0.0,
            feed_forward_dropout: 0.0,
        }
    }
}

impl TransformerConfig {
    /// Returns an error if the configuration is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("vocab", self.vocab)?;
        check_positive("n_layers", self.n_layers)?;
        if let Some(vocab) = self.target_vocab {
            check_positive("target_vocab", vocab)?;
        }
        if let Some(layers) = self.n_decoder_layers {
            check_positive("n_decoder_layers", layers)?;
        }
        if self.memory == Memory::LayerByLayer && self.n_decoder_layers.is_some_and(|layers| layers != self.n_layers) {
            let allowed = format!("the value of n_layers, {}, when memory is layer_by_layer", self.n_layers);
            return Err(ConfigError::new("n_decoder_layers", self.n_decoder_layers.unwrap_or(0), allowed));
        }
        self.validate_attention()?;
        self.block().validate()?;
        check_dropout("dropout", self.dropout)?;
        check_dropout("embedding_dropout", self.embedding_dropout())?;
        self.position.validate(self.position_sizes()).map_err(|error| match error.field.as_str() {
            "d_model" | "n_heads" | "d_head" => error,
            _ => error.within("position"),
        })
    }

    /// Returns an error if the configuration is invalid for an encoder-decoder.
    pub fn validate_encoder_decoder(&self) -> Result<(), ConfigError> {
        match self.attention {
            Weighing::Softmax if self.memory == Memory::LayerByLayer && self.state_dropout != StateDropout::None => {
                let allowed = "none when memory is layer_by_layer, which reads the states of all layers";
                Err(ConfigError::new("state_dropout", "features", allowed))
            }
            Weighing::Softmax => self.validate(),
            Weighing::Linear => Err(ConfigError::new("attention", "linear", "softmax, the only one of a translator")),
        }
    }

    /// Returns an error for settings that linear attention does not have: it computes no scores and no single weights.
    fn validate_attention(&self) -> Result<(), ConfigError> {
        if self.attention == Weighing::Softmax {
            return Ok(());
        }
        match self.position {
            Position::Relative(_) | Position::Alibi => {
                let allowed = "none, sinusoidal, learned, rope, floater or rnn when attention is linear, which has no \
                               scores to add to";
                return Err(ConfigError::new("position", self.position.name(), allowed));
            }
            Position::None
            | Position::Sinusoidal
            | Position::Learned(_)
            | Position::Rope(_)
            | Position::Floater(_)
            | Position::Rnn(_) => {}
        }
        if let Sight::Window { .. } = self.sight {
            return Err(ConfigError::new("sight", "window", "full or causal when attention is linear"));
        }
        if self.attention_dropout != 0.0 {
            let allowed = "0 when attention is linear, which has no single weights";
            return Err(ConfigError::new("attention_dropout", self.attention_dropout, allowed));
        }
        Ok(())
    }

    /// Returns the configuration of the blocks.
    pub fn block(&self) -> BlockConfig {
        BlockConfig {
            d_model: self.d_model,
            n_heads: self.n_heads,
            kv_heads: self.kv_heads,
            d_head: self.d_head,
            d_ff: self.d_ff,
            activation: self.activation,
            gate: self.gate,
            norm: self.norm,
            epsilon: self.epsilon,
            norm_place: self.norm_place,
            bias: self.bias,
            qkv_bias: self.qkv_bias,
            score_scale: self.score_scale,
            query_key_norm: self.query_key_norm,
            weighing: self.attention,
            dropout: self.dropout,
            attention_output_dropout: self.attention_output_dropout,
            attention_dropout: self.attention_dropout,
            feed_forward_dropout: self.feed_forward_dropout,
        }
    }

    /// Returns the dropout probability of embeddings.
    pub fn embedding_dropout(&self) -> f32 {
        self.embedding_dropout.unwrap_or(self.dropout)
    }

    /// Returns the sizes that positions depend on.
    pub fn position_sizes(&self) -> PositionSizes {
        let d_head = self.block().attention().d_head();
        PositionSizes { d_model: self.d_model, n_heads: self.n_heads, d_head }
    }
}
