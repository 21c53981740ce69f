//! Strokes drawn with smooth edges.

use super::shapes::Point;

/// A picture that is being drawn: how much of each pixel is covered, from 0 to 1.
pub(super) struct Ink {
    width: usize,
    height: usize,
    covered: Vec<f32>,
}

impl Ink {
    pub(super) fn new(width: usize, height: usize) -> Self {
        Self { width, height, covered: vec![0.0; width * height] }
    }

    /// Coverage `[height, width]`.
    pub(super) fn covered(&self) -> &[f32] {
        &self.covered
    }

    /// Draws a line through points, in pixels, with round ends. A pixel that several strokes touch has the strongest.
    pub(super) fn stroke(&mut self, points: &[Point], radius: f32, strength: f32) {
        for ends in points.windows(2) {
            self.segment(ends[0], ends[1], radius, strength);
        }
    }

    fn segment(&mut self, from: Point, to: Point, radius: f32, strength: f32) {
        let reach = radius + 1.0;
        // Pixels whose middle may be within reach; a cast clips negative numbers to 0.
        let first = |axis: usize| (from[axis].min(to[axis]) - reach) as usize;
        let last = |axis: usize, size: usize| ((from[axis].max(to[axis]) + reach) as usize + 1).min(size);
        for y in first(1)..last(1, self.height) {
            for x in first(0)..last(0, self.width) {
                let distance = distance([x as f32 + 0.5, y as f32 + 0.5], from, to);
                let covered = strength * (radius + 0.5 - distance).clamp(0.0, 1.0);
                let pixel = &mut self.covered[y * self.width + x];
                *pixel = pixel.max(covered);
            }
        }
    }
}

/// Distance of a point from a segment.
fn distance(point: Point, from: Point, to: Point) -> f32 {
    let along = [to[0] - from[0], to[1] - from[1]];
    let offset = [point[0] - from[0], point[1] - from[1]];
    let length = along[0] * along[0] + along[1] * along[1];
    let share =
        if length > 0.0 { ((offset[0] * along[0] + offset[1] * along[1]) / length).clamp(0.0, 1.0) } else { 0.0 };
    (offset[0] - share * along[0]).hypot(offset[1] - share * along[1])
}
