//! Standardisation of features: `(x − mean) / deviation`.

use crate::DataError;
use serde::{Deserialize, Serialize};

/// Mean and standard deviation of each feature, learnt from the training part. They are computed in `f64` by Welford's
/// method (Technometrics 4, 1962), which stays exact when the mean is large compared with the deviation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub struct Scaler {
    mean: Vec<f64>,
    /// Root of the mean squared distance from the mean; 1 for a constant feature.
    deviation: Vec<f64>,
}

impl Scaler {
    /// Learns from blocks of numbers `[length, width]`, each row by row. Without numbers, nothing is scaled.
    ///
    /// # Panics
    /// If `width` is 0.
    pub fn learn<'a>(width: usize, blocks: impl IntoIterator<Item = &'a [f32]>) -> Self {
        let (mut mean, mut squares) = (vec![0.0; width], vec![0.0; width]);
        let mut count = 0.0;
        for row in blocks.into_iter().flat_map(|block| block.chunks_exact(width)) {
            count += 1.0;
            for ((&x, mean), squares) in row.iter().zip(&mut mean).zip(&mut squares) {
                let before = f64::from(x) - *mean;
                *mean += before / count;
                *squares += before * (f64::from(x) - *mean);
            }
        }
        let deviation = |squares: f64| if squares > 0.0 { (squares / count).sqrt() } else { 1.0 };
        Self { mean, deviation: squares.into_iter().map(deviation).collect() }
    }

    /// Number of features.
    pub fn width(&self) -> usize {
        self.mean.len()
    }

    /// Mean of each feature.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Standard deviation of each feature.
    pub fn deviation(&self) -> &[f64] {
        &self.deviation
    }

    /// Scales numbers `[length, width]` in place. A result too large for `f32` becomes its largest number.
    ///
    /// # Panics
    /// If the numbers are not whole rows.
    pub fn apply(&self, numbers: &mut [f32]) {
        self.map(numbers, |x, mean, deviation| (x - mean) / deviation);
    }

    /// Undoes [`Scaler::apply`].
    ///
    /// # Panics
    /// If the numbers are not whole rows.
    pub fn restore(&self, numbers: &mut [f32]) {
        self.map(numbers, |x, mean, deviation| x * deviation + mean);
    }

    fn map(&self, numbers: &mut [f32], f: impl Fn(f64, f64, f64) -> f64) {
        assert!(numbers.len().is_multiple_of(self.width()), "{} numbers in rows of {}", numbers.len(), self.width());
        for row in numbers.chunks_exact_mut(self.width()) {
            for ((x, &mean), &deviation) in row.iter_mut().zip(&self.mean).zip(&self.deviation) {
                *x = f(f64::from(*x), mean, deviation).clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32;
            }
        }
    }
}

/// A scaler as it is stored, before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    mean: Vec<f64>,
    deviation: Vec<f64>,
}

impl TryFrom<Stored> for Scaler {
    type Error = DataError;

    fn try_from(Stored { mean, deviation }: Stored) -> Result<Self, DataError> {
        let fail = |expected: &str, found: String| {
            Err(DataError::Setting { field: "scaler", expected: expected.into(), found })
        };
        if mean.is_empty() || mean.len() != deviation.len() {
            let found = format!("{} means and {} deviations", mean.len(), deviation.len());
            return fail("a mean and a deviation for each feature", found);
        }
        if let Some(found) = deviation.iter().find(|deviation| !(deviation.is_finite() && **deviation > 0.0)) {
            return fail("deviations above 0", found.to_string());
        }
        Ok(Self { mean, deviation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation_by_hand() {
        // Feature 0 is 1, 2, 3, 6: mean 3, squares 4 + 1 + 0 + 9 = 14. Feature 1 is constant.
        let blocks: [&[f32]; 2] = [&[1.0, 7.0, 2.0, 7.0], &[3.0, 7.0, 6.0, 7.0]];
        let scaler = Scaler::learn(2, blocks);
        assert_eq!(scaler.mean(), [3.0, 7.0]);
        assert_eq!(scaler.deviation(), [3.5f64.sqrt(), 1.0]);
        let mut numbers = [3.0, 7.0, 6.0, 8.0];
        scaler.apply(&mut numbers);
        assert_eq!(numbers, [0.0, 0.0, (3.0 / 3.5f64.sqrt()) as f32, 1.0]);
        scaler.restore(&mut numbers);
        assert!((numbers[2] - 6.0).abs() < 1e-6 && numbers[3] == 8.0, "{numbers:?}");
    }

    #[test]
    fn a_large_mean_keeps_the_deviation() {
        // In f32 the sum of squares of these numbers has no digits left for the deviation of 4.
        let numbers: Vec<f32> = (0..100_000).map(|i| 1e8 + if i % 2 == 0 { 8.0 } else { 0.0 }).collect();
        let scaler = Scaler::learn(1, [&numbers[..]]);
        assert!((scaler.mean()[0] - 100_000_004.0).abs() < 1e-6, "{:?}", scaler.mean());
        assert!((scaler.deviation()[0] - 4.0).abs() < 1e-6, "{:?}", scaler.deviation());
    }

    #[test]
    fn results_are_finite() {
        let scaler = Scaler::learn(1, [&[0.0, f32::from_bits(1)][..]]);
        let mut numbers = [f32::MAX, f32::MIN, 0.0];
        scaler.apply(&mut numbers);
        assert_eq!(numbers, [f32::MAX, f32::MIN, -1.0]);
        assert_eq!(Scaler::learn(2, []).deviation(), [1.0, 1.0]);
    }

    #[test]
    fn stored_scalers_are_checked() {
        let scaler = Scaler::learn(2, [&[1.0f32, 0.1, 2.0, 0.7][..]]);
        let json = serde_json::to_string(&scaler).unwrap();
        assert_eq!(serde_json::from_str::<Scaler>(&json).unwrap(), scaler);
        for (json, expected) in [
            (r#"{"mean": [1], "deviation": []}"#, "1 means and 0 deviations"),
            (r#"{"mean": [1], "deviation": [0]}"#, "deviations above 0"),
            (r#"{"mean": [1], "deviation": [1], "x": 1}"#, "unknown field"),
        ] {
            let error = serde_json::from_str::<Scaler>(json).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
