//! Heat maps, curves, bars, tables and whole reports as SVG, PNG and HTML.
//!
//! A [`Figure`] describes a title, panels and notes. It is drawn as SVG, and the PNG and the HTML page are made from that one
//! drawing. The PNG is rasterised with the fonts embedded in this crate, so it looks the same on every machine; system fonts are
//! used only for characters that the embedded fonts lack.
//!
//! ```
//! use regard_figures::{ColourScale, Figure, Heatmap, ValueRange};
//!
//! let tokens = ["the", "cat", "sat"];
//! let weights = vec![1.0, 0.0, 0.0, 0.4, 0.6, 0.0, 0.2, 0.5, 0.3];
//! let map = Heatmap::new(3, 3, weights)?
//!     .row_labels(tokens)
//!     .column_labels(tokens)
//!     .scale(ColourScale::sequential(ValueRange::FromZero));
//! let svg = Figure::new("Attention").panel("head 1", map).to_svg();
//! assert!(svg.contains("cat"));
//! # Ok::<(), regard_figures::FigureError>(())
//! ```
#![forbid(unsafe_code)]

mod axis;
mod canvas;
mod colour;
mod error;
mod figure;
mod fonts;
mod html;
mod layout;
mod number;
mod panel;
mod raster;
mod report;
mod text;

pub use axis::{Axis, AxisScale};
pub use colour::{Colour, ColourMap, ColourScale, ValueRange};
pub use error::FigureError;
pub use figure::{Columns, Figure, Format, Panel, Saved};
pub use html::Interactive;
pub use number::{fixed, number, thousands};
pub use panel::{
    Bars, CellNumbers, Heatmap, LabelledPoint, LineStyle, Lines, Links, Nodes, PanelKind, PenStroke, Pictures, Ray,
    ScaleBar, Scatter, Series, Star, Strokes, Table, Text, Tile, confusion_matrix, deviation_text,
};
pub use report::{Content, Report, Section};
pub use text::visible;
