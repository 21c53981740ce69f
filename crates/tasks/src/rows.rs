//! Rows of tokens as tensors on the model's device.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use regard_data::{Budget, PAD, pad};

/// Largest size of a batch when no gradients are kept.
pub const SCORING: Budget = Budget { tokens: 8_192, examples: 256 };

/// Chooses at most `limit` of `len` examples, spread evenly because files are often sorted by length or label; yields indices.
pub fn spread(len: usize, limit: Option<usize>) -> impl Iterator<Item = usize> {
    let count = limit.unwrap_or(len).min(len);
    (0..count).map(move |at| (at as u128 * len as u128 / count as u128) as usize)
}

/// Returns the device of a model.
pub fn device_of(model: &impl Module) -> Device {
    model.devices().into_iter().next().unwrap_or_default()
}

/// Returns rows of equal length as a tensor, `[rows, tokens]`.
pub fn matrix(rows: &[&[u32]], device: &Device) -> Tensor<2, Int> {
    let shape = [rows.len(), rows.first().map_or(0, |row| row.len())];
    let ids: Vec<i32> = rows.iter().copied().flatten().map(|&id| id as i32).collect();
    Tensor::from_data(TensorData::new(ids, shape), device)
}

/// Pads rows with [`PAD`] to a tensor `[rows, longest]`; also returns their lengths.
pub fn padded<R: AsRef<[u32]>>(rows: &[R], device: &Device) -> (Tensor<2, Int>, Vec<usize>) {
    let rows: Vec<&[u32]> = rows.iter().map(AsRef::as_ref).collect();
    let padded = pad(&rows, PAD);
    (Tensor::from_data(TensorData::new(padded.ids, padded.shape), device), padded.lengths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_examples_are_spread_evenly() {
        let chosen = |len, limit| spread(len, limit).collect::<Vec<_>>();
        assert_eq!(chosen(10, Some(3)), [0, 3, 6]);
        assert_eq!(chosen(3, None), [0, 1, 2]);
        assert_eq!(chosen(3, Some(8)), [0, 1, 2]);
        assert!(chosen(0, Some(2)).is_empty() && chosen(2, Some(0)).is_empty());
    }
}
