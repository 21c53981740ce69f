//! Positions as a trajectory in feature space (FLOATER, Liu et al. 2020): `dp/dt = h(t, p)` from a learned start, with
//! `h(t, p) = tanh([p; t] W₁ + b₁) W₂ + b₂`. The encoding of position `i` is `p(i·Δ)`.
//!
//! There is no table, so the number of positions is not limited. A fixed number of classical Runge–Kutta steps from each
//! position to the next solves the equation; gradients flow through them.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use regard_ops::{TrajectoryOptions, TrajectoryWeights, trajectory};
use serde::{Deserialize, Serialize};

use crate::config::{check_above_zero, check_positive};
use crate::error::{ConfigError, NnError};
use crate::init::Init;

/// Configuration of a [`Floater`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FloaterConfig {
    /// Number of hidden units of `h`.
    pub d_hidden: usize,
    /// Number of Runge–Kutta steps from one position to the next.
    pub steps: usize,
    /// Time `Δ` from one position to the next.
    pub delta: f32,
}

impl Default for FloaterConfig {
    /// 128 hidden units and one step of 0.1. With initial weights, the numerical error over 256 positions is 10⁻⁹.
    fn default() -> Self {
        Self { d_hidden: 128, steps: 1, delta: 0.1 }
    }
}

impl FloaterConfig {
    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("d_hidden", self.d_hidden)?;
        check_positive("steps", self.steps)?;
        check_above_zero("delta", self.delta)
    }

    /// Creates the layer, with biases of zero. The start is normal with standard deviation 0.1, and `W₂` is scaled so that
    /// `h` is about as large. The encoding of position 256 then has size 2; with Xavier initialisation it was 45.
    pub fn init(&self, d_model: usize, init: &Init) -> Result<Floater, ConfigError> {
        check_positive("d_model", d_model)?;
        self.validate()?;
        let Self { d_hidden, steps, delta } = *self;
        Ok(Floater {
            start: init.normal("start", [d_model], 0.1),
            w1: init.weight("w1", [d_model + 1, d_hidden], [d_model + 1, d_hidden]),
            b1: init.constant([d_hidden], 0.0),
            w2: init.normal("w2", [d_hidden, d_model], 0.1 / (d_hidden as f32).sqrt()),
            b2: init.constant([d_model], 0.0),
            steps,
            delta,
        })
    }
}

/// FLOATER positions; see the [module](self) for the formula.
#[derive(Module, Debug)]
pub struct Floater {
    /// `p(0)`, `[d_model]`.
    pub start: Param<Tensor<1>>,
    /// `W₁`, `[d_model + 1, d_hidden]`; the last row belongs to the time.
    pub w1: Param<Tensor<2>>,
    /// `b₁`, `[d_hidden]`.
    pub b1: Param<Tensor<1>>,
    /// `W₂`, `[d_hidden, d_model]`.
    pub w2: Param<Tensor<2>>,
    /// `b₂`, `[d_model]`.
    pub b2: Param<Tensor<1>>,
    steps: usize,
    delta: f32,
}

impl Floater {
    /// Computes the encodings of the positions `offset..offset + seq`. The trajectory is computed from its start, so the
    /// running time grows with `offset` too.
    ///
    /// # Shapes
    /// → `[seq, d_model]`.
    pub fn encode(&self, seq: usize, offset: usize) -> Result<Tensor<2>, NnError> {
        let positions = super::last_position(seq, offset)? + 1;
        let weights = TrajectoryWeights { w1: self.w1.val(), b1: self.b1.val(), w2: self.w2.val(), b2: self.b2.val() };
        let options = TrajectoryOptions { positions, steps: self.steps, delta: self.delta };
        let path = trajectory(self.start.val(), weights, options)?;
        Ok(path.narrow(0, offset, seq))
    }
}
