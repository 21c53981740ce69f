//! Product of a few rows with a matrix, `out = x W`, as in decoding one token after the other.
//!
//! Such a product takes as long as reading `W` once from memory. `gemm` would first copy `W` into panels, which costs more than the
//! product. Here `W` is read in the order in which it is stored, several of its rows at a time, by all threads.
//!
//! The product with a matrix stored row after row adds in the order of `gemm`: pieces of the depth ([`DepthPieces`]) one after the other,
//! and within a piece one fused multiply-add after the other. So a row has the same bits in a product of a few rows as in one of many.
//!
//! The elements of `W` are f32, or bf16 for half the memory; sums are f32. A vector of bf16 is read as 32-bit words, whose lower
//! halves are the elements of even index and whose upper halves are those of odd index. Sums stay in that order until they are
//! written.

use half::bf16;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::isa::dispatch;
use crate::parallel::is_crowded;
use crate::scratch::Scratch;
use crate::shared_slice::SharedSlice;
use crate::vector::{MAX_LANES, add_in_place};

/// Largest number of rows for which this product is used. A beam of 32 rows over matrices of 512·2048 takes 1,420 to 1,450 ms with it
/// and 1,520 with `gemm`; a sentence of about 50 tokens over 384·1536 takes 10.4 ms with it and 4.8 with `gemm`.
pub(crate) const FEW_ROWS: usize = 32;

/// Number of elements of a matrix below which one thread reads it: 256 KiB take about as long as handing work over.
const SERIAL: usize = 64 * 1024;
/// Number of elements of a matrix in one piece of work of the transposed product.
const PIECE: usize = 256 * 1024;
/// Number of columns whose sums are kept in the first cache: 8 KiB per row.
const COLUMNS: usize = 2048;
/// Number of columns below which they are not split any further.
const NARROW: usize = 128;
/// Largest depth of a piece, for which `gemm` neither splits the depth any further nor keeps its sums anywhere but in registers.
const PIECE_DEPTH: usize = 512;
/// Number of elements in two vectors of the widest instruction set, in which rows are padded.
const PAIR: usize = 2 * MAX_LANES;

/// An element of a stored matrix.
pub(crate) trait Element: Copy + Send + Sync + 'static {
    /// Whether [`pair`](Self::pair) gives elements of even index and elements of odd index.
    const INTERLEAVED: bool;

    fn value(self) -> f32;

    /// Returns the next elements, two vectors of them.
    ///
    /// # Safety
    /// `at` can be read for two vectors of elements.
    unsafe fn pair<S: Simd>(simd: S, at: *const Self) -> [S::f32s; 2];
}

impl Element for f32 {
    const INTERLEAVED: bool = false;

    #[inline(always)]
    fn value(self) -> f32 {
        self
    }

    #[inline(always)]
    unsafe fn pair<S: Simd>(_: S, at: *const f32) -> [S::f32s; 2] {
        // SAFETY: the caller's promise; vectors need no alignment.
        unsafe { [at.cast::<S::f32s>().read_unaligned(), at.add(S::F32_LANES).cast::<S::f32s>().read_unaligned()] }
    }
}

impl Element for bf16 {
    const INTERLEAVED: bool = true;

    #[inline(always)]
    fn value(self) -> f32 {
        self.to_f32()
    }

    #[inline(always)]
    unsafe fn pair<S: Simd>(simd: S, at: *const bf16) -> [S::f32s; 2] {
        // SAFETY: the caller's promise: as many words of 32 bits as a vector has lanes are two vectors of elements.
        let words = unsafe { at.cast::<S::u32s>().read_unaligned() };
        let low = simd.wrapping_dyn_shl_u32s(words, simd.splat_u32s(16));
        let high = simd.and_u32s(words, simd.splat_u32s(0xFFFF_0000));
        let (low, high) = (simd.transmute_f32s_u32s(low), simd.transmute_f32s_u32s(high));
        if cfg!(target_endian = "big") { [high, low] } else { [low, high] }
    }
}

/// The pieces in which the depth of a product is added up: equal ones of at most 512 elements, the last one shorter. They depend on the
/// depth alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DepthPieces {
    depth: usize,
    length: usize,
}

impl DepthPieces {
    pub(crate) fn new(depth: usize) -> Self {
        Self { depth, length: depth.div_ceil(depth.div_ceil(PIECE_DEPTH).max(1)).max(1) }
    }

    pub(crate) fn count(self) -> usize {
        self.depth.div_ceil(self.length)
    }

