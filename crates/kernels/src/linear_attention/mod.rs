//! Attention without a softmax, linear in the length of the sequence (Katharopoulos et al. 2020).
//!
//! ```text
//! o_i = Σ_j (φ(q_i)·φ(k_j)) v_j / D_i = φ(q_i) (Σ_j φ(k_j)ᵀ v_j) / D_i
//! ```
//!
//! `j` runs over all keys, or over `j ≤ i` if causal, up to the length of the sequence. The sum in brackets is a state
//! `[d_head, d_value]`, so nothing of size `queries × keys` is ever stored. Causal attention goes through the sequence in
//! chunks, with a dense masked product inside a chunk and a running state between chunks; its backward pass goes forward
//! once more for the queries, and backward for keys and values.
//!
//! If `D_i` is zero, the output is zero, and so is every gradient through it. Keys and values beyond the length of their
//! sequence are never read; their gradients are zero.

mod bidirectional;
mod causal;
mod rows;
#[cfg(test)]
mod tests;

use std::ops::Range;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use self::rows::{DivideOutput, gathered, map_features, multiply_by_derivative, scatter};
use crate::attention::{AttentionOptions, AttentionShape, View, ViewMut};
use crate::error::{KernelError, check_len};
use crate::isa::dispatch;
use crate::matmul::{Matrix, Output, Threads, matmul};
use crate::shared_slice::SharedSlice;
use crate::vector::add_scaled;

/// The map `φ` of queries and keys, element by element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureMap {
    /// `φ(x) = x`.
    Identity,
    /// `φ(x) = elu(x) + 1`: `x + 1` above zero, `exp(x)` below.
    EluPlusOne,
}

/// The choice of the denominator `D_i`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalization {
    /// `Σ_j φ(q_i)·φ(k_j)`.
    Sum,
    /// The number of keys in the sum: all, or `i + 1` if causal, but at most the length of the sequence.
    Length,
    /// The number 1.
    None,
}

/// The keys that a query sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// All keys.
    Bidirectional,
    /// The keys up to the query's own position.
    Causal,
}

/// Options of linear attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinearAttentionOptions {
    /// The map of queries and keys.
    pub feature_map: FeatureMap,
    /// The denominator.
    pub normalization: Normalization,
    /// The keys that a query sees.
    pub direction: Direction,
}

/// Where [`linear_attention_backward`] writes the gradients, each with the shape of its input.
pub struct LinearAttentionGradients<'a> {
    /// Gradient of the queries.
    pub q: ViewMut<'a>,
    /// Gradient of the keys.
    pub k: ViewMut<'a>,
    /// Gradient of the values.
    pub v: ViewMut<'a>,
}

/// Computes the outputs, and the denominators for [`linear_attention_backward`]. `lengths` is the number of keys of each
/// sequence; without it, all keys count.
///
/// # Shapes
/// `q` `[batch, n_heads, queries, d_head]`, `k` `[batch, kv_heads, keys, d_head]`, `v` `[batch, kv_heads, keys, d_value]`,
/// `lengths` `[batch]`; out: `out` `[batch, n_heads, queries, d_value]` and `normalizer` (`D_i`) `[batch, n_heads, queries]`.
#[allow(clippy::too_many_arguments)]
pub fn linear_attention_forward(
    shape: AttentionShape,
    options: LinearAttentionOptions,
    lengths: Option<&[usize]>,
    q: View<'_>,
    k: View<'_>,
    v: View<'_>,
    out: ViewMut<'_>,
    normalizer: &mut [f32],
) -> Result<(), KernelError> {
    check(shape, options, lengths, [q, k, v])?;
    out.check("out", shape.output_shape())?;
    check_len("normalizer", normalizer.len(), shape.rows())?;
    let normalizer = SharedSlice::new(normalizer);
    (0..shape.batch * shape.kv_heads).into_par_iter().try_for_each(|index| {
        let group = Group::new(shape, options, lengths, [q, k, v], index);
        dispatch(Forward { group, out: &out, normalizer })
    })
}

/// Computes the gradients of queries, keys and values from those of the outputs.
///
/// # Shapes
/// The shapes of [`linear_attention_forward`], with its results in `out` and `normalizer`; `grad` is like `out`.
#[allow(clippy::too_many_arguments)]
pub fn linear_attention_backward(
    shape: AttentionShape,
    options: LinearAttentionOptions,
    lengths: Option<&[usize]>,
    q: View<'_>,
    k: View<'_>,
    v: View<'_>,
    out: View<'_>,
    normalizer: &[f32],
    grad: View<'_>,
    grads: LinearAttentionGradients<'_>,
) -> Result<(), KernelError> {
    check(shape, options, lengths, [q, k, v])?;
    out.check("out", shape.output_shape())?;
    check_len("normalizer", normalizer.len(), shape.rows())?;
    grad.check("grad", shape.output_shape())?;
    grads.q.check("grad_q", shape.query_shape())?;
    grads.k.check("grad_k", shape.key_shape())?;
    grads.v.check("grad_v", shape.value_shape())?;
    (0..shape.batch * shape.kv_heads).into_par_iter().try_for_each(|index| {
        let group = Group::new(shape, options, lengths, [q, k, v], index);
        dispatch(Backward { group, out, normalizer, grad, grads: &grads })
    })
}

