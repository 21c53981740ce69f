//! The sums of a convolution for one image: `out[r, p] = start[r] + Σ_t weights[r, t] · source[taps[t] + p]`.

use pulp::{Simd, WithSimd};

use crate::tile::round_to_lanes;

/// Number of vectors of positions in a register tile.
const VECTORS: usize = 3;

/// Returns the number of rows of a register tile. With three vectors and their factors, 8 rows take 28 of 32 registers,
/// 4 rows 16 of 16.
const fn most_rows<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { 8 } else { 4 }
}

/// The weights and offsets of a convolution, laid out for one instruction set.
pub(super) struct Product {
    rows: usize,
    /// Number of positions that are computed for each row, whole vectors.
    positions: usize,
    most_rows: usize,
    /// Offset in the source for each term.
    taps: Vec<usize>,
    /// For each tile of rows, its weights for each term in turn.
    weights: Vec<f32>,
    /// Number of elements that a source must have.
    source_len: usize,
}

impl Product {
    /// Lays out `weight(row, term)` for sums at `positions` consecutive positions.
    pub(super) fn new<S: Simd>(
        rows: usize,
        positions: usize,
        taps: Vec<usize>,
        weight: impl Fn(usize, usize) -> f32,
    ) -> Self {
        let positions = round_to_lanes::<S>(positions);
        let mut product = Self {
            rows,
            positions,
            most_rows: most_rows::<S>(),
            weights: Vec::with_capacity(rows * taps.len()),
            source_len: taps.iter().max().map_or(0, |last| last + positions),
            taps,
        };
        for tile in 0..product.tiles() {
            let (first, count) = product.rows_of(tile);
            for t in 0..product.taps.len() {
                product.weights.extend((first..first + count).map(|row| weight(row, t)));
            }
        }
        product
    }

    /// Returns the number of tiles of rows.
    pub(super) fn tiles(&self) -> usize {
        self.rows.div_ceil(self.most_rows)
    }

    /// Returns the first row of a tile and the number of its rows.
    pub(super) fn rows_of(&self, tile: usize) -> (usize, usize) {
        let first = |tile: usize| self.rows * tile / self.tiles();
        (first(tile), first(tile + 1) - first(tile))
    }

    /// Returns the distance between rows of sums.
    pub(super) fn row_stride(&self) -> usize {
        self.positions
    }

    /// Returns the number of elements of the sums of one tile.
    pub(super) fn tile_len(&self) -> usize {
        self.most_rows * self.positions
    }

    /// Returns the number of elements that `source` must have.
    pub(super) fn source_len(&self) -> usize {
        self.source_len
    }

    /// Writes the sums of the rows of a tile to `out`, each from its `start` or from 0.
    #[inline(always)]
    pub(super) fn run<S: Simd>(&self, simd: S, tile: usize, source: &[f32], start: Option<&[f32]>, out: &mut [f32]) {
        // A function of its own for each instruction set, so that its 24 tile shapes are compiled once.
        struct Call<'a>(&'a Product, usize, &'a [f32], Option<&'a [f32]>, &'a mut [f32]);
        impl WithSimd for Call<'_> {
            type Output = ();
            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) {
                let Self(product, tile, source, start, out) = self;
                product.rows(simd, tile, source, start, out);
            }
        }
        Simd::vectorize(simd, Call(self, tile, source, start, out));
    }

    #[inline(always)]
    fn rows<S: Simd>(&self, simd: S, tile: usize, source: &[f32], start: Option<&[f32]>, out: &mut [f32]) {
        let (first, count) = self.rows_of(tile);
        let weights = &self.weights[first * self.taps.len()..][..count * self.taps.len()];
        let start = start.map(|start| &start[first..][..count]);
        match count {
            1 => self.columns::<S, 1>(simd, weights, source, start, out),
            2 => self.columns::<S, 2>(simd, weights, source, start, out),
            3 => self.columns::<S, 3>(simd, weights, source, start, out),
            4 => self.columns::<S, 4>(simd, weights, source, start, out),
            5 => self.columns::<S, 5>(simd, weights, source, start, out),
            6 => self.columns::<S, 6>(simd, weights, source, start, out),
            7 => self.columns::<S, 7>(simd, weights, source, start, out),
            _ => self.columns::<S, 8>(simd, weights, source, start, out),
        }
    }

    #[inline(always)]
    fn columns<S: Simd, const R: usize>(
        &self,
        simd: S,
        weights: &[f32],
        source: &[f32],
        start: Option<&[f32]>,
        out: &mut [f32],
    ) {
        if R > most_rows::<S>() {
            return;
        }
        let mut sums = [simd.splat_f32s(0.0); R];
        if let Some(start) = start {
            for (sum, start) in sums.iter_mut().zip(start) {
                *sum = simd.splat_f32s(*start);
            }
        }
        let mut position = 0;
        while position < self.positions {
            let vectors = ((self.positions - position) / S::F32_LANES).min(VECTORS);
            match vectors {
                1 => self.tile::<S, R, 1>(simd, weights, source, sums, position, out),
                2 => self.tile::<S, R, 2>(simd, weights, source, sums, position, out),
                _ => self.tile::<S, R, VECTORS>(simd, weights, source, sums, position, out),
            }
            position += vectors * S::F32_LANES;
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const R: usize, const V: usize>(
        &self,
        simd: S,
        weights: &[f32],
        source: &[f32],
        start: [S::f32s; R],
        position: usize,
        out: &mut [f32],
    ) {
        let end = position + V * S::F32_LANES;
        assert!(end <= self.positions && (R - 1) * self.positions + end <= out.len());
        assert!(weights.len() >= R * self.taps.len() && source.len() >= self.source_len);
        let zero = simd.splat_f32s(0.0);
        let mut sums = [[zero; V]; R];
        for (sums, start) in sums.iter_mut().zip(start) {
            *sums = [start; V];
        }
        let (mut weight, source) = (weights.as_ptr(), source.as_ptr().wrapping_add(position));
        for &tap in &self.taps {
            // SAFETY: the vectors end at most `self.positions` after `tap`, so before `source_len`, and there are R weights
            // for each tap. Vectors need no alignment.
            unsafe {
                let mut columns = [zero; V];
                for (v, column) in columns.iter_mut().enumerate() {
                    *column = source.add(tap + v * S::F32_LANES).cast::<S::f32s>().read_unaligned();
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    let factor = simd.splat_f32s(*weight.add(r));
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = simd.mul_add_e_f32s(factor, column, *sum);
                    }
                }
                weight = weight.add(R);
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                // SAFETY: inside `out` by the first assertion.
                unsafe {
                    let place = out.as_mut_ptr().add(r * self.positions + position + v * S::F32_LANES);
                    place.cast::<S::f32s>().write_unaligned(*sum);
                }
            }
        }
    }
}
