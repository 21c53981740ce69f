//! Positions as the states of a gated recurrent unit with a constant input: `p_0` is learned, and `p_t = GRU(c, p_{t−1})` is
//! the encoding of position `t`.
//!
//! There is no table, so the number of positions is not limited. The states of a plain recurrent network with a constant
//! input soon converge to one point. The update gate of a GRU (Cho et al. 2014, reset after the product) can hold some
//! features for long while others change. Because the input is constant, its product with the input weights is constant
//! too; that product is the parameter, in place of a vector and a matrix.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use regard_ops::{GruReset, GruWeights, gru};
use serde::{Deserialize, Serialize};

use crate::config::{check_above_zero, check_positive};
use crate::error::{ConfigError, NnError};
use crate::init::Init;

/// Configuration of a [`RecurrentPosition`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecurrentPositionConfig {
    /// Initial standard deviation of the start and of the constant input. With zero, all features would move alike.
    pub deviation: f32,
}

impl Default for RecurrentPositionConfig {
    /// Returns a standard deviation of 0.5.
    fn default() -> Self {
        Self { deviation: 0.5 }
    }
}

impl RecurrentPositionConfig {
    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_above_zero("deviation", self.deviation)
    }

    /// Creates the layer, with a bias of zero.
    pub fn init(&self, d_model: usize, init: &Init) -> Result<RecurrentPosition, ConfigError> {
        check_positive("d_model", d_model)?;
        self.validate()?;
        Ok(RecurrentPosition {
            start: init.normal("start", [d_model], self.deviation),
            input: init.normal("input", [3 * d_model], self.deviation),
            w_hh: init.weight("w_hh", [d_model, 3 * d_model], [d_model, d_model]),
            bias_hh: init.constant([3 * d_model], 0.0),
        })
    }
}

/// Positions computed by a recurrent network; see the [module](self).
#[derive(Module, Debug)]
pub struct RecurrentPosition {
    /// Start `p_0`, `[d_model]`.
    pub start: Param<Tensor<1>>,
    /// Contribution of the constant input to the gates `r, z, n`, `[3·d_model]`.
    pub input: Param<Tensor<1>>,
    /// Recurrent weights, `[d_model, 3·d_model]`.
    pub w_hh: Param<Tensor<2>>,
    /// Bias of the recurrent product, `[3·d_model]`.
    pub bias_hh: Param<Tensor<1>>,
}

impl RecurrentPosition {
    /// Computes the encodings of the positions `offset..offset + seq`. The network runs from its start, so the running time
    /// grows with `offset` too.
    ///
    /// # Shapes
    /// → `[seq, d_model]`.
    pub fn encode(&self, seq: usize, offset: usize) -> Result<Tensor<2>, NnError> {
        let steps = super::last_position(seq, offset)?;
        let start: Tensor<2> = self.start.val().unsqueeze();
        if steps == 0 {
            return Ok(start);
        }
        let d_model = start.dims()[1];
        let device = start.device();
        let weights = GruWeights {
            w_ih: Tensor::zeros([1, 3 * d_model], &device),
            w_hh: self.w_hh.val(),
            bias_ih: self.input.val(),
            bias_hh: self.bias_hh.val(),
        };
        let nothing = Tensor::zeros([1, steps, 1], &device);
        let states = gru(nothing, weights, GruReset::AfterProduct, Some(start.clone()))?;
        Ok(Tensor::cat(vec![start, states.squeeze_dim(0)], 0).narrow(0, offset, seq))
    }
}
