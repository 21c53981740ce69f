//! A matrix as coloured cells, with a colour bar.

use crate::canvas::{Anchor, Canvas, Fill, LABEL, Rect, Style, Turn};
use crate::colour::{Colour, ColourScale, ValueRange};
use crate::error::FigureError;
use crate::layout::Size;
use crate::number::{fixed, number};
use crate::panel::colour_bar::ColourBar;
use crate::panel::map_labels::{MapLabels, NAME_ROOM, SideName};
use crate::panel::plot::NAME;
use crate::panel::{Detail, EMPTY, draw_empty, strings};
use crate::raster::cell_image;
use crate::text::{Face, shorten, visible, width};

/// A matrix of cells coloured by their value. Cells with NaN or −∞ (the score of a masked pair) are absent and hatched; +∞ has
/// the last colour.
#[derive(Debug, Clone, PartialEq)]
pub struct Heatmap {
    rows: usize,
    columns: usize,
    values: Vec<f32>,
    row_labels: Vec<String>,
    column_labels: Vec<String>,
    row_name: String,
    column_name: String,
    scale: ColourScale,
    numbers: CellNumbers,
    cell_texts: Vec<String>,
    absent: String,
    side: f64,
    scale_bar: ScaleBar,
}

/// Whether values are printed in the cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellNumbers {
    /// Cells only have a colour.
    Hidden,
    /// Values are printed in the cells of maps with at most 16 columns and 40 rows.
    WhereTheyFit,
}

/// Whether a colour bar beside the map shows the value of each colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScaleBar {
    /// The map has a colour bar.
    Shown,
    /// The map has no colour bar, as for one of many maps with the same scale.
    Hidden,
}

/// Largest number of cells, a square of 2,000 × 2,000. Cells of larger maps would be too small to see.
const MOST_CELLS: usize = 4_000_000;
const LONGEST_SIDE: usize = 4_096;
const LARGEST_CELL: f64 = 34.0;
const BAR_GAP: f64 = 16.0;
const LONGEST_CELL_TEXT: f64 = 80.0;

impl Heatmap {
    /// Creates a map of `rows × columns` values, given row by row.
    pub fn new(rows: usize, columns: usize, values: Vec<f32>) -> Result<Self, FigureError> {
        if rows.checked_mul(columns) != Some(values.len()) {
            return Err(FigureError::Shape { what: "heat map", rows, columns, got: values.len() });
        }
        if values.len() > MOST_CELLS {
            let what = "cells of a heat map";
            return Err(FigureError::TooLarge { what, limit: MOST_CELLS, got: values.len() });
        }
        if rows.max(columns) > LONGEST_SIDE {
            let what = "rows or columns of a heat map";
            return Err(FigureError::TooLarge { what, limit: LONGEST_SIDE, got: rows.max(columns) });
        }
        Ok(Self {
            rows,
            columns,
            values,
            row_labels: Vec::new(),
            column_labels: Vec::new(),
            row_name: String::new(),
            column_name: String::new(),
            scale: ColourScale::sequential(ValueRange::FromZero),
            numbers: CellNumbers::Hidden,
            cell_texts: Vec::new(),
            absent: "no value".to_string(),
            side: 640.0,
            scale_bar: ScaleBar::Shown,
        })
    }

    /// Sets the names of the rows from top to bottom. Without names, rows are numbered from 0.
    pub fn row_labels<S: Into<String>>(mut self, labels: impl IntoIterator<Item = S>) -> Self {
        self.row_labels = strings(labels);
        self
    }

    /// Sets the names of the columns from left to right. Without names, columns are numbered from 0.
    pub fn column_labels<S: Into<String>>(mut self, labels: impl IntoIterator<Item = S>) -> Self {
        self.column_labels = strings(labels);
        self
    }

    /// Sets the names of the two sides, such as `query` for the rows and `key` for the columns.
    pub fn axes(mut self, rows: impl Into<String>, columns: impl Into<String>) -> Self {
        self.row_name = rows.into();
        self.column_name = columns.into();
        self
    }

    /// Sets the colour scale; white to blue from zero by default.
    pub fn scale(mut self, scale: ColourScale) -> Self {
        self.scale = scale;
        self
    }

    /// Sets whether values are printed in the cells; hidden by default.
    pub fn numbers(mut self, numbers: CellNumbers) -> Self {
        self.numbers = numbers;
        self
    }

    /// Sets texts that are printed in place of the values, row by row, in maps with at most 40 rows and columns.
    pub fn cell_texts<S: Into<String>>(mut self, texts: impl IntoIterator<Item = S>) -> Self {
        self.cell_texts = strings(texts);
        self.numbers = CellNumbers::WhereTheyFit;
        self
    }

    /// Sets whether the map has a colour bar; shown by default.
    pub fn scale_bar(mut self, bar: ScaleBar) -> Self {
        self.scale_bar = bar;
        self
    }

