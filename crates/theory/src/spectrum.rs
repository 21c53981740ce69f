//! Eigenvalues of the Hessian, and of the inputs for comparison with the Marchenko–Pastur law.

use faer::{Mat, Side};

use crate::error::TheoryError;
use crate::fields::Fields;
use crate::prompt::{Split, Task};

/// Absolute value below which an eigenvalue counts as zero. The threshold of the paper.
pub const ZERO: f64 = 1e-5;

/// Returns the eigenvalues of a symmetric matrix in ascending order.
pub fn eigenvalues(matrix: &Mat<f64>) -> Result<Vec<f64>, TheoryError> {
    matrix.self_adjoint_eigenvalues(Side::Lower).map_err(TheoryError::eigenvalues)
}

/// Returns all `(D + 1)²` eigenvalues of the Hessian without regularisation: the last column of `W` contributes `D + 1` zeros.
pub fn hessian_spectrum(fields: &Fields) -> Result<Vec<f64>, TheoryError> {
    let mut values = eigenvalues(&fields.moments)?;
    values.extend(std::iter::repeat_n(0.0, fields.d + 1));
    values.sort_by(f64::total_cmp);
    Ok(values)
}

/// Returns the share of eigenvalues below [`ZERO`] in absolute value.
pub fn zero_fraction(values: &[f64]) -> f64 {
    values.iter().filter(|value| value.abs() < ZERO).count() as f64 / values.len() as f64
}

/// Returns the [`zero_fraction`] expected for `prompts` prompts: each raises the rank by one, up to `D(D + 1)`.
pub fn expected_zero_fraction(d: usize, prompts: u64) -> f64 {
    let side = (d + 1) as f64;
    1.0 - (prompts as f64).min(d as f64 * side) / (side * side)
}

/// Returns the eigenvalues of `x xᵀ / N` of the inputs, without the query, for each of `prompts` prompts.
pub fn input_spectrum(task: &Task, prompts: u64, seed: u64) -> Result<Vec<f64>, TheoryError> {
    task.validate()?;
    let Task { d, n, .. } = *task;
    let mut all = Vec::new();
    for index in 0..prompts {
        let prompt = task.prompt(Split::Train, seed, index);
        let inputs = faer::MatRef::from_column_major_slice(&prompt.inputs[..n * d], d, n);
        all.extend(eigenvalues(&(faer::Scale(1.0 / n as f64) * (inputs * inputs.transpose())))?);
    }
    all.sort_by(f64::total_cmp);
    Ok(all)
}

/// Returns the Marchenko–Pastur density at `x` for the eigenvalues of `x xᵀ / N` with `D/N = ratio`, without its point mass at 0.
pub fn marchenko_pastur(x: f64, ratio: f64) -> f64 {
    let (low, high) = marchenko_pastur_edges(ratio);
    match x > low && x < high {
        true => ((high - x) * (x - low)).sqrt() / (2.0 * std::f64::consts::PI * ratio * x),
        false => 0.0,
    }
}

/// Returns the smallest and the largest eigenvalue of the Marchenko–Pastur density.
pub fn marchenko_pastur_edges(ratio: f64) -> (f64, f64) {
    ((1.0 - ratio.sqrt()).powi(2), (1.0 + ratio.sqrt()).powi(2))
}
