//! Small matrix products with the output held in registers, for use inside other kernels.
//!
//! `gemm` packs both operands and is fast from about 100³ on. Attention multiplies 48×64 by 64×64 blocks that are already
//! in cache and laid out for the purpose; there the call of `gemm` alone would cost as much as the product.

use pulp::{Simd, WithSimd};

/// Number of rows of a register tile. With 4 vectors of columns it takes 24 of 32 registers, with 2 it takes 12 of 16.
pub(crate) const TILE_ROWS: usize = 6;

/// Returns the number of vectors in a row of a register tile.
const fn tile_vectors<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { 4 } else { 2 }
}

/// Returns the number of columns of a register tile, which is the width of a panel of an operand.
pub(crate) const fn panel_width<S: Simd>() -> usize {
    tile_vectors::<S>() * S::F32_LANES
}

/// Rounds `x` up to whole vectors.
pub(crate) const fn round_to_lanes<S: Simd>(x: usize) -> usize {
    x.next_multiple_of(S::F32_LANES)
}

/// The sum of products `out[i, j] (+)= Σ_{s, t} a_s[i, t] b_s[t, j]` for `i < rows`, `columns.0 ≤ j < columns.1`, `t < depth`.
///
/// `a_s[i, t]` is at `a + terms[s][0] + i·a_row + t·a_column`; `b_s[t, j]` at `b + terms[s][1] + (j / panel)·b_panel + t·b_row + j % panel`,
/// where `panel` is [`panel_width`] (`b_panel = panel` makes a plain row-major matrix); `out[i, j]` at `out + i·out_row + j`.
#[derive(Clone, Copy)]
pub(crate) struct TileProduct<'a> {
    pub(crate) rows: usize,
    /// First column and end, both multiples of the number of lanes.
    pub(crate) columns: (usize, usize),
    pub(crate) depth: usize,
    pub(crate) a: *const f32,
    pub(crate) a_row: usize,
    pub(crate) a_column: usize,
    pub(crate) b: *const f32,
    pub(crate) b_row: usize,
    pub(crate) b_panel: usize,
    pub(crate) out: *mut f32,
    pub(crate) out_row: usize,
    pub(crate) accumulate: bool,
    /// Where the factors of each product are, counted from `a` and `b`: [`TileProduct::ONE`] for a single product.
    pub(crate) terms: &'a [[usize; 2]],
}

impl TileProduct<'_> {
    /// The terms of a single product.
    pub(crate) const ONE: &'static [[usize; 2]] = &[[0, 0]];

    /// Computes the product.
    ///
    /// # Safety
    /// Every address of the formula is inside its allocation, and nothing else uses `out`.
    #[inline(always)]
    pub(crate) unsafe fn run<S: Simd>(self, simd: S) {
        // A function of its own for each instruction set, so that its 24 tile shapes are compiled once.
        struct Call<'a>(TileProduct<'a>);
        impl WithSimd for Call<'_> {
            type Output = ();
            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) {
                // SAFETY: the promise of `run`.
                unsafe { self.0.panels(simd) }
            }
        }
        Simd::vectorize(simd, Call(self));
    }

    #[inline(always)]
    unsafe fn panels<S: Simd>(self, simd: S) {
        let panel = panel_width::<S>();
        let (mut column, end) = self.columns;
        while column < end {
            let within = column % panel;
            let width = (panel - within).min(end - column);
            // SAFETY: `column < end`, so the offsets are those of elements of the product.
            unsafe {
                let b = self.b.add(column / panel * self.b_panel + within);
                let out = self.out.add(column);
                match width / S::F32_LANES {
                    1 => self.rows::<S, 1>(simd, b, out),
                    2 => self.rows::<S, 2>(simd, b, out),
                    3 => self.rows::<S, 3>(simd, b, out),
                    _ => self.rows::<S, 4>(simd, b, out),
                }
            }
            column += width;
        }
    }

    #[inline(always)]
    unsafe fn rows<S: Simd, const V: usize>(self, simd: S, b: *const f32, out: *mut f32) {
        if V > tile_vectors::<S>() {
            return;
        }
        let mut row = 0;
        while row < self.rows {
            let left = self.rows - row;
            // SAFETY: the next `min(left, 6)` rows are inside by the promise of `run`.
            unsafe {
                let a = self.a.add(row * self.a_row);
                let out = out.add(row * self.out_row);
                match left {
                    1 => self.tile::<S, 1, V>(simd, a, b, out),
                    2 => self.tile::<S, 2, V>(simd, a, b, out),
                    3 => self.tile::<S, 3, V>(simd, a, b, out),
                    4 => self.tile::<S, 4, V>(simd, a, b, out),
                    5 => self.tile::<S, 5, V>(simd, a, b, out),
                    _ => self.tile::<S, TILE_ROWS, V>(simd, a, b, out),
                }
            }
            row += TILE_ROWS;
        }
    }

    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize, const V: usize>(
        self,
        simd: S,
        a: *const f32,
        b: *const f32,
        out: *mut f32,
    ) {
        let mut sums = [[simd.splat_f32s(0.0); V]; R];
        for [of_a, of_b] in self.terms {
            // SAFETY: elements of both factors, inside by the promise of `run`.
            sums = unsafe {
                let (a, b) = ((a.add(*of_a), self.a_row, self.a_column), (b.add(*of_b), self.b_row));
                multiply_tile(simd, self.depth, a, b, sums)
            };
        }
        for (r, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                // SAFETY: an element of `out`, inside by the promise of `run`.
                unsafe {
                    let place = out.add(r * self.out_row + v * S::F32_LANES).cast::<S::f32s>();
                    let sum = if self.accumulate { simd.add_f32s(place.read_unaligned(), *sum) } else { *sum };
                    place.write_unaligned(sum);
                }
            }
        }
    }
}

