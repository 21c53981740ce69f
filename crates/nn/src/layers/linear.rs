//! Linear layer, `y = f(x W + b)`.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use regard_ops::{Activation, OpError, linear, linear_onto};
use serde::{Deserialize, Serialize};

use crate::config::{check_positive, check_product};
use crate::error::ConfigError;
use crate::init::Init;

/// Whether a layer has a bias.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bias {
    /// A learned bias.
    #[default]
    Learned,
    /// No bias.
    None,
}

/// Configuration of a [`Linear`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearConfig {
    /// Number of input features.
    pub d_in: usize,
    /// Number of output features.
    pub d_out: usize,
    /// Whether the layer has a bias.
    #[serde(default)]
    pub bias: Bias,
}

impl LinearConfig {
    /// Returns a configuration with a bias.
    pub fn new(d_in: usize, d_out: usize) -> Self {
        Self { d_in, d_out, bias: Bias::Learned }
    }

    /// Sets whether the layer has a bias.
    pub fn with_bias(self, bias: Bias) -> Self {
        Self { bias, ..self }
    }

    /// Returns an error if a size is zero or the weight is too large.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("d_in", self.d_in)?;
        check_positive("d_out", self.d_out)?;
        check_product("d_out", &[self.d_in, self.d_out])
    }

    /// Creates the layer. The bias starts at zero.
    pub fn init(&self, init: &Init) -> Result<Linear, ConfigError> {
        self.validate()?;
        let Self { d_in, d_out, bias } = *self;
        let bias = (bias == Bias::Learned).then(|| init.constant([d_out], 0.0));
        Ok(Linear { weight: init.weight("weight", [d_in, d_out], [d_in, d_out]), bias })
    }
}

/// Linear layer, `x W + b`.
#[derive(Module, Debug)]
pub struct Linear {
    /// Weight `W`, `[d_in, d_out]`.
    pub weight: Param<Tensor<2>>,
    /// Bias `b`, `[d_out]`.
    pub bias: Option<Param<Tensor<1>>>,
}

impl Linear {
    /// Computes `x W + b`.
    ///
    /// # Shapes
    /// `x` `[…, d_in]` → `[…, d_out]`.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Result<Tensor<D>, OpError> {
        linear(x, self.weight.val(), self.bias_value(), None)
    }

    /// Computes `f(x W + b)` in one operation.
    ///
    /// # Shapes
    /// `x` `[…, d_in]` → `[…, d_out]`.
    pub fn forward_activated<const D: usize>(
        &self,
        x: Tensor<D>,
        activation: Activation,
    ) -> Result<Tensor<D>, OpError> {
        linear(x, self.weight.val(), self.bias_value(), Some(activation))
    }

    /// Computes `onto + x W + b` in one operation, or `x W + b` without `onto`.
    ///
    /// # Shapes
    /// `x` `[…, d_in]`, `onto` `[…, d_out]` → `[…, d_out]`.
    pub fn forward_onto<const D: usize>(&self, x: Tensor<D>, onto: Option<Tensor<D>>) -> Result<Tensor<D>, OpError> {
        match onto {
            Some(onto) => linear_onto(x, self.weight.val(), self.bias_value(), onto),
            None => self.forward(x),
        }
    }

    fn bias_value(&self) -> Option<Tensor<1>> {
        self.bias.as_ref().map(Param::val)
    }
}
