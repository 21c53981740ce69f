//! The backward pass of one key head: blocks of queries against blocks of keys, in register tiles.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::backward::Backward;
use super::forward::{Intervals, QUERY_BLOCK};
use super::operands::{Columns, Problem, Rows};
use super::options::AttentionShape;
use crate::scratch::Scratch;
use crate::tile::{TILE_ROWS, TileProduct, panel_width, round_to_lanes};
use crate::vector::{dot, exp_bounded, map, zip_in_place};

/// Number of keys in a block.
const KEY_BLOCK: usize = 128;

/// All queries that use one key head of one sequence, against the task's share of the keys.
pub(super) struct Item<'a> {
    pub(super) backward: &'a Backward<'a>,
    pub(super) batch: usize,
    pub(super) kv_head: usize,
    pub(super) task: usize,
}

/// The operands that an item reads.
struct Operands<'a> {
    /// Keys times the scale.
    key_columns: Columns<'a>,
    value_columns: Columns<'a>,
    keys: Rows<'a>,
    queries: Rows<'a>,
    grad_out: Rows<'a>,
    deltas: &'a [f32],
}

/// The sums and the working memory of an item. Widths are rounded up to whole vectors.
struct Sums<'a> {
    keys: &'a mut [f32],
    values: &'a mut [f32],
    queries: &'a mut [f32],
    /// Scores of the block, then its weights.
    weights: &'a mut [f32],
    /// Gradients of the block's weights, then of its scores.
    grad_scores: &'a mut [f32],
}

impl WithSimd for Item<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Backward { problem, grad, grad_k, grad_v, plan, .. } = *self.backward;
        let AttentionShape { queries, d_head, d_value, keys: all_keys, .. } = problem.shape;
        let place = (self.batch, self.kv_head);
        let keys = problem.length(self.batch);
        let (width, value_width) = (round_to_lanes::<S>(d_head), round_to_lanes::<S>(d_value));
        let sizes = [
            Columns::scratch::<S>(keys, d_head),
            Columns::scratch::<S>(keys, d_value),
            Rows::scratch::<S>(problem.k, keys, d_head),
            keys * width,
            keys * value_width,
            Rows::scratch::<S>(problem.q, queries, d_head),
            Rows::scratch::<S>(grad, queries, d_value),
            queries,
            queries * width,
            QUERY_BLOCK * KEY_BLOCK,
            QUERY_BLOCK * KEY_BLOCK,
        ];
        let mut memory = Scratch::new(sizes.iter().sum());
        let mut rest = &mut *memory;
        let [
            key_columns,
            value_columns,
            key_rows,
            grad_keys,
            grad_values,
            query_rows,
            grad_rows,
            deltas,
            grad_queries,
            weights,
            grad_scores,
        ] = sizes.map(|size| rest.split_off_mut(..size).expect("the sizes add up"));
        let key_columns = Columns::new::<S>(problem.k, place, keys, d_head, problem.options.scale, key_columns);
        let value_columns = Columns::new::<S>(problem.v, place, keys, d_value, 1.0, value_columns);
        let key_rows = Rows::new::<S>(problem.k, place, keys, d_head, key_rows);
        grad_keys.fill(0.0);
        grad_values.fill(0.0);
        let mut sums = Sums { keys: grad_keys, values: grad_values, queries: grad_queries, weights, grad_scores };

        // The keys of this task, in whole blocks.
        let blocks = keys.div_ceil(KEY_BLOCK);
        let split = self.task % plan.splits;
        let first_key = split * blocks / plan.splits * KEY_BLOCK;
        let last_key = ((split + 1) * blocks / plan.splits * KEY_BLOCK).min(keys);
        let group = problem.shape.group();
        for head in self.kv_head * group..(self.kv_head + 1) * group {
            let place = (self.batch, head);
            let keys = key_rows;
            let queries_of = Rows::new::<S>(problem.q, place, queries, d_head, query_rows);
            let grad_out = Rows::new::<S>(grad, place, queries, d_value, grad_rows);
            self.deltas(simd, head, &grad_out, deltas);
            let operands = Operands { key_columns, value_columns, keys, queries: queries_of, grad_out, deltas };
            self.head(simd, head, first_key..last_key, &operands, &mut sums);
        }

        let scale = simd.splat_f32s(problem.options.scale);
        for key in first_key..last_key {
            // SAFETY: keys of this head belong to this task.
            let (k, v) = unsafe {
                (grad_k.row(self.batch, self.kv_head, key, d_head), grad_v.row(self.batch, self.kv_head, key, d_value))
            };
            map!(simd, &sums.keys[key * width..][..d_head], k, |x| simd.mul_f32s(x, scale));
            v.copy_from_slice(&sums.values[key * value_width..][..d_value]);
        }
        if split + 1 == plan.splits {
            for key in keys..all_keys {
                // SAFETY: as above; padding belongs to the last part.
                unsafe {
                    grad_k.row(self.batch, self.kv_head, key, d_head).fill(0.0);
                    grad_v.row(self.batch, self.kv_head, key, d_value).fill(0.0);
                }
            }
        }
    }
}

