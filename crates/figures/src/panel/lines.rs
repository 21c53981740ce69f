//! Curves and points over two axes.

use crate::axis::{Axis, Ruler};
use crate::canvas::{Canvas, LABEL, Pattern, Rect, Stroke, Style};
use crate::colour::{Colour, palette};
use crate::layout::Size;
use crate::number::number;
use crate::panel::error_bar::{deviation_text, draw_error_bar};
use crate::panel::marker::draw_marker;
use crate::panel::plot::{Legend, MARK, draw_frame, inside};

/// Named series of points over two axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Series in the order they are drawn.
    pub series: Vec<Series>,
}

/// A series of points. A point that is not finite is left out and breaks the line.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name in the legend; no entry if empty.
    pub name: String,
    /// Points `(x, y)` in the order they are joined.
    pub points: Vec<(f64, f64)>,
    /// Whether the points are drawn as a line, as marks or as both.
    pub style: LineStyle,
    /// Deviation of each `y`, drawn as an error bar to both sides; no error bar if missing or not positive.
    pub deviations: Vec<f64>,
    /// Index of the colour in the palette; the index of the series if `None`.
    pub colour: Option<usize>,
}

/// How the points of a series are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineStyle {
    /// A line through the points.
    Solid,
    /// A dashed line, for a fit, a bound or a prediction.
    Dashed,
    /// Marks without a line.
    Markers,
    /// A line with marks.
    MarkedLine,
}

const SIZE: Size = Size { width: 470.0, height: 310.0 };
/// A series with more points is drawn by the extremes of neighbouring points, which looks the same.
const MOST_POINTS: usize = 4_000;

impl Lines {
    /// Creates a plot without series.
    pub fn new(x: Axis, y: Axis) -> Self {
        Self { x, y, series: Vec::new() }
    }

    /// Adds a series.
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    pub(crate) fn size(&self) -> Size {
        let legend = Legend::new(self.series.iter().map(|s| s.name.as_str()), SIZE.width);
        Size { width: SIZE.width, height: SIZE.height + legend.height }
    }

    pub(crate) fn draw(&self, canvas: &mut Canvas, area: Rect) {
        let legend = Legend::new(self.series.iter().map(|s| s.name.as_str()), area.width);
        for (index, text, x, y) in &legend.entries {
            let at = (area.x + x, area.y + y + 8.0);
            let series = &self.series[*index];
            let stroke = self.stroke(*index);
            if series.style != LineStyle::Markers {
                canvas.line(at, (at.0 + MARK - 6.0, at.1), stroke, None);
            }
            if matches!(series.style, LineStyle::Markers | LineStyle::MarkedLine) {
                draw_marker(canvas, (at.0 + (MARK - 6.0) / 2.0, at.1), *index, stroke.colour, None);
            }
            canvas.text((at.0 + MARK, at.1), text, Style::LABEL, Some(&series.name));
        }

        let area = Rect { y: area.y + legend.height, height: area.height - legend.height, ..area };
        // Only points that both axes can show affect the ranges.
        let all = || self.series.iter().flat_map(|s| s.points.iter().copied()).filter(|p| self.is_drawable(*p));
        let x = Ruler::new(&self.x, all().map(|p| p.0), 6);
        let bars = self.series.iter().flat_map(Series::bars).filter(|(point, _)| self.is_drawable(*point));
        let y = Ruler::new(&self.y, all().map(|p| p.1).chain(bars.flat_map(|(p, d)| [p.1 - d, p.1 + d])), 7);
        let plot = inside(area, (&self.x, &x), (&self.y, &y));
        draw_frame(canvas, area, plot, (&self.x, &x), (&self.y, &y));
        if all().next().is_none() {
            let style = Style::LABEL.colour(Colour::QUIET).size(LABEL + 1.0);
            canvas.text((plot.x + 12.0, plot.y + 16.0), "no points", style, None);
        }
        for index in 0..self.series.len() {
            self.draw_series(canvas, index, plot, &x, &y);
        }
    }

