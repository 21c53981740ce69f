//! Mixture of Gaussians, `Σ_k w_k N(μ_k, Σ_k)` with `w = softmax(ŵ)` (Bishop 1994), in any number of dimensions.
//!
//! Raw outputs: `K` for `ŵ`, then the raw outputs of each [`Gaussian`].

use burn::tensor::{Tensor, TensorData};
use rand::Rng;
use regard_ops::log_softmax;
use serde::{Deserialize, Serialize};

use super::random::{check_bias, component};
use super::{Diagonal, Gaussian, check_components, log_sum_exp, operands, rows};
use crate::error::{ConfigError, NnError};

/// Mixture of Gaussians; see the [module](self) for the formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mixture {
    /// Number `K` of Gaussians.
    pub components: usize,
    /// Number `N` of dimensions of `x`.
    pub dimensions: usize,
    /// How the diagonals of the Gaussians' `A` are made positive.
    #[serde(default)]
    pub diagonal: Diagonal,
}

impl Mixture {
    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_components(self.components)?;
        self.gaussian().validate()
    }

    /// Returns the number of raw outputs, `K (1 + N + N(N + 1)/2)`.
    pub fn outputs(&self) -> usize {
        self.components * (1 + self.gaussian().outputs())
    }

    /// Computes `log p(x)`.
    ///
    /// # Shapes
    /// `raw` `[…, outputs]`, `x` `[…, N]` → `[…, 1]`.
    pub fn log_likelihood<const D: usize>(&self, raw: Tensor<D>, x: Tensor<D>) -> Result<Tensor<D>, NnError> {
        self.validate()?;
        let Self { components, dimensions, .. } = *self;
        let gaussian = self.gaussian();
        let (raw, x, shape) = operands((&raw, self.outputs()), (&x, dimensions))?;
        let rows = x.dims()[0];
        let weights = log_softmax(raw.clone().narrow(1, 0, components))?;
        let each = raw.narrow(1, components, components * gaussian.outputs());
        let x = x.reshape([rows, 1, dimensions]).repeat_dim(1, components);
        let each = gaussian.log_density(
            each.reshape([rows * components, gaussian.outputs()]),
            x.reshape([rows * components, dimensions]),
        );
        Ok(log_sum_exp(weights + each.reshape([rows, components])).reshape(shape))
    }

    /// Draws an `x` for each row. A `bias` of `a` makes the weights `∝ exp(ŵ(1 + a))` and replaces `A` with `A e^{−a}`.
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
        let gaussian = self.gaussian();
        let data: Vec<f32> = rows("raw", &raw, self.outputs())?.into_data().iter().collect();
        let mut drawn = Vec::with_capacity(data.len() / self.outputs() * self.dimensions);
        for row in data.chunks_exact(self.outputs()) {
            let (weights, each) = row.split_at(self.components);
            let first = component(weights, bias, random) * gaussian.outputs();
            gaussian.draw(&each[first..first + gaussian.outputs()], bias, random, &mut drawn);
        }
        let mut shape = raw.dims();
        shape[D - 1] = self.dimensions;
        Ok(Tensor::from_data(TensorData::new(drawn, shape), &raw.device()))
    }

    fn gaussian(&self) -> Gaussian {
        Gaussian { dimensions: self.dimensions, diagonal: self.diagonal }
    }
}
