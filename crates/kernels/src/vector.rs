//! Elementary functions and loops over slices, generic over the instruction set.
//!
//! Every function is `inline(always)`, so that it becomes part of the kernel that [`crate::isa::dispatch`] compiles.
//! A NaN argument gives a NaN, unless a function says otherwise.

use pulp::Simd;

/// `exp(x)` to 2 ulp; 0 below −87.33, infinite above 88.37, NaN for NaN.
#[inline(always)]
pub(crate) fn exp<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let overflow = simd.greater_than_f32s(x, simd.splat_f32s(88.37));
    simd.select_f32s(overflow, simd.splat_f32s(f32::INFINITY), exp_bounded(simd, x))
}

/// `exp(x)` for `x` of at most 88.37 (or NaN), as in a softmax; `exp(−∞)` is 0.
#[inline(always)]
pub(crate) fn exp_bounded<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    // Adding 1.5·2²³ + 127 rounds x·log₂e to an integer n and leaves n + 127 in the low bits, where the shift by 23
    // turns it into the exponent of 2ⁿ.
    const MAGIC: f32 = 12_582_912.0 + 127.0;
    let shifted = simd.mul_add_e_f32s(x, simd.splat_f32s(std::f32::consts::LOG2_E), simd.splat_f32s(MAGIC));
    let n = simd.sub_f32s(shifted, simd.splat_f32s(MAGIC));
    let r = simd.mul_add_e_f32s(n, simd.splat_f32s(-0.693_359_4), x);
    let r = simd.mul_add_e_f32s(n, simd.splat_f32s(2.121_944_4e-4), r);
    // Minimax on |r| ≤ ln 2 / 2 for (eʳ − 1 − r) / r², relative error 3e-9.
    let p = polynomial(simd, r, &[0.499_999_94, 0.166_665_21, 0.041_668_39, 0.008_368_716, 0.001_381_459_6]);
    let p = simd.add_f32s(simd.mul_add_e_f32s(p, simd.mul_f32s(r, r), r), simd.splat_f32s(1.0));
    let exponent = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(shifted), simd.splat_u32s(23));
    let value = simd.mul_f32s(p, simd.transmute_f32s_u32s(exponent));
    let underflow = simd.less_than_f32s(x, simd.splat_f32s(-87.33));
    simd.select_f32s(underflow, simd.splat_f32s(0.0), value)
}

/// `tanh(x)`.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    // Computed for |x|, with the sign put back: for a negative x the difference would cancel against −1.
    let size = simd.abs_f32s(x);
    let e = exp(simd, simd.add_f32s(size, size));
    let one = simd.splat_f32s(1.0);
    let large = simd.sub_f32s(one, simd.div_f32s(simd.splat_f32s(2.0), simd.add_f32s(e, one)));
    let sign = simd.and_u32s(simd.transmute_u32s_f32s(x), simd.splat_u32s(0x8000_0000));
    let large = simd.transmute_f32s_u32s(simd.or_u32s(simd.transmute_u32s_f32s(large), sign));
    tanh_near_zero(simd, x, large)
}

/// `tanh(x)` where `|x| < 0.4` and `large` elsewhere, because formulas with `e²ˣ` cancel near zero.
#[inline(always)]
pub(crate) fn tanh_near_zero<S: Simd>(simd: S, x: S::f32s, large: S::f32s) -> S::f32s {
    let squared = simd.mul_f32s(x, x);
    // Minimax on |x| ≤ 0.4 for (tanh x − x) / x³.
    let p = polynomial(simd, squared, &[-0.333_333, 0.133_312_14, -0.053_561_93, 0.018_744_037]);
    let small = simd.mul_add_e_f32s(p, simd.mul_f32s(squared, x), x);
    let is_small = simd.less_than_f32s(simd.abs_f32s(x), simd.splat_f32s(0.4));
    simd.select_f32s(is_small, small, large)
}

/// `1 / (1 + exp(−x))`.
#[inline(always)]
pub(crate) fn sigmoid<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let one = simd.splat_f32s(1.0);
    simd.div_f32s(one, simd.add_f32s(one, exp(simd, simd.neg_f32s(x))))
}

