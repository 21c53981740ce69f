//! Positions made by a recurrent network: a gated unit that goes on from a learned start under a constant input,
//! `p_0` learned, `p_t = GRU(c, p_{t−1})`; position `t` is `p_t`.
//!
//! There is no table, so that any number of positions has encodings. A gated unit (Cho et al. 2014, reset after the
//! product) rather than a plain one, whose states under a constant input soon settle on one point: the update gate can
//! hold features for long and let others turn. The input is constant, so that what reaches the gates from it is too;
//! that is the parameter, in place of a vector and a matrix.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use regard_ops::{GruReset, GruWeights, gru};
use serde::{Deserialize, Serialize};

use crate::config::{check_above_zero, check_positive};
use crate::error::{ConfigError, NnError};
use crate::init::Init;

/// The shape of a [`RecurrentPosition`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecurrentPositionConfig {
    /// Deviation of the start and of the constant input at first. With none, all features would move alike.
    pub deviation: f32,
}

impl Default for RecurrentPositionConfig {
    /// A deviation of 0.5.
    fn default() -> Self {
        Self { deviation: 0.5 }
    }
}

impl RecurrentPositionConfig {
    /// Refuses what makes no sense.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_above_zero("deviation", self.deviation)
    }

    /// The layer; the bias is zero.
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

/// See the [module](self).
#[derive(Module, Debug)]
pub struct RecurrentPosition {
    /// `p_0`, `[d_model]`
    pub start: Param<Tensor<1>>,
    /// What the gates `r, z, n` get from the constant input, `[3·d_model]`
    pub input: Param<Tensor<1>>,
    /// `[d_model, 3·d_model]`
    pub w_hh: Param<Tensor<2>>,
    /// `[3·d_model]`
    pub bias_hh: Param<Tensor<1>>,
}

impl RecurrentPosition {
    /// The positions `offset..offset + seq`. The network runs from its start, so that the time taken grows with
    /// `offset` too.
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
