//! What drawing from a density needs.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};

use crate::error::NnError;

/// Refuses what is no bias: a finite number, 0 or more.
pub(super) fn check_bias(bias: f32) -> Result<(), NnError> {
    let fits = bias.is_finite() && bias >= 0.0;
    if fits { Ok(()) } else { Err(NnError::input("bias", "a finite number, 0 or more", bias.to_string())) }
}

/// A standard normal number.
pub(super) fn normal(random: &mut impl Rng) -> f64 {
    StandardNormal.sample(random)
}

/// Whether something of probability `1/(1 + e^{−logit})` happens.
pub(super) fn happens(logit: f64, random: &mut impl Rng) -> bool {
    random.random::<f64>() < 1.0 / (1.0 + (-logit).exp())
}

/// An index drawn with weights `∝ exp(ŵ (1 + a))`.
pub(super) fn component(logits: &[f32], bias: f32, random: &mut impl Rng) -> usize {
    let sharpness = 1.0 + f64::from(bias);
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weight = |logit: f32| ((f64::from(logit) - f64::from(largest)) * sharpness).exp();
    let mut left = random.random::<f64>() * logits.iter().map(|&logit| weight(logit)).sum::<f64>();
    for (index, &logit) in logits.iter().enumerate() {
        left -= weight(logit);
        if left < 0.0 {
            return index;
        }
    }
    // Rounding may leave nothing over, and a NaN never gets below zero.
    logits.len() - 1
}
