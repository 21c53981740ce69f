//! Dynamic scores of edges ([Brody et al. 2022](https://arxiv.org/abs/2105.14491)): the source that a target prefers depends on
//! the target.
//!
//! ```text
//! z_ij = s_j + t_i                 for each edge j → i, d_head numbers in each head
//! e_ij = a·LeakyReLU(z_ij)
//! ∂z_ij = ∂e_ij a LeakyReLU'(z_ij)     ∂t_i = Σ_j ∂z_ij     ∂s_j = Σ_i ∂z_ij     ∂a = Σ_ij ∂e_ij LeakyReLU(z_ij)
//! ```
//!
//! `z` is never stored. The sums over edges are added as in the rest of the module: over the targets, then over the sources.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::edges::{Edges, Rows};
use super::{BLOCK, GraphAttentionShape, SERIAL, check_slope};
use crate::error::{KernelError, check_sizes};
use crate::isa::dispatch;
use crate::scratch::Scratch;
use crate::shared_slice::SharedSlice;

/// The operands of dynamic scores.
#[derive(Debug, Clone, Copy)]
pub struct EdgeScoreInputs<'a> {
    /// `s`, `[sources, n_heads, d_head]`.
    pub sources: &'a [f32],
    /// `t`, `[targets, n_heads, d_head]`.
    pub targets: &'a [f32],
    /// `a`, `[n_heads, d_head]`.
    pub vector: &'a [f32],
}

/// Where the gradients of [`EdgeScoreInputs`] are written, in the same shapes. Old content is replaced.
#[derive(Debug)]
pub struct EdgeScoreGradients<'a> {
    /// Gradient of `s`.
    pub sources: &'a mut [f32],
    /// Gradient of `t`.
    pub targets: &'a mut [f32],
    /// Gradient of `a`.
    pub vector: &'a mut [f32],
}

/// Computes the score of each edge in each head.
///
/// # Shapes
/// `out` `[edges, n_heads]`. Old content is replaced.
pub fn edge_scores_forward(
    edges: &Edges,
    shape: GraphAttentionShape,
    slope: f32,
    inputs: EdgeScoreInputs<'_>,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let call = Call::new(edges, shape, slope, inputs)?;
    let n_heads = shape.n_heads;
    check_sizes("edge scores", out.len(), &[edges.len(), n_heads])?;
    let out = SharedSlice::new(out);
    call.for_each_block(edges.by_target(), |_, targets| {
        let entries = edges.by_target().entries_of(targets.clone());
        // SAFETY: each target is in one block, and so is each of its edges.
        let out = unsafe { out.slice(entries.start * n_heads, entries.len() * n_heads) };
        dispatch(Forward { call: &call, targets, out });
    });
    Ok(())
}

/// Computes the gradients of the operands from that of the scores.
///
/// # Shapes
/// `grad` `[edges, n_heads]`.
pub fn edge_scores_backward(
    edges: &Edges,
    shape: GraphAttentionShape,
    slope: f32,
    inputs: EdgeScoreInputs<'_>,
    grad: &[f32],
    gradients: EdgeScoreGradients<'_>,
) -> Result<(), KernelError> {
    let call = Call::new(edges, shape, slope, inputs)?;
    let EdgeScoreGradients { sources, targets, vector } = gradients;
    let (n_heads, width) = (shape.n_heads, call.width);
    check_sizes("grad of edge scores", grad.len(), &[edges.len(), n_heads])?;
    check_sizes("grad of sources", sources.len(), &[edges.n_sources(), width])?;
    check_sizes("grad of targets", targets.len(), &[edges.n_targets(), width])?;
    check_sizes("grad of vector", vector.len(), &[width])?;
    let (sources, targets) = (SharedSlice::new(sources), SharedSlice::new(targets));
    // Each block of targets has its own sum for `a`; they are added in the order of the blocks.
    let mut sums = Scratch::new(call.blocks(edges.by_target()) * width);
    let parts = SharedSlice::new(&mut sums);
    call.for_each_block(edges.by_target(), |block, rows| {
        // SAFETY: each target is in one block, and each block has its own sum.
        let (out, sum) =
            unsafe { (targets.slice(rows.start * width, rows.len() * width), parts.slice(block * width, width)) };
        dispatch(Targets { call: &call, rows, grad, out, sum });
    });
    call.for_each_block(edges.by_source(), |_, rows| {
        // SAFETY: each source is in one block.
        let out = unsafe { sources.slice(rows.start * width, rows.len() * width) };
        dispatch(Sources { call: &call, rows, grad, out });
    });
    vector.fill(0.0);
    for part in sums.chunks_exact(width.max(1)) {
        vector.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
    }
    Ok(())
}

/// A checked call.
struct Call<'a> {
    edges: &'a Edges,
    n_heads: usize,
    d_head: usize,
    /// `n_heads · d_head`.
    width: usize,
    slope: f32,
    inputs: EdgeScoreInputs<'a>,
}

impl<'a> Call<'a> {
    fn new(
        edges: &'a Edges,
        GraphAttentionShape { n_heads, d_head }: GraphAttentionShape,
        slope: f32,
        inputs: EdgeScoreInputs<'a>,
    ) -> Result<Self, KernelError> {
        check_slope(slope)?;
        check_sizes("sources", inputs.sources.len(), &[edges.n_sources(), n_heads, d_head])?;
        check_sizes("targets", inputs.targets.len(), &[edges.n_targets(), n_heads, d_head])?;
        check_sizes("vector", inputs.vector.len(), &[n_heads, d_head])?;
        Ok(Self { edges, n_heads, d_head, width: inputs.vector.len(), slope, inputs })
    }

