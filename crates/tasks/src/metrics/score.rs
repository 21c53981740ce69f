//! Precision, recall and their harmonic mean.

use serde::{Deserialize, Serialize};

/// Precision, recall and F1 from counts; a fraction without denominator is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Correct ones among those predicted.
    pub precision: f64,
    /// Correct ones among the true ones.
    pub recall: f64,
    /// `2·correct / (predicted + true)`.
    pub f1: f64,
    /// True ones.
    pub support: u64,
}

impl Score {
    /// From how many were predicted, how many are true, and how many are both.
    pub fn new(correct: u64, predicted: u64, support: u64) -> Self {
        Self {
            precision: ratio(correct, predicted),
            recall: ratio(correct, support),
            f1: ratio(2 * correct, predicted + support),
            support,
        }
    }
}

/// `part / whole`, and 0 of nothing.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The mean, and 0 of nothing.
pub(super) fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len();
    if count == 0 { 0.0 } else { values.sum::<f64>() / count as f64 }
}
