//! Pictures of digits. The shapes are our own lines and arcs; each picture bends, turns, shifts and thickens one of them, adds
//! short stray strokes and noise. A digit may be anywhere near the middle, so a network without convolutions or attention has
//! to learn each place by itself.

mod ink;
pub(super) mod shapes;

use super::Sizes;
use crate::hash::Fnv;
use crate::{Image, ImageSize, LabelledImage, Split, Splits};
use ink::Ink;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use shapes::{Point, SHAPES};
use std::f32::consts::TAU;

/// Number of pictures in each part of the built-in digits.
pub const DIGITS: Sizes = Sizes { train: 4_000, dev: 500, test: 1_000 };

/// Height and width of a picture.
const SIDE: usize = 28;
/// Number of waves that bend a shape.
const WAVES: usize = 3;

/// Draws pictures of digits, 28 × 28 in grey, white on black.
///
/// ```
/// use regard_data::builtin::{Sizes, digits};
/// let parts = digits(Sizes { train: 10, dev: 2, test: 2 }, 1);
/// assert_eq!(parts.train[0].image.pixels.len(), 28 * 28);
/// ```
pub fn digits(sizes: Sizes, seed: u64) -> Splits<LabelledImage> {
    let part = |split: Split, count: usize| (0..count).map(|index| digit(split, index, seed)).collect();
    Splits::new(part(Split::Train, sizes.train), part(Split::Dev, sizes.dev), part(Split::Test, sizes.test))
}

/// Draws picture `index` of a part of [`digits`], which does not depend on their number.
pub fn digit(split: Split, index: usize, seed: u64) -> LabelledImage {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(((split as u64) << 32) + index as u64);
    let digit = random.random_range(0..SHAPES.len());
    let size = ImageSize { channels: 1, height: SIDE, width: SIDE };
    let image = Image { size, pixels: picture(digit, &mut random) };
    let (hash, name) = (image.hash(), format!("built-in {split} digit {index}"));
    LabelledImage { image, label: Some(digit.to_string()), name, hash }
}

/// A hash of the built-in digits. It changes if a version of this crate draws others.
pub fn digits_fingerprint() -> String {
    let mut state = Fnv::default();
    for example in digits(Sizes { train: 200, dev: 1, test: 1 }, 1).train {
        state.write(&example.image.pixels);
    }
    format!("{:016x}", state.0)
}

/// Draws one digit.
fn picture(digit: usize, random: &mut ChaCha8Rng) -> Vec<u8> {
    let variants = SHAPES[digit];
    let strokes = variants[random.random_range(0..variants.len())];
    let map = Deformation::draw(random);
    let mut ink = Ink::new(SIDE, SIDE);
    let radius = random.random_range(0.7..1.7);
    for stroke in strokes {
        let line: Vec<Point> = stroke.points().into_iter().map(|point| map.apply(point)).collect();
        ink.stroke(&line, radius, 1.0);
    }
    for _ in 0..random.random_range(0..4) {
        let mut place = || random.random_range(0.0..SIDE as f32);
        let start = [place(), place()];
        let (angle, length) = (random.random_range(0.0..TAU), random.random_range(2.0..7.0));
        let end = [start[0] + length * angle.cos(), start[1] + length * angle.sin()];
        ink.stroke(&[start, end], random.random_range(0.4..1.1), random.random_range(0.3..0.9));
    }
    let (brightness, noise) = (random.random_range(0.6..1.0), random.random_range(0.0..0.12));
    let mut pixel = |covered: f32| {
        // The sum of three uniform numbers is nearly normal, with deviation 1.
        let normal: f32 = (0..3).map(|_| random.random_range(-1.0..1.0f32)).sum();
        ((covered * brightness + noise * normal).clamp(0.0, 1.0) * 255.0).round() as u8
    };
    ink.covered().iter().map(|&covered| pixel(covered)).collect()
}

/// A random map from the unit square of the shapes to pixels: waves that bend, then an affine map.
struct Deformation {
    matrix: [[f32; 2]; 2],
    shift: Point,
    waves: [Wave; WAVES],
}

/// A displacement that changes like a sine along one direction.
struct Wave {
    direction: Point,
    phase: f32,
    displacement: Point,
}

impl Deformation {
    fn draw(random: &mut ChaCha8Rng) -> Self {
        let mut between = |from: f32, to: f32| random.random_range(from..to);
        let waves = std::array::from_fn(|_| {
            let (angle, cycles) = (between(0.0, TAU), between(0.4, 1.1));
            Wave {
                direction: [TAU * cycles * angle.cos(), TAU * cycles * angle.sin()],
                phase: between(0.0, TAU),
                displacement: [between(-0.05, 0.05), between(-0.05, 0.05)],
            }
        });
        let (angle, shear) = (between(-0.4, 0.4), between(-0.3, 0.3));
        let (wide, high) = (between(14.0, 22.0), between(16.0, 22.0));
        let (sine, cosine) = angle.sin_cos();
        let matrix = [[wide * cosine, high * (shear * cosine - sine)], [wide * sine, high * (shear * sine + cosine)]];
        let middle = SIDE as f32 / 2.0;
        Self { matrix, shift: [middle + between(-4.0, 4.0), middle + between(-4.0, 4.0)], waves }
    }

    fn apply(&self, point: Point) -> Point {
        let mut bent = [point[0] - 0.5, point[1] - 0.5];
        for wave in &self.waves {
            let bend = (wave.direction[0] * point[0] + wave.direction[1] * point[1] + wave.phase).sin();
            bent[0] += wave.displacement[0] * bend;
            bent[1] += wave.displacement[1] * bend;
        }
        let [[a, b], [c, d]] = self.matrix;
        [a * bent[0] + b * bent[1] + self.shift[0], c * bent[0] + d * bent[1] + self.shift[1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn digits_depend_on_the_seed_alone() {
        let few = digits(Sizes { train: 5, dev: 3, test: 1 }, 7);
        let more = digits(Sizes { train: 50, dev: 3, test: 9 }, 7);
        assert_eq!((&few.train[..], &few.dev, &few.test[0]), (&more.train[..5], &more.dev, &more.test[0]));
        assert_ne!(few.train, digits(Sizes { train: 5, dev: 3, test: 1 }, 8).train);
        assert_ne!(few.train[0].image, few.dev[0].image);
    }

    #[test]
    fn all_digits_are_drawn_within_the_picture() {
        let parts = digits(Sizes { train: 1_000, dev: 0, test: 0 }, 1);
        let labels: BTreeSet<_> = parts.train.iter().map(|example| example.label.clone()).collect();
        assert_eq!(labels.len(), 10);
        for example in &parts.train {
            let bright = example.image.pixels.iter().filter(|&&pixel| pixel > 100).count();
            assert!((15..400).contains(&bright), "{}: {bright} bright pixels", example.name);
        }
        let distinct: BTreeSet<_> = parts.train.iter().map(|example| example.image.hash()).collect();
        assert_eq!(distinct.len(), 1_000);
    }

    #[test]
    fn published_digits_do_not_change() {
        assert_eq!(digits_fingerprint(), "afe16dd51713c22b");
    }
}
