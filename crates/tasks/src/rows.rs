//! Rows of tokens as tensors, where the model is.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use regard_data::{PAD, pad};

/// Where a model is.
pub(crate) fn device_of(model: &impl Module) -> Device {
    model.devices().into_iter().next().unwrap_or_default()
}

/// Rows filled up with [`PAD`], `[rows, longest]`, and their lengths.
pub(crate) fn padded<R: AsRef<[u32]>>(rows: &[R], device: &Device) -> (Tensor<2, Int>, Vec<usize>) {
    let rows: Vec<&[u32]> = rows.iter().map(AsRef::as_ref).collect();
    let padded = pad(&rows, PAD);
    (Tensor::from_data(TensorData::new(padded.ids, padded.shape), device), padded.lengths)
}
