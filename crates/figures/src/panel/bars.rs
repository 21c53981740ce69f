//! Named quantities as horizontal bars, which leave room for long names.

use crate::axis::{Axis, Ruler};
use crate::canvas::{Anchor, Canvas, Fill, LABEL, Rect, Stroke, Style};
use crate::colour::{Colour, palette};
use crate::error::FigureError;
use crate::layout::Size;
use crate::number::number;
use crate::panel::error_bar::{deviation_text, draw_error_bar};
use crate::panel::plot::{Legend, MARK, draw_x_name, draw_x_ticks, name_room};
use crate::panel::{EMPTY, draw_empty, strings};
use crate::text::{Face, shorten, visible, width};

/// Groups of bars. Each group has one bar per series.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    axis: Axis,
    groups: Vec<String>,
    series: Vec<BarSeries>,
}

/// A series with one bar per group. A value that is not finite has no bar, but its text is printed.
#[derive(Debug, Clone, PartialEq)]
struct BarSeries {
    /// Name in the legend; no entry if empty.
    name: String,
    /// Value of each group; missing values are left out.
    values: Vec<f64>,
    /// Deviation of each value, drawn as an error bar to both sides; no error bar if missing or not positive.
    deviations: Vec<f64>,
}

impl BarSeries {
    /// Returns the deviation of a group, or 0 if it has none.
    fn deviation(&self, group: usize) -> f64 {
        self.deviations.get(group).copied().filter(|d| d.is_finite() && *d > 0.0).unwrap_or(0.0)
    }

    fn text(&self, group: usize) -> Option<String> {
        Some(deviation_text(*self.values.get(group)?, self.deviation(group)))
    }
}

const MOST_BARS: usize = 2_000;
const BAR: f64 = 15.0;
const GROUP_GAP: f64 = 8.0;
const LONGEST_LABEL: f64 = 220.0;
const PLOT: f64 = 300.0;

impl Bars {
    /// Creates groups without bars. The axis names the values.
    pub fn new<S: Into<String>>(axis: Axis, groups: impl IntoIterator<Item = S>) -> Self {
        Self { axis, groups: strings(groups), series: Vec::new() }
    }

    /// Adds a series: one bar to each group.
    pub fn series(self, name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Result<Self, FigureError> {
        let values = values.into_iter().collect();
        self.push(BarSeries { name: name.into(), values, deviations: Vec::new() })
    }

    /// Adds a series with error bars from `(mean, deviation)` pairs: one bar to each group.
    pub fn series_with_deviations(
        self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = (f64, f64)>,
    ) -> Result<Self, FigureError> {
        let (values, deviations) = values.into_iter().unzip();
        self.push(BarSeries { name: name.into(), values, deviations })
    }

    fn push(mut self, series: BarSeries) -> Result<Self, FigureError> {
        self.series.push(series);
        let bars = self.series.len() * self.groups.len();
        if bars > MOST_BARS {
            return Err(FigureError::TooLarge { what: "bars", limit: MOST_BARS, got: bars });
        }
        Ok(self)
    }

    pub(crate) fn size(&self) -> Size {
        if self.groups.is_empty() || self.series.is_empty() {
            return EMPTY;
        }
        let width = self.label_width() + PLOT + self.value_width();
        let height = self.legend(width).height + self.bars_height() + 26.0 + name_room(&self.axis);
        Size { width, height }
    }

    pub(crate) fn draw(&self, canvas: &mut Canvas, area: Rect) {
        if self.groups.is_empty() || self.series.is_empty() {
            return draw_empty(canvas, area, "no bars");
        }
        let legend = self.legend(area.width);
        for (index, text, x, y) in &legend.entries {
            let swatch = Rect { x: area.x + x + 4.0, y: area.y + y + 2.0, width: 12.0, height: 12.0 };
            canvas.rect(swatch, Fill::Plain(palette(*index)), None);
            canvas.text((area.x + x + MARK, area.y + y + 8.0), text, Style::LABEL, Some(&self.series[*index].name));
        }
        let plot = Rect {
            x: (area.x + self.label_width()).round(),
            y: (area.y + legend.height).round(),
            width: (area.width - self.label_width() - self.value_width()).floor(),
            height: self.bars_height(),
        };
        // A bar starts at zero, or at the left end of a logarithmic axis.
        let axis = Axis { including: [self.axis.including.as_slice(), &[0.0]].concat(), ..self.axis.clone() };
        let values = self.series.iter().flat_map(|s| {
            let ends = |(group, &value): (usize, &f64)| [value - s.deviation(group), value + s.deviation(group)];
            s.values.iter().take(self.groups.len()).enumerate().flat_map(ends)
        });
        let ruler = Ruler::new(&axis, values, 5);
        draw_x_ticks(canvas, plot, &ruler);
        let start = plot.x + ruler.place(0.0).unwrap_or(0.0) * plot.width;
        for (group, name) in self.groups.iter().enumerate() {
            let top = plot.y + GROUP_GAP / 2.0 + group as f64 * self.group_height();
            let middle = top + (self.group_height() - GROUP_GAP) / 2.0;
            let full = visible(name);
            let text = shorten(&full, LABEL, Face::Sans, LONGEST_LABEL);
            canvas.text((plot.x - 6.0, middle), &text, Style::LABEL.anchor(Anchor::End), Some(&full));
            for (index, series) in self.series.iter().enumerate() {
                let Some(&value) = series.values.get(group) else { continue };
                let end = ruler.place(value).map_or(start, |place| plot.x + place * plot.width);
                let y = top + index as f64 * BAR;
                let at = Rect { x: start.min(end), y: y + 1.0, width: (end - start).abs(), height: BAR - 2.0 };
                let text = series.text(group).unwrap_or_default();
                let tooltip = format!("{full} {}: {}", series.name, number(value, 6));
                canvas.rect(at, Fill::Plain(palette(index)), Some(&tooltip));
                let mut free = start.max(end);
                let deviation = series.deviation(group);
                if deviation > 0.0 && value.is_finite() {
                    let place = |v| ruler.place(v).map_or(start, |place| plot.x + place * plot.width);
                    let (low, high, middle) = (place(value - deviation), place(value + deviation), y + BAR / 2.0);
                    draw_error_bar(canvas, (low, middle), (high, middle), Colour::INK, &text);
                    free = free.max(high);
                }
                let style = Style::LABEL.colour(Colour::QUIET);
                canvas.text((free + 4.0, y + BAR / 2.0), &text, style, None);
            }
        }
        canvas.line((start, plot.y), (start, plot.y + plot.height), Stroke::new(Colour::RULE, 1.0), None);
        draw_x_name(canvas, area, plot, &self.axis);
    }

    fn legend(&self, room: f64) -> Legend {
        Legend::new(self.series.iter().map(|s| s.name.as_str()), room)
    }

    fn label_width(&self) -> f64 {
        let widest = self.groups.iter().map(|g| width(&visible(g), LABEL, Face::Sans)).fold(0.0, f64::max);
        widest.min(LONGEST_LABEL) + 8.0
    }

    /// Returns the room right of the plot for the text of the longest bar.
    fn value_width(&self) -> f64 {
        let texts = self.series.iter().flat_map(|s| (0..s.values.len()).filter_map(|group| s.text(group)));
        texts.map(|text| width(&text, LABEL, Face::Sans)).fold(12.0, f64::max) + 6.0
    }

    fn group_height(&self) -> f64 {
        self.series.len() as f64 * BAR + GROUP_GAP
    }

    fn bars_height(&self) -> f64 {
        self.groups.len() as f64 * self.group_height()
    }
}
