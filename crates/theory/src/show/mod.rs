//! Row F4: what the spin glass shows, each as text, JSON, CSV and a figure from the same numbers.

pub mod fields;
pub mod landscape;
pub mod solve;
pub mod spectrum;
pub mod sweep;
pub mod train;

use regard_figures::Figure;

/// Something, shown.
#[derive(Debug, Clone)]
pub struct Shown {
    /// For people.
    pub text: String,
    /// For programs.
    pub json: serde_json::Value,
    /// A table, for other programs.
    pub csv: String,
    /// To look at.
    pub figure: Figure,
}

/// A table as CSV; numbers only, so nothing is to be quoted.
fn csv<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut text = header.join(",") + "\n";
    for row in rows {
        text += &(row.join(",") + "\n");
    }
    text
}

/// An optional number, empty if there is none.
fn optional(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}
