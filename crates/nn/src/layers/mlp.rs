//! A deep network of dense layers, `y = f(x W + b)` stacked, with `f = tanh` unless said.

use burn::module::Module;
use burn::tensor::Tensor;
use regard_ops::{Activation, OpError};
use serde::{Deserialize, Serialize};

use crate::config::{ActivationName, check_dropout, check_positive};
use crate::error::ConfigError;
use crate::init::Init;
use crate::layers::dropout::Dropout;
use crate::layers::linear::{Linear, LinearConfig};
use crate::pass::Pass;

/// What the last layer gives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastLayer {
    /// `x W + b`, as for logits.
    #[default]
    Linear,
    /// `f(x W + b)`, as the others.
    Activated,
}

/// The shape of an [`Mlp`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MlpConfig {
    /// Features in, of each hidden layer, and out.
    pub sizes: Vec<usize>,
    /// `f`.
    #[serde(default = "tanh", with = "ActivationName")]
    pub activation: Activation,
    /// Whether `f` is of the last layer too.
    #[serde(default)]
    pub last: LastLayer,
    /// Dropout of hidden features.
    #[serde(default)]
    pub dropout: f32,
}

fn tanh() -> Activation {
    Activation::Tanh
}

impl MlpConfig {
    /// With tanh between its layers.
    pub fn new(sizes: impl Into<Vec<usize>>) -> Self {
        Self { sizes: sizes.into(), activation: tanh(), last: LastLayer::Linear, dropout: 0.0 }
    }

    /// Refuses what makes no sense.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.sizes.len() < 2 {
            let got = format!("{:?}", self.sizes);
            return Err(ConfigError::new("sizes", got, "two numbers or more: features in and out"));
        }
        for (n, &size) in self.sizes.iter().enumerate() {
            check_positive(&format!("sizes[{n}]"), size)?;
        }
        check_dropout("dropout", self.dropout)
    }

    /// The layer.
    pub fn init(&self, init: &Init) -> Result<Mlp, ConfigError> {
        self.validate()?;
        let layers = self.sizes.windows(2).enumerate().map(|(n, size)| {
            let init = init.enter("layers").enter(n);
            let linear = LinearConfig::new(size[0], size[1]).init(&init)?;
            Ok(MlpLayer { linear, dropout: Dropout::new("dropout", self.dropout, &init.enter("dropout"))? })
        });
        let layers = layers.collect::<Result<_, ConfigError>>()?;
        Ok(Mlp { layers, activation: self.activation, last: self.last })
    }
}

/// See the [module](self).
#[derive(Module, Debug)]
pub struct Mlp {
    /// From the input up.
    pub layers: Vec<MlpLayer>,
    #[module(skip)]
    activation: Activation,
    #[module(skip)]
    last: LastLayer,
}

/// One layer of an [`Mlp`].
#[derive(Module, Debug)]
pub struct MlpLayer {
    /// `[sizes[n], sizes[n + 1]]`
    pub linear: Linear,
    dropout: Dropout,
}

impl Mlp {
    /// Each vector by itself.
    ///
    /// # Shapes
    /// `x` `[…, d_in]` → `[…, d_out]`.
    pub fn forward<const D: usize>(&self, mut x: Tensor<D>, pass: &Pass) -> Result<Tensor<D>, OpError> {
        let Some((last, hidden)) = self.layers.split_last() else { return Ok(x) };
        for layer in hidden {
            x = layer.dropout.forward(layer.linear.forward_activated(x, self.activation)?, pass)?;
        }
        match self.last {
            LastLayer::Linear => last.linear.forward(x),
            LastLayer::Activated => last.linear.forward_activated(x, self.activation),
        }
    }
}
