//! Two-dimensional convolution of images: `out[o, y, x] = b[o] + Σ_{c, i, j} w[o, c, i, j] · in[c, s y + i − p, s x + j − p]`.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use regard_ops::{ConvolutionOptions, OpError, convolution};
use serde::{Deserialize, Serialize};

use crate::config::{check_positive, check_product};
use crate::error::ConfigError;
use crate::init::Init;
use crate::layers::linear::Bias;

/// Configuration of a [`Convolution`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvolutionConfig {
    /// Number of channels of the input.
    pub in_channels: usize,
    /// Number of channels of the output.
    pub out_channels: usize,
    /// Height and width of the kernel.
    pub kernel: usize,
    /// Distance `s` between the windows of neighbouring outputs.
    #[serde(default = "one")]
    pub stride: usize,
    /// Number `p` of zeros on each side of the input; half of the kernel by default, so that a kernel of odd size and stride 1
    /// keeps the size of the image.
    #[serde(default)]
    pub padding: Option<usize>,
    /// Whether the layer has a bias.
    #[serde(default)]
    pub bias: Bias,
}

fn one() -> usize {
    1
}

impl ConvolutionConfig {
    /// Returns a configuration with stride 1, a padding of half of the kernel and a bias.
    pub fn new(in_channels: usize, out_channels: usize, kernel: usize) -> Self {
        Self { in_channels, out_channels, kernel, stride: 1, padding: None, bias: Bias::Learned }
    }

    /// Sets the stride.
    pub fn with_stride(self, stride: usize) -> Self {
        Self { stride, ..self }
    }

    /// Sets whether the layer has a bias.
    pub fn with_bias(self, bias: Bias) -> Self {
        Self { bias, ..self }
    }

    /// Returns an error if a size is zero or the weight is too large.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let Self { in_channels, out_channels, kernel, stride, .. } = *self;
        check_positive("in_channels", in_channels)?;
        check_positive("out_channels", out_channels)?;
        check_positive("kernel", kernel)?;
        check_positive("stride", stride)?;
        check_product("kernel", &[out_channels, in_channels, kernel, kernel])
    }

    /// Creates the layer. Weights are drawn for a ReLU that follows ([`Init::rectified`]); the bias starts at zero.
    pub fn init(&self, init: &Init) -> Result<Convolution, ConfigError> {
        self.validate()?;
        let Self { in_channels, out_channels, kernel, stride, padding, bias } = *self;
        let shape = [out_channels, in_channels, kernel, kernel];
        Ok(Convolution {
            weight: init.rectified("weight", shape, in_channels * kernel * kernel),
            bias: (bias == Bias::Learned).then(|| init.constant([out_channels], 0.0)),
            options: ConvolutionOptions::square(stride, padding.unwrap_or(kernel / 2)),
        })
    }
}

/// Two-dimensional convolution; see the [module](self) for the formula.
#[derive(Module, Debug)]
pub struct Convolution {
    /// Weight `w`, `[out_channels, in_channels, kernel, kernel]`.
    pub weight: Param<Tensor<4>>,
    /// Bias `b`, `[out_channels]`.
    pub bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    options: ConvolutionOptions,
}

impl Convolution {
    /// Computes the convolution of each image.
    ///
    /// # Shapes
    /// `x` `[batch, in_channels, height, width]` → `[batch, out_channels, out_h, out_w]`, where `out_h` is
    /// `⌊(height + 2 p − kernel) / s⌋ + 1` and `out_w` likewise.
    pub fn forward(&self, x: Tensor<4>) -> Result<Tensor<4>, OpError> {
        convolution(x, self.weight.val(), self.bias.as_ref().map(Param::val), &self.options)
    }
}
