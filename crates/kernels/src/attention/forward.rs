//! The forward pass: blocks of queries against blocks of keys, with the running maximum and sum of Milakov 2018.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::operands::{Columns, Problem, Rows};
use super::options::{AttentionOptions, AttentionShape};
use super::rows::rowwise_forward;
use super::view::{View, ViewMut};
use crate::error::{KernelError, check_len};
use crate::isa::dispatch;
use crate::scratch::Scratch;
use crate::shared_slice::SharedSlice;
use crate::tile::{TILE_ROWS, TileProduct, panel_width, round_to_lanes};
use crate::vector::{exp_bounded, map, map_in_place, max, sum};

/// Number of queries in a block.
pub(crate) const QUERY_BLOCK: usize = 8 * TILE_ROWS;
/// Number of keys in a block: with 48 queries their scores take 48 KiB and stay in the second-level cache.
const KEY_BLOCK: usize = 256;
/// Number of multiply-adds below which one thread is faster than several.
pub(crate) const SERIAL_MULTIPLY_ADDS: usize = 512 * 1024;

/// Computes the attention of every query over the keys it may see.
///
/// # Shapes
/// `q` `[batch, n_heads, queries, d_head]`, `k` `[batch, kv_heads, keys, d_head]`, `v` `[batch, kv_heads, keys,
/// d_value]`, `out` `[batch, n_heads, queries, d_value]`, `log_sum_exp` `[batch, n_heads, queries]`.
pub fn attention_forward(
    shape: AttentionShape,
    options: &AttentionOptions<'_>,
    q: View<'_>,
    k: View<'_>,
    v: View<'_>,
    out: ViewMut<'_>,
    log_sum_exp: &mut [f32],
) -> Result<(), KernelError> {
    let problem = Problem::new(shape, options, q, k, v)?;
    out.check("output", shape.output_shape())?;
    check_len("log-sum-exp", log_sum_exp.len(), shape.rows())?;
    let log_sum_exp = SharedSlice::new(log_sum_exp);
    // With one query per head, as in decoding, laying out the keys would take most of the time.
    if options.sparse.is_some() || shape.queries < TILE_ROWS / 2 {
        rowwise_forward(&problem, &out, log_sum_exp);
        return Ok(());
    }
    let items = shape.batch * shape.kv_heads;
    let serial = problem.multiply_adds() < SERIAL_MULTIPLY_ADDS;
    let item = |item: usize| {
        dispatch(Item { problem: &problem, out: &out, log_sum_exp, item, serial });
    };
    if serial {
        (0..items).for_each(item);
    } else {
        (0..items).into_par_iter().with_max_len(1).for_each(item);
    }
    Ok(())
}

/// All queries that use one key head of one sequence.
struct Item<'a> {
    problem: &'a Problem<'a>,
    out: &'a ViewMut<'a>,
    log_sum_exp: SharedSlice<'a>,
    item: usize,
    serial: bool,
}

impl WithSimd for Item<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let AttentionShape { batch: sequences, queries, d_head, d_value, .. } = self.problem.shape;
        // All sequences of a head one after another, so that a bias that repeats over the batch stays in cache.
        let (batch, kv_head) = (self.item % sequences, self.item / sequences);
        let group = self.problem.shape.group();
        let keys = self.problem.length(batch);
        let keys_size = Columns::scratch::<S>(keys, d_head);
        let values_size = Rows::scratch::<S>(self.problem.v, keys, d_value);
        let mut memory = Scratch::new(keys_size + values_size);
        let (keys_out, values_out) = memory.split_at_mut(keys_size);
        let place = (batch, kv_head);
        let operands = Operands {
            keys: Columns::new::<S>(self.problem.k, place, keys, d_head, self.problem.options.scale, keys_out),
            values: Rows::new::<S>(self.problem.v, place, keys, d_value, values_out),
        };
        let blocks = queries.div_ceil(QUERY_BLOCK);
        let block = |number: usize| {
            // The last blocks first: in a causal call they take longest.
            let (head, first) = (kv_head * group + number / blocks, (blocks - 1 - number % blocks) * QUERY_BLOCK);
            let rows = QUERY_BLOCK.min(queries - first);
            let block = Block { item: &self, operands: &operands, batch, head, first, rows };
            Simd::vectorize(simd, block);
        };
        if self.serial {
            (0..group * blocks).for_each(block);
        } else {
            (0..group * blocks).into_par_iter().with_max_len(1).for_each(block);
        }
    }
}

/// Keys and values of one head, laid out for the tiles.
struct Operands<'a> {
    /// Keys times the scale.
    keys: Columns<'a>,
    values: Rows<'a>,
}

/// A block of queries of one head.
struct Block<'a> {
    item: &'a Item<'a>,
    operands: &'a Operands<'a>,
    batch: usize,
    head: usize,
    first: usize,
    rows: usize,
}

/// The keys `[low, high)` that each query of a block may see by band and length.
pub(crate) struct Intervals {
    pub(crate) low: [usize; QUERY_BLOCK],
    pub(crate) high: [usize; QUERY_BLOCK],
    pub(crate) rows: usize,
}

