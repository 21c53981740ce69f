//! The forward pass, and the attention weights on request.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::edges::Edges;
use super::{GraphAttentionInputs, GraphAttentionOptions, GraphAttentionShape, Problem, shift, weighted_sum};
use crate::attention::Dropout;
use crate::dropout::drop_in_place;
use crate::error::{KernelError, check_sizes};
use crate::isa::dispatch;
use crate::scratch::Scratch;
use crate::shared_slice::SharedSlice;
use crate::vector::{self, exp_bounded};

/// Computes the attention of every target over the sources of its edges, and `L` for [`graph_attention_backward`].
///
/// [`graph_attention_backward`]: super::graph_attention_backward
///
/// # Shapes
/// `out` `[targets, n_heads, d_head]`, `log_sum_exp` `[targets, n_heads]`. Old content is replaced.
pub fn graph_attention_forward(
    edges: &Edges,
    shape: GraphAttentionShape,
    options: GraphAttentionOptions,
    inputs: GraphAttentionInputs<'_>,
    out: &mut [f32],
    log_sum_exp: &mut [f32],
) -> Result<(), KernelError> {
    forward(&Problem::new(edges, shape, options, inputs)?, out, log_sum_exp)
}

/// [`graph_attention_forward`] with any scores of the edges, `[edges, n_heads]`, in place of those of the nodes.
pub fn edge_attention_forward(
    edges: &Edges,
    shape: GraphAttentionShape,
    dropout: Option<Dropout>,
    h: &[f32],
    scores: &[f32],
    out: &mut [f32],
    log_sum_exp: &mut [f32],
) -> Result<(), KernelError> {
    forward(&Problem::of_edges(edges, shape, dropout, h, scores)?, out, log_sum_exp)
}

fn forward(problem: &Problem<'_>, out: &mut [f32], log_sum_exp: &mut [f32]) -> Result<(), KernelError> {
    let Problem { edges, n_heads, d_head, .. } = *problem;
    check_sizes("graph attention out", out.len(), &[edges.n_targets(), n_heads, d_head])?;
    check_sizes("log-sum-exp", log_sum_exp.len(), &[edges.n_targets(), n_heads])?;
    if n_heads == 0 {
        return Ok(());
    }
    let (out, log_sum_exp) = (SharedSlice::new(out), SharedSlice::new(log_sum_exp));
    problem.for_each_block(edges.by_target(), |targets| {
        let count = targets.len();
        // SAFETY: each target is in one block.
        let (out, log_sum_exp) = unsafe {
            (
                out.slice(targets.start * n_heads * d_head, count * n_heads * d_head),
                log_sum_exp.slice(targets.start * n_heads, count * n_heads),
            )
        };
        let mut weights = Scratch::new(edges.by_target().entries_of(targets.clone()).len() * n_heads);
        dispatch(Weights { problem, targets: targets.clone(), weights: &mut weights, log_sum_exp });
        dispatch(Sum { problem, targets, weights: &mut weights, out });
    });
    Ok(())
}

/// Computes the weights of all edges, before dropout.
///
/// # Shapes
/// `source_scores` `[sources, n_heads]`, `target_scores` `[targets, n_heads]`, `out` `[edges, n_heads]`.
pub fn graph_attention_weights(
    edges: &Edges,
    n_heads: usize,
    slope: f32,
    source_scores: &[f32],
    target_scores: &[f32],
    out: &mut [f32],
) -> Result<(), KernelError> {
    // Weights do not depend on the features.
    let shape = GraphAttentionShape { n_heads, d_head: 0 };
    let inputs = GraphAttentionInputs { h: &[], source_scores, target_scores };
    weights(&Problem::new(edges, shape, GraphAttentionOptions { slope, dropout: None }, inputs)?, out)
}

/// Computes the weights of all edges from their scores, before dropout.
///
/// # Shapes
/// `scores` and `out` `[edges, n_heads]`.
pub fn edge_attention_weights(
    edges: &Edges,
    n_heads: usize,
    scores: &[f32],
    out: &mut [f32],
) -> Result<(), KernelError> {
    weights(&Problem::of_edges(edges, GraphAttentionShape { n_heads, d_head: 0 }, None, &[], scores)?, out)
}

