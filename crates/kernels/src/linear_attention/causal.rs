//! Causal attention, in which a query sees the keys up to its own position: chunk after chunk, with a running state.
//!
//! The masked product inside a chunk multiplies future values by zero, so an infinite or NaN value reaches earlier rows
//! of its chunk.

use std::ops::Range;

use pulp::Simd;

use super::rows::{add_rows, row_dots};
use super::{Features, Gradients, LinearAttentionShape, Problem, multiply};
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
    q: &[f32],
    k: &[f32],
    out: &mut [f32],
    normalizer: &mut [f32],
) -> Result<(), KernelError> {
    let LinearAttentionShape { d_key, d_value, .. } = p.shape;
    let mut state = State::new(d_key, d_value);
    let mut scores = Scores::default();
    for chunk in chunks(p.shape.queries) {
        let (q, k, v) = (rows(q, &chunk, d_key)?, rows(k, &chunk, d_key)?, rows(p.v, &chunk, d_value)?);
        let out = &mut out[chunk.start * d_value..chunk.end * d_value];
        multiply(q.matrix, state.matrix()?, out, d_value, Output::Replace)?;
        let scores = scores.masked(q.matrix, k.matrix, chunk.len())?;
        multiply(Matrix::new(scores, chunk.len(), chunk.len())?, v.matrix, out, d_value, Output::Accumulate)?;
        if p.sums() {
            let normalizer = &mut normalizer[chunk.clone()];
            row_dots(simd, q.data, &state.sum, normalizer);
            for (d, scores) in normalizer.iter_mut().zip(scores.chunks(chunk.len())) {
                *d += sum(simd, scores);
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
    f: Features<'_>,
    grads: &mut Gradients<'_>,
) -> Result<(), KernelError> {
    let LinearAttentionShape { queries, d_key, d_value, .. } = p.shape;
    let mut scores = Scores::default();
    // Forward: the state has the keys and values before a query.
    let mut state = State::new(d_key, d_value);
    for chunk in chunks(queries) {
        let (k, v) = (rows(f.k, &chunk, d_key)?, rows(p.v, &chunk, d_value)?);
        let numerator = rows(f.numerator, &chunk, d_value)?;
        let denominator = &f.denominator[chunk.clone()];
        let grad = &mut grads.q[chunk.start * d_key..chunk.end * d_key];
        multiply(numerator.matrix, state.matrix()?.transposed(), grad, d_key, Output::Replace)?;
        let grad_scores = scores.gradient(numerator.matrix, v.matrix, denominator)?;
        multiply(Matrix::new(grad_scores, chunk.len(), chunk.len())?, k.matrix, grad, d_key, Output::Accumulate)?;
        if p.sums() && d_key > 0 {
            for (grad, &factor) in grad.chunks_mut(d_key).zip(denominator) {
                add_scaled(simd, factor, &state.sum, grad);
            }
        }
        state.add(k.matrix, v.matrix)?;
        add_rows(simd, k.data, None, &mut state.sum);
    }
    // Backward: the state has the queries after a key, with the gradients of their outputs.
    let mut state = State::new(d_key, d_value);
    for chunk in chunks(queries).rev() {
        let (q, k, v) = (rows(f.q, &chunk, d_key)?, rows(f.k, &chunk, d_key)?, rows(p.v, &chunk, d_value)?);
        let numerator = rows(f.numerator, &chunk, d_value)?;
        let denominator = &f.denominator[chunk.clone()];
        let grad_k = &mut grads.k[chunk.start * d_key..chunk.end * d_key];
        let grad_v = &mut grads.v[chunk.start * d_value..chunk.end * d_value];
        multiply(v.matrix, state.matrix()?.transposed(), grad_k, d_key, Output::Replace)?;
        multiply(k.matrix, state.matrix()?, grad_v, d_value, Output::Replace)?;
        let grad_scores =
            Matrix::new(scores.gradient(numerator.matrix, v.matrix, denominator)?, chunk.len(), chunk.len())?;
        multiply(grad_scores.transposed(), q.matrix, grad_k, d_key, Output::Accumulate)?;
        let masked = Matrix::new(scores.masked(q.matrix, k.matrix, chunk.len())?, chunk.len(), chunk.len())?;
        multiply(masked.transposed(), numerator.matrix, grad_v, d_value, Output::Accumulate)?;
        if p.sums() && d_key > 0 {
            for grad in grad_k.chunks_mut(d_key) {
                add_scaled(simd, 1.0, &state.sum, grad);
            }
        }
        state.add(q.matrix, numerator.matrix)?;
        add_rows(simd, q.data, Some(denominator), &mut state.sum);
    }
    Ok(())
}

/// Returns consecutive ranges of at most [`CHUNK`] rows.
fn chunks(len: usize) -> impl DoubleEndedIterator<Item = Range<usize>> {
    (0..len.div_ceil(CHUNK)).map(move |i| i * CHUNK..len.min((i + 1) * CHUNK))
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

/// The running sums over the rows done: `Σ aᵀ b`, `[d_key, d_value]`, and a sum of rows, `[d_key]`.
struct State {
    product: Vec<f32>,
    sum: Vec<f32>,
    d_value: usize,
}

impl State {
    fn new(d_key: usize, d_value: usize) -> Self {
        Self { product: vec![0.0; d_key * d_value], sum: vec![0.0; d_key], d_value }
    }

    fn matrix(&self) -> Result<Matrix<'_>, KernelError> {
        Matrix::new(&self.product, self.sum.len(), self.d_value)
    }

    fn add(&mut self, a: Matrix<'_>, b: Matrix<'_>) -> Result<(), KernelError> {
        multiply(a.transposed(), b, &mut self.product, self.d_value, Output::Accumulate)
    }
}

/// Memory for the products of a chunk with itself.
struct Scores([f32; CHUNK * CHUNK]);

impl Default for Scores {
    fn default() -> Self {
        Self([0.0; CHUNK * CHUNK])
    }
}

impl Scores {
    /// Returns `φ(q_i)·φ(k_j)` for `j ≤ i`, zero elsewhere.
    fn masked(&mut self, q: Matrix<'_>, k: Matrix<'_>, len: usize) -> Result<&[f32], KernelError> {
        let scores = &mut self.0[..len * len];
        multiply(q, k.transposed(), scores, len, Output::Replace)?;
        mask(scores, len);
        Ok(scores)
    }

    /// Returns the gradient of [`Scores::masked`]: `numerator_i · v_j + denominator_i` for `j ≤ i`, zero elsewhere.
    fn gradient(&mut self, numerator: Matrix<'_>, v: Matrix<'_>, denominator: &[f32]) -> Result<&[f32], KernelError> {
        let len = denominator.len();
        let scores = &mut self.0[..len * len];
        multiply(numerator, v.transposed(), scores, len, Output::Replace)?;
        for (row, d) in scores.chunks_mut(len).zip(denominator) {
            row.iter_mut().for_each(|score| *score += d);
        }
        mask(scores, len);
        Ok(scores)
    }
}

fn mask(scores: &mut [f32], len: usize) {
    for (i, row) in scores.chunks_mut(len).enumerate() {
        row[i + 1..].fill(0.0);
    }
}