/// The standard normal distribution and density `(Φ(x), φ(x))`: `gelu(x) = x Φ(x)`, `gelu'(x) = Φ(x) + x φ(x)`.
#[inline(always)]
pub(crate) fn normal<S: Simd>(simd: S, x: S::f32s) -> (S::f32s, S::f32s) {
    let one = simd.splat_f32s(1.0);
    let y = simd.abs_f32s(x);
    let half_square = simd.mul_f32s(simd.mul_f32s(y, y), simd.splat_f32s(-0.5));
    let e = exp_bounded(simd, half_square);
    let t = simd.div_f32s(one, simd.mul_add_e_f32s(y, simd.splat_f32s(0.34), one));
    // Minimax in t for Φ(−y)·exp(y²/2) over 0 ≤ y ≤ 14, relative error 3e-8 before rounding.
    let p = polynomial(
        simd,
        t,
        &[
            0.135_620_5,
            0.136_112_25,
            0.115_197_2,
            0.115_361_26,
            -0.044_724_18,
            0.202_192_18,
            -0.273_142_14,
            0.139_504_57,
            -0.026_121_63,
        ],
    );
    let tail = simd.mul_f32s(e, simd.mul_f32s(p, t));
    let negative = simd.less_than_f32s(x, simd.splat_f32s(0.0));
    let cdf = simd.select_f32s(negative, tail, simd.sub_f32s(one, tail));
    (cdf, simd.mul_f32s(e, simd.splat_f32s(0.398_942_3)))
}

/// `(sin x, cos x)` to 2e-7 for |x| ≤ [`SIN_COS_REACH`]; NaN for NaN.
#[inline(always)]
pub(crate) fn sin_cos<S: Simd>(simd: S, x: S::f32s) -> (S::f32s, S::f32s) {
    // As in `exp_bounded`: n = round(x·2/π), with n mod 4, the quadrant, in the low bits.
    const MAGIC: f32 = 12_582_912.0;
    let shifted = simd.mul_add_e_f32s(x, simd.splat_f32s(std::f32::consts::FRAC_2_PI), simd.splat_f32s(MAGIC));
    let n = simd.sub_f32s(shifted, simd.splat_f32s(MAGIC));
    // π/2 in parts of few bits, so that n times a part is exact even without a fused multiply-add.
    let mut r = x;
    for part in [-1.570_312_5, -4.835_128_8e-4, -3.138_557e-7, -6.077_1e-11] {
        r = simd.mul_add_e_f32s(n, simd.splat_f32s(part), r);
    }
    let squared = simd.mul_f32s(r, r);
    // Minimax on |r| ≤ π/4 for (sin r / r − 1) / r² (4e-9) and (cos r − 1 + r²/2) / r⁴ (1e-10).
    let p = polynomial(simd, squared, &[-0.166_666_55, 0.008_332_172, -0.000_195_164_8]);
    let sin = simd.mul_add_e_f32s(p, simd.mul_f32s(squared, r), r);
    let p = polynomial(simd, squared, &[0.041_666_647, -0.001_388_736, 0.000_024_437_532]);
    let cos = simd.mul_add_e_f32s(squared, simd.splat_f32s(-0.5), simd.splat_f32s(1.0));
    let cos = simd.mul_add_e_f32s(p, simd.mul_f32s(squared, squared), cos);
    let quadrant = simd.transmute_u32s_f32s(shifted);
    let odd = simd.and_u32s(quadrant, simd.splat_u32s(1));
    let is_even = simd.equal_u32s(odd, simd.splat_u32s(0));
    // Bit 1 of n, and of n + 1, moved to the sign.
    let sign = |n| simd.wrapping_dyn_shl_u32s(simd.and_u32s(n, simd.splat_u32s(2)), simd.splat_u32s(30));
    let flip = |x, sign| simd.transmute_f32s_u32s(simd.xor_u32s(simd.transmute_u32s_f32s(x), sign));
    let next = simd.add_u32s(quadrant, simd.splat_u32s(1));
    (flip(simd.select_f32s(is_even, sin, cos), sign(quadrant)), flip(simd.select_f32s(is_even, cos, sin), sign(next)))
}

