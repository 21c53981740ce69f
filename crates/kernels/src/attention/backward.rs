//! Attention backward: the weights are made again from the log-sum-exps, block by block.
//!
//! ```text
//! P  = exp(S − L)          dV = drop(P)ᵀ dO
//! dP = drop(dO Vᵀ)         dS = P ∘ (dP − δ),  δ_i = dO_i·O_i
//! dQ = scale · dS K        dK = scale · dSᵀ Q          dbias = dS
//! ```
//! One task owns all queries that use a key head, so nothing is added atomically and the bits are reproducible. With
//! fewer key heads than threads the keys of a head are split, and the parts of `dQ` added in order.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::forward::{Intervals, QUERY_BLOCK, SERIAL_MULTIPLY_ADDS};
use super::operands::{Problem, copy_rows, copy_transposed};
use super::options::{AttentionOptions, AttentionShape};
use super::rows::rowwise_backward;
use super::view::{View, ViewMut};
use crate::error::{KernelError, check_len};
use crate::isa::dispatch;
use crate::parallel::SharedSlice;
use crate::scratch::Scratch;
use crate::tile::{TILE_ROWS, TileProduct, panel_width, round_to_lanes};
use crate::vector::{dot, exp_bounded, map, zip_in_place};

/// Keys a block: a panel of the widest tile. The seven operands of a step then take 130 KiB of second-level cache.
const KEY_BLOCK: usize = 64;

/// Where the gradients go; each is overwritten.
pub struct AttentionGradients<'a> {
    /// `[batch, n_heads, queries, d_head]`.
    pub q: ViewMut<'a>,
    /// `[batch, kv_heads, keys, d_head]`.
    pub k: ViewMut<'a>,
    /// `[batch, kv_heads, keys, d_value]`.
    pub v: ViewMut<'a>,
    /// `[batch or 1, n_heads or 1, queries, keys]` stored without gaps, 1 where the bias has stride 0.
    pub bias: Option<&'a mut [f32]>,
    /// `[n_heads, queries + keys − 1]`.
    pub distance: Option<&'a mut [f32]>,
}

