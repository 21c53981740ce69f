//! The backward pass of group normalisation.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::GroupNormShape;
use crate::error::{KernelError, check_len};
use crate::isa::dispatch;
use crate::linear::AddRows;
use crate::scratch::Scratch;
use crate::vector;

/// Values of the forward pass that [`group_norm_backward`] needs.
#[derive(Debug, Clone, Copy)]
pub struct GroupNormSaved<'a> {
    /// The input of the forward pass.
    pub x: &'a [f32],
    /// `γ`, `[channels]`.
    pub gamma: &'a [f32],
    /// `μ` of each group, `[batch, groups]`.
    pub mean: &'a [f32],
    /// `r` of each group, `[batch, groups]`.
    pub inverse_deviation: &'a [f32],
    /// The output of a forward pass with ReLU; `None` without ReLU.
    pub rectified: Option<&'a [f32]>,
}

/// The gradients that [`group_norm_backward`] writes. Old content is replaced.
#[derive(Debug)]
pub struct GroupNormGradients<'a> {
    /// `∂x`, as large as the input.
    pub x: &'a mut [f32],
    /// `∂γ`, `[channels]`.
    pub gamma: &'a mut [f32],
    /// `∂β`, `[channels]`.
    pub beta: &'a mut [f32],
    /// `∂s`, as large as the input, if it is wanted.
    pub onto: Option<&'a mut [f32]>,
}

/// Computes the gradients of [`group_norm_forward`](super::group_norm_forward).
///
/// # Shapes
/// `grad` `[batch, channels, positions]`.
pub fn group_norm_backward(
    shape: GroupNormShape,
    saved: GroupNormSaved,
    grad: &[f32],
    gradients: GroupNormGradients,
) -> Result<(), KernelError> {
    let GroupNormGradients { x: grad_x, gamma: grad_gamma, beta: grad_beta, onto: mut grad_onto } = gradients;
    let group = shape.group_len()?;
    let images = [
        ("group norm x", saved.x.len()),
        ("group norm out", saved.rectified.map_or(grad.len(), <[f32]>::len)),
        ("group norm grad", grad.len()),
        ("group norm grad x", grad_x.len()),
        ("group norm grad onto", grad_onto.as_ref().map_or(grad.len(), |onto| onto.len())),
    ];
    images.into_iter().try_for_each(|(what, len)| shape.check_image(what, len))?;
    check_len("group norm gamma", saved.gamma.len(), shape.channels)?;
    check_len("group norm grad gamma", grad_gamma.len(), shape.channels)?;
    check_len("group norm grad beta", grad_beta.len(), shape.channels)?;
    check_len("group norm mean", saved.mean.len(), shape.batch * shape.groups)?;
    check_len("group norm inverse deviation", saved.inverse_deviation.len(), shape.batch * shape.groups)?;
    // The sums of each image, added in the order of the images: the pieces do not change the result.
    let mut sums = Scratch::new(2 * shape.batch * shape.channels);
    let (gamma_sums, beta_sums) = sums.split_at_mut(shape.batch * shape.channels);
    let per_group = shape.channels / shape.groups;
    let piece = shape.groups_per_piece(group);
    let run =
        |i: usize, grad_x: &mut [f32], onto: Option<&mut [f32]>, gamma_sums: &mut [f32], beta_sums: &mut [f32]| {
            let start = i * piece * group;
            let grad = &grad[start..start + grad_x.len()];
            dispatch(Backward { shape, saved, first: i * piece, grad, grad_x, onto, gamma_sums, beta_sums });
        };
    if shape.batch * shape.groups <= piece {
        run(0, grad_x, grad_onto.as_deref_mut(), gamma_sums, beta_sums);
    } else {
        let sums = gamma_sums.par_chunks_mut(piece * per_group).zip(beta_sums.par_chunks_mut(piece * per_group));
        let pieces = grad_x.par_chunks_mut(piece * group).zip(sums).enumerate();
        match grad_onto {
            Some(onto) => pieces
                .zip(onto.par_chunks_mut(piece * group))
                .for_each(|((i, (grad_x, (gamma, beta))), onto)| run(i, grad_x, Some(onto), gamma, beta)),
            None => pieces.for_each(|(i, (grad_x, (gamma, beta)))| run(i, grad_x, None, gamma, beta)),
        }
    }
    for (sums, out) in [(gamma_sums, grad_gamma), (beta_sums, grad_beta)] {
        out.fill(0.0);
        dispatch(AddRows { x: sums, out });
    }
    Ok(())
}

struct Backward<'a> {
    shape: GroupNormShape,
    saved: GroupNormSaved<'a>,
    /// Index of the first group among those of all images; the fields of `saved` have all groups, the others start here.
    first: usize,
    grad: &'a [f32],
    grad_x: &'a mut [f32],
    onto: Option<&'a mut [f32]>,
    gamma_sums: &'a mut [f32],
    beta_sums: &'a mut [f32],
}

