//! Product of a sparse and a dense matrix, and of the transposed sparse matrix, which is its gradient.
//!
//! ```text
//! y = A x        y_i = Σ_j a_ij x_j over the entries of row i
//! ∂x = Aᵀ ∂y     ∂x_j = Σ_i a_ij ∂y_i over the entries of column j
//! ```
//!
//! The places of the entries are the [`Edges`] of a graph from columns (sources) to rows (targets). Each output row is a sum
//! over its entries in their order, on one thread, so results do not depend on the threads.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::error::{KernelError, check_len, check_sizes};
use crate::graph_attention::{Edges, Rows, weighted_sum};
use crate::isa::dispatch;
use crate::parallel::is_crowded;
use crate::shared_slice::SharedSlice;

/// Work of one block of rows, in multiply-adds.
const BLOCK: usize = 32 * 1024;
/// Work of an entry for its indices, in multiply-adds, besides its `width` multiply-adds.
const ENTRY: usize = 8;
/// Work below which one thread is faster than several, in multiply-adds.
const SERIAL: usize = 4 * BLOCK;

/// Which of the two products to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// `A x`.
    Plain,
    /// `Aᵀ x`.
    Transposed,
}

/// Computes `out = A x` or `out = Aᵀ x`, where `values` are the entries of `A` in the order of `places`.
///
/// # Shapes
/// `A` `[rows, columns]`, with rows as targets and columns as sources of `places`; `x` `[columns, width]` and `out`
/// `[rows, width]`, or the other way round for the transposed matrix. Old content of `out` is replaced.
pub fn sparse_matmul(
    places: &Edges,
    values: &[f32],
    side: Side,
    x: &[f32],
    width: usize,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let (inner, rows) = match side {
        Side::Plain => (places.n_sources(), places.by_target()),
        Side::Transposed => (places.n_targets(), places.by_source()),
    };
    check_len("sparse values", values.len(), places.len())?;
    check_sizes("sparse product operand", x.len(), &[inner, width])?;
    check_sizes("sparse product", out.len(), &[rows.len(), width])?;
    if width == 0 {
        return Ok(());
    }
    let out = SharedSlice::new(out);
    for_each_block(rows, places.len(), width, |rows| {
        // SAFETY: each row is in one block.
        let out = unsafe { out.slice(rows.start * width, rows.len() * width) };
        dispatch(Product { places, values, side, x, width, rows, out });
    });
    Ok(())
}

/// Calls `f` on all threads with blocks of rows that hold about the same number of entries.
fn for_each_block(rows: &Rows, entries: usize, width: usize, f: impl Fn(Range<usize>) + Sync) {
    let entry = width + ENTRY;
    if entries.saturating_mul(entry) < SERIAL || is_crowded() {
        return f(0..rows.len());
    }
    let share = (BLOCK / entry).max(1);
    (0..rows.blocks(share)).into_par_iter().for_each(|block| f(rows.block(share, block)));
}

struct Product<'a> {
    places: &'a Edges,
    values: &'a [f32],
    side: Side,
    x: &'a [f32],
    width: usize,
    rows: Range<usize>,
    /// Output of these rows.
    out: &'a mut [f32],
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { places, values, side, x, width, rows, out } = self;
        for (row, out) in rows.zip(out.chunks_exact_mut(width)) {
            match side {
                Side::Plain => {
                    let entries = places.incoming(row);
                    let columns = &places.sources()[entries.clone()];
                    let terms = entries.zip(columns).map(|(entry, &column)| (entry, column as usize));
                    weighted_sum(simd, (1, width), terms, values, x, out);
                }
                Side::Transposed => {
                    let terms = places.outgoing(row).iter().map(|&(entry, row)| (entry, row as usize));
                    weighted_sum(simd, (1, width), terms, values, x, out);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::attention::SparseRows;
    use crate::isa::on_every_isa;
    use crate::test_support::{assert_close, numbers, wide};

    /// A matrix with about a third of its entries; some rows and columns are empty.
    fn places(rows: usize, columns: usize) -> Edges {
        let mut offsets = vec![0];
        let mut found = Vec::new();
        for row in 0..rows {
            found.extend((0..columns).filter(|column| row % 4 != 2 && (row * 7 + column * 5) % 3 == 0));
            offsets.push(found.len());
        }
        Edges::new(SparseRows { offsets: &offsets, columns: &found }, columns).unwrap()
    }

    fn check(rows: usize, columns: usize, width: usize) {
        let places = places(rows, columns);
        let values = numbers(places.len(), 1, 1.0);
        let entries: Vec<(usize, usize, f64)> = (0..rows)
            .flat_map(|row| places.incoming(row).map(move |entry| (row, entry)))
            .map(|(row, entry)| (row, places.sources()[entry] as usize, f64::from(values[entry])))
            .collect();
        on_every_isa(|isa| {
            for side in [Side::Plain, Side::Transposed] {
                let (inner, outer) = if side == Side::Plain { (columns, rows) } else { (rows, columns) };
                let x = numbers(inner * width, 2, 1.0);
                let mut want = vec![0.0; outer * width];
                for &(row, column, value) in &entries {
                    let (to, from) = if side == Side::Plain { (row, column) } else { (column, row) };
                    for at in 0..width {
                        want[to * width + at] += value * wide(&x)[from * width + at];
                    }
                }
                let mut out = vec![f32::NAN; outer * width];
                sparse_matmul(&places, &values, side, &x, width, &mut out).unwrap();
                assert_close(&format!("{side:?}"), isa, &out, &want, 1e-6 * inner as f64, 1e-6);
            }
        });
    }

    #[test]
    fn agrees_with_the_formula() {
        for (rows, columns, width) in
            [(0, 0, 3), (1, 1, 1), (5, 4, 0), (9, 7, 5), (30, 40, 17), (12, 8, 64), (7, 9, 100)]
        {
            check(rows, columns, width);
        }
    }

    #[test]
    fn threads_do_not_change_the_bits() {
        let (rows, columns, width) = (700, 300, 24);
        let places = places(rows, columns);
        let (values, x) = (numbers(places.len(), 1, 1.0), numbers(columns * width, 2, 1.0));
        let run = |threads| {
            let mut out = vec![f32::NAN; rows * width];
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| sparse_matmul(&places, &values, Side::Plain, &x, width, &mut out)).unwrap();
            out
        };
        assert_eq!(run(1), run(3));
    }

    #[test]
    fn sizes_are_checked_and_nan_comes_through() {
        let places = places(3, 2);
        let values = vec![1.0; places.len()];
        let run = |values: &[f32], x: &[f32], out: &mut [f32]| {
            sparse_matmul(&places, values, Side::Plain, x, 2, out).is_err()
        };
        assert!(run(&values[1..], &[0.0; 4], &mut [0.0; 6]));
        assert!(run(&values, &[0.0; 6], &mut [0.0; 6]));
        assert!(run(&values, &[0.0; 4], &mut [0.0; 4]));
        let mut out = [0.0; 6];
        assert!(!run(&values, &[f32::NAN; 4], &mut out) && out[0].is_nan() && out[4] == 0.0, "{out:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn any_size(rows in 0_usize..20, columns in 0_usize..20, width in 0_usize..40) {
            check(rows, columns, width);
        }
    }
}
