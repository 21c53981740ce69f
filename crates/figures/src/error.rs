//! Errors of drawing and saving.

use std::path::PathBuf;

use regard_system::SaveError;

/// A figure that cannot be made or saved.
#[derive(Debug, thiserror::Error)]
pub enum FigureError {
    /// The values do not fill the matrix.
    #[error("{what}: expected {rows} × {columns} values, got {got}")]
    Shape {
        /// The panel.
        what: &'static str,
        /// Rows asked for.
        rows: usize,
        /// Columns asked for.
        columns: usize,
        /// Values that came.
        got: usize,
    },
    /// More than a picture can show.
    #[error("{what}: {got} are too many to draw, at most {limit}; choose a part of them")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The most that is drawn.
        limit: usize,
        /// How many came.
        got: usize,
    },
    /// The extension of the path names no format.
    #[error("{path}: the extension must be .svg, .png or .html, to say how to draw the figure")]
    Extension {
        /// The path that came.
        path: PathBuf,
    },
    /// The drawing could not be turned into pixels.
    #[error("the figure could not be drawn as PNG: {why}")]
    Raster {
        /// What the rasteriser said.
        why: String,
    },
    /// The file could not be written.
    #[error(transparent)]
    Save(#[from] SaveError),
}
