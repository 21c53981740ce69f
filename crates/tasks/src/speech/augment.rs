//! Random changes of training recordings, so that a network does not learn their voices and microphones by heart.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use regard_data::Voice;
use regard_nn::ConfigError;
use serde::{Deserialize, Serialize};

/// The keys of `[data.augment]`. All are 0 by default: no change.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Augment {
    /// Largest shift in milliseconds: quiet noise is put before the recording, or its start is cut.
    pub shift: f64,
    /// Largest change of the speed, as a share.
    pub speed: f64,
    /// Largest change of the frequencies, as a share: a longer or shorter vocal tract (Jaitly 2013).
    pub pitch: f64,
    /// Largest change of the loudness in decibels.
    pub gain: f64,
    /// Largest deviation of white noise, as a share of the recording's own.
    pub noise: f32,
    /// Number of ranges of time that are hidden (Park 2019).
    pub time_masks: usize,
    /// Largest number of frames of such a range.
    pub time_mask: usize,
    /// Number of ranges of bands that are hidden.
    pub band_masks: usize,
    /// Largest number of bands of such a range.
    pub band_mask: usize,
}

/// Largest share of a recording that a shift may cut.
const MOST_CUT: f64 = 0.1;

impl Augment {
    /// Returns an error if a value is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let most = [("shift", self.shift, 10_000.0), ("speed", self.speed, 0.5), ("pitch", self.pitch, 0.5)];
        let more = [("gain", self.gain, 60.0), ("noise", f64::from(self.noise), 10.0)];
        for (field, value, high) in most.into_iter().chain(more) {
            if !(0.0..=high).contains(&value) {
                return Err(ConfigError::new(field, value, format!("from 0 to {high}")));
            }
        }
        for (field, count) in [("time_masks", self.time_masks), ("band_masks", self.band_masks)] {
            if count > 100 {
                return Err(ConfigError::new(field, count, "at most 100"));
            }
        }
        Ok(())
    }

    /// Returns changed samples.
    pub fn samples(&self, samples: &[f32], rate: u32, random: &mut ChaCha8Rng) -> Vec<f32> {
        let mut changed = self.shifted(samples, rate, random);
        let loudness = (changed.iter().map(|x| x * x).sum::<f32>() / changed.len().max(1) as f32).sqrt();
        let gain = 10f32.powf(between(self.gain, random) as f32 / 20.0);
        let hiss = self.noise * loudness * random.random::<f32>().powi(2);
        for x in &mut changed {
            let noise = if hiss > 0.0 { hiss * normal(random) } else { 0.0 };
            *x = gain * (*x + noise);
        }
        changed
    }

    /// Draws the voice with which features are computed.
    pub fn voice(&self, random: &mut ChaCha8Rng) -> Voice {
        Voice { speed: 1.0 + between(self.speed, random), pitch: 1.0 + between(self.pitch, random) }
    }

    /// Hides ranges of scaled features `[frames, bands]` behind their mean, which is 0.
    pub fn mask(&self, features: &mut [f32], bands: usize, random: &mut ChaCha8Rng) {
        let frames = features.len() / bands;
        for _ in 0..self.time_masks {
            let hidden = range(frames, self.time_mask, random);
            features[hidden.start * bands..hidden.end * bands].fill(0.0);
        }
        for _ in 0..self.band_masks {
            let hidden = range(bands, self.band_mask, random);
            features.chunks_exact_mut(bands).for_each(|row| row[hidden.clone()].fill(0.0));
        }
    }

    fn shifted(&self, samples: &[f32], rate: u32, random: &mut ChaCha8Rng) -> Vec<f32> {
        let by = between(self.shift, random) / 1_000.0 * f64::from(rate);
        if by < 0.0 {
            let cut = (-by).min(MOST_CUT * samples.len() as f64) as usize;
            return samples[cut..].to_vec();
        }
        let quiet = 10f32.powf(random.random_range(-4.0..-2.5));
        let before = (0..by as usize).map(|_| quiet * normal(random)).collect::<Vec<f32>>();
        before.into_iter().chain(samples.iter().copied()).collect()
    }
}

/// A number from `−most` to `most`.
fn between(most: f64, random: &mut ChaCha8Rng) -> f64 {
    most * random.random_range(-1.0..=1.0)
}

/// A range of at most `most` places below `all`; half of the places always stay.
fn range(all: usize, most: usize, random: &mut ChaCha8Rng) -> std::ops::Range<usize> {
    let length = random.random_range(0..=most.min(all / 2));
    let start = random.random_range(0..=all - length);
    start..start + length
}

/// A random number that is nearly normal, with deviation 1.
fn normal(random: &mut ChaCha8Rng) -> f32 {
    (0..3).map(|_| random.random_range(-1.0..1.0f32)).sum()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn random() -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(1)
    }

    #[test]
    fn nothing_changes_by_default() {
        let none = Augment::default();
        assert_eq!(none.samples(&[0.5, -0.25, 0.125], 8_000, &mut random()), [0.5, -0.25, 0.125]);
        assert_eq!(none.voice(&mut random()), Voice::default());
        let mut features = vec![1.0; 12];
        none.mask(&mut features, 3, &mut random());
        assert_eq!(features, [1.0; 12]);
    }

    #[test]
    fn masks_hide_whole_frames_and_bands() {
        let augment = Augment { time_masks: 1, time_mask: 4, band_masks: 1, band_mask: 2, ..Augment::default() };
        let mut hidden = 0;
        let mut random = random();
        for _ in 0..50 {
            let mut features = vec![1.0; 10 * 6];
            augment.mask(&mut features, 6, &mut random);
            let rows: Vec<&[f32]> = features.chunks(6).collect();
            let frames = rows.iter().filter(|row| row.iter().all(|&x| x == 0.0)).count();
            let bands = (0..6).filter(|&band| rows.iter().all(|row| row[band] == 0.0)).count();
            assert!(frames <= 4 && bands <= 2);
            // What is hidden is a frame or a band as a whole.
            let zeros = features.iter().filter(|&&x| x == 0.0).count();
            assert_eq!(zeros, 6 * frames + bands * (10 - frames));
            hidden += zeros;
        }
        assert!(hidden > 0);
    }

    #[test]
    fn shifts_and_noise_stay_within_bounds() {
        let augment = Augment { shift: 100.0, gain: 6.0, noise: 0.5, speed: 0.1, pitch: 0.2, ..Augment::default() };
        let mut random = random();
        let mut lengths = Vec::new();
        for _ in 0..50 {
            let changed = augment.samples(&[0.5; 1_000], 8_000, &mut random);
            assert!((900..=1_800).contains(&changed.len()) && changed.iter().all(|x| x.is_finite()));
            lengths.push(changed.len());
            let Voice { speed, pitch } = augment.voice(&mut random);
            assert!((0.9..=1.1).contains(&speed) && (0.8..=1.2).contains(&pitch));
        }
        assert!(lengths.iter().any(|&length| length < 1_000) && lengths.iter().any(|&length| length > 1_000));
        for bad in [
            Augment { speed: 0.6, ..Augment::default() },
            Augment { noise: f32::NAN, ..Augment::default() },
            Augment { shift: -1.0, ..Augment::default() },
            Augment { time_masks: 101, ..Augment::default() },
        ] {
            assert!(bad.validate().is_err(), "{bad:?}");
        }
        assert!(augment.validate().is_ok());
    }
}
