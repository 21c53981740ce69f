//! The sums of a convolution in vectors of neighbouring outputs of a channel.
//!
//! The zeros between the rows of the copy are multiplied, too: they are positions like any other. The sums are ready to be
//! copied, and few channels waste no lanes.

use pulp::{Simd, WithSimd};

use super::pass::Part;
use crate::tile::round_to_lanes;

/// Returns the number of vectors of positions in a register tile.
const fn most_vectors<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { 3 } else { 4 }
}

/// Returns the number of rows of a register tile. With three vectors and their factors, 8 rows take 28 of 32 registers. With 16
/// registers, 3 rows of 4 vectors take all of them; the compiler kept one of the sums of 4 rows of 3 vectors in memory.
const fn most_rows<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { 8 } else { 3 }
}

/// The sums of some channels at all positions of a part: `sums[r, p] = start[r] + Σ_t weights[t, r] · source[taps[t] + p]`.
pub(super) struct PositionSums<'a> {
    /// Number of positions, whole vectors.
    positions: usize,
    most_rows: usize,
    taps: &'a [usize],
    /// Number of elements that the source must have.
    source_len: usize,
}

impl<'a> PositionSums<'a> {
    /// Prepares the sums of a part whose neighbouring columns are neighbours in the source.
    pub(super) fn new<S: Simd>(part: &'a Part) -> Self {
        let positions = round_to_lanes::<S>((part.size[0] - 1) * part.source[0] + part.size[1]);
        let source_len = part.taps.iter().max().map_or(0, |last| last + positions);
        Self { positions, most_rows: most_rows::<S>(), taps: &part.taps, source_len }
    }

    /// Returns the largest number of channels.
    pub(super) const fn most_rows<S: Simd>() -> usize {
        most_rows::<S>()
    }

    /// Returns the distance between rows of sums.
    pub(super) fn row_len(&self) -> usize {
        self.positions
    }

    /// Returns the number of elements of the sums.
    pub(super) fn sums_len(&self) -> usize {
        self.most_rows * self.positions
    }

    /// Returns the number of elements that the source must have.
    pub(super) fn source_len(&self) -> usize {
        self.source_len
    }

    /// Writes the sums of the channels of `start`; `weights` are `[taps, channels]`.
    #[inline(always)]
    pub(super) fn run<S: Simd>(&self, simd: S, weights: &[f32], start: &[f32], source: &[f32], sums: &mut [f32]) {
        // A function of its own for each instruction set, so that its 24 tile shapes are compiled once.
        struct Call<'a>(&'a PositionSums<'a>, &'a [f32], &'a [f32], &'a [f32], &'a mut [f32]);
        impl WithSimd for Call<'_> {
            type Output = ();
            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) {
                let Self(product, weights, start, source, sums) = self;
                match start.len() {
                    0 => {}
                    1 => product.columns::<S, 1>(simd, weights, start, source, sums),
                    2 => product.columns::<S, 2>(simd, weights, start, source, sums),
                    3 => product.columns::<S, 3>(simd, weights, start, source, sums),
                    4 => product.columns::<S, 4>(simd, weights, start, source, sums),
                    5 => product.columns::<S, 5>(simd, weights, start, source, sums),
                    6 => product.columns::<S, 6>(simd, weights, start, source, sums),
                    7 => product.columns::<S, 7>(simd, weights, start, source, sums),
                    _ => product.columns::<S, 8>(simd, weights, start, source, sums),
                }
            }
        }
        Simd::vectorize(simd, Call(self, weights, start, source, sums));
    }

    #[inline(always)]
    fn columns<S: Simd, const R: usize>(
        &self,
        simd: S,
        weights: &[f32],
        start: &[f32],
        source: &[f32],
        out: &mut [f32],
    ) {
        if R > most_rows::<S>() {
            return;
        }
        assert_eq!(start.len(), R);
        let mut sums = [simd.splat_f32s(0.0); R];
        for (sum, start) in sums.iter_mut().zip(start) {
            *sum = simd.splat_f32s(*start);
        }
        let mut position = 0;
        while position < self.positions {
            let vectors = ((self.positions - position) / S::F32_LANES).min(most_vectors::<S>());
            match vectors {
                1 => self.tile::<S, R, 1>(simd, weights, source, sums, position, out),
                2 => self.tile::<S, R, 2>(simd, weights, source, sums, position, out),
                3 => self.tile::<S, R, 3>(simd, weights, source, sums, position, out),
                _ => self.tile::<S, R, 4>(simd, weights, source, sums, position, out),
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
        if V > most_vectors::<S>() {
            return;
        }
        let end = position + V * S::F32_LANES;
        assert!(end <= self.positions && (R - 1) * self.positions + end <= out.len());
        assert!(weights.len() >= R * self.taps.len() && source.len() >= self.source_len);
        let zero = simd.splat_f32s(0.0);
        let mut sums = [[zero; V]; R];
        for (sums, start) in sums.iter_mut().zip(start) {
            *sums = [start; V];
        }
        let (mut weight, source) = (weights.as_ptr(), source.as_ptr().wrapping_add(position));
        for &tap in self.taps {
            // SAFETY: the vectors end at most `self.positions` after `tap`, so before `source_len`, and there are R weights
            // for each tap. Vectors need no alignment.
            unsafe {
                // The shorter side stays in registers and the other passes through one.
                if R < V {
                    let mut factors = [zero; R];
                    for (r, factor) in factors.iter_mut().enumerate() {
                        *factor = simd.splat_f32s(*weight.add(r));
                    }
                    for v in 0..V {
                        let column = source.add(tap + v * S::F32_LANES).cast::<S::f32s>().read_unaligned();
                        for (sums, factor) in sums.iter_mut().zip(factors) {
                            sums[v] = simd.mul_add_e_f32s(factor, column, sums[v]);
                        }
                    }
                } else {
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
