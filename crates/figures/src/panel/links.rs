//! Attention as lines: two columns of tokens, each pair joined by a line with the opacity of its weight.

use crate::canvas::{Anchor, Canvas, LABEL, Rect, Stroke, Style};
use crate::colour::{Colour, palette};
use crate::error::FigureError;
use crate::layout::Size;
use crate::number::number;
use crate::panel::{EMPTY, draw_empty, strings};
use crate::text::{Face, shorten, visible, width};

/// Tokens on the left and on the right, joined by lines that show weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Links {
    left: Vec<String>,
    right: Vec<String>,
    weights: Vec<f32>,
    left_name: String,
    right_name: String,
    colour: usize,
}

const MOST_TOKENS: usize = 128;
const ROW: f64 = 18.0;
const MIDDLE: f64 = 170.0;
const LONGEST_LABEL: f64 = 140.0;
/// Smallest opacity of a line; fainter lines would be invisible and are left out.
const FAINTEST: f64 = 0.02;

impl Links {
    /// Creates links from a matrix of weights, given row by row: a row per token on the left, a column per token on the right.
    /// The opacity of a line is its weight divided by the largest weight, or by 1 if all weights are smaller. Lines fainter than
    /// 2 % are left out, and so are those of NaN and of negative weights.
    pub fn new<S: Into<String>, T: Into<String>>(
        left: impl IntoIterator<Item = S>,
        right: impl IntoIterator<Item = T>,
        weights: Vec<f32>,
    ) -> Result<Self, FigureError> {
        let (left, right) = (strings(left), strings(right));
        if left.len() * right.len() != weights.len() {
            let (rows, columns) = (left.len(), right.len());
            return Err(FigureError::Shape { what: "links", rows, columns, got: weights.len() });
        }
        let tokens = left.len().max(right.len());
        if tokens > MOST_TOKENS {
            return Err(FigureError::TooLarge { what: "tokens in a column of links", limit: MOST_TOKENS, got: tokens });
        }
        Ok(Self { left, right, weights, left_name: String::new(), right_name: String::new(), colour: 0 })
    }

    /// Sets the names of the two columns, such as `query` and `key`.
    pub fn names(mut self, left: impl Into<String>, right: impl Into<String>) -> Self {
        self.left_name = left.into();
        self.right_name = right.into();
        self
    }

    /// Sets the colour of the lines to the `index`-th of the palette.
    pub fn colour(mut self, index: usize) -> Self {
        self.colour = index;
        self
    }

    pub(crate) fn size(&self) -> Size {
        if self.weights.is_empty() {
            return EMPTY;
        }
        let rows = self.left.len().max(self.right.len()) as f64;
        let sides = column_width(&self.left, &self.left_name) + column_width(&self.right, &self.right_name);
        Size { width: sides + MIDDLE, height: self.head() + rows * ROW + 2.0 }
    }

    pub(crate) fn draw(&self, canvas: &mut Canvas, area: Rect) {
        if self.weights.is_empty() {
            return draw_empty(canvas, area, "no links");
        }
        let start = area.x + column_width(&self.left, &self.left_name);
        let end = start + MIDDLE;
        let y = |index: usize| area.y + self.head() + (index as f64 + 0.5) * ROW;
        for (row, column, weight, opacity) in self.lines() {
            let stroke = Stroke { opacity, ..Stroke::new(palette(self.colour), 2.0) };
            let (from, to) = (visible(&self.left[row]), visible(&self.right[column]));
            let tooltip = format!("{from} → {to}: {}", number(f64::from(weight), 4));
            canvas.line((start + 4.0, y(row)), (end - 4.0, y(column)), stroke, Some(&tooltip));
        }
        let name = Style::LABEL.colour(Colour::QUIET);
        let head = area.y + 7.0;
        canvas.text((start, head), &short(&self.left_name), name.anchor(Anchor::End), Some(&self.left_name));
        canvas.text((end, head), &short(&self.right_name), name, Some(&self.right_name));
        for (index, token) in self.left.iter().enumerate() {
            let full = visible(token);
            canvas.text((start, y(index)), &short(&full), Style::LABEL.anchor(Anchor::End), Some(&full));
        }
        for (index, token) in self.right.iter().enumerate() {
            let full = visible(token);
            canvas.text((end, y(index)), &short(&full), Style::LABEL, Some(&full));
        }
    }

    /// Returns row, column, weight and opacity of the visible lines, the faintest first so that strong lines lie on top.
    fn lines(&self) -> Vec<(usize, usize, f32, f64)> {
        let largest = self.weights.iter().filter(|w| w.is_finite()).fold(1.0_f32, |a, &b| a.max(b));
        let columns = self.right.len();
        let weights = self.weights.iter().enumerate();
        let mut lines: Vec<_> = weights
            .map(|(index, &w)| (index / columns, index % columns, w, f64::from(w / largest).min(1.0)))
            .filter(|line| !line.2.is_nan() && line.3 >= FAINTEST)
            .collect();
        lines.sort_by(|a, b| a.3.total_cmp(&b.3));
        lines
    }

    fn head(&self) -> f64 {
        if self.left_name.is_empty() && self.right_name.is_empty() { 2.0 } else { 20.0 }
    }
}

fn column_width(tokens: &[String], name: &str) -> f64 {
    let widths = tokens.iter().map(|t| width(&visible(t), LABEL, Face::Sans));
    widths.fold(width(name, LABEL, Face::Sans), f64::max).min(LONGEST_LABEL).ceil() + 2.0
}

fn short(text: &str) -> String {
    shorten(text, LABEL, Face::Sans, LONGEST_LABEL)
}
