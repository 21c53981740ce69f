//! The results of the `icl` commands, each as text, JSON, CSV and a figure of the same numbers.

pub mod fields;
pub mod landscape;
pub mod solve;
pub mod spectrum;
pub mod sweep;
pub mod train;

use regard_figures::Figure;

/// A result in all output formats.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Text for the terminal.
    pub text: String,
    /// JSON document.
    pub json: serde_json::Value,
    /// CSV table.
    pub csv: String,
    /// Figure.
    pub figure: Figure,
}

/// Formats a table as CSV. Fields are numbers and plain names, so none needs quotes.
fn csv<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut text = header.join(",") + "\n";
    for row in rows {
        text += &(row.join(",") + "\n");
    }
    text
}

/// Formats an optional number, `None` as the empty string.
fn optional(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}
