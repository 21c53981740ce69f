//! Row F4: the energy over a plane through the ground state, before and after the transition.

use faer::Side;
use serde::Serialize;

use crate::error::TheoryError;
use crate::fields::{Fields, dot, times};
use crate::solver::{Method, Options};

/// The energy above the ground state, over a square.
#[derive(Debug, Clone, Serialize)]
pub struct Landscape {
    /// Along the identity, `W = x I/√D` away from the ground state.
    pub x: Vec<f64>,
    /// Along the softest direction, that of the smallest eigenvalue of the Hessian.
    pub y: Vec<f64>,
    /// A row for each `y`.
    pub energy: Vec<Vec<f64>>,
    /// Half the second derivative along each: how steep the walls are.
    pub stiffness: [f64; 2],
    /// Where on the plane the point nearest to the solution `W = I/(1 + (D + 1)/N)` of unlimited prompts lies.
    pub solution: [f64; 2],
}

/// The plane of the identity and the softest direction, `reach` to each side, `points` a side.
pub fn landscape(fields: &Fields, n: usize, reach: f64, points: usize) -> Result<Landscape, TheoryError> {
    if points < 2 {
        return Err(TheoryError::setting("points", "2 or more", points));
    }
    if !(reach > 0.0 && reach.is_finite()) {
        return Err(TheoryError::setting("reach", "above 0", reach));
    }
    let ground = Method::Exact.solver(Options::default()).solve(fields, &mut |_, _| {})?.means;
    let d = fields.d;
    let hessian = fields.hessian();
    let identity: Vec<f64> =
        (0..fields.len()).map(|i| if i / d == i % d { 1.0 / (d as f64).sqrt() } else { 0.0 }).collect();
    let softest = {
        let eigen = hessian
            .self_adjoint_eigen(Side::Lower)
            .map_err(|error| TheoryError::Eigenvalues { why: format!("{error:?}") })?;
        let vectors = eigen.U();
        let mut vector: Vec<f64> = (0..fields.len()).map(|i| vectors[(i, 0)]).collect();
        let along = dot(&vector, &identity);
        vector.iter_mut().zip(&identity).for_each(|(x, identity)| *x -= along * identity);
        let norm = dot(&vector, &vector).sqrt();
        vector.iter_mut().for_each(|x| *x /= norm);
        vector
    };
    let (first, second) = (times(&hessian, &identity), times(&hessian, &softest));
    let [xx, xy, yy] = [dot(&identity, &first), dot(&identity, &second), dot(&softest, &second)];
    let places: Vec<f64> = (0..points).map(|i| reach * (2.0 * i as f64 / (points - 1) as f64 - 1.0)).collect();
    let energy = places
        .iter()
        .map(|y| places.iter().map(|x| 0.5 * (x * x * xx + 2.0 * x * y * xy + y * y * yy)).collect())
        .collect();
    let factor = 1.0 / (1.0 + (d + 1) as f64 / n as f64);
    let away: Vec<f64> =
        identity.iter().zip(&ground).map(|(identity, ground)| factor * (d as f64).sqrt() * identity - ground).collect();
    Ok(Landscape {
        x: places.clone(),
        y: places,
        energy,
        stiffness: [0.5 * xx, 0.5 * yy],
        solution: [dot(&away, &identity), dot(&away, &softest)],
    })
}
