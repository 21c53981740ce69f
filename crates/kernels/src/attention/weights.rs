//! The attention weights of some queries, computed on request from the log-sum-exps.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::operands::{Problem, copy_rows};
use super::options::{AttentionOptions, AttentionShape};
use super::view::View;
use crate::error::{KernelError, check_len};
use crate::isa::dispatch;
use crate::scratch::Scratch;
use crate::vector::{exp_bounded, map_in_place, max};

/// Computes the weights before dropout of the queries `rows` of one head of one sequence; 0 for keys they do not see.
///
/// # Shapes
/// `q`, `k` and `log_sum_exp` (computed if `None`) as in [`attention_forward`](super::attention_forward), `out`
/// `[rows, keys]`.
#[allow(clippy::too_many_arguments)]
pub fn attention_weights(
    shape: AttentionShape,
    options: &AttentionOptions<'_>,
    q: View<'_>,
    k: View<'_>,
    log_sum_exp: Option<&[f32]>,
    (batch, head): (usize, usize),
    rows: Range<usize>,
    out: &mut [f32],
) -> Result<(), KernelError> {
    // Weights do not depend on values: the keys stand in for them.
    let shape = AttentionShape { d_value: shape.d_head, ..shape };
    let problem = Problem::new(shape, options, q, k, k)?;
    if let Some(log_sum_exp) = log_sum_exp {
        check_len("log-sum-exp", log_sum_exp.len(), shape.rows())?;
    }
    if batch >= shape.batch || head >= shape.n_heads || rows.end > shape.queries || rows.start > rows.end {
        let why = format!(
            "sequence {batch}, head {head}, queries {rows:?} of {} × {} × {}",
            shape.batch, shape.n_heads, shape.queries
        );
        return Err(KernelError::Invalid { what: "attention weights", why });
    }
    check_len("attention weights", out.len(), rows.len() * shape.keys)?;
    if shape.keys == 0 {
        return Ok(());
    }
    let base = (batch * shape.n_heads + head) * shape.queries;
    out.par_chunks_mut(shape.keys).zip(rows).for_each(|(out, i)| {
        dispatch(Row {
            problem: &problem,
            index: (batch, head, i),
            log_sum_exp: log_sum_exp.map(|l| l[base + i]),
            out,
        });
    });
    Ok(())
}

struct Row<'a> {
    problem: &'a Problem<'a>,
    index: (usize, usize, usize),
    log_sum_exp: Option<f32>,
    out: &'a mut [f32],
}

impl WithSimd for Row<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (batch, head, i) = self.index;
        let d_head = self.problem.shape.d_head;
        let seen = self.problem.seen(batch, i);
        self.out.fill(0.0);
        let mut memory = Scratch::new(d_head + seen.len());
        let memory = &mut *memory;
        let (query, weights) = memory.split_at_mut(d_head);
        copy_rows(self.problem.q, (batch, head), i..i + 1, d_head, self.problem.options.scale, d_head, query);
        self.problem.row_scores(simd, self.index, &seen, query, weights);
        // A query that sees nothing keeps its zeros.
        if weights.iter().all(|&score| score == f32::NEG_INFINITY) {
            return;
        }
        let log_sum_exp = self.log_sum_exp.unwrap_or_else(|| {
            let maximum = max(simd, weights);
            maximum + weights.iter().map(|score| (score - maximum).exp()).sum::<f32>().ln()
        });
        let log_sum_exp = simd.splat_f32s(log_sum_exp);
        map_in_place!(simd, weights, |s| exp_bounded(simd, simd.sub_f32s(s, log_sum_exp)));
        for (n, weight) in weights.iter().enumerate() {
            self.out[seen.key(n)] = *weight;
        }
    }
}
