//! Attention query by query, for sparse masks, where blocks would be mostly empty, and for decoding, where laying out the
//! keys for a few queries would cost more than using them.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::backward::Backward;
use super::forward::SERIAL_MULTIPLY_ADDS;
use super::operands::{Problem, copy_rows};
use super::options::AttentionShape;
use super::view::{View, ViewMut};
use crate::isa::dispatch;
use crate::scratch::Scratch;
use crate::shared_slice::SharedSlice;
use crate::vector::{add_scaled, dot, exp_bounded, map_in_place, max, sum};

/// The keys that a query sees by band, length and sparse mask.
pub(super) enum Seen<'a> {
    Range(Range<usize>),
    List(&'a [usize]),
}

impl Seen<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Seen::Range(range) => range.len(),
            Seen::List(list) => list.len(),
        }
    }

    #[inline(always)]
    pub(super) fn key(&self, n: usize) -> usize {
        match self {
            Seen::Range(range) => range.start + n,
            Seen::List(list) => list[n],
        }
    }
}

impl Problem<'_> {
    #[inline(always)]
    pub(super) fn seen(&self, batch: usize, i: usize) -> Seen<'_> {
        let (low, high) = self.options.interval(&self.shape, batch, i);
        match &self.options.sparse {
            None => Seen::Range(low..high),
            Some(sparse) => {
                let row = sparse.row(i);
                let from = row.partition_point(|&key| key < low);
                Seen::List(&row[from..row.partition_point(|&key| key < high)])
            }
        }
    }

    /// Computes the scores of query `i` for the keys it sees, including biases and masks.
    #[inline(always)]
    pub(super) fn row_scores<S: Simd>(
        &self,
        simd: S,
        (batch, head, i): (usize, usize, usize),
        seen: &Seen<'_>,
        query: &[f32],
        scores: &mut [f32],
    ) {
        let kv_head = head / self.shape.group();
        for (n, score) in scores.iter_mut().enumerate() {
            let key = seen.key(n);
            *score = dot_row(simd, self.k, (batch, kv_head, key), query) + self.bias((batch, head, i), key);
        }
        match seen {
            Seen::Range(range) => self.adjust_scores(simd, (batch, head, i), range.start, scores),
            Seen::List(list) => {
                for (key, score) in list.iter().zip(scores.chunks_exact_mut(1)) {
                    self.adjust_scores(simd, (batch, head, i), *key, score);
                }
            }
        }
    }
}

/// Returns the inner product of a row of `view` with `x`.
#[inline(always)]
fn dot_row<S: Simd>(simd: S, view: View<'_>, (batch, head, i): (usize, usize, usize), x: &[f32]) -> f32 {
    let row = &view.data[view.offset(batch, head, i).min(view.data.len())..];
    match view.strides[3] {
        1 => dot(simd, &row[..x.len()], x),
        step => x.iter().enumerate().map(|(t, x)| x * row[t * step]).sum(),
    }
}

/// Adds `weight · row` of `view` to `out`.
#[inline(always)]
fn add_row<S: Simd>(simd: S, weight: f32, view: View<'_>, (batch, head, i): (usize, usize, usize), out: &mut [f32]) {
    let row = &view.data[view.offset(batch, head, i).min(view.data.len())..];
    match view.strides[3] {
        1 => add_scaled(simd, weight, &row[..out.len()], out),
        step => out.iter_mut().enumerate().for_each(|(t, out)| *out += weight * row[t * step]),
    }
}

/// Computes [`attention_forward`](super::attention_forward) query by query.
pub(super) fn rowwise_forward(problem: &Problem<'_>, out: &ViewMut<'_>, log_sum_exp: SharedSlice<'_>) {
    let AttentionShape { batch, n_heads, queries, .. } = problem.shape;
    let rows = batch * n_heads * queries;
    let row = |row: usize| dispatch(Forward { problem, out, log_sum_exp, row });
    let work = match &problem.options.sparse {
        None => problem.multiply_adds(),
        Some(sparse) => batch * n_heads * sparse.columns.len() * (problem.shape.d_head + problem.shape.d_value),
    };
    if work < SERIAL_MULTIPLY_ADDS {
        (0..rows).for_each(row);
    } else {
        (0..rows).into_par_iter().for_each(row);
    }
}

