//! The output layer and its loss as one operation that never holds all logits.

use std::sync::Arc;

use burn::tensor::{Int, Tensor};
use burn_flex::FlexTensor;
use regard_kernels::cross_entropy::{CrossEntropyOptions, linear_cross_entropy_forward};
use regard_kernels::linear::{LinearGradients, LinearShape};
use regard_kernels::unwritten;

use crate::cross_entropy::cross_entropy_fallback;
use crate::error::{OpError, check_shape};
use crate::fused::{FusedOp, Purpose, apply, contiguous, elements, integers, is_fused, tensor};
use crate::linear::{check, linear_fallback};

/// The mean cross-entropy of `x W + b` against `targets`, over the rows that count.
///
/// The gradients are made in the forward pass, a few hundred rows of logits at a time, and scaled in the backward pass.
///
/// # Shapes
/// `x` `[rows, d_model]`, `weight` `[d_model, vocab]`, `bias` `[vocab]`, `targets` `[rows]` → `[1]`.
pub fn linear_cross_entropy(
    x: Tensor<2>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    targets: Tensor<1, Int>,
    options: CrossEntropyOptions,
) -> Result<Tensor<1>, OpError> {
    let shape = check(&x, &weight, &bias)?;
    check_shape("targets", targets.dims(), [shape.rows])?;
    let numbers = integers(targets.clone());
    check_targets(&numbers, shape.d_out, options)?;
    if !is_fused(&x) {
        return Ok(linear_cross_entropy_fallback(x, weight, bias, targets, options));
    }
    let operation = LinearCrossEntropy { shape, targets: Arc::new(numbers), options };
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    match bias {
        Some(bias) => apply(operation, [x, weight, bias.into_dispatch()]),
        None => apply(operation, [x, weight]),
    }
}

/// [`linear_cross_entropy`] in plain Burn operations. Arguments are those that it has checked.
pub fn linear_cross_entropy_fallback(
    x: Tensor<2>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    targets: Tensor<1, Int>,
    options: CrossEntropyOptions,
) -> Tensor<1> {
    cross_entropy_fallback(linear_fallback(x, weight, bias, None), targets, options)
}

/// Refuses a target that is neither a class nor ignored, and a smoothing outside `[0, 1]`.
pub(crate) fn check_targets(targets: &[i64], vocab: usize, options: CrossEntropyOptions) -> Result<(), OpError> {
    if !(0.0..=1.0).contains(&options.label_smoothing) {
        let why = format!("{} is not in [0, 1]", options.label_smoothing);
        return Err(OpError::Option { what: "label smoothing", why });
    }
    let wrong = |&t: &i64| options.ignore_index != Some(t) && !(0..vocab as i64).contains(&t);
    if let Some(row) = targets.iter().position(wrong) {
        let why = format!("{} in row {row} is not in 0..{vocab}", targets[row]);
        return Err(OpError::Option { what: "targets", why });
    }
    Ok(())
}

/// The inputs are `x`, the weight and, if there is one, the bias.
#[derive(Debug, Clone)]
struct LinearCrossEntropy {
    shape: LinearShape,
    targets: Arc<Vec<i64>>,
    options: CrossEntropyOptions,
}

impl<const N: usize> FusedOp<N> for LinearCrossEntropy {
    /// The gradients for an upstream gradient of 1.
    type Saved = Vec<FlexTensor>;

    fn forward(&self, inputs: [FlexTensor; N], purpose: Purpose) -> Result<(FlexTensor, Vec<FlexTensor>), OpError> {
        let inputs = inputs.map(contiguous);
        let mut values = inputs.iter().map(elements);
        let (x, weight) = (values.next().expect("x"), values.next().expect("weight"));
        let bias = values.next();
        let mut grads: Vec<Vec<f32>> = match purpose {
            Purpose::Inference => vec![],
            Purpose::Training => inputs.iter().map(|input| unwritten(elements(input).len())).collect(),
        };
        let mut slices = grads.iter_mut().map(Vec::as_mut_slice);
        let gradients = LinearGradients { x: slices.next(), weight: slices.next(), bias: slices.next() };
        let gradients = (purpose == Purpose::Training).then_some(gradients);
        let loss = linear_cross_entropy_forward(self.shape, x, weight, bias, &self.targets, self.options, gradients)?;
        let saved = grads.into_iter().zip(&inputs).map(|(grad, input)| tensor(grad, input.layout().shape().clone()));
        Ok((tensor(vec![loss], [1]), saved.collect()))
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
