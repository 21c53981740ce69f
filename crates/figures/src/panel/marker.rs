//! Marks of data points. Series differ in shape as well as in colour, for readers who cannot tell the colours apart.

use crate::canvas::Canvas;
use crate::colour::Colour;

/// Draws the mark of the `index`-th series.
pub(crate) fn draw_marker(canvas: &mut Canvas, at: (f64, f64), index: usize, colour: Colour, tooltip: Option<&str>) {
    let (x, y) = at;
    let r = 3.5;
    let around = |points: &[(f64, f64)]| points.iter().map(|(dx, dy)| (x + dx * r, y + dy * r)).collect::<Vec<_>>();
    let corners: &[(f64, f64)] = match index % 4 {
        0 => return canvas.circle(at, r, colour, tooltip),
        1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        2 => &[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
        _ => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
    };
    canvas.polygon(&around(corners), colour, tooltip);
}
