//! Strips of the output for threads, and blocks of the operands that fit in the caches.

use rayon::prelude::*;

use super::pack::pack;
use super::tile::{HEIGHT, Tile, WIDTH};
use crate::matmul::{Matrix, Output, is_worth_threads};
use crate::scratch::Scratch;
use crate::shared_slice::SharedSlice;

/// Smallest width of a strip that pays for packing the other operand once more.
const STRIP: usize = 128;
/// Number of terms that are multiplied at once: a panel of columns of 16 KiB stays in the first cache.
const DEPTH: usize = 256;
/// Largest number of rows that are packed at once: 112 KiB, which stay in the second cache.
const ROWS: usize = 16 * HEIGHT;
/// Largest number of columns that are packed at once: 2 MiB.
const COLUMNS: usize = 4096;

/// Computes `out = a b` or `out += a b`, with a strip of the longer side of the output for each thread.
///
/// The sizes are checked, and so are the instructions of the processor.
pub(super) fn in_strips(a: Matrix<'_>, b: Matrix<'_>, out: &mut [f32], row_stride: usize, output: Output) {
    let ((m, k), (_, n)) = (a.size(), b.size());
    let long = m.max(n);
    let threads = if is_worth_threads(m, k, n) { rayon::current_num_threads() } else { 1 };
    let strips = threads.min(long / STRIP).max(1);
    let unit = if m > n { HEIGHT } else { WIDTH };
    let start = |strip: usize| (long.div_ceil(unit) * strip / strips * unit).min(long);
    let out = SharedSlice::new(out);
    let work = |strip: usize| {
        let (first, width) = (start(strip), start(strip + 1) - start(strip));
        let (a, b, offset) = match m > n {
            true => (a.rows(first, width), b, first * row_stride),
            false => (a, b.columns(first, width), first),
        };
        // SAFETY: the caller has checked the processor and that the output reaches as far as its sizes say; strips are
        // disjoint rows or columns of it.
        unsafe { in_blocks(a, b, out.pointer(offset), row_stride, output) };
    };
    match strips {
        1 => work(0),
        _ => (0..strips).into_par_iter().for_each(work),
    }
}

/// Computes `out = a b` or `out += a b` on this thread, block by block.
///
/// # Safety
/// The processor has AVX-512 F, BW and BF16. `out` can be written as `[a.rows, b.cols]` with `row_stride` elements between
/// rows; `a.cols` is `b.rows`.
unsafe fn in_blocks(a: Matrix<'_>, b: Matrix<'_>, out: *mut f32, row_stride: usize, output: Output) {
    let ((m, k), (_, n)) = (a.size(), b.size());
    let lines_of_b = b.transposed();
    let pairs = DEPTH.min(k).div_ceil(2);
    let (most_rows, most_columns) = (ROWS.min(m), COLUMNS.min(n).next_multiple_of(WIDTH));
    let mut scratch = Scratch::new(pairs * (most_rows + most_columns));
    let packed_b = scratch.as_mut_ptr().cast::<u32>();
    // Without terms there is still one block, of zeros.
    for depth in 0..k.div_ceil(DEPTH).max(1) {
        let terms = depth * DEPTH..k.min((depth + 1) * DEPTH);
        let pairs = terms.len().div_ceil(2);
        let output = if depth == 0 { output } else { Output::Accumulate };
        // SAFETY: the scratch memory has room for `pairs` of all columns and then of all rows of a block. Lines and terms
        // are those of the operands; tiles are inside the output.
        unsafe {
            let packed_a = packed_b.add(pairs * most_columns);
            for columns in even(n, n.div_ceil(COLUMNS), WIDTH) {
                for panel in columns.clone().step_by(WIDTH) {
                    let to = packed_b.add((panel - columns.start) * pairs);
                    for half in [0, WIDTH / 2] {
                        let lines = (panel + half).min(n)..(panel + half + WIDTH / 2).min(n);
                        pack(lines_of_b, lines, terms.clone(), to.add(half), WIDTH, WIDTH / 2);
                    }
                }
                for rows in even(m, m.div_ceil(ROWS), 1) {
                    let panels = rows.len().div_ceil(HEIGHT);
                    for panel in even(rows.len(), panels, 1) {
                        let lines = rows.start + panel.start..rows.start + panel.end;
                        pack(a, lines, terms.clone(), packed_a.add(panel.start * pairs), panel.len(), panel.len());
                    }
                    for column in columns.clone().step_by(WIDTH) {
                        for panel in even(rows.len(), panels, 1) {
                            let tile = Tile {
                                pairs,
                                a: packed_a.add(panel.start * pairs),
                                b: packed_b.add((column - columns.start) * pairs),
                                out: out.add((rows.start + panel.start) * row_stride + column),
                                row_stride,
                                columns: WIDTH.min(n - column),
                                output,
                            };
                            tile.run(panel.len());
                        }
                    }
                }
            }
        }
    }
}

/// Splits `0..all` into `parts` ranges of nearly the same length, which begin at multiples of `unit`.
fn even(all: usize, parts: usize, unit: usize) -> impl Iterator<Item = std::ops::Range<usize>> + Clone {
    let start = move |part: usize| (all.div_ceil(unit) * part / parts * unit).min(all);
    (0..parts).map(move |part| start(part)..start(part + 1))
}