    fn draw_series(&self, canvas: &mut Canvas, index: usize, plot: Rect, x: &Ruler, y: &Ruler) {
        let series = &self.series[index];
        let stroke = self.stroke(index);
        let place = |point: (f64, f64)| {
            let (across, up) = (x.place(point.0)?, y.place(point.1)?);
            Some((plot.x + across * plot.width, plot.y + (1.0 - up) * plot.height))
        };
        for (point, deviation) in series.bars() {
            let Some((at, _)) = place(point) else { continue };
            let up = |value| y.place(value).map_or(plot.y + plot.height, |up| plot.y + (1.0 - up) * plot.height);
            let (low, high) = (up(point.1 - deviation), up(point.1 + deviation));
            draw_error_bar(canvas, (at, low), (at, high), stroke.colour, &deviation_text(point.1, deviation));
        }
        let points = thinned(&series.points);
        if series.style != LineStyle::Markers {
            let mut run = Vec::new();
            for spot in points.iter().map(|p| place(*p)).chain([None]) {
                match spot {
                    Some(spot) => run.push(spot),
                    None => draw_run(canvas, &std::mem::take(&mut run), stroke),
                }
            }
        }
        if matches!(series.style, LineStyle::Markers | LineStyle::MarkedLine) {
            for (point, spot) in points.iter().filter_map(|p| Some((p, place(*p)?))) {
                let tooltip = format!("{} ({}, {})", series.name, number(point.0, 5), number(point.1, 5));
                draw_marker(canvas, spot, index, stroke.colour, Some(tooltip.trim_start()));
            }
        }
    }

    fn stroke(&self, index: usize) -> Stroke {
        let series = &self.series[index];
        let pattern = if series.style == LineStyle::Dashed { Pattern::Dashed } else { Pattern::Solid };
        Stroke { pattern, ..Stroke::new(palette(series.colour.unwrap_or(index)), 1.75) }
    }

    fn is_drawable(&self, point: (f64, f64)) -> bool {
        self.x.has_place(point.0) && self.y.has_place(point.1)
    }
}

impl Series {
    /// Creates a series drawn as a solid line.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points = points.into_iter().collect();
        Self { name: name.into(), points, style: LineStyle::Solid, deviations: Vec::new(), colour: None }
    }

    /// Sets the style.
    pub fn style(mut self, style: LineStyle) -> Self {
        self.style = style;
        self
    }

    /// Adds error bars: one deviation per point.
    pub fn deviations(mut self, deviations: impl IntoIterator<Item = f64>) -> Self {
        self.deviations = deviations.into_iter().collect();
        self
    }

    /// Returns the points that have a deviation, each with its deviation.
    fn bars(&self) -> impl Iterator<Item = ((f64, f64), f64)> {
        self.points.iter().copied().zip(self.deviations.iter().copied()).filter(|(_, d)| d.is_finite() && *d > 0.0)
    }

    /// Sets the colour to the `index`-th of the palette, for example to give a fit the colour of its data.
    pub fn colour(mut self, index: usize) -> Self {
        self.colour = Some(index);
        self
    }
}

/// Draws a run of points without gaps as a line. A single point becomes a dot, because a line of one point is invisible.
fn draw_run(canvas: &mut Canvas, run: &[(f64, f64)], stroke: Stroke) {
    match run {
        [] => {}
        [only] => canvas.circle(*only, 2.0, stroke.colour, None),
        _ => canvas.polyline(run, stroke),
    }
}

/// Reduces long series to the lowest and the highest point of each run of neighbours, so that no peak is lost.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= MOST_POINTS {
        return points.to_vec();
    }
    let run = points.len().div_ceil(MOST_POINTS / 2);
    let extremes = points.chunks(run).flat_map(|chunk| {
        let by_height = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let finite = || chunk.iter().enumerate().filter(|(_, p)| p.1.is_finite());
        let least = finite().min_by(|a, b| by_height(&a.1, &b.1)).map_or(0, |(index, _)| index);
        let most = finite().max_by(|a, b| by_height(&a.1, &b.1)).map_or(0, |(index, _)| index);
        [chunk[least.min(most)], chunk[least.max(most)]]
    });
    extremes.collect()
}
