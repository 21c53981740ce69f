//! Causal attention, in which a query sees the keys up to its own position: chunk after chunk, with a running state.
//!
//! The masked product inside a chunk multiplies future values by zero, so an infinite or NaN value reaches earlier rows
//! of its chunk.

use std::ops::Range;

use pulp::Simd;

use super::rows::{add_rows, row_dots};
use super::{Gradients, OutputGradients, Problem, multiply};
use crate::error::KernelError;
use crate::matmul::{Matrix, Output};
use crate::vector::{add_scaled, sum};

/// Number of rows of a chunk: for `d_head` 64 its dense product costs as much as the state.
pub(super) const CHUNK: usize = 64;

/// Writes the numerators to `out` and, with [`Normalization::Sum`](super::Normalization::Sum), the denominators to
/// `normalizer`.
#[inline(always)]
pub(super) fn forward<S: Simd>(
    simd: S,
    p: &Problem<'_>,
    out: &mut [f32],
    normalizer: &mut [f32],
) -> Result<(), KernelError> {
    let Problem { d_head, d_value, .. } = *p;
    let mut state = State::new(d_head, d_value);
    let mut scores = Scores::new();
    for (chunk, seen) in chunks(p) {
        let (q, k, v) = (rows(p.q, &chunk, d_head)?, rows(p.k, &seen, d_head)?, rows(p.v, &seen, d_value)?);
        let out = &mut out[chunk.start * d_value..chunk.end * d_value];
        multiply(q.matrix, state.matrix()?, out, d_value, Output::Replace)?;
        multiply(scores.multiply(q.matrix, k.matrix)?, v.matrix, out, d_value, Output::Accumulate)?;
        if p.sums() {
            let normalizer = &mut normalizer[chunk];
            row_dots(simd, q.data, &state.sum, normalizer);
            for (i, d) in normalizer.iter_mut().enumerate() {
                *d += sum(simd, scores.row(i));
            }
        }
        state.add(k.matrix, v.matrix)?;
        add_rows(simd, k.data, None, &mut state.sum);
    }
    Ok(())
}

/// Computes the gradients of `φ(q)`, `φ(k)` and `v`.
#[inline(always)]
pub(super) fn backward<S: Simd>(
    simd: S,
    p: &Problem<'_>,
    of_output: OutputGradients<'_>,
    grads: &mut Gradients<'_>,
) -> Result<(), KernelError> {
    let Problem { d_head, d_value, .. } = *p;
    let mut scores = Scores::new();
    // Forward: the state has the keys and values before a query.
    let mut state = State::new(d_head, d_value);
    for (chunk, seen) in chunks(p) {
        let (k, v) = (rows(p.k, &seen, d_head)?, rows(p.v, &seen, d_value)?);
        let numerator = rows(of_output.numerator, &chunk, d_value)?;
        let denominator = &of_output.denominator[chunk.clone()];
        let grad = &mut grads.q[chunk.start * d_head..chunk.end * d_head];
        multiply(numerator.matrix, state.matrix()?.transposed(), grad, d_head, Output::Replace)?;
        let grad_scores = scores.gradient(numerator.matrix, v.matrix, denominator)?;
        multiply(grad_scores, k.matrix, grad, d_head, Output::Accumulate)?;
        if p.sums() && d_head > 0 {
            for (grad, &factor) in grad.chunks_mut(d_head).zip(denominator) {
                add_scaled(simd, factor, &state.sum, grad);
            }
        }
        state.add(k.matrix, v.matrix)?;
        add_rows(simd, k.data, None, &mut state.sum);
    }
    // Backward: the state has the queries after a key, with the gradients of their outputs.
    let mut state = State::new(d_head, d_value);
    for (chunk, seen) in chunks(p).rev() {
        let (q, k, v) = (rows(p.q, &chunk, d_head)?, rows(p.k, &seen, d_head)?, rows(p.v, &seen, d_value)?);
        let numerator = rows(of_output.numerator, &chunk, d_value)?;
        let denominator = &of_output.denominator[chunk];
        let grad_k = &mut grads.k[seen.start * d_head..seen.end * d_head];
        let grad_v = &mut grads.v[seen.start * d_value..seen.end * d_value];
        multiply(v.matrix, state.matrix()?.transposed(), grad_k, d_head, Output::Replace)?;
        multiply(k.matrix, state.matrix()?, grad_v, d_value, Output::Replace)?;
        let grad_scores = scores.gradient(numerator.matrix, v.matrix, denominator)?;
        multiply(grad_scores.transposed(), q.matrix, grad_k, d_head, Output::Accumulate)?;
        let scores = scores.multiply(q.matrix, k.matrix)?;
        multiply(scores.transposed(), numerator.matrix, grad_v, d_value, Output::Accumulate)?;
        if p.sums() && d_head > 0 {
            for grad in grad_k.chunks_mut(d_head) {
                add_scaled(simd, 1.0, &state.sum, grad);
            }
        }
        state.add(q.matrix, numerator.matrix)?;
        add_rows(simd, q.data, Some(denominator), &mut state.sum);
    }
    Ok(())
}

