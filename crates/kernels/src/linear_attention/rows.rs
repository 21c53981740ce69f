//! Loops over rows: reading and writing them, the feature map, the division by the denominator, sums of rows.

use pulp::Simd;

use super::FeatureMap;
use crate::attention::{View, ViewMut};
use crate::vector::{add_scaled, dot, exp_bounded, map_in_place, zip_in_place};

/// Copies the first `rows` rows of a head, each of `width` elements, so that they lie side by side.
pub(super) fn gathered(view: View<'_>, [batch, head]: [usize; 2], rows: usize, width: usize) -> Vec<f32> {
    let mut copy = Vec::with_capacity(rows * width);
    if width == 0 {
        return copy;
    }
    for i in 0..rows {
        let row = &view.data[view.offset(batch, head, i)..];
        match view.strides[3] {
            1 => copy.extend_from_slice(&row[..width]),
            stride => copy.extend((0..width).map(|at| row[at * stride])),
        }
    }
    copy
}

/// Writes rows of `width` elements that lie side by side to the rows of a head, and zeros to its other rows.
///
/// # Safety
/// No other thread uses the rows of this head.
pub(super) unsafe fn scatter(data: &[f32], width: usize, rows: usize, out: &ViewMut<'_>, [batch, head]: [usize; 2]) {
    if width == 0 {
        return;
    }
    let mut given = data.chunks_exact(width);
    for i in 0..rows {
        // SAFETY: the caller's promise, and one row at a time.
        let row = unsafe { out.row(batch, head, i, width) };
        match given.next() {
            Some(given) => row.copy_from_slice(given),
            None => row.fill(0.0),
        }
    }
}

/// Replaces `x` by `φ(x)`.
#[inline(always)]
pub(super) fn map_features<S: Simd>(simd: S, map: FeatureMap, x: &mut [f32]) {
    match map {
        FeatureMap::Identity => {}
        FeatureMap::EluPlusOne => map_in_place!(simd, x, |x| elu_plus_one(simd, x)),
    }
}

#[inline(always)]
fn elu_plus_one<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let zero = simd.splat_f32s(0.0);
    let positive = simd.greater_than_f32s(x, zero);
    let below = exp_bounded(simd, simd.select_f32s(positive, zero, x));
    simd.select_f32s(positive, simd.add_f32s(x, simd.splat_f32s(1.0)), below)
}

/// Multiplies `grad` by `φ'(x)` for `φ = elu + 1`, given `φ(x)`: `φ'` is `φ` below one, and 1 above.
#[inline(always)]
pub(super) fn multiply_by_derivative<S: Simd>(simd: S, phi: &[f32], grad: &mut [f32]) {
    let one = simd.splat_f32s(1.0);
    zip_in_place!(simd, grad, phi, |grad, phi| {
        let above = simd.greater_than_f32s(phi, one);
        simd.mul_f32s(grad, simd.select_f32s(above, one, phi))
    });
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
            map_in_place!(simd, row, |x| simd.div_f32s(x, d));
        }
    }
}

/// The division `out_i = numerator_i / D_i`.
pub(super) struct DivideOutput<'a> {
    pub(super) out: &'a [f32],
    pub(super) normalizer: &'a [f32],
    pub(super) d_value: usize,
    /// Whether `D_i` depends on queries and keys, so that it has a gradient.
    pub(super) sums: bool,
}

impl DivideOutput<'_> {
    /// Turns the gradients of the outputs into those of the numerators, `grad_i / D_i`, and of the denominators,
    /// `−(grad_i · out_i) / D_i`.
    #[inline(always)]
    pub(super) fn backward<S: Simd>(&self, simd: S, grad: Vec<f32>) -> (Vec<f32>, Vec<f32>) {
        let mut numerator = grad;
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

/// Adds `Σ_i factors[i] · rows[i]` to `sum`; without `factors` they are 1.
#[inline(always)]
pub(super) fn add_rows<S: Simd>(simd: S, rows: &[f32], factors: Option<&[f32]>, sum: &mut [f32]) {
    if sum.is_empty() {
        return;
    }
    for (i, row) in rows.chunks(sum.len()).enumerate() {
        add_scaled(simd, factors.map_or(1.0, |factors| factors[i]), row, sum);
    }
}

/// Computes the inner products `out[i] = rows[i] · vector`.
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
