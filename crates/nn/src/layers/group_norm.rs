//! Group norm of images (Wu and He 2018): `γ_c (x − mean)/√(var + ε) + β_c`, with mean and variance of each group of
//! neighbouring channels of one image. Unlike batch norm, an image does not depend on the others of its batch.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use regard_ops::{GroupNormOptions, OpError, Rectifier, group_norm};
use serde::{Deserialize, Serialize};

use crate::config::{check_above_zero, check_positive};
use crate::error::ConfigError;
use crate::init::Init;

/// Configuration of a [`GroupNorm`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupNormConfig {
    /// Number of channels.
    pub channels: usize,
    /// Number of groups; divides the number of channels.
    pub groups: usize,
    /// Small number `ε` in the denominator.
    #[serde(default = "default_epsilon")]
    pub epsilon: f32,
}

fn default_epsilon() -> f32 {
    1e-5
}

impl GroupNormConfig {
    /// Returns a configuration with the usual `ε` of 10⁻⁵.
    pub fn new(channels: usize, groups: usize) -> Self {
        Self { channels, groups, epsilon: default_epsilon() }
    }

    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("channels", self.channels)?;
        check_positive("groups", self.groups)?;
        if !self.channels.is_multiple_of(self.groups) {
            let allowed = format!("a divisor of the {} channels", self.channels);
            return Err(ConfigError::new("groups", self.groups, allowed));
        }
        check_above_zero("epsilon", self.epsilon)
    }

    /// Creates the layer, with `γ = 1` and `β = 0`.
    pub fn init(&self, init: &Init) -> Result<GroupNorm, ConfigError> {
        self.validate()?;
        Ok(GroupNorm {
            weight: init.constant([self.channels], 1.0),
            bias: init.constant([self.channels], 0.0),
            groups: self.groups,
            epsilon: self.epsilon,
        })
    }
}

/// Group norm; see the [module](self) for the formula.
#[derive(Module, Debug)]
pub struct GroupNorm {
    /// `γ`, `[channels]`.
    pub weight: Param<Tensor<1>>,
    /// `β`, `[channels]`.
    pub bias: Param<Tensor<1>>,
    groups: usize,
    epsilon: f32,
}

impl GroupNorm {
    /// Normalises each image.
    ///
    /// # Shapes
    /// `x` `[batch, channels, height, width]` → the same.
    pub fn forward(&self, x: Tensor<4>) -> Result<Tensor<4>, OpError> {
        self.run(x, None, Rectifier::None)
    }

    /// Computes `relu(norm(x) + onto)` in one operation, or `relu(norm(x))` without `onto`.
    ///
    /// # Shapes
    /// `x`, `onto` `[batch, channels, height, width]` → the same.
    pub fn forward_rectified(&self, x: Tensor<4>, onto: Option<Tensor<4>>) -> Result<Tensor<4>, OpError> {
        self.run(x, onto, Rectifier::Relu)
    }

    fn run(&self, x: Tensor<4>, onto: Option<Tensor<4>>, rectifier: Rectifier) -> Result<Tensor<4>, OpError> {
        let options = GroupNormOptions { groups: self.groups, epsilon: self.epsilon, rectifier };
        group_norm(x, self.weight.val(), self.bias.val(), onto, &options)
    }
}