/// Returns consecutive ranges of at most [`CHUNK`] queries, each with the range of its keys: the same positions, without padding.
fn chunks(p: &Problem<'_>) -> impl DoubleEndedIterator<Item = (Range<usize>, Range<usize>)> {
    let (queries, keys) = (p.queries, p.keys);
    (0..queries.div_ceil(CHUNK)).map(move |i| {
        let chunk = i * CHUNK..queries.min((i + 1) * CHUNK);
        let seen = keys.min(chunk.start)..keys.min(chunk.end);
        (chunk, seen)
    })
}

/// Some rows of a row-major matrix.
struct RowRange<'a> {
    data: &'a [f32],
    matrix: Matrix<'a>,
}

fn rows<'a>(data: &'a [f32], range: &Range<usize>, width: usize) -> Result<RowRange<'a>, KernelError> {
    let data = &data[range.start * width..range.end * width];
    Ok(RowRange { data, matrix: Matrix::new(data, range.len(), width)? })
}

/// The running sums over the rows done: `Σ aᵀ b`, `[d_head, d_value]`, and a sum of rows, `[d_head]`.
struct State {
    product: Vec<f32>,
    sum: Vec<f32>,
    d_value: usize,
}

impl State {
    fn new(d_head: usize, d_value: usize) -> Self {
        Self { product: vec![0.0; d_head * d_value], sum: vec![0.0; d_head], d_value }
    }

    fn matrix(&self) -> Result<Matrix<'_>, KernelError> {
        Matrix::new(&self.product, self.sum.len(), self.d_value)
    }

    fn add(&mut self, a: Matrix<'_>, b: Matrix<'_>) -> Result<(), KernelError> {
        multiply(a.transposed(), b, &mut self.product, self.d_value, Output::Accumulate)
    }
}

/// The products of the queries and keys of a chunk, `[queries, keys]`, zero where the key comes after the query.
struct Scores {
    memory: [f32; CHUNK * CHUNK],
    queries: usize,
    keys: usize,
}

impl Scores {
    fn new() -> Self {
        Self { memory: [0.0; CHUNK * CHUNK], queries: 0, keys: 0 }
    }

    /// Computes `φ(q_i)·φ(k_j)` for `j ≤ i`.
    fn multiply(&mut self, q: Matrix<'_>, k: Matrix<'_>) -> Result<Matrix<'_>, KernelError> {
        self.product(q, k)?;
        self.masked()
    }

    /// Computes the gradients of the products: `numerator_i · v_j + denominator_i` for `j ≤ i`.
    fn gradient(
        &mut self,
        numerator: Matrix<'_>,
        v: Matrix<'_>,
        denominator: &[f32],
    ) -> Result<Matrix<'_>, KernelError> {
        self.product(numerator, v)?;
        for (i, d) in denominator.iter().enumerate() {
            self.memory[i * self.keys..(i + 1) * self.keys].iter_mut().for_each(|score| *score += d);
        }
        self.masked()
    }

    /// Returns the products of query `i`.
    fn row(&self, i: usize) -> &[f32] {
        &self.memory[i * self.keys..(i + 1) * self.keys]
    }

    fn product(&mut self, a: Matrix<'_>, b: Matrix<'_>) -> Result<(), KernelError> {
        (self.queries, self.keys) = (a.size().0, b.size().0);
        multiply(a, b.transposed(), &mut self.memory[..self.queries * self.keys], self.keys, Output::Replace)
    }

    fn masked(&mut self) -> Result<Matrix<'_>, KernelError> {
        let Self { queries, keys, .. } = *self;
        for i in 0..queries {
            self.memory[i * keys + (i + 1).min(keys)..(i + 1) * keys].fill(0.0);
        }
        Matrix::new(&self.memory[..queries * keys], queries, keys)
    }
}
