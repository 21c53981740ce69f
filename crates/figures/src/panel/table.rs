//! Tables. Columns of numbers are aligned on the right in the monospaced face.

use crate::canvas::{Anchor, Canvas, Rect, Stroke, Style};
use crate::colour::Colour;
use crate::layout::Size;
use crate::panel::strings;
use crate::text::{Face, shorten, width};

/// A table of text: a header and rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

const TEXT: f64 = 12.0;
const ROW: f64 = 21.0;
const WIDEST_CELL: f64 = 320.0;
const CELL_GAP: f64 = 22.0;
/// Maximum number of rows in a picture. An HTML page shows all rows.
const MOST_ROWS: usize = 200;

impl Table {
    /// Creates a table without rows.
    pub fn new<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Self {
        Self { header: strings(header), rows: Vec::new() }
    }

    /// Adds a row and returns the table. Empty cells are added so that the header and all rows have the same length.
    pub fn row<S: Into<String>>(mut self, cells: impl IntoIterator<Item = S>) -> Self {
        self.push(cells);
        self
    }

    /// Adds a row in place, like [`Table::row`].
    pub fn push<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let mut row = strings(cells);
        let columns = row.len().max(self.header.len());
        if columns > self.header.len() {
            self.header.resize(columns, String::new());
            self.rows.iter_mut().for_each(|row| row.resize(columns, String::new()));
        }
        row.resize(columns, String::new());
        self.rows.push(row);
    }

    /// Returns the names of the columns.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// Returns the rows, each as long as the header.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// Returns for each column whether it holds numbers, perhaps with units.
    pub(crate) fn numeric_columns(&self) -> Vec<bool> {
        let is_numeric = |column: usize| {
            let mut cells = self.rows.iter().map(|row| row[column].as_str()).filter(|cell| !cell.is_empty()).peekable();
            cells.peek().is_some() && cells.all(starts_like_a_number)
        };
        (0..self.header.len()).map(is_numeric).collect()
    }

    /// Returns the table as lines of text with aligned columns: words on the left, numbers on the right.
    pub fn to_text(&self) -> String {
        let numeric = self.numeric_columns();
        let lines = || std::iter::once(self.header.as_slice()).chain(self.rows.iter().map(Vec::as_slice));
        let widths: Vec<usize> =
            (0..numeric.len()).map(|column| lines().map(|cells| wide(&cells[column])).max().unwrap_or(0)).collect();
        let line = |cells: &[String]| {
            let padded = cells.iter().zip(&widths).zip(&numeric).map(|((cell, &width), &is_number)| {
                let gap = " ".repeat(width - wide(cell));
                if is_number { gap + cell } else { cell.clone() + &gap }
            });
            padded.collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
        };
        lines().map(line).collect()
    }

    pub(crate) fn size(&self) -> Size {
        let widths = self.widths();
        let gaps = CELL_GAP * widths.len().saturating_sub(1) as f64;
        let lines = 1 + self.rows.len().min(MOST_ROWS) + usize::from(self.rows.len() > MOST_ROWS);
        Size { width: (widths.iter().sum::<f64>() + gaps).max(160.0), height: lines as f64 * ROW + 8.0 }
    }

    pub(crate) fn draw(&self, canvas: &mut Canvas, area: Rect) {
        let (widths, numeric) = (self.widths(), self.numeric_columns());
        let right = area.x + widths.iter().sum::<f64>() + CELL_GAP * widths.len().saturating_sub(1) as f64;
        let mut draw_row = |cells: &[String], y: f64, is_header: bool| {
            let mut x = area.x;
            for (column, cell) in cells.iter().enumerate() {
                let face = if numeric[column] && !is_header { Face::Mono } else { Face::Sans };
                let (at, anchor) = if numeric[column] { (x + widths[column], Anchor::End) } else { (x, Anchor::Start) };
                let line = cell.replace(['\n', '\t', '\r'], " ");
                let text = shorten(&line, TEXT, face, WIDEST_CELL);
                let colour = if is_header { Colour::QUIET } else { Colour::INK };
                let style = Style::LABEL.size(TEXT).face(face).anchor(anchor).colour(colour);
                canvas.text((at, y + ROW / 2.0), &text, style, Some(&line));
                x += widths[column] + CELL_GAP;
            }
            if !is_header {
                let y = y + ROW;
                canvas.line((area.x, y), (right, y), Stroke::new(Colour::GRID, 1.0), None);
            }
        };
        draw_row(&self.header, area.y, true);
        for (index, row) in self.rows.iter().take(MOST_ROWS).enumerate() {
            draw_row(row, area.y + (index + 1) as f64 * ROW + 2.0, false);
        }
        canvas.line((area.x, area.y + ROW), (right, area.y + ROW), Stroke::new(Colour::RULE, 1.0), None);
        if self.rows.len() > MOST_ROWS {
            let y = area.y + (MOST_ROWS as f64 + 1.5) * ROW + 2.0;
            let text = format!("… and {} more rows", self.rows.len() - MOST_ROWS);
            canvas.text((area.x, y), &text, Style::LABEL.size(TEXT).colour(Colour::QUIET), None);
        }
    }

    fn widths(&self) -> Vec<f64> {
        let numeric = self.numeric_columns();
        let column_width = |column: usize| {
            let face = if numeric[column] { Face::Mono } else { Face::Sans };
            let cells = self.rows.iter().take(MOST_ROWS).map(|row| width(&row[column], TEXT, face));
            cells.fold(width(&self.header[column], TEXT, Face::Sans), f64::max).min(WIDEST_CELL)
        };
        (0..self.header.len()).map(column_width).collect()
    }
}

/// Returns the width of a cell in terminal columns. A combining accent takes none.
fn wide(cell: &str) -> usize {
    cell.chars().filter(|c| !('\u{300}'..='\u{36f}').contains(c)).count()
}

/// Whether a cell is a number (a digit, perhaps after a sign) or a dash for a missing value.
fn starts_like_a_number(cell: &str) -> bool {
    let bare = cell.trim_start_matches(['-', '−', '+', '±', '≈', '<', '>', '~', '$', '.', ' ']);
    bare.starts_with(|c: char| c.is_ascii_digit() || c == '∞')
        || bare == "NaN"
        || (bare.is_empty() && !cell.is_empty())
        || cell == "–"
        || cell == "—"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_aligned_on_the_right() {
        let table = Table::new(["what", "n²"]).row(["a", "10"]).row(["long name", "1.5"]);
        assert_eq!(table.to_text(), "what        n²\na           10\nlong name  1.5\n");
        assert_eq!(Table::new(["c̃"]).row(["10"]).to_text(), " c̃\n10\n");
    }
}