/// The gradients of [`attention_forward`](super::attention_forward), given its results and the gradient `grad` of `out`.
///
/// # Shapes
/// As there; `out` and `grad` `[batch, n_heads, queries, d_value]`.
#[allow(clippy::too_many_arguments)]
pub fn attention_backward(
    shape: AttentionShape,
    options: &AttentionOptions<'_>,
    q: View<'_>,
    k: View<'_>,
    v: View<'_>,
    out: View<'_>,
    log_sum_exp: &[f32],
    grad: View<'_>,
    gradients: AttentionGradients<'_>,
) -> Result<(), KernelError> {
    let problem = Problem::new(shape, options, q, k, v)?;
    out.check("output", shape.output_shape())?;
    grad.check("gradient of the output", shape.output_shape())?;
    check_len("log-sum-exp", log_sum_exp.len(), shape.rows())?;
    gradients.q.check("gradient of the queries", shape.query_shape())?;
    gradients.k.check("gradient of the keys", shape.key_shape())?;
    gradients.v.check("gradient of the values", shape.value_shape())?;
    let bias_layout = BiasLayout::new(&problem);
    if let Some(bias) = &gradients.bias {
        check_len("gradient of the bias", bias.len(), bias_layout.len())?;
    }
    let columns = (shape.queries + shape.keys).saturating_sub(1);
    if let Some(distance) = &gradients.distance {
        check_len("gradient of the distances", distance.len(), shape.n_heads * columns)?;
    }

    let AttentionGradients { q: grad_q, k: grad_k, v: grad_v, mut bias, mut distance } = gradients;
    let serial = problem.multiply_adds() < SERIAL_MULTIPLY_ADDS;
    let plan = Plan::new(&problem, bias.is_some().then_some(&bias_layout), serial);
    // Sums over the batch are made from one row a sequence, in order.
    let mut distance_parts = vec![0.0; if distance.is_some() { shape.batch * shape.n_heads * columns } else { 0 }];
    let mut bias_parts = vec![0.0; if plan.private_bias { (plan.tasks - 1) * bias_layout.len() } else { 0 }];
    if let Some(bias) = &mut bias {
        bias.fill(0.0);
    }
    let mut query_parts = vec![0.0; if plan.splits > 1 { plan.splits * shape.rows() * shape.d_head } else { 0 }];
    {
        let backward = Backward {
            problem: &problem,
            out,
            log_sum_exp,
            grad,
            grad_q: &grad_q,
            grad_k: &grad_k,
            grad_v: &grad_v,
            query_parts: SharedSlice::new(&mut query_parts),
            bias: bias.as_deref_mut().map(SharedSlice::new),
            bias_parts: SharedSlice::new(&mut bias_parts),
            bias_layout,
            distance_parts: distance.is_some().then(|| SharedSlice::new(&mut distance_parts)),
            plan: &plan,
        };
        let task = |task: usize| {
            for (batch, kv_head) in plan.items(&shape, task / plan.splits) {
                if options.sparse.is_some() {
                    rowwise_backward(&backward, task, batch, kv_head);
                } else {
                    dispatch(Item { backward: &backward, batch, kv_head, task });
                }
            }
        };
        if serial {
            (0..plan.tasks * plan.splits).for_each(task);
        } else {
            (0..plan.tasks * plan.splits).into_par_iter().with_max_len(1).for_each(task);
        }
    }
    if plan.private_bias && !bias_parts.is_empty() {
        let bias = bias.expect("there are parts only of a bias gradient that was asked for");
        for part in bias_parts.chunks_exact(bias_layout.len()) {
            bias.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
    }
    if let Some(distance) = &mut distance {
        distance.fill(0.0);
        for part in distance_parts.chunks_exact((shape.n_heads * columns).max(1)) {
            distance.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
    }
    if plan.splits > 1 {
        add_query_parts(&shape, &query_parts, &grad_q);
    }
    Ok(())
}

/// `grad_q` as the sum of the parts that tasks over ranges of keys made.
fn add_query_parts(shape: &AttentionShape, parts: &[f32], grad_q: &ViewMut<'_>) {
    let size = shape.rows() * shape.d_head;
    for row in 0..shape.rows() {
        let (head, i) = (row / shape.queries, row % shape.queries);
        // SAFETY: no task runs any more.
        let out = unsafe { grad_q.row(head / shape.n_heads, head % shape.n_heads, i, shape.d_head) };
        out.fill(0.0);
        for part in parts.chunks_exact(size) {
            let part = &part[row * shape.d_head..][..shape.d_head];
            out.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
    }
}

/// The gradient of the bias, stored without gaps and without the indices along which the bias repeats.
#[derive(Clone, Copy)]
pub(super) struct BiasLayout {
    batch: usize,
    n_heads: usize,
    queries: usize,
    keys: usize,
}

impl BiasLayout {
    fn new(problem: &Problem<'_>) -> Self {
        let AttentionShape { batch, n_heads, queries, keys, .. } = problem.shape;
        let strides = problem.options.bias.map_or([0; 4], |bias| bias.strides);
        let kept = |extent: usize, stride: usize| if stride == 0 { extent.min(1) } else { extent };
        Self { batch: kept(batch, strides[0]), n_heads: kept(n_heads, strides[1]), queries, keys }
    }

    fn len(&self) -> usize {
        self.batch * self.n_heads * self.queries * self.keys
    }

    fn offset(&self, batch: usize, head: usize, i: usize) -> usize {
        let (batch, head) = (batch.min(self.batch - 1), head.min(self.n_heads - 1));
        ((batch * self.n_heads + head) * self.queries + i) * self.keys
    }
}

/// Who does what: tasks run in parallel, the items of a task one after another.
pub(super) struct Plan {
    tasks: usize,
    /// Ranges of keys that each item is split into, in tasks of their own.
    splits: usize,
    /// Every task but the first adds up its own bias gradient.
    private_bias: bool,
    assignment: Assignment,
}

#[derive(Clone, Copy)]
enum Assignment {
    /// A task an item.
    Each,
    /// A task a key head, because the bias repeats over the batch.
    KeyHead,
    /// A task a sequence, because the bias repeats over heads.
    Sequence,
    /// As many tasks as threads, each with consecutive items.
    Chunks,
}

impl Plan {
    fn new(problem: &Problem<'_>, bias: Option<&BiasLayout>, serial: bool) -> Self {
        let AttentionShape { batch, n_heads, kv_heads, .. } = problem.shape;
        let items = batch * kv_heads;
        let threads = if serial { 1 } else { rayon::current_num_threads() };
        let repeats = bias.map(|bias| (bias.batch < batch, bias.n_heads < n_heads));
        let plan = |assignment, tasks| Self { tasks, splits: 1, private_bias: false, assignment };
        match repeats {
            None | Some((false, false)) => {
                // A bias gradient and the sparse path write for all keys of a query at once, so only plain calls split.
                let splittable =
                    bias.is_none() && problem.options.sparse.is_none() && problem.options.distance.is_none();
                let splits = if splittable && items > 0 { (2 * threads).div_ceil(items) } else { 1 };
                Self { splits: if items >= threads { 1 } else { splits }, ..plan(Assignment::Each, items) }
            }
            Some((true, false)) => plan(Assignment::KeyHead, kv_heads),
            Some((false, true)) => plan(Assignment::Sequence, batch),
            Some((true, true)) => {
                let tasks = threads.min(items).max(1);
                Self { private_bias: true, ..plan(Assignment::Chunks, tasks) }
            }
        }
    }

    /// The `(sequence, key head)` pairs of a task.
    fn items(&self, shape: &AttentionShape, task: usize) -> impl Iterator<Item = (usize, usize)> {
        let (batch, kv_heads) = (shape.batch, shape.kv_heads);
        let items = batch * kv_heads;
        let (first, step, count) = match self.assignment {
            Assignment::Each => (task, 1, 1),
            Assignment::KeyHead => (task, kv_heads, batch),
            Assignment::Sequence => (task * kv_heads, 1, kv_heads),
            Assignment::Chunks => {
                let (first, end) = (task * items / self.tasks, (task + 1) * items / self.tasks);
                (first, 1, end - first)
            }
        };
        (0..count).map(move |i| first + i * step).map(move |item| (item / kv_heads, item % kv_heads))
    }
}

/// Everything the tasks share.
pub(super) struct Backward<'a> {
    pub(super) problem: &'a Problem<'a>,
    pub(super) out: View<'a>,
    pub(super) log_sum_exp: &'a [f32],
    pub(super) grad: View<'a>,
    pub(super) grad_q: &'a ViewMut<'a>,
    pub(super) grad_k: &'a ViewMut<'a>,
    pub(super) grad_v: &'a ViewMut<'a>,
    query_parts: SharedSlice<'a>,
    bias: Option<SharedSlice<'a>>,
    bias_parts: SharedSlice<'a>,
    bias_layout: BiasLayout,
    distance_parts: Option<SharedSlice<'a>>,
    plan: &'a Plan,
}

impl Backward<'_> {
    /// The row of the bias gradient that `task` adds to for query `i`.
    ///
    /// # Safety
    /// Called by `task` only, for an item of its own, with no other row alive.
    #[inline(always)]
    pub(super) unsafe fn bias_row(&self, task: usize, (batch, head, i): (usize, usize, usize)) -> Option<&mut [f32]> {
        let bias = self.bias?;
        let (layout, keys) = (&self.bias_layout, self.bias_layout.keys);
        let offset = layout.offset(batch, head, i);
        // SAFETY: the plan gives items that share a row to one task, or each later task parts of its own.
        Some(unsafe {
            match self.plan.private_bias && task > 0 {
                true => self.bias_parts.slice((task - 1) * layout.len() + offset, keys),
                false => bias.slice(offset, keys),
            }
        })
    }

    /// The part of the distance gradient for query `i` and the keys `first..first + len`.
    ///
    /// # Safety
    /// Called by the task of the item only, with no other part alive.
    #[inline(always)]
    pub(super) unsafe fn distance_part(
        &self,
        (batch, head, i): (usize, usize, usize),
        first: usize,
        len: usize,
    ) -> Option<&mut [f32]> {
        let AttentionShape { n_heads, queries, keys, .. } = self.problem.shape;
        let offset = batch * n_heads * (queries + keys - 1) + self.problem.distance_offset(head, i, first);
        // SAFETY: every sequence has rows of its own, and a head belongs to one item.
        self.distance_parts.map(|parts| unsafe { parts.slice(offset, len) })
    }

    /// The log-sum-exp of a query as the backward pass uses it: +∞ for one that sees nothing, so that weights are 0.
    #[inline(always)]
    pub(super) fn log_sum_exp(&self, (batch, head, i): (usize, usize, usize)) -> f32 {
        let AttentionShape { n_heads, queries, .. } = self.problem.shape;
        let value = self.log_sum_exp[(batch * n_heads + head) * queries + i];
        if value == f32::NEG_INFINITY { f32::INFINITY } else { value }
    }
}

/// All queries that use one key head of one sequence, against the task's share of the keys.
struct Item<'a> {
    backward: &'a Backward<'a>,
    batch: usize,
    kv_head: usize,
    task: usize,
}

