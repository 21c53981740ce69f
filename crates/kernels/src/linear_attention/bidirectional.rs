//! Bidirectional attention, in which every query sees every key: there is one state for all.

use pulp::Simd;

use super::rows::{add_rows, row_dots};
use super::{Gradients, OutputGradients, Problem, multiply};
use crate::error::KernelError;
use crate::matmul::{Matrix, Output};
use crate::vector::add_scaled;

/// Writes the numerators to `out` and, with [`Normalization::Sum`](super::Normalization::Sum), the denominators to
/// `normalizer`.
#[inline(always)]
pub(super) fn forward<S: Simd>(
    simd: S,
    p: &Problem<'_>,
    out: &mut [f32],
    normalizer: &mut [f32],
) -> Result<(), KernelError> {
    let state = key_state(p)?;
    let state = Matrix::new(&state, p.d_head, p.d_value)?;
    multiply(Matrix::new(p.q, p.queries, p.d_head)?, state, out, p.d_value, Output::Replace)?;
    if p.sums() {
        let mut key_sum = vec![0.0; p.d_head];
        add_rows(simd, p.k, None, &mut key_sum);
        row_dots(simd, p.q, &key_sum, normalizer);
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
    let Problem { queries, keys, d_head, d_value, .. } = *p;
    let numerator = Matrix::new(of_output.numerator, queries, d_value)?;
    let state = key_state(p)?;
    let state = Matrix::new(&state, d_head, d_value)?;
    multiply(numerator, state.transposed(), grads.q, d_head, Output::Replace)?;
    let mut grad_state = vec![0.0; d_head * d_value];
    let q = Matrix::new(p.q, queries, d_head)?;
    multiply(q.transposed(), numerator, &mut grad_state, d_value, Output::Replace)?;
    let grad_state = Matrix::new(&grad_state, d_head, d_value)?;
    let v = Matrix::new(p.v, keys, d_value)?;
    multiply(v, grad_state.transposed(), grads.k, d_head, Output::Replace)?;
    multiply(Matrix::new(p.k, keys, d_head)?, grad_state, grads.v, d_value, Output::Replace)?;
    if p.sums() && d_head > 0 {
        let mut key_sum = vec![0.0; d_head];
        add_rows(simd, p.k, None, &mut key_sum);
        for (grad, &factor) in grads.q.chunks_mut(d_head).zip(of_output.denominator) {
            add_scaled(simd, factor, &key_sum, grad);
        }
        let mut grad_key_sum = vec![0.0; d_head];
        add_rows(simd, p.q, Some(of_output.denominator), &mut grad_key_sum);
        for grad in grads.k.chunks_mut(d_head) {
            add_scaled(simd, 1.0, &grad_key_sum, grad);
        }
    }
    Ok(())
}

/// Returns `Σ_j φ(k_j)ᵀ v_j`, `[d_head, d_value]`.
fn key_state(p: &Problem<'_>) -> Result<Vec<f32>, KernelError> {
    let mut state = vec![0.0; p.d_head * p.d_value];
    let k = Matrix::new(p.k, p.keys, p.d_head)?;
    multiply(k.transposed(), Matrix::new(p.v, p.keys, p.d_value)?, &mut state, p.d_value, Output::Replace)?;
    Ok(state)
}
