//! Rotary positions (Su 2021): each pair of features of queries and keys is turned by an angle in proportion
//! to the position, so that `q·k` depends on the distance alone.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use regard_ops::{Pairing, rope_angles};
use serde::{Deserialize, Serialize};

use crate::config::{check_above_zero, check_positive};
use crate::error::ConfigError;
use crate::init::Init;

/// Whether the frequencies are trained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frequencies {
    /// No: `base^(−2i/d_head)`.
    #[default]
    Fixed,
    /// Yes, from there.
    Learned,
}

/// The names of [`Pairing`] in configurations.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Pairing", rename_all = "snake_case")]
enum PairingName {
    Interleaved,
    Halves,
}

/// How [`Rope`] turns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RopeConfig {
    /// Pair `i` turns by `base^(−2i/d_head)` a position.
    pub base: f32,
    /// `interleaved` pairs `(2i, 2i + 1)` as published, `halves` pairs `(i, i + d_head/2)` as Llama's files.
    #[serde(with = "PairingName")]
    pub pairing: Pairing,
    /// Fixed or learned.
    pub frequencies: Frequencies,
}

impl Default for RopeConfig {
    fn default() -> Self {
        Self { base: 10_000.0, pairing: Pairing::Interleaved, frequencies: Frequencies::Fixed }
    }
}

impl RopeConfig {
    /// Refuses what makes no sense for heads of `d_head` features.
    pub fn validate(&self, d_head: usize) -> Result<(), ConfigError> {
        check_positive("d_head", d_head)?;
        if d_head % 2 == 1 {
            return Err(ConfigError::new("d_head", d_head, "an even number: RoPE turns pairs of features"));
        }
        check_above_zero("base", self.base)
    }

    /// The layer.
    pub fn init(&self, d_head: usize, init: &Init) -> Result<Rope, ConfigError> {
        self.validate(d_head)?;
        let learned = self.frequencies == Frequencies::Learned;
        let first = || rope_angles(1, d_head, self.base, 1);
        let tensor = || Tensor::from_data(TensorData::new(first(), [d_head / 2]), init.device());
        let frequencies = learned.then(|| Param::from_tensor(tensor()));
        Ok(Rope { frequencies, d_head, base: self.base, pairing: self.pairing })
    }
}

/// See the [module](self).
#[derive(Module, Debug)]
pub struct Rope {
    /// `[d_head/2]`, where they are learned.
    pub frequencies: Option<Param<Tensor<1>>>,
    d_head: usize,
    base: f32,
    #[module(skip)]
    pairing: Pairing,
}

impl Rope {
    /// The angles of the positions from `offset`.
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

    /// Which features form a pair.
    pub fn pairing(&self) -> Pairing {
        self.pairing
    }
}
