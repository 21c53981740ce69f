//! The backward pass: over the targets for the gradients of the scores, then over the sources, which gather from their edges.
//!
//! ```text
//! g_ij = drop(∂o_i·h_j)          ∂e_ij = α_ij (g_ij − Σ_k α_ik g_ik)       ∂p_ij = ∂e_ij LeakyReLU'(s_j + t_i)
//! ∂t_i = Σ_j ∂p_ij               ∂s_j = Σ_i ∂p_ij                          ∂h_j = Σ_i drop(α_ij) ∂o_i
//! ```

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::edges::Edges;
use super::{
    GraphAttentionInputs, GraphAttentionOptions, GraphAttentionShape, Problem, load_part, shift, weighted_sum,
};
use crate::attention::Dropout;
use crate::dropout::drop_in_place;
use crate::error::{KernelError, check_product, check_sizes};
use crate::isa::dispatch;
use crate::random::lanes;
use crate::scratch::Scratch;
use crate::shared_slice::SharedSlice;
use crate::vector::{self, dot, exp_bounded};

/// Where the gradients of [`GraphAttentionInputs`] are written, in the same shapes. Old content is replaced.
#[derive(Debug)]
pub struct GraphAttentionGradients<'a> {
    /// Gradient of the features.
    pub h: &'a mut [f32],
    /// Gradient of the scores of the sources.
    pub source_scores: &'a mut [f32],
    /// Gradient of the scores of the targets.
    pub target_scores: &'a mut [f32],
}

/// Computes the gradients of features and scores from that of the output.
///
/// # Shapes
/// The shapes of [`graph_attention_forward`](super::graph_attention_forward), with its `log_sum_exp`; `grad` is like its `out`.
pub fn graph_attention_backward(
    edges: &Edges,
    shape: GraphAttentionShape,
    options: GraphAttentionOptions,
    inputs: GraphAttentionInputs<'_>,
    log_sum_exp: &[f32],
    grad: &[f32],
    gradients: GraphAttentionGradients<'_>,
) -> Result<(), KernelError> {
    let problem = Problem::new(edges, shape, options, inputs)?;
    let n_heads = shape.n_heads;
    let GraphAttentionGradients { h, source_scores, target_scores } = gradients;
    check_sizes("grad of source scores", source_scores.len(), &[edges.n_sources(), n_heads])?;
    check_sizes("grad of target scores", target_scores.len(), &[edges.n_targets(), n_heads])?;
    let size = check_product("edges", edges.len(), n_heads)?;
    backward(&problem, log_sum_exp, grad, h, &mut Scratch::new(size), Some((source_scores, target_scores)))
}

/// [`graph_attention_backward`] for scores of the edges: writes the gradients of features and scores.
///
/// # Shapes
/// The shapes of [`edge_attention_forward`](super::edge_attention_forward), with its `log_sum_exp`; `grad` is like its `out`.
#[allow(clippy::too_many_arguments, reason = "the inputs of the forward pass and the gradients of each")]
pub fn edge_attention_backward(
    edges: &Edges,
    shape: GraphAttentionShape,
    dropout: Option<Dropout>,
    h: &[f32],
    scores: &[f32],
    log_sum_exp: &[f32],
    grad: &[f32],
    (grad_h, grad_scores): (&mut [f32], &mut [f32]),
) -> Result<(), KernelError> {
    let problem = Problem::of_edges(edges, shape, dropout, h, scores)?;
    check_sizes("grad of edge scores", grad_scores.len(), &[edges.len(), shape.n_heads])?;
    backward(&problem, log_sum_exp, grad, grad_h, grad_scores, None)
}

