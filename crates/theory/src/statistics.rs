//! Means, standard deviations and standard errors.

use std::ops::Range;

use rayon::prelude::*;

/// Number of prompts that one thread scores at a time.
const PIECE: u64 = 32;

/// Returns mean and standard deviation. The deviation of a single value is 0; without values both are NaN.
pub fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0).max(1.0)).sqrt())
}

/// Returns the mean of `count` errors and its standard error. `errors` returns the errors of a range and is called in parallel.
pub(crate) fn mean_error<I: Iterator<Item = f64>>(count: u64, errors: impl Fn(Range<u64>) -> I + Sync) -> (f64, f64) {
    let piece = |piece: u64| {
        let range = piece * PIECE..((piece + 1) * PIECE).min(count);
        errors(range).fold((0.0, 0.0), |(sum, squares), error| (sum + error, squares + error * error))
    };
    let parts: Vec<(f64, f64)> = (0..count.div_ceil(PIECE)).into_par_iter().map(piece).collect();
    let (sum, squares) = parts.iter().fold((0.0, 0.0), |(sum, squares), part| (sum + part.0, squares + part.1));
    let mean = sum / count as f64;
    let variance = squares / count as f64 - mean * mean;
    (mean, (if variance < 0.0 { 0.0 } else { variance } / count as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_over_pieces_is_that_of_all() {
        let values: Vec<f64> = (0..100).map(|i| f64::from(i).sin()).collect();
        let (mean, deviation) = mean_and_deviation(&values);
        let (found, error) = mean_error(100, |range| values[range.start as usize..range.end as usize].iter().copied());
        assert!((found - mean).abs() < 1e-12 && (error - deviation * 0.99f64.sqrt() / 10.0).abs() < 1e-12);
        assert_eq!(mean_and_deviation(&[3.0]), (3.0, 0.0));
    }
}
