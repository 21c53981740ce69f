//! The cavity method: one message along each edge.
//!
//! ```text
//! v_{i→j} = 1 / (λ_i − Σ_{k≠i,j} J_ik² v_{k→i}),   m_{i→j} = (h_i + Σ_{k≠i,j} J_ik m_{k→i}) v_{i→j}
//! ```
//!
//! are mean and variance of spin `i` in the absence of `j`. The sum over all `k` is computed once per spin and the term of `j`
//! subtracted, so the cost of an iteration is proportional to the number of edges.

use rayon::prelude::*;

use super::{Options, Progress, Solution, Solver, check_precision, largest};
use crate::error::TheoryError;
use crate::fields::Fields;

pub(super) struct Edges(pub(super) Options);

/// The messages that arrive at each spin, one row per spin.
struct Messages {
    means: Vec<f64>,
    variances: Vec<f64>,
}

/// The sums of the messages that arrive at a spin: of `J m` and of `J² v`.
#[derive(Clone, Copy)]
struct Arrived {
    pull: f64,
    shift: f64,
}

impl Solver for Edges {
    fn solve(&self, fields: &Fields, progress: Progress<'_>) -> Result<Solution, TheoryError> {
        let Options { beta, damping, tolerance, most_iterations, .. } = self.0;
        let n = fields.len();
        let couplings = fields.couplings();
        let stiffness: Vec<f64> = (0..n).map(|i| fields.stiffness(i)).collect();
        for (spin, &stiffness) in stiffness.iter().enumerate() {
            check_precision(spin, stiffness, 0)?;
        }
        let mut old =
            Messages { means: vec![0.0; n * n], variances: (0..n * n).map(|at| 1.0 / stiffness[at % n]).collect() };
        let mut new = Messages { means: vec![0.0; n * n], variances: vec![0.0; n * n] };
        let (mut iterations, mut residual, mut converged) = (0, f64::INFINITY, false);
        while iterations < most_iterations && !converged {
            iterations += 1;
            let arrived = arrived(&couplings, &old, n);
            progress(iterations - 1, &marginals(fields, &arrived, iterations)?.0);
            // Row j of the new messages: from each i to j, without the term of j.
            let rows = new.means.par_chunks_exact_mut(n).zip(new.variances.par_chunks_exact_mut(n)).enumerate();
            let changes: Vec<Result<f64, TheoryError>> = rows
                .map(|(j, (means, variances))| {
                    let mut change = 0.0f64;
                    for i in 0..n {
                        let (there, back) = (j * n + i, i * n + j);
                        let coupling = couplings[back];
                        let shift = arrived[i].shift - coupling * coupling * old.variances[back];
                        let precision = stiffness[i] - shift;
                        check_precision(i, precision, iterations)?;
                        let mean = (fields.h[i] + arrived[i].pull - coupling * old.means[back]) / precision;
                        change = change.max((mean - old.means[there]).abs());
                        means[i] = damping * old.means[there] + (1.0 - damping) * mean;
                        variances[i] = damping * old.variances[there] + (1.0 - damping) / precision;
                    }
                    Ok(change)
                })
                .collect();
            residual = 0.0;
            for change in changes {
                residual = f64::max(residual, change?);
            }
            std::mem::swap(&mut old, &mut new);
            let scale = largest(&old.means);
            if !scale.is_finite() {
                residual = f64::INFINITY;
                break;
            }
            converged = residual <= tolerance * scale;
        }
        let (means, mut variances) = marginals(fields, &arrived(&couplings, &old, n), iterations)?;
        variances.iter_mut().for_each(|variance| *variance /= beta);
        progress(iterations, &means);
        Ok(Solution { means, variances, iterations, residual, converged })
    }
}

/// Returns mean and variance of each spin from the messages that arrive at it.
fn marginals(fields: &Fields, arrived: &[Arrived], iteration: usize) -> Result<(Vec<f64>, Vec<f64>), TheoryError> {
    let of = |(i, Arrived { pull, shift }): (usize, &Arrived)| {
        let precision = fields.stiffness(i) - shift;
        check_precision(i, precision, iteration)?;
        Ok(((fields.h[i] + pull) / precision, 1.0 / precision))
    };
    arrived.iter().enumerate().map(of).collect::<Result<Vec<_>, _>>().map(|pairs| pairs.into_iter().unzip())
}

/// Sums up the messages that arrive at each spin.
fn arrived(couplings: &[f64], messages: &Messages, n: usize) -> Vec<Arrived> {
    let rows = couplings.par_chunks_exact(n);
    let rows = rows.zip(messages.means.par_chunks_exact(n).zip(messages.variances.par_chunks_exact(n)));
    rows.map(|(couplings, (means, variances))| {
        let mut sum = Arrived { pull: 0.0, shift: 0.0 };
        for ((coupling, mean), variance) in couplings.iter().zip(means).zip(variances) {
            sum.pull += coupling * mean;
            sum.shift += coupling * coupling * variance;
        }
        sum
    })
    .collect()
}
