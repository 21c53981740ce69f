//! Layout of a figure: title, panels in a grid, and notes.

use crate::canvas::{Canvas, Rect, Style};
use crate::colour::Colour;
use crate::figure::{Columns, Figure, Panel};
use crate::panel::{Detail, PanelKind};
use crate::text::{Face, width, wrap};

/// The part of a figure that is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Title, panels and notes.
    All,
    /// Only the panels that have no HTML element. A page shows all other parts as HTML.
    Pictures,
}

/// A width and a height in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Size {
    pub width: f64,
    pub height: f64,
}

const MARGIN: f64 = 18.0;
const GAP: f64 = 26.0;
const TITLE: f64 = 17.0;
const PANEL_TITLE: f64 = 13.0;
const NOTE: f64 = 12.0;
/// Width that fits on a screen, in pixels.
const SCREEN: f64 = 1400.0;
const NARROWEST: f64 = 320.0;

/// Draws a figure, or a part of it, as an SVG document.
pub(crate) fn draw(figure: &Figure, part: Part) -> String {
    let panels: Vec<&Panel> =
        figure.panels.iter().filter(|panel| part == Part::All || panel.kind.is_picture()).collect();
    let sizes: Vec<Size> = panels.iter().map(|panel| outer_size(panel)).collect();
    let columns = column_count(figure.columns, &sizes);
    let widths = largest(&sizes, columns, |index| index % columns, |size| size.width);
    let title_widths: Vec<f64> = (0..panels.len()).map(|index| widths[index % columns]).collect();
    let titles: Vec<Vec<String>> = panels
        .iter()
        .zip(&title_widths)
        .map(|(panel, width)| wrap(&panel.title, PANEL_TITLE, Face::Sans, *width))
        .collect();

    let panels_width = widths.iter().sum::<f64>() + GAP * widths.len().saturating_sub(1) as f64;
    let inner = panels_width.max(NARROWEST);
    let mut canvas = Canvas::default();
    let mut y = MARGIN;
    if part == Part::All {
        y = lines(&mut canvas, &wrap(&figure.title, TITLE, Face::Sans, inner), y, Style::LABEL.size(TITLE));
        y += if figure.title.is_empty() { 0.0 } else { 10.0 };
    }
    if panels.is_empty() && part == Part::All {
        y = lines(&mut canvas, &["(no panels)".to_string()], y, Style::LABEL.size(NOTE).colour(Colour::QUIET));
    }

    let detail = detail_of(&panels);
    for (row, chunk) in panels.chunks(columns.max(1)).enumerate() {
        let first = row * columns;
        let title_height =
            titles[first..first + chunk.len()].iter().map(|t| block_height(t.len(), PANEL_TITLE)).fold(0.0, f64::max);
        let height = sizes[first..first + chunk.len()].iter().map(|s| s.height).fold(0.0, f64::max);
        let mut x = MARGIN;
        for (column, panel) in chunk.iter().enumerate() {
            let style = Style::LABEL.size(PANEL_TITLE);
            lines_at(&mut canvas, &titles[first + column], x, y, style);
            let top = y + title_height + if title_height > 0.0 { 6.0 } else { 0.0 };
            let area = Rect { x, y: top, width: widths[column], height };
            panel.kind.draw(&mut canvas, area, detail);
            x += widths[column] + GAP;
        }
        y += title_height + if title_height > 0.0 { 6.0 } else { 0.0 } + height + GAP;
    }
    if !panels.is_empty() {
        y -= GAP;
    }

    if part == Part::All && !figure.notes.is_empty() {
        y += 14.0;
        for note in &figure.notes {
            let style = Style::LABEL.size(NOTE).colour(Colour::QUIET);
            y = lines(&mut canvas, &wrap(note, NOTE, Face::Sans, inner), y, style) + 4.0;
        }
    }
    canvas.into_svg(inner + 2.0 * MARGIN, y + MARGIN, &figure.title)
}

/// Returns the size of a panel without the height of its title, wide enough that the title takes few lines.
fn outer_size(panel: &Panel) -> Size {
    let size = panel.kind.size();
    let title = width(&panel.title, PANEL_TITLE, Face::Sans).min(260.0);
    // With whole pixels, the cells of heat maps align with the pixels of the screen.
    Size { width: size.width.max(title + 1.0).ceil(), height: size.height.ceil() }
}

fn column_count(columns: Columns, sizes: &[Size]) -> usize {
    let most = sizes.len().max(1);
    match columns {
        Columns::Fixed(count) => count.clamp(1, most),
        Columns::Auto => {
            let widest = sizes.iter().map(|s| s.width).fold(1.0, f64::max);
            let fit = ((SCREEN + GAP) / (widest + GAP)).floor().max(1.0) as usize;
            // Choose the fewest rows that fit, then the fewest columns that these rows need.
            most.div_ceil(most.div_ceil(fit))
        }
    }
}

fn largest(sizes: &[Size], count: usize, slot: impl Fn(usize) -> usize, of: impl Fn(&Size) -> f64) -> Vec<f64> {
    let mut largest = vec![0.0_f64; if sizes.is_empty() { 0 } else { count }];
    for (index, size) in sizes.iter().enumerate() {
        let entry = &mut largest[slot(index)];
        *entry = entry.max(of(size));
    }
    largest
}

/// Chooses how finely cells are drawn: a tooltip for each of a million cells would only make the file large.
fn detail_of(panels: &[&Panel]) -> Detail {
    let cells: usize = panels
        .iter()
        .map(|panel| match &panel.kind {
            PanelKind::Heatmap(map) => map.cells(),
            _ => 0,
        })
        .sum();
    match cells {
        0..=10_000 => Detail::Tooltips,
        10_001..=40_000 => Detail::Cells,
        _ => Detail::Images,
    }
}

fn block_height(lines: usize, size: f64) -> f64 {
    lines as f64 * (size * 1.35).round()
}

fn lines(canvas: &mut Canvas, lines: &[String], y: f64, style: Style) -> f64 {
    lines_at(canvas, lines, MARGIN, y, style)
}

fn lines_at(canvas: &mut Canvas, lines: &[String], x: f64, y: f64, style: Style) -> f64 {
    let step = (style.size * 1.35).round();
    for (index, line) in lines.iter().enumerate() {
        canvas.text((x, y + (index as f64 + 0.5) * step), line, style, None);
    }
    y + lines.len() as f64 * step
}
