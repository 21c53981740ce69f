//! RMS normalisation ([Zhang and Sennrich 2019](https://arxiv.org/abs/1910.07467)): `gamma x / √(mean(x²) + epsilon)`.

use burn::tensor::Tensor;
use burn_flex::FlexTensor;
use regard_kernels::norm::{rms_norm_backward, rms_norm_forward};
use regard_kernels::unwritten;

use crate::error::{OpError, check_epsilon, check_shape, check_width};
use crate::fused::{FusedOp, Purpose, apply, check_f32, contiguous, elements, is_fused, tensor};

/// Computes `gamma x / √(mean(x²) + epsilon)` over the last dimension.
///
/// # Shapes
/// `x` `[…, d_model]`, `gamma` `[d_model]` → `[…, d_model]`.
pub fn rms_norm<const D: usize>(x: Tensor<D>, gamma: Tensor<1>, epsilon: f32) -> Result<Tensor<D>, OpError> {
    check_f32("input", &x)?;
    check_f32("gamma", &gamma)?;
    let width = check_width("input", &x.dims())?;
    check_shape("gamma", gamma.dims(), [width])?;
    check_epsilon(epsilon)?;
    if !is_fused(&x) {
        return Ok(rms_norm_fallback(x, gamma, epsilon));
    }
    apply(RmsNorm { width, epsilon }, [x.into_dispatch(), gamma.into_dispatch()])
}

/// [`rms_norm`] in plain Burn operations, without its argument checks.
pub fn rms_norm_fallback<const D: usize>(x: Tensor<D>, gamma: Tensor<1>, epsilon: f32) -> Tensor<D> {
    let mean = (x.clone() * x.clone()).mean_dim(D - 1);
    x / (mean + epsilon).sqrt() * gamma.unsqueeze()
}

/// The fused operation. Its inputs are `x` and `gamma`.
#[derive(Debug, Clone)]
struct RmsNorm {
    width: usize,
    epsilon: f32,
}

/// Values kept for the backward pass.
#[derive(Debug, Clone)]
struct Saved {
    x: FlexTensor,
    gamma: FlexTensor,
    /// `1/√(mean(x²) + epsilon)` of each row.
    inverse_rms: Vec<f32>,
}

impl FusedOp<2> for RmsNorm {
    type Saved = Saved;

    fn forward(&self, inputs: [FlexTensor; 2], _: Purpose) -> Result<(FlexTensor, Saved), OpError> {
        let [x, gamma] = inputs.map(contiguous);
        let shape = x.layout().shape().clone();
        let size = shape.num_elements();
        let (mut out, mut inverse_rms) = (unwritten(size), unwritten(size / self.width));
        rms_norm_forward(elements(&x), self.width, elements(&gamma), self.epsilon, &mut out, &mut inverse_rms)?;
        Ok((tensor(out, shape), Saved { x, gamma, inverse_rms }))
    }

    fn backward(&self, saved: Saved, grad: FlexTensor, wanted: [bool; 2]) -> Result<[Option<FlexTensor>; 2], OpError> {
        let Saved { x, gamma, inverse_rms } = saved;
        let grad = contiguous(grad);
        let shape = x.layout().shape().clone();
        let (mut grad_x, mut grad_gamma) = (unwritten(shape.num_elements()), unwritten(self.width));
        rms_norm_backward(
            elements(&x),
            self.width,
            elements(&gamma),
            &inverse_rms,
            elements(&grad),
            &mut grad_x,
            &mut grad_gamma,
        )?;
        let [want_x, want_gamma] = wanted;
        Ok([want_x.then(|| tensor(grad_x, shape)), want_gamma.then(|| tensor(grad_gamma, [self.width]))])
    }
}