    /// Sets the label of absent cells, such as `masked`.
    pub fn absent(mut self, name: impl Into<String>) -> Self {
        self.absent = name.into();
        self
    }

    /// Sets the length of the longer side in pixels: 640 by default, about 240 for one of many. A cell has at least one pixel.
    pub fn side(mut self, pixels: u32) -> Self {
        self.side = f64::from(pixels.clamp(40, 4_096));
        self
    }

    pub(crate) fn cells(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn size(&self) -> Size {
        if self.values.is_empty() {
            return EMPTY;
        }
        self.plan().size
    }

    pub(crate) fn draw(&self, canvas: &mut Canvas, area: Rect, detail: Detail) {
        if self.values.is_empty() {
            return draw_empty(canvas, area, "no cells");
        }
        let plan = self.plan();
        let map = Rect { x: area.x + plan.left, y: area.y + plan.top, ..plan.map };
        canvas.begin_crisp();
        match detail {
            Detail::Images => self.draw_image(canvas, map, &plan),
            _ => self.draw_cells(canvas, map, &plan, detail),
        }
        canvas.end_crisp();
        self.draw_numbers(canvas, map, &plan);
        canvas.frame(map, Colour::RULE);
        plan.beside.draw_rows(canvas, map);
        plan.below.draw_columns(canvas, map);
        self.draw_names(canvas, area, map, &plan);
        if self.scale_bar == ScaleBar::Shown {
            plan.bar.draw(canvas, (map.x + plan.bar_x, map.y));
        }
    }

    fn plan(&self) -> Plan {
        let ends = self.scale.ends(&self.values);
        let number_width = self.number_width();
        let cell = |count: usize| (self.side / count as f64).floor().clamp(1.0, LARGEST_CELL.max(80.0 / count as f64));
        // Cells need not be square: in a long thin map they may be up to three times as large across the map as along it.
        let (wide, high) = (cell(self.columns), cell(self.rows));
        let cell_width = wide.min(3.0 * high).max(number_width.map_or(1.0, |width| width.ceil() + 6.0));
        let cell_height = high.min(3.0 * wide).max(number_width.map_or(1.0, |_| 18.0));
        let map =
            Rect { x: 0.0, y: 0.0, width: cell_width * self.columns as f64, height: cell_height * self.rows as f64 };
        let beside = MapLabels::beside(&self.row_labels, self.rows, cell_height);
        let below = MapLabels::below(&self.column_labels, self.columns, cell_width);
        let row_name = SideName::new(&self.row_name, map.height);
        let column_name = SideName::new(&self.column_name, map.width);

        let has_absent = self.values.iter().any(|&v| is_absent(v));
        let absent = has_absent.then_some(self.absent.as_str());
        let bar = ColourBar::new(self.scale.map, ends, map.height.clamp(80.0, 240.0), absent);
        let bar_x = map.width + BAR_GAP.max(below.overhang + 6.0);
        let (beyond, bar_height) = match self.scale_bar {
            ScaleBar::Shown => (bar_x + bar.width, bar.height),
            ScaleBar::Hidden => (map.width + below.overhang + 1.0, 0.0),
        };

        let side_room = if row_name.is_along { NAME_ROOM } else { 0.0 };
        let left = (side_room + beside.room).max(below.overhang).ceil() + 1.0;
        let top = if row_name.is_along || row_name.text.is_empty() { 7.0 } else { NAME_ROOM };
        let under_map = map.height + below.room;
        // A name longer than the map is placed below the colour bar too.
        let column_name_y = if column_name.is_along { under_map } else { under_map.max(bar_height) };
        let bottom = if column_name.text.is_empty() { under_map } else { column_name_y + NAME_ROOM };
        let width = left + beyond;
        let size = Size {
            width: width.max(row_name.across()).max(column_name.across()),
            height: top + bottom.max(bar_height),
        };
        let shows_numbers = number_width.is_some();
        Plan {
            size,
            map,
            cell_width,
            cell_height,
            left,
            top,
            beside,
            below,
            row_name,
            column_name,
            column_name_y,
            ends,
            has_absent,
            bar,
            bar_x,
            shows_numbers,
        }
    }

    /// Returns the width of the widest number or text, if cells show any.
    fn number_width(&self) -> Option<f64> {
        let (columns, rows) = if self.cell_texts.is_empty() { (16, 40) } else { (40, 40) };
        let is_shown = self.numbers == CellNumbers::WhereTheyFit && self.columns <= columns && self.rows <= rows;
        let texts = (0..self.values.len()).filter(|_| is_shown).filter_map(|index| self.cell_text(index));
        texts.map(|text| width(&text, LABEL, Face::Mono)).reduce(f64::max)
    }

    /// Returns the text of a cell, unless the cell is absent.
    fn cell_text(&self, index: usize) -> Option<String> {
        let value = self.values[index];
        let text = if self.cell_texts.is_empty() {
            cell_number(value)
        } else {
            let text = self.cell_texts.get(index).map_or("", String::as_str);
            shorten(text, LABEL, Face::Mono, LONGEST_CELL_TEXT)
        };
        (!is_absent(value)).then_some(text)
    }

    fn colour(&self, value: f32, ends: (f64, f64)) -> Colour {
        self.scale.map.at((f64::from(value) - ends.0) / (ends.1 - ends.0))
    }

    fn draw_cells(&self, canvas: &mut Canvas, map: Rect, plan: &Plan, detail: Detail) {
        for (row, values) in self.values.chunks(self.columns).enumerate() {
            for (column, &value) in values.iter().enumerate() {
                let at = Rect {
                    x: map.x + column as f64 * plan.cell_width,
                    y: map.y + row as f64 * plan.cell_height,
                    width: plan.cell_width,
                    height: plan.cell_height,
                };
                let fill = if is_absent(value) { Fill::Hatch } else { Fill::Plain(self.colour(value, plan.ends)) };
                let tooltip = (detail == Detail::Tooltips).then(|| self.tooltip(row, column, value));
                canvas.rect(at, fill, tooltip.as_deref());
            }
        }
    }

    /// Draws all cells as one image. Absent cells are transparent, on a hatched background.
    fn draw_image(&self, canvas: &mut Canvas, map: Rect, plan: &Plan) {
        canvas.rect(map, if plan.has_absent { Fill::Hatch } else { Fill::Plain(Colour::WHITE) }, None);
        let cells = self.values.iter().map(|&v| (!is_absent(v)).then(|| self.colour(v, plan.ends)));
        if let Ok(png) = cell_image(self.columns, self.rows, cells) {
            canvas.image(map, &png);
        }
    }

    fn draw_numbers(&self, canvas: &mut Canvas, map: Rect, plan: &Plan) {
        if !plan.shows_numbers {
            return;
        }
        for (index, &value) in self.values.iter().enumerate() {
            let Some(text) = self.cell_text(index) else { continue };
            let x = map.x + ((index % self.columns) as f64 + 0.5) * plan.cell_width;
            let y = map.y + ((index / self.columns) as f64 + 0.5) * plan.cell_height;
            let ink = self.colour(value, plan.ends).ink_upon();
            let style = Style::LABEL.face(Face::Mono).anchor(Anchor::Middle).colour(ink);
            canvas.text((x, y), &text, style, None);
        }
    }

    fn draw_names(&self, canvas: &mut Canvas, area: Rect, map: Rect, plan: &Plan) {
        let style = Style::LABEL.size(NAME);
        let (at, style_here) = match plan.row_name.is_along {
            true => ((area.x + 8.0, map.y + map.height / 2.0), style.anchor(Anchor::Middle).turn(Turn::Up)),
            false => ((area.x, area.y + 7.0), style),
        };
        canvas.text(at, &plan.row_name.text, style_here, Some(&self.row_name));
        let y = map.y + plan.column_name_y + 10.0;
        let (at, style_here) = match plan.column_name.is_along {
            true => ((map.x + map.width / 2.0, y), style.anchor(Anchor::Middle)),
            false => ((area.x, y), style),
        };
        canvas.text(at, &plan.column_name.text, style_here, Some(&self.column_name));
    }

    fn tooltip(&self, row: usize, column: usize, value: f32) -> String {
        let name = |labels: &[String], index: usize| labels.get(index).map_or(index.to_string(), |l| visible(l));
        let value = if value.is_nan() { self.absent.clone() } else { number(f64::from(value), 5) };
        let text = self.cell_texts.get(row * self.columns + column).filter(|text| !text.is_empty());
        let said = text.map_or(value.clone(), |text| format!("{text} ({value})"));
        format!("{} → {}: {said}", name(&self.row_labels, row), name(&self.column_labels, column))
    }
}

/// Layout of a heat map. `left` and `top` start at the corner of the area, `bar_x` and `column_name_y` at that of the map.
struct Plan {
    size: Size,
    /// Size of the map; its corner is at (`left`, `top`).
    map: Rect,
    cell_width: f64,
    cell_height: f64,
    left: f64,
    top: f64,
    beside: MapLabels,
    below: MapLabels,
    row_name: SideName,
    column_name: SideName,
    column_name_y: f64,
    ends: (f64, f64),
    has_absent: bool,
    bar: ColourBar,
    bar_x: f64,
    shows_numbers: bool,
}

fn is_absent(value: f32) -> bool {
    value.is_nan() || value == f32::NEG_INFINITY
}

/// Formats the value of a cell: two decimals below 100, none above or for whole numbers, a power of ten from 100,000.
fn cell_number(value: f32) -> String {
    let value = f64::from(value);
    match value.abs() {
        size if size.is_finite() && size < 9_999.5 && value.fract() == 0.0 => fixed(value, 0),
        size if size < 99.995 => fixed(value, 2),
        size if size < 999.5 => fixed(value, 0),
        _ => number(value, 2),
    }
}
