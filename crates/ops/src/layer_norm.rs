//! Layer normalisation (Ba 2016): `(x − mean) / √(variance + ε) · γ + β` over the last dimension.

use burn::tensor::Tensor;
use burn_flex::FlexTensor;
use regard_kernels::norm::{layer_norm_backward, layer_norm_forward};
use regard_kernels::unwritten;

use crate::error::{OpError, check_epsilon, check_shape, check_width};
use crate::fused::{FusedOp, Purpose, apply, check_f32, contiguous, elements, is_fused, tensor};

/// Normalises `x` over the last dimension, then scales by `gamma` and adds `beta`.
///
/// # Shapes
/// `x` `[…, width]`, `gamma` and `beta` `[width]` → `[…, width]`.
pub fn layer_norm<const D: usize>(
    x: Tensor<D>,
    gamma: Tensor<1>,
    beta: Option<Tensor<1>>,
    epsilon: f32,
) -> Result<Tensor<D>, OpError> {
    check_f32("input", &x)?;
    check_f32("gamma", &gamma)?;
    let width = check_width("input", &x.dims())?;
    check_shape("gamma", gamma.dims(), [width])?;
    if let Some(beta) = &beta {
        check_f32("beta", beta)?;
        check_shape("beta", beta.dims(), [width])?;
    }
    check_epsilon(epsilon)?;
    if !is_fused(&x) {
        return Ok(layer_norm_fallback(x, gamma, beta, epsilon));
    }
    let operation = LayerNorm { width, epsilon };
    let (x, gamma) = (x.into_dispatch(), gamma.into_dispatch());
    match beta {
        Some(beta) => apply(operation, [x, gamma, beta.into_dispatch()]),
        None => apply(operation, [x, gamma]),
    }
}

/// [`layer_norm`] in plain Burn operations, without its argument checks.
pub fn layer_norm_fallback<const D: usize>(
    x: Tensor<D>,
    gamma: Tensor<1>,
    beta: Option<Tensor<1>>,
    epsilon: f32,
) -> Tensor<D> {
    let centred = x.clone() - x.mean_dim(D - 1);
    let variance = centred.clone().powi_scalar(2).mean_dim(D - 1);
    let y = centred / (variance + epsilon).sqrt() * gamma.unsqueeze();
    match beta {
        Some(beta) => y + beta.unsqueeze(),
        None => y,
    }
}

/// The fused operation. Its inputs are `x`, `gamma` and optionally `beta`.
#[derive(Debug, Clone)]
struct LayerNorm {
    width: usize,
    epsilon: f32,
}

#[derive(Debug, Clone)]
struct Saved {
    x: FlexTensor,
    gamma: FlexTensor,
    mean: Vec<f32>,
    inverse_deviation: Vec<f32>,
}

impl<const N: usize> FusedOp<N> for LayerNorm {
    type Saved = Saved;

    fn forward(&self, inputs: [FlexTensor; N], _: Purpose) -> Result<(FlexTensor, Saved), OpError> {
        let mut inputs = inputs.map(contiguous).into_iter();
        let (x, gamma) = (inputs.next().expect("x"), inputs.next().expect("gamma"));
        let beta = inputs.next();
        let shape = x.layout().shape().clone();
        let size = shape.num_elements();
        let mut out = unwritten(size);
        let (mut mean, mut inverse_deviation) = (unwritten(size / self.width), unwritten(size / self.width));
        let beta = beta.as_ref().map(elements);
        let (x_data, gamma_data) = (elements(&x), elements(&gamma));
        layer_norm_forward(
            x_data,
            self.width,
            gamma_data,
            beta,
            self.epsilon,
            &mut out,
            &mut mean,
            &mut inverse_deviation,
        )?;
        Ok((tensor(out, shape), Saved { x, gamma, mean, inverse_deviation }))
    }

    fn backward(&self, saved: Saved, grad: FlexTensor, _: [bool; N]) -> Result<[Option<FlexTensor>; N], OpError> {
        let grad = contiguous(grad);
        let shape = saved.x.layout().shape().clone();
        let mut grad_x = unwritten(shape.num_elements());
        let mut grad_gamma = unwritten(self.width);
        let mut grad_beta = (N == 3).then(|| unwritten(self.width));
        layer_norm_backward(
            elements(&saved.x),
            self.width,
            elements(&saved.gamma),
            &saved.mean,
            &saved.inverse_deviation,
            elements(&grad),
            &mut grad_x,
            &mut grad_gamma,
            grad_beta.as_deref_mut(),
        )?;
        let grads = [Some(tensor(grad_x, shape)), Some(tensor(grad_gamma, [self.width]))];
        let mut grads = grads.into_iter().chain([grad_beta.map(|beta| tensor(beta, [self.width]))]);
        Ok(std::array::from_fn(|_| grads.next().flatten()))
    }
}
