//! Random changes of training examples, so that a model learns what does not matter.

use rand::distr::{Distribution, StandardUniform};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use regard_nn::ConfigError;
use regard_nn::config::check_dropout;
use serde::{Deserialize, Serialize};

/// The keys of `[data]` that change training examples. All are 0 by default: no change.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Augment {
    /// Probability that a vector is left out.
    pub drop: f32,
    /// Deviation of the entries of a random matrix `G`; all vectors of an example are multiplied by `I + G`,
    /// except for features that are only 0 or 1. A forecast is multiplied by the same matrix as its window.
    pub mix: f32,
    /// Deviation of the noise that is added to each scaled feature.
    pub noise: f32,
}

impl Augment {
    /// Returns an error if a value is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_dropout("drop", self.drop)?;
        for (field, value) in [("mix", self.mix), ("noise", self.noise)] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(ConfigError::new(field, value, "a finite number, 0 or more"));
            }
        }
        Ok(())
    }

    /// Chooses the vectors of an example that stay, in order. The last one always does, since a forecast starts from it.
    pub fn kept(&self, length: usize, random: &mut ChaCha8Rng) -> Vec<usize> {
        let mut stays = |at: usize| {
            let drawn: f32 = StandardUniform.sample(random);
            at + 1 == length || drawn >= self.drop
        };
        (0..length).filter(|&at| stays(at)).collect()
    }

    /// Draws the linear map of an example; `None` if `mix` is 0. The features in `flags` take no part in it.
    pub fn draw_mix(&self, width: usize, flags: &[usize], random: &mut ChaCha8Rng) -> Option<Mix> {
        if self.mix == 0.0 {
            return None;
        }
        let mut matrix: Vec<f32> = (0..width * width).map(|_| normal(self.mix, random)).collect();
        for &flag in flags {
            (0..width).for_each(|other| {
                matrix[flag * width + other] = 0.0;
                matrix[other * width + flag] = 0.0;
            });
        }
        Some(Mix { matrix, width })
    }

    /// Adds noise to scaled features.
    pub fn add_noise(&self, vectors: &mut [f32], random: &mut ChaCha8Rng) {
        if self.noise > 0.0 {
            vectors.iter_mut().for_each(|x| *x += normal(self.noise, random));
        }
    }
}

fn normal(deviation: f32, random: &mut ChaCha8Rng) -> f32 {
    deviation * Distribution::<f32>::sample(&StandardNormal, random)
}

/// A random linear map `I + G` of the scaled vectors of an example.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    /// `G`, `[width, width]`.
    matrix: Vec<f32>,
    width: usize,
}

impl Mix {
    /// Multiplies scaled vectors `[length, width]` in place.
    pub fn apply(&self, vectors: &mut [f32]) {
        for vector in vectors.chunks_exact_mut(self.width) {
            let rows = self.matrix.chunks_exact(self.width);
            let added: Vec<f32> = rows.map(|row| row.iter().zip(&*vector).map(|(g, x)| g * x).sum()).collect();
            vector.iter_mut().zip(added).for_each(|(x, added)| *x += added);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn changes_have_their_sizes() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let augment = Augment { drop: 0.25, mix: 0.0, noise: 0.0 };
        let kept = augment.kept(4_000, &mut random);
        assert!((2_900..3_100).contains(&kept.len()) && kept.last() == Some(&3_999), "{}", kept.len());
        let mut same = vec![1.0, 2.0, 3.0, 4.0];
        augment.add_noise(&mut same, &mut random);
        assert_eq!((same, augment.draw_mix(2, &[], &mut random)), (vec![1.0, 2.0, 3.0, 4.0], None));
        // One matrix for all vectors of an example: equal vectors stay equal, and the change is linear.
        let mut mixed = vec![1.0, 2.0, 1.0, 2.0, 2.0, 4.0];
        let mixing = Augment { mix: 0.1, ..augment };
        mixing.draw_mix(2, &[], &mut random).unwrap().apply(&mut mixed);
        assert_eq!(mixed[..2], mixed[2..4]);
        assert!(mixed[0] != 1.0 && (mixed[4] - 2.0 * mixed[0]).abs() < 1e-6);
        let mut flagged = vec![1.0, 2.0];
        mixing.draw_mix(2, &[1], &mut random).unwrap().apply(&mut flagged);
        assert!(flagged[0] != 1.0 && flagged[1] == 2.0);
        let mut noisy = vec![0.0; 10_000];
        Augment { noise: 0.5, ..augment }.add_noise(&mut noisy, &mut random);
        let square = noisy.iter().map(|x| x * x).sum::<f32>() / 10_000.0;
        assert!((square - 0.25).abs() < 0.02, "{square}");
        assert!(Augment { noise: f32::NAN, ..augment }.validate().is_err());
        assert!(Augment { drop: 1.0, ..augment }.validate().is_err());
    }
}
