//! Block of a convolution over the sequence with residual and norm, for comparison with attention: it takes `k n d²`
//! operations, and paths between tokens have length `n/k` instead of 1.

use burn::module::Module;
use burn::tensor::Tensor;
use regard_ops::Activation;
use serde::{Deserialize, Serialize};

use super::BlockConfig;
use super::residual::Residual;
use crate::config::{ActivationName, check_dropout, check_positive, check_product};
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::linear::{Linear, LinearConfig};
use crate::lengths::Lengths;
use crate::pass::Pass;

/// The neighbours that a token sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// The same number of tokens before and after; with an even kernel, one more before.
    #[default]
    Centred,
    /// The token itself and those before it.
    Causal,
}

/// Configuration of a [`ConvBlock`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvConfig {
    /// Number of features of a token.
    pub d_model: usize,
    /// Number of tokens that each output sees.
    pub kernel: usize,
    /// Position of these tokens relative to the output.
    #[serde(default)]
    pub reach: Reach,
    /// Activation after the convolution.
    #[serde(default = "ActivationName::relu", with = "ActivationName")]
    pub activation: Activation,
    /// Dropout probability of the output of the convolution.
    #[serde(default)]
    pub dropout: f32,
}

impl ConvConfig {
    /// Returns a configuration with a centred kernel, ReLU and no dropout.
    pub fn new(d_model: usize, kernel: usize) -> Self {
        Self { d_model, kernel, reach: Reach::Centred, activation: Activation::Relu, dropout: 0.0 }
    }

    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("d_model", self.d_model)?;
        check_positive("kernel", self.kernel)?;
        check_product("kernel", &[self.kernel, self.d_model, self.d_model])?;
        check_dropout("dropout", self.dropout)
    }

    /// Creates the block, with post-norm.
    pub fn init(&self, init: &Init) -> Result<ConvBlock, ConfigError> {
        self.validate()?;
        let Self { d_model, kernel, reach, activation, dropout } = *self;
        let residual = BlockConfig { dropout, ..BlockConfig::new(d_model, 1, d_model) };
        Ok(ConvBlock {
            convolution: LinearConfig::new(kernel * d_model, d_model).init(&init.enter("convolution"))?,
            residual: Residual::new(&residual, dropout, &init.enter("residual"))?,
            kernel,
            reach,
            activation,
        })
    }
}

/// Block `norm(x + f(conv(x)))`. The sequence is padded with zeros at its ends.
#[derive(Module, Debug)]
pub struct ConvBlock {
    /// Weights, `[kernel · d_model, d_model]`, those of the leftmost neighbour first.
    pub convolution: Linear,
    /// Residual around the convolution.
    pub residual: Residual,
    kernel: usize,
    #[module(skip)]
    reach: Reach,
    #[module(skip)]
    activation: Activation,
}

impl ConvBlock {
    /// Computes `norm(x + f(conv(x)))`. Padding counts as zeros; the outputs at padding are meaningless.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_model]`, `lengths` `[batch]` → the same.
    pub fn forward(&self, x: Tensor<3>, lengths: Option<&[usize]>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        let [batch, seq, _] = x.dims();
        let lengths = Lengths::new(lengths, [batch, seq], &x.device())?;
        self.residual.around(x, pass, |x, onto| {
            let convolved = self.convolve(lengths.blank(x))?;
            Ok(match onto {
                Some(onto) => onto + convolved,
                None => convolved,
            })
        })
    }

    /// Computes `f(conv(x))`, without residual and norm.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_model]` → the same.
    pub fn convolve(&self, x: Tensor<3>) -> Result<Tensor<3>, NnError> {
        let [batch, seq, d_model] = x.dims();
        if self.convolution.weight.dims()[0] != self.kernel * d_model || seq == 0 || batch == 0 {
            let expected = format!("[batch, seq, {}], each 1 or more", self.convolution.weight.dims()[1]);
            return Err(NnError::input("tokens", expected, format!("{:?}", x.dims())));
        }
        let before = match self.reach {
            Reach::Centred => self.kernel / 2,
            Reach::Causal => self.kernel - 1,
        };
        let neighbours = windows(x, self.kernel, before);
        Ok(self.convolution.forward_activated(neighbours, self.activation)?)
    }
}

/// Returns for each token a window of `width` tokens, `before` of them to its left, with zeros beyond the ends.
///
/// # Shapes
/// `x` `[batch, seq, d]` → `[batch, seq, width · d]`, the leftmost first.
pub(crate) fn windows(x: Tensor<3>, width: usize, before: usize) -> Tensor<3> {
    let [batch, seq, d] = x.dims();
    let after = width - 1 - before;
    let zeros = |count| Tensor::zeros([batch, count, d], (&x.device(), x.dtype()));
    let mut parts = Vec::with_capacity(3);
    parts.extend((before > 0).then(|| zeros(before)));
    parts.push(x.clone());
    parts.extend((after > 0).then(|| zeros(after)));
    let padded = Tensor::cat(parts, 1);
    Tensor::cat((0..width).map(|shift| padded.clone().narrow(1, shift, seq)).collect(), 2)
}