impl WithSimd for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let GroupNormShape { channels, groups, positions, .. } = self.shape;
        let per_group = channels / groups;
        let group = per_group * positions;
        let per_element = 1.0 / group as f32;
        let count = self.grad.len() / group;
        for i in 0..count {
            let at = self.first + i;
            let (mean, inverse) = (self.saved.mean[at], self.saved.inverse_deviation[at]);
            let gamma = &self.saved.gamma[at % groups * per_group..][..per_group];
            let grad = &self.grad[i * group..(i + 1) * group];
            let x = &self.saved.x[at * group..(at + 1) * group];
            let grad_x = &mut self.grad_x[i * group..(i + 1) * group];
            // The gradient before the ReLU. Its place is that of `∂s`, or of `∂x` if `∂s` is not wanted.
            let onto = self.onto.as_deref_mut().map(|onto| &mut onto[i * group..(i + 1) * group]);
            let (grad, grad_x) = match (self.saved.rectified, onto) {
                (Some(out), Some(onto)) => {
                    rectify(simd, &out[at * group..(at + 1) * group], grad, onto);
                    (Some(&*onto), grad_x)
                }
                (Some(out), None) => {
                    rectify(simd, &out[at * group..(at + 1) * group], grad, grad_x);
                    (None, grad_x)
                }
                (None, onto) => {
                    if let Some(onto) = onto {
                        onto.copy_from_slice(grad);
                    }
                    (Some(grad), grad_x)
                }
            };
            let centre = simd.splat_f32s(mean);
            let (mut plain, mut weighted) = (0.0, 0.0);
            for (c, gamma) in gamma.iter().enumerate() {
                let channel = c * positions..(c + 1) * positions;
                let grad = &grad.unwrap_or(grad_x)[channel.clone()];
                let (sum, product) = channel_sums(simd, &x[channel], grad, centre);
                let product = product * inverse;
                plain += gamma * sum;
                weighted += gamma * product;
                self.beta_sums[i * per_group + c] = sum;
                self.gamma_sums[i * per_group + c] = product;
            }
            // ∂x = g γ r − (x − μ) r² mean(γ g x̂) − r mean(γ g)
            let slope = simd.splat_f32s(-inverse * inverse * weighted * per_element);
            let shift = simd.splat_f32s(-inverse * plain * per_element);
            for (c, gamma) in gamma.iter().enumerate() {
                let channel = c * positions..(c + 1) * positions;
                let scale = simd.splat_f32s(gamma * inverse);
                macro_rules! gradient {
                    ($x:expr, $grad:expr) => {
                        simd.mul_add_e_f32s($grad, scale, simd.mul_add_e_f32s(simd.sub_f32s($x, centre), slope, shift))
                    };
                }
                let (x, grad_x) = (&x[channel.clone()], &mut grad_x[channel.clone()]);
                match grad {
                    Some(grad) => vector::zip!(simd, x, &grad[channel], grad_x, |x, grad| gradient!(x, grad)),
                    None => vector::zip_in_place!(simd, grad_x, x, |grad, x| gradient!(x, grad)),
                }
            }
        }
    }
}

/// Computes the gradient before a ReLU from its output and the gradient after it.
#[inline(always)]
fn rectify<S: Simd>(simd: S, out: &[f32], grad: &[f32], before: &mut [f32]) {
    let zero = simd.splat_f32s(0.0);
    vector::zip!(simd, out, grad, before, |out, grad| {
        simd.select_f32s(simd.less_than_or_equal_f32s(out, zero), zero, grad)
    });
}

/// Returns `(Σ g, Σ g (x − μ))` of one channel.
#[inline(always)]
fn channel_sums<S: Simd>(simd: S, x: &[f32], grad: &[f32], mean: S::f32s) -> (f32, f32) {
    let (x, x_tail) = S::as_simd_f32s(x);
    let (grad, grad_tail) = S::as_simd_f32s(grad);
    let (x2, x1) = x.as_chunks::<2>();
    let (grad2, grad1) = grad.as_chunks::<2>();
    let (mut plain, mut weighted) = ([simd.splat_f32s(0.0); 2], [simd.splat_f32s(0.0); 2]);
    for (x, grad) in x2.iter().zip(grad2) {
        for i in 0..2 {
            plain[i] = simd.add_f32s(plain[i], grad[i]);
            weighted[i] = simd.mul_add_e_f32s(grad[i], simd.sub_f32s(x[i], mean), weighted[i]);
        }
    }
    for (x, grad) in x1.iter().zip(grad1) {
        plain[0] = simd.add_f32s(plain[0], *grad);
        weighted[0] = simd.mul_add_e_f32s(*grad, simd.sub_f32s(*x, mean), weighted[0]);
    }
    if !x_tail.is_empty() {
        // Past the end the gradient is zero, and so is every term.
        let grad = simd.partial_load_f32s(grad_tail);
        plain[1] = simd.add_f32s(plain[1], grad);
        weighted[1] = simd.mul_add_e_f32s(grad, simd.sub_f32s(simd.partial_load_f32s(x_tail), mean), weighted[1]);
    }
    let sum = |sums: [S::f32s; 2]| simd.reduce_sum_f32s(simd.add_f32s(sums[0], sums[1]));
    (sum(plain), sum(weighted))
}
