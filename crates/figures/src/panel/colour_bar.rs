//! The colour bar beside a heat map, which shows the value of each colour.

use crate::axis::even_step;
use crate::canvas::{Canvas, Fill, LABEL, Rect, Style};
use crate::colour::{Colour, ColourMap};
use crate::number::number;
use crate::text::{Face, shorten, width};

/// A colour bar with ticks, and below it a hatched swatch if there are absent cells.
#[derive(Debug, Clone)]
pub(crate) struct ColourBar {
    map: ColourMap,
    length: f64,
    ticks: Vec<(f64, String)>,
    absent: Option<(String, String)>,
    pub width: f64,
    pub height: f64,
}

const WIDTH: f64 = 12.0;
/// Distance from the bar to its labels, in pixels.
const GAP: f64 = 5.0;
/// Smallest distance between ticks, in pixels.
const TICK: f64 = 28.0;
const LONGEST_LABEL: f64 = 120.0;

impl ColourBar {
    /// Lays out a bar for the values from `ends.0` to `ends.1`; `absent` is the label of cells without a value, if there are any.
    pub(crate) fn new(map: ColourMap, ends: (f64, f64), length: f64, absent: Option<&str>) -> Self {
        let ticks = ticks(ends, length);
        let absent = absent.map(|name| (shorten(name, LABEL, Face::Sans, LONGEST_LABEL), name.to_string()));
        let labels = ticks.iter().map(|tick| &tick.1).chain(absent.iter().map(|name| &name.0));
        let widest = labels.map(|label| width(label, LABEL, Face::Sans)).fold(0.0, f64::max);
        let height = length + if absent.is_some() { 26.0 } else { 8.0 };
        Self { map, length, ticks, absent, width: WIDTH + GAP + widest + 1.0, height }
    }

    /// Draws the bar with its upper left corner at `(x, y)`.
    pub(crate) fn draw(&self, canvas: &mut Canvas, (x, y): (f64, f64)) {
        let bar = Rect { x, y, width: WIDTH, height: self.length };
        canvas.rect(bar, Fill::Gradient(self.map), None);
        canvas.frame(bar, Colour::RULE);
        for (place, label) in &self.ticks {
            canvas.text((x + WIDTH + GAP, y + (1.0 - place) * self.length), label, Style::LABEL, None);
        }
        if let Some((text, full)) = &self.absent {
            let swatch = Rect { y: y + self.length + 12.0, height: WIDTH, ..bar };
            canvas.rect(swatch, Fill::Hatch, None);
            canvas.frame(swatch, Colour::RULE);
            canvas.text((x + WIDTH + GAP, swatch.y + WIDTH / 2.0), text, Style::LABEL, Some(full));
        }
    }
}

/// Chooses round tick values, with enough digits to tell them apart.
fn ticks((low, high): (f64, f64), length: f64) -> Vec<(f64, String)> {
    let within = |step: f64| ((low / step - 1e-6).ceil(), (high / step + 1e-6).floor());
    let mut step = even_step((high - low) * TICK / length);
    let (mut first, mut last) = within(step);
    if last <= first {
        // A single tick does not show a scale: take the next smaller step.
        step = even_step(step / 2.6);
        (first, last) = within(step);
    }
    let count = ((last - first).max(0.0) as usize).min(40);
    let digits = ((low.abs().max(high.abs()) / step).log10().ceil() as usize + 1).clamp(2, 9);
    let values = (0..=count).map(|index| (first + index as f64) * step);
    values.map(|value| (((value - low) / (high - low)).clamp(0.0, 1.0), number(value, digits))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_differ() {
        for ends in [(0.0, 1.0), (-4.0, 4.0), (1000.0, 1000.001), (-1e-30, 1e-30), (-3.4e38, 3.4e38), (0.1, 0.3)] {
            let labels: Vec<String> = ticks(ends, 100.0).into_iter().map(|tick| tick.1).collect();
            assert!(labels.len() >= 2, "{ends:?} {labels:?}");
            assert!(labels.windows(2).all(|pair| pair[0] != pair[1]), "{ends:?} {labels:?}");
        }
    }
}