    /// Returns the first index of a piece and the end.
    pub(crate) fn range(self, piece: usize) -> (usize, usize) {
        (piece * self.length, ((piece + 1) * self.length).min(self.depth))
    }
}

/// The sizes of a product, all at least 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) rows: usize,
    pub(crate) depth: usize,
    pub(crate) width: usize,
}

/// Computes `out = x W` for `W` stored row after row.
///
/// # Shapes
/// `x` `[rows, depth]`, `weight` `[depth, width]`, `out` `[rows, width]`, whose lengths the caller has checked.
pub(crate) fn by_rows<E: Element>(sizes: Sizes, x: &[f32], weight: &[E], out: &mut [f32]) {
    let Sizes { rows, depth, width } = sizes;
    assert!(x.len() == rows * depth && weight.len() == depth * width && out.len() == rows * width);
    let stride = width.next_multiple_of(PAIR);
    let depths = DepthPieces::new(depth);
    let is_serial = depth * width < SERIAL || is_crowded();
    // At least two items for each thread; how the columns are split does not change their sums.
    let wanted = if is_serial { 1 } else { (2 * rayon::current_num_threads()).div_ceil(depths.count()) };
    let blocks = wanted.min(width.div_ceil(NARROW)).max(width.div_ceil(COLUMNS));
    let mut sums = Scratch::new(depths.count() * rows * stride);
    let shared = SharedSlice::new(&mut sums);
    let work = |item: usize| {
        let (piece, block) = (item / blocks, item % blocks);
        let columns = |at: usize| (width.div_ceil(PAIR) * at / blocks * PAIR).min(width);
        let item = ByRows {
            x,
            x_stride: depth,
            weight,
            weight_stride: width,
            first_depth: 0,
            rows,
            depths: depths.range(piece),
            columns: (columns(block), columns(block + 1)),
            // Each item has its own piece of `rows · stride` elements or its own columns of one.
            sums: shared.pointer(piece * rows * stride),
            stride,
        };
        dispatch(item);
    };
    let items = depths.count() * blocks;
    if is_serial {
        (0..items).for_each(work);
    } else {
        (0..items).into_par_iter().with_max_len(1).for_each(work);
    }
    for (row, out) in out.chunks_exact_mut(width).enumerate() {
        let (first, others) = sums.split_at_mut(rows * stride);
        let total = &mut first[row * stride..][..width];
        for piece in others.chunks_exact(rows * stride) {
            dispatch(Add { x: &piece[row * stride..][..width], out: total });
        }
        dispatch(Order::<E> { sums: total, out, element: std::marker::PhantomData });
    }
}

/// Computes `out = x Wᵀ` for a matrix `W` stored row after row.
///
/// # Shapes
/// `x` `[rows, depth]`, `weight` `[width, depth]`, `out` `[rows, width]`, whose lengths the caller has checked.
pub(crate) fn by_columns<E: Element>(sizes: Sizes, x: &[f32], weight: &[E], out: &mut [f32]) {
    let Sizes { rows, depth, width } = sizes;
    assert!(x.len() == rows * depth && weight.len() == depth * width && out.len() == rows * width);
    let mut ordered = Scratch::new(if E::INTERLEAVED { x.len() } else { 0 });
    let x = match E::INTERLEAVED {
        true => {
            let pairs = ordered.chunks_exact_mut(depth).zip(x.chunks_exact(depth));
            pairs.for_each(|(out, x)| dispatch(Split { x, out }));
            &ordered[..]
        }
        false => x,
    };
    let shared = SharedSlice::new(out);
    let piece = (PIECE / depth).max(1).next_multiple_of(4);
    let work = |at: usize| {
        let columns = (at * piece, ((at + 1) * piece).min(width));
        dispatch(ByColumns { x, weight, sizes, columns, out: shared });
    };
    let pieces = width.div_ceil(piece);
    if depth * width < SERIAL || is_crowded() {
        (0..pieces).for_each(work);
    } else {
        (0..pieces).into_par_iter().for_each(work);
    }
}

/// Adds a slice to another.
struct Add<'a> {
    x: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        add_in_place(simd, self.out, self.x);
    }
}

/// Writes sums in the order of the columns.
struct Order<'a, E> {
    sums: &'a [f32],
    out: &'a mut [f32],
    element: std::marker::PhantomData<E>,
}

