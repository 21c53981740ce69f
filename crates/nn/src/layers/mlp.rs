//! Multilayer perceptron: stacked layers `y = f(x W + b)`, with `f = tanh` by default.

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

/// Whether the last layer has an activation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastLayer {
    /// No activation, `x W + b`, as for logits.
    #[default]
    Linear,
    /// The activation of the other layers, `f(x W + b)`.
    Activated,
}

/// Configuration of an [`Mlp`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MlpConfig {
    /// Numbers of features: of the input, of each hidden layer, and of the output.
    pub sizes: Vec<usize>,
    /// Activation `f`.
    #[serde(default = "tanh", with = "ActivationName")]
    pub activation: Activation,
    /// Whether the last layer has the activation too.
    #[serde(default)]
    pub last: LastLayer,
    /// Dropout probability of hidden features.
    #[serde(default)]
    pub dropout: f32,
}

fn tanh() -> Activation {
    Activation::Tanh
}

impl MlpConfig {
    /// Returns a configuration with tanh between the layers and no dropout.
    pub fn new(sizes: impl Into<Vec<usize>>) -> Self {
        Self { sizes: sizes.into(), activation: tanh(), last: LastLayer::Linear, dropout: 0.0 }
    }

    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.sizes.len() < 2 {
            let got = format!("{:?}", self.sizes);
            return Err(ConfigError::new("sizes", got, "at least two numbers: input and output features"));
        }
        for (n, &size) in self.sizes.iter().enumerate() {
            check_positive(&format!("sizes[{n}]"), size)?;
        }
        check_dropout("dropout", self.dropout)
    }

    /// Creates the layer.
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

/// Multilayer perceptron.
#[derive(Module, Debug)]
pub struct Mlp {
    /// Layers, the one that reads the input first.
    pub layers: Vec<MlpLayer>,
    #[module(skip)]
    activation: Activation,
    #[module(skip)]
    last: LastLayer,
}

/// One layer of an [`Mlp`].
#[derive(Module, Debug)]
pub struct MlpLayer {
    /// Linear layer `n`, `[sizes[n], sizes[n + 1]]`.
    pub linear: Linear,
    dropout: Dropout,
}

impl Mlp {
    /// Applies the network to each vector.
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