fn check(
    shape: AttentionShape,
    options: LinearAttentionOptions,
    lengths: Option<&[usize]>,
    [q, k, v]: [View<'_>; 3],
) -> Result<(), KernelError> {
    if options.direction == Direction::Causal && shape.queries != shape.keys {
        let why = format!("causal attention needs as many queries as keys, got {} and {}", shape.queries, shape.keys);
        return Err(KernelError::Invalid { what: "linear attention", why });
    }
    AttentionOptions { lengths, ..AttentionOptions::default() }.validate(&shape)?;
    q.check("q", shape.query_shape())?;
    k.check("k", shape.key_shape())?;
    v.check("v", shape.value_shape())
}

/// A key head of one sequence, with the query heads that use it.
#[derive(Clone, Copy)]
struct Group<'a> {
    shape: AttentionShape,
    options: LinearAttentionOptions,
    q: View<'a>,
    k: View<'a>,
    v: View<'a>,
    /// Index of the sequence.
    batch: usize,
    /// Index of the key head.
    kv_head: usize,
    /// Number of keys without padding.
    keys: usize,
}

impl<'a> Group<'a> {
    fn new(
        shape: AttentionShape,
        options: LinearAttentionOptions,
        lengths: Option<&[usize]>,
        [q, k, v]: [View<'a>; 3],
        index: usize,
    ) -> Self {
        let (batch, kv_head) = (index / shape.kv_heads, index % shape.kv_heads);
        let keys = lengths.map_or(shape.keys, |lengths| lengths[batch]);
        Self { shape, options, q, k, v, batch, kv_head, keys }
    }

    /// Returns the query heads of the group.
    fn heads(&self) -> Range<usize> {
        let size = self.shape.group();
        self.kv_head * size..(self.kv_head + 1) * size
    }

    /// Returns the place of a query head's denominators.
    fn normalizer(&self, head: usize) -> Range<usize> {
        let first = (self.batch * self.shape.n_heads + head) * self.shape.queries;
        first..first + self.shape.queries
    }

    /// Returns `φ(q)` of a query head, `[queries, d_head]`.
    #[inline(always)]
    fn queries<S: Simd>(&self, simd: S, head: usize) -> Vec<f32> {
        let mut q = gathered(self.q, [self.batch, head], self.shape.queries, self.shape.d_head);
        map_features(simd, self.options.feature_map, &mut q);
        q
    }

    /// Returns `φ(k)`, `[keys, d_head]`, and `v`, `[keys, d_value]`, without padding.
    #[inline(always)]
    fn keys_values<S: Simd>(&self, simd: S) -> (Vec<f32>, Vec<f32>) {
        let mut k = gathered(self.k, [self.batch, self.kv_head], self.keys, self.shape.d_head);
        map_features(simd, self.options.feature_map, &mut k);
        (k, gathered(self.v, [self.batch, self.kv_head], self.keys, self.shape.d_value))
    }

    /// Returns the problem of one query head.
    fn problem<'b>(&self, q: &'b [f32], k: &'b [f32], v: &'b [f32]) -> Problem<'b> {
        let AttentionShape { queries, d_head, d_value, .. } = self.shape;
        Problem { options: self.options, queries, keys: self.keys, d_head, d_value, q, k, v }
    }
}

/// The attention of one query head, without padding.
#[derive(Clone, Copy)]
struct Problem<'a> {
    options: LinearAttentionOptions,
    queries: usize,
    keys: usize,
    d_head: usize,
    d_value: usize,
    /// `φ(q)`, `[queries, d_head]`.
    q: &'a [f32],
    /// `φ(k)`, `[keys, d_head]`.
    k: &'a [f32],
    /// Values, `[keys, d_value]`.
    v: &'a [f32],
}

impl Problem<'_> {
    /// Returns whether the denominator depends on queries and keys.
    fn sums(&self) -> bool {
        self.options.normalization == Normalization::Sum
    }

    /// Returns `D_i` if it does not depend on queries and keys.
    fn fixed_denominator(&self, row: usize) -> f32 {
        match (self.options.normalization, self.options.direction) {
            (Normalization::Length, Direction::Bidirectional) => self.keys as f32,
            (Normalization::Length, Direction::Causal) => (row + 1).min(self.keys) as f32,
            (Normalization::Sum | Normalization::None, _) => 1.0,
        }
    }
}

