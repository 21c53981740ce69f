//! Looking inside attention models.
//!
//! A [`Figure`] is a description: a title, notes and panels. It is drawn as SVG, and that one drawing also becomes the
//! PNG (rasterised with the fonts in this crate, so a bare machine without fonts draws the same; a font of the machine is taken
//! for characters that they lack) and the HTML page.
//!
//! ```
//! use regard_inspect::{ColourScale, Figure, Heatmap, ValueRange};
//!
//! let tokens = ["the", "cat", "sat"];
//! let weights = vec![1.0, 0.0, 0.0, 0.4, 0.6, 0.0, 0.2, 0.5, 0.3];
//! let map = Heatmap::new(3, 3, weights)?
//!     .row_labels(tokens)
//!     .column_labels(tokens)
//!     .scale(ColourScale::sequential(ValueRange::FromZero));
//! let svg = Figure::new("Attention").panel("head 1", map).to_svg();
//! assert!(svg.contains("cat"));
//! # Ok::<(), regard_inspect::InspectError>(())
//! ```
#![forbid(unsafe_code)]

mod attention;
mod axis;
mod canvas;
mod colour;
pub mod count;
mod error;
mod figure;
mod fonts;
mod html;
mod layout;
mod number;
mod panel;
mod raster;
mod report;
mod save;
pub mod show;
mod text;

pub use attention::{AttentionView, HeadMap, MapGroup, ViewFormat};
pub use axis::{Axis, AxisScale};
pub use colour::{ColourMap, ColourScale, ValueRange};
pub use error::InspectError;
pub use figure::{Columns, Figure, Format, Panel, Saved};
pub use number::number;
pub use panel::{
    BarSeries, Bars, CellNumbers, Heatmap, LabelledPoint, LineStyle, Lines, Links, PanelKind, ScaleBar, Scatter,
    Series, Table, Text, confusion_matrix, deviation_text,
};
pub use report::{Content, Report, Section};
pub use save::{create_folder, remove_temporary_files, save_atomically, save_streamed, sync_folder};
