//! Arithmetic on groups of prompts: each prompt of a group has its own lane of a vector register.
//!
//! No sum runs over the lanes, so every operation is a plain vector instruction, whatever the sizes of the model.
//! A group has as many prompts as a register has lanes.

use std::ops::{Deref, DerefMut};

use pulp::{Arch, Simd, WithSimd};

/// Returns the number of lanes of this processor: 8 with AVX-512, 4 with AVX2.
pub(super) fn lanes() -> usize {
    struct Count;
    impl WithSimd for Count {
        type Output = usize;

        fn with_simd<S: Simd>(self, _: S) -> usize {
            S::F64_LANES
        }
    }
    Arch::new().dispatch(Count)
}

/// Zeros at an address that is a multiple of 64 bytes, so that no register is loaded from two cache lines.
pub(super) struct Aligned {
    data: Vec<f64>,
    start: usize,
}

impl Aligned {
    pub(super) fn zeros(len: usize) -> Self {
        let data = vec![0.0; len + 7];
        let start = data.as_ptr().align_offset(64).min(7);
        Self { data, start }
    }
}

impl Deref for Aligned {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        &self.data[self.start..self.data.len() - 7 + self.start]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [f64] {
        let end = self.data.len() - 7 + self.start;
        &mut self.data[self.start..end]
    }
}

/// Vector arithmetic with the instructions of `S`. A vector holds one register per element.
#[derive(Clone, Copy)]
pub(super) struct Vectors<S>(pub(super) S);

impl<S: Simd> Vectors<S> {
    /// Returns `a b + sum`.
    #[inline(always)]
    fn add_product(self, a: S::f64s, b: S::f64s, sum: S::f64s) -> S::f64s {
        self.0.mul_add_e_f64s(a, b, sum)
    }

    #[inline(always)]
    fn zero(self) -> S::f64s {
        self.0.splat_f64s(0.0)
    }

    /// Returns the dot product of two vectors, in each lane.
    #[inline(always)]
    pub(super) fn dot(self, a: &[S::f64s], b: &[S::f64s]) -> S::f64s {
        let mut sum = self.zero();
        for (a, b) in a.iter().zip(b) {
            sum = self.add_product(*a, *b, sum);
        }
        sum
    }

    /// Computes the dot product of each row of a matrix with `x`.
    #[inline(always)]
    pub(super) fn dot_rows(self, rows: &[S::f64s], x: &[S::f64s], out: &mut [S::f64s]) {
        // Four rows at a time, so that `x` is loaded a quarter as often and four sums are under way.
        let columns = x.len();
        let (fours, rest) = out.as_chunks_mut::<4>();
        let (blocks, last) = rows.split_at(4 * fours.len() * columns);
        for (block, out) in blocks.chunks_exact(4 * columns).zip(fours) {
            let ((a, b), (c, d)) = quarters(block);
            let mut sums = [self.zero(); 4];
            for ((x, (a, b)), (c, d)) in x.iter().zip(a.iter().zip(b)).zip(c.iter().zip(d)) {
                sums[0] = self.add_product(*a, *x, sums[0]);
                sums[1] = self.add_product(*b, *x, sums[1]);
                sums[2] = self.add_product(*c, *x, sums[2]);
                sums[3] = self.add_product(*d, *x, sums[3]);
            }
            *out = sums;
        }
        for (row, out) in last.chunks_exact(columns).zip(rest) {
            *out = self.dot(row, x);
        }
    }

    /// Returns the dot product of a vector of weights, which all lanes share, with a vector.
    #[inline(always)]
    pub(super) fn weigh(self, weights: &[f64], x: &[S::f64s]) -> S::f64s {
        let mut sum = self.zero();
        for (weight, x) in weights.iter().zip(x) {
            sum = self.add_product(self.0.splat_f64s(*weight), *x, sum);
        }
        sum
    }

    /// Computes `out = matrix · x`. All lanes share the row-major matrix.
    #[inline(always)]
    pub(super) fn times(self, matrix: &[f64], x: &[S::f64s], out: &mut [S::f64s]) {
        for (out, row) in out.iter_mut().zip(matrix.chunks_exact(x.len())) {
            *out = self.weigh(row, x);
        }
    }

    /// Computes `out += matrixᵀ · x`. All lanes share the row-major matrix.
    #[inline(always)]
    pub(super) fn add_transposed_times(self, matrix: &[f64], x: &[S::f64s], out: &mut [S::f64s]) {
        for (row, x) in matrix.chunks_exact(out.len()).zip(x) {
            for (out, weight) in out.iter_mut().zip(row) {
                *out = self.add_product(self.0.splat_f64s(*weight), *x, *out);
            }
        }
    }

    /// Computes `out = Σ_i weights_i row_i` over the rows of a matrix with as many columns as `out`.
    #[inline(always)]
    pub(super) fn mix(self, rows: &[S::f64s], weights: &[S::f64s], out: &mut [S::f64s]) {
        let columns = out.len();
        out.fill(self.zero());
        // Four rows at a time, so that the sums are loaded and stored a quarter as often.
        let (fours, rest) = weights.as_chunks::<4>();
        let (blocks, last) = rows.split_at(4 * fours.len() * columns);
        for (block, weights) in blocks.chunks_exact(4 * columns).zip(fours) {
            let ((a, b), (c, d)) = quarters(block);
            for ((out, (a, b)), (c, d)) in out.iter_mut().zip(a.iter().zip(b)).zip(c.iter().zip(d)) {
                let pair = self.add_product(weights[1], *b, self.add_product(weights[0], *a, *out));
                *out = self.add_product(weights[3], *d, self.add_product(weights[2], *c, pair));
            }
        }
        for (row, weight) in last.chunks_exact(columns).zip(rest) {
            for (out, x) in out.iter_mut().zip(row) {
                *out = self.add_product(*weight, *x, *out);
            }
        }
    }