impl<E: Element> WithSimd for Order<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        if !E::INTERLEAVED {
            return self.out.copy_from_slice(self.sums);
        }
        let pair = 2 * S::F32_LANES;
        let whole = self.out.len() / pair * pair;
        for (out, sums) in self.out[..whole].chunks_exact_mut(pair).zip(self.sums.chunks_exact(pair)) {
            let (even, odd) = sums.split_at(S::F32_LANES);
            for ((out, even), odd) in out.chunks_exact_mut(2).zip(even).zip(odd) {
                (out[0], out[1]) = (*even, *odd);
            }
        }
        self.out[whole..].copy_from_slice(&self.sums[whole..]);
    }
}

/// Puts the numbers of even index before those of odd index, for each two vectors.
struct Split<'a> {
    x: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Split<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let pair = 2 * S::F32_LANES;
        let whole = self.out.len() / pair * pair;
        for (out, x) in self.out[..whole].chunks_exact_mut(pair).zip(self.x.chunks_exact(pair)) {
            let (even, odd) = out.split_at_mut(S::F32_LANES);
            for ((x, even), odd) in x.chunks_exact(2).zip(even).zip(odd) {
                (*even, *odd) = (x[0], x[1]);
            }
        }
        self.out[whole..].copy_from_slice(&self.x[whole..]);
    }
}

/// Sums over some of the depth for some columns.
struct ByRows<'a, E> {
    x: &'a [f32],
    x_stride: usize,
    /// Rows of the matrix from `first_depth` on, `weight_stride` elements apart.
    weight: &'a [E],
    weight_stride: usize,
    first_depth: usize,
    rows: usize,
    depths: (usize, usize),
    /// First column, a multiple of [`PAIR`], and end.
    columns: (usize, usize),
    /// Where the sums of the first row go; those of the next are `stride` elements further.
    sums: *mut f32,
    stride: usize,
}

impl<E: Element> WithSimd for ByRows<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let ((from, to), (first, end)) = (self.depths, self.columns);
        let whole = first + (end - first) / (2 * S::F32_LANES) * (2 * S::F32_LANES);
        self.add_up(simd, whole);
        if whole == end {
            return;
        }
        // The last columns, from a copy with zeros beside them.
        let mut last = Scratch::new((to - from) * PAIR);
        last.fill(0.0);
        for (depth, copy) in (from..to).zip(last.chunks_exact_mut(PAIR)) {
            let row = (depth - self.first_depth) * self.weight_stride;
            let values = &self.weight[row + whole..row + end];
            copy.iter_mut().zip(values).for_each(|(copy, value)| *copy = value.value());
        }
        let last = ByRows {
            weight: &last[..],
            weight_stride: PAIR,
            first_depth: from,
            columns: (0, 2 * S::F32_LANES),
            // SAFETY: rows of sums are padded to whole pairs of vectors, so that those from `whole` on have room.
            sums: unsafe { self.sums.add(whole) },
            x: self.x,
            x_stride: self.x_stride,
            rows: self.rows,
            depths: self.depths,
            stride: self.stride,
        };
        last.add_up(simd, 2 * S::F32_LANES);
    }
}

