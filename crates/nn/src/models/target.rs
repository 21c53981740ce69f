//! What a model predicts for a whole input, or for each of its vectors: labels or numbers, with their loss.

use burn::tensor::{Int, Tensor, activation::sigmoid};
use regard_ops::{CrossEntropyOptions, OpError, cross_entropy, softmax};
use serde::{Deserialize, Serialize};

use crate::config::check_positive;
use crate::error::{ConfigError, NnError};

/// What a model predicts for an input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Exactly one of the labels, with softmax and cross-entropy.
    #[default]
    One,
    /// Any number of the labels, each with a sigmoid and binary cross-entropy.
    Several,
    /// Numbers, with mean squared error.
    Value,
}

/// The correct answers for a batch.
#[derive(Debug, Clone)]
pub enum Answers {
    /// The label of each input, `[batch]`.
    One(Tensor<1, Int>),
    /// 1 for each label of an input and 0 for the others, `[batch, outputs]`.
    Several(Tensor<2, Int>),
    /// The numbers of each input, `[batch, outputs]`.
    Value(Tensor<2>),
}

impl Target {
    /// Returns an error unless a model can have this number of `outputs`.
    pub fn validate(self, outputs: usize) -> Result<(), ConfigError> {
        check_positive("outputs", outputs)?;
        if self == Target::One && outputs < 2 {
            return Err(ConfigError::new("outputs", outputs, "2 or more labels to choose one from"));
        }
        Ok(())
    }

    /// Computes the probability of each label, or returns the predicted numbers.
    ///
    /// # Shapes
    /// `logits` `[batch, outputs]` → the same.
    pub fn predict(self, logits: Tensor<2>) -> Result<Tensor<2>, OpError> {
        Ok(match self {
            Self::One => softmax(logits)?,
            Self::Several => sigmoid(logits),
            Self::Value => logits,
        })
    }

    /// Computes the mean loss over inputs, or over inputs and outputs. Label smoothing must be 0 for [`Target::Value`].
    ///
    /// # Shapes
    /// `logits` `[batch, outputs]` → `[1]`.
    pub fn loss(self, logits: Tensor<2>, answers: Answers, label_smoothing: f32) -> Result<Tensor<1>, NnError> {
        let options = CrossEntropyOptions { label_smoothing, ignore_index: None };
        match (self, answers) {
            (Target::One, Answers::One(labels)) => Ok(cross_entropy(logits, labels, options)?),
            (Target::Several, Answers::Several(labels)) => {
                check_shape("labels", labels.dims(), logits.dims())?;
                let count = logits.shape().num_elements();
                Ok(binary_cross_entropy(logits.reshape([count, 1]), labels.reshape([count]), options)?)
            }
            (Target::Value, Answers::Value(_)) if label_smoothing != 0.0 => {
                Err(NnError::input("label smoothing of numbers", "0", label_smoothing.to_string()))
            }
            (Target::Value, Answers::Value(values)) => {
                check_shape("values", values.dims(), logits.dims())?;
                let difference = logits - values;
                Ok((difference.clone() * difference).mean())
            }
            (target, answers) => {
                let got = match answers {
                    Answers::One(_) => "One",
                    Answers::Several(_) => "Several",
                    Answers::Value(_) => "Value",
                };
                Err(NnError::input("answers", format!("{target:?}, the target of the model"), got))
            }
        }
    }
}

/// Computes the mean of `−ln σ(x)` for label 1 and `−ln σ(−x)` for label 0, as the cross-entropy of the two logits 0 and `x`:
/// the same value in one operation, accurate for any `x`.
///
/// # Shapes
/// `logits` `[n, 1]`, `labels` `[n]`, each 0 or 1 → `[1]`.
pub(super) fn binary_cross_entropy(
    logits: Tensor<2>,
    labels: Tensor<1, Int>,
    options: CrossEntropyOptions,
) -> Result<Tensor<1>, OpError> {
    cross_entropy(Tensor::cat(vec![logits.zeros_like(), logits], 1), labels, options)
}

fn check_shape(what: &'static str, got: [usize; 2], expected: [usize; 2]) -> Result<(), NnError> {
    if got == expected {
        return Ok(());
    }
    Err(NnError::input(what, format!("{expected:?}"), format!("{got:?}")))
}