/// Writes the gradients of the features, of the sums `p` or scores of the edges, `[edges, n_heads]`, and of the scores of the
/// nodes as sources and targets, if there are any.
fn backward(
    problem: &Problem<'_>,
    log_sum_exp: &[f32],
    grad: &[f32],
    grad_h: &mut [f32],
    grad_scores: &mut [f32],
    of_nodes: Option<(&mut [f32], &mut [f32])>,
) -> Result<(), KernelError> {
    let Problem { edges, n_heads, d_head, .. } = *problem;
    check_sizes("log-sum-exp", log_sum_exp.len(), &[edges.n_targets(), n_heads])?;
    check_sizes("graph attention grad", grad.len(), &[edges.n_targets(), n_heads, d_head])?;
    check_sizes("grad of h", grad_h.len(), &[edges.n_sources(), n_heads, d_head])?;
    if n_heads == 0 {
        return Ok(());
    }
    // drop(α), `[edges, n_heads]`, which the pass over targets hands to the pass over sources, as it does ∂p.
    let mut kept = Scratch::new(grad_scores.len());
    let (grad_sources, grad_targets) = of_nodes.unzip();
    let (grad_sources, grad_targets) = (grad_sources.map(SharedSlice::new), grad_targets.map(SharedSlice::new));
    let (kept_parts, grad_parts) = (SharedSlice::new(&mut kept), SharedSlice::new(grad_scores));
    problem.for_each_block(edges.by_target(), |targets| {
        let entries = edges.by_target().entries_of(targets.clone());
        let (start, len) = (entries.start * n_heads, entries.len() * n_heads);
        // SAFETY: each target is in one block, and so is each of its edges.
        let (kept, grad_scores, grad_targets) = unsafe {
            (
                kept_parts.slice(start, len),
                grad_parts.slice(start, len),
                grad_targets.as_ref().map(|all| all.slice(targets.start * n_heads, targets.len() * n_heads)),
            )
        };
        dispatch(Targets { problem, targets, log_sum_exp, grad, kept, grad_scores, grad_targets });
    });
    let (grad_h, grad_scores) = (SharedSlice::new(grad_h), &*grad_scores);
    problem.for_each_block(edges.by_source(), |sources| {
        // SAFETY: each source is in one block.
        let (grad_h, grad_sources) = unsafe {
            (
                grad_h.slice(sources.start * n_heads * d_head, sources.len() * n_heads * d_head),
                grad_sources.as_ref().map(|all| all.slice(sources.start * n_heads, sources.len() * n_heads)),
            )
        };
        let kept = &kept;
        dispatch(Sources { problem, sources, grad, kept, grad_scores, grad_h, grad_sources });
    });
    Ok(())
}

/// The pass over the edges to some targets.
struct Targets<'a> {
    problem: &'a Problem<'a>,
    targets: Range<usize>,
    /// Log-sum-exps of all targets.
    log_sum_exp: &'a [f32],
    /// Gradient of the output of all targets.
    grad: &'a [f32],
    /// Weights after dropout of the edges to these targets, `[edges, n_heads]`.
    kept: &'a mut [f32],
    /// Gradients of the scores of the same edges.
    grad_scores: &'a mut [f32],
    /// Gradients of the scores of these targets, `[targets, n_heads]`, if they have scores.
    grad_targets: Option<&'a mut [f32]>,
}

