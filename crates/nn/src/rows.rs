//! Selection of the sequences of a batch, as a beam search needs it.

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
    let data: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
    Ok(Tensor::from_data(TensorData::new(data, [rows.len()]), device))
}