/// The working memory of an item. Widths are rounded up to whole vectors.
struct Memory<'a> {
    keys_transposed: &'a mut [f32],
    values_transposed: &'a mut [f32],
    keys: &'a mut [f32],
    grad_keys: &'a mut [f32],
    grad_values: &'a mut [f32],
    /// Scaled.
    queries: &'a mut [f32],
    grad_out: &'a mut [f32],
    grad_queries: &'a mut [f32],
    deltas: &'a mut [f32],
    weights: &'a mut [f32],
    grad_scores: &'a mut [f32],
}

impl WithSimd for Item<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Backward { problem, grad_k, grad_v, plan, .. } = *self.backward;
        let AttentionShape { queries, d_head, d_value, keys: all_keys, .. } = problem.shape;
        let (batch, kv_head) = (self.batch, self.kv_head);
        let keys = problem.length(batch);
        let panel_keys = keys.next_multiple_of(panel_width::<S>());
        let (width, value_width) = (round_to_lanes::<S>(d_head), round_to_lanes::<S>(d_value));
        let sizes = [
            panel_keys * d_head,
            panel_keys * d_value,
            keys * width,
            keys * width,
            keys * value_width,
            queries * width,
            queries * value_width,
            queries * width,
            queries,
            QUERY_BLOCK * KEY_BLOCK,
            QUERY_BLOCK * KEY_BLOCK,
        ];
        // The keys of this task, in whole blocks.
        let blocks = keys.div_ceil(KEY_BLOCK);
        let split = self.task % plan.splits;
        let first_key = split * blocks / plan.splits * KEY_BLOCK;
        let last_key = ((split + 1) * blocks / plan.splits * KEY_BLOCK).min(keys);
        let mut memory = Scratch::new(sizes.iter().sum());
        let memory = &mut *memory;
        let mut rest = memory;
        let parts = sizes.map(|size| rest.split_off_mut(..size).expect("the sizes add up"));
        let [a, b, c, d, e, f, g, h, i, j, k] = parts;
        let mut memory = Memory {
            keys_transposed: a,
            values_transposed: b,
            keys: c,
            grad_keys: d,
            grad_values: e,
            queries: f,
            grad_out: g,
            grad_queries: h,
            deltas: i,
            weights: j,
            grad_scores: k,
        };
        copy_transposed::<S>(problem.k, (batch, kv_head), keys, d_head, memory.keys_transposed);
        copy_transposed::<S>(problem.v, (batch, kv_head), keys, d_value, memory.values_transposed);
        copy_rows(problem.k, (batch, kv_head), 0..keys, d_head, 1.0, width, memory.keys);
        memory.grad_keys.fill(0.0);
        memory.grad_values.fill(0.0);
        let group = problem.shape.group();
        for head in kv_head * group..(kv_head + 1) * group {
            self.head(simd, head, (first_key, last_key), &mut memory);
        }
        let one = simd.splat_f32s(1.0);
        for key in first_key..last_key {
            // SAFETY: keys of this head belong to this task.
            let (k, v) = unsafe { (grad_k.row(batch, kv_head, key, d_head), grad_v.row(batch, kv_head, key, d_value)) };
            map!(simd, &memory.grad_keys[key * width..][..d_head], k, |x| simd.mul_f32s(x, one));
            map!(simd, &memory.grad_values[key * value_width..][..d_value], v, |x| x);
        }

        if split + 1 == plan.splits {
            for key in keys..all_keys {
                // SAFETY: as above; padding belongs to the last part.
                unsafe {
                    grad_k.row(batch, kv_head, key, d_head).fill(0.0);
                    grad_v.row(batch, kv_head, key, d_value).fill(0.0);
                }
            }
        }
    }
}

