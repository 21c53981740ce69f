//! Score-function estimator of hard attention, which learns from rewards (Williams 1992; Xu et al. 2015).
//!
//! For choices `z ~ Discrete(α)` with reward `R`, `∇E[R] = E[(R − b) ∇log α_z]` for any `b` that does not depend on `z`.
//! A `b` near the mean reward lowers the variance. [`Baseline`] is a mean over earlier steps.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::check::{Size, check_input};
use super::context::Choice;
use crate::error::{ConfigError, NnError};

/// Computes `−((R − b) log α_z + bonus · H(α))` for each choice. Minimising it raises the expected reward and, with a
/// bonus, the entropy of the weights. No gradient flows into the reward. The caller sums or averages over the choices.
///
/// # Shapes
/// `reward` `[batch, queries]`, or `[batch, 1]` for one reward per sequence → `[batch, queries]`.
pub fn score_function_loss(
    choice: &Choice,
    reward: Tensor<2>,
    baseline: f32,
    entropy_bonus: f32,
) -> Result<Tensor<2>, NnError> {
    let [batch, queries] = choice.log_probability.dims();
    let columns = if reward.dims()[1] == 1 { 1 } else { queries };
    check_input("reward", &reward, [Size::Is(batch), Size::Is(columns)])?;
    let advantage = (reward.detach() - baseline).expand([batch, queries]);
    let loss = -(advantage * choice.log_probability.clone());
    Ok(if entropy_bonus == 0.0 { loss } else { loss - choice.entropy.clone() * entropy_bonus })
}

/// A moving average of rewards, `b ← decay · b + (1 − decay) · R`, that starts at the first reward.
///
/// The serialised form is the complete state, so that training can be resumed exactly. Call [`Baseline::value`] before
/// [`Baseline::update`]: with a baseline that includes the current reward, the estimate would be biased.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    decay: f32,
    mean: Option<f32>,
}

impl Baseline {
    /// Creates a baseline without rewards. Returns an error that names `field` if `decay` is outside `[0, 1)`.
    pub fn new(field: &str, decay: f32) -> Result<Self, ConfigError> {
        match decay {
            0.0..1.0 => Ok(Self { decay, mean: None }),
            _ => Err(ConfigError::new(field, decay, "a number from 0 to below 1")),
        }
    }

    /// Returns the moving average, or zero before the first reward.
    pub fn value(&self) -> f32 {
        self.mean.unwrap_or(0.0)
    }

    /// Updates the moving average with the mean reward of a step.
    pub fn update(&mut self, reward: f32) {
        self.mean = Some(self.mean.map_or(reward, |mean| self.decay * mean + (1.0 - self.decay) * reward));
    }
}
