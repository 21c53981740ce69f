//! From samples to the vectors that the network sees: log-mel features, scaled by those of the training recordings, several
//! frames side by side.
//!
//! The scale is the same for all recordings, and a vector depends on its own frames alone, so that a recording can be heard
//! piece by piece while it goes on.

use rand_chacha::ChaCha8Rng;
use regard_data::{LogMel, Scaler};

use super::augment::Augment;
use super::config::DataConfig;

/// Hears recordings; see the [module](self).
#[derive(Debug, Clone)]
pub(super) struct Ear {
    mel: LogMel,
    /// Scale of the features, one for each band.
    pub scaler: Scaler,
    stack: usize,
    stride: usize,
}

impl Ear {
    pub fn new(data: &DataConfig, scaler: Scaler) -> Self {
        Self { mel: LogMel::new(data.mel()), scaler, stack: data.stack, stride: data.stride }
    }

    /// Learns the scale of the training recordings.
    pub fn learn<'a>(data: &DataConfig, recordings: impl Iterator<Item = &'a [f32]>) -> Self {
        let mel = LogMel::new(data.mel());
        let features: Vec<Vec<f32>> = recordings.map(|samples| mel.apply(samples)).collect();
        let scaler = Scaler::learn(data.bands, features.iter().map(Vec::as_slice));
        Self { mel, scaler, stack: data.stack, stride: data.stride }
    }

    /// Number of bands.
    pub fn bands(&self) -> usize {
        self.mel.config().bands
    }

    /// Number of numbers of a vector.
    pub fn width(&self) -> usize {
        self.stack * self.bands()
    }

    /// Number of frames of so many samples.
    pub fn frames(&self, samples: usize) -> usize {
        self.mel.frames(samples)
    }

    /// Number of vectors of so many frames. The last ones may lack frames at their ends.
    pub fn vectors(&self, frames: usize) -> usize {
        frames.div_ceil(self.stride)
    }

    /// Number of vectors of so many frames that lack none.
    pub fn whole_vectors(&self, frames: usize) -> usize {
        frames.checked_sub(self.stack).map_or(0, |rest| 1 + rest / self.stride)
    }

    /// Number of samples from a frame to the next.
    pub fn hop(&self) -> usize {
        self.mel.config().hop_samples()
    }

    /// Number of frames from a vector to the next.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Seconds from a vector to the next.
    pub fn seconds(&self) -> f64 {
        (self.stride * self.hop()) as f64 / f64::from(self.mel.config().rate)
    }

    /// Computes the scaled features of samples, `[frames, bands]`.
    pub fn features(&self, samples: &[f32]) -> Vec<f32> {
        let mut features = self.mel.apply(samples);
        self.scaler.apply(&mut features);
        features
    }

    /// Computes the vectors of scaled features, `[vectors, width]`. Frames after the end are 0, their mean.
    pub fn stacked(&self, features: &[f32]) -> Vec<f32> {
        let bands = self.bands();
        let count = self.vectors(features.len() / bands);
        let mut vectors = vec![0.0; count * self.width()];
        for (at, vector) in vectors.chunks_exact_mut(self.width()).enumerate() {
            let heard = &features[at * self.stride * bands..];
            let length = heard.len().min(vector.len());
            vector[..length].copy_from_slice(&heard[..length]);
        }
        vectors
    }

    /// Computes the vectors of a recording.
    pub fn hear(&self, samples: &[f32]) -> Vec<f32> {
        self.stacked(&self.features(samples))
    }

    /// Computes the vectors of a recording that is changed at random.
    pub fn hear_changed(&self, samples: &[f32], augment: &Augment, random: &mut ChaCha8Rng) -> Vec<f32> {
        let samples = augment.samples(samples, self.mel.config().rate, random);
        let mut features = self.mel.apply_as(&samples, augment.voice(random));
        self.scaler.apply(&mut features);
        augment.mask(&mut features, self.bands(), random);
        self.stacked(&features)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_neighbouring_frames() {
        let data = DataConfig { bands: 2, stack: 3, stride: 2, ..DataConfig::default() };
        let scaler = Scaler::learn(2, [&[0.0, 0.0, 2.0, 4.0][..]]);
        let ear = Ear::new(&data, scaler);
        let features: Vec<f32> = (0..10).map(|n| n as f32).collect();
        assert_eq!(
            ear.stacked(&features),
            [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 8.0, 9.0, 0.0, 0.0, 0.0, 0.0]
        );
        assert_eq!((ear.vectors(5), ear.whole_vectors(5), ear.whole_vectors(2)), (3, 2, 0));
        assert_eq!(ear.features(&[0.0; 200]).len(), 2);
        assert_eq!(ear.hear(&[0.1; 200 + 80]).len(), 6);
    }
}
