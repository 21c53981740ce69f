//! Attention without a softmax, linear in the length of the sequence (Katharopoulos et al. 2020).
//!
//! ```text
//! o_i = Σ_j (φ(q_i)·φ(k_j)) v_j / D_i = φ(q_i) (Σ_j φ(k_j)ᵀ v_j) / D_i
//! ```
//!
//! `j` runs over all keys, or over `j ≤ i` if causal. The sum in brackets is a state `[d_key, d_value]`, so nothing of size
//! `queries × keys` is ever stored. Causal attention goes through the sequence in chunks, with a dense masked product
//! inside a chunk and a running state between chunks; its backward pass goes forward once more for the queries, and
//! backward for keys and values.
//!
//! If `D_i` is zero, the output is zero, and so is every gradient through it.

mod bidirectional;
mod causal;
mod rows;
#[cfg(test)]
mod tests;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use self::rows::{DivideOutput, multiply_by_derivative};
use crate::error::{KernelError, check_sizes};
use crate::isa::dispatch;
use crate::matmul::{Matrix, Output, Threads, matmul};
use crate::shared_slice::SharedSlice;

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
    /// The number of keys in the sum: all, or `i + 1` if causal.
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

/// The sizes of linear attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinearAttentionShape {
    /// Number of independent problems, batch · heads.
    pub outer: usize,
    /// Number of queries in each problem.
    pub queries: usize,
    /// Number of keys and of values in each problem.
    pub keys: usize,
    /// Number of features of a query and of a key.
    pub d_key: usize,
    /// Number of features of a value.
    pub d_value: usize,
}

/// Computes the outputs, and the denominators for [`linear_attention_backward`].
///
/// # Shapes
/// `q` `[outer, queries, d_key]`, `k` `[outer, keys, d_key]`, `v` `[outer, keys, d_value]`; out: `out`
/// `[outer, queries, d_value]` and `normalizer` (`D_i`) `[outer, queries]`.
pub fn linear_attention_forward(
    shape: LinearAttentionShape,
    options: LinearAttentionOptions,
    q: &[f32],
    k: &[f32],
    v: &[f32],
    out: &mut [f32],
    normalizer: &mut [f32],
) -> Result<(), KernelError> {
    check(shape, options, q, k, v, out, normalizer)?;
    let LinearAttentionShape { queries, d_value, .. } = shape;
    let (out, normalizer) = (SharedSlice::new(out), SharedSlice::new(normalizer));
    (0..shape.outer).into_par_iter().try_for_each(|index| {
        let problem = Problem::new(shape, options, q, k, v, index);
        // SAFETY: the ranges of different indices do not overlap.
        let (out, normalizer) = unsafe {
            (out.slice(index * queries * d_value, queries * d_value), normalizer.slice(index * queries, queries))
        };
        dispatch(Forward { problem, out, normalizer })
    })
}

/// Computes the gradients of queries, keys and values from those of the outputs.
///
/// # Shapes
/// The shapes of [`linear_attention_forward`], with its results in `out` and `normalizer`; `grad` is like `out`, `grad_q` like
/// `q`, `grad_k` like `k`, `grad_v` like `v`.
#[allow(clippy::too_many_arguments)]
pub fn linear_attention_backward(
    shape: LinearAttentionShape,
    options: LinearAttentionOptions,
    q: &[f32],
    k: &[f32],
    v: &[f32],
    out: &[f32],
    normalizer: &[f32],
    grad: &[f32],
    grad_q: &mut [f32],
    grad_k: &mut [f32],
    grad_v: &mut [f32],
) -> Result<(), KernelError> {
    check(shape, options, q, k, v, out, normalizer)?;
    let LinearAttentionShape { outer, queries, keys, d_key, d_value } = shape;
    check_sizes("grad", grad.len(), &[outer, queries, d_value])?;
    check_sizes("grad_q", grad_q.len(), &[outer, queries, d_key])?;
    check_sizes("grad_k", grad_k.len(), &[outer, keys, d_key])?;
    check_sizes("grad_v", grad_v.len(), &[outer, keys, d_value])?;
    let (grad_q, grad_k, grad_v) = (SharedSlice::new(grad_q), SharedSlice::new(grad_k), SharedSlice::new(grad_v));
    (0..outer).into_par_iter().try_for_each(|index| {
        let part = |len: usize| index * len..(index + 1) * len;
        let backward = Backward {
            problem: Problem::new(shape, options, q, k, v, index),
            out: &out[part(queries * d_value)],
            normalizer: &normalizer[part(queries)],
            grad: &grad[part(queries * d_value)],
            // SAFETY: the ranges of different indices do not overlap.
            grads: unsafe {
                Gradients {
                    q: grad_q.slice(index * queries * d_key, queries * d_key),
                    k: grad_k.slice(index * keys * d_key, keys * d_key),
                    v: grad_v.slice(index * keys * d_value, keys * d_value),
                }
            },
        };
        dispatch(backward)
    })
}

