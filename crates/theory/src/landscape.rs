//! The energy over a plane through the ground state: a valley with few prompts, a bowl with many.

use faer::{Mat, Side};
use serde::Serialize;

use crate::error::TheoryError;
use crate::fields::{Fields, dot, times};
use crate::prompt::Task;
use crate::solver::{Method, Options};

/// The energy above that of the ground state, on a square grid around it.
#[derive(Debug, Clone, Serialize)]
pub struct Landscape {
    /// Distances from the ground state along the unit direction `I/√D`.
    pub x: Vec<f64>,
    /// Distances from the ground state along the softest direction orthogonal to the identity.
    pub y: Vec<f64>,
    /// Energies, one row for each `y`.
    pub energy: Vec<Vec<f64>>,
    /// Half the second derivative of the energy along each direction.
    pub stiffness: [f64; 2],
    /// The ground state of unlimited prompts, projected onto the plane; `None` for correlated inputs or noisy labels.
    pub unlimited: Option<[f64; 2]>,
}

/// Largest number of grid points along a side.
const MOST_POINTS: usize = 1001;

/// Computes the energy over the plane of the identity and the softest direction, from `−reach` to `reach` with `points` a side.
pub fn landscape(fields: &Fields, task: &Task, reach: f64, points: usize) -> Result<Landscape, TheoryError> {
    TheoryError::check_range("points", 2..=MOST_POINTS, points)?;
    if !(reach > 0.0 && reach.is_finite()) {
        return Err(TheoryError::setting("reach", "above 0", reach));
    }
    let ground = Method::Exact.solver(Options::default()).solve(fields, &mut |_, _| {})?.means;
    let d = fields.d;
    let hessian = fields.hessian();
    let identity: Vec<f64> =
        (0..fields.len()).map(|i| if i / d == i % d { 1.0 / (d as f64).sqrt() } else { 0.0 }).collect();
    let softest = softest(&hessian, &identity)?;
    let (first, second) = (times(&hessian, &identity), times(&hessian, &softest));
    let [xx, xy, yy] = [dot(&identity, &first), dot(&identity, &second), dot(&softest, &second)];
    let places: Vec<f64> = (0..points).map(|i| reach * (2.0 * i as f64 / (points - 1) as f64 - 1.0)).collect();
    let energy = places
        .iter()
        .map(|y| places.iter().map(|x| 0.5 * (x * x * xx + 2.0 * x * y * xy + y * y * yy)).collect())
        .collect();
    let unlimited = unlimited(task, fields.lambda).map(|factor| {
        let away: Vec<f64> = identity
            .iter()
            .zip(&ground)
            .map(|(identity, ground)| factor * (d as f64).sqrt() * identity - ground)
            .collect();
        [dot(&away, &identity), dot(&away, &softest)]
    });
    Ok(Landscape { x: places.clone(), y: places, energy, stiffness: [0.5 * xx, 0.5 * yy], unlimited })
}

/// Returns the factor of the identity in `W` for unlimited prompts: `1 / (s (1 + (D + 1)/N) + λD/s)`, where `N/s` is the divisor
/// of the sums over a prompt. `None` with correlated inputs or noisy labels.
fn unlimited(task: &Task, lambda: f64) -> Option<f64> {
    task.validate_plain("unlimited prompts").ok()?;
    let (d, n) = (task.d as f64, task.n as f64);
    let shrink = n / task.divisor();
    Some(1.0 / (shrink * (1.0 + (d + 1.0) / n) + lambda * d / shrink))
}

/// Returns the unit direction of least curvature among those orthogonal to `identity`.
fn softest(hessian: &Mat<f64>, identity: &[f64]) -> Result<Vec<f64>, TheoryError> {
    let slope = times(hessian, identity);
    let (n, along) = (identity.len(), dot(identity, &slope));
    // Projects the identity out of the Hessian, then makes it the stiffest direction.
    let stiff: f64 = (0..n).map(|i| hessian[(i, i)].abs()).sum();
    let across = Mat::from_fn(n, n, |i, j| {
        hessian[(i, j)] - identity[i] * slope[j] - slope[i] * identity[j]
            + (along + 2.0 * stiff) * identity[i] * identity[j]
    });
    let eigen = across.self_adjoint_eigen(Side::Lower).map_err(TheoryError::eigenvalues)?;
    Ok((0..n).map(|i| eigen.U()[(i, 0)]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::Divisor;

    #[test]
    fn few_prompts_leave_a_direction_as_soft_as_the_regularisation() {
        for (d, prompts) in [(4, 10), (3, 8), (6, 30)] {
            let task = Task::new(d, 20);
            let fields = Fields::draw(&task, prompts, 1e-4, 1, &mut |_| {}).unwrap();
            let found = landscape(&fields, &task, 2.0, 3).unwrap();
            assert!((found.stiffness[1] - 0.5e-4).abs() < 1e-12, "{:?}", found.stiffness);
            // The ground state is the middle, and the energy grows from there.
            assert!(found.energy[1][1].abs() < 1e-15 && found.energy.iter().flatten().all(|energy| *energy >= 0.0));
        }
    }

    #[test]
    fn the_ground_state_goes_where_unlimited_prompts_are() {
        for divisor in [Divisor::Columns, Divisor::Examples] {
            let task = Task { divisor, ..Task::new(5, 5) };
            let fields = Fields::draw(&task, 200_000, 0.05, 1, &mut |_| {}).unwrap();
            let found = landscape(&fields, &task, 1.0, 3).unwrap().unlimited.unwrap();
            assert!(found[0].abs() < 0.01, "{divisor:?}: {found:?}");
        }
    }
}