impl Item<'_> {
    /// Computes `δ_i = dO_i·O_i`.
    #[inline(always)]
    fn deltas<S: Simd>(&self, simd: S, head: usize, grad_out: &Rows<'_>, deltas: &mut [f32]) {
        let (out, d_value) = (self.backward.out, self.backward.problem.shape.d_value);
        for (i, delta) in deltas.iter_mut().enumerate() {
            let out_row = &out.data[out.offset(self.batch, head, i).min(out.data.len())..];
            let grad = grad_out.row(i, d_value);
            *delta = match out.strides[3] {
                1 => dot(simd, &out_row[..d_value], grad),
                step => grad.iter().enumerate().map(|(t, grad)| grad * out_row[t * step]).sum(),
            };
        }
    }

    /// Returns the blocks of queries that may see any of the keys `start..end`. Both ends of a query's keys never fall from
    /// one query to the next, so the blocks are found by bisection, and a window costs no more than its length.
    fn blocks_seeing(&self, start: usize, end: usize) -> Range<usize> {
        let Problem { shape, options, .. } = self.backward.problem;
        let bisect = |before: &dyn Fn(usize) -> bool| {
            let (mut low, mut high) = (0, shape.queries.div_ceil(QUERY_BLOCK));
            while low < high {
                let middle = low + (high - low) / 2;
                if before(middle) { low = middle + 1 } else { high = middle }
            }
            low
        };
        let last_row = |block: usize| ((block + 1) * QUERY_BLOCK).min(shape.queries) - 1;
        let from = bisect(&|block| options.interval(shape, self.batch, last_row(block)).1 <= start);
        let to = bisect(&|block| options.interval(shape, self.batch, block * QUERY_BLOCK).0 < end);
        from..to.max(from)
    }

    /// Adds the contributions of all queries of one head.
    #[inline(always)]
    fn head<S: Simd>(&self, simd: S, head: usize, keys: Range<usize>, operands: &Operands<'_>, sums: &mut Sums<'_>) {
        let Backward { problem, grad_q, plan, query_parts, .. } = *self.backward;
        let AttentionShape { queries, d_head, .. } = problem.shape;
        let width = round_to_lanes::<S>(d_head);
        let place = (self.batch, head);
        sums.queries.fill(0.0);
        for start in keys.clone().step_by(KEY_BLOCK) {
            let end = (start + KEY_BLOCK).min(keys.end);
            for block in self.blocks_seeing(start, end) {
                let first = block * QUERY_BLOCK;
                let rows = QUERY_BLOCK.min(queries - first);
                let intervals = Intervals::new(problem, self.batch, first, rows);
                let Some(columns) = intervals.columns::<S>(0..rows, start, end) else { continue };
                let last = end.min(start + columns.1);
                if problem.hides(place, first..first + rows, start + columns.0, last) {
                    continue;
                }
                let step = Step { item: self, operands, head, start, end, first, intervals: &intervals, columns };
                step.run(simd, sums);
            }
        }

        let scale = simd.splat_f32s(problem.options.scale);
        for i in 0..queries {
            // SAFETY: the queries of this head belong to this task or, with splits, this split's part of them does.
            let row = unsafe {
                if plan.splits > 1 {
                    let row = (self.batch * problem.shape.n_heads + head) * queries + i;
                    let part = self.task % plan.splits * problem.shape.rows();
                    query_parts.slice((part + row) * d_head, d_head)
                } else {
                    grad_q.row(self.batch, head, i, d_head)
                }
            };
            map!(simd, &sums.queries[i * width..][..d_head], row, |x| simd.mul_f32s(x, scale));
        }
    }
}

