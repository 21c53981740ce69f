//! Softmax and log-softmax over the last dimension.
//!
//! A fully masked row, in which every element is −∞, has softmax 0, log-softmax −∞, and gradient 0 in both.

use burn::tensor::{Bool, Tensor, activation as burn_activation};
use burn_flex::FlexTensor;
use regard_kernels::softmax::{log_softmax_backward, log_softmax_forward, softmax_backward, softmax_forward};
use regard_kernels::unwritten;

use crate::error::{OpError, check_width};
use crate::fused::{FusedOp, Purpose, apply, check_f32, contiguous, elements, is_fused, tensor};

/// Computes `exp(x) / Σ exp(x)` over the last dimension; zeros for a row in which every element is −∞.
///
/// # Shapes
/// `x` `[…, n]` → `[…, n]`.
pub fn softmax<const D: usize>(x: Tensor<D>) -> Result<Tensor<D>, OpError> {
    let width = check(&x)?;
    if !is_fused(&x) {
        return Ok(softmax_fallback(x));
    }
    apply(Softmax { width, kind: Kind::Plain }, [x.into_dispatch()])
}

/// Computes `x − ln Σ exp(x)` over the last dimension; −∞ for a row in which every element is −∞.
///
/// # Shapes
/// `x` `[…, n]` → `[…, n]`.
pub fn log_softmax<const D: usize>(x: Tensor<D>) -> Result<Tensor<D>, OpError> {
    let width = check(&x)?;
    if !is_fused(&x) {
        return Ok(log_softmax_fallback(x));
    }
    apply(Softmax { width, kind: Kind::Log }, [x.into_dispatch()])
}

/// [`softmax`] in plain Burn operations, without its argument checks.
pub fn softmax_fallback<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    if x.shape().num_elements() == 0 {
        return x;
    }
    let masked = fully_masked(&x);
    burn_activation::softmax(x.mask_fill(masked.clone(), 0.0), D - 1).mask_fill(masked, 0.0)
}

/// [`log_softmax`] in plain Burn operations, without its argument checks.
pub fn log_softmax_fallback<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    if x.shape().num_elements() == 0 {
        return x;
    }
    let masked = fully_masked(&x);
    burn_activation::log_softmax(x.mask_fill(masked.clone(), 0.0), D - 1).mask_fill(masked, f32::NEG_INFINITY)
}

/// Returns a mask that is true in rows in which every element is −∞; Burn's softmax of them is NaN.
fn fully_masked<const D: usize>(x: &Tensor<D>) -> Tensor<D, Bool> {
    x.clone().equal_elem(f32::NEG_INFINITY).all_dim(D - 1).expand(x.dims())
}

/// Checks the argument and returns the length of a row.
fn check<const D: usize>(x: &Tensor<D>) -> Result<usize, OpError> {
    check_f32("input", x)?;
    check_width("input", &x.dims())
}

#[derive(Debug, Clone)]
struct Softmax {
    width: usize,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Plain,
    Log,
}

impl FusedOp<1> for Softmax {
    /// The output of the forward pass.
    type Saved = FlexTensor;

    fn forward(&self, [x]: [FlexTensor; 1], _: Purpose) -> Result<(FlexTensor, FlexTensor), OpError> {
        let x = contiguous(x);
        let shape = x.layout().shape().clone();
        let mut out = unwritten(shape.num_elements());
        match self.kind {
            Kind::Plain => softmax_forward(elements(&x), self.width, &mut out)?,
            Kind::Log => log_softmax_forward(elements(&x), self.width, &mut out)?,
        }
        let out = tensor(out, shape);
        Ok((out.clone(), out))
    }

    fn backward(&self, out: FlexTensor, grad: FlexTensor, _: [bool; 1]) -> Result<[Option<FlexTensor>; 1], OpError> {
        let grad = contiguous(grad);
        let shape = out.layout().shape().clone();
        let mut grad_x = unwritten(shape.num_elements());
        match self.kind {
            Kind::Plain => softmax_backward(elements(&out), self.width, elements(&grad), &mut grad_x)?,
            Kind::Log => log_softmax_backward(elements(&out), self.width, elements(&grad), &mut grad_x)?,
        }
        Ok([Some(tensor(grad_x, shape))])
    }
}