fn check(
    shape: LinearAttentionShape,
    options: LinearAttentionOptions,
    q: &[f32],
    k: &[f32],
    v: &[f32],
    out: &[f32],
    normalizer: &[f32],
) -> Result<(), KernelError> {
    let LinearAttentionShape { outer, queries, keys, d_key, d_value } = shape;
    if options.direction == Direction::Causal && queries != keys {
        let why = format!("causal attention needs as many queries as keys, got {queries} and {keys}");
        return Err(KernelError::Invalid { what: "linear attention", why });
    }
    check_sizes("q", q.len(), &[outer, queries, d_key])?;
    check_sizes("k", k.len(), &[outer, keys, d_key])?;
    check_sizes("v", v.len(), &[outer, keys, d_value])?;
    check_sizes("out", out.len(), &[outer, queries, d_value])?;
    check_sizes("normalizer", normalizer.len(), &[outer, queries])
}

/// One of the independent problems.
#[derive(Clone, Copy)]
struct Problem<'a> {
    shape: LinearAttentionShape,
    options: LinearAttentionOptions,
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
}

impl<'a> Problem<'a> {
    fn new(
        shape: LinearAttentionShape,
        options: LinearAttentionOptions,
        q: &'a [f32],
        k: &'a [f32],
        v: &'a [f32],
        index: usize,
    ) -> Self {
        let part = |len: usize| index * len..(index + 1) * len;
        let LinearAttentionShape { queries, keys, d_key, d_value, .. } = shape;
        Self { shape, options, q: &q[part(queries * d_key)], k: &k[part(keys * d_key)], v: &v[part(keys * d_value)] }
    }

    /// Returns whether the denominator depends on queries and keys.
    fn sums(&self) -> bool {
        self.options.normalization == Normalization::Sum
    }

    /// Returns `D_i` if it does not depend on queries and keys.
    fn fixed_denominator(&self, row: usize) -> f32 {
        match (self.options.normalization, self.options.direction) {
            (Normalization::Length, Direction::Bidirectional) => self.shape.keys as f32,
            (Normalization::Length, Direction::Causal) => (row + 1) as f32,
            (Normalization::Sum | Normalization::None, _) => 1.0,
        }
    }
}

struct Forward<'a> {
    problem: Problem<'a>,
    out: &'a mut [f32],
    normalizer: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
    type Output = Result<(), KernelError>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let Self { problem: p, out, normalizer } = self;
        let (mut q_memory, mut k_memory) = (Vec::new(), Vec::new());
        let q = rows::features(simd, p.options.feature_map, p.q, &mut q_memory);
        let k = rows::features(simd, p.options.feature_map, p.k, &mut k_memory);
        match p.options.direction {
            Direction::Bidirectional => bidirectional::forward(simd, &p, q, k, out, normalizer)?,
            Direction::Causal => causal::forward(simd, &p, q, k, out, normalizer)?,
        }
        if !p.sums() {
            normalizer.iter_mut().enumerate().for_each(|(i, d)| *d = p.fixed_denominator(i));
        }
        rows::divide(simd, out, normalizer, p.shape.d_value);
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
    problem: Problem<'a>,
    out: &'a [f32],
    normalizer: &'a [f32],
    grad: &'a [f32],
    grads: Gradients<'a>,
}

impl WithSimd for Backward<'_> {
    type Output = Result<(), KernelError>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let Self { problem: p, out, normalizer, grad, mut grads } = self;
        let (mut q_memory, mut k_memory) = (Vec::new(), Vec::new());
        let q = rows::features(simd, p.options.feature_map, p.q, &mut q_memory);
        let k = rows::features(simd, p.options.feature_map, p.k, &mut k_memory);
        let divide = DivideOutput { out, normalizer, grad, d_value: p.shape.d_value, sums: p.sums() };
        let (numerator, denominator) = divide.backward(simd);
        let features = Features { q, k, numerator: &numerator, denominator: &denominator };
        match p.options.direction {
            Direction::Bidirectional => bidirectional::backward(simd, &p, features, &mut grads)?,
            Direction::Causal => causal::backward(simd, &p, features, &mut grads)?,
        }
        if p.options.feature_map == FeatureMap::EluPlusOne {
            multiply_by_derivative(simd, q, grads.q);
            multiply_by_derivative(simd, k, grads.k);
        }
        Ok(())
    }
}

/// `φ(q)`, `φ(k)`, and the gradients of numerators `[queries, d_value]` and denominators `[queries]`.
#[derive(Clone, Copy)]
struct Features<'a> {
    q: &'a [f32],
    k: &'a [f32],
    numerator: &'a [f32],
    denominator: &'a [f32],
}

/// Computes a row-major matrix product on this thread.
fn multiply(a: Matrix<'_>, b: Matrix<'_>, out: &mut [f32], columns: usize, output: Output) -> Result<(), KernelError> {
    matmul(a, b, out, columns, output, Threads::One)
}