impl WithSimd for Targets<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { problem, targets, log_sum_exp, grad, kept: weights, grad_scores, mut grad_targets } = self;
        let Problem { edges, n_heads, d_head, .. } = *problem;
        let entries = edges.by_target().entries_of(targets.clone());
        let mut memory = Scratch::new(weights.len() + n_heads);
        let memory = &mut *memory;
        let (grad_weights, mean) = memory.split_at_mut(weights.len());
        for target in targets.clone() {
            let part = local(edges.incoming(target), entries.start, n_heads);
            let scores = &mut weights[part.clone()];
            problem.scores(target, scores);
            let log_sum_exp = &log_sum_exp[target * n_heads..(target + 1) * n_heads];
            for scores in scores.chunks_exact_mut(n_heads) {
                for (score, &log_sum_exp) in scores.iter_mut().zip(log_sum_exp) {
                    *score -= shift(log_sum_exp);
                }
            }
            for (edge, out) in edges.incoming(target).zip(grad_weights[part].chunks_exact_mut(n_heads)) {
                let source = edges.sources()[edge] as usize;
                for (head, out) in out.iter_mut().enumerate() {
                    let (a, b) = ((target * n_heads + head) * d_head, (source * n_heads + head) * d_head);
                    *out = product(simd, (grad, a), (problem.h, b), d_head);
                }
            }
        }
        // All edges at once, because one target has too few to fill vectors.
        vector::map_in_place!(simd, weights, |s| exp_bounded(simd, s));
        if let Some(dropout) = problem.dropout {
            drop_in_place(simd, grad_weights, entries.start * n_heads, dropout.probability, dropout.seed);
        }
        let first = targets.start;
        for target in targets {
            let part = local(edges.incoming(target), entries.start, n_heads);
            let (weights, grad_weights) = (&weights[part.clone()], &grad_weights[part.clone()]);
            mean.fill(0.0);
            for (weights, grads) in weights.chunks_exact(n_heads).zip(grad_weights.chunks_exact(n_heads)) {
                for ((mean, weight), grad) in mean.iter_mut().zip(weights).zip(grads) {
                    *mean += weight * grad;
                }
            }
            let grad_scores = &mut grad_scores[part];
            problem.derivatives(target, grad_scores);
            let rows = weights.chunks_exact(n_heads).zip(grad_weights.chunks_exact(n_heads));
            for ((weights, grads), out) in rows.zip(grad_scores.chunks_exact_mut(n_heads)) {
                for (((out, weight), grad), mean) in out.iter_mut().zip(weights).zip(grads).zip(&*mean) {
                    *out *= weight * (grad - mean);
                }
            }
            if let Some(grad_targets) = &mut grad_targets {
                let grad_target = &mut grad_targets[(target - first) * n_heads..(target - first + 1) * n_heads];
                grad_target.fill(0.0);
                for grads in grad_scores.chunks_exact(n_heads) {
                    for (sum, grad) in grad_target.iter_mut().zip(grads) {
                        *sum += grad;
                    }
                }
            }
        }
        if let Some(dropout) = problem.dropout {
            drop_in_place(simd, weights, entries.start * n_heads, dropout.probability, dropout.seed);
        }
    }
}

/// The pass over the edges from some sources.
struct Sources<'a> {
    problem: &'a Problem<'a>,
    sources: Range<usize>,
    grad: &'a [f32],
    /// Weights after dropout of all edges, `[edges, n_heads]`.
    kept: &'a [f32],
    grad_scores: &'a [f32],
    /// Gradients of the features of these sources, `[sources, n_heads, d_head]`.
    grad_h: &'a mut [f32],
    /// Gradients of the scores of these sources, `[sources, n_heads]`, if they have scores.
    grad_sources: Option<&'a mut [f32]>,
}

impl WithSimd for Sources<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { problem, sources, grad, kept, grad_scores, grad_h, grad_sources } = self;
        let Problem { edges, n_heads, d_head, .. } = *problem;
        let sums = grad_sources.into_iter().flat_map(|sums| sums.chunks_exact_mut(n_heads));
        for (source, grad_source) in sources.clone().zip(sums) {
            grad_source.fill(0.0);
            for &(edge, _) in edges.outgoing(source) {
                for (sum, grad) in grad_source.iter_mut().zip(&grad_scores[edge * n_heads..(edge + 1) * n_heads]) {
                    *sum += grad;
                }
            }
        }
        for (source, grad_h) in sources.zip(grad_h.chunks_exact_mut((n_heads * d_head).max(1))) {
            let terms = edges.outgoing(source).iter().map(|&(edge, target)| (edge, target as usize));
            weighted_sum(simd, (n_heads, d_head), terms, kept, grad, grad_h);
        }
    }
}

/// Returns the inner product of `len` elements of two slices, each from its own start.
#[inline(always)]
fn product<S: Simd>(simd: S, (x, a): (&[f32], usize), (y, b): (&[f32], usize), len: usize) -> f32 {
    if len >= S::F32_LANES {
        return dot(simd, &x[a..a + len], &y[b..b + len]);
    }
    let both = simd.mul_f32s(load_part(simd, x, a, len), load_part(simd, y, b, len));
    // A selection, not a product with zero: lanes past the end may hold a NaN of another head.
    let inside = simd.less_than_u32s(lanes(simd), simd.splat_u32s(len as u32));
    simd.reduce_sum_f32s(simd.select_f32s(inside, both, simd.splat_f32s(0.0)))
}

/// Returns the elements of some edges in a slice `[edges, n_heads]` that starts with edge `first`.
#[inline(always)]
fn local(edges: Range<usize>, first: usize, n_heads: usize) -> Range<usize> {
    (edges.start - first) * n_heads..(edges.end - first) * n_heads
}
