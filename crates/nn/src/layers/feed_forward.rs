//! The feed-forward part of a block, token by token: `f(x W₁ + b₁) W₂ + b₂`, or gated (Shazeer 2020)
//! `(f(x W_g + b_g) ∘ (x W₁ + b₁)) W₂ + b₂`.

use burn::module::Module;
use burn::tensor::Tensor;
use regard_ops::{Activation, OpError};
use serde::{Deserialize, Serialize};

use crate::config::{ActivationName, check_dropout, check_positive};
use crate::error::ConfigError;
use crate::init::Init;
use crate::layers::dropout::Dropout;
use crate::layers::linear::{Bias, Linear, LinearConfig};
use crate::pass::Pass;

/// Whether the hidden features are multiplied by a second product.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// No, as published for the Transformer.
    #[default]
    None,
    /// Yes, as in Llama (with SiLU).
    Product,
}

/// The shape of a [`FeedForward`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeedForwardConfig {
    /// Features in and out.
    pub d_model: usize,
    /// Hidden features.
    pub d_ff: usize,
    /// `f`.
    #[serde(default = "ActivationName::relu", with = "ActivationName")]
    pub activation: Activation,
    /// Plain or gated.
    #[serde(default)]
    pub gate: Gate,
    /// The bias of all its linear layers.
    #[serde(default)]
    pub bias: Bias,
    /// Dropout of hidden features.
    #[serde(default)]
    pub dropout: f32,
}

impl FeedForwardConfig {
    /// Plain, with ReLU and biases, as published.
    pub fn new(d_model: usize, d_ff: usize) -> Self {
        let (activation, gate, bias) = (Activation::Relu, Gate::None, Bias::Learned);
        Self { d_model, d_ff, activation, gate, bias, dropout: 0.0 }
    }

    /// Refuses what makes no sense.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("d_model", self.d_model)?;
        check_positive("d_ff", self.d_ff)?;
        check_dropout("dropout", self.dropout)
    }

    /// The layer.
    pub fn init(&self, init: &Init) -> Result<FeedForward, ConfigError> {
        self.validate()?;
        let Self { d_model, d_ff, activation, gate, bias, dropout } = *self;
        let linear = |name, d_in, d_out| LinearConfig { d_in, d_out, bias }.init(&init.enter(name));
        Ok(FeedForward {
            gate: if gate == Gate::Product { Some(linear("gate", d_model, d_ff)?) } else { None },
            up: linear("up", d_model, d_ff)?,
            down: LinearConfig { d_in: d_ff, d_out: d_model, bias }.init(&init.enter("down").into_stream())?,
            dropout: Dropout::new("dropout", dropout, &init.enter("dropout"))?,
            activation,
        })
    }
}

/// See the [module](self).
#[derive(Module, Debug)]
pub struct FeedForward {
    /// `W_g`, `[d_model, d_ff]`
    pub gate: Option<Linear>,
    /// `W₁`, `[d_model, d_ff]`
    pub up: Linear,
    /// `W₂`, `[d_ff, d_model]`
    pub down: Linear,
    dropout: Dropout,
    #[module(skip)]
    activation: Activation,
}

impl FeedForward {
    /// Each token by itself.
    ///
    /// # Shapes
    /// `x` `[…, d_model]` → the same.
    pub fn forward<const D: usize>(&self, x: Tensor<D>, pass: &Pass) -> Result<Tensor<D>, OpError> {
        self.forward_onto(x, None, pass)
    }

    /// The same added to `onto`.
    ///
    /// # Shapes
    /// `x` and `onto` `[…, d_model]` → the same.
    pub fn forward_onto<const D: usize>(
        &self,
        x: Tensor<D>,
        onto: Option<Tensor<D>>,
        pass: &Pass,
    ) -> Result<Tensor<D>, OpError> {
        let hidden = match &self.gate {
            Some(gate) => gate.forward_activated(x.clone(), self.activation)? * self.up.forward(x)?,
            None => self.up.forward_activated(x, self.activation)?,
        };
        self.down.forward_onto(self.dropout.forward(hidden, pass)?, onto)
    }
}
