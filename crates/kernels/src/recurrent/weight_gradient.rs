//! The product `aᵀ g` over the rows of all steps, which is the gradient of a weight.
//!
//! The left factor is copied once into pieces as wide as a register tile. Each thread copies 4 vectors of columns and
//! [`DEPTH`] rows of the right factor at a time and multiplies them, without waiting for another.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::panels::{Rows, multiply_rows, rows_of_tile};
use super::prefetch;
use crate::buffer::unwritten;
use crate::error::KernelError;
use crate::isa::dispatch;
use crate::parallel::team_threads;
use crate::scratch::Scratch;
use crate::shared_slice::SharedSlice;
use crate::tile::TILE_ROWS;

/// Number of vectors of columns in a piece of `g`.
const VECTORS: usize = 4;
/// Number of rows multiplied before the sums go back to memory; 256 KiB of `g` with AVX-512.
const DEPTH: usize = 1024;
/// Number of tasks for each piece of `g` if there are few pieces.
const TASK_PARTS: usize = 4;
/// Number of multiply-adds up to which one thread is faster than several.
const SERIAL_WORK: usize = 192 * 1024;

/// Some columns of a row-major matrix: element `(i, j)` is `data[i·stride + first + j]`.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a> {
    pub(super) data: &'a [f32],
    pub(super) stride: usize,
    pub(super) first: usize,
    pub(super) count: usize,
}

/// A matrix given by its rows.
pub(super) trait RowSource: Sync {
    /// Returns the number of elements of a row.
    fn width(&self) -> usize;
    /// Returns row `index`, of [`RowSource::width`] elements.
    fn row(&self, index: usize) -> &[f32];
}

impl RowSource for Columns<'_> {
    fn width(&self) -> usize {
        self.count
    }

    fn row(&self, index: usize) -> &[f32] {
        &self.data[index * self.stride + self.first..][..self.count]
    }
}

/// A left factor, and where its product is written.
pub(super) struct Target<'a> {
    pub(super) source: &'a dyn RowSource,
    pub(super) out: &'a mut [f32],
}

/// Computes `out[:, first..first + g.count] = aᵀ g` for each target's source `a`, with the same bits for any number of
/// threads.
///
/// # Shapes
/// `a` and `g` have `rows` rows; `out` `[a.width(), out_stride]`.
pub(super) fn weight_gradients<const T: usize>(
    rows: usize,
    g: Columns<'_>,
    targets: [Target<'_>; T],
    out_stride: usize,
    first: usize,
) -> Result<(), KernelError> {
    let reach = if rows == 0 { 0 } else { (rows - 1) * g.stride + g.first + g.count };
    if reach > g.data.len() {
        return Err(KernelError::OutOfBounds { what: "weight gradient: right factor", reach, len: g.data.len() });
    }
    for Target { source, out } in &targets {
        let reach = if source.width() == 0 { 0 } else { (source.width() - 1) * out_stride + first + g.count };
        if reach > out.len() {
            return Err(KernelError::OutOfBounds { what: "weight gradient: result", reach, len: out.len() });
        }
    }
    dispatch(WeightGradients { rows, g, targets, out_stride, first });
    Ok(())
}

struct WeightGradients<'a, const T: usize> {
    rows: usize,
    g: Columns<'a>,
    targets: [Target<'a>; T],
    out_stride: usize,
    first: usize,
}

impl<const T: usize> WithSimd for WeightGradients<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { rows, g, targets, out_stride, first } = self;
        let width: usize = targets.iter().map(|target| target.source.width()).sum();
        let parallel = rows * width * g.count > SERIAL_WORK;
        let targets = targets.map(|Target { source, out }| {
            let left = match rows_of_tile::<S>() {
                TILE_ROWS => PackedLeft::new::<TILE_ROWS>(rows, source, parallel),
                _ => PackedLeft::new::<3>(rows, source, parallel),
            };
            (left, SharedSlice::new(out))
        });
        let pieces = g.count.div_ceil(VECTORS * S::F32_LANES);
        // With few pieces, several threads share one.
        let parts = if pieces >= 2 * team_threads() { 1 } else { TASK_PARTS };
        let task = |index: usize| {
            let (piece, part) = (index % pieces, index / pieces);
            let column = piece * VECTORS * S::F32_LANES;
            simd.vectorize(Task { rows, g, targets: &targets, out_stride, first, column, part, parts });
        };
        if parallel {
            (0..pieces * parts).into_par_iter().with_max_len(1).for_each(task);
        } else {
            (0..pieces * parts).for_each(task);
        }
    }
}

