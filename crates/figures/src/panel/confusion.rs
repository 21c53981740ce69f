//! Confusion matrices of classifiers.

use crate::colour::{ColourScale, ValueRange};
use crate::error::FigureError;
use crate::panel::{Heatmap, strings};

/// Creates a heat map of `counts`, given row by row: a row per true class, a column per predicted class.
/// A cell shows its count (nothing for zero). Its colour is its share of the row, so that rare classes are as visible as
/// frequent ones. The cells of a class that never occurs are absent.
pub fn confusion_matrix<S: Into<String>>(
    classes: impl IntoIterator<Item = S>,
    counts: &[u64],
) -> Result<Heatmap, FigureError> {
    let classes = strings(classes);
    let n = classes.len();
    let what = "confusion matrix";
    if n.checked_mul(n) != Some(counts.len()) {
        return Err(FigureError::Shape { what, rows: n, columns: n, got: counts.len() });
    }
    let shares = counts.chunks(n.max(1)).flat_map(|row| {
        let all: u128 = row.iter().map(|&count| u128::from(count)).sum();
        row.iter().map(move |&count| if all == 0 { f32::NAN } else { (count as f64 / all as f64) as f32 })
    });
    let texts = counts.iter().map(|&count| if count == 0 { String::new() } else { count.to_string() });
    let map = Heatmap::new(n, n, shares.collect())?
        .row_labels(classes.iter().cloned())
        .column_labels(classes)
        .axes("true", "predicted")
        .absent("never occurs")
        .scale(ColourScale::sequential(ValueRange::Fixed { low: 0.0, high: 1.0 }))
        .cell_texts(texts);
    Ok(map)
}
