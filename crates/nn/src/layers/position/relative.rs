//! Position biases on the scores by distance: a learned bias for each distance (as in T5, with the clipping of Shaw 2018), and
//! ALiBi (Press 2022), `−m|i − j|` with one slope `m` per head.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use regard_kernels::attention::alibi_slopes;
use regard_ops::Distance;
use serde::{Deserialize, Serialize};

use crate::config::{check_positive, check_product};
use crate::error::ConfigError;
use crate::init::Init;

/// Configuration of a [`RelativePosition`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RelativeConfig {
    /// Largest distance with its own bias; larger distances on the same side share it.
    pub max_distance: usize,
}

impl Default for RelativeConfig {
    fn default() -> Self {
        Self { max_distance: 32 }
    }
}

impl RelativeConfig {
    /// Returns an error if `max_distance` is 0 or too large.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("max_distance", self.max_distance)?;
        check_product("max_distance", &[self.max_distance, 2])
    }

    /// Creates the table with zeros, so that positions have no effect at first.
    pub fn init(&self, n_heads: usize, init: &Init) -> Result<RelativePosition, ConfigError> {
        self.validate()?;
        check_positive("n_heads", n_heads)?;
        check_product("max_distance", &[n_heads, 2 * self.max_distance + 1])?;
        Ok(RelativePosition { weight: init.constant([n_heads, 2 * self.max_distance + 1], 0.0) })
    }
}

/// A learned bias by clipped distance, the same in every layer.
#[derive(Module, Debug)]
pub struct RelativePosition {
    /// Table `[n_heads, 2 · max_distance + 1]`; the bias of distance `key − query` is at index `max_distance + key − query`.
    pub weight: Param<Tensor<2>>,
}

impl RelativePosition {
    /// Returns the bias for the scores.
    pub fn distance(&self) -> Distance {
        Distance::Relative { table: self.weight.val() }
    }
}

/// ALiBi: a bias proportional to the distance, without learned weights.
#[derive(Module, Debug)]
pub struct Alibi {
    n_heads: usize,
}

impl Alibi {
    /// Creates ALiBi with the published slopes for `n_heads`.
    pub fn new(n_heads: usize) -> Result<Self, ConfigError> {
        check_positive("n_heads", n_heads)?;
        Ok(Self { n_heads })
    }

    /// Returns the bias for the scores.
    pub fn distance(&self) -> Distance {
        Distance::Alibi { slopes: alibi_slopes(self.n_heads) }
    }
}