struct Forward<'a> {
    problem: &'a Problem<'a>,
    out: &'a ViewMut<'a>,
    log_sum_exp: SharedSlice<'a>,
    row: usize,
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let problem = self.problem;
        let AttentionShape { n_heads, queries, d_head, d_value, .. } = problem.shape;
        let (head, i) = (self.row / queries, self.row % queries);
        let index = (head / n_heads, head % n_heads, i);
        let (batch, head) = (index.0, index.1);
        let seen = problem.seen(batch, i);
        // SAFETY: each row is visited once.
        let (out, log_sum_exp) =
            unsafe { (self.out.row(batch, head, i, d_value), &mut self.log_sum_exp.slice(self.row, 1)[0]) };
        let mut memory = Scratch::new(d_head + seen.len());
        let memory = &mut *memory;
        let (query, weights) = memory.split_at_mut(d_head);
        copy_rows(problem.q, (batch, head), i..i + 1, d_head, problem.options.scale, d_head, query);
        problem.row_scores(simd, index, &seen, query, weights);
        let maximum = max(simd, weights);
        let shift = simd.splat_f32s(if maximum == f32::NEG_INFINITY { 0.0 } else { maximum });
        map_in_place!(simd, weights, |s| exp_bounded(simd, simd.sub_f32s(s, shift)));
        let total = sum(simd, weights);
        *log_sum_exp = maximum + total.ln();
        out.fill(0.0);
        if total == 0.0 {
            return;
        }
        let factor = problem.inverse_keep() / total;
        let dropped = problem.dropped(index);
        for (n, weight) in weights.iter().enumerate() {
            let key = seen.key(n);
            if dropped.is_none_or(|dropped| dropped.keeps(key)) {
                add_row(simd, weight * factor, problem.v, (batch, head / problem.shape.group(), key), out);
            }
        }
    }
}

/// Computes [`attention_backward`](super::attention_backward) query by query, for all queries that use one key head.
pub(super) fn rowwise_backward(backward: &Backward<'_>, task: usize, batch: usize, kv_head: usize) {
    dispatch(Item { backward, task, batch, kv_head });
}

struct Item<'a> {
    backward: &'a Backward<'a>,
    task: usize,
    batch: usize,
    kv_head: usize,
}

impl WithSimd for Item<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Item { backward, batch, kv_head, .. } = self;
        let AttentionShape { queries, keys, d_head, d_value, .. } = backward.problem.shape;
        for key in 0..keys {
            // SAFETY: the keys of this head belong to this task.
            unsafe {
                backward.grad_k.row(batch, kv_head, key, d_head).fill(0.0);
                backward.grad_v.row(batch, kv_head, key, d_value).fill(0.0);
            }
        }
        let group = backward.problem.shape.group();
        for head in kv_head * group..(kv_head + 1) * group {
            for i in 0..queries {
                self.query(simd, head, i);
            }
        }
    }
}

impl Item<'_> {
    #[inline(always)]
    fn query<S: Simd>(&self, simd: S, head: usize, i: usize) {
        let Item { backward, batch, kv_head, .. } = *self;
        let problem = backward.problem;
        let AttentionShape { d_head, d_value, .. } = problem.shape;
        let scale = problem.options.scale;
        let index = (batch, head, i);
        let seen = problem.seen(batch, i);
        let count = seen.len();
        // SAFETY: the queries of this head belong to this task.
        let grad_q = unsafe { backward.grad_q.row(batch, head, i, d_head) };
        grad_q.fill(0.0);
        let mut memory = Scratch::new(2 * (d_head + d_value) + count);
        let memory = &mut *memory;
        let (query, memory) = memory.split_at_mut(d_head);
        let (grad, memory) = memory.split_at_mut(d_value);
        let (out, memory) = memory.split_at_mut(d_value);
        let (sums, weights) = memory.split_at_mut(d_head);
        copy_rows(problem.q, (batch, head), i..i + 1, d_head, scale, d_head, query);
        copy_rows(backward.grad, (batch, head), i..i + 1, d_value, 1.0, d_value, grad);
        copy_rows(backward.out, (batch, head), i..i + 1, d_value, 1.0, d_value, out);
        let delta = dot(simd, grad, out);
        problem.row_scores(simd, index, &seen, query, weights);
        let log_sum_exp = simd.splat_f32s(backward.log_sum_exp(index));
        map_in_place!(simd, weights, |s| exp_bounded(simd, simd.sub_f32s(s, log_sum_exp)));
        let dropped = problem.dropped(index);
        sums.fill(0.0);
        for (n, weight) in weights.iter_mut().enumerate() {
            let key = seen.key(n);
            let kept = dropped.is_none_or(|dropped| dropped.keeps(key));
            let factor = if kept { problem.inverse_keep() } else { 0.0 };
            let grad_weight = factor * dot_row(simd, problem.v, (batch, kv_head, key), grad);
            let grad_score = *weight * (grad_weight - delta);
            // SAFETY: the keys of this head belong to this task, and the two rows are of different tensors.
            let (grad_k, grad_v) = unsafe {
                (backward.grad_k.row(batch, kv_head, key, d_head), backward.grad_v.row(batch, kv_head, key, d_value))
            };
            add_scaled(simd, *weight * factor, grad, grad_v);
            add_scaled(simd, grad_score, query, grad_k);
            add_row(simd, grad_score, problem.k, (batch, kv_head, key), sums);
            *weight = grad_score;
        }
        add_scaled(simd, scale, sums, grad_q);
        // SAFETY: the item belongs to this task, which uses one row at a time.
        unsafe {
            if let Some(bias) = backward.bias_row(self.task, index) {
                weights.iter().enumerate().for_each(|(n, grad)| bias[seen.key(n)] += grad);
            }
            for (n, grad) in weights.iter().enumerate() {
                if let Some(distance) = backward.distance_part(index, seen.key(n), 1) {
                    distance[0] += grad;
                }
            }
        }
    }
}
