//! Linear layer, `y = f(x W + b)`.

use burn::module::{Module, Param};
use burn::tensor::{DType, Tensor};
use regard_ops::{Activation, OpError, activation as activated, linear, linear_onto};
use serde::{Deserialize, Serialize};

use crate::config::{check_positive, check_product};
use crate::error::ConfigError;
use crate::init::Init;
use crate::layers::adapter::Adapter;
use crate::pass::Pass;

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
        let adapter = Adapter::planned(d_in, d_out, init)?;
        Ok(Linear { weight: init.weight("weight", [d_in, d_out], [d_in, d_out]), bias, adapter })
    }
}

/// Linear layer, `x W + b`.
#[derive(Module, Debug)]
pub struct Linear {
    /// Weight `W`, `[d_in, d_out]`.
    pub weight: Param<Tensor<2>>,
    /// Bias `b`, `[d_out]`.
    pub bias: Option<Param<Tensor<1>>>,
    /// Low-rank adapter, which adds to the output while the weight stays fixed.
    pub adapter: Option<Adapter>,
}

impl Linear {
    /// Computes `x W + b` in f32 with dropout of an adapter off; large layers and those that can have an adapter are used
    /// [in a pass](Self::in_pass).
    ///
    /// # Shapes
    /// `x` `[…, d_in]` → `[…, d_out]`.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Result<Tensor<D>, OpError> {
        self.in_pass(&Pass::inference()).forward(x)
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
        self.in_pass(&Pass::inference()).forward_activated(x, activation)
    }

    /// Returns the layer for use in a pass, which decides the precision of its products and the dropout of an adapter.
    pub fn in_pass<'a>(&'a self, pass: &'a Pass<'a>) -> InPass<'a> {
        InPass { linear: self, pass }
    }

    /// Returns the weight as f32, for an operation that reads no other type: a model may be opened with weights in bf16.
    pub(crate) fn weight_f32(&self) -> Tensor<2> {
        let weight = self.weight.val();
        if weight.dtype() == DType::F32 { weight } else { weight.cast(DType::F32) }
    }

    fn bias_value(&self) -> Option<Tensor<1>> {
        self.bias.as_ref().map(Param::val)
    }
}

/// Linear layer in a pass.
#[derive(Debug, Clone, Copy)]
pub struct InPass<'a> {
    linear: &'a Linear,
    pass: &'a Pass<'a>,
}

impl InPass<'_> {
    /// Computes `x W + b`.
    ///
    /// # Shapes
    /// `x` `[…, d_in]` → `[…, d_out]`.
    pub fn forward<const D: usize>(self, x: Tensor<D>) -> Result<Tensor<D>, OpError> {
        self.adapted(x, |x| linear(x, self.linear.weight.val(), self.linear.bias_value(), None, self.pass.precision()))
    }

    /// Computes `f(x W + b)`, in one operation unless there is an adapter.
    ///
    /// # Shapes
    /// `x` `[…, d_in]` → `[…, d_out]`.
    pub fn forward_activated<const D: usize>(self, x: Tensor<D>, activation: Activation) -> Result<Tensor<D>, OpError> {
        match self.linear.adapter {
            Some(_) => activated(self.forward(x)?, activation),
            None => {
                let (weight, bias) = (self.linear.weight.val(), self.linear.bias_value());
                linear(x, weight, bias, Some(activation), self.pass.precision())
            }
        }
    }

    /// Computes `onto + x W + b` in one operation, or `x W + b` without `onto`.
    ///
    /// # Shapes
    /// `x` `[…, d_in]`, `onto` `[…, d_out]` → `[…, d_out]`.
    pub fn forward_onto<const D: usize>(self, x: Tensor<D>, onto: Option<Tensor<D>>) -> Result<Tensor<D>, OpError> {
        match onto {
            Some(onto) => self.adapted(x, |x| {
                let (weight, bias) = (self.linear.weight.val(), self.linear.bias_value());
                linear_onto(x, weight, bias, onto, self.pass.precision())
            }),
            None => self.forward(x),
        }
    }

    fn adapted<const D: usize>(
        self,
        x: Tensor<D>,
        plain: impl FnOnce(Tensor<D>) -> Result<Tensor<D>, OpError>,
    ) -> Result<Tensor<D>, OpError> {
        match &self.linear.adapter {
            Some(adapter) => adapter.forward_onto(x.clone(), plain(x)?, self.pass),
            None => plain(x),
        }
    }
}