/// The left factor as `[rows / DEPTH, tiles, DEPTH, tile]`; the last depth may be shorter, the last tile is filled with zeros.
struct PackedLeft {
    data: Vec<f32>,
    width: usize,
    tile: usize,
}

impl PackedLeft {
    fn new<const TILE: usize>(rows: usize, source: &dyn RowSource, parallel: bool) -> Self {
        let width = source.width();
        let padded = width.next_multiple_of(TILE);
        let mut data = unwritten(rows * padded);
        let pack = |(index, chunk): (usize, &mut [f32])| {
            let depth = chunk.len() / padded;
            // A few rows at a time, so that cache lines are filled before they are evicted.
            for first in (0..depth).step_by(16) {
                for k in first..depth.min(first + 16) {
                    let (whole, rest) = source.row(index * DEPTH + k).as_chunks::<TILE>();
                    for (i, from) in whole.iter().enumerate() {
                        chunk[(i * depth + k) * TILE..][..TILE].copy_from_slice(from);
                    }
                    if !rest.is_empty() {
                        let tile = &mut chunk[(whole.len() * depth + k) * TILE..][..TILE];
                        tile[..rest.len()].copy_from_slice(rest);
                        tile[rest.len()..].fill(0.0);
                    }
                }
            }
        };
        if data.is_empty() {
            // There is nothing to pack.
        } else if parallel {
            data.par_chunks_mut(DEPTH * padded).enumerate().for_each(pack);
        } else {
            data.chunks_mut(DEPTH * padded).enumerate().for_each(pack);
        }
        Self { data, width, tile: TILE }
    }

    /// Returns the tiles of one of `parts` shares.
    fn tiles(&self, part: usize, parts: usize) -> std::ops::Range<usize> {
        let tiles = self.width.div_ceil(self.tile);
        tiles * part / parts..tiles * (part + 1) / parts
    }

    /// Returns the rows `start..start + depth` of one tile; `start` is a multiple of [`DEPTH`].
    #[inline(always)]
    fn rows(&self, start: usize, depth: usize, tile: usize) -> Rows<'_> {
        let from = start * self.width.next_multiple_of(self.tile) + tile * depth * self.tile;
        Rows { data: &self.data[from..][..depth * self.tile], stride: 1, depth_stride: self.tile }
    }
}

/// The work on one piece of columns of the results, from `column` on, and on one of `parts` shares of their rows.
struct Task<'a> {
    rows: usize,
    g: Columns<'a>,
    targets: &'a [(PackedLeft, SharedSlice<'a>)],
    out_stride: usize,
    first: usize,
    column: usize,
    part: usize,
    parts: usize,
}

impl WithSimd for Task<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let width = VECTORS * S::F32_LANES;
        let columns = (self.g.count - self.column).min(width);
        let mut packed = Scratch::new(DEPTH.min(self.rows) * width);
        // Runs once even without rows: the result is then zero.
        let mut start = 0;
        loop {
            let depth = DEPTH.min(self.rows - start);
            for (k, packed) in packed.chunks_exact_mut(width).take(depth).enumerate() {
                let row = &self.g.row(start + k)[self.column..][..columns];
                packed[..columns].copy_from_slice(row);
                packed[columns..].fill(0.0);
            }
            let mut next = start + depth..self.rows.min(start + 2 * depth);
            let tiles: usize = self.targets.iter().map(|(left, _)| left.tiles(self.part, self.parts).len()).sum();
            let prefetched = next.len().div_ceil(tiles.max(1));
            for (left, out) in self.targets {
                for tile in left.tiles(self.part, self.parts) {
                    next.by_ref().take(prefetched).for_each(|row| self.prefetch(row, columns));
                    self.tile(simd, (left, *out), (start, depth), tile, columns, &packed[..depth * width]);
                }
            }
            start += depth;
            if start >= self.rows {
                break;
            }
        }
    }
}

