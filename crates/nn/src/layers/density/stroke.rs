//! Density of pen strokes for handwriting (Graves 2013, section 4.1): the movement of the pen `(Δx, Δy)` has a mixture of
//! bivariate Gaussians with correlation, and a Bernoulli variable says whether the stroke ends.
//!
//! ```text
//! w = softmax(ŵ)   σ = exp(σ̂)   ρ = tanh(ρ̂)   e = 1/(1 + exp(−ê))
//! p(Δx, Δy, end) = Σ_k w_k N(Δx, Δy | μ_k, σ_k, ρ_k) · (e if end, else 1 − e)
//! ```
//! Raw outputs: `ê`, then `K` each of `ŵ`, `μ₁`, `μ₂`, `σ̂₁`, `σ̂₂`, `ρ̂`. The paper has `e = 1/(1 + exp(ê))`; here, as
//! with every other logit, a larger `ê` makes an end more likely.
//!
//! With `u = (Δx − μ₁)/σ₁` and `v = (Δy − μ₂)/σ₂`, the density is that of `v` times that of `u` given `v`. Its exponent is
//! `−½ (v² + ((u − ρv) cosh ρ̂)²)`, because `1 − ρ² = 1/cosh² ρ̂`. Near `|ρ| = 1`, both `u − ρv` and `1 − ρ²` would round to
//! zero, so they are computed from `1 − |ρ| = 2/(1 + e^{2|ρ̂|})` and `log cosh`.

use burn::tensor::activation::sigmoid;
use burn::tensor::{Tensor, TensorData};
use rand::Rng;
use regard_ops::log_softmax;
use serde::{Deserialize, Serialize};

use super::random::{check_bias, component, happens, normal};
use super::{LOG_DEVIATION, check_components, limited, log_sum_exp, operands, rows, softplus};
use crate::error::{ConfigError, NnError};

/// Range to which `ρ̂` is clamped: `tanh(15)` is 1 in f32.
const CORRELATION: std::ops::RangeInclusive<f32> = -15.0..=15.0;

/// Density of pen movements and stroke ends; see the [module](self) for the formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StrokeMixture {
    /// Number `K` of Gaussians; 20 in the paper.
    #[serde(default = "default_components")]
    pub components: usize,
}

fn default_components() -> usize {
    20
}

impl StrokeMixture {
    /// Number of dimensions: `Δx`, `Δy` and `end`.
    pub const DIMENSIONS: usize = 3;

    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_components(self.components)
    }

    /// Returns the number of raw outputs, `6K + 1`.
    pub fn outputs(&self) -> usize {
        6 * self.components + 1
    }

    /// Computes `log p(Δx, Δy, end)`, where `end` is 1 if the stroke ends and 0 otherwise.
    ///
    /// # Shapes
    /// `raw` `[…, 6K + 1]`, `x` `[…, 3]` → `[…, 1]`.
    pub fn log_likelihood<const D: usize>(&self, raw: Tensor<D>, x: Tensor<D>) -> Result<Tensor<D>, NnError> {
        self.validate()?;
        let (raw, x, shape) = operands((&raw, self.outputs()), (&x, Self::DIMENSIONS))?;
        let part = |n: usize| raw.clone().narrow(1, 1 + n * self.components, self.components);
        let coordinate = |n: usize| x.clone().narrow(1, n, 1);
        let log_deviations = [3, 4].map(|n| limited(part(n), LOG_DEVIATION));
        let u = (coordinate(0) - part(1)) * (-log_deviations[0].clone()).exp();
        let v = (coordinate(1) - part(2)) * (-log_deviations[1].clone()).exp();

        let correlation = limited(part(5), CORRELATION);
        // The sign is 1 at zero, because the gradient of the absolute value must not vanish there.
        let sign = correlation.clone().detach().greater_equal_elem(0.0).float() * 2.0 - 1.0;
        let size = correlation * sign.clone();
        let to_one = sigmoid(size.clone() * -2.0) * 2.0;
        let log_cosh = size.clone() + softplus(size * -2.0) - std::f32::consts::LN_2;
        let given = (u - sign.clone() * v.clone() + sign * to_one * v.clone()) * log_cosh.clone().exp();

        let [log_first, log_second] = log_deviations;
        let exponent = (v.clone() * v + given.clone() * given) * 0.5;
        let movement = log_cosh - log_first - log_second - exponent - std::f32::consts::TAU.ln();
        let movement = log_sum_exp(log_softmax(part(0))? + movement);
        let logit = raw.clone().narrow(1, 0, 1);
        let end = coordinate(2) * logit.clone() - softplus(logit);
        Ok((movement + end).reshape(shape))
    }

    /// Draws a movement and an end for each row. A `bias` of `a` makes the weights `∝ exp(ŵ(1 + a))` and the standard
    /// deviations `exp(σ̂ − a)`.
    ///
    /// # Shapes
    /// `raw` `[…, 6K + 1]` → `[…, 3]`.
    pub fn sample<const D: usize>(
        &self,
        raw: Tensor<D>,
        bias: f32,
        random: &mut impl Rng,
    ) -> Result<Tensor<D>, NnError> {
        self.validate()?;
        check_bias(bias)?;
        let data: Vec<f32> = rows("raw", &raw, self.outputs())?.into_data().iter().collect();
        let drawn = data.chunks_exact(self.outputs()).flat_map(|row| self.draw(row, bias, random)).collect();
        let mut shape = raw.dims();
        shape[D - 1] = Self::DIMENSIONS;
        Ok(Tensor::from_data(TensorData::new::<f32, _>(drawn, shape), &raw.device()))
    }

    fn draw(&self, row: &[f32], bias: f32, random: &mut impl Rng) -> [f32; 3] {
        let (end, row) = (f64::from(row[0]), &row[1..]);
        let k = component(&row[..self.components], bias, random);
        let [first, second, log_first, log_second, correlation] =
            [1, 2, 3, 4, 5].map(|n| f64::from(row[n * self.components + k]));
        let deviation = |logarithm: f64| {
            let kept = logarithm.clamp(f64::from(*LOG_DEVIATION.start()), f64::from(*LOG_DEVIATION.end()));
            (kept - f64::from(bias)).exp()
        };
        let [u, other] = [normal(random), normal(random)];
        let v = correlation.tanh() * u + other / correlation.cosh();
        let ends = if happens(end, random) { 1.0 } else { 0.0 };
        [(first + deviation(log_first) * u) as f32, (second + deviation(log_second) * v) as f32, ends]
    }
}
