//! Cross-entropy of logits with integer targets: the mean over the rows whose target is not ignored.
//!
//! If all targets are ignored, the loss is 0. PyTorch returns NaN.

use std::sync::Arc;

use burn::tensor::{Bool, Int, Tensor, TensorData, activation as burn_activation};
use burn_flex::FlexTensor;
use regard_kernels::cross_entropy::{CrossEntropyOptions, cross_entropy_backward, cross_entropy_forward};
use regard_kernels::unwritten;

use crate::error::{OpError, check_shape, check_width};
use crate::fused::{FusedOp, Purpose, apply, check_f32, contiguous, elements, integers, is_fused, tensor};
use crate::linear_cross_entropy::check_targets;

/// Computes the mean of `−ln softmax(logits)[target]`, with label smoothing, over the rows whose target is not ignored.
///
/// # Shapes
/// `logits` `[rows, vocab]`, `targets` `[rows]` of any integer type → `[1]`.
pub fn cross_entropy(
    logits: Tensor<2>,
    targets: Tensor<1, Int>,
    options: CrossEntropyOptions,
) -> Result<Tensor<1>, OpError> {
    check_f32("logits", &logits)?;
    let [rows, _] = logits.dims();
    let vocab = check_width("logits", &logits.dims())?;
    check_shape("targets", targets.dims(), [rows])?;
    let targets = integers(targets);
    check_targets(&targets, vocab, options)?;
    if !is_fused(&logits) {
        return Ok(fallback(logits, &targets, options));
    }
    apply(CrossEntropy { vocab, targets: Arc::new(targets), options }, [logits.into_dispatch()])
}

/// [`cross_entropy`] in plain Burn operations, without its argument checks.
pub fn cross_entropy_fallback(logits: Tensor<2>, targets: Tensor<1, Int>, options: CrossEntropyOptions) -> Tensor<1> {
    fallback(logits, &integers(targets), options)
}

/// [`cross_entropy_fallback`] with the targets as numbers.
pub(crate) fn fallback(logits: Tensor<2>, targets: &[i64], options: CrossEntropyOptions) -> Tensor<1> {
    let [rows, vocab] = logits.dims();
    let device = logits.device().without_autodiff();
    let ignored: Vec<bool> = targets.iter().map(|&target| options.ignore_index == Some(target)).collect();
    let count = ignored.iter().filter(|&&ignored| !ignored).count();
    // An ignored target may lie outside the vocabulary.
    let index: Vec<i64> = targets.iter().zip(&ignored).map(|(&t, &ignored)| if ignored { 0 } else { t }).collect();
    let index = Tensor::<2, Int>::from_data(TensorData::new(index, [rows, 1]), &device);
    let ignored = Tensor::<2, Bool>::from_data(TensorData::new(ignored, [rows, 1]), &device);
    // An ignored row may contain any values, even NaN.
    let logits = logits.mask_fill(ignored.clone().expand([rows, vocab]), 0.0);
    let log_probabilities = burn_activation::log_softmax(logits, 1);
    let mut losses = log_probabilities.clone().gather(1, index).neg();
    let smoothing = options.label_smoothing;
    if smoothing > 0.0 {
        losses = losses * (1.0 - smoothing) - log_probabilities.mean_dim(1) * smoothing;
    }
    losses.mask_fill(ignored, 0.0).sum() / count.max(1) as f32
}

/// The fused operation. Its input is the logits.
#[derive(Debug, Clone)]
struct CrossEntropy {
    vocab: usize,
    targets: Arc<Vec<i64>>,
    options: CrossEntropyOptions,
}

/// Values kept for the backward pass.
#[derive(Debug, Clone)]
struct Saved {
    logits: FlexTensor,
    log_sum_exp: Vec<f32>,
}

impl FusedOp<1> for CrossEntropy {
    type Saved = Saved;

    fn forward(&self, [logits]: [FlexTensor; 1], _: Purpose) -> Result<(FlexTensor, Saved), OpError> {
        let logits = contiguous(logits);
        let mut log_sum_exp = unwritten(self.targets.len());
        let loss = cross_entropy_forward(elements(&logits), self.vocab, &self.targets, self.options, &mut log_sum_exp)?;
        Ok((tensor(vec![loss], [1]), Saved { logits, log_sum_exp }))
    }

    fn backward(&self, saved: Saved, grad: FlexTensor, _: [bool; 1]) -> Result<[Option<FlexTensor>; 1], OpError> {
        let grad = elements(&contiguous(grad))[0];
        let shape = [self.targets.len(), self.vocab];
        let mut out = unwritten(self.targets.len() * self.vocab);
        cross_entropy_backward(
            elements(&saved.logits),
            self.vocab,
            &self.targets,
            self.options,
            &saved.log_sum_exp,
            grad,
            &mut out,
        )?;
        Ok([Some(tensor(out, shape))])
    }
}
