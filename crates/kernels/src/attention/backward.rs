//! The backward pass, which computes the weights again from the log-sum-exps, block by block.
//!
//! ```text
//! P  = exp(S − L)          dV = drop(P)ᵀ dO
//! dP = drop(dO Vᵀ)         dS = P ∘ (dP − δ),  δ_i = dO_i·O_i
//! dQ = scale · dS K        dK = scale · dSᵀ Q          dbias = dS
//! ```
//! One task owns all queries that use a key head, so no atomic additions are needed and the bits are reproducible. With
//! fewer key heads than threads, the keys of a head are split, and the parts of `dQ` are added in order.

use rayon::prelude::*;

use super::backward_tiles::Item;
use super::forward::SERIAL_MULTIPLY_ADDS;
use super::operands::Problem;
use super::options::{AttentionOptions, AttentionShape};
use super::rows::rowwise_backward;
use super::view::{View, ViewMut};
use crate::error::{KernelError, check_len};
use crate::isa::dispatch;
use crate::parallel::team_threads;
use crate::shared_slice::SharedSlice;

/// Where [`attention_backward`] writes the gradients. Old content is replaced.
pub struct AttentionGradients<'a> {
    /// Gradient of the queries, `[batch, n_heads, queries, d_head]`.
    pub q: ViewMut<'a>,
    /// Gradient of the keys, `[batch, kv_heads, keys, d_head]`.
    pub k: ViewMut<'a>,
    /// Gradient of the values, `[batch, kv_heads, keys, d_value]`.
    pub v: ViewMut<'a>,
    /// Gradient of the bias, `[batch or 1, n_heads or 1, queries, keys]` without gaps; 1 where the bias has stride 0.
    pub bias: Option<&'a mut [f32]>,
    /// Gradient of the bias by distance, `[n_heads, queries + keys − 1]`.
    pub distance: Option<&'a mut [f32]>,
}

/// Computes the gradients of [`attention_forward`](super::attention_forward) from its results and the gradient `grad` of
/// `out`.
///
/// # Shapes
/// The shapes of the forward pass; `out` and `grad` `[batch, n_heads, queries, d_value]`.
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
    // Sums over the batch are added up from one row for each sequence, in order.
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
        let bias = bias.expect("bias parts exist only if the gradient of the bias was requested");
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

/// Sets `grad_q` to the sum of the parts that the tasks computed from their ranges of keys.
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

/// The shape of the bias's gradient: no gaps, and size 1 along the indices along which the bias repeats.
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

/// The split into tasks. An item is a key head of a sequence; tasks run in parallel, the items of a task one after another.
pub(super) struct Plan {
    tasks: usize,
    /// Number of ranges of keys that each item is split into, with a task for each.
    pub(super) splits: usize,
    /// Whether every task but the first adds up a bias gradient of its own.
    private_bias: bool,
    assignment: Assignment,
}

#[derive(Clone, Copy)]
enum Assignment {
    /// One task for each item.
    Each,
    /// One task for each key head, because the bias repeats over the batch.
    KeyHead,
    /// One task for each sequence, because the bias repeats over heads.
    Sequence,
    /// One task for each thread, with consecutive items.
    Chunks,
}

impl Plan {
    fn new(problem: &Problem<'_>, bias: Option<&BiasLayout>, serial: bool) -> Self {
        let AttentionShape { batch, n_heads, kv_heads, .. } = problem.shape;
        let items = batch * kv_heads;
        let threads = if serial { 1 } else { team_threads() };
        let repeats = bias.map(|bias| (bias.batch < batch, bias.n_heads < n_heads));
        let plan = |assignment, tasks| Self { tasks, splits: 1, private_bias: false, assignment };
        match repeats {
            None | Some((false, false)) => {
                // Bias gradients and the sparse path write all keys of a query at once, so only plain calls are split.
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

    /// Returns the `(sequence, key head)` pairs of a task.
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

/// The data that all tasks share.
pub(super) struct Backward<'a> {
    pub(super) problem: &'a Problem<'a>,
    pub(super) out: View<'a>,
    pub(super) log_sum_exp: &'a [f32],
    pub(super) grad: View<'a>,
    pub(super) grad_q: &'a ViewMut<'a>,
    pub(super) grad_k: &'a ViewMut<'a>,
    pub(super) grad_v: &'a ViewMut<'a>,
    pub(super) query_parts: SharedSlice<'a>,
    bias: Option<SharedSlice<'a>>,
    bias_parts: SharedSlice<'a>,
    bias_layout: BiasLayout,
    distance_parts: Option<SharedSlice<'a>>,
    pub(super) plan: &'a Plan,
}

impl Backward<'_> {
    /// Returns the row of the bias gradient that `task` adds to for query `i`.
    ///
    /// # Safety
    /// Called by `task` only, for an item of its own, with no other row alive.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
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

    /// Returns the part of the distance gradient for query `i` and the keys `first..first + len`.
    ///
    /// # Safety
    /// Called by the task of the item only, with no other part alive.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
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

    /// Returns the log-sum-exp of a query, but +∞ for one that sees no key, so that its weights become 0.
    #[inline(always)]
    pub(super) fn log_sum_exp(&self, (batch, head, i): (usize, usize, usize)) -> f32 {
        let AttentionShape { n_heads, queries, .. } = self.problem.shape;
        let value = self.log_sum_exp[(batch * n_heads + head) * queries + i];
        if value == f32::NEG_INFINITY { f32::INFINITY } else { value }
    }
}
