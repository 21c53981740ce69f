//! Lines of text put together from the strokes of single characters, in a random hand.

use super::{Handwritten, Stroke};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::f32::consts::TAU;

/// Largest distance between points before a glyph is bent, as a share of its height.
const CLOSE: f32 = 0.06;

/// The strokes of a character. The line is 1 high and its bottom is `y = 1`; `x` starts at 0.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Glyph {
    pub(crate) strokes: Vec<Stroke>,
    /// Width of the character, without the space to the next one.
    pub(crate) width: f32,
}

impl Glyph {
    /// Moves strokes so that `x` starts at 0, and sets the width to that of the strokes.
    pub(crate) fn fitted(mut strokes: Vec<Stroke>) -> Self {
        let xs = || strokes.iter().flatten().map(|point| point[0]);
        let (left, right) = (xs().fold(f32::MAX, f32::min), xs().fold(f32::MIN, f32::max));
        strokes.iter_mut().flatten().for_each(|point| point[0] -= left);
        Self { strokes, width: (right - left).max(0.0) }
    }
}

/// How far hands differ from each other, and characters within a hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variety {
    /// Largest slant to either side, as `Δx / Δy`.
    pub(crate) slant: f32,
    /// Largest relative change of the size and of the width.
    pub(crate) size: f32,
    /// Largest displacement by a wave.
    pub(crate) bend: f32,
    /// Space between characters: least and most.
    pub(crate) gap: [f32; 2],
}

/// The random properties of one hand.
pub(crate) struct Hand {
    slant: f32,
    size: [f32; 2],
    gap: f32,
    bend: f32,
}

impl Hand {
    /// Draws a hand.
    pub(crate) fn draw(variety: Variety, random: &mut ChaCha8Rng) -> Self {
        let mut around = |most: f32| if most > 0.0 { random.random_range(-most..most) } else { 0.0 };
        let (slant, size) = (around(variety.slant), 1.0 + around(variety.size));
        let wide = size * (1.0 + around(variety.size));
        let [least, most] = variety.gap;
        Self { slant, size: [wide, size], gap: least + (most - least) * random.random::<f32>(), bend: variety.bend }
    }

    /// Writes characters side by side. Each of them is bent a little, differently each time.
    pub(crate) fn write<'a>(
        &self,
        text: &str,
        glyphs: impl IntoIterator<Item = &'a Glyph>,
        random: &mut ChaCha8Rng,
    ) -> Handwritten {
        let (mut strokes, mut left) = (Vec::new(), 0.0);
        for glyph in glyphs {
            let bend = Bend::draw(self.bend, random);
            let shift = [random.random_range(-0.2..0.2) * self.gap, random.random_range(-0.04..0.04f32)];
            for stroke in &glyph.strokes {
                let place = |point: [f32; 2]| {
                    let [x, y] = bend.apply(point);
                    let (x, y) = (left + shift[0] + x * self.size[0], shift[1] + (y - 1.0) * self.size[1]);
                    // A thousandth of the line is finer than any pen, and keeps files small.
                    [x - self.slant * y, y].map(|x| (x * 1000.0).round() / 1000.0)
                };
                strokes.push(dense(stroke).into_iter().map(place).collect());
            }
            left += (glyph.width + self.gap) * self.size[0];
        }
        Handwritten { text: text.to_string(), strokes }
    }
}

/// Two waves that displace points.
struct Bend([[f32; 5]; 2]);

impl Bend {
    fn draw(most: f32, random: &mut ChaCha8Rng) -> Self {
        let mut wave = || {
            let (angle, cycles) = (random.random_range(0.0..TAU), random.random_range(0.3..0.9f32));
            let mut push = || if most > 0.0 { random.random_range(-most..most) } else { 0.0 };
            let displacement = [push(), push()];
            let along = [TAU * cycles * angle.cos(), TAU * cycles * angle.sin()];
            [along[0], along[1], random.random_range(0.0..TAU), displacement[0], displacement[1]]
        };
        Self([wave(), wave()])
    }

    fn apply(&self, [x, y]: [f32; 2]) -> [f32; 2] {
        let mut moved = [x, y];
        for [across, down, phase, dx, dy] in self.0 {
            let bend = (across * x + down * y + phase).sin();
            moved[0] += dx * bend;
            moved[1] += dy * bend;
        }
        moved
    }
}

/// Adds points to a stroke so that it can be bent.
fn dense(stroke: &[[f32; 2]]) -> Stroke {
    let mut points: Stroke = stroke.first().copied().into_iter().collect();
    for ends in stroke.windows(2) {
        let [[ax, ay], [bx, by]] = [ends[0], ends[1]];
        let pieces = ((bx - ax).hypot(by - ay) / CLOSE).ceil().clamp(1.0, 1_000.0);
        let at = |piece: usize| piece as f32 / pieces;
        points.extend((1..=pieces as usize).map(|piece| [ax + at(piece) * (bx - ax), ay + at(piece) * (by - ay)]));
    }
    points
}