/// The largest absolute value of an argument of [`sin_cos`].
pub(crate) const SIN_COS_REACH: f32 = 8192.0;

/// `c₀ + c₁ x + c₂ x² + …` by Horner's rule.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(simd: S, x: S::f32s, coefficients: &[f32; N]) -> S::f32s {
    let mut sum = simd.splat_f32s(coefficients[N - 1]);
    for c in coefficients[..N - 1].iter().rev() {
        sum = simd.mul_add_e_f32s(sum, x, simd.splat_f32s(*c));
    }
    sum
}

/// A slice of at most one vector, with zeros in the lanes it does not fill.
#[inline(always)]
pub(crate) fn load<S: Simd>(simd: S, slice: &[f32]) -> S::f32s {
    match S::as_simd_f32s(slice) {
        ([whole], []) => *whole,
        (_, part) => simd.partial_load_f32s(part),
    }
}

/// `out[i] = f(x[i])`: `map!(simd, x, out, |x| f(x))` inside a function generic over `S: Simd`.
///
/// The loops over slices are macros because a closure is compiled on its own first, without its kernel's instruction set:
/// its vector operations would be calls and make it too large to be inlined (measured: 4 to 8 times slower).
macro_rules! map {
    ($simd:expr, $x:expr, $out:expr, |$v:ident| $f:expr) => {{
        let (x, x_tail) = S::as_simd_f32s($x);
        let (out, out_tail) = S::as_mut_simd_f32s($out);
        for (out, x) in out.iter_mut().zip(x) {
            let $v = *x;
            *out = $f;
        }
        if !x_tail.is_empty() {
            let $v = $simd.partial_load_f32s(x_tail);
            $simd.partial_store_f32s(out_tail, $f);
        }
    }};
}

/// `x[i] = f(x[i])`: `map_in_place!(simd, x, |x| f(x))`.
macro_rules! map_in_place {
    ($simd:expr, $x:expr, |$v:ident| $f:expr) => {{
        let (x, tail) = S::as_mut_simd_f32s($x);
        for x in x {
            let $v = *x;
            *x = $f;
        }
        if !tail.is_empty() {
            let $v = $simd.partial_load_f32s(tail);
            let value = $f;
            $simd.partial_store_f32s(tail, value);
        }
    }};
}

/// `out[i] = f(out[i], x[i])`: `zip_in_place!(simd, out, x, |out, x| f(out, x))`.
macro_rules! zip_in_place {
    ($simd:expr, $out:expr, $x:expr, |$o:ident, $v:ident| $f:expr) => {{
        let (x, x_tail) = S::as_simd_f32s($x);
        let (out, out_tail) = S::as_mut_simd_f32s($out);
        for (out, x) in out.iter_mut().zip(x) {
            let ($o, $v) = (*out, *x);
            *out = $f;
        }
        if !x_tail.is_empty() {
            let ($o, $v) = ($simd.partial_load_f32s(out_tail), $simd.partial_load_f32s(x_tail));
            let value = $f;
            $simd.partial_store_f32s(out_tail, value);
        }
    }};
}

/// `out[i] = f(x[i], y[i])`: `zip!(simd, x, y, out, |x, y| f(x, y))`.
macro_rules! zip {
    ($simd:expr, $x:expr, $y:expr, $out:expr, |$v:ident, $w:ident| $f:expr) => {{
        let (x, x_tail) = S::as_simd_f32s($x);
        let (y, y_tail) = S::as_simd_f32s($y);
        let (out, out_tail) = S::as_mut_simd_f32s($out);
        for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
            let ($v, $w) = (*x, *y);
            *out = $f;
        }
        if !out_tail.is_empty() {
            let ($v, $w) = ($simd.partial_load_f32s(x_tail), $simd.partial_load_f32s(y_tail));
            $simd.partial_store_f32s(out_tail, $f);
        }
    }};
}

