//! The kinds of panels, one file each: content, size and drawing.

mod bars;
mod colour_bar;
mod confusion;
mod error_bar;
mod heatmap;
mod lines;
mod links;
mod map_labels;
mod marker;
mod nodes;
mod pictures;
mod plot;
mod scatter;
mod star;
mod strokes;
mod table;
mod text;

pub use bars::Bars;
pub use confusion::confusion_matrix;
pub use error_bar::deviation_text;
pub use heatmap::{CellNumbers, Heatmap, ScaleBar};
pub use lines::{LineStyle, Lines, Series};
pub use links::Links;
pub use nodes::Nodes;
pub use pictures::{Pictures, Tile};
pub use scatter::{LabelledPoint, Scatter};
pub use star::{Ray, Star};
pub use strokes::{PenStroke, Strokes};
pub use table::Table;
pub use text::Text;

use crate::canvas::{Canvas, Rect, Style};
use crate::colour::Colour;
use crate::layout::Size;

/// Content of a panel.
#[derive(Debug, Clone, PartialEq)]
pub enum PanelKind {
    /// A matrix as coloured cells.
    Heatmap(Heatmap),
    /// Curves and points.
    Lines(Lines),
    /// Named quantities as bars.
    Bars(Bars),
    /// A header and rows of text.
    Table(Table),
    /// Lines of text.
    Text(Text),
    /// Two columns of tokens, joined by lines that show weights.
    Links(Links),
    /// Points with names.
    Scatter(Scatter),
    /// A graph of circles and lines.
    Nodes(Nodes),
    /// Pictures with captions.
    Pictures(Pictures),
    /// A node and its neighbours, joined by lines that show weights.
    Star(Star),
    /// Strokes of a pen.
    Strokes(Strokes),
}

/// How finely the cells of heat maps are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    /// Each cell is an element with its value as a tooltip.
    Tooltips,
    /// Each cell is an element without a tooltip.
    Cells,
    /// All cells are one image.
    Images,
}

impl PanelKind {
    /// Whether the panel must be drawn because HTML has no element for it.
    pub(crate) fn is_picture(&self) -> bool {
        !matches!(self, Self::Table(_) | Self::Text(_))
    }

    /// Returns the smallest area that the panel needs.
    pub(crate) fn size(&self) -> Size {
        match self {
            Self::Heatmap(panel) => panel.size(),
            Self::Lines(panel) => panel.size(),
            Self::Bars(panel) => panel.size(),
            Self::Table(panel) => panel.size(),
            Self::Text(panel) => panel.size(),
            Self::Links(panel) => panel.size(),
            Self::Scatter(panel) => panel.size(),
            Self::Nodes(panel) => panel.size(),
            Self::Pictures(panel) => panel.size(),
            Self::Star(panel) => panel.size(),
            Self::Strokes(panel) => panel.size(),
        }
    }

    /// Draws the panel in an area at least as large as [`PanelKind::size`].
    pub(crate) fn draw(&self, canvas: &mut Canvas, area: Rect, detail: Detail) {
        match self {
            Self::Heatmap(panel) => panel.draw(canvas, area, detail),
            Self::Lines(panel) => panel.draw(canvas, area),
            Self::Bars(panel) => panel.draw(canvas, area),
            Self::Table(panel) => panel.draw(canvas, area),
            Self::Text(panel) => panel.draw(canvas, area),
            Self::Links(panel) => panel.draw(canvas, area),
            Self::Scatter(panel) => panel.draw(canvas, area),
            Self::Nodes(panel) => panel.draw(canvas, area),
            Self::Pictures(panel) => panel.draw(canvas, area),
            Self::Star(panel) => panel.draw(canvas, area),
            Self::Strokes(panel) => panel.draw(canvas, area),
        }
    }
}

macro_rules! into_panel {
    ($($kind:ident),*) => {$(
        impl From<$kind> for PanelKind {
            fn from(panel: $kind) -> Self {
                Self::$kind(panel)
            }
        }
    )*};
}
into_panel!(Heatmap, Lines, Bars, Table, Text, Links, Scatter, Nodes, Pictures, Star, Strokes);

/// Size of a panel that has nothing to show.
const EMPTY: Size = Size { width: 120.0, height: 40.0 };

/// Draws a frame with a text that says why there is nothing to show.
fn draw_empty(canvas: &mut Canvas, area: Rect, why: &str) {
    canvas.frame(Rect { width: EMPTY.width, height: EMPTY.height, ..area }, Colour::GRID);
    let style = Style::LABEL.colour(Colour::QUIET);
    canvas.text((area.x + 12.0, area.y + EMPTY.height / 2.0), why, style, None);
}

pub(crate) fn strings<S: Into<String>>(items: impl IntoIterator<Item = S>) -> Vec<String> {
    items.into_iter().map(Into::into).collect()
}
