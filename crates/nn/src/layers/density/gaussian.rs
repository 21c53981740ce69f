//! Gaussian with full covariance, `N(μ, Σ)`, `Σ = A Aᵀ`, where `A` is lower triangular with a positive diagonal.
//!
//! ```text
//! A z = x − μ  solved row by row
//! log p(x) = −½ zᵀz − Σ log A_ii − ½ N log 2π
//! ```
//! Raw outputs: `N` for `μ`, `N` for the diagonal of `A`, then the elements below the diagonal, column by column.

use burn::tensor::{Tensor, TensorData};
use rand::Rng;
use serde::{Deserialize, Serialize};

use super::random::{check_bias, normal};
use super::{LOG_DEVIATION, check_dimensions, limited, operands, rows, softplus};
use crate::error::{ConfigError, NnError};

/// How the diagonal of `A` is made positive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Diagonal {
    /// The raw output `d` becomes the diagonal element `e^d`.
    #[default]
    Exp,
    /// `log(1 + e^d)`, which grows only linearly in `d`.
    Softplus,
}

/// Below this `d`, `log softplus(d)` equals `d` up to the last one or two bits of f32.
const SOFTPLUS_IS_EXP: f32 = -15.0;

impl Diagonal {
    /// Computes the logarithm of the diagonal.
    fn logarithm(self, raw: Tensor<2>) -> Tensor<2> {
        let logarithm = match self {
            Self::Exp => raw,
            Self::Softplus => {
                // The branch that is not taken must be finite too, because its gradient is multiplied by zero.
                let low = raw.clone().lower_elem(SOFTPLUS_IS_EXP);
                softplus(raw.clone().clamp_min(SOFTPLUS_IS_EXP)).log().mask_where(low, raw)
            }
        };
        limited(logarithm, LOG_DEVIATION)
    }

    /// Computes an element of the diagonal, for sampling.
    fn value(self, raw: f64) -> f64 {
        let logarithm = match self {
            Self::Softplus if raw > f64::from(SOFTPLUS_IS_EXP) => (raw.max(0.0) + (-raw.abs()).exp().ln_1p()).ln(),
            Self::Exp | Self::Softplus => raw,
        };
        logarithm.clamp(f64::from(*LOG_DEVIATION.start()), f64::from(*LOG_DEVIATION.end())).exp()
    }
}

/// Gaussian with full covariance; see the [module](self) for the formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gaussian {
    /// Number `N` of dimensions of `x`.
    pub dimensions: usize,
    /// How the diagonal of `A` is made positive.
    #[serde(default)]
    pub diagonal: Diagonal,
}

impl Gaussian {
    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_dimensions(self.dimensions)
    }

    /// Returns the number of raw outputs, `N + N(N + 1)/2`.
    pub fn outputs(&self) -> usize {
        self.dimensions + self.dimensions * (self.dimensions + 1) / 2
    }

    /// Computes `log p(x)`.
    ///
    /// # Shapes
    /// `raw` `[…, outputs]`, `x` `[…, N]` → `[…, 1]`.
    pub fn log_likelihood<const D: usize>(&self, raw: Tensor<D>, x: Tensor<D>) -> Result<Tensor<D>, NnError> {
        self.validate()?;
        let (raw, x, shape) = operands((&raw, self.outputs()), (&x, self.dimensions))?;
        Ok(self.log_density(raw, x).reshape(shape))
    }

    /// Draws an `x` for each row. A `bias` of `a` replaces `A` with `A e^{−a}`.
    ///
    /// # Shapes
    /// `raw` `[…, outputs]` → `[…, N]`.
    pub fn sample<const D: usize>(
        &self,
        raw: Tensor<D>,
        bias: f32,
        random: &mut impl Rng,
    ) -> Result<Tensor<D>, NnError> {
        self.validate()?;
        check_bias(bias)?;
        let data: Vec<f32> = rows("raw", &raw, self.outputs())?.into_data().iter().collect();
        let mut drawn = Vec::with_capacity(data.len() / self.outputs() * self.dimensions);
        for row in data.chunks_exact(self.outputs()) {
            self.draw(row, bias, random, &mut drawn);
        }
        let mut shape = raw.dims();
        shape[D - 1] = self.dimensions;
        Ok(Tensor::from_data(TensorData::new(drawn, shape), &raw.device()))
    }

    /// [`Gaussian::log_likelihood`] without checks: `[rows, outputs]`, `[rows, N]` → `[rows, 1]`.
    pub(super) fn log_density(&self, raw: Tensor<2>, x: Tensor<2>) -> Tensor<2> {
        let n = self.dimensions;
        let logarithm = self.diagonal.logarithm(raw.clone().narrow(1, n, n));
        let inverse = (-logarithm.clone()).exp();
        let mut rest = x - raw.clone().narrow(1, 0, n);
        let mut solution = Vec::with_capacity(n);
        let mut column = 2 * n;
        for i in 0..n {
            let z = rest.clone().narrow(1, 0, 1) * inverse.clone().narrow(1, i, 1);
            let below = n - 1 - i;
            if below > 0 {
                rest = rest.narrow(1, 1, below) - raw.clone().narrow(1, column, below) * z.clone();
                column += below;
            }
            solution.push(z);
        }
        let z = Tensor::cat(solution, 1);
        let constant = n as f32 * 0.5 * std::f32::consts::TAU.ln();
        -((z.clone() * z * 0.5 + logarithm).sum_dim(1) + constant)
    }

    /// Appends a sample `μ + e^{−a} A ε` to `drawn`.
    pub(super) fn draw(&self, row: &[f32], bias: f32, random: &mut impl Rng, drawn: &mut Vec<f32>) {
        let n = self.dimensions;
        let shrink = f64::from(-bias).exp();
        let unit: Vec<f64> = (0..n).map(|_| normal(random)).collect();
        let mut sums: Vec<f64> = (0..n).map(|i| self.diagonal.value(f64::from(row[n + i])) * unit[i]).collect();
        let mut entries = row[2 * n..].iter();
        for (j, unit) in unit.iter().enumerate() {
            for sum in &mut sums[j + 1..] {
                *sum += entries.next().map_or(0.0, |&entry| f64::from(entry)) * unit;
            }
        }
        drawn.extend(row[..n].iter().zip(sums).map(|(&mean, sum)| (f64::from(mean) + shrink * sum) as f32));
    }
}
