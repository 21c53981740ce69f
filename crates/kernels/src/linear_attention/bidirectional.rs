//! Bidirectional attention, in which every query sees every key: there is one state for all.

use pulp::Simd;

use super::rows::{add_rows, row_dots};
use super::{Features, Gradients, LinearAttentionShape, Problem, multiply};
use crate::error::KernelError;
use crate::matmul::{Matrix, Output};
use crate::vector::add_scaled;

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
    let LinearAttentionShape { queries, d_key, d_value, .. } = p.shape;
    let state = key_state(p, k)?;
    let state = Matrix::new(&state, d_key, d_value)?;
    multiply(Matrix::new(q, queries, d_key)?, state, out, d_value, Output::Replace)?;
    if p.sums() {
        let mut key_sum = vec![0.0; d_key];
        add_rows(simd, k, None, &mut key_sum);
        row_dots(simd, q, &key_sum, normalizer);
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
    let LinearAttentionShape { queries, keys, d_key, d_value, .. } = p.shape;
    let numerator = Matrix::new(f.numerator, queries, d_value)?;
    let state = key_state(p, f.k)?;
    let state = Matrix::new(&state, d_key, d_value)?;
    multiply(numerator, state.transposed(), grads.q, d_key, Output::Replace)?;
    let mut grad_state = vec![0.0; d_key * d_value];
    let q = Matrix::new(f.q, queries, d_key)?;
    multiply(q.transposed(), numerator, &mut grad_state, d_value, Output::Replace)?;
    let grad_state = Matrix::new(&grad_state, d_key, d_value)?;
    let v = Matrix::new(p.v, keys, d_value)?;
    multiply(v, grad_state.transposed(), grads.k, d_key, Output::Replace)?;
    multiply(Matrix::new(f.k, keys, d_key)?, grad_state, grads.v, d_value, Output::Replace)?;
    if p.sums() && d_key > 0 {
        let mut key_sum = vec![0.0; d_key];
        add_rows(simd, f.k, None, &mut key_sum);
        for (grad, &factor) in grads.q.chunks_mut(d_key).zip(f.denominator) {
            add_scaled(simd, factor, &key_sum, grad);
        }
        let mut grad_key_sum = vec![0.0; d_key];
        add_rows(simd, f.q, Some(f.denominator), &mut grad_key_sum);
        for grad in grads.k.chunks_mut(d_key) {
            add_scaled(simd, 1.0, &grad_key_sum, grad);
        }
    }
    Ok(())
}

/// Returns `Σ_j φ(k_j)ᵀ v_j`, `[d_key, d_value]`.
fn key_state(p: &Problem<'_>, k: &[f32]) -> Result<Vec<f32>, KernelError> {
    let LinearAttentionShape { keys, d_key, d_value, .. } = p.shape;
    let mut state = vec![0.0; d_key * d_value];
    let k = Matrix::new(k, keys, d_key)?;
    multiply(k.transposed(), Matrix::new(p.v, keys, d_value)?, &mut state, d_value, Output::Replace)?;
    Ok(state)
}
