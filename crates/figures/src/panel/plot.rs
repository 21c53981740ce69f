//! The frame of a plot (grid, ticks and axis names), and legends.

use crate::axis::{Axis, Ruler};
use crate::canvas::{Anchor, Canvas, LABEL, Rect, Stroke, Style, Turn};
use crate::colour::Colour;
use crate::text::{Face, shorten, width};

/// Font size of axis names, in pixels.
pub(crate) const NAME: f64 = 12.0;

/// Returns the inside of a plot: the area without the room for tick labels and axis names.
pub(crate) fn inside(area: Rect, x: (&Axis, &Ruler), y: (&Axis, &Ruler)) -> Rect {
    let y_labels = y.1.ticks.iter().map(|t| width(&t.label, LABEL, Face::Sans)).fold(0.0, f64::max);
    let first = x.1.ticks.first().map_or(0.0, |t| width(&t.label, LABEL, Face::Sans) / 2.0);
    let last = x.1.ticks.last().map_or(0.0, |t| width(&t.label, LABEL, Face::Sans) / 2.0);
    let left = (name_room(y.0) + y_labels + 8.0).max(first);
    let right = last.max(8.0);
    let (top, bottom) = (8.0, 22.0 + name_room(x.0));
    Rect {
        x: (area.x + left).round(),
        y: (area.y + top).round(),
        width: (area.width - left - right).floor().max(40.0),
        height: (area.height - top - bottom).floor().max(40.0),
    }
}

/// Draws grid, tick labels and names around the inside of a plot.
pub(crate) fn draw_frame(canvas: &mut Canvas, area: Rect, plot: Rect, x: (&Axis, &Ruler), y: (&Axis, &Ruler)) {
    let bottom = plot.y + plot.height;
    for tick in &y.1.ticks {
        let at = bottom - tick.place * plot.height;
        canvas.line((plot.x, at), (plot.x + plot.width, at), Stroke::new(Colour::GRID, 1.0), None);
        canvas.text((plot.x - 6.0, at), &tick.label, Style::LABEL.anchor(Anchor::End), None);
    }
    draw_x_ticks(canvas, plot, x.1);
    canvas.frame(plot, Colour::RULE);
    draw_x_name(canvas, area, plot, x.0);
    let name = shorten(&y.0.name, NAME, Face::Sans, area.height);
    // Centre the name on the plot if it fits there, otherwise on the area.
    let middle = if width(&name, NAME, Face::Sans) <= plot.height {
        plot.y + plot.height / 2.0
    } else {
        area.y + area.height / 2.0
    };
    let style = Style::LABEL.size(NAME).anchor(Anchor::Middle).turn(Turn::Up);
    canvas.text((area.x + 8.0, middle), &name, style, Some(&y.0.name));
}

/// Draws vertical grid lines with their labels below.
pub(crate) fn draw_x_ticks(canvas: &mut Canvas, plot: Rect, ruler: &Ruler) {
    let bottom = plot.y + plot.height;
    let mut free_from = f64::NEG_INFINITY;
    for tick in &ruler.ticks {
        let at = plot.x + tick.place * plot.width;
        canvas.line((at, plot.y), (at, bottom), Stroke::new(Colour::GRID, 1.0), None);
        let half = width(&tick.label, LABEL, Face::Sans) / 2.0;
        // Ticks of a logarithmic axis can be too close: then only the grid line is drawn.
        if at - half >= free_from {
            canvas.text((at, bottom + 12.0), &tick.label, Style::LABEL.anchor(Anchor::Middle), None);
            free_from = at + half + 6.0;
        }
    }
}

/// Draws the name of the x axis below the tick labels.
pub(crate) fn draw_x_name(canvas: &mut Canvas, area: Rect, plot: Rect, axis: &Axis) {
    let name = shorten(&axis.name, NAME, Face::Sans, area.width);
    let fits = width(&name, NAME, Face::Sans) <= plot.width;
    let middle = if fits { plot.x + plot.width / 2.0 } else { area.x + area.width / 2.0 };
    let style = Style::LABEL.size(NAME).anchor(Anchor::Middle);
    canvas.text((middle, plot.y + plot.height + 31.0), &name, style, Some(&axis.name));
}

pub(crate) fn name_room(axis: &Axis) -> f64 {
    if axis.name.is_empty() { 0.0 } else { 20.0 }
}

/// Layout of a legend: names and room for their marks, wrapped into lines.
#[derive(Debug)]
pub(crate) struct Legend {
    /// Index of the series, its text, and the x and y of the entry within the legend.
    pub entries: Vec<(usize, String, f64, f64)>,
    pub height: f64,
}

/// Room for the mark before a name, in pixels.
pub(crate) const MARK: f64 = 24.0;

impl Legend {
    /// Lays out the names that are not empty.
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str>, room: f64) -> Self {
        let mut entries = Vec::new();
        let (mut x, mut y) = (0.0, 0.0);
        for (index, name) in names.enumerate().filter(|(_, name)| !name.is_empty()) {
            let text = shorten(name, LABEL, Face::Sans, room - MARK);
            let wide = MARK + width(&text, LABEL, Face::Sans);
            if x > 0.0 && x + wide > room {
                (x, y) = (0.0, y + 16.0);
            }
            entries.push((index, text, x, y));
            x += wide + 16.0;
        }
        let height = if entries.is_empty() { 0.0 } else { y + 22.0 };
        Self { entries, height }
    }
}
