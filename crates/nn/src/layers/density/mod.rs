//! Probability densities as outputs: `p(x_{t+1} | y_t)`, with parameters that a linear layer computes from features `y_t`.
//!
//! A density is plain data. It has a number of raw outputs, computes its log-likelihood at `x`, and draws samples.
//! [`DensityHead`] adds the linear layer.
//!
//! Logarithms of standard deviations are clamped to [`LOG_DEVIATION`]: below, a deviation is smaller than the rounding of
//! data of size 1, and its inverse square would soon overflow f32. The gradient passes the clamp unchanged, so that
//! training can bring a value back into the range.

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

/// Range of the logarithms of standard deviations, which go from 10⁻⁷, the rounding of f32 at 1, to 5·10³⁴.
pub const LOG_DEVIATION: RangeInclusive<f32> = -16.0..=80.0;

/// A density, selected by its `kind`. Fields of this type use `name_or_table` in serde.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DensityConfig {
    /// One Gaussian with full covariance.
    Gaussian(Gaussian),
    /// Mixture of Gaussians.
    Mixture(Mixture),
    /// Pen movements and ends of strokes (Graves 2013).
    Stroke(StrokeMixture),
}

impl DensityConfig {
    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Gaussian(density) => density.validate(),
            Self::Mixture(density) => density.validate(),
            Self::Stroke(density) => density.validate(),
        }
    }

    /// Returns the number of raw outputs for each `x`.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Gaussian(density) => density.outputs(),
            Self::Mixture(density) => density.outputs(),
            Self::Stroke(density) => density.outputs(),
        }
    }

    /// Returns the number of dimensions of `x`.
    pub fn dimensions(&self) -> usize {
        match self {
            Self::Gaussian(density) => density.dimensions,
            Self::Mixture(density) => density.dimensions,
            Self::Stroke(_) => StrokeMixture::DIMENSIONS,
        }
    }

    /// Computes `log p(x)`.
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

    /// Draws an `x` for each row of `raw`. A `bias` above 0 prefers more likely ones (Graves 2013, section 5.4).
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

    /// Creates the layer that computes the raw outputs from `d_model` features.
    pub fn init(&self, d_model: usize, init: &Init) -> Result<DensityHead, ConfigError> {
        check_positive("d_model", d_model)?;
        self.validate()?;
        let linear = LinearConfig::new(d_model, self.outputs());
        Ok(DensityHead { linear: linear.init(&init.enter("linear"))?, density: *self })
    }
}

/// Output layer: a density whose raw outputs are a linear function of features.
#[derive(Module, Debug)]
pub struct DensityHead {
    /// Linear layer, `[d_model, outputs]`.
    pub linear: Linear,
    #[module(skip)]
    density: DensityConfig,
}

impl DensityHead {
    /// Returns the density that the raw outputs parameterise.
    pub fn density(&self) -> DensityConfig {
        self.density
    }

    /// Computes the raw outputs.
    ///
    /// # Shapes
    /// `features` `[…, d_model]` → `[…, outputs]`.
    pub fn forward<const D: usize>(&self, features: Tensor<D>) -> Result<Tensor<D>, OpError> {
        self.linear.forward(features)
    }

    /// Computes `log p(x)` given the features.
    ///
    /// # Shapes
    /// `features` `[…, d_model]`, `x` `[…, dimensions]` → `[…, 1]`.
    pub fn log_likelihood<const D: usize>(&self, features: Tensor<D>, x: Tensor<D>) -> Result<Tensor<D>, NnError> {
        self.density.log_likelihood(self.forward(features)?, x)
    }

    /// Draws an `x` for each row of features. A `bias` above 0 prefers more likely ones.
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

/// Largest number of dimensions of a density: `A` has about half their square elements.
const MOST_DIMENSIONS: usize = 1024;
/// Largest number of components of a mixture.
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

/// Reshapes `tensor` to `[rows, width]`. Returns an error if it is not f32, is empty, or has another last size.
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

/// Returns both arguments of a likelihood as rows, and the shape of the result.
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

/// Computes `log(1 + e^x)` without overflow and with the correct gradient at zero.
fn softplus<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    -log_sigmoid(-x)
}

/// Computes `log Σ exp(x)` over the last dimension, which keeps a size of 1.
pub(crate) fn log_sum_exp<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    // The maximum is kept finite, so that a row in which every element is −∞ gives −∞ and not NaN.
    let largest = x.clone().detach().max_dim(D - 1).clamp_min(f32::MIN);
    (x - largest.clone()).exp().sum_dim(D - 1).log() + largest
}

/// Clamps `x` to a range, but passes its gradient unchanged.
fn limited<const D: usize>(x: Tensor<D>, range: RangeInclusive<f32>) -> Tensor<D> {
    let value = x.clone().detach();
    // The difference is exactly zero for any finite `x`.
    value.clone().clamp(*range.start(), *range.end()) + (x - value)
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn the_log_sum_of_impossible_elements_is_minus_infinity() {
        const NEVER: f32 = f32::NEG_INFINITY;
        let x = Tensor::<2>::from_data([[NEVER, NEVER], [NEVER, 2.0], [200.0, 200.0]], &Device::flex());
        let sums: Vec<f32> = log_sum_exp(x).into_data().iter().collect();
        assert_eq!(sums, [NEVER, 2.0, 200.0 + 2.0f32.ln()]);
    }
}
