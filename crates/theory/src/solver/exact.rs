//! The ground state by a Cholesky factorisation.

use faer::linalg::solvers::DenseSolveCore;
use faer::{Mat, Side};

use super::{FLAT, Options, Progress, Solution, Solver, largest};
use crate::error::TheoryError;
use crate::fields::{Fields, times};

/// Largest `|(λ + ⟨s sᵀ⟩) σ − h|` of a converged solution, relative to the largest `|h|`.
const EXACT: f64 = 1e-9;

/// Computes `(λ + ⟨s sᵀ⟩)⁻¹ h`. If some directions are flat, as without regularisation and with fewer prompts than spins, the
/// ground states form a plane. Then the solution is its point nearest to zero, where gradient descent from zero ends, and flat
/// directions have no variance.
pub(super) struct Exact(pub(super) Options);

impl Solver for Exact {
    fn solve(&self, fields: &Fields, progress: Progress<'_>) -> Result<Solution, TheoryError> {
        let hessian = fields.hessian();
        let solved = |inverse: Mat<f64>| -> Solution {
            let away = |means: &[f64]| -> Vec<f64> {
                fields.h.iter().zip(times(&hessian, means)).map(|(h, slope)| h - slope).collect()
            };
            let mut means = times(&inverse, &fields.h);
            // One step of iterative refinement against rounding errors.
            let correction = times(&inverse, &away(&means));
            means.iter_mut().zip(correction).for_each(|(mean, correction)| *mean += correction);
            let residual = largest(&away(&means));
            let variances = (0..fields.len()).map(|i| inverse[(i, i)] / self.0.beta).collect();
            Solution { means, variances, iterations: 1, residual, converged: residual <= EXACT * largest(&fields.h) }
        };
        let factored = match fields.lambda > 0.0 {
            true => hessian.llt(Side::Lower).ok().map(|factors| solved(factors.inverse())),
            false => None,
        };
        let solution = match factored.filter(|solution| solution.converged) {
            Some(solution) => solution,
            None => solved(pseudo_inverse(&hessian, fields.lambda)?),
        };
        progress(1, &solution.means);
        Ok(solution)
    }
}

/// Returns the pseudo-inverse, which is zero along flat directions.
fn pseudo_inverse(hessian: &Mat<f64>, lambda: f64) -> Result<Mat<f64>, TheoryError> {
    let eigen = hessian.self_adjoint_eigen(Side::Lower).map_err(TheoryError::eigenvalues)?;
    let (vectors, values) = (eigen.U(), eigen.S().column_vector());
    let largest = values.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    if values.iter().any(|&value| value < -FLAT * largest) {
        return Err(TheoryError::Indefinite { lambda });
    }
    let scaled = Mat::from_fn(vectors.nrows(), vectors.ncols(), |i, j| {
        let value = values[j];
        if value > FLAT * largest { vectors[(i, j)] / value } else { 0.0 }
    });
    Ok(&scaled * vectors.transpose())
}