impl<E: Element> ByRows<'_, E> {
    /// Computes the sums of the columns up to `end`, a whole number of pairs of vectors from the first.
    #[inline(always)]
    fn add_up<S: Simd>(&self, simd: S, end: usize) {
        let first = self.columns.0;
        for row in 0..self.rows {
            // SAFETY: the columns of a row of `sums`, which the caller gave to this item alone.
            unsafe { std::slice::from_raw_parts_mut(self.sums.add(row * self.stride + first), end - first) }.fill(0.0);
        }
        let (mut depth, last) = self.depths;
        while depth < last {
            let count = if self.rows == 1 { 8 } else { 4 };
            let count = if last - depth >= count { count } else { 1 };
            let mut row = 0;
            while row < self.rows {
                // SAFETY: `depth + count ≤ last`, and the rows `row..` taken are below `rows`.
                unsafe {
                    match ((self.rows - row).min(4), count) {
                        (1, 8) => self.block::<S, 1, 8>(simd, row, depth, end),
                        (1, 4) => self.block::<S, 1, 4>(simd, row, depth, end),
                        (1, _) => self.block::<S, 1, 1>(simd, row, depth, end),
                        (2, 4) => self.block::<S, 2, 4>(simd, row, depth, end),
                        (2, _) => self.block::<S, 2, 1>(simd, row, depth, end),
                        (3, 4) => self.block::<S, 3, 4>(simd, row, depth, end),
                        (3, _) => self.block::<S, 3, 1>(simd, row, depth, end),
                        (_, 4) => self.block::<S, 4, 4>(simd, row, depth, end),
                        (_, _) => self.block::<S, 4, 1>(simd, row, depth, end),
                    }
                }
                row += 4;
            }
            depth += count;
        }
    }

    /// Adds the products of `M` rows of `x` with `R` rows of the matrix.
    ///
    /// # Safety
    /// `row + M ≤ rows` and `depth + R ≤ depths.1`, and the columns up to `end` are whole pairs of vectors.
    #[inline(always)]
    unsafe fn block<S: Simd, const M: usize, const R: usize>(&self, simd: S, row: usize, depth: usize, end: usize) {
        let zero = simd.splat_f32s(0.0);
        let mut factors = [[zero; R]; M];
        for (m, factors) in factors.iter_mut().enumerate() {
            for (r, factor) in factors.iter_mut().enumerate() {
                *factor = simd.splat_f32s(self.x[(row + m) * self.x_stride + depth + r]);
            }
        }
        let mut column = self.columns.0;
        while column < end {
            // SAFETY: a pair of vectors from `column` on ends at `end` at most, so that the addresses are in row `depth + r` of the
            // matrix and in row `row + m` of the sums, which this item alone uses.
            unsafe {
                let mut weights = [[zero; 2]; R];
                for (r, weights) in weights.iter_mut().enumerate() {
                    let row = (depth - self.first_depth + r) * self.weight_stride;
                    *weights = E::pair(simd, self.weight.as_ptr().add(row + column));
                }
                for (m, factors) in factors.iter().enumerate() {
                    let place = self.sums.add((row + m) * self.stride + column);
                    let [mut low, mut high] = f32::pair(simd, place);
                    for (factor, weights) in factors.iter().zip(&weights) {
                        low = simd.mul_add_e_f32s(*factor, weights[0], low);
                        high = simd.mul_add_e_f32s(*factor, weights[1], high);
                    }
                    place.cast::<S::f32s>().write_unaligned(low);
                    place.add(S::F32_LANES).cast::<S::f32s>().write_unaligned(high);
                }
            }
            column += 2 * S::F32_LANES;
        }
    }
}

/// Scalar products with some rows of the matrix.
struct ByColumns<'a, E> {
    x: &'a [f32],
    weight: &'a [E],
    sizes: Sizes,
    columns: (usize, usize),
    out: SharedSlice<'a>,
}

impl<E: Element> WithSimd for ByColumns<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (mut column, end) = self.columns;
        while column < end {
            let count = if end - column >= 4 { 4 } else { 1 };
            let mut row = 0;
            while row < self.sizes.rows {
                let left = self.sizes.rows - row;
                // SAFETY: `column + count ≤ end ≤ width`, and the rows taken are below `sizes.rows`.
                unsafe {
                    match (left, count) {
                        (1, 4) => self.block::<S, 1, 4>(simd, row, column),
                        (1, _) => self.block::<S, 1, 1>(simd, row, column),
                        (_, 4) => self.block::<S, 2, 4>(simd, row, column),
                        (_, _) => self.block::<S, 2, 1>(simd, row, column),
                    }
                }
                row += 2;
            }
            column += count;
        }
    }
}

