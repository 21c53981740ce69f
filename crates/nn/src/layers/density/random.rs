//! Random draws for sampling from a density.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};

use crate::error::NnError;

/// Returns an error unless `bias` is finite and at least 0.
pub(super) fn check_bias(bias: f32) -> Result<(), NnError> {
    let fits = bias.is_finite() && bias >= 0.0;
    if fits { Ok(()) } else { Err(NnError::input("bias", "a finite number, 0 or more", bias.to_string())) }
}

/// Draws a standard normal number.
pub(super) fn normal(random: &mut impl Rng) -> f64 {
    StandardNormal.sample(random)
}

/// Returns true with probability `1/(1 + e^{−logit})`.
pub(super) fn happens(logit: f64, random: &mut impl Rng) -> bool {
    random.random::<f64>() < 1.0 / (1.0 + (-logit).exp())
}

/// Draws an index with weights `∝ exp(ŵ (1 + a))`, where `ŵ` are the logits and `a` is the bias.
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
    // Reached if rounding keeps `left` at 0 or above, or if it is NaN.
    logits.len() - 1
}
