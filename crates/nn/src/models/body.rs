//! What stands between the vectors of words and the output of a tagger or classifier: each word learns of the others.

use burn::module::Module;
use burn::tensor::Tensor;
use regard_ops::{Activation, AttentionOptions};
use serde::{Deserialize, Serialize};

use super::stack::Stack;
use super::transformer::{Sight, TransformerConfig};
use crate::config::{ActivationName, check_dropout, check_positive, name_or_table, no_settings};
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::block::NormPlace;
use crate::layers::dropout::Dropout;
use crate::layers::intra_attention::{IntraAttention, IntraAttentionConfig};
use crate::layers::linear::{Bias, Linear, LinearConfig};
use crate::layers::norm::{Norm, NormKind};
use crate::layers::position::{Position, Positions};
use crate::layers::recurrent::{Cell, Direction, Recurrent, RecurrentConfig};
use crate::lengths::Lengths;
use crate::pass::Pass;

/// Which kind. In a file by name, `body = "lstm"`, or with settings, `body = { kind = "transformer", n_heads = 8 }`.
/// Recurrent networks read both ways, with half of `d_model` each way.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "one a model")]
pub enum BodyConfig {
    /// Nothing: each word by itself.
    #[serde(deserialize_with = "no_settings")]
    None,
    /// A plain recurrent network.
    #[serde(deserialize_with = "no_settings")]
    Rnn,
    /// Long short-term memory.
    #[serde(deserialize_with = "no_settings")]
    Lstm,
    /// Gated recurrent units.
    #[serde(deserialize_with = "no_settings")]
    Gru,
    /// Recurrent networks that attend over their own past (Cheng 2016).
    #[serde(deserialize_with = "no_settings")]
    IntraAttention,
    /// Self-attention.
    Transformer(TransformerBodyConfig),
}

/// The settings of [`BodyConfig::Transformer`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TransformerBodyConfig {
    /// Heads.
    pub n_heads: usize,
    /// Heads of keys and values; `n_heads` by default.
    pub kv_heads: Option<usize>,
    /// Hidden features of the feed-forward part; four times `d_model` by default.
    pub d_ff: Option<usize>,
    /// The activation of the feed-forward part.
    #[serde(with = "ActivationName")]
    pub activation: Activation,
    /// Layer norm or RMS norm.
    pub norm: NormKind,
    /// The bias of the linear layers of the blocks.
    pub bias: Bias,
    /// Post-norm or pre-norm.
    pub norm_place: NormPlace,
    /// How it knows the order of words.
    #[serde(deserialize_with = "name_or_table")]
    pub position: Position,
    /// What a word may see.
    #[serde(deserialize_with = "name_or_table")]
    pub sight: Sight,
    /// Dropout of attention weights.
    pub attention_dropout: f32,
}

impl Default for TransformerBodyConfig {
    /// Four heads, pre-norm, which trains without warm-up.
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
            attention_dropout: 0.0,
        }
    }
}

/// The sizes that all kinds of bodies share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BodySizes {
    /// Features in.
    pub d_in: usize,
    /// Features out; [`BodyConfig::None`] keeps `d_in`.
    pub d_model: usize,
    /// Layers.
    pub n_layers: usize,
    /// Dropout between layers, and within those of a Transformer.
    pub dropout: f32,
}

impl BodyConfig {
    /// A Transformer with the usual settings.
    pub fn transformer() -> Self {
        Self::Transformer(TransformerBodyConfig::default())
    }

    /// Features out.
    pub fn d_out(&self, sizes: BodySizes) -> usize {
        if *self == Self::None { sizes.d_in } else { sizes.d_model }
    }

    /// Refuses what makes no sense.
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
            _ => Err(ConfigError::new("d_model", sizes.d_model, "an even number, half for each way of reading")),
        }
    }

    /// The body.
    pub fn init(&self, sizes: BodySizes, init: &Init) -> Result<Body, ConfigError> {
        self.validate(sizes)?;
        let recurrent = |cell| {
            let dropout = if sizes.n_layers > 1 { sizes.dropout } else { 0.0 };
            let config = RecurrentConfig::new(cell, sizes.d_in, sizes.d_model / 2);
            let config = RecurrentConfig { n_layers: sizes.n_layers, direction: Direction::Both, dropout, ..config };
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
    /// The body as a whole model, of which the blocks and positions are used.
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
            dropout: sizes.dropout,
            attention_dropout: self.attention_dropout,
            ..TransformerConfig::default()
        }
    }
}

/// See the [module](self).
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "one a model")]
pub enum Body {
    /// [`BodyConfig::None`].
    None(NoBody),
    /// [`BodyConfig::Rnn`], [`BodyConfig::Lstm`], [`BodyConfig::Gru`].
    Recurrent(Recurrent),
    /// [`BodyConfig::IntraAttention`].
    IntraAttention(IntraBody),
    /// [`BodyConfig::Transformer`].
    Transformer(TransformerBody),
}

/// Nothing.
#[derive(Module, Debug)]
pub struct NoBody {}

/// Layers of intra-attention, each in both directions.
#[derive(Module, Debug)]
pub struct IntraBody {
    /// From the input up.
    pub layers: Vec<IntraLayer>,
}

/// One layer of an [`IntraBody`].
#[derive(Module, Debug)]
pub struct IntraLayer {
    /// Reads from the first word.
    pub forward: IntraAttention,
    /// Reads from the last.
    pub backward: IntraAttention,
    /// Dropout of the layer's output, except in the last layer.
    dropout: Dropout,
}

/// Self-attention over vectors of any width: `stack(norm(x W + b) + position)`.
#[derive(Module, Debug)]
pub struct TransformerBody {
    /// `[d_in, d_model]`
    pub input: Linear,
    /// Makes vectors of any origin as large as positions.
    pub norm: Norm,
    /// One for all layers above.
    pub position: Positions,
    /// The blocks.
    pub stack: Stack,
    dropout: Dropout,
    #[module(skip)]
    sight: Sight,
}

impl Body {
    /// The state of each word; those beyond a length mean nothing.
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
        let turned = |x: Tensor<3>| match &padding {
            Some(padding) => padding.reverse(x),
            None => x.flip([1]),
        };
        for layer in &self.layers {
            let forward = layer.forward.forward(x.clone(), lengths, pass)?.hidden;
            let backward = turned(layer.backward.forward(turned(x), lengths, pass)?.hidden);
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
