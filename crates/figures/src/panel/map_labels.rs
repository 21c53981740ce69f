//! Labels along the sides of a heat map. Some are left out if there is no room for all.

use crate::canvas::{Anchor, Canvas, LABEL, Rect, Style, Turn};
use crate::panel::plot::NAME;
use crate::text::{Face, shorten, visible, width};

/// The labels shown on one side, shortened if necessary.
#[derive(Debug, Clone)]
pub(crate) struct MapLabels {
    shown: Vec<Label>,
    turn: Turn,
    cell: f64,
    /// Distance that the labels reach out from the map, in pixels.
    pub room: f64,
    /// Distance that the labels reach beyond the corners of the map, in pixels.
    pub overhang: f64,
}

/// Name of a side, such as `query`.
#[derive(Debug, Clone)]
pub(crate) struct SideName {
    pub text: String,
    /// Whether the name fits along its side; otherwise it is on a line of its own.
    pub is_along: bool,
}

#[derive(Debug, Clone)]
struct Label {
    index: usize,
    text: String,
    full: String,
}

/// Distance between two lines of labels, in pixels.
const LINE: f64 = 13.0;
const LONGEST: f64 = 120.0;
const GAP: f64 = 5.0;

/// Room that the name of a side takes, in pixels.
pub(crate) const NAME_ROOM: f64 = 20.0;

impl SideName {
    pub(crate) fn new(name: &str, side: f64) -> Self {
        let is_along = !name.is_empty() && width(name, NAME, Face::Sans) <= side;
        Self { text: shorten(name, NAME, Face::Sans, side.max(260.0)), is_along }
    }

    /// Returns the width of the name if it is on a line of its own, otherwise 0.
    pub(crate) fn across(&self) -> f64 {
        if self.is_along { 0.0 } else { width(&self.text, NAME, Face::Sans) }
    }
}

impl MapLabels {
    /// Lays out labels in a column, one line each.
    pub(crate) fn beside(labels: &[String], count: usize, cell: f64) -> Self {
        Self::stacked(labels, count, cell, Turn::Across)
    }

    /// Lays out labels in a column, or, turned upwards, in a row; both need the same room.
    fn stacked(labels: &[String], count: usize, cell: f64, turn: Turn) -> Self {
        let every = thinning(labels, (LINE / cell).ceil() as usize);
        let shown = chosen(labels, count, every);
        let room = shown.iter().map(|label| width(&label.text, LABEL, Face::Sans)).fold(0.0, f64::max) + GAP;
        Self { shown, turn, cell, room, overhang: ((LINE - cell) / 2.0).max(0.0) }
    }

    /// Lays out labels in a row: horizontally if they are as narrow as their cells, otherwise turned upwards.
    pub(crate) fn below(labels: &[String], count: usize, cell: f64) -> Self {
        let widest = |shown: &[Label]| shown.iter().map(|l| width(&l.text, LABEL, Face::Sans)).fold(0.0, f64::max);
        let mut every = 1;
        if labels.is_empty() {
            // As many numbers may be left out as necessary; names are all kept, and turned if they are too wide.
            let last = width(&count.saturating_sub(1).to_string(), LABEL, Face::Sans) + 8.0;
            every = thinning(labels, (last / cell).ceil() as usize);
        }
        let shown = chosen(labels, count, every);
        let widest = widest(&shown);
        if widest + 6.0 > cell * every as f64 && !labels.is_empty() {
            return Self::stacked(labels, count, cell, Turn::Up);
        }
        let overhang = ((widest - cell) / 2.0).max(0.0);
        Self { shown, turn: Turn::Across, cell, room: LINE + GAP, overhang }
    }

    /// Draws the labels to the left of the map.
    pub(crate) fn draw_rows(&self, canvas: &mut Canvas, map: Rect) {
        for label in &self.shown {
            let at = (map.x - GAP, map.y + (label.index as f64 + 0.5) * self.cell);
            canvas.text(at, &label.text, Style::LABEL.anchor(Anchor::End), Some(&label.full));
        }
    }

    /// Draws the labels below the map.
    pub(crate) fn draw_columns(&self, canvas: &mut Canvas, map: Rect) {
        for label in &self.shown {
            let x = map.x + (label.index as f64 + 0.5) * self.cell;
            let bottom = map.y + map.height;
            let (y, style) = match self.turn {
                Turn::Across => (bottom + GAP + LINE / 2.0, Style::LABEL.anchor(Anchor::Middle)),
                Turn::Up => (bottom + GAP, Style::LABEL.anchor(Anchor::End).turn(Turn::Up)),
            };
            canvas.text((x, y), &label.text, style, Some(&label.full));
        }
    }
}

/// Returns the number of cells per label, at least `least`. Numbers have round steps.
fn thinning(labels: &[String], least: usize) -> usize {
    if labels.is_empty() && least > 1 { crate::axis::even_step(least as f64) as usize } else { least.max(1) }
}

fn chosen(labels: &[String], count: usize, every: usize) -> Vec<Label> {
    let label = |index: usize| {
        let full = if labels.is_empty() {
            index.to_string()
        } else {
            labels.get(index).map_or_else(String::new, |l| visible(l))
        };
        Label { index, text: shorten(&full, LABEL, Face::Sans, LONGEST), full }
    };
    (0..count).step_by(every.max(1)).map(label).collect()
}
