//! Product of some rows with a matrix that is in the caches, `out = x W`, by register tiles over `W` as it is stored.
//!
//! The sums of a few columns stay in registers over a piece of the depth, where the product of [`few_rows`](crate::few_rows) loads and
//! stores them every few terms. Both add in the same order, that of `gemm`.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::few_rows::{DepthPieces, Sizes};
use crate::isa::dispatch;
use crate::parallel::is_crowded;
use crate::shared_slice::SharedSlice;
use crate::tile::{TileProduct, panel_width};
use crate::vector::MAX_LANES;

/// Number of multiply-adds below which one thread computes a product.
const SERIAL_MULTIPLY_ADDS: usize = 512 * 1024;
/// Number of columns below which they are not split any further.
const NARROW: usize = 128;

/// Fewest rows that fill a register tile.
pub(crate) const TILED_ROWS: usize = 6;

/// Computes `out = x W` for `W` stored row after row. Returns false without a result unless the columns are whole vectors.
///
/// # Shapes
/// `x` `[rows, depth]`, `weight` `[depth, width]`, `out` `[rows, width]`, whose lengths the caller has checked.
pub(crate) fn by_tiles(sizes: Sizes, x: &[f32], weight: &[f32], out: &mut [f32]) -> bool {
    let Sizes { rows, depth, width } = sizes;
    assert!(x.len() == rows * depth && weight.len() == depth * width && out.len() == rows * width);
    if !width.is_multiple_of(MAX_LANES) {
        return false;
    }
    let is_serial = rows * depth * width < SERIAL_MULTIPLY_ADDS || is_crowded();
    let blocks = if is_serial { 1 } else { (2 * rayon::current_num_threads()).min(width.div_ceil(NARROW)) };
    let shared = SharedSlice::new(out);
    let work = |block: usize| {
        let column = |at: usize| width / MAX_LANES * at / blocks * MAX_LANES;
        // Each block has columns of its own.
        dispatch(ByTiles { x, weight, sizes, columns: (column(block), column(block + 1)), out: shared.pointer(0) });
    };
    if blocks == 1 {
        work(0);
    } else {
        (0..blocks).into_par_iter().with_max_len(1).for_each(work);
    }
    true
}

/// Sums over the whole depth for some columns.
struct ByTiles<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    sizes: Sizes,
    /// First column and end, multiples of [`MAX_LANES`].
    columns: (usize, usize),
    out: *mut f32,
}

impl WithSimd for ByTiles<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { x, weight, sizes: Sizes { rows, depth, width }, columns: (first, end), out } = self;
        let depths = DepthPieces::new(depth);
        for piece in 0..depths.count() {
            let (from, to) = depths.range(piece);
            let product = TileProduct {
                rows,
                columns: (0, end - first),
                depth: to - from,
                a: x[from..].as_ptr(),
                a_row: depth,
                a_column: 1,
                b: weight[from * width + first..].as_ptr(),
                b_row: width,
                b_panel: panel_width::<S>(),
                // SAFETY: `first` is a column of the first row.
                out: unsafe { out.add(first) },
                out_row: width,
                accumulate: piece > 0,
                terms: TileProduct::ONE,
            };
            // SAFETY: the rows and columns are those of the slices, whose sizes the caller has checked; the columns of `out` are this
            // block's alone.
            unsafe { product.run(simd) };
        }
    }
}
