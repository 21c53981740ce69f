//! Fused linear layer, `activation(x W + b)`.

use burn::tensor::{DType, Tensor};
use burn_flex::FlexTensor;
use regard_kernels::activation::Activation;
use regard_kernels::linear::{
    LinearGradients, LinearShape, add_to, linear_activation_backward, linear_backward, linear_forward,
};
use regard_kernels::{Precision, TrainedWeight, unwritten};

use crate::activation::activation_fallback;
use crate::error::{OpError, check_shape};
use crate::fused::{
    FusedOp, Purpose, Weight, apply, check_f32, check_weight, contiguous, elements, is_fused, is_tracked, tensor,
};

/// Computes `activation(x W + b)` over the last dimension, with the operands of its products, also of those of the gradients, in
/// the given precision.
///
/// # Shapes
/// `x` `[…, d_in]`, `weight` `[d_in, d_out]`, f32 or, outside training, bf16, `bias` `[d_out]` → `[…, d_out]`.
pub fn linear<const D: usize>(
    x: Tensor<D>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    activation: Option<Activation>,
    precision: Precision,
) -> Result<Tensor<D>, OpError> {
    let shape = check(&x, &weight, &bias, precision)?;
    if !is_fused(&x) {
        return Ok(linear_fallback(x, weight, bias, activation));
    }
    let operation = Linear { shape, activation, adds: Adds::Nothing, precision };
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    match bias {
        Some(bias) => apply(operation, [x, weight, bias.into_dispatch()]),
        None => apply(operation, [x, weight]),
    }
}

/// Computes `onto + x W + b` over the last dimension, as at the end of a residual branch.
///
/// # Shapes
/// `x` `[…, d_in]`, `weight` `[d_in, d_out]`, `bias` `[d_out]`, `onto` `[…, d_out]` → `[…, d_out]`.
pub fn linear_onto<const D: usize>(
    x: Tensor<D>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    onto: Tensor<D>,
    precision: Precision,
) -> Result<Tensor<D>, OpError> {
    let shape = check(&x, &weight, &bias, precision)?;
    check_f32("residual", &onto)?;
    let mut expected = x.dims();
    expected[D - 1] = shape.d_out;
    check_shape("residual", onto.dims(), expected)?;
    if !is_fused(&x) {
        return Ok(onto + linear_fallback(x, weight, bias, None));
    }
    let operation = Linear { shape, activation: None, adds: Adds::Residual, precision };
    let (x, weight, onto) = (x.into_dispatch(), weight.into_dispatch(), onto.into_dispatch());
    match bias {
        Some(bias) => apply(operation, [x, weight, onto, bias.into_dispatch()]),
        None => apply(operation, [x, weight, onto]),
    }
}

/// [`linear`] in plain Burn operations, without its argument checks.
pub fn linear_fallback<const D: usize>(
    x: Tensor<D>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    activation: Option<Activation>,
) -> Tensor<D> {
    let mut dims = x.dims();
    let [d_in, d_out] = weight.dims();
    let rows = dims[..D - 1].iter().product();
    let mut y = x.reshape([rows, d_in]).matmul(weight);
    if let Some(bias) = bias {
        y = y + bias.unsqueeze();
    }
    dims[D - 1] = d_out;
    let y = y.reshape(dims);
    match activation {
        None => y,
        Some(activation) => activation_fallback(y, activation),
    }
}

/// Checks the arguments and returns their sizes.
pub(crate) fn check<const D: usize>(
    x: &Tensor<D>,
    weight: &Tensor<2>,
    bias: &Option<Tensor<1>>,
    precision: Precision,
) -> Result<LinearShape, OpError> {
    check_f32("input", x)?;
    check_weight("weight", weight)?;
    if precision != Precision::F32 {
        check_f32("weight of a product in bf16", weight)?;
        precision.check_available()?;
        if !is_fused(x) {
            let why = "expected f32 on this backend; bf16 is for tensors of the backend Flex".to_string();
            return Err(OpError::Option { what: "precision", why });
        }
    }
    if weight.dtype() != DType::F32 && is_tracked(x) {
        check_f32("weight of a layer in training", weight)?;
    }
    let dims = x.dims();
    let [d_in, d_out] = weight.dims();
    if D == 0 || dims[D - 1] != d_in {
        return Err(OpError::Shape { what: "input", expected: format!("[…, {d_in}]"), got: dims.to_vec() });
    }
    if let Some(bias) = bias {
        check_f32("bias", bias)?;
        check_shape("bias", bias.dims(), [d_out])?;
    }
    Ok(LinearShape { rows: dims[..D - 1].iter().product(), d_in, d_out })
}

