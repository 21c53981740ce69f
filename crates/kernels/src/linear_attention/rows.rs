//! Loops over rows: feature map, division by the denominator, sums of rows.

use pulp::Simd;

use super::FeatureMap;
use crate::vector::{add_scaled, dot, exp_bounded};

/// `φ(x)`: `x` itself, or in `memory`.
#[inline(always)]
pub(super) fn features<'a, S: Simd>(simd: S, map: FeatureMap, x: &'a [f32], memory: &'a mut Vec<f32>) -> &'a [f32] {
    match map {
        FeatureMap::Identity => x,
        FeatureMap::EluPlusOne => {
            memory.resize(x.len(), 0.0);
            let (x, x_tail) = S::as_simd_f32s(x);
            let (out, out_tail) = S::as_mut_simd_f32s(memory);
            for (out, x) in out.iter_mut().zip(x) {
                *out = elu_plus_one(simd, *x);
            }
            simd.partial_store_f32s(out_tail, elu_plus_one(simd, simd.partial_load_f32s(x_tail)));
            memory
        }
    }
}

#[inline(always)]
fn elu_plus_one<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let zero = simd.splat_f32s(0.0);
    let positive = simd.greater_than_f32s(x, zero);
    let below = exp_bounded(simd, simd.select_f32s(positive, zero, x));
    simd.select_f32s(positive, simd.add_f32s(x, simd.splat_f32s(1.0)), below)
}

/// `grad ∘= φ'(x)` for `φ = elu + 1`, given `φ(x)`: `φ' = φ` below one, and 1 above.
#[inline(always)]
pub(super) fn multiply_by_derivative<S: Simd>(simd: S, phi: &[f32], grad: &mut [f32]) {
    let (phi, phi_tail) = S::as_simd_f32s(phi);
    let (grad, grad_tail) = S::as_mut_simd_f32s(grad);
    for (grad, phi) in grad.iter_mut().zip(phi) {
        *grad = through_elu(simd, *phi, *grad);
    }
    let value = through_elu(simd, simd.partial_load_f32s(phi_tail), simd.partial_load_f32s(grad_tail));
    simd.partial_store_f32s(grad_tail, value);
}

#[inline(always)]
fn through_elu<S: Simd>(simd: S, phi: S::f32s, grad: S::f32s) -> S::f32s {
    let one = simd.splat_f32s(1.0);
    let above = simd.greater_than_f32s(phi, one);
    simd.mul_f32s(grad, simd.select_f32s(above, one, phi))
}

/// Divides each row by its denominator; a row with denominator zero becomes zero.
#[inline(always)]
pub(super) fn divide<S: Simd>(simd: S, rows: &mut [f32], denominators: &[f32], width: usize) {
    if width == 0 {
        return;
    }
    for (row, &d) in rows.chunks_mut(width).zip(denominators) {
        if d == 0.0 {
            row.fill(0.0);
        } else {
            let d = simd.splat_f32s(d);
            let (row, tail) = S::as_mut_simd_f32s(row);
            for x in row {
                *x = simd.div_f32s(*x, d);
            }
            let rest = simd.div_f32s(simd.partial_load_f32s(tail), d);
            simd.partial_store_f32s(tail, rest);
        }
    }
}

/// `out_i = numerator_i / D_i` and what came of it.
pub(super) struct DivideOutput<'a> {
    pub(super) out: &'a [f32],
    pub(super) normalizer: &'a [f32],
    pub(super) grad: &'a [f32],
    pub(super) d_value: usize,
    /// Whether `D_i` is differentiated.
    pub(super) sums: bool,
}

impl DivideOutput<'_> {
    /// The gradients of the numerators, `grad_i / D_i`, and of the denominators, `−(grad_i · out_i) / D_i`.
    #[inline(always)]
    pub(super) fn backward<S: Simd>(&self, simd: S) -> (Vec<f32>, Vec<f32>) {
        let mut numerator = self.grad.to_vec();
        divide(simd, &mut numerator, self.normalizer, self.d_value);
        let mut denominator = vec![0.0; self.normalizer.len()];
        if self.sums && self.d_value > 0 {
            let rows = numerator.chunks(self.d_value).zip(self.out.chunks(self.d_value));
            for (d, (numerator, out)) in denominator.iter_mut().zip(rows) {
                *d = -dot(simd, numerator, out);
            }
        }
        (numerator, denominator)
    }
}

/// `sum += Σ_i factors[i] · rows[i]`, the factors 1 where there are none.
#[inline(always)]
pub(super) fn add_rows<S: Simd>(simd: S, rows: &[f32], factors: Option<&[f32]>, sum: &mut [f32]) {
    if sum.is_empty() {
        return;
    }
    for (i, row) in rows.chunks(sum.len()).enumerate() {
        add_scaled(simd, factors.map_or(1.0, |factors| factors[i]), row, sum);
    }
}

/// `out[i] = rows[i] · vector`.
#[inline(always)]
pub(super) fn row_dots<S: Simd>(simd: S, rows: &[f32], vector: &[f32], out: &mut [f32]) {
    if vector.is_empty() {
        out.fill(0.0);
        return;
    }
    for (out, row) in out.iter_mut().zip(rows.chunks(vector.len())) {
        *out = dot(simd, row, vector);
    }
}