/// A block of queries against a block of keys.
struct Step<'a> {
    item: &'a Item<'a>,
    operands: &'a Operands<'a>,
    head: usize,
    start: usize,
    end: usize,
    first: usize,
    intervals: &'a Intervals,
    /// Keys that any query sees, relative to `start`, in whole vectors.
    columns: (usize, usize),
}

/// Splits `0..count` into ranges of a register tile's rows.
fn groups(count: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).step_by(TILE_ROWS).map(move |r| r..(r + TILE_ROWS).min(count))
}

impl Step<'_> {
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, sums: &mut Sums<'_>) {
        let Step { start, end, columns, intervals, .. } = *self;
        let rows = intervals.rows;
        let seen = |rows| intervals.columns::<S>(rows, start, end);
        // One product for all queries and keys of the block, or products of what each group of six queries sees.
        let whole = groups(rows).all(|rows| seen(rows) == Some(columns));
        if whole {
            self.multiply(simd, 0..rows, columns, sums);
        } else {
            for rows in groups(rows) {
                if let Some(columns) = seen(rows.clone()) {
                    self.multiply(simd, rows, columns, sums);
                }
            }
        }
        for r in 0..rows {
            self.row(simd, r, sums);
        }
        self.add_biases(simd, sums);
        let keys = columns.0..columns.1.min(end - start);
        if whole {
            self.add_keys(simd, keys, 0..rows, sums);
            self.add_queries(simd, 0..rows, columns, sums);
            return;
        }
        for group in groups(keys.len()) {
            let group = keys.start + group.start..keys.start + group.end;
            let queries = intervals.seeing(start + group.start, start + group.end);
            if !queries.is_empty() {
                self.add_keys(simd, group, queries, sums);
            }
        }
        for rows in groups(rows) {
            if let Some(columns) = seen(rows.clone()) {
                self.add_queries(simd, rows, columns, sums);
            }
        }
    }

    /// Computes the scores and the gradients of the weights of `rows` for the keys `columns`.
    #[inline(always)]
    fn multiply<S: Simd>(&self, simd: S, rows: Range<usize>, columns: (usize, usize), sums: &mut Sums<'_>) {
        let Step { start, first, operands, .. } = *self;
        let problem = self.item.backward.problem;
        let AttentionShape { d_head, d_value, .. } = problem.shape;
        let corner = &mut sums.weights[rows.start * KEY_BLOCK + columns.0..];
        let (place, queries) = ((self.item.batch, self.head), first + rows.start..first + rows.end);
        let accumulate =
            problem.start_scores(place, queries, start + columns.0, columns.1 - columns.0, corner, KEY_BLOCK);
        let scores = TileProduct {
            rows: rows.len(),
            columns,
            depth: d_head,
            a: operands.queries.pointer(first + rows.start),
            a_row: operands.queries.width,
            a_column: 1,
            b: operands.key_columns.pointer(start),
            b_row: operands.key_columns.width,
            b_panel: operands.key_columns.stride,
            out: sums.weights[rows.start * KEY_BLOCK..].as_mut_ptr(),
            out_row: KEY_BLOCK,
            accumulate,
            terms: TileProduct::ONE,
        };
        let grad_weights = TileProduct {
            depth: d_value,
            a: operands.grad_out.pointer(first + rows.start),
            a_row: operands.grad_out.width,
            b: operands.value_columns.pointer(start),
            b_row: operands.value_columns.width,
            b_panel: operands.value_columns.stride,
            out: sums.grad_scores[rows.start * KEY_BLOCK..].as_mut_ptr(),
            accumulate: false,
            ..scores
        };
        // SAFETY: the block's rows are inside; `start` is a whole number of panels, which hold all keys in whole vectors;
        // KEY_BLOCK columns hold a block of keys.
        unsafe {
            scores.run(simd);
            grad_weights.run(simd);
        }
    }

    /// Adds the contributions of `queries` to the gradients of `keys` and their values.
    #[inline(always)]
    fn add_keys<S: Simd>(&self, simd: S, keys: Range<usize>, queries: Range<usize>, sums: &mut Sums<'_>) {
        let Step { start, first, operands, .. } = *self;
        let AttentionShape { d_head, d_value, .. } = self.item.backward.problem.shape;
        let (width, value_width) = (round_to_lanes::<S>(d_head), round_to_lanes::<S>(d_value));
        let corner = queries.start * KEY_BLOCK + keys.start;
        let grad_values = TileProduct {
            rows: keys.len(),
            columns: (0, value_width),
            depth: queries.len(),
            a: sums.weights[corner..].as_ptr(),
            a_row: 1,
            a_column: KEY_BLOCK,
            b: operands.grad_out.pointer(first + queries.start),
            b_row: operands.grad_out.width,
            b_panel: panel_width::<S>(),
            out: sums.values[(start + keys.start) * value_width..].as_mut_ptr(),
            out_row: value_width,
            accumulate: true,
            terms: TileProduct::ONE,
        };
        let grad_keys = TileProduct {
            columns: (0, width),
            a: sums.grad_scores[corner..].as_ptr(),
            b: operands.queries.pointer(first + queries.start),
            b_row: operands.queries.width,
            out: sums.keys[(start + keys.start) * width..].as_mut_ptr(),
            out_row: width,
            ..grad_values
        };
        // SAFETY: weights and score gradients are written for all queries and keys of the block; rows of keys and
        // queries are inside their arrays.
        unsafe {
            grad_values.run(simd);
            grad_keys.run(simd);
        }
    }

    /// Adds the contributions of the keys `columns` to the gradients of the queries `rows`.
    #[inline(always)]
    fn add_queries<S: Simd>(&self, simd: S, rows: Range<usize>, columns: (usize, usize), sums: &mut Sums<'_>) {
        let Step { start, end, first, operands, .. } = *self;
        let width = operands.keys.width;
        let product = TileProduct {
            rows: rows.len(),
            columns: (0, width),
            depth: columns.1.min(end - start) - columns.0,
            a: sums.grad_scores[rows.start * KEY_BLOCK + columns.0..].as_ptr(),
            a_row: KEY_BLOCK,
            a_column: 1,
            b: operands.keys.pointer(start + columns.0),
            b_row: width,
            b_panel: panel_width::<S>(),
            out: sums.queries[(first + rows.start) * width..].as_mut_ptr(),
            out_row: width,
            accumulate: true,
            terms: TileProduct::ONE,
        };
        // SAFETY: score gradients are written for these rows and columns; the keys reach to `end`.
        unsafe { product.run(simd) };
    }

    /// Turns row `r` of scores into weights and of weight gradients into score gradients, with zeros for unseen keys.
    #[inline(always)]
    fn row<S: Simd>(&self, simd: S, r: usize, sums: &mut Sums<'_>) {
        let problem = self.item.backward.problem;
        let index = (self.item.batch, self.head, self.first + r);
        let (low, high) = self.intervals.row(r, self.start, self.end);
        let weights = &mut sums.weights[r * KEY_BLOCK..][..KEY_BLOCK];
        let grads = &mut sums.grad_scores[r * KEY_BLOCK..][..KEY_BLOCK];
        let (first, last) = self.columns;
        for unseen in [first..low.max(first), high.max(first)..last.max(high)] {
            weights[unseen.clone()].fill(0.0);
            grads[unseen].fill(0.0);
        }
        if low == high {
            return;
        }
        let (weights, grads) = (&mut weights[low..high], &mut grads[low..high]);
        let key = self.start + low;
        problem.adjust_scores(simd, index, key, weights);
        let (log_sum_exp, delta) = (self.item.backward.log_sum_exp(index), self.operands.deltas[index.2]);
        weights_and_gradients(simd, problem, index, key, log_sum_exp, delta, weights, grads);
    }

    /// Adds the gradients of the scores to those of the biases, after all rows, so that the memory can keep up.
    #[inline(always)]
    fn add_biases<S: Simd>(&self, simd: S, sums: &Sums<'_>) {
        let backward = self.item.backward;
        for r in 0..self.intervals.rows {
            let index = (self.item.batch, self.head, self.first + r);
            let (low, high) = self.intervals.row(r, self.start, self.end);
            let (grads, key) = (&sums.grad_scores[r * KEY_BLOCK..][low..high], self.start + low);
            if low == high {
                continue;
            }
            // SAFETY: the item belongs to this task, which uses one row at a time.
            unsafe {
                if let Some(bias) = backward.bias_row(self.item.task, index) {
                    let bias = &mut bias[key..key + grads.len()];
                    zip_in_place!(simd, bias, grads, |sum, x| simd.add_f32s(sum, x));
                }
                if let Some(distance) = backward.distance_part(index, key, grads.len()) {
                    zip_in_place!(simd, distance, grads, |sum, x| simd.add_f32s(sum, x));
                }
            }
        }
    }
}

