//! Self-attention on feature maps `[batch, channels, height, width]`, between positions or between channels.
//!
//! With the positions as rows of `X` (`hw × channels`):
//! - spatial (non-local networks, Wang et al. 2018; SAGAN, Zhang et al. 2019), `hw × hw`:
//!   `softmax(s · (X W_q)(X W_k)ᵀ) (X W_v) W_o`;
//! - channel (DANet, Fu et al. 2019), `channels × channels`, without weights: `softmax(s · Xᵀ X) Xᵀ`.
//!
//! Both are added to the input through a learned gate `γ` that starts at zero, `γ y + x`, so that a new block is the
//! identity. As published, `s = 1`. Both use the fused attention operation, which does not store the square matrix.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use regard_ops::{AttentionOptions, ConvolutionOptions, OpError, convolution};
use serde::{Deserialize, Serialize};

use super::check::{Size, check_input};
use crate::config::{check_above_zero, check_positive};
use crate::error::{ConfigError, NnError};
use crate::heads::{AttentionKind, Heads};
use crate::init::Init;
use crate::layers::linear::{Bias, Linear, LinearConfig};
use crate::pass::Pass;

/// How the output of attention `y` is combined with its input `x`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipConnection {
    /// `γ y + x` with a learned `γ` that starts at zero.
    #[default]
    Gated,
    /// `y + x`.
    Sum,
    /// `y`.
    None,
}

impl SkipConnection {
    fn gate(self, init: &Init) -> Option<Param<Tensor<1>>> {
        (self == Self::Gated).then(|| init.constant([1], 0.0))
    }

    fn join(self, x: Tensor<4>, y: Tensor<4>, gate: Option<&Param<Tensor<1>>>) -> Tensor<4> {
        match (self, gate) {
            (Self::None, _) => y,
            (_, Some(gate)) => y * gate.val().reshape([1; 4]) + x,
            (_, None) => y + x,
        }
    }
}

/// Configuration of a [`SpatialAttention`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpatialAttentionConfig {
    /// Number of input and output channels.
    pub channels: usize,
    /// Number of features of queries and keys; an eighth of the channels in SAGAN.
    pub d_key: usize,
    /// Number of features of values; half of the channels in SAGAN.
    pub d_value: usize,
    /// Factor `s` on the scores.
    #[serde(default = "one")]
    pub scale: f32,
    /// Bias of all four projections.
    #[serde(default)]
    pub bias: Bias,
    /// How the output is combined with the input.
    #[serde(default)]
    pub residual: SkipConnection,
}

fn one() -> f32 {
    1.0
}

impl SpatialAttentionConfig {
    /// Returns the published configuration.
    pub fn new(channels: usize, d_key: usize, d_value: usize) -> Self {
        Self { channels, d_key, d_value, scale: one(), bias: Bias::Learned, residual: SkipConnection::Gated }
    }

    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("channels", self.channels)?;
        check_positive("d_key", self.d_key)?;
        check_positive("d_value", self.d_value)?;
        check_above_zero("scale", self.scale)
    }

    /// Creates the layer.
    pub fn init(&self, init: &Init) -> Result<SpatialAttention, ConfigError> {
        self.validate()?;
        let Self { channels, d_key, d_value, scale, bias, residual } = *self;
        let linear = |name, d_in, d_out| LinearConfig { d_in, d_out, bias }.init(&init.enter(name));
        Ok(SpatialAttention {
            query: linear("query", channels, d_key)?,
            key: linear("key", channels, d_key)?,
            value: linear("value", channels, d_value)?,
            output: linear("output", d_value, channels)?,
            gate: residual.gate(init),
            scale,
            residual,
            heads: init.heads(AttentionKind::SelfAttention, 1),
        })
    }
}

/// Attention between positions; see the [module](self) for the formula. The projections are convolutions of size 1.
#[derive(Module, Debug)]
pub struct SpatialAttention {
    /// `W_q`, `[channels, d_key]`.
    pub query: Linear,
    /// `W_k`, `[channels, d_key]`.
    pub key: Linear,
    /// `W_v`, `[channels, d_value]`.
    pub value: Linear,
    /// `W_o`, `[d_value, channels]`.
    pub output: Linear,
    /// `γ`, `[1]`.
    pub gate: Option<Param<Tensor<1>>>,
    scale: f32,
    #[module(skip)]
    residual: SkipConnection,
    #[module(skip)]
    heads: Heads,
}

