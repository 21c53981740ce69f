//! The vectors of an example as the network sees them: normalised, scaled, in training changed, with their differences.

use rand_chacha::ChaCha8Rng;
use regard_data::Scaler;
use serde::{Deserialize, Serialize};

use super::augment::{Augment, Mix};
use super::config::{DataConfig, Normalise};
use super::examples::Part;

/// How the vectors of an example are prepared, learnt from the training part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scaling {
    normalise: Normalise,
    /// Scale of the features.
    scaler: Scaler,
    /// Scale of the differences of scaled features, if the network sees them.
    differences: Option<Scaler>,
    /// Features that are flags, see [`flags`]. Resampling, normalising and a random linear map leave them alone.
    flags: Vec<usize>,
}

/// Returns the features that are only 0 or 1 in all series, such as the end of a stroke.
pub(super) fn flags<'a>(width: usize, series: impl Iterator<Item = &'a [f32]> + Clone) -> Vec<usize> {
    let is_flag = |feature: &usize| {
        let mut all = series.clone().flat_map(|numbers| numbers.iter().skip(*feature).step_by(width));
        all.all(|&x| x == 0.0 || x == 1.0)
    };
    (0..width).filter(is_flag).collect()
}

impl Scaling {
    /// Learns the scales from the training examples. The flags are those of the data before they were resampled.
    pub fn learn(data: &DataConfig, width: usize, flags: Vec<usize>, part: &Part) -> Self {
        // Windows overlap; every vector counts once, or nearly so.
        let mut after = (usize::MAX, 0);
        let is_new = |example: &&super::examples::Example| {
            let is_new = after.0 != example.series || example.from >= after.1;
            if is_new {
                after = (example.series, example.to);
            }
            is_new
        };
        let examples: Vec<_> = part.examples.iter().filter(is_new).collect();
        let normalised = |example| normalised(data.normalise, part.window(example, width), width, &flags);
        let mut blocks: Vec<Vec<f32>> = examples.into_iter().map(normalised).collect();
        let scaler = Scaler::learn(width, blocks.iter().map(Vec::as_slice));
        let differences = data.differences.then(|| {
            blocks.iter_mut().for_each(|block| scaler.apply(block));
            let changes: Vec<Vec<f32>> = blocks.iter().map(|block| differences(block, width)).collect();
            Scaler::learn(width, changes.iter().map(Vec::as_slice))
        });
        Self { normalise: data.normalise, scaler, differences, flags }
    }

    /// Number of features of a vector in the data.
    pub fn width(&self) -> usize {
        self.scaler.width()
    }

    /// Features that are only 0 or 1 in the training data.
    pub fn flags(&self) -> &[usize] {
        &self.flags
    }

    /// Number of features that the network sees.
    pub fn seen(&self) -> usize {
        self.width() * if self.differences.is_some() { 2 } else { 1 }
    }

    /// Whether the parts fit each other, as they do unless a file is damaged.
    pub fn is_consistent(&self) -> bool {
        self.differences.iter().all(|other| other.width() == self.width())
            && self.flags.iter().all(|&feature| feature < self.width())
    }

    /// Prepares the vectors of an example.
    pub fn apply(&self, vectors: &[f32]) -> Vec<f32> {
        self.with_differences(self.scaled(vectors))
    }

    /// Prepares the vectors of a training example, changed at random. Also returns the linear map, if there is one.
    pub fn apply_changed(
        &self,
        vectors: &[f32],
        augment: &Augment,
        random: &mut ChaCha8Rng,
    ) -> (Vec<f32>, Option<Mix>) {
        let mut numbers = self.scaled(vectors);
        let mix = augment.draw_mix(self.width(), &self.flags, random);
        mix.iter().for_each(|mix| mix.apply(&mut numbers));
        augment.add_noise(&mut numbers, random);
        (self.with_differences(numbers), mix)
    }

    /// Applies the linear map of an example to differences of its vectors, `[length, width]` in the units of the data. Mean and size
    /// of the example cancel, because a difference has no mean and the map is linear.
    pub fn mix_differences(&self, mix: &Mix, differences: &mut [f32]) {
        let scale = |numbers: &mut [f32], f: fn(f64, f64) -> f64| {
            let deviations = self.scaler.deviation().iter().cycle();
            numbers.iter_mut().zip(deviations).for_each(|(x, &deviation)| *x = f(f64::from(*x), deviation) as f32);
        };
        scale(differences, |x, deviation| x / deviation);
        mix.apply(differences);
        scale(differences, |x, deviation| x * deviation);
    }

    fn scaled(&self, vectors: &[f32]) -> Vec<f32> {
        let mut numbers = normalised(self.normalise, vectors, self.width(), &self.flags);
        self.scaler.apply(&mut numbers);
        numbers
    }