impl Item<'_> {
    /// All queries of one head.
    #[inline(always)]
    fn head<S: Simd>(&self, simd: S, head: usize, (first_key, last_key): (usize, usize), memory: &mut Memory<'_>) {
        let Backward { problem, out, grad, grad_q, plan, query_parts, .. } = *self.backward;
        let AttentionShape { queries, d_head, d_value, .. } = problem.shape;
        let (width, value_width) = (round_to_lanes::<S>(d_head), round_to_lanes::<S>(d_value));
        let place = (self.batch, head);
        copy_rows(problem.q, place, 0..queries, d_head, problem.options.scale, width, memory.queries);
        copy_rows(grad, place, 0..queries, d_value, 1.0, value_width, memory.grad_out);
        for (i, delta) in memory.deltas.iter_mut().enumerate() {
            let out = &out.data[out.offset(self.batch, head, i)..];
            let grad = &memory.grad_out[i * value_width..][..d_value];
            *delta = match self.backward.out.strides[3] {
                1 => dot(simd, &out[..d_value], grad),
                step => grad.iter().enumerate().map(|(t, grad)| grad * out[t * step]).sum(),
            };
        }
        memory.grad_queries.fill(0.0);

        for start in (first_key..last_key).step_by(KEY_BLOCK) {
            let end = (start + KEY_BLOCK).min(last_key);
            for first in (0..queries).step_by(QUERY_BLOCK) {
                let rows = QUERY_BLOCK.min(queries - first);
                let intervals = Intervals::new(problem, self.batch, first, rows);
                let Some(columns) = intervals.columns::<S>(0..rows, start, end) else { continue };
                let last = end.min(start + columns.1);
                if problem.hides(place, first..first + rows, start + columns.0, last) {
                    continue;
                }
                let step = Step { item: self, head, start, end, first, intervals: &intervals, columns };
                step.run(simd, memory);
            }
        }

        let scale = simd.splat_f32s(problem.options.scale);
        for i in 0..queries {
            let sums = &memory.grad_queries[i * width..][..d_head];
            // SAFETY: queries of this head belong to this task, or the part of this split does.
            let row = unsafe {
                if plan.splits > 1 {
                    let row = (self.batch * problem.shape.n_heads + head) * queries + i;
                    let part = self.task % plan.splits * problem.shape.rows();
                    query_parts.slice((part + row) * d_head, d_head)
                } else {
                    grad_q.row(self.batch, head, i, d_head)
                }
            };
            map!(simd, sums, row, |x| simd.mul_f32s(x, scale));
        }
    }
}

