//! Body of a tagger or classifier: the layers between word vectors and output, where each word learns about the others.

use burn::module::Module;
use burn::tensor::Tensor;
use regard_ops::{Activation, AttentionOptions};
use serde::{Deserialize, Serialize};

use super::stack::Stack;
use super::transformer::{Sight, TransformerConfig};
use crate::config::{ActivationName, check_dropout, check_positive, name_or_table, no_settings};
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::attention::multi_head::Weighing;
use crate::layers::block::NormPlace;
use crate::layers::dropout::Dropout;
use crate::layers::intra_attention::{IntraAttention, IntraAttentionConfig};
use crate::layers::linear::{Bias, Linear, LinearConfig};
use crate::layers::norm::{Norm, NormKind};
use crate::layers::position::{Position, Positions};
use crate::layers::recurrent::{Cell, Direction, Recurrent, RecurrentConfig};
use crate::lengths::Lengths;
use crate::pass::Pass;

/// Kind of [`Body`]. A file gives it by name, `body = "lstm"`, or with settings, `body = { kind = "transformer", n_heads = 8 }`.
/// Recurrent networks read in both directions, with half of `d_model` for each.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "a model has only one")]
pub enum BodyConfig {
    /// No body: each word is processed on its own.
    #[serde(deserialize_with = "no_settings")]
    None,
    /// Bidirectional plain recurrent network.
    #[serde(deserialize_with = "no_settings")]
    Rnn,
    /// Bidirectional long short-term memory (LSTM).
    #[serde(deserialize_with = "no_settings")]
    Lstm,
    /// Bidirectional gated recurrent units (GRU).
    #[serde(deserialize_with = "no_settings")]
    Gru,
    /// Recurrent networks in both directions that attend over their own past (Cheng 2016).
    #[serde(deserialize_with = "no_settings")]
    IntraAttention,
    /// Transformer encoder blocks.
    Transformer(TransformerBodyConfig),
}

/// Settings of [`BodyConfig::Transformer`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TransformerBodyConfig {
    /// Number of query heads.
    pub n_heads: usize,
    /// Number of heads of keys and values; `n_heads` by default.
    pub kv_heads: Option<usize>,
    /// Hidden width of the feed-forward part; four times `d_model` by default.
    pub d_ff: Option<usize>,
    /// Activation of the feed-forward part.
    #[serde(with = "ActivationName")]
    pub activation: Activation,
    /// Kind of norm: layer norm or RMS norm.
    pub norm: NormKind,
    /// Bias of the linear layers in the blocks.
    pub bias: Bias,
    /// Place of the norms in a block: post-norm or pre-norm.
    pub norm_place: NormPlace,
    /// Position encoding.
    #[serde(deserialize_with = "name_or_table")]
    pub position: Position,
    /// Which other words a word may see.
    #[serde(deserialize_with = "name_or_table")]
    pub sight: Sight,
    /// How a word weighs the words that it sees.
    pub attention: Weighing,
    /// Dropout probability of attention weights.
    pub attention_dropout: f32,
}

impl Default for TransformerBodyConfig {
    /// Four heads and pre-norm, which trains without warm-up.
    fn default() -> Self {
        Self {
            n_heads: 4,
            kv_heads: None,
            d_ff: None,
            activation: Activation::Relu,
            norm: NormKind::Layer,
            bias: Bias::Learned,
            norm_place: NormPlace::Pre,
            position: Position::Sinusoidal,
            sight: Sight::Full,
            attention: Weighing::Softmax,
            attention_dropout: 0.0,
        }
    }
}

/// Sizes that all kinds of bodies share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BodySizes {
    /// Features per word in the input.
    pub d_in: usize,
    /// Features per word in the output; [`BodyConfig::None`] keeps `d_in`.
    pub d_model: usize,
    /// Number of layers.
    pub n_layers: usize,
    /// Dropout probability between layers, and within the layers of a Transformer.
    pub dropout: f32,
}

impl BodyConfig {
    /// Returns a Transformer with default settings.
    pub fn transformer() -> Self {
        Self::Transformer(TransformerBodyConfig::default())
    }