fn weights(problem: &Problem<'_>, out: &mut [f32]) -> Result<(), KernelError> {
    let Problem { edges, n_heads, .. } = *problem;
    check_sizes("graph attention weights", out.len(), &[edges.len(), n_heads])?;
    if n_heads == 0 {
        return Ok(());
    }
    let out = SharedSlice::new(out);
    problem.for_each_block(edges.by_target(), |targets| {
        let entries = edges.by_target().entries_of(targets.clone());
        // SAFETY: each target is in one block, and so is each of its edges.
        let weights = unsafe { out.slice(entries.start * n_heads, entries.len() * n_heads) };
        let mut log_sum_exp = Scratch::new(targets.len() * n_heads);
        dispatch(Weights { problem, targets, weights, log_sum_exp: &mut log_sum_exp });
    });
    Ok(())
}

/// The weights of the edges to some targets, and their log-sum-exps.
struct Weights<'a> {
    problem: &'a Problem<'a>,
    targets: Range<usize>,
    /// `[edges, n_heads]`.
    weights: &'a mut [f32],
    /// `[targets, n_heads]`.
    log_sum_exp: &'a mut [f32],
}

impl WithSimd for Weights<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { problem, targets, weights, log_sum_exp } = self;
        let n_heads = problem.n_heads;
        let mut rest = &mut *weights;
        for (target, maximum) in targets.clone().zip(log_sum_exp.chunks_exact_mut(n_heads)) {
            let (scores, after) = rest.split_at_mut(problem.edges.incoming(target).len() * n_heads);
            rest = after;
            problem.scores(target, scores);
            maximum.fill(f32::NEG_INFINITY);
            for scores in scores.chunks_exact(n_heads) {
                for (maximum, &score) in maximum.iter_mut().zip(scores) {
                    // A NaN is skipped here; it comes back from the score itself.
                    *maximum = maximum.max(score);
                }
            }
            for scores in scores.chunks_exact_mut(n_heads) {
                for (score, &maximum) in scores.iter_mut().zip(&*maximum) {
                    *score -= shift(maximum);
                }
            }
        }
        // All edges at once, because one target has too few to fill vectors.
        vector::map_in_place!(simd, weights, |s| exp_bounded(simd, s));
        let mut sum = Scratch::new(n_heads);
        let mut rest = weights;
        for (target, log_sum_exp) in targets.zip(log_sum_exp.chunks_exact_mut(n_heads)) {
            let (weights, after) = rest.split_at_mut(problem.edges.incoming(target).len() * n_heads);
            rest = after;
            sum.fill(0.0);
            for weights in weights.chunks_exact(n_heads) {
                for (sum, weight) in sum.iter_mut().zip(weights) {
                    *sum += weight;
                }
            }
            for (log_sum_exp, sum) in log_sum_exp.iter_mut().zip(sum.iter_mut()) {
                *log_sum_exp += sum.ln();
                *sum = if *sum == 0.0 { 0.0 } else { 1.0 / *sum };
            }
            for weights in weights.chunks_exact_mut(n_heads) {
                for (weight, scale) in weights.iter_mut().zip(sum.iter()) {
                    *weight *= scale;
                }
            }
        }
    }
}

/// The outputs of some targets from the weights of the edges to them.
struct Sum<'a> {
    problem: &'a Problem<'a>,
    targets: Range<usize>,
    /// `[edges, n_heads]`.
    weights: &'a mut [f32],
    /// `[targets, n_heads, d_head]`.
    out: &'a mut [f32],
}

impl WithSimd for Sum<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { problem, targets, weights, out } = self;
        let Problem { edges, n_heads, d_head, .. } = *problem;
        let first = edges.by_target().entries_of(targets.clone()).start;
        if let Some(dropout) = problem.dropout {
            drop_in_place(simd, weights, first * n_heads, dropout.probability, dropout.seed);
        }
        for (target, out) in targets.zip(out.chunks_exact_mut((n_heads * d_head).max(1))) {
            let incoming = edges.incoming(target);
            let sources = &edges.sources()[incoming.clone()];
            let terms = (incoming.start - first..).zip(sources).map(|(weight, &source)| (weight, source as usize));
            weighted_sum(simd, (n_heads, d_head), terms, weights, problem.h, out);
        }
    }
}
