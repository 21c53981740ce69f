//! Precision, recall and their harmonic mean.

use serde::{Deserialize, Serialize};

/// Precision, recall and F1 from counts; a fraction with denominator 0 is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Share of the predicted items that are correct.
    pub precision: f64,
    /// Share of the true items that were predicted.
    pub recall: f64,
    /// Harmonic mean of both, `2·correct / (predicted + true)`.
    pub f1: f64,
    /// Number of true items.
    pub support: u64,
}

impl Score {
    /// Computes the scores from the numbers of correct, predicted and true items.
    pub fn new(correct: u64, predicted: u64, support: u64) -> Self {
        Self {
            precision: ratio(correct, predicted),
            recall: ratio(correct, support),
            f1: ratio(2 * correct, predicted + support),
            support,
        }
    }
}

/// Returns `part / whole`, or 0 if `whole` is 0.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Returns the mean, or 0 without values.
pub(super) fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len();
    if count == 0 { 0.0 } else { values.sum::<f64>() / count as f64 }
}
