//! Lines of text in the monospaced face.

use crate::canvas::{Canvas, Rect, Style};
use crate::colour::Colour;
use crate::layout::Size;
use crate::text::{Face, width, wrap};

/// Lines of monospaced text. Long lines are wrapped.
#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    /// Lines from top to bottom.
    pub lines: Vec<String>,
}

const TEXT: f64 = 12.0;
const LINE: f64 = 17.0;
const WIDEST: f64 = 900.0;
/// Maximum number of lines in a picture. An HTML page shows all lines.
const MOST_LINES: usize = 400;

impl Text {
    /// Splits a text into lines.
    pub fn new(text: &str) -> Self {
        Self { lines: text.lines().map(str::to_string).collect() }
    }

    pub(crate) fn size(&self) -> Size {
        let lines = self.wrapped();
        let widest = lines.iter().map(|line| width(line, TEXT, Face::Mono)).fold(120.0, f64::max);
        Size { width: widest, height: lines.len().max(1) as f64 * LINE + 4.0 }
    }

    pub(crate) fn draw(&self, canvas: &mut Canvas, area: Rect) {
        for (index, line) in self.wrapped().iter().enumerate() {
            let style = Style::LABEL.size(TEXT).face(Face::Mono).colour(Colour::INK);
            canvas.text((area.x, area.y + (index as f64 + 0.5) * LINE), line, style, None);
        }
    }

    fn wrapped(&self) -> Vec<String> {
        let expand = |line: &String| wrap(&line.replace('\t', "    "), TEXT, Face::Mono, WIDEST);
        let mut lines: Vec<String> = Vec::new();
        for line in self.lines.iter().take(MOST_LINES) {
            let wrapped = expand(line);
            // An empty line is kept.
            lines.extend(if wrapped.is_empty() { vec![String::new()] } else { wrapped });
        }
        if lines.len() > MOST_LINES || self.lines.len() > MOST_LINES {
            lines.truncate(MOST_LINES);
            lines.push("… and more".to_string());
        }
        lines
    }
}