impl Intervals {
    #[inline(always)]
    pub(crate) fn new(problem: &Problem<'_>, batch: usize, first: usize, rows: usize) -> Self {
        let (mut low, mut high) = ([0; QUERY_BLOCK], [0; QUERY_BLOCK]);
        for r in 0..rows {
            (low[r], high[r]) = problem.options.interval(&problem.shape, batch, first + r);
        }
        Self { low, high, rows }
    }

    /// Returns the keys that any of the queries `rows` may see; neither end ever falls from one query to the next.
    #[inline(always)]
    pub(crate) fn union(&self, rows: std::ops::Range<usize>) -> (usize, usize) {
        (self.low[rows.start], self.high[rows.end - 1])
    }

    /// Returns the queries that may see any of the keys `low..high`.
    #[inline(always)]
    pub(crate) fn seeing(&self, low: usize, high: usize) -> std::ops::Range<usize> {
        let from = self.high[..self.rows].partition_point(|&end| end <= low);
        let to = self.low[..self.rows].partition_point(|&start| start < high);
        from..to.max(from)
    }

    /// Returns the part of [`Self::union`] inside the keys `[start, end)`, relative to `start` and widened to whole vectors.
    #[inline(always)]
    pub(crate) fn columns<S: Simd>(
        &self,
        rows: std::ops::Range<usize>,
        start: usize,
        end: usize,
    ) -> Option<(usize, usize)> {
        let (low, high) = self.union(rows);
        let (low, high) = (low.max(start), high.min(end));
        (low < high).then(|| {
            let low = (low - start) / S::F32_LANES * S::F32_LANES;
            (low, round_to_lanes::<S>(high - start))
        })
    }

    /// Returns the keys that query `r` sees inside `[start, end)`, relative to `start`; an empty range if there is none.
    #[inline(always)]
    pub(crate) fn row(&self, r: usize, start: usize, end: usize) -> (usize, usize) {
        let high = self.high[r].clamp(start, end) - start;
        ((self.low[r].clamp(start, end) - start).min(high), high)
    }
}

impl WithSimd for Block<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let d_value = self.item.problem.shape.d_value;
        let width = self.operands.values.width;
        let mut memory = Scratch::new(QUERY_BLOCK * (KEY_BLOCK + width));
        let (scores, sums) = memory.split_at_mut(QUERY_BLOCK * KEY_BLOCK);
        sums[..self.rows * width].fill(0.0);
        let mut running = Running { maxima: [f32::NEG_INFINITY; QUERY_BLOCK], totals: [0.0; QUERY_BLOCK] };

        let intervals = Intervals::new(self.item.problem, self.batch, self.first, self.rows);
        let (low, high) = intervals.union(0..self.rows);
        let mut start = low / panel_width::<S>() * panel_width::<S>();
        while start < high {
            let end = (start + KEY_BLOCK).min(high);
            self.add_keys(simd, (start, end), &intervals, scores, sums, &mut running);
            start += KEY_BLOCK;
        }

        let inverse_keep = self.item.problem.inverse_keep();
        // SAFETY: each query of each head is in one block only.
        let log_sum_exp = unsafe { self.item.log_sum_exp.slice(self.lse_row(0), self.rows) };
        for r in 0..self.rows {
            let total = running.totals[r];
            log_sum_exp[r] = running.maxima[r] + total.ln();
            let factor = simd.splat_f32s(if total == 0.0 { 0.0 } else { inverse_keep / total });
            // SAFETY: as above.
            let out = unsafe { self.item.out.row(self.batch, self.head, self.first + r, d_value) };
            map!(simd, &sums[r * width..][..d_value], out, |x| simd.mul_f32s(x, factor));
        }
    }
}

/// The maximum so far and the sum of exponentials relative to it, for each query.
struct Running {
    maxima: [f32; QUERY_BLOCK],
    totals: [f32; QUERY_BLOCK],
}

