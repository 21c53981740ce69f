//! Which sequences of a batch go on, as a search decides.

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::error::NnError;

/// The sequences `rows` of a batch, in this order and as often as they are named, for `Tensor::select`; refuses none, and
/// a row beyond the batch.
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