/// Returns `sums[r][v] + Σ_t a[r, t] b[t, v]` for a register tile of `R` rows and `V` vectors, with `t < depth`.
///
/// `a` is a pointer with the strides of `r` and `t`: `a[r, t]` is at `a.0 + r·a.1 + t·a.2`. `b` is a pointer with the stride
/// of `t`: vector `b[t, v]` is at `b.0 + t·b.1 + v·lanes`.
///
/// # Safety
/// All these elements can be read.
#[inline(always)]
pub(crate) unsafe fn multiply_tile<S: Simd, const R: usize, const V: usize>(
    simd: S,
    depth: usize,
    (mut a, a_row, a_column): (*const f32, usize, usize),
    (mut b, b_row): (*const f32, usize),
    mut sums: [[S::f32s; V]; R],
) -> [[S::f32s; V]; R] {
    let zero = simd.splat_f32s(0.0);
    for _ in 0..depth {
        // SAFETY: the elements of one `t`, readable by the caller's promise; vectors need no alignment.
        unsafe {
            // The shorter side stays in registers and the other passes through one: 16 registers have no room for both.
            if R < V {
                let mut factors = [zero; R];
                for (r, factor) in factors.iter_mut().enumerate() {
                    *factor = simd.splat_f32s(*a.add(r * a_row));
                }
                for v in 0..V {
                    let column = b.add(v * S::F32_LANES).cast::<S::f32s>().read_unaligned();
                    for (sums, factor) in sums.iter_mut().zip(factors) {
                        sums[v] = simd.mul_add_e_f32s(factor, column, sums[v]);
                    }
                }
            } else {
                let mut columns = [zero; V];
                for (v, column) in columns.iter_mut().enumerate() {
                    *column = b.add(v * S::F32_LANES).cast::<S::f32s>().read_unaligned();
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    let factor = simd.splat_f32s(*a.add(r * a_row));
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = simd.mul_add_e_f32s(factor, column, *sum);
                    }
                }
            }
        }
        (a, b) = (a.wrapping_add(a_column), b.wrapping_add(b_row));
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{dispatch, on_every_isa};
    use proptest::prelude::*;

    struct Check {
        rows: usize,
        columns: (usize, usize),
        depth: usize,
        terms: usize,
        accumulate: bool,
    }

    impl WithSimd for Check {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let Check { rows, depth, accumulate, .. } = self;
            let (first, end) = (self.columns.0 * S::F32_LANES, self.columns.1 * S::F32_LANES);
            let panel = panel_width::<S>();
            let width = end.next_multiple_of(panel);
            let value = |i: usize, seed: usize| ((i * 31 + seed) % 17) as f32 - 8.0;
            let (a_len, b_len) = (rows * depth, width * depth);
            let terms: Vec<[usize; 2]> = (0..self.terms).map(|s| [s * a_len, s * b_len]).collect();
            let a: Vec<f32> = (0..terms.len() * a_len).map(|i| value(i, 1)).collect();
            let b: Vec<f32> = (0..terms.len() * b_len).map(|i| value(i, 5)).collect();
            for transposed in [false, true] {
                let (a_row, a_column) = if transposed { (1, rows) } else { (depth, 1) };
                let mut out = vec![0.5; rows * width];
                let (a_pointer, b_pointer) = (a.as_ptr(), b.as_ptr());
                let product = TileProduct {
                    rows,
                    columns: (first, end),
                    depth,
                    a: a_pointer,
                    a_row,
                    a_column,
                    b: b_pointer,
                    b_row: panel,
                    b_panel: panel * depth,
                    out: out.as_mut_ptr(),
                    out_row: width,
                    accumulate,
                    terms: &terms,
                };
                // SAFETY: the vectors have the sizes of the product.
                unsafe { product.run(simd) };
                for i in 0..rows {
                    for j in 0..width {
                        let b_column = j / panel * panel * depth + j % panel;
                        let term = |[of_a, of_b]: [usize; 2]| -> f32 {
                            let product = |t| a[of_a + i * a_row + t * a_column] * b[of_b + b_column + t * panel];
                            (0..depth).map(product).sum()
                        };
                        let sum: f32 = terms.iter().copied().map(term).sum();
                        let want = match (first..end).contains(&j) {
                            true => sum + if accumulate { 0.5 } else { 0.0 },
                            false => 0.5,
                        };
                        assert_eq!(out[i * width + j], want, "({i}, {j})");
                    }
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn integers_are_exact(
            (rows, first, more) in (0usize..20, 0usize..6, 0usize..9), depth in 0usize..20, terms in 1usize..4, accumulate: bool
        ) {
            on_every_isa(|_| dispatch(Check { rows, columns: (first, first + more), depth, terms, accumulate }));
        }
    }
}
