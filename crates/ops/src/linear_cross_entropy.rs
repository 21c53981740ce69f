//! Output layer and cross-entropy loss in one operation, without storing all logits.

use std::sync::Arc;

use burn::tensor::{DType, Int, Tensor, TensorData};
use burn_flex::FlexTensor;
use regard_kernels::cross_entropy::{CrossEntropyOptions, chunk_rows, linear_cross_entropy_forward};
use regard_kernels::linear::{LinearGradients, LinearShape};
use regard_kernels::{Precision, TrainedWeight, unwritten};

use crate::cross_entropy::{cross_entropy, cross_entropy_fallback, fallback};
use crate::error::{OpError, check_shape};
use crate::fused::{FusedOp, Purpose, Weight, apply, contiguous, elements, integers, is_fused, tensor};
use crate::linear::{check, linear, linear_fallback};

/// Computes the mean cross-entropy of `x W + b` against `targets`, over the rows whose target is not ignored.
///
/// The operands of its products are in the given precision. The forward pass computes the gradients too, a few hundred rows of logits at a time; the backward pass scales them.
///
/// # Shapes
/// `x` `[rows, d_model]`, `weight` `[d_model, vocab]`, f32 or, outside training, bf16, `bias` `[vocab]`, `targets` `[rows]` → `[1]`.
pub fn linear_cross_entropy(
    x: Tensor<2>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    targets: Tensor<1, Int>,
    options: CrossEntropyOptions,
    precision: Precision,
) -> Result<Tensor<1>, OpError> {
    let shape = check(&x, &weight, &bias, precision)?;
    check_shape("targets", targets.dims(), [shape.rows])?;
    let targets = integers(targets);
    check_targets(&targets, shape.d_out, options)?;
    if weight.dtype() == DType::BF16 {
        return with_stored_bf16(x, weight, bias, &targets, options, precision);
    }
    if !is_fused(&x) {
        return Ok(fallback(linear_fallback(x, weight, bias, None), &targets, options));
    }
    let operation = LinearCrossEntropy { shape, targets: Arc::new(targets), options, precision };
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    match bias {
        Some(bias) => apply(operation, [x, weight, bias.into_dispatch()]),
        None => apply(operation, [x, weight]),
    }
}

/// The loss with a weight that is stored as bf16, outside training. Only a few rows of logits are held at once, as in the kernel.
fn with_stored_bf16(
    x: Tensor<2>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    targets: &[i64],
    options: CrossEntropyOptions,
    precision: Precision,
) -> Result<Tensor<1>, OpError> {
    let device = x.device();
    let (mut sum, mut all) = (0.0, 0);
    let at_once = chunk_rows(weight.dims()[1]);
    for (index, part) in targets.chunks(at_once).enumerate() {
        let rows = x.clone().narrow(0, index * at_once, part.len());
        let logits = linear(rows, weight.clone(), bias.clone(), None, precision)?;
        let counted = part.iter().filter(|&&target| options.ignore_index != Some(target)).count();
        let part = Tensor::from_data(TensorData::new(part.to_vec(), [part.len()]), &device);
        let mean: f32 = cross_entropy(logits, part, options)?.into_scalar();
        sum += f64::from(mean) * counted as f64;
        all += counted;
    }
    Ok(Tensor::from_data([(sum / all.max(1) as f64) as f32], &device))
}

/// [`linear_cross_entropy`] in plain Burn operations, without its argument checks.
pub fn linear_cross_entropy_fallback(
    x: Tensor<2>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    targets: Tensor<1, Int>,
    options: CrossEntropyOptions,
) -> Tensor<1> {
    cross_entropy_fallback(linear_fallback(x, weight, bias, None), targets, options)
}

/// Returns an error for a target that is neither a class nor ignored, or a label smoothing outside `[0, 1]`.
pub(crate) fn check_targets(targets: &[i64], vocab: usize, options: CrossEntropyOptions) -> Result<(), OpError> {
    if !(0.0..=1.0).contains(&options.label_smoothing) {
        let why = format!("expected a number in [0, 1], got {}", options.label_smoothing);
        return Err(OpError::Option { what: "label smoothing", why });
    }
    let wrong = |&t: &i64| options.ignore_index != Some(t) && !(0..vocab as i64).contains(&t);
    if let Some(row) = targets.iter().position(wrong) {
        let why = format!("{} in row {row} is not in 0..{vocab}", targets[row]);
        return Err(OpError::Option { what: "targets", why });
    }
    Ok(())
}

/// The fused operation. Its inputs are `x`, the weight and optionally the bias.
#[derive(Debug, Clone)]
struct LinearCrossEntropy {
    shape: LinearShape,
    targets: Arc<Vec<i64>>,
    options: CrossEntropyOptions,
    precision: Precision,
}

impl<const N: usize> FusedOp<N> for LinearCrossEntropy {
    /// Gradients of the inputs for an output gradient of 1.
    type Saved = Vec<FlexTensor>;

    fn forward(&self, inputs: [FlexTensor; N], purpose: Purpose) -> Result<(FlexTensor, Vec<FlexTensor>), OpError> {
        let mut inputs = inputs.into_iter();
        let x = contiguous(inputs.next().expect("x"));
        let weight = Weight::new(inputs.next().expect("weight"));
        let bias = inputs.next().map(contiguous);
        let LinearShape { d_in, d_out, .. } = self.shape;
        let is_training = purpose == Purpose::Training;
        let want = |len: usize| is_training.then(|| unwritten(len));
        let mut grads = [want(elements(&x).len()), want(d_in * d_out), bias.as_ref().and_then(|_| want(d_out))];
        let [grad_x, grad_weight, grad_bias] = &mut grads;
        let gradients = is_training.then_some(LinearGradients {
            x: grad_x.as_deref_mut(),
            weight: grad_weight.as_deref_mut(),
            bias: grad_bias.as_deref_mut(),
        });
        let loss = linear_cross_entropy_forward(
            self.shape,
            elements(&x),
            TrainedWeight { matrix: weight.matrix(), precision: self.precision },
            bias.as_ref().map(elements),
            &self.targets,
            self.options,
            gradients,
        )?;
        let [grad_x, grad_weight, grad_bias] = grads;
        let saved = [
            grad_x.map(|grad| tensor(grad, x.layout().shape().clone())),
            grad_weight.map(|grad| weight.gradient(grad)),
            grad_bias.map(|grad| tensor(grad, [d_out])),
        ];
        Ok((tensor(vec![loss], [1]), saved.into_iter().flatten().collect()))
    }

    fn backward(
        &self,
        saved: Vec<FlexTensor>,
        grad: FlexTensor,
        wanted: [bool; N],
    ) -> Result<[Option<FlexTensor>; N], OpError> {
        let factor = elements(&contiguous(grad))[0];
        let mut results = saved.into_iter().zip(wanted).map(|(mut grad, wanted)| {
            if wanted && factor != 1.0 {
                grad.storage_mut::<f32>().iter_mut().for_each(|x| *x *= factor);
            }
            wanted.then_some(grad)
        });
        Ok(std::array::from_fn(|_| results.next().flatten()))
    }
}
