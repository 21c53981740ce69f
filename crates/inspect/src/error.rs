//! Errors of attention views.

use std::path::PathBuf;

use regard_figures::FigureError;
use regard_system::SaveError;

/// Attention maps that cannot be shown or saved.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The maps cannot be drawn.
    #[error(transparent)]
    Figure(#[from] FigureError),
    /// The extension of the path names no format of an attention view.
    #[error("{path}: the extension must be .html, .svg, .png or .json; it selects the format of the file")]
    Extension {
        /// The path of the file to be written.
        path: PathBuf,
    },
    /// A captured query has weight on a key for which no token was given.
    #[error("{layer}: a query has weight beyond the {expected} keys that have tokens; its row has {got} weights")]
    Keys {
        /// Name of the head.
        layer: String,
        /// Number of tokens given.
        expected: usize,
        /// Number of weights in the query's row.
        got: usize,
    },
    /// The data of a page could not be encoded.
    #[error("the data of the page could not be encoded: {why}")]
    Encode {
        /// The encoder's reason.
        why: String,
    },
    /// The file could not be written.
    #[error(transparent)]
    Save(#[from] SaveError),
}