    /// Computes `matrix += a bᵀ`, in each lane.
    #[inline(always)]
    pub(super) fn add_outer(self, matrix: &mut [S::f64s], a: &[S::f64s], b: &[S::f64s]) {
        for (row, a) in matrix.chunks_exact_mut(b.len()).zip(a) {
            for (sum, b) in row.iter_mut().zip(b) {
                *sum = self.add_product(*a, *b, *sum);
            }
        }
    }

    /// Turns scores into the softmax of `scale · scores`. Expects a positive `scale`.
    #[inline(always)]
    pub(super) fn softmax(self, scores: &mut [f64], scale: f64) {
        let simd = self.0;
        let vectors = S::as_mut_simd_f64s(scores).0;
        let (mut most, scale) = (simd.splat_f64s(f64::NEG_INFINITY), simd.splat_f64s(scale));
        for score in &*vectors {
            most = simd.max_f64s(most, *score);
        }
        for score in &mut *vectors {
            *score = simd.mul_f64s(simd.sub_f64s(*score, most), scale);
        }
        for score in &mut *scores {
            *score = exp(*score);
        }
        let vectors = S::as_mut_simd_f64s(scores).0;
        let mut sum = self.zero();
        for score in &*vectors {
            sum = simd.add_f64s(sum, *score);
        }
        let factor = simd.div_f64s(simd.splat_f64s(1.0), sum);
        for score in vectors {
            *score = simd.mul_f64s(*score, factor);
        }
    }
}

/// Splits a slice into four equal parts.
#[inline(always)]
#[expect(clippy::type_complexity, reason = "four parts as two pairs, to be zipped")]
fn quarters<T>(all: &[T]) -> ((&[T], &[T]), (&[T], &[T])) {
    let (first, second) = all.split_at(all.len() / 2);
    (first.split_at(first.len() / 2), second.split_at(second.len() / 2))
}

/// Returns `eˣ` for `x ≤ 0`: `2ᵏ eʳ` with `|r| ≤ ½ ln 2` and the Taylor series of `eʳ`, whose next term is below 10⁻¹⁷. A loop over
/// this function is vectorised, unlike one over [`f64::exp`].
#[inline(always)]
fn exp(x: f64) -> f64 {
    /// Numbers of this size have no fractional bits: adding it rounds to an integer, which the lowest bits then hold.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    /// `ln 2` in two parts; products of the first one with `k` are exact.
    const LN_2: (f64, f64) = (0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10);
    let x = if x > -700.0 { x } else { -700.0 };
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let k = shifted - ROUND;
    let r = x - k * LN_2.0 - k * LN_2.1;
    let mut sum = 1.0;
    for term in [13.0, 12.0, 11.0, 10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0] {
        sum = 1.0 + sum * r * (1.0 / term);
    }
    sum * f64::from_bits((shifted.to_bits() << 52).wrapping_add(1.0f64.to_bits()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_accurate() {
        for i in 0..20_000 {
            let x = f64::from(i) * -0.03507;
            let found = exp(x);
            assert!((found - x.max(-700.0).exp()).abs() <= 1e-15 * found, "{x}: {found}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(-1e300) < 1e-300);
    }

    /// Rows of any number are mixed and multiplied, whether or not they come in fours.
    #[test]
    fn rows_of_any_number_are_mixed() {
        struct Check;
        impl WithSimd for Check {
            type Output = ();

            fn with_simd<S: Simd>(self, simd: S) {
                let vectors = Vectors(simd);
                let numbers = |len: usize, of: fn(f64) -> f64| -> Vec<S::f64s> {
                    (0..len).map(|i| simd.splat_f64s(of(i as f64))).collect()
                };
                let lane = |vector: S::f64s| simd.reduce_sum_f64s(vector) / S::F64_LANES as f64;
                for rows in 1..10 {
                    let (matrix, weights) = (numbers(3 * rows, f64::sin), numbers(rows, f64::cos));
                    let (mut mixed, mut dots) = (numbers(3, f64::abs), numbers(rows, f64::abs));
                    vectors.mix(&matrix, &weights, &mut mixed);
                    vectors.dot_rows(&matrix, &weights[..1].repeat(3), &mut dots);
                    for (column, found) in mixed.into_iter().enumerate() {
                        let expected: f64 =
                            (0..rows).map(|row| ((3 * row + column) as f64).sin() * (row as f64).cos()).sum();
                        assert!((lane(found) - expected).abs() < 1e-13);
                    }
                    for (row, found) in dots.into_iter().enumerate() {
                        let expected: f64 = (0..3).map(|column| ((3 * row + column) as f64).sin()).sum();
                        assert!((lane(found) - expected).abs() < 1e-13);
                    }
                }
            }
        }
        Arch::new().dispatch(Check);
    }
}
