//! Group normalisation of images (Wu and He 2018), with an optional residual sum and ReLU in the same operation.

use burn::tensor::{Tensor, activation::relu};
use burn_flex::FlexTensor;
use regard_kernels::group_norm::{
    GroupNormGradients, GroupNormOutput, GroupNormSaved, GroupNormShape, Rectifier, group_norm_backward,
    group_norm_forward,
};
use regard_kernels::unwritten;

use crate::error::{OpError, check_epsilon, check_shape};
use crate::fused::{FusedOp, Purpose, apply, check_f32, contiguous, elements, is_fused, tensor};

/// Options of [`group_norm`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupNormOptions {
    /// Number of groups of channels; divides the number of channels.
    pub groups: usize,
    /// Small number `ε` in the denominator.
    pub epsilon: f32,
    /// What follows the norm and the sum.
    pub rectifier: Rectifier,
}

/// Normalises each group of channels of each image, scales by `gamma`, adds `beta` and `onto`, and applies the rectifier:
/// `f(γ (x − mean) / √(variance + ε) + β + onto)`, as at the end of a residual branch.
///
/// # Shapes
/// `x`, `onto` `[batch, channels, height, width]`, `gamma` and `beta` `[channels]` → `[batch, channels, height, width]`.
pub fn group_norm(
    x: Tensor<4>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    onto: Option<Tensor<4>>,
    options: &GroupNormOptions,
) -> Result<Tensor<4>, OpError> {
    check_f32("input", &x)?;
    check_f32("gamma", &gamma)?;
    check_f32("beta", &beta)?;
    let [batch, channels, height, width] = x.dims();
    check_shape("gamma", gamma.dims(), [channels])?;
    check_shape("beta", beta.dims(), [channels])?;
    if let Some(onto) = &onto {
        check_f32("residual", onto)?;
        check_shape("residual", onto.dims(), x.dims())?;
    }
    check_epsilon(options.epsilon)?;
    let shape = GroupNormShape { batch, channels, groups: options.groups, positions: height * width };
    shape.group_len()?;
    if !is_fused(&x) {
        return Ok(group_norm_fallback(x, gamma, beta, onto, options));
    }
    let operation = GroupNorm { shape, epsilon: options.epsilon, rectifier: options.rectifier };
    let (x, gamma, beta) = (x.into_dispatch(), gamma.into_dispatch(), beta.into_dispatch());
    match onto {
        Some(onto) => apply(operation, [x, gamma, beta, onto.into_dispatch()]),
        None => apply(operation, [x, gamma, beta]),
    }
}

/// [`group_norm`] in plain Burn operations, without its argument checks.
pub fn group_norm_fallback(
    x: Tensor<4>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    onto: Option<Tensor<4>>,
    options: &GroupNormOptions,
) -> Tensor<4> {
    let dims @ [batch, channels, height, width] = x.dims();
    let x = x.reshape([batch, options.groups, channels / options.groups * height * width]);
    let centred = x.clone() - x.mean_dim(2);
    let variance = centred.clone().powi_scalar(2).mean_dim(2);
    let normal = (centred / (variance + options.epsilon).sqrt()).reshape(dims);
    let per_channel = |parameter: Tensor<1>| parameter.reshape([1, channels, 1, 1]);
    let mut y = normal * per_channel(gamma) + per_channel(beta);
    if let Some(onto) = onto {
        y = y + onto;
    }
    match options.rectifier {
        Rectifier::None => y,
        Rectifier::Relu => relu(y),
    }
}

/// The fused operation. Its inputs are `x`, `gamma`, `beta` and optionally the residual.
#[derive(Debug, Clone)]
struct GroupNorm {
    shape: GroupNormShape,
    epsilon: f32,
    rectifier: Rectifier,
}

/// Values kept for the backward pass.
#[derive(Debug, Clone)]
struct Saved {
    x: FlexTensor,
    gamma: FlexTensor,
    mean: Vec<f32>,
    inverse_deviation: Vec<f32>,
    /// The output of a ReLU. It shares its memory with the operation's result.
    rectified: Option<FlexTensor>,
}

impl<const N: usize> FusedOp<N> for GroupNorm {
    type Saved = Saved;

    fn forward(&self, inputs: [FlexTensor; N], _: Purpose) -> Result<(FlexTensor, Saved), OpError> {
        let mut inputs = inputs.into_iter().map(contiguous);
        let (x, gamma) = (inputs.next().expect("x"), inputs.next().expect("gamma"));
        let (beta, onto) = (inputs.next().expect("beta"), inputs.next());
        let shape = x.layout().shape().clone();
        let groups = self.shape.batch * self.shape.groups;
        let mut out = unwritten(shape.num_elements());
        let (mut mean, mut inverse_deviation) = (unwritten(groups), unwritten(groups));
        group_norm_forward(
            self.shape,
            elements(&x),
            elements(&gamma),
            elements(&beta),
            onto.as_ref().map(elements),
            self.epsilon,
            self.rectifier,
            GroupNormOutput { out: &mut out, mean: &mut mean, inverse_deviation: &mut inverse_deviation },
        )?;
        let out = tensor(out, shape);
        let rectified = (self.rectifier == Rectifier::Relu).then(|| out.clone());
        Ok((out, Saved { x, gamma, mean, inverse_deviation, rectified }))
    }

    fn backward(&self, saved: Saved, grad: FlexTensor, wanted: [bool; N]) -> Result<[Option<FlexTensor>; N], OpError> {
        let grad = contiguous(grad);
        let shape = saved.x.layout().shape().clone();
        let channels = self.shape.channels;
        let (mut x, mut gamma, mut beta) = (unwritten(shape.num_elements()), unwritten(channels), unwritten(channels));
        let wants_onto = wanted.get(3).is_some_and(|&wanted| wanted);
        // Without a ReLU, the gradient of the residual is that of the output.
        let mut onto = (wants_onto && saved.rectified.is_some()).then(|| unwritten(shape.num_elements()));
        group_norm_backward(
            self.shape,
            GroupNormSaved {
                x: elements(&saved.x),
                gamma: elements(&saved.gamma),
                mean: &saved.mean,
                inverse_deviation: &saved.inverse_deviation,
                rectified: saved.rectified.as_ref().map(elements),
            },
            elements(&grad),
            GroupNormGradients { x: &mut x, gamma: &mut gamma, beta: &mut beta, onto: onto.as_deref_mut() },
        )?;
        let onto = match onto {
            Some(onto) => Some(tensor(onto, shape.clone())),
            None => wants_onto.then_some(grad),
        };
        let mut grads =
            [Some(tensor(x, shape)), Some(tensor(gamma, [channels])), Some(tensor(beta, [channels])), onto].into_iter();
        Ok(std::array::from_fn(|_| grads.next().flatten()))
    }
}
