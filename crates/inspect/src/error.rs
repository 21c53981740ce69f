//! What cannot be drawn or written.

use std::path::PathBuf;

/// A figure that cannot be made or saved.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
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
    /// The extension of the path names no format of an attention view.
    #[error("{path}: the extension must be .html, .svg, .png or .json, to say how to write the attention maps")]
    ViewExtension {
        /// The path that came.
        path: PathBuf,
    },
    /// A captured layer looks at more keys than it was given tokens.
    #[error("{layer}: a query looks beyond the {expected} keys it has tokens for, at one of {got}")]
    Keys {
        /// Path of the layer.
        layer: String,
        /// Tokens given.
        expected: usize,
        /// Weights of the query.
        got: usize,
    },
    /// The data of a page could not be written down.
    #[error("the data of the page could not be encoded: {why}")]
    Encode {
        /// What the encoder said.
        why: String,
    },
    /// The folder of the path does not exist.
    #[error("{path}: there is no such folder to write to")]
    Folder {
        /// The path that came.
        path: PathBuf,
    },
    /// The drawing could not be turned into pixels.
    #[error("the figure could not be drawn as PNG: {why}")]
    Raster {
        /// What the rasteriser said.
        why: String,
    },
    /// A file could not be written.
    #[error("{path}: could not be written: {cause}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
}
