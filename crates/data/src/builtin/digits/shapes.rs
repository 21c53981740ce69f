//! The shapes of the digits in a square from 0 to 1, with `y` downwards.

/// A point `[x, y]`.
pub(in crate::builtin) type Point = [f32; 2];

/// One stroke of a digit.
pub(in crate::builtin) enum Stroke {
    /// Straight lines from point to point.
    Lines(&'static [Point]),
    /// A part of an ellipse, with angles in degrees: 0 is right, 90 below.
    Arc { centre: Point, radii: Point, from: f32, to: f32 },
}

use Stroke::Lines;

const fn arc(centre: Point, radii: Point, from: f32, to: f32) -> Stroke {
    Stroke::Arc { centre, radii, from, to }
}

impl Stroke {
    /// Points along the stroke, close enough to bend it.
    pub(in crate::builtin) fn points(&self) -> Vec<Point> {
        const STEPS: usize = 8;
        match self {
            Self::Lines(corners) => {
                let between = |ends: &[Point]| -> Vec<Point> {
                    let ([ax, ay], [bx, by]) = (ends[0], ends[1]);
                    let at = |step: usize| step as f32 / STEPS as f32;
                    (0..STEPS).map(|step| [ax + at(step) * (bx - ax), ay + at(step) * (by - ay)]).collect()
                };
                corners.windows(2).flat_map(between).chain(corners.last().copied()).collect()
            }
            Self::Arc { centre, radii, from, to } => {
                const STEPS: usize = 32;
                let point = |step: usize| {
                    let (sine, cosine) = (from + (to - from) * step as f32 / STEPS as f32).to_radians().sin_cos();
                    [centre[0] + radii[0] * cosine, centre[1] + radii[1] * sine]
                };
                (0..=STEPS).map(point).collect()
            }
        }
    }
}

/// The ways to write each digit.
pub(super) const SHAPES: [&[&[Stroke]]; 10] = [
    &[&[arc([0.5, 0.5], [0.29, 0.42], 0.0, 360.0)]],
    &[
        &[Lines(&[[0.32, 0.28], [0.54, 0.08], [0.54, 0.92]])],
        &[Lines(&[[0.5, 0.08], [0.5, 0.92]])],
        &[Lines(&[[0.34, 0.26], [0.52, 0.08], [0.52, 0.92]]), Lines(&[[0.3, 0.92], [0.74, 0.92]])],
    ],
    &[
        &[arc([0.5, 0.32], [0.27, 0.24], 190.0, 395.0), Lines(&[[0.72, 0.46], [0.24, 0.92], [0.8, 0.92]])],
        &[
            arc([0.5, 0.32], [0.26, 0.24], 200.0, 400.0),
            Lines(&[[0.7, 0.47], [0.36, 0.86]]),
            arc([0.34, 0.82], [0.12, 0.09], 0.0, 360.0),
            Lines(&[[0.42, 0.84], [0.62, 0.93], [0.82, 0.86]]),
        ],
    ],
    &[
        &[arc([0.46, 0.29], [0.25, 0.21], 200.0, 450.0), arc([0.46, 0.7], [0.29, 0.22], 270.0, 520.0)],
        &[Lines(&[[0.26, 0.1], [0.74, 0.1], [0.46, 0.44]]), arc([0.46, 0.68], [0.28, 0.24], 270.0, 520.0)],
    ],
    &[
        &[Lines(&[[0.62, 0.08], [0.2, 0.64], [0.84, 0.64]]), Lines(&[[0.62, 0.08], [0.62, 0.92]])],
        &[Lines(&[[0.3, 0.1], [0.24, 0.56], [0.8, 0.56]]), Lines(&[[0.68, 0.12], [0.64, 0.92]])],
    ],
    &[&[Lines(&[[0.76, 0.1], [0.33, 0.1], [0.29, 0.48]]), arc([0.48, 0.66], [0.27, 0.26], 225.0, 510.0)]],
    &[&[arc([0.75, 0.68], [0.5, 0.62], 250.0, 180.0), arc([0.5, 0.68], [0.25, 0.24], 180.0, 540.0)]],
    &[
        &[Lines(&[[0.22, 0.1], [0.8, 0.1], [0.42, 0.92]])],
        &[Lines(&[[0.22, 0.1], [0.8, 0.1], [0.42, 0.92]]), Lines(&[[0.36, 0.5], [0.74, 0.5]])],
    ],
    &[&[arc([0.5, 0.29], [0.21, 0.2], 90.0, 450.0), arc([0.5, 0.7], [0.26, 0.22], -90.0, 270.0)]],
    &[
        &[arc([0.5, 0.32], [0.25, 0.24], 0.0, 360.0), arc([0.25, 0.32], [0.5, 0.62], 0.0, 70.0)],
        &[arc([0.48, 0.32], [0.24, 0.24], 0.0, 360.0), Lines(&[[0.72, 0.3], [0.7, 0.92]])],
    ],
];
