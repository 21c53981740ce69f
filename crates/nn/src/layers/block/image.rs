//! Residual block of convolutions over images (He et al. 2016), with group norm in place of batch norm:
//! `relu(norm(conv(relu(norm(conv(x))))) + shortcut(x))`.
//!
//! The shortcut is the identity, or `norm(conv(x))` with a kernel of size 1 where the block changes the size of the image or the
//! number of channels.

use burn::module::Module;
use burn::tensor::Tensor;
use regard_ops::{Activation, activation};
use serde::{Deserialize, Serialize};

use crate::config::check_dropout;
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::convolution::{Convolution, ConvolutionConfig};
use crate::layers::dropout::Dropout;
use crate::layers::group_norm::{GroupNorm, GroupNormConfig};
use crate::layers::linear::Bias;
use crate::pass::Pass;

/// Configuration of a [`ResidualBlock`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResidualBlockConfig {
    /// Number of channels of the input.
    pub in_channels: usize,
    /// Number of channels of the output.
    pub out_channels: usize,
    /// Factor by which the block shrinks height and width.
    pub stride: usize,
    /// Number of groups of channels in the norms.
    pub groups: usize,
    /// Dropout probability between the two convolutions (Zagoruyko and Komodakis 2016).
    #[serde(default)]
    pub dropout: f32,
}

impl ResidualBlockConfig {
    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let Self { in_channels, out_channels, stride, groups, dropout } = *self;
        NormedConvolutionConfig { in_channels, out_channels, kernel: 3, stride, groups }.validate()?;
        check_dropout("dropout", dropout)
    }

    /// Creates the block.
    pub fn init(&self, init: &Init) -> Result<ResidualBlock, ConfigError> {
        self.validate()?;
        let Self { in_channels, out_channels, stride, groups, dropout } = *self;
        let part = |name, in_channels, kernel, stride| {
            let config = NormedConvolutionConfig { in_channels, out_channels, kernel, stride, groups };
            config.init(&init.enter(name))
        };
        let changes = in_channels != out_channels || stride != 1;
        Ok(ResidualBlock {
            first: part("first", in_channels, 3, stride)?,
            second: part("second", out_channels, 3, 1)?,
            shortcut: changes.then(|| part("shortcut", in_channels, 1, stride)).transpose()?,
            dropout: Dropout::new("dropout", dropout, &init.enter("dropout"))?,
        })
    }
}

/// Configuration of a [`NormedConvolution`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NormedConvolutionConfig {
    /// Number of channels of the input.
    pub in_channels: usize,
    /// Number of channels of the output.
    pub out_channels: usize,
    /// Height and width of the kernel.
    pub kernel: usize,
    /// Distance between the windows of neighbouring outputs.
    pub stride: usize,
    /// Number of groups of channels in the norm; 0 for a bias in place of the norm.
    pub groups: usize,
}

impl NormedConvolutionConfig {
    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.convolution().validate()?;
        self.norm().map_or(Ok(()), |norm| norm.validate())
    }

    /// Creates the layer.
    pub fn init(&self, init: &Init) -> Result<NormedConvolution, ConfigError> {
        Ok(NormedConvolution {
            convolution: self.convolution().init(&init.enter("convolution"))?,
            norm: self.norm().map(|norm| norm.init(&init.enter("norm"))).transpose()?,
        })
    }

    /// Returns the configuration of the convolution, without a bias if there is a norm, which has one.
    fn convolution(&self) -> ConvolutionConfig {
        let Self { in_channels, out_channels, kernel, stride, groups } = *self;
        let bias = if groups == 0 { Bias::Learned } else { Bias::None };
        ConvolutionConfig::new(in_channels, out_channels, kernel).with_stride(stride).with_bias(bias)
    }

    fn norm(&self) -> Option<GroupNormConfig> {
        (self.groups > 0).then(|| GroupNormConfig::new(self.out_channels, self.groups))
    }
}

/// Residual block of convolutions; see the [module](self) for the formula.
#[derive(Module, Debug)]
pub struct ResidualBlock {
    /// First convolution, which may change the size.
    pub first: NormedConvolution,
    /// Second convolution.
    pub second: NormedConvolution,
    /// Shortcut of a block that changes the size; otherwise the input itself is added.
    pub shortcut: Option<NormedConvolution>,
    dropout: Dropout,
}

/// Convolution followed by a group norm. Without a norm, an output depends only on the pixels around it: the statistics of a norm
/// are those of the whole image.
#[derive(Module, Debug)]
pub struct NormedConvolution {
    /// Convolution, with a bias if there is no norm.
    pub convolution: Convolution,
    /// Norm of its output.
    pub norm: Option<GroupNorm>,
}

impl ResidualBlock {
    /// Computes the block's output.
    ///
    /// # Shapes
    /// `x` `[batch, in_channels, height, width]` → `[batch, out_channels, ⌈height / stride⌉, ⌈width / stride⌉]`.
    pub fn forward(&self, x: Tensor<4>, pass: &Pass) -> Result<Tensor<4>, NnError> {
        let shortcut = match &self.shortcut {
            Some(part) => part.forward(x.clone())?,
            None => x.clone(),
        };
        let y = self.first.forward_rectified(x, None)?;
        self.second.forward_rectified(self.dropout.forward(y, pass)?, Some(shortcut))
    }
}

impl NormedConvolution {
    /// Computes `norm(conv(x))`.
    ///
    /// # Shapes
    /// `x` `[batch, in_channels, height, width]` → `[batch, out_channels, out_h, out_w]`.
    pub fn forward(&self, x: Tensor<4>) -> Result<Tensor<4>, NnError> {
        let y = self.convolution.forward(x)?;
        Ok(match &self.norm {
            Some(norm) => norm.forward(y)?,
            None => y,
        })
    }

    /// Computes `relu(norm(conv(x)) + onto)`, or `relu(norm(conv(x)))` without `onto`.
    ///
    /// # Shapes
    /// `x` `[batch, in_channels, height, width]`, `onto` `[batch, out_channels, out_h, out_w]` → as `onto`.
    pub fn forward_rectified(&self, x: Tensor<4>, onto: Option<Tensor<4>>) -> Result<Tensor<4>, NnError> {
        let y = self.convolution.forward(x)?;
        Ok(match (&self.norm, onto) {
            (Some(norm), onto) => norm.forward_rectified(y, onto)?,
            (None, Some(onto)) => activation(y + onto, Activation::Relu)?,
            (None, None) => activation(y, Activation::Relu)?,
        })
    }
}