impl<E: Element> ByColumns<'_, E> {
    /// Computes the scalar products of `M` rows of `x` with `R` rows of the matrix.
    ///
    /// # Safety
    /// `row + M ≤ rows` and `column + R ≤ width`, and no other thread writes these elements of `out`.
    #[inline(always)]
    unsafe fn block<S: Simd, const M: usize, const R: usize>(&self, simd: S, row: usize, column: usize) {
        let Sizes { depth, width, .. } = self.sizes;
        let zero = simd.splat_f32s(0.0);
        let mut sums = [[[zero; 2]; M]; R];
        let pair = 2 * S::F32_LANES;
        let whole = depth / pair * pair;
        let mut at = 0;
        while at < whole {
            // SAFETY: `at + pair ≤ depth`, so that the addresses are in rows of `x` and of the matrix that exist.
            unsafe {
                let mut x = [[zero; 2]; M];
                for (m, x) in x.iter_mut().enumerate() {
                    *x = f32::pair(simd, self.x.as_ptr().add((row + m) * depth + at));
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    let weights = E::pair(simd, self.weight.as_ptr().add((column + r) * depth + at));
                    for (sums, x) in sums.iter_mut().zip(&x) {
                        sums[0] = simd.mul_add_e_f32s(weights[0], x[0], sums[0]);
                        sums[1] = simd.mul_add_e_f32s(weights[1], x[1], sums[1]);
                    }
                }
            }
            at += pair;
        }
        for (r, sums) in sums.iter().enumerate() {
            for (m, sums) in sums.iter().enumerate() {
                let rest = (whole..depth)
                    .map(|at| self.x[(row + m) * depth + at] * self.weight[(column + r) * depth + at].value())
                    .sum::<f32>();
                let sum = simd.reduce_sum_f32s(simd.add_f32s(sums[0], sums[1]));
                // SAFETY: the caller's promise.
                unsafe { self.out.slice((row + m) * width + column + r, 1)[0] = sum + rest };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{on_every_isa, pool};
    use crate::test_support::{assert_close, numbers};

    const SIZES: [(usize, usize, usize); 9] = [
        (1, 1, 1),
        (1, 8, 32),
        (2, 7, 33),
        (3, 33, 5),
        (4, 64, 64),
        (5, 17, 100),
        (FEW_ROWS, 40, 70),
        (1, 300, 411),
        (3, 20, 9000),
    ];

    fn transposed<E: Copy>(x: &[E], rows: usize, cols: usize) -> Vec<E> {
        (0..rows * cols).map(|at| x[at % rows * cols + at / rows]).collect()
    }

    /// Compares both orders of storage with sums in f64.
    fn check<E: Element>(of: impl Fn(f32) -> E + Sync) {
        on_every_isa(|isa| {
            for (rows, depth, width) in SIZES {
                let sizes = Sizes { rows, depth, width };
                let (x, plain) = (numbers(rows * depth, 1, 1.0), numbers(depth * width, 2, 1.0));
                let weight: Vec<E> = plain.into_iter().map(&of).collect();
                let product = |at: usize| {
                    let (row, column) = (at / width, at % width);
                    let term = |t: usize| f64::from(x[row * depth + t]) * f64::from(weight[t * width + column].value());
                    (0..depth).map(term).sum::<f64>()
                };
                let want: Vec<f64> = (0..rows * width).map(product).collect();
                // Twice the error of plain sums in f32, in which products are rounded, too.
                let plain = |at: usize| {
                    let term = |t: usize| x[at / width * depth + t] * weight[t * width + at % width].value();
                    f64::from((0..depth).map(term).sum::<f32>())
                };
                let error = want.iter().enumerate().map(|(at, want)| (plain(at) - want).abs()).fold(1e-7, f64::max);
                let mut out = vec![f32::NAN; rows * width];
                by_rows(sizes, &x, &weight, &mut out);
                assert_close("by rows", isa, &out, &want, 2.0 * error, 1e-6);
                out.fill(f32::NAN);
                by_columns(sizes, &x, &transposed(&weight, depth, width), &mut out);
                assert_close("by columns", isa, &out, &want, 3e-6, 1e-6);
            }
        });
    }

    #[test]
    fn f32_agrees_with_plain_sums() {
        check(|x| x);
    }

    #[test]
    fn bf16_agrees_with_plain_sums_of_the_rounded_numbers() {
        check(bf16::from_f32);
    }

    #[test]
    fn the_number_of_threads_does_not_change_the_result() {
        for (rows, depth, width) in [(2, 300, 700), (1, 40, 9000)] {
            let sizes = Sizes { rows, depth, width };
            let (x, weight) = (numbers(rows * depth, 1, 1.0), numbers(depth * width, 2, 1.0));
            let run = |threads: usize| {
                let mut out = vec![0.0; 2 * rows * width];
                let (one, other) = out.split_at_mut(rows * width);
                pool(threads).install(|| {
                    by_rows(sizes, &x, &weight, one);
                    by_columns(sizes, &x, &weight, other);
                });
                out
            };
            let one = run(1);
            assert!((2..5).all(|threads| run(threads) == one));
        }
    }

    #[test]
    fn nan_and_infinity_come_through() {
        let (sizes, mut x) = (Sizes { rows: 1, depth: 40, width: 70 }, numbers(40, 1, 1.0));
        x[33] = f32::NAN;
        let mut weight: Vec<bf16> = numbers(40 * 70, 2, 1.0).into_iter().map(bf16::from_f32).collect();
        let mut out = vec![0.0; 70];
        by_rows(sizes, &x, &weight, &mut out);
        assert!(out.iter().all(|x| x.is_nan()));
        x[33] = 1.0;
        weight[33 * 70 + 69] = bf16::INFINITY;
        by_rows(sizes, &x, &weight, &mut out);
        assert!(out[69] == f32::INFINITY && out[..69].iter().all(|x| x.is_finite()));
    }
}
