//! Loss of a recurrent writer, with the score-function term of hard attention.

use burn::tensor::{Int, Tensor, TensorData};
use regard_ops::{CrossEntropyOptions, OpError, log_softmax};

use crate::error::NnError;
use crate::layers::attention::context::Choice;
use crate::layers::attention::score_function::{Baseline, score_function_loss};

/// The loss of a batch.
#[derive(Debug, Clone)]
pub struct RecurrentLoss {
    /// Mean cross-entropy, `[1]`.
    pub loss: Tensor<1>,
    /// Choices and rewards of the score-function estimator; `None` with another estimator, soft attention or outside training.
    pub rewarded: Option<Rewarded>,
}

/// Choices of hard attention with their rewards: the log-likelihood of the right word at each step.
///
/// If attention comes after the step, a choice affects only its own word and the estimate is unbiased. If it comes before,
/// later words depend on the choice too; leaving them out trades a little bias for much less variance.
#[derive(Debug, Clone)]
pub struct Rewarded {
    /// Choices, `[batch, target]`.
    pub choice: Choice,
    /// Rewards without gradient, `[batch, target]`; 0 where the target is ignored.
    pub reward: Tensor<2>,
    /// 1 where the target counts, 0 where it is ignored, `[batch, target]`.
    counted: Tensor<2>,
    count: usize,
    /// Number of samples of each sentence. The batch holds them one after the other.
    samples: usize,
}

impl RecurrentLoss {
    /// Returns the total to minimise: the loss plus the mean of [`score_function_loss`] over the words that count. Updates
    /// `baseline` with the mean reward if there are rewards; with several samples of each sentence, the mean reward of the
    /// others is the baseline instead.
    pub fn total(self, baseline: &mut Baseline, entropy_bonus: f32) -> Result<Tensor<1>, NnError> {
        let Some(rewarded) = self.rewarded.filter(|rewarded| rewarded.count > 0) else {
            return Ok(self.loss);
        };
        let others = rewarded.of_others();
        let Rewarded { choice, reward, counted, count, .. } = rewarded;
        let each = match others {
            Some(others) => score_function_loss(&choice, reward - others, 0.0, entropy_bonus)?,
            None => {
                let mean: f32 = reward.clone().sum().into_scalar::<f32>() / count as f32;
                let each = score_function_loss(&choice, reward, baseline.value(), entropy_bonus)?;
                baseline.update(mean);
                each
            }
        };
        Ok(self.loss + (each * counted).sum() / count as f32)
    }
}

impl Rewarded {
    /// Computes the rewards from the logits of each word.
    ///
    /// # Shapes
    /// `logits` `[batch, target, vocab]`, `targets` `[batch, target]`.
    pub(super) fn new(
        choice: Choice,
        logits: Tensor<3>,
        targets: Tensor<2, Int>,
        options: CrossEntropyOptions,
    ) -> Result<Self, OpError> {
        let [batch, target, _] = logits.dims();
        let device = logits.device();
        let numbers: Vec<i64> = targets.into_data().iter().collect();
        let counts = |&number: &i64| options.ignore_index != Some(number);
        let words: Vec<i32> = numbers.iter().map(|n| if counts(n) { *n as i32 } else { 0 }).collect();
        let words = Tensor::<3, Int>::from_data(TensorData::new(words, [batch, target, 1]), &device);
        let weights: Vec<f32> = numbers.iter().map(|n| if counts(n) { 1.0 } else { 0.0 }).collect();
        let counted = Tensor::from_data(TensorData::new(weights, [batch, target]), &device);
        let likelihood = log_softmax(logits.detach())?.gather(2, words).squeeze_dim::<2>(2);
        let count = numbers.iter().filter(|n| counts(n)).count();
        Ok(Self { choice, reward: likelihood * counted.clone(), counted, count, samples: 1 })
    }

    /// Sets the number of samples of each sentence.
    pub(super) fn with_samples(self, samples: usize) -> Self {
        Self { samples, ..self }
    }

    /// Returns the mean reward of the other samples of each word, `[batch, target]`; `None` if there are none.
    fn of_others(&self) -> Option<Tensor<2>> {
        let ([batch, target], samples) = (self.reward.dims(), self.samples);
        if samples < 2 {
            return None;
        }
        let rewards = self.reward.clone().reshape([samples, batch / samples, target]);
        let others = rewards.clone().sum_dim(0).expand(rewards.dims()) - rewards;
        Some(others.reshape([batch, target]) / (samples - 1) as f32)
    }
}
