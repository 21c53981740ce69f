//! Metrics of predicted numbers.

use serde::{Deserialize, Serialize};

/// Errors and correlation of predicted and true numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Regression {
    /// Mean squared error.
    pub mse: f64,
    /// Mean absolute error.
    pub mae: f64,
    /// R², `1 − Σ(y − ŷ)² / Σ(y − ȳ)²`. If all true numbers are equal, 1 if all are hit and else 0; `None` for fewer than two.
    pub r2: Option<f64>,
    /// Pearson correlation; `None` if the true or the predicted numbers do not vary.
    pub pearson: Option<f64>,
}

/// Computes the metrics; the errors are 0 without examples.
///
/// # Panics
/// If `truth` and `predicted` differ in length.
pub fn regression(truth: &[f64], predicted: &[f64]) -> Regression {
    assert_eq!(truth.len(), predicted.len(), "one prediction per example");
    let count = truth.len().max(1) as f64;
    let differences = || truth.iter().zip(predicted).map(|(truth, predicted)| truth - predicted);
    let squares: f64 = differences().map(|difference| difference * difference).sum();
    let (y, x) = (centred(truth), centred(predicted));
    let r2 = match &y {
        _ if truth.len() < 2 => None,
        None => Some(if squares == 0.0 { 1.0 } else { 0.0 }),
        Some(y) => Some(1.0 - squares / dot(y, y)),
    };
    let pearson = match (&y, &x) {
        // Roots first: the product of the sums might overflow.
        (Some(y), Some(x)) => Some((dot(y, x) / (dot(y, y).sqrt() * dot(x, x).sqrt())).clamp(-1.0, 1.0)),
        _ => None,
    };
    Regression { mse: squares / count, mae: differences().map(f64::abs).sum::<f64>() / count, r2, pearson }
}

/// Subtracts the mean from the numbers. Returns `None` if they are all equal, because only rounding noise would remain.
fn centred(values: &[f64]) -> Option<Vec<f64>> {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let varies = values.windows(2).any(|pair| pair[0] != pair[1]);
    varies.then(|| values.iter().map(|value| value - mean).collect())
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn constant_numbers_have_no_correlation() {
        let flat = regression(&[0.1; 3], &[0.1, 0.2, 0.3]);
        assert_eq!((flat.r2, flat.pearson), (Some(0.0), None));
        assert_eq!(regression(&[0.1; 3], &[0.1; 3]).r2, Some(1.0));
        assert_eq!(regression(&[1.0], &[1.0]).r2, None);
        assert_eq!(regression(&[], &[]), Regression { mse: 0.0, mae: 0.0, r2: None, pearson: None });
    }

    proptest! {
        #[test]
        fn correlation_does_not_depend_on_scale(
            pairs in prop::collection::vec((-9.0..9.0f64, -9.0..9.0f64), 2..20), scale in 0.1..9.0f64, shift in -9.0..9.0f64,
        ) {
            let (truth, predicted): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let other: Vec<f64> = predicted.iter().map(|value| scale * value + shift).collect();
            let (one, two) = (regression(&truth, &predicted), regression(&truth, &other));
            if let (Some(one), Some(two)) = (one.pearson, two.pearson) {
                prop_assert!((one - two).abs() < 1e-6);
            }
        }
    }
}