impl Block<'_> {
    fn lse_row(&self, r: usize) -> usize {
        let AttentionShape { n_heads, queries, .. } = self.item.problem.shape;
        (self.batch * n_heads + self.head) * queries + self.first + r
    }

    /// Adds the keys `[start, end)` to the sums of every query.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn add_keys<S: Simd>(
        &self,
        simd: S,
        (start, end): (usize, usize),
        intervals: &Intervals,
        scores: &mut [f32],
        sums: &mut [f32],
        running: &mut Running,
    ) {
        let panel = panel_width::<S>();
        let d_head = self.item.problem.shape.d_head;
        let width = self.operands.values.width;
        let problem = self.item.problem;
        let place = (self.batch, self.head);
        let product = |rows: std::ops::Range<usize>, columns: (usize, usize), scores: &mut [f32]| {
            let queries = self.first + rows.start..self.first + rows.end;
            let corner = &mut scores[rows.start * KEY_BLOCK + columns.0..];
            let width = columns.1 - columns.0;
            let accumulate = problem.start_scores(place, queries, start + columns.0, width, corner, KEY_BLOCK);
            let q = &problem.q.data[problem.q.offset(self.batch, self.head, self.first + rows.start)..];
            let product = TileProduct {
                rows: rows.len(),
                columns,
                depth: d_head,
                a: q.as_ptr(),
                a_row: problem.q.strides[2],
                a_column: problem.q.strides[3],
                b: self.operands.keys.pointer(start),
                b_row: self.operands.keys.width,
                b_panel: self.operands.keys.stride,
                out: scores[rows.start * KEY_BLOCK..].as_mut_ptr(),
                out_row: KEY_BLOCK,
                accumulate,
                terms: TileProduct::ONE,
            };
            // SAFETY: the view of `q` is checked; `start` is a whole number of panels, which hold all keys in whole
            // vectors; a row of scores has KEY_BLOCK columns and end − start fits.
            unsafe { product.run(simd) };
        };
        let add_values =
            |rows: std::ops::Range<usize>, (low, high): (usize, usize), scores: &[f32], sums: &mut [f32]| {
                let product = TileProduct {
                    rows: rows.len(),
                    columns: (0, width),
                    depth: high.min(end - start) - low,
                    a: scores[rows.start * KEY_BLOCK + low..].as_ptr(),
                    a_row: KEY_BLOCK,
                    a_column: 1,
                    b: self.operands.values.pointer(start + low),
                    b_row: width,
                    b_panel: panel,
                    out: sums[rows.start * width..].as_mut_ptr(),
                    out_row: width,
                    accumulate: true,
                    terms: TileProduct::ONE,
                };
                // SAFETY: the weights of `rows` are written for all keys `low..high`, the values reach to `end`.
                unsafe { product.run(simd) };
            };

        let groups = || (0..self.rows).step_by(TILE_ROWS).map(|r| r..(r + TILE_ROWS).min(self.rows));
        let seen = |rows: std::ops::Range<usize>| {
            let columns = intervals.columns::<S>(rows.clone(), start, end)?;
            let queries = self.first + rows.start..self.first + rows.end;
            let last = end.min(start + columns.1);
            (!problem.hides(place, queries, start + columns.0, last)).then_some(columns)
        };
        let Some(all) = intervals.columns::<S>(0..self.rows, start, end) else { return };
        if groups().all(|rows| seen(rows) == Some(all)) {
            // All queries see the same keys: a panel of keys stays in the first-level cache for all rows.
            product(0..self.rows, all, scores);
            self.softmax(simd, 0..self.rows, all, (start, end), intervals, scores, sums, running);
            add_values(0..self.rows, all, scores, sums);
            return;
        }
        for rows in groups() {
            let Some(columns) = seen(rows.clone()) else { continue };
            product(rows.clone(), columns, scores);
            self.softmax(simd, rows.clone(), columns, (start, end), intervals, scores, sums, running);
            add_values(rows, columns, scores, sums);
        }
    }

    /// Turns the scores of `rows` into weights relative to the running maximum, with zeros for keys that are not seen.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn softmax<S: Simd>(
        &self,
        simd: S,
        rows: std::ops::Range<usize>,
        (first, last): (usize, usize),
        (start, end): (usize, usize),
        intervals: &Intervals,
        scores: &mut [f32],
        sums: &mut [f32],
        running: &mut Running,
    ) {
        let width = self.operands.values.width;
        for r in rows {
            let (low, high) = intervals.row(r, start, end);
            let scores = &mut scores[r * KEY_BLOCK..][..KEY_BLOCK];
            // Columns of the group that this row does not see.
            if low > first {
                scores[first..low].fill(0.0);
            }
            if high < last {
                scores[high.max(first)..last].fill(0.0);
            }
            if low == high {
                continue;
            }
            let scores = &mut scores[low..high];
            let index = (self.batch, self.head, self.first + r);
            self.item.problem.adjust_scores(simd, index, start + low, scores);
            let (before, maximum) = (running.maxima[r], max(simd, scores));
            let maximum = if maximum > before { maximum } else { before };
            if maximum > before {
                running.maxima[r] = maximum;
                if before != f32::NEG_INFINITY {
                    let factor = (before - maximum).exp();
                    running.totals[r] *= factor;
                    let factor = simd.splat_f32s(factor);
                    map_in_place!(simd, &mut sums[r * width..][..width], |x| simd.mul_f32s(x, factor));
                }
            }
            // If every score so far is −∞ (or NaN), 0 replaces the maximum, so that weights are 0 (or NaN).
            let maximum = simd.splat_f32s(if maximum == f32::NEG_INFINITY { 0.0 } else { maximum });
            map_in_place!(simd, scores, |s| exp_bounded(simd, simd.sub_f32s(s, maximum)));
            running.totals[r] += sum(simd, scores);
            if let Some(dropped) = self.item.problem.dropped(index) {
                let (vectors, tail) = S::as_mut_simd_f32s(scores);
                let mut key = start + low;
                for x in vectors {
                    *x = dropped.keep(simd, key, *x);
                    key += S::F32_LANES;
                }
                if !tail.is_empty() {
                    let kept = dropped.keep(simd, key, simd.partial_load_f32s(tail));
                    simd.partial_store_f32s(tail, kept);
                }
            }
        }
    }
}
