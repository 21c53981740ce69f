//! Indices of rows: the sequences of a batch that a beam search keeps, and the largest number of a row.

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::error::NnError;

/// Returns the indices of the sequences `rows` of a batch for `Tensor::select`. Rows may repeat and come in any order.
/// Fails if `rows` is empty or names a row outside the batch.
///
/// # Shapes
/// → `[rows]`.
pub fn row_indices(rows: &[usize], batch: usize, device: &Device) -> Result<Tensor<1, Int>, NnError> {
    if rows.is_empty() || rows.iter().any(|&row| row >= batch) {
        return Err(NnError::input("rows", format!("at least one, each below {batch}"), format!("{rows:?}")));
    }
    Ok(indices(rows.iter().copied(), device))
}

/// Returns the numbers as a tensor of indices.
pub(crate) fn indices(numbers: impl Iterator<Item = usize>, device: &Device) -> Tensor<1, Int> {
    let numbers: Vec<i64> = numbers.map(|number| number as i64).collect();
    let count = numbers.len();
    Tensor::from_data(TensorData::new(numbers, [count]), device)
}

/// Returns the index of the largest number of a row, the first one if several are equal.
pub(crate) fn largest(row: &[f32]) -> usize {
    (1..row.len()).fold(0, |best, at| if row[at] > row[best] { at } else { best })
}
