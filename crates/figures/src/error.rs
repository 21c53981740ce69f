//! Errors of drawing and saving.

use std::path::PathBuf;

use regard_system::SaveError;

/// Error from making, drawing or saving a figure.
#[derive(Debug, thiserror::Error)]
pub enum FigureError {
    /// The number of values does not match the size of the matrix.
    #[error("{what}: expected {rows} × {columns} values, got {got}")]
    Shape {
        /// Kind of panel.
        what: &'static str,
        /// Number of rows of the matrix.
        rows: usize,
        /// Number of columns of the matrix.
        columns: usize,
        /// Number of values that were given.
        got: usize,
    },
    /// There is more to draw than a picture can show.
    #[error("cannot draw {got} {what}: the limit is {limit}; draw only a part of them")]
    TooLarge {
        /// The kind of thing there are too many of, in the plural.
        what: &'static str,
        /// Largest number that is drawn.
        limit: usize,
        /// Number that was given.
        got: usize,
    },
    /// An edge joins a node that does not exist.
    #[error("edge {from} → {to}: expected nodes below {nodes}, the number of nodes")]
    Edge {
        /// Node at which the edge begins.
        from: usize,
        /// Node at which the edge ends.
        to: usize,
        /// Number of nodes.
        nodes: usize,
    },
    /// The extension of the path is not that of a format.
    #[error("{path}: the extension must be .svg, .png or .html; it selects the format of the figure")]
    Extension {
        /// The path that was given.
        path: PathBuf,
    },
    /// The drawing could not be turned into pixels.
    #[error("the figure could not be drawn as PNG: {why}")]
    Raster {
        /// Reason for the failure.
        why: String,
    },
    /// The file could not be written.
    #[error(transparent)]
    Save(#[from] SaveError),
}
