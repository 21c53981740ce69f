//! Positions that enter the scores by distance: a learned bias for each (Shaw 2018, T5 without its buckets),
//! and ALiBi (D5; Press 2022), `−m|i − j|` with a slope `m` a head.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use regard_kernels::attention::alibi_slopes;
use regard_ops::Distance;
use serde::{Deserialize, Serialize};

use crate::config::{check_positive, check_product};
use crate::error::ConfigError;
use crate::init::Init;

/// The table of [`RelativePosition`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RelativeConfig {
    /// Larger distances get the bias of this one, on their side.
    pub max_distance: usize,
}

impl Default for RelativeConfig {
    fn default() -> Self {
        Self { max_distance: 32 }
    }
}

impl RelativeConfig {
    /// Refuses a table of the distance 0 alone.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("max_distance", self.max_distance)?;
        check_product("max_distance", &[self.max_distance, 2])
    }

    /// The table, all zeros: at first a position says nothing.
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
    /// `[n_heads, 2 · max_distance + 1]`, that of `key − query` at `max_distance + key − query`.
    pub weight: Param<Tensor<2>>,
}

impl RelativePosition {
    /// For the scores.
    pub fn distance(&self) -> Distance {
        Distance::Relative { table: self.weight.val() }
    }
}

/// ALiBi. It has no weights.
#[derive(Module, Debug)]
pub struct Alibi {
    n_heads: usize,
}

impl Alibi {
    /// The published slopes for `n_heads`.
    pub fn new(n_heads: usize) -> Result<Self, ConfigError> {
        check_positive("n_heads", n_heads)?;
        Ok(Self { n_heads })
    }

    /// For the scores.
    pub fn distance(&self) -> Distance {
        Distance::Alibi { slopes: alibi_slopes(self.n_heads) }
    }
}
