//! Group normalisation of images ([Wu and He 2018](https://arxiv.org/abs/1803.08494)), with an optional sum and ReLU after it.
//!
//! The channels of an image `[channels, height, width]` form groups of neighbours. With the mean `μ` and the population variance
//! `σ²` of a group, `x̂ = (x − μ) r` and `r = 1/√(σ² + ε)`, channel `c` gets
//!
//! ```text
//! y  = f(γ_c x̂ + β_c + s),   f = identity or ReLU, s = another image or 0
//! g  = ∂y where y > 0, else 0 (with ReLU),   ∂s = g
//! ∂x = r (γ_c g − mean(γ g) − x̂ mean(γ g x̂)),   ∂γ_c = Σ g x̂,   ∂β_c = Σ g
//! ```
//!
//! with means over the group. Unlike batch normalisation, no image depends on the others of its batch.

mod backward;
#[cfg(test)]
mod tests;

pub use backward::{GroupNormGradients, GroupNormSaved, group_norm_backward};

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::activation::relu;
use crate::error::{KernelError, check_len, check_sizes};
use crate::isa::dispatch;
use crate::norm::squared_distance;
use crate::parallel::{is_crowded, rows_per_piece};
use crate::vector;

/// The sizes of a group normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupNormShape {
    /// Number of images.
    pub batch: usize,
    /// Number of channels of an image.
    pub channels: usize,
    /// Number of groups; divides the number of channels.
    pub groups: usize,
    /// Number of positions of a channel, `height · width`.
    pub positions: usize,
}

/// What follows the normalisation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rectifier {
    /// Nothing.
    #[default]
    None,
    /// `max(y, 0)`.
    Relu,
}

/// The results of [`group_norm_forward`].
#[derive(Debug)]
pub struct GroupNormOutput<'a> {
    /// The output, as large as the input.
    pub out: &'a mut [f32],
    /// `μ` of each group, `[batch, groups]`.
    pub mean: &'a mut [f32],
    /// `r` of each group, `[batch, groups]`.
    pub inverse_deviation: &'a mut [f32],
}

impl GroupNormShape {
    /// Returns the number of elements of a group; refuses a group without elements and groups of unequal size.
    pub fn group_len(&self) -> Result<usize, KernelError> {
        let Self { channels, groups, positions, .. } = *self;
        if groups == 0 || channels == 0 || !channels.is_multiple_of(groups) {
            let why = format!("expected a divisor of the {channels} channels, got {groups}");
            return Err(KernelError::Invalid { what: "group norm groups", why });
        }
        if positions == 0 {
            let why = "expected an image of at least one position, got 0".to_string();
            return Err(KernelError::Invalid { what: "group norm x", why });
        }
        Ok(channels / groups * positions)
    }

    fn check_image(&self, what: &'static str, got: usize) -> Result<(), KernelError> {
        check_sizes(what, got, &[self.batch, self.channels, self.positions])
    }

    /// Returns the number of groups in a piece of work: all of them if one thread does the work.
    fn groups_per_piece(&self, group_len: usize) -> usize {
        let all = self.batch * self.groups;
        if is_crowded() { all.max(1) } else { rows_per_piece(group_len) }
    }
}

/// Computes `out = f(gamma x̂ + beta + onto)`; see the [module](self) for the formula.
///
/// # Shapes
/// `x`, `onto` `[batch, channels, positions]`; `gamma`, `beta` `[channels]`.
#[allow(clippy::too_many_arguments)]
pub fn group_norm_forward(
    shape: GroupNormShape,
    x: &[f32],
    gamma: &[f32],
    beta: &[f32],
    onto: Option<&[f32]>,
    epsilon: f32,
    rectifier: Rectifier,
    output: GroupNormOutput,
) -> Result<(), KernelError> {
    let GroupNormOutput { out, mean, inverse_deviation } = output;
    let group = shape.group_len()?;
    shape.check_image("group norm x", x.len())?;
    shape.check_image("group norm onto", onto.map_or(x.len(), <[f32]>::len))?;
    shape.check_image("group norm out", out.len())?;
    check_len("group norm gamma", gamma.len(), shape.channels)?;
    check_len("group norm beta", beta.len(), shape.channels)?;
    check_len("group norm mean", mean.len(), shape.batch * shape.groups)?;
    check_len("group norm inverse deviation", inverse_deviation.len(), shape.batch * shape.groups)?;
    let piece = shape.groups_per_piece(group);
    let run = |i: usize, out: &mut [f32], mean: &mut [f32], inverse: &mut [f32]| {
        let start = i * piece * group;
        let end = start + out.len();
        let (x, onto) = (&x[start..end], onto.map(|onto| &onto[start..end]));
        dispatch(Forward { shape, first: i * piece, x, gamma, beta, onto, epsilon, rectifier, out, mean, inverse });
    };
    if mean.len() <= piece {
        run(0, out, mean, inverse_deviation);
        return Ok(());
    }
    out.par_chunks_mut(piece * group)
        .zip(mean.par_chunks_mut(piece).zip(inverse_deviation.par_chunks_mut(piece)))
        .enumerate()
        .for_each(|(i, (out, (mean, inverse)))| run(i, out, mean, inverse));
    Ok(())
}

struct Forward<'a> {
    shape: GroupNormShape,
    /// Index of the first group among those of all images.
    first: usize,
    x: &'a [f32],
    gamma: &'a [f32],
    beta: &'a [f32],
    onto: Option<&'a [f32]>,
    epsilon: f32,
    rectifier: Rectifier,
    out: &'a mut [f32],
    mean: &'a mut [f32],
    inverse: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let GroupNormShape { channels, groups, positions, .. } = self.shape;
        let per_group = channels / groups;
        let group = per_group * positions;
        let per_element = 1.0 / group as f32;
        for (i, (mean, inverse)) in self.mean.iter_mut().zip(self.inverse).enumerate() {
            let x = &self.x[i * group..(i + 1) * group];
            *mean = vector::sum(simd, x) * per_element;
            *inverse = 1.0 / (squared_distance(simd, x, *mean) * per_element + self.epsilon).sqrt();
            let first_channel = (self.first + i) % groups * per_group;
            let centre = simd.splat_f32s(*mean);
            for c in 0..per_group {
                let scale = simd.splat_f32s(self.gamma[first_channel + c] * *inverse);
                let shift = simd.splat_f32s(self.beta[first_channel + c]);
                let (start, end) = (i * group + c * positions, i * group + (c + 1) * positions);
                let (x, out) = (&self.x[start..end], &mut self.out[start..end]);
                macro_rules! normal {
                    ($x:expr) => {
                        simd.mul_add_e_f32s(simd.sub_f32s($x, centre), scale, shift)
                    };
                }
                match (self.onto.map(|onto| &onto[start..end]), self.rectifier) {
                    (None, Rectifier::None) => vector::map!(simd, x, out, |x| normal!(x)),
                    (None, Rectifier::Relu) => vector::map!(simd, x, out, |x| relu(simd, normal!(x))),
                    (Some(onto), Rectifier::None) => {
                        vector::zip!(simd, x, onto, out, |x, onto| simd.add_f32s(normal!(x), onto));
                    }
                    (Some(onto), Rectifier::Relu) => {
                        vector::zip!(simd, x, onto, out, |x, onto| relu(simd, simd.add_f32s(normal!(x), onto)));
                    }
                }
            }
        }
    }
}