struct Forward<'a> {
    group: Group<'a>,
    out: &'a ViewMut<'a>,
    normalizer: SharedSlice<'a>,
}

impl WithSimd for Forward<'_> {
    type Output = Result<(), KernelError>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let Self { group, out: all, normalizer } = self;
        let (k, v) = group.keys_values(simd);
        let mut out = vec![0.0; group.shape.queries * group.shape.d_value];
        for head in group.heads() {
            let q = group.queries(simd, head);
            let p = group.problem(&q, &k, &v);
            let place = group.normalizer(head);
            // SAFETY: a query head belongs to one group, and the denominators of different heads do not overlap.
            let normalizer = unsafe { normalizer.slice(place.start, place.len()) };
            match p.options.direction {
                Direction::Bidirectional => bidirectional::forward(simd, &p, &mut out, normalizer)?,
                Direction::Causal => causal::forward(simd, &p, &mut out, normalizer)?,
            }
            if !p.sums() {
                normalizer.iter_mut().enumerate().for_each(|(i, d)| *d = p.fixed_denominator(i));
            }
            rows::divide(simd, &mut out, normalizer, p.d_value);
            // SAFETY: a query head belongs to one group, so no other thread writes its rows.
            unsafe { scatter(&out, p.d_value, p.queries, all, [group.batch, head]) };
        }
        Ok(())
    }
}

/// Where the gradients of one problem are written.
struct Gradients<'a> {
    q: &'a mut [f32],
    k: &'a mut [f32],
    v: &'a mut [f32],
}

struct Backward<'a> {
    group: Group<'a>,
    out: View<'a>,
    normalizer: &'a [f32],
    grad: View<'a>,
    grads: &'a LinearAttentionGradients<'a>,
}

impl WithSimd for Backward<'_> {
    type Output = Result<(), KernelError>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let Self { group, out, normalizer, grad, grads } = self;
        let AttentionShape { queries, keys, d_head, d_value, .. } = group.shape;
        let is_elu = group.options.feature_map == FeatureMap::EluPlusOne;
        let (k, v) = group.keys_values(simd);
        let mut grad_q = vec![0.0; queries * d_head];
        // The sums over the query heads of the group, and the part of one head.
        let (mut sum_k, mut sum_v) = (vec![0.0; k.len()], vec![0.0; v.len()]);
        let (mut grad_k, mut grad_v) = (vec![0.0; k.len()], vec![0.0; v.len()]);
        for (n, head) in group.heads().enumerate() {
            let q = group.queries(simd, head);
            let p = group.problem(&q, &k, &v);
            let out = gathered(out, [group.batch, head], queries, d_value);
            let grad = gathered(grad, [group.batch, head], queries, d_value);
            let normalizer = &normalizer[group.normalizer(head)];
            let (numerator, denominator) =
                DivideOutput { out: &out, normalizer, d_value, sums: p.sums() }.backward(simd, grad);
            let of_output = OutputGradients { numerator: &numerator, denominator: &denominator };
            let mut own = Gradients { q: &mut grad_q, k: &mut grad_k, v: &mut grad_v };
            match p.options.direction {
                Direction::Bidirectional => bidirectional::backward(simd, &p, of_output, &mut own)?,
                Direction::Causal => causal::backward(simd, &p, of_output, &mut own)?,
            }
            if is_elu {
                multiply_by_derivative(simd, &q, &mut grad_q);
            }
            // SAFETY: a query head belongs to one group, so no other thread writes its rows.
            unsafe { scatter(&grad_q, d_head, queries, &grads.q, [group.batch, head]) };
            if n == 0 {
                std::mem::swap(&mut sum_k, &mut grad_k);
                std::mem::swap(&mut sum_v, &mut grad_v);
            } else {
                add_scaled(simd, 1.0, &grad_k, &mut sum_k);
                add_scaled(simd, 1.0, &grad_v, &mut sum_v);
            }
        }
        if is_elu {
            multiply_by_derivative(simd, &k, &mut sum_k);
        }
        let place = [group.batch, group.kv_head];
        // SAFETY: the group is the only one with this key head, so no other thread writes its rows.
        unsafe {
            scatter(&sum_k, d_head, keys, &grads.k, place);
            scatter(&sum_v, d_value, keys, &grads.v, place);
        }
        Ok(())
    }
}

/// The gradients of the numerators, `[queries, d_value]`, and of the denominators, `[queries]`.
#[derive(Clone, Copy)]
struct OutputGradients<'a> {
    numerator: &'a [f32],
    denominator: &'a [f32],
}

/// Computes a row-major matrix product on this thread.
fn multiply(a: Matrix<'_>, b: Matrix<'_>, out: &mut [f32], columns: usize, output: Output) -> Result<(), KernelError> {
    matmul(a, b, out, columns, output, Threads::One)
}
