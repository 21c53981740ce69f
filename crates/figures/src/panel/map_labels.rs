//! Labels along the sides of a heat map, thinned out where there is no room for all.

use crate::canvas::{Anchor, Canvas, LABEL, Rect, Style, Turn};
use crate::text::{Face, shorten, visible, width};

/// The labels of one side, chosen and shortened.
#[derive(Debug, Clone)]
pub(crate) struct MapLabels {
    shown: Vec<Label>,
    direction: LabelDirection,
    cell: f64,
    /// How far they reach out from the map.
    pub room: f64,
    /// How far they reach beyond its corners.
    pub overhang: f64,
}

/// What a side is called.
#[derive(Debug, Clone)]
pub(crate) struct SideName {
    pub text: String,
    /// Whether it fits along its side; else it stands in a line of its own.
    pub is_along: bool,
}

#[derive(Debug, Clone)]
struct Label {
    index: usize,
    text: String,
    full: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LabelDirection {
    Across,
    Up,
}

/// Between two lines of labels.
const LINE: f64 = 13.0;
const LONGEST: f64 = 120.0;
const GAP: f64 = 5.0;

/// The size of the names of the sides, and the room they take.
pub(crate) const NAME: f64 = 12.0;
pub(crate) const NAME_ROOM: f64 = 20.0;

impl SideName {
    pub(crate) fn new(name: &str, side: f64) -> Self {
        let is_along = !name.is_empty() && width(name, NAME, Face::Sans) <= side;
        Self { text: shorten(name, NAME, Face::Sans, side.max(260.0)), is_along }
    }

    /// The width it needs in a line of its own.
    pub(crate) fn across(&self) -> f64 {
        if self.is_along { 0.0 } else { width(&self.text, NAME, Face::Sans) }
    }
}

impl MapLabels {
    /// Labels in a column, one line each.
    pub(crate) fn beside(labels: &[String], count: usize, cell: f64) -> Self {
        Self::stacked(labels, count, cell, LabelDirection::Across)
    }

    /// In a row and turned upwards is the same as in a column, on its side.
    fn stacked(labels: &[String], count: usize, cell: f64, direction: LabelDirection) -> Self {
        let every = thinning(labels, (LINE / cell).ceil() as usize);
        let shown = chosen(labels, count, every);
        let room = shown.iter().map(|label| width(&label.text, LABEL, Face::Sans)).fold(0.0, f64::max) + GAP;
        Self { shown, direction, cell, room, overhang: ((LINE - cell) / 2.0).max(0.0) }
    }

    /// Labels in a row: across where they are as narrow as their cells, else turned upwards.
    pub(crate) fn below(labels: &[String], count: usize, cell: f64) -> Self {
        let widest = |shown: &[Label]| shown.iter().map(|l| width(&l.text, LABEL, Face::Sans)).fold(0.0, f64::max);
        let mut every = 1;
        if labels.is_empty() {
            // Numbers may be thinned out as much as it takes; names may not, to be read across.
            let last = width(&count.saturating_sub(1).to_string(), LABEL, Face::Sans) + 8.0;
            every = thinning(labels, (last / cell).ceil() as usize);
        }
        let shown = chosen(labels, count, every);
        let widest = widest(&shown);
        if widest + 6.0 > cell * every as f64 && !labels.is_empty() {
            return Self::stacked(labels, count, cell, LabelDirection::Up);
        }
        let overhang = ((widest - cell) / 2.0).max(0.0);
        Self { shown, direction: LabelDirection::Across, cell, room: LINE + GAP, overhang }
    }

    /// Draws them to the left of the map.
    pub(crate) fn draw_rows(&self, canvas: &mut Canvas, map: Rect) {
        for label in &self.shown {
            let at = (map.x - GAP, map.y + (label.index as f64 + 0.5) * self.cell);
            canvas.text(at, &label.text, Style::LABEL.anchor(Anchor::End), Some(&label.full));
        }
    }

    /// Draws them below the map.
    pub(crate) fn draw_columns(&self, canvas: &mut Canvas, map: Rect) {
        for label in &self.shown {
            let x = map.x + (label.index as f64 + 0.5) * self.cell;
            let bottom = map.y + map.height;
            let (y, style) = match self.direction {
                LabelDirection::Across => (bottom + GAP + LINE / 2.0, Style::LABEL.anchor(Anchor::Middle)),
                LabelDirection::Up => (bottom + GAP, Style::LABEL.anchor(Anchor::End).turn(Turn::Up)),
            };
            canvas.text((x, y), &label.text, style, Some(&label.full));
        }
    }
}

/// Every how many cells a label stands. Numbers go by round steps.
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
