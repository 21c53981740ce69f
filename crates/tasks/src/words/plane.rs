//! Projection of points onto their first two principal components.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Maximum number of iterations; the plane is then good enough for a plot even if it still moves.
const MOST: usize = 1_000;

/// Points projected onto a plane.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plane {
    /// Coordinates of each point.
    pub places: Vec<[f64; 2]>,
    /// Share of the total variance along each axis.
    pub shares: [f64; 2],
}

impl Plane {
    /// Projects points with the same number of coordinates onto the two leading eigenvectors of their covariance, which
    /// orthogonal iteration finds from a fixed start.
    pub fn of(points: &[Vec<f32>]) -> Self {
        let width = points.first().map_or(0, Vec::len);
        if width == 0 {
            return Self { places: vec![[0.0; 2]; points.len()], shares: [0.0; 2] };
        }
        let mean: Vec<f64> =
            (0..width).map(|i| points.iter().map(|p| f64::from(p[i])).sum::<f64>() / points.len() as f64).collect();
        let centred: Vec<Vec<f64>> =
            points.iter().map(|p| p.iter().zip(&mean).map(|(&x, m)| f64::from(x) - m).collect()).collect();
        let mut random = ChaCha8Rng::seed_from_u64(0);
        let mut axes: [Vec<f64>; 2] = [0, 1].map(|_| (0..width).map(|_| random.random::<f64>() - 0.5).collect());
        let mut variances = [0.0; 2];
        for _ in 0..MOST {
            // The covariance is never formed: Xᵀ(X a) is cheaper for few points.
            let mut next = axes.clone().map(|axis| turned(&centred, &axis));
            let lengths = orthonormal(&mut next);
            let moved: f64 = next.iter().zip(&axes).map(|(a, b)| 1.0 - dot(a, b).abs()).fold(0.0, f64::max);
            (axes, variances) = (next, lengths);
            if moved < 1e-12 {
                break;
            }
        }
        for axis in &mut axes {
            // The sign of an axis is arbitrary: the largest component becomes positive.
            let largest = axis.iter().copied().fold(0.0f64, |most, x| if x.abs() > most.abs() { x } else { most });
            if largest < 0.0 {
                axis.iter_mut().for_each(|x| *x = -*x);
            }
        }
        let total: f64 = centred.iter().map(|point| dot(point, point)).sum();
        let share = |variance: f64| if total > 0.0 { variance / total } else { 0.0 };
        let places = centred.iter().map(|point| [dot(point, &axes[0]), dot(point, &axes[1])]).collect();
        Self { places, shares: variances.map(share) }
    }
}

/// Computes `Xᵀ(X a)`.
fn turned(points: &[Vec<f64>], axis: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; axis.len()];
    for point in points {
        let along = dot(point, axis);
        sum.iter_mut().zip(point).for_each(|(sum, x)| *sum += along * x);
    }
    sum
}

/// Makes both axes orthogonal and of length 1, and returns their lengths before scaling. An axis that vanishes stays zero.
fn orthonormal(axes: &mut [Vec<f64>; 2]) -> [f64; 2] {
    let [first, second] = axes;
    let one = scaled(first);
    let shared = dot(first, second);
    second.iter_mut().zip(first.iter()).for_each(|(x, f)| *x -= shared * f);
    let other = scaled(second);
    [one, other]
}

fn scaled(axis: &mut [f64]) -> f64 {
    let length = dot(axis, axis).sqrt();
    let by = if length > 1e-12 { 1.0 / length } else { 0.0 };
    axis.iter_mut().for_each(|x| *x *= by);
    length
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn points_on_known_axes_keep_their_distances() {
        // A cross in the plane of (3, 4, 0)/5 and (0, 0, 1), shifted away from the origin.
        let along = [0.6f32, 0.8, 0.0];
        let points: Vec<Vec<f32>> = [-2.0f32, -1.0, 1.0, 2.0]
            .iter()
            .map(|s| along.iter().map(|a| 7.0 + s * a).collect())
            .chain([-1.0f32, 1.0].iter().map(|s| vec![7.0, 7.0, 7.0 + s]))
            .collect();
        let plane = Plane::of(&points);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-5, "{a} {b}");
        for (place, wanted) in plane.places.iter().zip([-2.0, -1.0, 1.0, 2.0, 0.0, 0.0]) {
            close(place[0], wanted);
        }
        close(plane.places[4][1].abs(), 1.0);
        close(plane.places[4][1] + plane.places[5][1], 0.0);
        close(plane.shares[0], 10.0 / 12.0);
        close(plane.shares[1], 2.0 / 12.0);
    }

    #[test]
    fn few_points_have_a_plane() {
        assert!(Plane::of(&[]).places.is_empty());
        assert_eq!(Plane::of(&[vec![1.0, 2.0]]).places, [[0.0, 0.0]]);
        let one_axis = Plane::of(&[vec![1.0], vec![3.0]]);
        assert!((one_axis.places[0][0] - one_axis.places[1][0]).abs() - 2.0 < 1e-9);
        assert!(one_axis.places.iter().all(|place| place[1].abs() < 1e-9));
    }

    proptest! {
        #[test]
        fn no_direction_has_more_variance(values in prop::collection::vec(-1.0f32..1.0, 40), angle in 0.0f64..6.3) {
            let points: Vec<Vec<f32>> = values.chunks_exact(4).map(<[f32]>::to_vec).collect();
            let plane = Plane::of(&points);
            let variance: f64 = plane.places.iter().map(|place| place[0] * place[0]).sum();
            let [a, b, c, d] = [angle.cos(), angle.sin() * 0.6, angle.sin() * 0.64, angle.sin() * 0.48];
            let along: Vec<f64> = points.iter()
                .map(|p| [a, b, c, d].iter().zip(p).map(|(a, &x)| a * f64::from(x)).sum::<f64>()).collect();
            let mean = along.iter().sum::<f64>() / along.len() as f64;
            let other: f64 = along.iter().map(|x| (x - mean) * (x - mean)).sum();
            prop_assert!(other <= variance * (1.0 + 1e-6) + 1e-9, "{} {}", other, variance);
            prop_assert!(plane.shares[0] + 1e-9 >= plane.shares[1]);
        }
    }
}