impl SpatialAttention {
    /// Computes the attention of every position over all positions. Captured maps list positions row by row.
    ///
    /// # Shapes
    /// `x` `[batch, channels, height, width]` → the same.
    pub fn forward(&self, x: Tensor<4>, pass: &Pass) -> Result<Tensor<4>, NnError> {
        let channels = self.query.weight.dims()[0];
        let any = ["batch", "height", "width"].map(Size::Any);
        check_input("feature map", &x, [any[0], Size::Is(channels), any[1], any[2]])?;
        let [batch, _, height, width] = x.dims();
        let head = |linear: &Linear| -> Result<Tensor<4>, OpError> {
            let y = pointwise(x.clone(), linear, None)?;
            let d = y.dims()[1];
            Ok(y.reshape([batch, 1, d, height * width]).swap_dims(2, 3))
        };
        let (q, k, v) = (head(&self.query)?, head(&self.key)?, head(&self.value)?);
        let attended = self.heads.attend(q, k, v, &options(self.scale), 0, pass)?;
        if self.heads.are_off(pass) {
            return Ok(if self.residual == SkipConnection::None { x.zeros_like() } else { x });
        }
        let d_value = attended.dims()[3];
        let attended = attended.swap_dims(2, 3).reshape([batch, d_value, height, width]);
        let y = pointwise(attended, &self.output, self.gate.as_ref())?;
        Ok(if self.residual == SkipConnection::None { y } else { y + x })
    }
}

/// Computes `gate · (W x + b)` at each position, as a convolution of size 1, which needs no other order of the map. The gate scales
/// the weights, which are fewer than the outputs.
///
/// # Shapes
/// `x` `[batch, d_in, height, width]`, `gate` `[1]` → `[batch, d_out, height, width]`.
fn pointwise(x: Tensor<4>, linear: &Linear, gate: Option<&Param<Tensor<1>>>) -> Result<Tensor<4>, OpError> {
    let [d_in, d_out] = linear.weight.dims();
    let (mut weight, mut bias) = (linear.weight_f32().transpose(), linear.bias.as_ref().map(Param::val));
    if let Some(gate) = gate {
        weight = weight * gate.val().unsqueeze();
        bias = bias.map(|bias| bias * gate.val());
    }
    convolution(x, weight.reshape([d_out, d_in, 1, 1]), bias, &ConvolutionOptions::default())
}

/// Configuration of a [`ChannelAttention`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelAttentionConfig {
    /// Factor `s` on the scores. A channel's product with itself grows with the number of positions: with `s = 1`, large
    /// maps and large values, every channel attends only to itself.
    #[serde(default = "one")]
    pub scale: f32,
    /// How the output is combined with the input.
    #[serde(default)]
    pub residual: SkipConnection,
}

impl Default for ChannelAttentionConfig {
    fn default() -> Self {
        Self { scale: one(), residual: SkipConnection::Gated }
    }
}

impl ChannelAttentionConfig {
    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_above_zero("scale", self.scale)
    }

    /// Creates the layer.
    pub fn init(&self, init: &Init) -> Result<ChannelAttention, ConfigError> {
        self.validate()?;
        let Self { scale, residual } = *self;
        let heads = init.heads(AttentionKind::Channels, 1);
        Ok(ChannelAttention { gate: residual.gate(init), scale, residual, heads })
    }
}

/// Attention between channels; see the [module](self) for the formula.
#[derive(Module, Debug)]
pub struct ChannelAttention {
    /// `γ`, `[1]`.
    pub gate: Option<Param<Tensor<1>>>,
    scale: f32,
    #[module(skip)]
    residual: SkipConnection,
    #[module(skip)]
    heads: Heads,
}

impl ChannelAttention {
    /// Computes the attention of every channel over all channels: channels are the tokens, positions their features.
    ///
    /// # Shapes
    /// `x` `[batch, channels, height, width]` → the same.
    pub fn forward(&self, x: Tensor<4>, pass: &Pass) -> Result<Tensor<4>, NnError> {
        check_input("feature map", &x, ["batch", "channels", "height", "width"].map(Size::Any))?;
        let dims @ [batch, channels, height, width] = x.dims();
        let tokens = x.clone().reshape([batch, 1, channels, height * width]);
        let y = self.heads.attend(tokens.clone(), tokens.clone(), tokens, &options(self.scale), 0, pass)?.reshape(dims);
        Ok(self.residual.join(x, y, self.gate.as_ref()))
    }
}

fn options(scale: f32) -> AttentionOptions {
    AttentionOptions { scale: Some(scale), ..AttentionOptions::default() }
}