    /// Returns the number of features per word in the output.
    pub fn d_out(&self, sizes: BodySizes) -> usize {
        if *self == Self::None { sizes.d_in } else { sizes.d_model }
    }

    /// Returns an error if the configuration does not fit the sizes.
    pub fn validate(&self, sizes: BodySizes) -> Result<(), ConfigError> {
        check_dropout("dropout", sizes.dropout)?;
        if *self == Self::None {
            return Ok(());
        }
        check_positive("d_model", sizes.d_model)?;
        check_positive("n_layers", sizes.n_layers)?;
        if let Self::Transformer(config) = self {
            return config.whole(sizes).validate().map_err(|error| match error.field.as_str() {
                "d_model" | "n_layers" | "dropout" => error,
                _ => error.within("body"),
            });
        }
        match sizes.d_model % 2 {
            0 => Ok(()),
            _ => Err(ConfigError::new("d_model", sizes.d_model, "an even number, half for each direction")),
        }
    }

    /// Builds the body.
    pub fn init(&self, sizes: BodySizes, init: &Init) -> Result<Body, ConfigError> {
        self.validate(sizes)?;
        let recurrent = |cell| {
            let one_way = RecurrentConfig::new(cell, sizes.d_in, sizes.d_model / 2);
            let one_way = one_way.with_layers(sizes.n_layers, sizes.dropout);
            let config = RecurrentConfig { direction: Direction::Both, ..one_way };
            Ok(Body::Recurrent(config.init(&init.enter("recurrent"))?))
        };
        match self {
            Self::None => Ok(Body::None(NoBody {})),
            Self::Rnn => recurrent(Cell::Rnn),
            Self::Lstm => recurrent(Cell::lstm()),
            Self::Gru => recurrent(Cell::gru()),
            Self::IntraAttention => Ok(Body::IntraAttention(IntraBody::new(sizes, &init.enter("intra_attention"))?)),
            Self::Transformer(config) => {
                Ok(Body::Transformer(TransformerBody::new(config, sizes, &init.enter("transformer"))?))
            }
        }
    }
}

impl TransformerBodyConfig {
    /// Returns the configuration of a whole Transformer, of which the body uses the blocks and positions.
    fn whole(&self, sizes: BodySizes) -> TransformerConfig {
        TransformerConfig {
            vocab: 1,
            n_layers: sizes.n_layers,
            d_model: sizes.d_model,
            n_heads: self.n_heads,
            kv_heads: self.kv_heads,
            d_ff: self.d_ff.unwrap_or(sizes.d_model.saturating_mul(4)),
            activation: self.activation,
            norm: self.norm,
            bias: self.bias,
            norm_place: self.norm_place,
            position: self.position,
            sight: self.sight,
            attention: self.attention,
            dropout: sizes.dropout,
            attention_dropout: self.attention_dropout,
            ..TransformerConfig::default()
        }
    }
}

/// Body of a tagger or classifier; see the [module](self).
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a model has only one")]
pub enum Body {
    /// Body of [`BodyConfig::None`].
    None(NoBody),
    /// Body of [`BodyConfig::Rnn`], [`BodyConfig::Lstm`] and [`BodyConfig::Gru`].
    Recurrent(Recurrent),
    /// Body of [`BodyConfig::IntraAttention`].
    IntraAttention(IntraBody),
    /// Body of [`BodyConfig::Transformer`].
    Transformer(TransformerBody),
}

/// Body that returns its input.
#[derive(Module, Debug)]
pub struct NoBody {}

/// Layers of intra-attention, each in both directions.
#[derive(Module, Debug)]
pub struct IntraBody {
    /// Layers, the lowest first.
    pub layers: Vec<IntraLayer>,
}

/// One layer of an [`IntraBody`].
#[derive(Module, Debug)]
pub struct IntraLayer {
    /// Network that reads from the first word on.
    pub forward: IntraAttention,
    /// Network that reads from the last word back.
    pub backward: IntraAttention,
    /// Dropout of the layer's output; none in the last layer.
    dropout: Dropout,
}

