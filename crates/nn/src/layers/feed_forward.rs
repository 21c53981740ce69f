//! Feed-forward part of a block, applied to each token: `f(x W₁ + b₁) W₂ + b₂`, or gated (Shazeer 2020),
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

/// Whether the hidden features are gated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// Not gated, as in the original Transformer.
    #[default]
    None,
    /// Multiplied by a second product, as in Llama (with SiLU).
    Product,
}

/// Configuration of a [`FeedForward`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeedForwardConfig {
    /// Number of input and output features.
    pub d_model: usize,
    /// Number of hidden features.
    pub d_ff: usize,
    /// Activation `f`.
    #[serde(default = "ActivationName::relu", with = "ActivationName")]
    pub activation: Activation,
    /// Whether the hidden features are gated.
    #[serde(default)]
    pub gate: Gate,
    /// Bias of all linear layers.
    #[serde(default)]
    pub bias: Bias,
    /// Dropout probability of the hidden features.
    #[serde(default)]
    pub dropout: f32,
}

impl FeedForwardConfig {
    /// Returns the published configuration: ReLU and biases, without a gate or dropout.
    pub fn new(d_model: usize, d_ff: usize) -> Self {
        let (activation, gate, bias) = (Activation::Relu, Gate::None, Bias::Learned);
        Self { d_model, d_ff, activation, gate, bias, dropout: 0.0 }
    }

    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("d_model", self.d_model)?;
        check_positive("d_ff", self.d_ff)?;
        check_dropout("dropout", self.dropout)
    }

    /// Creates the layer.
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

/// Feed-forward layer; see the [module](self) for the formula.
#[derive(Module, Debug)]
pub struct FeedForward {
    /// `W_g` and `b_g`, `[d_model, d_ff]` and `[d_ff]`, if gated.
    pub gate: Option<Linear>,
    /// `W₁` and `b₁`, `[d_model, d_ff]` and `[d_ff]`.
    pub up: Linear,
    /// `W₂` and `b₂`, `[d_ff, d_model]` and `[d_model]`.
    pub down: Linear,
    dropout: Dropout,
    #[module(skip)]
    activation: Activation,
}

impl FeedForward {
    /// Applies the layer to each token.
    ///
    /// # Shapes
    /// `x` `[…, d_model]` → the same.
    pub fn forward<const D: usize>(&self, x: Tensor<D>, pass: &Pass) -> Result<Tensor<D>, OpError> {
        self.forward_onto(x, None, pass)
    }

    /// Adds the output of [`forward`](Self::forward) to `onto`.
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
            Some(gate) => {
                let gates = gate.in_pass(pass).forward_activated(x.clone(), self.activation)?;
                gates * self.up.in_pass(pass).forward(x)?
            }
            None => self.up.in_pass(pass).forward_activated(x, self.activation)?,
        };
        self.down.in_pass(pass).forward_onto(self.dropout.forward(hidden, pass)?, onto)
    }
}
