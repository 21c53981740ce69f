//! Normalisation of each token: layer norm (Ba 2016), `γ (x − mean)/√(var + ε) + β`, or RMS norm (Zhang 2019),
//! `γ x/√(mean x² + ε)`.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use regard_ops::{OpError, layer_norm, rms_norm};
use serde::{Deserialize, Serialize};

use crate::config::{check_above_zero, check_positive};
use crate::error::ConfigError;
use crate::init::Init;

/// The kind of norm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormKind {
    /// Layer norm.
    #[default]
    Layer,
    /// Layer norm without `β`.
    LayerUnbiased,
    /// RMS norm.
    Rms,
}

/// Configuration of a [`Norm`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormConfig {
    /// Number of features of a token.
    pub d_model: usize,
    /// Kind of norm.
    #[serde(default)]
    pub kind: NormKind,
    /// Small number `ε` in the denominator.
    #[serde(default = "default_epsilon")]
    pub epsilon: f32,
}

fn default_epsilon() -> f32 {
    1e-5
}

impl NormConfig {
    /// Returns a configuration with the usual `ε` of 10⁻⁵.
    pub fn new(d_model: usize, kind: NormKind) -> Self {
        Self { d_model, kind, epsilon: default_epsilon() }
    }

    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("d_model", self.d_model)?;
        check_above_zero("epsilon", self.epsilon)
    }

    /// Creates the layer, with `γ = 1` and `β = 0`.
    pub fn init(&self, init: &Init) -> Result<Norm, ConfigError> {
        self.validate()?;
        let weight = init.constant([self.d_model], 1.0);
        let bias = (self.kind == NormKind::Layer).then(|| init.constant([self.d_model], 0.0));
        Ok(Norm { weight, bias, epsilon: self.epsilon, kind: self.kind })
    }
}

/// Layer norm or RMS norm; see the [module](self) for the formulas.
#[derive(Module, Debug)]
pub struct Norm {
    /// `γ`, `[d_model]`.
    pub weight: Param<Tensor<1>>,
    /// `β`, `[d_model]`, of [`NormKind::Layer`] only.
    pub bias: Option<Param<Tensor<1>>>,
    epsilon: f32,
    #[module(skip)]
    kind: NormKind,
}

impl Norm {
    /// Normalises each token.
    ///
    /// # Shapes
    /// `x` `[…, d_model]` → the same.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Result<Tensor<D>, OpError> {
        match self.kind {
            NormKind::Layer | NormKind::LayerUnbiased => {
                layer_norm(x, self.weight.val(), self.bias.as_ref().map(Param::val), self.epsilon)
            }
            NormKind::Rms => rms_norm(x, self.weight.val(), self.epsilon),
        }
    }
}