/// `out[i] = f(x[i], y[i], z[i])`: `zip3!(simd, [x, y, z], out, |x, y, z| f(x, y, z))`.
macro_rules! zip3 {
    ($simd:expr, [$x:expr, $y:expr, $z:expr], $out:expr, |$v:ident, $w:ident, $u:ident| $f:expr) => {{
        let (x, x_tail) = S::as_simd_f32s($x);
        let (y, y_tail) = S::as_simd_f32s($y);
        let (z, z_tail) = S::as_simd_f32s($z);
        let (out, out_tail) = S::as_mut_simd_f32s($out);
        for (((out, x), y), z) in out.iter_mut().zip(x).zip(y).zip(z) {
            let ($v, $w, $u) = (*x, *y, *z);
            *out = $f;
        }
        if !out_tail.is_empty() {
            let ($v, $w) = ($simd.partial_load_f32s(x_tail), $simd.partial_load_f32s(y_tail));
            let $u = $simd.partial_load_f32s(z_tail);
            $simd.partial_store_f32s(out_tail, $f);
        }
    }};
}

pub(crate) use {map, map_in_place, zip, zip_in_place, zip3};

/// `out[i] += x[i]`.
#[inline(always)]
pub(crate) fn add_in_place<S: Simd>(simd: S, out: &mut [f32], x: &[f32]) {
    zip_in_place!(simd, out, x, |o, x| simd.add_f32s(o, x));
}

/// Writes `out[i] = exp(x[i] − shift)` and returns the sum; `shift` is at least the largest element.
///
/// The sum is taken in blocks, so that its error does not grow with the length of the row.
#[inline(always)]
pub(crate) fn exp_sum<S: Simd>(simd: S, x: &[f32], shift: f32, out: &mut [f32]) -> f32 {
    let shift = simd.splat_f32s(shift);
    let (x, x_tail) = S::as_simd_f32s(x);
    let (out, out_tail) = S::as_mut_simd_f32s(out);
    let mut total = simd.splat_f32s(0.0);
    for (x, out) in x.chunks(SUM_BLOCK).zip(out.chunks_mut(SUM_BLOCK)) {
        let mut sum = simd.splat_f32s(0.0);
        for (x, out) in x.iter().zip(out) {
            *out = exp_bounded(simd, simd.sub_f32s(*x, shift));
            sum = simd.add_f32s(sum, *out);
        }
        total = simd.add_f32s(total, sum);
    }
    if !x_tail.is_empty() {
        let value = exp_bounded(simd, simd.sub_f32s(simd.partial_load_f32s(x_tail), shift));
        simd.partial_store_f32s(out_tail, value);
        // Read back with zeros, because the lanes past the end must not count.
        total = simd.add_f32s(total, simd.partial_load_f32s(out_tail));
    }
    simd.reduce_sum_f32s(total)
}

/// Sets `x[i] = exp(x[i] − shift)` and returns the sum, as [`exp_sum`] does.
#[inline(always)]
pub(crate) fn exp_sum_in_place<S: Simd>(simd: S, x: &mut [f32], shift: f32) -> f32 {
    let shift = simd.splat_f32s(shift);
    let (x, tail) = S::as_mut_simd_f32s(x);
    let mut total = simd.splat_f32s(0.0);
    for x in x.chunks_mut(SUM_BLOCK) {
        let mut sum = simd.splat_f32s(0.0);
        for x in x {
            *x = exp_bounded(simd, simd.sub_f32s(*x, shift));
            sum = simd.add_f32s(sum, *x);
        }
        total = simd.add_f32s(total, sum);
    }
    if !tail.is_empty() {
        let value = exp_bounded(simd, simd.sub_f32s(simd.partial_load_f32s(tail), shift));
        simd.partial_store_f32s(tail, value);
        total = simd.add_f32s(total, simd.partial_load_f32s(tail));
    }
    simd.reduce_sum_f32s(total)
}