    /// Returns the number of edges of a block; `None` if all of them are one block.
    fn share(&self) -> Option<usize> {
        let edge = 4 * self.width.max(1);
        (self.edges.len().saturating_mul(edge) >= SERIAL).then(|| (BLOCK / edge).max(1))
    }

    fn blocks(&self, rows: &Rows) -> usize {
        self.share().map_or(1, |share| rows.blocks(share))
    }

    /// Calls `f` on all threads with the numbers of blocks and their rows, which hold about the same number of edges.
    fn for_each_block(&self, rows: &Rows, f: impl Fn(usize, Range<usize>) + Sync) {
        match self.share() {
            None => f(0, 0..rows.len()),
            Some(share) => {
                (0..rows.blocks(share)).into_par_iter().for_each(|block| f(block, rows.block(share, block)));
            }
        }
    }

    #[inline(always)]
    fn source(&self, source: usize) -> &'a [f32] {
        &self.inputs.sources[source * self.width..(source + 1) * self.width]
    }

    #[inline(always)]
    fn target(&self, target: usize) -> &'a [f32] {
        &self.inputs.targets[target * self.width..(target + 1) * self.width]
    }

    /// Adds `∂z` of an edge to `out`, given the gradient of its scores, `[n_heads]`.
    #[inline(always)]
    fn add_gradient(&self, source: usize, target: usize, grad: &[f32], out: &mut [f32]) {
        let (s, t, a) = (self.source(source), self.target(target), self.inputs.vector);
        for (head, &grad) in grad.iter().enumerate() {
            let part = head * self.d_head..(head + 1) * self.d_head;
            let operands = s[part.clone()].iter().zip(&t[part.clone()]).zip(&a[part.clone()]);
            for (out, ((s, t), a)) in out[part].iter_mut().zip(operands) {
                let slope = if s + t > 0.0 { 1.0 } else { self.slope };
                *out += grad * a * slope;
            }
        }
    }
}

struct Forward<'a> {
    call: &'a Call<'a>,
    targets: Range<usize>,
    /// Scores of the edges to these targets.
    out: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { call, targets, mut out } = self;
        for target in targets {
            for edge in call.edges.incoming(target) {
                let (now, rest) = out.split_at_mut(call.n_heads);
                out = rest;
                let (s, t) = (call.source(call.edges.sources()[edge] as usize), call.target(target));
                for (head, out) in now.iter_mut().enumerate() {
                    let part = head * call.d_head..(head + 1) * call.d_head;
                    *out = score(simd, &s[part.clone()], &t[part.clone()], &call.inputs.vector[part], call.slope);
                }
            }
        }
    }
}

/// `Σ a LeakyReLU(s + t)`.
#[inline(always)]
fn score<S: Simd>(simd: S, s: &[f32], t: &[f32], a: &[f32], slope: f32) -> f32 {
    let ((s, s_tail), (t, t_tail), (a, a_tail)) = (S::as_simd_f32s(s), S::as_simd_f32s(t), S::as_simd_f32s(a));
    let (zero, slopes) = (simd.splat_f32s(0.0), simd.splat_f32s(slope));
    let mut sum = zero;
    for ((s, t), a) in s.iter().zip(t).zip(a) {
        let z = simd.add_f32s(*s, *t);
        let z = simd.select_f32s(simd.greater_than_f32s(z, zero), z, simd.mul_f32s(z, slopes));
        sum = simd.mul_add_e_f32s(z, *a, sum);
    }
    let mut total = simd.reduce_sum_f32s(sum);
    for ((s, t), a) in s_tail.iter().zip(t_tail).zip(a_tail) {
        let z = s + t;
        total += if z > 0.0 { z } else { z * slope } * a;
    }
    total
}

struct Targets<'a> {
    call: &'a Call<'a>,
    rows: Range<usize>,
    /// Gradient of all scores.
    grad: &'a [f32],
    /// Gradients of these targets.
    out: &'a mut [f32],
    /// Sum of these targets' edges for `a`.
    sum: &'a mut [f32],
}

impl WithSimd for Targets<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { call, rows, grad, out, sum } = self;
        out.fill(0.0);
        sum.fill(0.0);
        for (target, out) in rows.zip(out.chunks_exact_mut(call.width.max(1))) {
            for edge in call.edges.incoming(target) {
                let source = call.edges.sources()[edge] as usize;
                let grad = &grad[edge * call.n_heads..(edge + 1) * call.n_heads];
                call.add_gradient(source, target, grad, out);
                let (s, t) = (call.source(source), call.target(target));
                for (head, &grad) in grad.iter().enumerate() {
                    let part = head * call.d_head..(head + 1) * call.d_head;
                    let operands = s[part.clone()].iter().zip(&t[part.clone()]);
                    for (sum, (s, t)) in sum[part].iter_mut().zip(operands) {
                        let z = s + t;
                        *sum += grad * if z > 0.0 { z } else { z * call.slope };
                    }
                }
            }
        }
    }
}

struct Sources<'a> {
    call: &'a Call<'a>,
    rows: Range<usize>,
    /// Gradient of all scores.
    grad: &'a [f32],
    /// Gradients of these sources.
    out: &'a mut [f32],
}

impl WithSimd for Sources<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { call, rows, grad, out } = self;
        out.fill(0.0);
        for (source, out) in rows.zip(out.chunks_exact_mut(call.width.max(1))) {
            for &(edge, target) in call.edges.outgoing(source) {
                let grad = &grad[edge * call.n_heads..(edge + 1) * call.n_heads];
                call.add_gradient(source, target as usize, grad, out);
            }
        }
    }
}