/// A block of queries against a block of keys.
struct Step<'a> {
    item: &'a Item<'a>,
    head: usize,
    start: usize,
    end: usize,
    first: usize,
    intervals: &'a Intervals,
    /// Keys seen by any query, relative to `start`, in whole vectors.
    columns: (usize, usize),
}

impl Step<'_> {
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, memory: &mut Memory<'_>) {
        let panel = panel_width::<S>();
        let AttentionShape { d_head, d_value, .. } = self.item.backward.problem.shape;
        let (width, value_width) = (round_to_lanes::<S>(d_head), round_to_lanes::<S>(d_value));
        let Step { start, end, first, columns, intervals, .. } = *self;
        let rows = intervals.rows;
        let groups = |count: usize| (0..count).step_by(TILE_ROWS).map(move |r| r..(r + TILE_ROWS).min(count));

        // Scores and gradient of the weights, only where a group of queries sees something.
        let whole = groups(rows).all(|rows| intervals.columns::<S>(rows, start, end) == Some(columns));
        let mut products = |rows: std::ops::Range<usize>, columns: (usize, usize)| {
            let scores = TileProduct {
                rows: rows.len(),
                columns,
                depth: d_head,
                a: memory.queries[(first + rows.start) * width..].as_ptr(),
                a_row: width,
                a_column: 1,
                b: memory.keys_transposed[start * d_head..].as_ptr(),
                b_row: panel,
                b_panel: panel * d_head,
                out: memory.weights[rows.start * KEY_BLOCK..].as_mut_ptr(),
                out_row: KEY_BLOCK,
                accumulate: false,
            };
            let grad_weights = TileProduct {
                depth: d_value,
                a: memory.grad_out[(first + rows.start) * value_width..].as_ptr(),
                a_row: value_width,
                b: memory.values_transposed[start * d_value..].as_ptr(),
                b_panel: panel * d_value,
                out: memory.grad_scores[rows.start * KEY_BLOCK..].as_mut_ptr(),
                ..scores
            };
            // SAFETY: the block's rows are inside; the panels reach past the last key rounded up to a panel, and
            // `start` is a whole number of them; KEY_BLOCK columns hold a block of keys.
            unsafe {
                scores.run(simd);
                grad_weights.run(simd);
            }
        };
        if whole {
            products(0..rows, columns);
        } else {
            for rows in groups(rows) {
                if let Some(columns) = intervals.columns::<S>(rows.clone(), start, end) {
                    products(rows, columns);
                }
            }
        }
        for r in 0..rows {
            self.row(simd, r, memory);
        }

        // Keys in groups: each needs only the queries that see it.
        let seen = columns.0..columns.1.min(end - start);
        let add_keys = |keys: std::ops::Range<usize>, queries: std::ops::Range<usize>, memory: &mut Memory<'_>| {
            let corner = queries.start * KEY_BLOCK + keys.start;
            let grad_values = TileProduct {
                rows: keys.len(),
                columns: (0, value_width),
                depth: queries.len(),
                a: memory.weights[corner..].as_ptr(),
                a_row: 1,
                a_column: KEY_BLOCK,
                b: memory.grad_out[(first + queries.start) * value_width..].as_ptr(),
                b_row: value_width,
                b_panel: panel,
                out: memory.grad_values[(start + keys.start) * value_width..].as_mut_ptr(),
                out_row: value_width,
                accumulate: true,
            };
            let grad_keys = TileProduct {
                columns: (0, width),
                a: memory.grad_scores[corner..].as_ptr(),
                b: memory.queries[(first + queries.start) * width..].as_ptr(),
                b_row: width,
                out: memory.grad_keys[(start + keys.start) * width..].as_mut_ptr(),
                out_row: width,
                ..grad_values
            };
            // SAFETY: weights and score gradients are written for all queries and the keys `seen`; rows of keys and
            // queries are inside their arrays.
            unsafe {
                grad_values.run(simd);
                grad_keys.run(simd);
            }
        };
        if whole {
            add_keys(seen, 0..rows, memory);
        } else {
            for keys in groups(seen.len()) {
                let keys = seen.start + keys.start..seen.start + keys.end;
                let (low, high) = (start + keys.start, start + keys.end);
                let sees = |r: &usize| intervals.low[*r] < high && low < intervals.high[*r];
                let (Some(from), Some(to)) = ((0..rows).find(sees), (0..rows).rfind(sees)) else { continue };
                add_keys(keys, from..to + 1, memory);
            }
        }

        let mut add_queries = |rows: std::ops::Range<usize>, columns: (usize, usize)| {
            let product = TileProduct {
                rows: rows.len(),
                columns: (0, width),
                depth: columns.1.min(end - start) - columns.0,
                a: memory.grad_scores[rows.start * KEY_BLOCK + columns.0..].as_ptr(),
                a_row: KEY_BLOCK,
                a_column: 1,
                b: memory.keys[(start + columns.0) * width..].as_ptr(),
                b_row: width,
                b_panel: panel,
                out: memory.grad_queries[(first + rows.start) * width..].as_mut_ptr(),
                out_row: width,
                accumulate: true,
            };
            // SAFETY: score gradients are written for these rows and columns; the keys reach to `end`.
            unsafe { product.run(simd) };
        };
        if whole {
            add_queries(0..rows, columns);
        } else {
            for rows in groups(rows) {
                if let Some(columns) = intervals.columns::<S>(rows.clone(), start, end) {
                    add_queries(rows, columns);
                }
            }
        }
    }

    /// Turns row `r` of scores into weights and that of their gradients into gradients of scores; zero for unseen keys.
    #[inline(always)]
    fn row<S: Simd>(&self, simd: S, r: usize, memory: &mut Memory<'_>) {
        let Backward { problem, .. } = *self.item.backward;
        let index = (self.item.batch, self.head, self.first + r);
        let (low, high) = self.intervals.row(r, self.start, self.end);
        let weights = &mut memory.weights[r * KEY_BLOCK..][..KEY_BLOCK];
        let grads = &mut memory.grad_scores[r * KEY_BLOCK..][..KEY_BLOCK];
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
        let delta = memory.deltas[index.2];
        weights_and_gradients(simd, problem, index, key, self.item.backward.log_sum_exp(index), delta, weights, grads);
        let add = |out: &mut [f32]| zip_in_place!(simd, out, grads, |sum, x| simd.add_f32s(sum, x));
        // SAFETY: this task's item, one row at a time.
        unsafe {
            if let Some(bias) = self.item.backward.bias_row(self.item.task, index) {
                add(&mut bias[key..key + grads.len()]);
            }
            if let Some(distance) = self.item.backward.distance_part(index, key, grads.len()) {
                add(distance);
            }
        }
    }
}

/// `weights`: scores in, dropped weights out. `grads`: gradients of the dropped weights in, of the scores out.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) fn weights_and_gradients<S: Simd>(
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
    /// Score and gradient of the weight to weight and gradient of the score.
    #[inline(always)]
    fn plain<S: Simd<f32s = V>>(self, simd: S, score: V, grad: V) -> (V, V) {
        let weight = exp_bounded(simd, simd.sub_f32s(score, self.log_sum_exp));
        (weight, simd.mul_f32s(weight, simd.sub_f32s(grad, self.delta)))
    }

    /// The same for a weight that dropout multiplies by `factor`.
    #[inline(always)]
    fn with_factor<S: Simd<f32s = V>>(self, simd: S, score: V, grad: V, factor: V) -> (V, V) {
        let weight = exp_bounded(simd, simd.sub_f32s(score, self.log_sum_exp));
        let grad = simd.mul_add_e_f32s(grad, factor, simd.neg_f32s(self.delta));
        (simd.mul_f32s(weight, factor), simd.mul_f32s(weight, grad))
    }
}