/// Self-attention over vectors of any width: `stack(norm(x W + b) + position)`.
#[derive(Module, Debug)]
pub struct TransformerBody {
    /// `W` and `b`, `[d_in, d_model]`.
    pub input: Linear,
    /// Norm that brings any input vectors to the scale of the positions.
    pub norm: Norm,
    /// Positions, shared by all layers above.
    pub position: Positions,
    /// Stack of blocks.
    pub stack: Stack,
    dropout: Dropout,
    #[module(skip)]
    sight: Sight,
}

impl Body {
    /// Returns the positions, if the body has any.
    pub fn position(&self) -> Option<&Positions> {
        match self {
            Body::Transformer(body) => Some(&body.position),
            Body::None(_) | Body::Recurrent(_) | Body::IntraAttention(_) => None,
        }
    }

    /// Computes the state of each word; states beyond a length are meaningless.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_in]`, `lengths` `[batch]` → `[batch, seq, d_out]`.
    pub fn forward(&self, x: Tensor<3>, lengths: Option<&[usize]>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        match self {
            Body::None(_) => Ok(x),
            Body::Recurrent(network) => Ok(network.forward(x, lengths, None, pass)?.hidden),
            Body::IntraAttention(body) => body.forward(x, lengths, pass),
            Body::Transformer(body) => body.forward(x, lengths, pass),
        }
    }
}

impl IntraBody {
    fn new(sizes: BodySizes, init: &Init) -> Result<Self, ConfigError> {
        let layer = |n| {
            let init = init.enter("layers").enter(n).layer(n);
            let d_in = if n == 0 { sizes.d_in } else { sizes.d_model };
            let config = IntraAttentionConfig::new(d_in, sizes.d_model / 2);
            let dropout = if n + 1 < sizes.n_layers { sizes.dropout } else { 0.0 };
            Ok(IntraLayer {
                forward: config.init(0, &init.enter("forward"))?,
                backward: config.init(1, &init.enter("backward"))?,
                dropout: Dropout::new("dropout", dropout, &init.enter("dropout"))?,
            })
        };
        Ok(Self { layers: (0..sizes.n_layers).map(layer).collect::<Result<_, ConfigError>>()? })
    }

    fn forward(&self, mut x: Tensor<3>, lengths: Option<&[usize]>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        let [batch, seq, _] = x.dims();
        let padding = Lengths::new(lengths, [batch, seq], &x.device())?;
        for layer in &self.layers {
            let forward = layer.forward.forward(x.clone(), lengths, pass)?.hidden;
            let backward = padding.reverse(layer.backward.forward(padding.reverse(x), lengths, pass)?.hidden);
            x = layer.dropout.forward(Tensor::cat(vec![forward, backward], 2), pass)?;
        }
        Ok(x)
    }
}

impl TransformerBody {
    fn new(config: &TransformerBodyConfig, sizes: BodySizes, init: &Init) -> Result<Self, ConfigError> {
        let whole = config.whole(sizes);
        Ok(Self {
            input: LinearConfig::new(sizes.d_in, sizes.d_model).init(&init.enter("input"))?,
            norm: whole.block().norm().init(&init.enter("norm"))?,
            position: whole.position.init(whole.position_sizes(), &init.enter("position"))?,
            stack: Stack::new(&whole, &init.enter("stack"))?,
            dropout: Dropout::new("dropout", sizes.dropout, &init.enter("dropout"))?,
            sight: whole.sight,
        })
    }

    fn forward(&self, x: Tensor<3>, lengths: Option<&[usize]>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        let x = self.norm.forward(self.input.forward(x)?)?;
        let seq = x.dims()[1];
        let (x, places) = self.position.enter(x, &[(0, seq)], pass)?;
        let x = self.dropout.forward(x, pass)?;
        let lengths = lengths.map(<[usize]>::to_vec);
        let options = AttentionOptions { mask: self.sight.mask(), lengths, ..AttentionOptions::default() };
        self.stack.forward(x, None, &options, &places, pass)
    }
}
