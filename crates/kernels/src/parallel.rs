//! Splitting work among threads without changing results.
//!
//! Pieces depend on the shape and partial sums are added in index order. Where the number of threads decides the pieces
//! (attention of few heads, rows of a recurrent layer), it reaches a result through rounding, and the same number gives
//! the same bits. A rayon `sum` or `reduce` over floats would not.

use rayon::prelude::*;

use crate::share::is_crowded;

/// Elements below which a memory-bound loop stays on one thread: a hand-over costs about as much (5 µs).
pub(crate) const SERIAL_ELEMENTS: usize = 16 * 1024;

/// Rows of `width` elements in one piece of work, so that a piece holds about [`SERIAL_ELEMENTS`].
pub(crate) fn rows_per_piece(width: usize) -> usize {
    (SERIAL_ELEMENTS / width.max(1)).max(1)
}

/// Calls `f(first_row, rows)` on consecutive pieces of `out`, rows of `width` elements, on all threads.
pub(crate) fn for_each_rows(out: &mut [f32], width: usize, f: impl Fn(usize, &mut [f32]) + Sync) {
    let rows = rows_per_piece(width);
    if out.len() <= rows * width {
        if !out.is_empty() {
            f(0, out);
        }
        return;
    }
    if is_crowded() {
        out.chunks_mut(rows * width).enumerate().for_each(|(i, piece)| f(i * rows, piece));
    } else {
        out.par_chunks_mut(rows * width).enumerate().for_each(|(i, piece)| f(i * rows, piece));
    }
}