/// Returns `Σ exp(x[i] − shift)`, added up as in [`exp_sum`].
#[inline(always)]
pub(crate) fn sum_exp<S: Simd>(simd: S, x: &[f32], shift: f32) -> f32 {
    let shift = simd.splat_f32s(shift);
    let (x, x_tail) = S::as_simd_f32s(x);
    let mut total = simd.splat_f32s(0.0);
    for x in x.chunks(SUM_BLOCK) {
        let mut sum = simd.splat_f32s(0.0);
        for x in x {
            sum = simd.add_f32s(sum, exp_bounded(simd, simd.sub_f32s(*x, shift)));
        }
        total = simd.add_f32s(total, sum);
    }
    if !x_tail.is_empty() {
        let value = exp_bounded(simd, simd.sub_f32s(simd.partial_load_f32s(x_tail), shift));
        let mut lanes = [0.0; MAX_LANES];
        let lanes = &mut lanes[..x_tail.len()];
        simd.partial_store_f32s(lanes, value);
        total = simd.add_f32s(total, simd.partial_load_f32s(lanes));
    }
    simd.reduce_sum_f32s(total)
}

/// Number of vectors in a block of [`exp_sum`].
const SUM_BLOCK: usize = 64;

/// Number of lanes of the widest instruction set.
pub(crate) const MAX_LANES: usize = 16;

/// `out[i] += factor · x[i]`.
#[inline(always)]
pub(crate) fn add_scaled<S: Simd>(simd: S, factor: f32, x: &[f32], out: &mut [f32]) {
    let factor = simd.splat_f32s(factor);
    zip_in_place!(simd, out, x, |out, x| simd.mul_add_e_f32s(factor, x, out));
}

/// Returns `Σ x[i] y[i]`, added up in an order that depends on the length alone.
#[inline(always)]
pub(crate) fn dot<S: Simd>(simd: S, x: &[f32], y: &[f32]) -> f32 {
    let (x, x_tail) = S::as_simd_f32s(x);
    let (y, y_tail) = S::as_simd_f32s(y);
    let mut sums = [simd.splat_f32s(0.0); 4];
    let (x4, x1) = x.as_chunks::<4>();
    let (y4, y1) = y.as_chunks::<4>();
    for (x, y) in x4.iter().zip(y4) {
        for i in 0..4 {
            sums[i] = simd.mul_add_e_f32s(x[i], y[i], sums[i]);
        }
    }
    for (x, y) in x1.iter().zip(y1) {
        sums[0] = simd.mul_add_e_f32s(*x, *y, sums[0]);
    }
    if !x_tail.is_empty() {
        let (x, y) = (simd.partial_load_f32s(x_tail), simd.partial_load_f32s(y_tail));
        sums[1] = simd.mul_add_e_f32s(x, y, sums[1]);
    }
    simd.reduce_sum_f32s(simd.add_f32s(simd.add_f32s(sums[0], sums[1]), simd.add_f32s(sums[2], sums[3])))
}

/// Returns `Σ x[i]`, added up in an order that depends on the length alone.
#[inline(always)]
pub(crate) fn sum<S: Simd>(simd: S, x: &[f32]) -> f32 {
    let (x, tail) = S::as_simd_f32s(x);
    let mut sums = [simd.splat_f32s(0.0); 4];
    let (x4, x1) = x.as_chunks::<4>();
    for x in x4 {
        for i in 0..4 {
            sums[i] = simd.add_f32s(x[i], sums[i]);
        }
    }
    for x in x1 {
        sums[0] = simd.add_f32s(*x, sums[0]);
    }
    if !tail.is_empty() {
        sums[1] = simd.add_f32s(simd.partial_load_f32s(tail), sums[1]);
    }
    simd.reduce_sum_f32s(simd.add_f32s(simd.add_f32s(sums[0], sums[1]), simd.add_f32s(sums[2], sums[3])))
}

