//! Densities as outputs: `p(x_{t+1} | y_t)`, whose parameters a linear layer makes from the features `y_t`.
//!
//! A density is plain data: it says how many raw outputs it wants, gives the logarithm of its value at `x`, and draws
//! from itself. [`DensityHead`] has the linear layer.
//!
//! Logarithms of deviations are kept in [`LOG_DEVIATION`]: below its start a deviation is smaller than the rounding of
//! data of size 1, and inverse squares would soon leave f32. Outside, the value is that at the end of the range while
//! the gradient passes to the raw output unchanged, so that a network comes back by itself.

pub mod gaussian;
pub mod loss;
pub mod mixture;
mod random;
pub mod stroke;

use std::ops::RangeInclusive;

use burn::module::Module;
use burn::tensor::activation::log_sigmoid;
use burn::tensor::{DType, Tensor};
use rand::Rng;
use regard_ops::OpError;
use serde::{Deserialize, Serialize};

use crate::config::check_positive;
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::linear::{Linear, LinearConfig};

pub use gaussian::{Diagonal, Gaussian};
pub use loss::{Reduction, negative_log_likelihood};
pub use mixture::Mixture;
pub use stroke::StrokeMixture;

/// Where logarithms of deviations are kept: from 10⁻⁷, f32's rounding at 1, to 5·10³⁴.
pub const LOG_DEVIATION: RangeInclusive<f32> = -16.0..=80.0;

/// A density by its `kind`; for fields with `name_or_table`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DensityConfig {
    /// One Gaussian with full covariance.
    Gaussian(Gaussian),
    /// Several of them, weighted.
    Mixture(Mixture),
    /// Pen movements and ends of strokes (Graves 2013).
    Stroke(StrokeMixture),
}

impl DensityConfig {
    /// Refuses what makes no sense.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Gaussian(density) => density.validate(),
            Self::Mixture(density) => density.validate(),
            Self::Stroke(density) => density.validate(),
        }
    }

    /// Raw outputs it takes for each `x`.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Gaussian(density) => density.outputs(),
            Self::Mixture(density) => density.outputs(),
            Self::Stroke(density) => density.outputs(),
        }
    }

    /// Numbers of an `x`.
    pub fn dimensions(&self) -> usize {
        match self {
            Self::Gaussian(density) => density.dimensions,
            Self::Mixture(density) => density.dimensions,
            Self::Stroke(_) => StrokeMixture::DIMENSIONS,
        }
    }

    /// `log p(x)`.
    ///
    /// # Shapes
    /// `raw` `[…, outputs]`, `x` `[…, dimensions]` → `[…, 1]`.
    pub fn log_likelihood<const D: usize>(&self, raw: Tensor<D>, x: Tensor<D>) -> Result<Tensor<D>, NnError> {
        match self {
            Self::Gaussian(density) => density.log_likelihood(raw, x),
            Self::Mixture(density) => density.log_likelihood(raw, x),
            Self::Stroke(density) => density.log_likelihood(raw, x),
        }
    }

    /// An `x` for each row of `raw`; a `bias` above 0 prefers likely ones (Graves 2013, section 5.4).
    ///
    /// # Shapes
    /// `raw` `[…, outputs]` → `[…, dimensions]`.
    pub fn sample<const D: usize>(
        &self,
        raw: Tensor<D>,
        bias: f32,
        random: &mut impl Rng,
    ) -> Result<Tensor<D>, NnError> {
        match self {
            Self::Gaussian(density) => density.sample(raw, bias, random),
            Self::Mixture(density) => density.sample(raw, bias, random),
            Self::Stroke(density) => density.sample(raw, bias, random),
        }
    }

    /// The layer that makes the raw outputs from `d_model` features.
    pub fn init(&self, d_model: usize, init: &Init) -> Result<DensityHead, ConfigError> {
        check_positive("d_model", d_model)?;
        self.validate()?;
        let linear = LinearConfig::new(d_model, self.outputs());
        Ok(DensityHead { linear: linear.init(&init.enter("linear"))?, density: *self })
    }
}

/// A density whose raw outputs are a linear function of features. See the [module](self).
#[derive(Module, Debug)]
pub struct DensityHead {
    /// `[d_model, outputs]`
    pub linear: Linear,
    #[module(skip)]
    density: DensityConfig,
}

impl DensityHead {
    /// What the outputs mean.
    pub fn density(&self) -> DensityConfig {
        self.density
    }

