//! The sums of a convolution in vectors of output channels.
//!
//! No position is computed in vain, whatever the size of the image, but the sums must be transposed.

use pulp::{Simd, WithSimd};

use crate::tile::{TILE_ROWS, panel_width};

/// Number of terms that are multiplied before the sums go back to memory: 24 KiB of weights with AVX-512, which stay in the
/// first cache.
const DEPTH: usize = 96;

/// Where the inputs and the sums of a position are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    /// Offset in the source.
    pub(super) source: usize,
    /// Number of the position among the sums.
    pub(super) out: usize,
}

/// The sums of one panel of channels: `sums[p.out, r] = start[r] + Σ_t weights[t, r] · source[taps[t] + p.source]`.
#[derive(Clone, Copy)]
pub(super) struct PanelSums<'a> {
    pub(super) taps: &'a [usize],
    /// `[taps, channels]`; the number of channels is a multiple of the lanes and at most [`panel_width`].
    pub(super) weights: &'a [f32],
    pub(super) channels: usize,
    /// A number for each channel.
    pub(super) start: &'a [f32],
    pub(super) positions: &'a [Position],
    pub(super) source: &'a [f32],
}

impl PanelSums<'_> {
    /// Writes the sums, `[positions, channels]`.
    #[inline(always)]
    pub(super) fn run<S: Simd>(self, simd: S, sums: &mut [f32]) {
        // A function of its own for each instruction set, so that its 24 tile shapes are compiled once.
        struct Call<'a>(PanelSums<'a>, &'a mut [f32]);
        impl WithSimd for Call<'_> {
            type Output = ();
            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) {
                let Self(panel, sums) = self;
                match panel.channels / S::F32_LANES {
                    1 => panel.blocks::<S, 1>(simd, sums),
                    2 => panel.blocks::<S, 2>(simd, sums),
                    3 => panel.blocks::<S, 3>(simd, sums),
                    _ => panel.blocks::<S, 4>(simd, sums),
                }
            }
        }
        Simd::vectorize(simd, Call(self, sums));
    }

    #[inline(always)]
    fn blocks<S: Simd, const V: usize>(self, simd: S, sums: &mut [f32]) {
        if V * S::F32_LANES > panel_width::<S>() {
            return;
        }
        let channels = V * S::F32_LANES;
        assert!(self.channels == channels && self.start.len() == channels);
        assert!(self.weights.len() >= self.taps.len() * channels);
        let last = self.taps.iter().max().copied().unwrap_or(0);
        assert!(self.positions.iter().all(|position| position.source + last < self.source.len()));
        assert!(self.positions.iter().all(|position| (position.out + 1) * channels <= sums.len()));
        for first in (0..self.taps.len().max(1)).step_by(DEPTH) {
            let taps = &self.taps[first..self.taps.len().min(first + DEPTH)];
            let block = Self { taps, weights: &self.weights[first * channels..], ..self };
            let tiles = self.positions.len().div_ceil(TILE_ROWS);
            for tile in 0..tiles {
                let (begin, end) = (self.positions.len() * tile / tiles, self.positions.len() * (tile + 1) / tiles);
                let positions = &self.positions[begin..end];
                // SAFETY: the assertions, which hold for each part of the taps and positions.
                unsafe {
                    match positions.len() {
                        1 => block.tile::<S, 1, V>(simd, first == 0, positions, sums),
                        2 => block.tile::<S, 2, V>(simd, first == 0, positions, sums),
                        3 => block.tile::<S, 3, V>(simd, first == 0, positions, sums),
                        4 => block.tile::<S, 4, V>(simd, first == 0, positions, sums),
                        5 => block.tile::<S, 5, V>(simd, first == 0, positions, sums),
                        _ => block.tile::<S, TILE_ROWS, V>(simd, first == 0, positions, sums),
                    }
                }
            }
        }
    }

    /// Adds the sums of `R` positions to those in memory, or to `start` if they are the first.
    ///
    /// # Safety
    /// The elements of the formula are inside `weights`, `start`, `source` and `sums`.
    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize, const V: usize>(
        self,
        simd: S,
        is_first: bool,
        positions: &[Position],
        sums: &mut [f32],
    ) {
        let positions = positions.first_chunk::<R>().expect("the caller has counted the positions");
        let zero = simd.splat_f32s(0.0);
        let mut tile = [[zero; V]; R];
        let (mut offsets, mut places) = ([0; R], [sums.as_mut_ptr(); R]);
        for (r, position) in positions.iter().enumerate() {
            offsets[r] = position.source;
            places[r] = places[r].wrapping_add(position.out * V * S::F32_LANES);
            let from = if is_first { self.start.as_ptr() } else { places[r] };
            for (v, sum) in tile[r].iter_mut().enumerate() {
                // SAFETY: the caller's promise; vectors need no alignment.
                *sum = unsafe { from.add(v * S::F32_LANES).cast::<S::f32s>().read_unaligned() };
            }
        }
        let mut weight = self.weights.as_ptr();
        for &tap in self.taps {
            // SAFETY: the caller's promise.
            unsafe {
                let source = self.source.as_ptr().add(tap);
                let mut columns = [zero; V];
                for (v, column) in columns.iter_mut().enumerate() {
                    *column = weight.add(v * S::F32_LANES).cast::<S::f32s>().read_unaligned();
                }
                for (tile, offset) in tile.iter_mut().zip(offsets) {
                    let factor = simd.splat_f32s(*source.add(offset));
                    for (sum, column) in tile.iter_mut().zip(columns) {
                        *sum = simd.mul_add_e_f32s(factor, column, *sum);
                    }
                }
                weight = weight.add(V * S::F32_LANES);
            }
        }
        for (tile, place) in tile.iter().zip(places) {
            for (v, sum) in tile.iter().enumerate() {
                // SAFETY: the caller's promise.
                unsafe { place.add(v * S::F32_LANES).cast::<S::f32s>().write_unaligned(*sum) };
            }
        }
    }
}