/// Replaces the scores in `weights` by weights after dropout, and the gradients of those in `grads` by gradients of scores.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn weights_and_gradients<S: Simd>(
    simd: S,
    problem: &Problem<'_>,
    index: (usize, usize, usize),
    first_key: usize,
    log_sum_exp: f32,
    delta: f32,
    weights: &mut [f32],
    grads: &mut [f32],
) {
    let shift = Shift { log_sum_exp: simd.splat_f32s(log_sum_exp), delta: simd.splat_f32s(delta) };
    let (weights, weights_tail) = S::as_mut_simd_f32s(weights);
    let (grads, grads_tail) = S::as_mut_simd_f32s(grads);
    if let Some(dropped) = problem.dropped(index) {
        let inverse_keep = simd.splat_f32s(problem.inverse_keep());
        let mut key = first_key;
        for (weight, grad) in weights.iter_mut().zip(grads) {
            let factor = dropped.keep(simd, key, inverse_keep);
            (*weight, *grad) = shift.with_factor(simd, *weight, *grad, factor);
            key += S::F32_LANES;
        }
        if !weights_tail.is_empty() {
            let factor = dropped.keep(simd, key, inverse_keep);
            let (weight, grad) = (simd.partial_load_f32s(weights_tail), simd.partial_load_f32s(grads_tail));
            let (weight, grad) = shift.with_factor(simd, weight, grad, factor);
            simd.partial_store_f32s(weights_tail, weight);
            simd.partial_store_f32s(grads_tail, grad);
        }
        return;
    }
    for (weight, grad) in weights.iter_mut().zip(grads) {
        (*weight, *grad) = shift.plain(simd, *weight, *grad);
    }
    if !weights_tail.is_empty() {
        let (weight, grad) = (simd.partial_load_f32s(weights_tail), simd.partial_load_f32s(grads_tail));
        let (weight, grad) = shift.plain(simd, weight, grad);
        simd.partial_store_f32s(weights_tail, weight);
        simd.partial_store_f32s(grads_tail, grad);
    }
}

/// `L` and `δ` of one query.
#[derive(Clone, Copy)]
struct Shift<V> {
    log_sum_exp: V,
    delta: V,
}

impl<V: Copy> Shift<V> {
    /// Returns the weight and the gradient of the score, from the score and the gradient of the weight.
    #[inline(always)]
    fn plain<S: Simd<f32s = V>>(self, simd: S, score: V, grad: V) -> (V, V) {
        let weight = exp_bounded(simd, simd.sub_f32s(score, self.log_sum_exp));
        (weight, simd.mul_f32s(weight, simd.sub_f32s(grad, self.delta)))
    }

    /// Does the same for a weight that dropout multiplies by `factor`.
    #[inline(always)]
    fn with_factor<S: Simd<f32s = V>>(self, simd: S, score: V, grad: V, factor: V) -> (V, V) {
        let weight = exp_bounded(simd, simd.sub_f32s(score, self.log_sum_exp));
        let grad = simd.mul_add_e_f32s(grad, factor, simd.neg_f32s(self.delta));
        (simd.mul_f32s(weight, factor), simd.mul_f32s(weight, grad))
    }
}