impl Task<'_> {
    /// Prefetches a row of `g` that is copied next.
    #[inline(always)]
    fn prefetch(&self, row: usize, columns: usize) {
        let row = &self.g.row(row)[self.column..][..columns];
        row.chunks(16).for_each(|line| prefetch(line.as_ptr()));
    }

    #[inline(always)]
    fn tile<S: Simd>(
        &self,
        simd: S,
        (left, out): (&PackedLeft, SharedSlice<'_>),
        (start, depth): (usize, usize),
        tile: usize,
        columns: usize,
        packed: &[f32],
    ) {
        let lanes = S::F32_LANES;
        let first = tile * left.tile;
        let rows = (left.width - first).min(left.tile);
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; TILE_ROWS];
        if start > 0 {
            for (r, sums) in sums[..rows].iter_mut().enumerate() {
                for (j, sum) in sums.iter_mut().enumerate() {
                    let lane = (j * lanes).min(columns);
                    let from = (first + r) * self.out_stride + self.first + self.column + lane;
                    // SAFETY: this task alone uses these rows and columns of the result.
                    *sum = unsafe { out.load(simd, from, (columns - lane).min(lanes)) };
                }
            }
        }
        multiply_rows(simd, rows, left.rows(start, depth, tile), packed, &mut sums);
        for (r, sums) in sums[..rows].iter().enumerate() {
            for (j, sum) in sums.iter().enumerate() {
                let lane = (j * lanes).min(columns);
                let to = (first + r) * self.out_stride + self.first + self.column + lane;
                // SAFETY: as above.
                unsafe { out.store(simd, to, (columns - lane).min(lanes), *sum) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::on_every_isa;
    use crate::recurrent::testing::{assert_close, noise};

    #[test]
    fn agrees_with_three_loops_and_leaves_other_columns_alone() {
        on_every_isa(|isa| {
            for (rows, widths, columns) in [
                (0, [2, 3], 5),
                (1, [1, 1], 1),
                (7, [6, 13], 64),
                (DEPTH - 1, [5, 0], 17),
                (2 * DEPTH + 3, [40, 7], 130),
            ] {
                let g = noise(1, rows * (columns + 3), 1.0);
                let a = widths.map(|width| noise(2, rows * width, 1.0));
                let mut outs = widths.map(|width| vec![9.0; width * (columns + 2)]);
                let [first, second] = &mut outs;
                let source = |i: usize| Columns { data: &a[i], stride: widths[i], first: 0, count: widths[i] };
                let sources = [source(0), source(1)];
                let targets = [Target { source: &sources[0], out: first }, Target { source: &sources[1], out: second }];
                let right = Columns { data: &g, stride: columns + 3, first: 3, count: columns };
                weight_gradients(rows, right, targets, columns + 2, 1).unwrap();
                for (i, out) in outs.iter().enumerate() {
                    let want: Vec<f64> = (0..out.len())
                        .map(|at| match (at / (columns + 2), at % (columns + 2)) {
                            (_, j) if j == 0 || j > columns => 9.0,
                            (m, j) => (0..rows)
                                .map(|r| f64::from(a[i][r * widths[i] + m]) * f64::from(g[r * (columns + 3) + 2 + j]))
                                .sum(),
                        })
                        .collect();
                    assert_close(&format!("{isa:?} {rows} {widths:?} {columns}"), out, &want, 6e-6);
                }
            }
        });
    }

    #[test]
    fn factors_that_are_too_short_are_refused() {
        let a = Columns { data: &[0.0; 6], stride: 3, first: 0, count: 3 };
        let g = Columns { data: &[0.0; 8], stride: 4, first: 0, count: 4 };
        let call = |rows, g, len: usize| {
            let mut out = vec![0.0; len];
            weight_gradients(rows, g, [Target { source: &a, out: &mut out }], 4, 0)
        };
        assert!(call(2, g, 12).is_ok());
        assert!(call(2, g, 11).is_err());
        assert!(call(2, Columns { first: 1, ..g }, 12).is_err());
    }
}