/// The fused operation. Its inputs are `x`, the weight, optionally the residual, and optionally the bias.
#[derive(Debug, Clone)]
struct Linear {
    shape: LinearShape,
    activation: Option<Activation>,
    adds: Adds,
    precision: Precision,
}

/// The tensor that the product is added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Adds {
    Nothing,
    Residual,
}

/// Values kept for the backward pass.
#[derive(Debug, Clone)]
struct Saved {
    x: FlexTensor,
    weight: Weight,
    /// Values before the activation, if there is one.
    pre: Option<FlexTensor>,
}

impl<const N: usize> FusedOp<N> for Linear {
    type Saved = Saved;

    fn forward(&self, inputs: [FlexTensor; N], _: Purpose) -> Result<(FlexTensor, Saved), OpError> {
        let mut inputs = inputs.into_iter();
        let x = contiguous(inputs.next().expect("x"));
        let weight = Weight::new(inputs.next().expect("weight"));
        let residual = (self.adds == Adds::Residual).then(|| contiguous(inputs.next().expect("residual")));
        let bias = inputs.next().map(contiguous);
        let LinearShape { rows, d_out, .. } = self.shape;
        let mut shape = x.layout().shape().clone();
        let last = shape.num_dims() - 1;
        shape[last] = d_out;
        let mut out = unwritten(rows * d_out);
        let mut pre = self.activation.map(|_| unwritten(rows * d_out));
        let activation = self.activation.zip(pre.as_deref_mut());
        let bias = bias.as_ref().map(elements);
        linear_forward(self.shape, elements(&x), weight.of_its_type(self.precision), bias, activation, &mut out)?;
        if let Some(residual) = &residual {
            add_to(elements(residual), &mut out)?;
        }
        let pre = pre.map(|pre| tensor(pre, [rows, d_out]));
        let out = tensor(out, shape);
        Ok((out, Saved { x, weight, pre }))
    }

    fn backward(&self, saved: Saved, grad: FlexTensor, wanted: [bool; N]) -> Result<[Option<FlexTensor>; N], OpError> {
        let LinearShape { d_in, d_out, .. } = self.shape;
        let grad = contiguous(grad);
        let is_wanted = |at: usize| wanted.get(at).is_some_and(|&wanted| wanted);
        let want = |at: usize, len: usize| is_wanted(at).then(|| unwritten(len));
        // The gradient of the residual is that of the output.
        let residual = match self.adds {
            Adds::Nothing => None,
            Adds::Residual => Some(is_wanted(2).then(|| grad.clone())),
        };
        let bias_at = if residual.is_some() { 3 } else { 2 };
        let x_shape = saved.x.layout().shape().clone();
        let mut grads = [want(0, x_shape.num_elements()), want(1, d_in * d_out), want(bias_at, d_out)];
        let [x, weight, bias] = &mut grads;
        let gradients =
            LinearGradients { x: x.as_deref_mut(), weight: weight.as_deref_mut(), bias: bias.as_deref_mut() };
        let (x, precision) = (elements(&saved.x), self.precision);
        let weight = TrainedWeight { matrix: saved.weight.matrix(), precision };
        match (self.activation, &saved.pre) {
            (Some(activation), Some(pre)) => {
                linear_activation_backward(
                    self.shape,
                    x,
                    weight,
                    activation,
                    elements(pre),
                    elements(&grad),
                    gradients,
                )?;
            }
            _ => linear_backward(self.shape, x, weight, elements(&grad), gradients)?,
        }
        let [x, weight, bias] = grads;
        let x = x.map(|x| tensor(x, x_shape));
        let weight = weight.map(|weight| saved.weight.gradient(weight));
        let bias = bias.map(|bias| tensor(bias, [d_out]));
        let mut all = [x, weight].into_iter().chain(residual).chain([bias]);
        Ok(std::array::from_fn(|_| all.next().flatten()))
    }
}
