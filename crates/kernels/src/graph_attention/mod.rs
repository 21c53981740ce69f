//! Graph attention (Veličković et al. 2018): each node attends to the nodes that have an edge to it.
//!
//! ```text
//! e_ij = LeakyReLU(s_j + t_i)                          for each edge j → i, in each head
//! α_ij = exp(e_ij − L_i),  L_i = log Σ_j exp e_ij
//! o_i  = Σ_j drop(α_ij) h_j
//! ```
//! `s` and `t` are scores of the nodes as source and as target, products of `h` with learned vectors. The functions
//! `edge_attention_…` take any score `e` of each edge instead, such as those of [`edge_scores_forward`].
//!
//! Besides `o` only `L` is stored, `[targets, n_heads]`: it is smaller than the weights `[edges, n_heads]` by the average
//! number of edges to a node, and one vector exponential gives the weights back. The backward pass goes over the targets
//! for the gradients of all scores, then over the sources, which gather from their outgoing edges. No two threads write to
//! the same place, and every sum is added in the order of the edges, so results do not depend on the threads.
//!
//! A node without incoming edges has `o_i = 0`, `L_i = −∞` and passes no gradient. A NaN in a source reaches every target
//! that it has an edge to, dropped or not.
//!
//! Dropout acts on the weights `[edges, n_heads]` as [`dropout_forward`](crate::dropout::dropout_forward) does.

mod backward;
mod edge_scores;
mod edges;
mod forward;
#[cfg(test)]
mod tests;

use std::ops::Range;

use pulp::Simd;
use rayon::prelude::*;

pub use self::backward::{GraphAttentionGradients, edge_attention_backward, graph_attention_backward};
pub use self::edge_scores::{EdgeScoreGradients, EdgeScoreInputs, edge_scores_backward, edge_scores_forward};
pub use self::edges::Edges;
pub use self::forward::{
    edge_attention_forward, edge_attention_weights, graph_attention_forward, graph_attention_weights,
};

pub(crate) use self::edges::Rows;
use crate::attention::Dropout;
use crate::error::{KernelError, check_sizes};

/// Options of graph attention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GraphAttentionOptions {
    /// Slope of the leaky ReLU below zero; 0.2 in the paper.
    pub slope: f32,
    /// Dropout of weights.
    pub dropout: Option<Dropout>,
}

/// The sizes of graph attention, besides those of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphAttentionShape {
    /// Number of heads.
    pub n_heads: usize,
    /// Number of features of a node in each head.
    pub d_head: usize,
}

/// The features and scores of the nodes.
#[derive(Debug, Clone, Copy)]
pub struct GraphAttentionInputs<'a> {
    /// Features of the sources, `[sources, n_heads, d_head]`.
    pub h: &'a [f32],
    /// Scores of the sources, `[sources, n_heads]`.
    pub source_scores: &'a [f32],
    /// Scores of the targets, `[targets, n_heads]`.
    pub target_scores: &'a [f32],
}

/// Work of one block of edges, in multiply-adds: two threads share Cora's 13,264 edges (8 heads of 8) as 78 blocks.
const BLOCK: usize = 32 * 1024;
/// Work of an edge in one head for score, exponential and indices, in multiply-adds, besides its `d_head` multiply-adds.
const EDGE: usize = 16;
/// Work below which one thread is faster than several, in multiply-adds.
const SERIAL: usize = 4 * BLOCK;

/// A checked call.
#[derive(Clone, Copy)]
struct Problem<'a> {
    edges: &'a Edges,
    n_heads: usize,
    d_head: usize,
    dropout: Option<Dropout>,
    /// Features of the sources, `[sources, n_heads, d_head]`.
    h: &'a [f32],
    scores: Scores<'a>,
}

/// The scores of the edges.
#[derive(Clone, Copy)]
enum Scores<'a> {
    /// `LeakyReLU(s_j + t_i)` from the scores of sources `[sources, n_heads]` and targets `[targets, n_heads]`.
    Nodes { sources: &'a [f32], targets: &'a [f32], slope: f32 },
    /// The scores themselves, `[edges, n_heads]`.
    Edges(&'a [f32]),
}