    /// Appends the difference of each scaled vector to the one before it, if the network sees differences.
    fn with_differences(&self, numbers: Vec<f32>) -> Vec<f32> {
        let width = self.width();
        let Some(scaler) = &self.differences else { return numbers };
        let mut changes = differences(&numbers, width);
        scaler.apply(&mut changes);
        let rows = numbers.chunks_exact(width).zip(changes.chunks_exact(width));
        rows.flat_map(|(vector, change)| vector.iter().chain(change)).copied().collect()
    }
}

/// Returns the difference of each vector to the one before it; zeros for the first.
fn differences(vectors: &[f32], width: usize) -> Vec<f32> {
    let first = std::iter::repeat_n(0.0, width.min(vectors.len()));
    first.chain(vectors.iter().skip(width).zip(vectors).map(|(x, before)| x - before)).collect()
}

/// Takes out the mean, and perhaps the size, of an example. Flags stay as they are.
fn normalised(normalise: Normalise, vectors: &[f32], width: usize, flags: &[usize]) -> Vec<f32> {
    if normalise == Normalise::None {
        return vectors.to_vec();
    }
    let own = Scaler::learn(width, [vectors]);
    // The deviation of a constant feature is 1 by definition and must not count as the largest.
    let varies = |feature: usize| vectors.chunks_exact(width).any(|vector| vector[feature] != vectors[feature]);
    let counts = |feature: &usize| !flags.contains(feature) && varies(*feature);
    let largest = (0..width).filter(counts).map(|feature| own.deviation()[feature]).fold(0.0, f64::max);
    let size = if normalise == Normalise::Size && largest > 0.0 { largest } else { 1.0 };
    let scaled = |(at, &x): (usize, &f32)| match flags.contains(&(at % width)) {
        true => x,
        false => ((f64::from(x) - own.mean()[at % width]) / size) as f32,
    };
    vectors.iter().enumerate().map(scaled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalising_keeps_proportions() {
        let vectors = [1.0, 10.0, 7.0, 3.0, 10.0, 7.0, 5.0, 40.0, 7.0];
        assert_eq!(normalised(Normalise::None, &vectors, 3, &[]), vectors);
        let mean = normalised(Normalise::Mean, &vectors, 3, &[]);
        assert_eq!(mean, [-2.0, -10.0, 0.0, 0.0, -10.0, 0.0, 2.0, 20.0, 0.0]);
        let size = normalised(Normalise::Size, &vectors, 3, &[]);
        let ratio = size[0] / mean[0];
        assert!(size.iter().zip(&mean).all(|(a, b)| (a - b * ratio).abs() < 1e-6), "{size:?}");
        let larger: Vec<f32> = vectors.iter().map(|x| 100.0 * x + 3.0).collect();
        let other = normalised(Normalise::Size, &larger, 3, &[]);
        assert!(size.iter().zip(&other).all(|(a, b)| (a - b).abs() < 1e-5), "{size:?} {other:?}");
    }

    #[test]
    fn flags_are_not_normalised() {
        // Deviations of 0.01 and, of the flag, of 0.5.
        let vectors = [1.01, 0.0, 1.03, 1.0];
        let size = normalised(Normalise::Size, &vectors, 2, &[1]);
        assert!((size[0] + 1.0).abs() < 1e-4 && (size[2] - 1.0).abs() < 1e-4, "{size:?}");
        assert_eq!((size[1], size[3]), (0.0, 1.0));
        let series: [&[f32]; 2] = [&[0.0, 1.0, 0.5, 1.0], &[1.0, 0.0]];
        assert_eq!(flags(2, series.into_iter()), [1]);
        assert_eq!(flags(2, series[1..].iter().copied()), [0, 1]);
    }

    #[test]
    fn differences_follow_each_vector() {
        assert_eq!(differences(&[1.0, 10.0, 4.0, 30.0, 2.0, 30.0], 2), [0.0, 0.0, 3.0, 20.0, -2.0, 0.0]);
        let series = vec![vec![0.0, 1.0, 2.0, 0.0, 6.0, 1.0]];
        let example = super::super::examples::Example { series: 0, from: 0, to: 3, answers: Vec::new() };
        let part = Part { series, examples: vec![example], unseen: Vec::new(), cut: 0 };
        let data = DataConfig { differences: true, ..DataConfig::default() };
        let scaling = Scaling::learn(&data, 2, vec![1], &part);
        assert_eq!((scaling.width(), scaling.seen()), (2, 4));
        let seen = scaling.apply(&part.series[0]);
        assert_eq!(seen.len(), 12);
        let means = (0..4).map(|feature| seen.iter().skip(feature).step_by(4).sum::<f32>());
        assert!(means.clone().all(|sum| sum.abs() < 1e-5), "{:?}", means.collect::<Vec<_>>());
    }
}