    /// The raw outputs.
    ///
    /// # Shapes
    /// `features` `[…, d_model]` → `[…, outputs]`.
    pub fn forward<const D: usize>(&self, features: Tensor<D>) -> Result<Tensor<D>, OpError> {
        self.linear.forward(features)
    }

    /// `log p(x)` given the features.
    ///
    /// # Shapes
    /// `features` `[…, d_model]`, `x` `[…, dimensions]` → `[…, 1]`.
    pub fn log_likelihood<const D: usize>(&self, features: Tensor<D>, x: Tensor<D>) -> Result<Tensor<D>, NnError> {
        self.density.log_likelihood(self.forward(features)?, x)
    }

    /// An `x` for each row of features, drawn with a `bias`.
    ///
    /// # Shapes
    /// `features` `[…, d_model]` → `[…, dimensions]`.
    pub fn sample<const D: usize>(
        &self,
        features: Tensor<D>,
        bias: f32,
        random: &mut impl Rng,
    ) -> Result<Tensor<D>, NnError> {
        self.density.sample(self.forward(features)?, bias, random)
    }
}

/// The most dimensions of a density: its matrix has half their square.
const MOST_DIMENSIONS: usize = 1024;
/// The most components of a mixture.
const MOST_COMPONENTS: usize = 65_536;

fn check_dimensions(value: usize) -> Result<(), ConfigError> {
    let fits = (1..=MOST_DIMENSIONS).contains(&value);
    let allowed = || format!("a whole number from 1 to {MOST_DIMENSIONS}");
    if fits { Ok(()) } else { Err(ConfigError::new("dimensions", value, allowed())) }
}

fn check_components(value: usize) -> Result<(), ConfigError> {
    let fits = (1..=MOST_COMPONENTS).contains(&value);
    let allowed = || format!("a whole number from 1 to {MOST_COMPONENTS}");
    if fits { Ok(()) } else { Err(ConfigError::new("components", value, allowed())) }
}

/// `tensor` as `[rows, width]`; refuses another last size, no rows at all, and what is not f32.
fn rows<const D: usize>(what: &'static str, tensor: &Tensor<D>, width: usize) -> Result<Tensor<2>, NnError> {
    if tensor.dtype() != DType::F32 {
        return Err(OpError::DType { what, expected: "f32", got: tensor.dtype() }.into());
    }
    let shape = tensor.dims();
    let rows = shape[..D.max(1) - 1].iter().product::<usize>();
    if shape.last() != Some(&width) || rows == 0 {
        return Err(OpError::Shape { what, expected: format!("[at least 1, …, {width}]"), got: shape.to_vec() }.into());
    }
    Ok(tensor.clone().reshape([rows, width]))
}

/// Both arguments of a likelihood as rows, and the shape of the result.
fn operands<const D: usize>(
    (raw, outputs): (&Tensor<D>, usize),
    (x, dimensions): (&Tensor<D>, usize),
) -> Result<(Tensor<2>, Tensor<2>, [usize; D]), NnError> {
    let (raw_rows, x_rows) = (rows("raw", raw, outputs)?, rows("x", x, dimensions)?);
    let [mut shape, mut expected] = [raw.dims(); 2];
    (shape[D - 1], expected[D - 1]) = (1, dimensions);
    if x.dims() != expected {
        return Err(OpError::Shape { what: "x", expected: format!("{expected:?}"), got: x.dims().to_vec() }.into());
    }
    Ok((raw_rows, x_rows, shape))
}

/// `log(1 + e^x)` without overflow, and with the right slope at zero.
fn softplus<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    -log_sigmoid(-x)
}

/// `log Σ exp(x)` over the last index, which keeps a size of 1.
fn log_sum_exp(x: Tensor<2>) -> Tensor<2> {
    // A row of nothing but −∞ has its largest at a number, so that it stays −∞.
    let largest = x.clone().detach().max_dim(1).clamp_min(f32::MIN);
    (x - largest.clone()).exp().sum_dim(1).log() + largest
}

/// `x` kept in a range, with the gradient of `x` itself.
fn limited<const D: usize>(x: Tensor<D>, range: RangeInclusive<f32>) -> Tensor<D> {
    let value = x.clone().detach();
    // The difference is exactly zero, whatever the size of `x`.
    value.clone().clamp(*range.start(), *range.end()) + (x - value)
}
