//! The ground state by a Cholesky factorisation.

use faer::linalg::solvers::DenseSolveCore;
use faer::{Mat, Side};

use super::{Options, Progress, Solution, Solver};
use crate::error::TheoryError;
use crate::fields::{Fields, times};

/// The smallest eigenvalue over the largest below which a direction counts as flat.
const FLAT: f64 = 1e-12;

/// `(λ + ⟨s sᵀ⟩)⁻¹ h`. Without regularisation and with fewer prompts than spins the ground state is a plane: then it is the
/// point of that nearest to zero, where gradient descent from zero ends.
pub(super) struct Exact(pub(super) Options);

impl Solver for Exact {
    fn solve(&self, fields: &Fields, progress: Progress<'_>) -> Result<Solution, TheoryError> {
        let hessian = fields.hessian();
        let inverse = match fields.lambda > 0.0 {
            true => {
                let factors =
                    hessian.llt(Side::Lower).map_err(|_| TheoryError::Indefinite { lambda: fields.lambda })?;
                factors.inverse()
            }
            false => pseudo_inverse(&hessian, fields.lambda)?,
        };
        let means = times(&inverse, &fields.h);
        let residual = times(&hessian, &means).iter().zip(&fields.h).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        let variances = (0..fields.len()).map(|i| inverse[(i, i)] / self.0.beta).collect();
        progress(1, &means);
        Ok(Solution { means, variances, iterations: 1, residual, converged: true })
    }
}

/// The inverse on the directions that are not flat.
fn pseudo_inverse(hessian: &Mat<f64>, lambda: f64) -> Result<Mat<f64>, TheoryError> {
    let eigen = hessian
        .self_adjoint_eigen(Side::Lower)
        .map_err(|error| TheoryError::Eigenvalues { why: format!("{error:?}") })?;
    let (vectors, values) = (eigen.U(), eigen.S().column_vector());
    let largest = values.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    if values.iter().any(|&value| value < -FLAT * largest) {
        return Err(TheoryError::Indefinite { lambda });
    }
    let scaled = Mat::from_fn(vectors.nrows(), vectors.ncols(), |i, j| {
        let value = values[j];
        if value > FLAT * largest { vectors[(i, j)] / value } else { 0.0 }
    });
    Ok(&scaled * vectors.transpose())
}