impl<'a> Problem<'a> {
    fn new(
        edges: &'a Edges,
        shape: GraphAttentionShape,
        options: GraphAttentionOptions,
        inputs: GraphAttentionInputs<'a>,
    ) -> Result<Self, KernelError> {
        let n_heads = shape.n_heads;
        let GraphAttentionOptions { slope, dropout } = options;
        let GraphAttentionInputs { h, source_scores, target_scores } = inputs;
        check_slope(slope)?;
        check_sizes("source scores", source_scores.len(), &[edges.n_sources(), n_heads])?;
        check_sizes("target scores", target_scores.len(), &[edges.n_targets(), n_heads])?;
        let scores = Scores::Nodes { sources: source_scores, targets: target_scores, slope };
        Self::with_scores(edges, shape, dropout, h, scores)
    }

    /// A call with scores of the edges, `[edges, n_heads]`.
    fn of_edges(
        edges: &'a Edges,
        shape: GraphAttentionShape,
        dropout: Option<Dropout>,
        h: &'a [f32],
        scores: &'a [f32],
    ) -> Result<Self, KernelError> {
        check_sizes("edge scores", scores.len(), &[edges.len(), shape.n_heads])?;
        Self::with_scores(edges, shape, dropout, h, Scores::Edges(scores))
    }

    fn with_scores(
        edges: &'a Edges,
        GraphAttentionShape { n_heads, d_head }: GraphAttentionShape,
        dropout: Option<Dropout>,
        h: &'a [f32],
        scores: Scores<'a>,
    ) -> Result<Self, KernelError> {
        if let Some(Dropout { probability, .. }) = dropout
            && !(0.0..1.0).contains(&probability)
        {
            let why = format!("probability {probability} is not in [0, 1)");
            return Err(KernelError::Invalid { what: "dropout", why });
        }
        check_sizes("h", h.len(), &[edges.n_sources(), n_heads, d_head])?;
        let dropout = dropout.filter(|dropout| dropout.probability > 0.0);
        Ok(Self { edges, n_heads, d_head, dropout, h, scores })
    }

    /// Calls `f` on all threads with blocks of rows that hold about the same number of edges.
    fn for_each_block(&self, rows: &Rows, f: impl Fn(Range<usize>) + Sync) {
        let edge = (self.n_heads * (self.d_head + EDGE)).max(1);
        if self.edges.len().saturating_mul(edge) < SERIAL {
            return f(0..rows.len());
        }
        let entries = (BLOCK / edge).max(1);
        (0..rows.blocks(entries)).into_par_iter().for_each(|block| f(rows.block(entries, block)));
    }

    /// Computes the scores `e` of the edges to a target, `[edges, n_heads]`.
    ///
    /// This and the other loops over the heads of an edge are plain Rust: usually there are fewer heads than lanes, and
    /// partial loads and stores of vectors cost more than such a loop.
    #[inline(always)]
    fn scores(&self, target: usize, out: &mut [f32]) {
        self.sums(target, out);
        if let Scores::Nodes { slope, .. } = self.scores {
            for sum in out {
                // A NaN is not above zero and comes through the product.
                *sum = if *sum > 0.0 { *sum } else { *sum * slope };
            }
        }
    }

    /// Replaces `out` by the derivatives of the scores of the edges to a target, `[edges, n_heads]`: those of the leaky ReLU,
    /// or 1 for scores of edges.
    #[inline(always)]
    fn derivatives(&self, target: usize, out: &mut [f32]) {
        match self.scores {
            Scores::Edges(_) => out.fill(1.0),
            Scores::Nodes { slope, .. } => {
                self.sums(target, out);
                for sum in out {
                    *sum = if *sum > 0.0 { 1.0 } else { slope };
                }
            }
        }
    }

