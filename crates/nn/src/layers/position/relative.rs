//! Position biases on the scores by distance: a learned bias for each distance (with the clipping of Shaw 2018) or for each bucket
//! of distances (T5), and ALiBi (Press 2022), `−m|i − j|` with one slope `m` per head.

use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor, TensorData};
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
    /// Number of biases, if distances share them by buckets: half of the buckets of a side hold one distance each, the others
    /// more and more of them up to `max_distance`, by their logarithm (Raffel 2020). If `None`, each distance has its own.
    pub buckets: Option<usize>,
    /// Tokens that buckets tell apart.
    pub sides: Sides,
}

/// Tokens that buckets tell apart by their distance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sides {
    /// Tokens before and after, with half of the buckets each, as in an encoder.
    #[default]
    Both,
    /// Tokens before, with all buckets, as in a decoder; all tokens after share the bucket of distance 0.
    Before,
}

impl Default for RelativeConfig {
    fn default() -> Self {
        Self { max_distance: 32, buckets: None, sides: Sides::Both }
    }
}

impl RelativeConfig {
    /// Returns an error if `max_distance` or `buckets` is too small or too large.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("max_distance", self.max_distance)?;
        check_product("max_distance", &[self.max_distance, 2])?;
        let Some(buckets) = self.buckets else { return Ok(()) };
        let of_a_side = self.of_a_side(buckets);
        if buckets > 1 << 16 || of_a_side < 2 || (self.sides == Sides::Both && buckets % 2 == 1) {
            let allowed = match self.sides {
                Sides::Both => "an even number from 4 to 65536",
                Sides::Before => "a number from 2 to 65536",
            };
            return Err(ConfigError::new("buckets", buckets, allowed));
        }
        // The table by distance, to which the buckets are expanded, must stay small.
        if self.max_distance <= of_a_side / 2 || self.max_distance > 1 << 20 {
            let allowed = format!("above {} and at most 2²⁰ with {buckets} buckets", of_a_side / 2);
            return Err(ConfigError::new("max_distance", self.max_distance, allowed));
        }
        Ok(())
    }

    /// Returns the number of biases of a head.
    pub fn biases(&self) -> usize {
        self.buckets.unwrap_or(self.max_distance.saturating_mul(2).saturating_add(1))
    }

    fn of_a_side(&self, buckets: usize) -> usize {
        match self.sides {
            Sides::Both => buckets / 2,
            Sides::Before => buckets,
        }
    }

    /// Returns the bucket of each distance `key − query` from `−max_distance` to `max_distance`.
    fn bucket_of_distances(&self, buckets: usize) -> Vec<i32> {
        let side = self.of_a_side(buckets);
        let max = self.max_distance as i64;
        let one = |distance: i64| {
            let (before, first) = match self.sides {
                Sides::Both if distance > 0 => (distance, side),
                Sides::Both => (-distance, 0),
                Sides::Before => ((-distance).max(0), 0),
            };
            let (exact, before) = (side / 2, before as usize);
            if before < exact {
                return (first + before) as i32;
            }
            // In f32, as the published code computes it: the logarithm decides at the border of two buckets.
            let all = (self.max_distance as f64 / exact as f64).ln() as f32;
            let share = (before as f32 / exact as f32).ln() / all;
            let bucket = exact + (share * (side - exact) as f32) as usize;
            (first + bucket.min(side - 1)) as i32
        };
        (-max..=max).map(one).collect()
    }

    /// Creates the table with zeros, so that positions have no effect at first.
    pub fn init(&self, n_heads: usize, init: &Init) -> Result<RelativePosition, ConfigError> {
        self.validate()?;
        check_positive("n_heads", n_heads)?;
        check_product("max_distance", &[n_heads, self.biases()])?;
        let buckets = self.buckets.map(|buckets| self.bucket_of_distances(buckets));
        Ok(RelativePosition { weight: init.constant([n_heads, self.biases()], 0.0), buckets })
    }
}

/// A learned bias by clipped distance or by bucket, the same in every layer.
#[derive(Module, Debug)]
pub struct RelativePosition {
    /// Table `[n_heads, 2 · max_distance + 1]`; the bias of distance `key − query` is at index `max_distance + key − query`. With
    /// buckets, `[n_heads, buckets]`.
    pub weight: Param<Tensor<2>>,
    /// Bucket of each distance, if there are buckets.
    #[module(skip)]
    buckets: Option<Vec<i32>>,
}

impl RelativePosition {
    /// Returns the largest distance that the table tells apart from larger ones.
    pub fn max_distance(&self) -> usize {
        self.buckets.as_ref().map_or(self.weight.dims()[1], Vec::len) / 2
    }

    /// Returns the bias for the scores.
    pub fn distance(&self) -> Distance {
        let table = self.weight.val();
        let Some(buckets) = &self.buckets else { return Distance::Relative { table } };
        let of_distances = TensorData::new(buckets.clone(), [buckets.len()]);
        let of_distances = Tensor::<1, Int>::from_data(of_distances, &table.device());
        Distance::Relative { table: table.select(1, of_distances) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_buckets_are_named() {
        let message = |config: RelativeConfig| config.validate().unwrap_err().to_string();
        let config = RelativeConfig { max_distance: 128, buckets: Some(32), sides: Sides::Both };
        config.validate().unwrap();
        assert!(message(RelativeConfig { buckets: Some(31), ..config }).starts_with("buckets = 31"));
        assert!(
            message(RelativeConfig { buckets: Some(0), sides: Sides::Before, ..config }).starts_with("buckets = 0")
        );
        assert!(message(RelativeConfig { max_distance: 8, ..config }).starts_with("max_distance = 8"));
        assert!(message(RelativeConfig { max_distance: usize::MAX / 4, ..config }).starts_with("max_distance"));
    }

    #[test]
    fn buckets_equal_the_published_ones() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/hugging_face/buckets.json");
        let cases: Vec<serde_json::Value> = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        for case in &cases {
            let size = |key: &str| case[key].as_u64().unwrap() as usize;
            let sides = if case["bidirectional"] == true { Sides::Both } else { Sides::Before };
            let config = RelativeConfig { max_distance: size("max_distance"), buckets: Some(size("buckets")), sides };
            config.validate().unwrap();
            let found: Vec<i64> = config.bucket_of_distances(size("buckets")).into_iter().map(i64::from).collect();
            assert_eq!(serde_json::json!(found), case["of_distances"], "{config:?}");
        }
        assert!(cases.len() > 3);
    }
}
