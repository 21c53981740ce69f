//! The configuration of a Transformer in its three shapes: encoder, decoder (a language model), both (a translator).

use regard_ops::{Activation, Mask};
use serde::{Deserialize, Serialize};

use crate::config::{ActivationName, check_dropout, check_positive, name_or_table, no_settings};
use crate::error::ConfigError;
use crate::layers::block::{BlockConfig, NormPlace};
use crate::layers::feed_forward::Gate;
use crate::layers::linear::Bias;
use crate::layers::norm::NormKind;
use crate::layers::position::{Position, PositionSizes};

/// Which tokens an encoder's token may see beside those that are padding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Sight {
    /// All.
    #[default]
    #[serde(deserialize_with = "no_settings")]
    Full,
    /// The tokens before, and the token itself.
    #[serde(deserialize_with = "no_settings")]
    Causal,
    /// The tokens near by: truncated self-attention.
    Window {
        /// Tokens before, at most.
        left: usize,
        /// Tokens after, at most.
        right: usize,
    },
}

impl Sight {
    /// For the attention.
    pub fn mask(self) -> Mask {
        match self {
            Sight::Full => Mask::Full,
            Sight::Causal => Mask::Causal,
            Sight::Window { left, right } => Mask::Window { left, right },
        }
    }

    /// For the attention of a decoder, which never sees what follows: `Full` is all before. Refuses a window with a right
    /// side.
    pub fn causal_mask(self) -> Result<Mask, ConfigError> {
        match self {
            Sight::Full | Sight::Causal => Ok(Mask::Causal),
            Sight::Window { left, right: 0 } => Ok(Mask::Window { left, right: 0 }),
            Sight::Window { right, .. } => {
                Err(ConfigError::new("sight.right", right, "0: a decoder does not see what follows"))
            }
        }
    }
}

/// What tokens are multiplied by before positions are added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingScale {
    /// `√d_model`, as published.
    #[default]
    Root,
    /// Nothing.
    None,
}

/// Where the output layer's matrix comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputWeights {
    /// A matrix of its own.
    #[default]
    Own,
    /// The embedding of the tokens it predicts, transposed (Press 2017).
    Embedding,
}

/// What a translator's decoder layer looks at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// The last encoder layer, as published.
    #[default]
    Last,
    /// The encoder layer of the same number.
    LayerByLayer,
}

/// A Transformer. Fields that a shape does not use are ignored by it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TransformerConfig {
    /// Distinct tokens; of the source, in a translator.
    pub vocab: usize,
    /// Distinct target tokens of a translator; without it source and target share one embedding.
    pub target_vocab: Option<usize>,
    /// Blocks; of the encoder, in a translator.
    pub n_layers: usize,
    /// Blocks of a translator's decoder; `n_layers` by default.
    pub n_decoder_layers: Option<usize>,
    /// Features of a token.
    pub d_model: usize,
    /// Query heads.
    pub n_heads: usize,
    /// Heads of keys and values; `n_heads` by default.
    pub kv_heads: Option<usize>,
    /// Features of a head; `d_model / n_heads` by default.
    pub d_head: Option<usize>,
    /// Hidden features of the feed-forward part.
    pub d_ff: usize,
    /// The activation of the feed-forward part.
    #[serde(with = "ActivationName")]
    pub activation: Activation,
    /// The gate of the feed-forward part.
    pub gate: Gate,
    /// Layer norm or RMS norm.
    pub norm: NormKind,
    /// `ε` of the norms.
    pub epsilon: f32,
    /// Post-norm or pre-norm; pre-norm has one more norm at the end.
    pub norm_place: NormPlace,
    /// The bias of all linear layers but the output.
    pub bias: Bias,
    /// How it knows the order of tokens.
    #[serde(deserialize_with = "name_or_table")]
    pub position: Position,
    /// What an encoder's token may see.
    #[serde(deserialize_with = "name_or_table")]
    pub sight: Sight,
    /// Factor on the embedding.
    pub embedding_scale: EmbeddingScale,
    /// Matrix of the output layer.
    pub output_weights: OutputWeights,
    /// The bias of the output layer.
    pub output_bias: Bias,
    /// What a translator's decoder looks at.
    pub memory: Memory,
    /// Dropout of embeddings and of what each part adds.
    pub dropout: f32,
    /// Dropout of attention weights.
    pub attention_dropout: f32,
    /// Dropout of hidden features of the feed-forward part.
    pub feed_forward_dropout: f32,
}

impl Default for TransformerConfig {
    /// The base model as published (Vaswani 2017).
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
            position: Position::Sinusoidal,
            sight: Sight::Full,
            embedding_scale: EmbeddingScale::Root,
            output_weights: OutputWeights::Own,
            output_bias: Bias::Learned,
            memory: Memory::Last,
            dropout: 0.1,
            attention_dropout: 0.0,
            feed_forward_dropout: 0.0,
        }
    }
}

impl TransformerConfig {
    /// Refuses what makes no sense.
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
            let allowed = format!("n_layers, {}, where memory is layer_by_layer", self.n_layers);
            return Err(ConfigError::new("n_decoder_layers", self.n_decoder_layers.unwrap_or(0), allowed));
        }
        self.block().validate()?;
        check_dropout("dropout", self.dropout)?;
        self.position.validate(self.position_sizes()).map_err(|error| match error.field.as_str() {
            "d_model" | "n_heads" | "d_head" => error,
            _ => error.within("position"),
        })
    }

    /// The blocks of the model.
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
            dropout: self.dropout,
            attention_dropout: self.attention_dropout,
            feed_forward_dropout: self.feed_forward_dropout,
        }
    }

    /// What positions need to know.
    pub fn position_sizes(&self) -> PositionSizes {
        let d_head = self.block().attention().d_head();
        PositionSizes { d_model: self.d_model, n_heads: self.n_heads, d_head }
    }
}
