//! Rotary positions (RoPE, Su 2021): each pair of features of queries and keys is rotated by an angle proportional to the
//! position, so that `q·k` depends only on the distance.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use regard_ops::{Pairing, rope_angles};
use serde::{Deserialize, Serialize};

use crate::config::{check_above_zero, check_positive};
use crate::error::ConfigError;
use crate::init::Init;

/// Whether the frequencies are learned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frequencies {
    /// Fixed at `base^(−2i/d_head)`.
    #[default]
    Fixed,
    /// Learned, starting from `base^(−2i/d_head)`.
    Learned,
}

/// The names of [`Pairing`] in configurations.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Pairing", rename_all = "snake_case")]
enum PairingName {
    Interleaved,
    Halves,
}

/// Configuration of a [`Rope`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RopeConfig {
    /// Base of the angles: pair `i` is rotated by `base^(−2i/d_head)` per position.
    pub base: f32,
    /// Features that form a pair: `interleaved`, `(2i, 2i + 1)`, as published, or `halves`, `(i, i + d_head/2)`, as in Llama.
    #[serde(with = "PairingName")]
    pub pairing: Pairing,
    /// Fixed or learned frequencies.
    pub frequencies: Frequencies,
}

impl Default for RopeConfig {
    fn default() -> Self {
        Self { base: 10_000.0, pairing: Pairing::Interleaved, frequencies: Frequencies::Fixed }
    }
}

impl RopeConfig {
    /// Returns an error if a field is invalid for heads of `d_head` features.
    pub fn validate(&self, d_head: usize) -> Result<(), ConfigError> {
        check_positive("d_head", d_head)?;
        if d_head % 2 == 1 {
            return Err(ConfigError::new("d_head", d_head, "an even number: RoPE rotates pairs of features"));
        }
        check_above_zero("base", self.base)
    }

    /// Creates the layer.
    pub fn init(&self, d_head: usize, init: &Init) -> Result<Rope, ConfigError> {
        self.validate(d_head)?;
        let mut rope = Rope { frequencies: None, d_head, base: self.base, pairing: self.pairing };
        if self.frequencies == Frequencies::Learned {
            let first = TensorData::new(rope.first_frequencies(), [d_head / 2]);
            rope.frequencies = Some(Param::from_tensor(Tensor::from_data(first, init.device())));
        }
        Ok(rope)
    }
}

/// Rotary positions; see the [module](self).
#[derive(Module, Debug)]
pub struct Rope {
    /// Learned frequencies, `[d_head/2]`; `None` if they are fixed.
    pub frequencies: Option<Param<Tensor<1>>>,
    d_head: usize,
    base: f32,
    #[module(skip)]
    pairing: Pairing,
}

impl Rope {
    /// Computes the angles of the positions `offset..offset + seq`.
    ///
    /// # Shapes
    /// → `[seq, d_head/2]`.
    pub fn angles(&self, seq: usize, offset: usize, device: &Device) -> Tensor<2> {
        match &self.frequencies {
            None => {
                let angles = rope_angles(seq, self.d_head, self.base, offset);
                Tensor::from_data(TensorData::new(angles, [seq, self.d_head / 2]), device)
            }
            Some(frequencies) => {
                let positions: Vec<f32> = (offset..offset + seq).map(|p| p as f32).collect();
                let positions = Tensor::<2>::from_data(TensorData::new(positions, [seq, 1]), device);
                positions * frequencies.val().unsqueeze()
            }
        }
    }

    /// Returns the frequencies before training, `base^(−2i/d_head)`.
    pub fn first_frequencies(&self) -> Vec<f32> {
        rope_angles(1, self.d_head, self.base, 1)
    }

    /// Returns which features form a pair.
    pub fn pairing(&self) -> Pairing {
        self.pairing
    }
}