/// Returns the largest element, −∞ for an empty slice. A NaN is skipped here; subtracting the maximum from it later gives NaN again.
#[inline(always)]
pub(crate) fn max<S: Simd>(simd: S, x: &[f32]) -> f32 {
    let (x, tail) = S::as_simd_f32s(x);
    let mut best = simd.splat_f32s(f32::NEG_INFINITY);
    for x in x {
        best = simd.select_f32s(simd.greater_than_f32s(*x, best), *x, best);
    }
    let best = simd.reduce_max_f32s(best);
    tail.iter().fold(best, |best, &x| if x > best { x } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{dispatch, on_every_isa};
    use pulp::WithSimd;

    type Function = fn(&[f32], &mut [f32]);

    macro_rules! slice_function {
        ($name:ident, $vector:expr) => {
            fn $name(x: &[f32], out: &mut [f32]) {
                struct Map<'a>(&'a [f32], &'a mut [f32]);
                impl WithSimd for Map<'_> {
                    type Output = ();
                    #[inline(always)]
                    fn with_simd<S: Simd>(self, simd: S) {
                        map!(simd, self.0, self.1, |x| $vector(simd, x));
                    }
                }
                dispatch(Map(x, out));
            }
        };
    }
    slice_function!(exp_slice, exp);
    slice_function!(tanh_slice, tanh);
    slice_function!(sigmoid_slice, sigmoid);
    slice_function!(cdf_slice, |simd, x| normal(simd, x).0);

    fn check(name: &str, f: Function, exact: impl Fn(f64) -> f64 + Sync, range: f32, tolerance_ulp: f64) {
        on_every_isa(|isa| {
            let x: Vec<f32> = (0..20_011).map(|i| (i as f32 / 10_005.5 - 1.0) * range).collect();
            let mut out = vec![0.0; x.len()];
            f(&x, &mut out);
            for (x, got) in x.iter().zip(&out) {
                let want = exact(f64::from(*x));
                let ulp = f64::from((want as f32).abs().max(f32::MIN_POSITIVE)) * f64::from(f32::EPSILON);
                let error = (f64::from(*got) - want).abs() / ulp;
                assert!(error <= tolerance_ulp, "{name} on {isa:?}: f({x}) = {got}, exact {want}, {error} ulp");
            }
        });
    }

    #[test]
    fn functions_are_close_to_exact() {
        check("exp", exp_slice, f64::exp, 87.0, 2.0);
        check("tanh", tanh_slice, f64::tanh, 12.0, 3.0);
        check("sigmoid", sigmoid_slice, |x| 1.0 / (1.0 + (-x).exp()), 80.0, 4.0);
    }

    #[test]
    fn normal_distribution_meets_tabulated_values() {
        // Φ from tables to 12 digits.
        let table = [(0.0, 0.5), (1.0, 0.841_344_746_069), (-1.0, 0.158_655_253_931), (-3.0, 1.349_898_031_63e-3)];
        on_every_isa(|_| {
            for (x, want) in table {
                let mut out = [0.0];
                cdf_slice(&[x], &mut out);
                assert!((f64::from(out[0]) / want - 1.0).abs() < 4e-7, "Φ({x}) = {}", out[0]);
            }
        });
    }

    slice_function!(sin_slice, |simd, x| sin_cos(simd, x).0);
    slice_function!(cos_slice, |simd, x| sin_cos(simd, x).1);

    #[test]
    fn sine_and_cosine_are_close_to_exact() {
        on_every_isa(|isa| {
            let near = (-4000..4000).map(|i| i as f32 * 0.003);
            let far = (-4000..=4000).map(|i| i as f32 * 2.048);
            let x: Vec<f32> = near.chain(far).collect();
            let mut out = vec![0.0; x.len()];
            for (name, f, exact) in
                [("sin", sin_slice as Function, f64::sin as fn(f64) -> f64), ("cos", cos_slice, f64::cos)]
            {
                f(&x, &mut out);
                for (x, got) in x.iter().zip(&out) {
                    let want = exact(f64::from(*x));
                    assert!((f64::from(*got) - want).abs() < 2e-7, "{name}({x}) = {got} on {isa:?}, exact {want}");
                }
            }
        });
    }

    #[test]
    fn special_values_pass_through() {
        on_every_isa(|isa| {
            let x = [f32::NAN, f32::NEG_INFINITY, f32::INFINITY, 1e4, -1e4];
            let mut out = [1.0; 5];
            exp_slice(&x, &mut out);
            assert!(out[0].is_nan() && out[1..] == [0.0, f32::INFINITY, f32::INFINITY, 0.0], "{isa:?} {out:?}");
            tanh_slice(&x, &mut out);
            assert!(out[0].is_nan() && out[1..] == [-1.0, 1.0, 1.0, -1.0], "{isa:?} {out:?}");
        });
    }
}