    /// Computes `s_j + t_i` for the edges to a target, or copies their own scores, `[edges, n_heads]`.
    #[inline(always)]
    fn sums(&self, target: usize, out: &mut [f32]) {
        let (n_heads, incoming) = (self.n_heads, self.edges.incoming(target));
        match self.scores {
            Scores::Edges(scores) => out.copy_from_slice(&scores[incoming.start * n_heads..incoming.end * n_heads]),
            Scores::Nodes { sources, targets, .. } => {
                let target_scores = &targets[target * n_heads..(target + 1) * n_heads];
                for (edge, out) in incoming.zip(out.chunks_exact_mut(n_heads)) {
                    let source = self.edges.sources()[edge] as usize;
                    let source_scores = &sources[source * n_heads..(source + 1) * n_heads];
                    for ((out, s), t) in out.iter_mut().zip(source_scores).zip(target_scores) {
                        *out = s + t;
                    }
                }
            }
        }
    }
}

/// Returns an error unless the slope of the leaky ReLU is finite.
fn check_slope(slope: f32) -> Result<(), KernelError> {
    if slope.is_finite() {
        return Ok(());
    }
    Err(KernelError::Invalid { what: "slope of graph attention", why: format!("{slope} is not finite") })
}

/// Returns the number to subtract from scores for a maximum or log-sum-exp: itself, or 0 for −∞, so that the weights of
/// scores that are all −∞ are exp(−∞ − 0) = 0.
#[inline(always)]
fn shift(of: f32) -> f32 {
    if of == f32::NEG_INFINITY { 0.0 } else { of }
}

/// Loads `len` elements of `data` from `start` on; the lanes past them hold anything.
///
/// Loads a whole vector if the slice is long enough, since a partial load is a function call.
#[inline(always)]
fn load_part<S: Simd>(simd: S, data: &[f32], start: usize, len: usize) -> S::f32s {
    match data.get(start..start + S::F32_LANES) {
        Some(whole) => S::as_simd_f32s(whole).0[0],
        None => simd.partial_load_f32s(&data[start..start + len]),
    }
}

/// Computes `out[h] = Σ weight[h] · row[h]` over `terms`, pairs of the index of a weight `[n_heads]` and of a row
/// `[n_heads, d_head]`.
///
/// One head at a time, so that the sums stay in registers: with few features, loads and stores of the output would
/// otherwise take most of the time.
#[inline(always)]
pub(crate) fn weighted_sum<S: Simd>(
    simd: S,
    (n_heads, d_head): (usize, usize),
    terms: impl Iterator<Item = (usize, usize)> + Clone,
    weights: &[f32],
    rows: &[f32],
    out: &mut [f32],
) {
    const TILE: usize = 4;
    for (head, out) in out.chunks_exact_mut(d_head.max(1)).enumerate() {
        let (vectors, tail) = S::as_mut_simd_f32s(out);
        let count = vectors.len();
        let mut at = 0;
        while at < count {
            let size = TILE.min(count - at);
            let mut sums = [simd.splat_f32s(0.0); TILE];
            for (weight, row) in terms.clone() {
                let weight = simd.splat_f32s(weights[weight * n_heads + head]);
                let start = (row * n_heads + head) * d_head;
                let row = &S::as_simd_f32s(&rows[start..start + d_head]).0[at..];
                if size == TILE {
                    let row = &row[..TILE];
                    for i in 0..TILE {
                        sums[i] = simd.mul_add_e_f32s(weight, row[i], sums[i]);
                    }
                } else {
                    for (sum, row) in sums.iter_mut().zip(row) {
                        *sum = simd.mul_add_e_f32s(weight, *row, *sum);
                    }
                }
            }
            vectors[at..at + size].copy_from_slice(&sums[..size]);
            at += size;
        }
        if !tail.is_empty() {
            let mut sum = simd.splat_f32s(0.0);
            for (weight, row) in terms.clone() {
                let weight = simd.splat_f32s(weights[weight * n_heads + head]);
                let start = (row * n_heads + head + 1) * d_head - tail.len();
                sum = simd.mul_add_e_f32s(weight, load_part(simd, rows, start, tail.len()), sum);
            }
            simd.partial_store_f32s(tail, sum);
        }
    }
}
