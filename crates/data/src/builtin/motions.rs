//! Points on the way around a circle, a triangle or a square, to the left or to the right.
//!
//! The order of the points alone tells the direction, so a model that sees them as a set is right on half of the examples at
//! best. Their mean tells nothing at all.

use super::Sizes;
use crate::{Splits, Target, Vectors, hash};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::f64::consts::TAU;

const SHAPES: [&str; 3] = ["circle", "triangle", "square"];
const DIRECTIONS: [(&str, f64); 2] = [("left", 1.0), ("right", -1.0)];
const SHORTEST: usize = 16;
const LONGEST: usize = 40;

/// Draws motions: points of two coordinates whose label is a shape and a direction, such as `circle left`.
pub fn motions(sizes: Sizes, seed: u64) -> Splits<Vectors> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut part = |count: usize| (0..count).map(|_| motion(&mut random)).collect();
    Splits::new(part(sizes.train), part(sizes.dev), part(sizes.test))
}

/// A hash of the motions. It changes if a version of this crate draws others.
pub fn motions_fingerprint() -> String {
    let parts = motions(Sizes { train: 200, dev: 0, test: 0 }, 1);
    let numbers = parts.train.iter().flat_map(|motion| motion.features.iter().flat_map(|number| number.to_le_bytes()));
    format!("{:016x}", hash(&numbers.collect::<Vec<u8>>()))
}

fn motion(random: &mut ChaCha8Rng) -> Vectors {
    let mut between = |low: f64, high: f64| low + (high - low) * random.random::<f64>();
    let shape = (between(0.0, SHAPES.len() as f64) as usize).min(SHAPES.len() - 1);
    let (direction, sign) = DIRECTIONS[usize::from(between(0.0, 1.0) < 0.5)];
    let count = between(SHORTEST as f64, LONGEST as f64 + 1.0) as usize;
    let (start, turn, size) = (between(0.0, 1.0), between(0.0, TAU), between(0.8, 1.2));
    let centre = [between(-0.3, 0.3), between(-0.3, 0.3)];
    let mut features = Vec::with_capacity(2 * count);
    for step in 0..count {
        let along = start + sign * (step as f64 + between(-0.2, 0.2)) / count as f64;
        let [x, y] = outline(shape, along.rem_euclid(1.0));
        let place = [x * turn.cos() - y * turn.sin(), x * turn.sin() + y * turn.cos()];
        for axis in 0..2 {
            features.push((centre[axis] + size * place[axis] + between(-0.05, 0.05)) as f32);
        }
    }
    let target = Some(Target::Label(format!("{} {direction}", SHAPES[shape])));
    Vectors { features, width: 2, target, split: None, line: None }
}

/// The point at a share of the way around a shape, whose corners lie on the unit circle.
fn outline(shape: usize, along: f64) -> [f64; 2] {
    let corner = |angle: f64| [(TAU * angle).cos(), (TAU * angle).sin()];
    let corners = match shape {
        0 => return corner(along),
        other => other as f64 + 2.0,
    };
    let side = (along * corners).floor();
    let part = along * corners - side;
    let (from, to) = (corner(side / corners), corner((side + 1.0) / corners));
    [from[0] + (to[0] - from[0]) * part, from[1] + (to[1] - from[1]) * part]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twice the area that a path goes around, positive to the left.
    fn area(features: &[f32]) -> f64 {
        let points: Vec<&[f32]> = features.chunks(2).collect();
        let pairs = points.iter().zip(points.iter().cycle().skip(1));
        pairs.map(|(a, b)| f64::from(a[0]) * f64::from(b[1]) - f64::from(b[0]) * f64::from(a[1])).sum()
    }

    #[test]
    fn the_label_names_shape_and_direction() {
        let sizes = Sizes { train: 300, dev: 10, test: 20 };
        let parts = motions(sizes, 3);
        assert_eq!((parts.train.len(), parts.dev.len(), parts.test.len()), (300, 10, 20));
        assert_eq!(parts, motions(sizes, 3), "a seed gives the same motions");
        let mut seen = std::collections::BTreeSet::new();
        for motion in &parts.train {
            let Some(Target::Label(label)) = &motion.target else { panic!("{motion:?}") };
            assert_eq!(area(&motion.features) > 0.0, label.ends_with("left"), "{label}");
            assert!((SHORTEST..=LONGEST).contains(&motion.length()));
            seen.insert(label.clone());
        }
        assert_eq!(seen.len(), 6);
    }
}
