//! Elementwise activation functions.

use std::f32::consts::FRAC_1_SQRT_2;

use burn::tensor::{Tensor, activation as burn_activation};
use burn_flex::FlexTensor;
use regard_kernels::activation::{Activation, activation_backward, activation_forward};
use regard_kernels::unwritten;

use crate::error::OpError;
use crate::fused::{FusedOp, Purpose, apply, check_f32, contiguous, elements, is_fused, tensor};

/// Applies the activation function `kind` to each element of `x`.
///
/// # Shapes
/// `x` any → the same.
pub fn activation<const D: usize>(x: Tensor<D>, kind: Activation) -> Result<Tensor<D>, OpError> {
    check_f32("input", &x)?;
    if !is_fused(&x) {
        return Ok(activation_fallback(x, kind));
    }
    apply(Activate(kind), [x.into_dispatch()])
}

/// [`activation`] in plain Burn operations, without its argument checks.
pub fn activation_fallback<const D: usize>(x: Tensor<D>, kind: Activation) -> Tensor<D> {
    match kind {
        Activation::Relu => burn_activation::relu(x),
        // Most backends of Burn compute the gradient of `gelu` from the tanh approximation.
        Activation::Gelu => x.clone() * 0.5 * ((x * FRAC_1_SQRT_2).erf() + 1.0),
        Activation::GeluTanh => burn_activation::gelu_approximate(x),
        Activation::Silu => burn_activation::silu(x),
        Activation::Tanh => x.tanh(),
        Activation::Sigmoid => burn_activation::sigmoid(x),
        Activation::Elu => {
            let above = x.clone().greater_elem(0.0);
            // The exponential of a large `x` would be infinite, and its gradient NaN.
            let below = x.clone().clamp_max(0.0).exp() - 1.0;
            below.mask_where(above, x)
        }
    }
}

#[derive(Debug, Clone)]
struct Activate(Activation);

impl FusedOp<1> for Activate {
    /// The input `x`.
    type Saved = FlexTensor;

    fn forward(&self, [x]: [FlexTensor; 1], _: Purpose) -> Result<(FlexTensor, FlexTensor), OpError> {
        let x = contiguous(x);
        let shape = x.layout().shape().clone();
        let mut out = unwritten(shape.num_elements());
        activation_forward(self.0, elements(&x), &mut out)?;
        Ok((tensor(out, shape), x))
    }

    fn backward(&self, x: FlexTensor, grad: FlexTensor, _: [bool; 1]) -> Result<[Option<FlexTensor>; 1], OpError> {
        let grad = contiguous(grad);
        let shape = x.layout().shape().clone();
        let mut grad_x = unwritten(shape.num_elements());
        activation_backward(self.0, elements(&x), elements(&grad), &mut grad_x)?;
        Ok([Some(tensor(grad_x, shape))])
    }
}
