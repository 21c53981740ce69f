//! Rotary positions (RoPE, Su 2021): each pair of features of queries and keys is rotated by an angle proportional to the
//! position, so that `q·k` depends only on the distance.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use regard_ops::{Pairing, rope_angles};
use serde::{Deserialize, Serialize};

use crate::config::{check_above_zero, check_positive, name_or_table, no_settings};
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

/// Change of the frequencies that lets a model read longer texts than it was trained on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum RopeScaling {
    /// No change.
    #[default]
    #[serde(deserialize_with = "no_settings")]
    None,
    /// All frequencies are divided by `factor` (position interpolation, Chen 2023).
    Linear {
        /// Divisor of the frequencies.
        factor: f32,
    },
    /// Low frequencies are divided by `factor`, high ones are kept, with a linear passage between (Llama 3).
    Llama3 {
        /// Divisor of the low frequencies.
        factor: f32,
        /// Frequencies with fewer turns than this within `original` positions are low.
        low: f32,
        /// Frequencies with more turns than this within `original` positions are high.
        high: f32,
        /// Number of positions that the model was trained on at first.
        original: usize,
    },
    /// YaRN (Peng 2023): low frequencies are divided as in Llama 3, with a passage that is linear in the index of the pair, and the
    /// scores are multiplied by `attention²`.
    Yarn {
        /// Divisor of the low frequencies.
        factor: f32,
        /// Number of turns within `original` positions at which high frequencies begin.
        fast: f32,
        /// Number of turns within `original` positions at which low frequencies begin.
        slow: f32,
        /// Factor on the rotated queries and keys.
        attention: f32,
        /// Number of positions that the model was trained on at first.
        original: usize,
    },
}

impl RopeScaling {
    fn validate(&self) -> Result<(), ConfigError> {
        let check = |fields: &[(&str, f32)], original: usize| {
            check_positive("scaling.original", original)?;
            fields.iter().try_for_each(|(name, value)| check_above_zero(&format!("scaling.{name}"), *value))
        };
        match *self {
            Self::None => Ok(()),
            Self::Linear { factor } => check(&[("factor", factor)], 1),
            Self::Llama3 { factor, low, high, original } => {
                check(&[("factor", factor), ("low", low), ("high", high)], original)?;
                match low < high {
                    true => Ok(()),
                    false => Err(ConfigError::new("scaling.low", low, format!("below scaling.high, {high}"))),
                }
            }
            Self::Yarn { factor, fast, slow, attention, original } => {
                check(&[("factor", factor), ("fast", fast), ("slow", slow), ("attention", attention)], original)
            }
        }
    }

    /// Returns the changed frequencies; `d_head` and `base` are those of the unchanged ones.
    fn apply(&self, frequencies: Vec<f64>, d_head: usize, base: f64) -> Vec<f64> {
        let mixed =
            |frequency: f64, factor: f32, kept: f64| frequency * kept + frequency / f64::from(factor) * (1.0 - kept);
        match *self {
            Self::None => frequencies,
            Self::Linear { factor } => frequencies.into_iter().map(|one| one / f64::from(factor)).collect(),
            Self::Llama3 { factor, low, high, original } => {
                let (low, high) = (f64::from(low), f64::from(high));
                let kept = |turns: f64| ((turns - low) / (high - low)).clamp(0.0, 1.0);
                let turns = |frequency: f64| original as f64 * frequency / std::f64::consts::TAU;
                frequencies.into_iter().map(|one| mixed(one, factor, kept(turns(one)))).collect()
            }
            Self::Yarn { factor, fast, slow, original, .. } => {
                // The index of the pair that makes this many turns within the original positions.
                let pair = |turns: f32| {
                    let positions_per_radian = original as f64 / (f64::from(turns) * std::f64::consts::TAU);
                    d_head as f64 * positions_per_radian.ln() / (2.0 * base.ln())
                };
                let first = pair(fast).floor().max(0.0);
                let last = pair(slow).ceil().min(d_head as f64 - 1.0);
                let width = if first == last { 0.001 } else { last - first };
                let kept = |index: usize| 1.0 - ((index as f64 - first) / width).clamp(0.0, 1.0);
                frequencies.into_iter().enumerate().map(|(index, one)| mixed(one, factor, kept(index))).collect()
            }
        }
    }
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
    /// Change of the frequencies for longer texts.
    #[serde(deserialize_with = "name_or_table")]
    pub scaling: RopeScaling,
}

impl Default for RopeConfig {
    fn default() -> Self {
        Self {
            base: 10_000.0,
            pairing: Pairing::Interleaved,
            frequencies: Frequencies::Fixed,
            scaling: RopeScaling::None,
        }
    }
}

impl RopeConfig {
    /// Returns an error if a field is invalid for heads of `d_head` features.
    pub fn validate(&self, d_head: usize) -> Result<(), ConfigError> {
        check_positive("d_head", d_head)?;
        if d_head % 2 == 1 {
            return Err(ConfigError::new("d_head", d_head, "an even number: RoPE rotates pairs of features"));
        }
        check_above_zero("base", self.base)?;
        self.scaling.validate()
    }

    /// Creates the layer.
    pub fn init(&self, d_head: usize, init: &Init) -> Result<Rope, ConfigError> {
        self.validate(d_head)?;
        let Self { base, pairing, scaling, .. } = *self;
        let mut rope = Rope { frequencies: None, d_head, base, pairing, scaling };
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
    #[module(skip)]
    scaling: RopeScaling,
}

impl Rope {
    /// Computes the angles of the positions `offset..offset + seq`.
    ///
    /// # Shapes
    /// → `[seq, d_head/2]`.
    pub fn angles(&self, seq: usize, offset: usize, device: &Device) -> Tensor<2> {
        match &self.frequencies {
            None => {
                let angles = match self.scaling {
                    RopeScaling::None => rope_angles(seq, self.d_head, self.base, offset),
                    _ => self.scaled_angles(seq, offset),
                };
                Tensor::from_data(TensorData::new(angles, [seq, self.d_head / 2]), device)
            }
            Some(frequencies) => {
                let positions: Vec<f32> = (offset..offset + seq).map(|p| p as f32).collect();
                let positions = Tensor::<2>::from_data(TensorData::new(positions, [seq, 1]), device);
                positions * frequencies.val().unsqueeze()
            }
        }
    }

    /// Returns the frequencies before training: `base^(−2i/d_head)`, changed by the scaling.
    pub fn first_frequencies(&self) -> Vec<f32> {
        match self.scaling {
            RopeScaling::None => rope_angles(1, self.d_head, self.base, 1),
            _ => self.scaled_angles(1, 1),
        }
    }

    /// Returns the factor on the scores of rotated queries and keys.
    pub fn score_factor(&self) -> f32 {
        match self.scaling {
            RopeScaling::Yarn { attention, .. } => attention * attention,
            RopeScaling::None | RopeScaling::Linear { .. } | RopeScaling::Llama3 { .. } => 1.0,
        }
    }

    /// Computes angles in f64, because a large position would multiply the rounding error of an f32 frequency.
    fn scaled_angles(&self, seq: usize, offset: usize) -> Vec<f32> {
        let (d_head, base) = (self.d_head, f64::from(self.base));
        let plain = (0..d_head / 2).map(|i| base.powf(-((2 * i) as f64) / d_head as f64)).collect();
        let frequencies = self.scaling.apply(plain, d_head, base);
        (offset..offset + seq).flat_map(|p| frequencies.iter().map(move |one| (p as f64 * one) as f32)).collect()
    }

    /// Returns which features form a pair.
    pub fn pairing(&self) -> Pairing {
        self.pairing
    }
}
