//! Message passing with one message per spin, with or without Onsager's reaction term.
//!
//! ```text
//! V_i = Σ_k J_ik² v_k,   v_i = 1 / (λ_i − V_i),   m_i = (h_i + Σ_k J_ik m_k − [V_i m_i']) v_i
//! ```
//!
//! The term in brackets is the reaction of the neighbours to the spin itself, through its mean `m_i'` of the iteration before;
//! the cavity method excludes it. With the term subtracted, the fixed point is `λ_i m_i = h_i + Σ J m`, the ground state.
//! Without it, as published, the fixed point is `(λ_i − V_i) m_i = h_i + Σ J m`: near the ground state if the couplings are
//! weak (many prompts), far from it if they are strong.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::{Options, Progress, Solution, Solver, check_precision, largest};
use crate::error::TheoryError;
use crate::fields::Fields;

/// Number of spins that one thread sums for: two sums of this length fit in the L1 cache.
const SPINS: usize = 512;

/// Whether to subtract Onsager's reaction term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaction {
    None,
    Onsager,
}

pub(super) struct Node {
    pub(super) options: Options,
    pub(super) reaction: Reaction,
}

impl Solver for Node {
    fn solve(&self, fields: &Fields, progress: Progress<'_>) -> Result<Solution, TheoryError> {
        let Options { beta, damping, tolerance, most_iterations, .. } = self.options;
        let couplings = fields.couplings();
        let stiffness: Vec<f64> = (0..fields.len()).map(|i| fields.stiffness(i)).collect();
        for (spin, &stiffness) in stiffness.iter().enumerate() {
            check_precision(spin, stiffness, 0)?;
        }
        let (mut means, mut before) = (vec![0.0; fields.len()], vec![0.0; fields.len()]);
        let mut variances: Vec<f64> = stiffness.iter().map(|stiffness| 1.0 / stiffness).collect();
        let (mut pulls, mut shifts) = (vec![0.0; fields.len()], vec![0.0; fields.len()]);
        let (mut iterations, mut residual, mut converged) = (0, f64::INFINITY, false);
        while iterations < most_iterations && !converged {
            iterations += 1;
            sums(&couplings, &means, &variances, &mut pulls, &mut shifts);
            residual = 0.0;
            for i in 0..means.len() {
                let precision = stiffness[i] - shifts[i];
                check_precision(i, precision, iterations)?;
                let reaction = if self.reaction == Reaction::Onsager { shifts[i] * before[i] } else { 0.0 };
                let mean = (fields.h[i] + pulls[i] - reaction) / precision;
                residual = f64::max(residual, (mean - means[i]).abs());
                before[i] = means[i];
                means[i] = damping * means[i] + (1.0 - damping) * mean;
                variances[i] = damping * variances[i] + (1.0 - damping) / precision;
            }
            progress(iterations, &means);
            let scale = largest(&means);
            if !scale.is_finite() {
                residual = f64::INFINITY;
                break;
            }
            converged = residual <= tolerance * scale;
        }
        variances.iter_mut().for_each(|variance| *variance /= beta);
        Ok(Solution { means, variances, iterations, residual, converged })
    }
}

/// Computes `pulls = J m` and `shifts = J² v` (squared elementwise), reading each coupling once. `couplings` is symmetric.
fn sums(couplings: &[f64], means: &[f64], variances: &[f64], pulls: &mut [f64], shifts: &mut [f64]) {
    let arch = Arch::new();
    let parts = pulls.par_chunks_mut(SPINS).zip(shifts.par_chunks_mut(SPINS)).enumerate();
    parts.for_each(|(part, (pulls, shifts))| {
        arch.dispatch(Sums { couplings, first: part * SPINS, means, variances, pulls, shifts });
    });
}

/// The sums for the spins from `first` on.
struct Sums<'a> {
    couplings: &'a [f64],
    first: usize,
    means: &'a [f64],
    variances: &'a [f64],
    pulls: &'a mut [f64],
    shifts: &'a mut [f64],
}

impl WithSimd for Sums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { couplings, first, means, variances, pulls, shifts } = self;
        let (n, count) = (means.len(), pulls.len());
        pulls.fill(0.0);
        shifts.fill(0.0);
        let row = |k: usize| &couplings[k * n + first..][..count];
        // Two rows at a time, so that the sums are loaded and stored half as often. The number of rows, D(D + 1), is even.
        for k in (0..n).step_by(2) {
            let (a, b) = (row(k), row(k + 1));
            let [m, w] = [[means[k], means[k + 1]], [variances[k], variances[k + 1]]];
            for i in 0..count {
                pulls[i] += a[i] * m[0] + b[i] * m[1];
                shifts[i] += a[i] * a[i] * w[0] + b[i] * b[i] * w[1];
            }
        }
    }
}
