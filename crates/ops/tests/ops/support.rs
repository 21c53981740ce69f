//! What the tests of all operations share.

use burn::tensor::{Device, Gradients, Tensor, TensorData};

/// The CPU with and without a record for the backward pass.
pub fn training() -> Device {
    Device::flex().autodiff()
}

/// A leaf of deterministic values in about [−1, 1].
pub fn leaf<const D: usize>(shape: [usize; D], seed: u64) -> Tensor<D> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let data: Vec<f32> = (0..shape.iter().product())
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 40) as f32 / (1u64 << 23) as f32) - 1.0
        })
        .collect();
    Tensor::from_data(TensorData::new(data, shape), &training()).require_grad()
}

pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().unwrap()
}

/// The gradient of a leaf; zeros where none reached it.
pub fn gradient<const D: usize>(leaf: &Tensor<D>, gradients: &Gradients) -> Vec<f32> {
    leaf.grad(gradients).map_or_else(|| vec![0.0; leaf.shape().num_elements()], values)
}

/// Σ output ∘ weights: its gradient with respect to the output is `weights`.
pub fn loss<const D: usize>(output: &Tensor<D>, weights: &Tensor<D>) -> Gradients {
    (output.clone() * weights.clone().detach()).sum().backward()
}

/// Element by element, relative to the larger of 1 and the value.
#[track_caller]
pub fn close(what: &str, got: &[f32], want: &[f32], tolerance: f32) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let fits = got == want || (got - want).abs() <= tolerance * want.abs().max(1.0);
        assert!(fits, "{what}[{i}]: {got}, expected {want}");
    }
}

/// `[rows, cols]` as `[cols, rows]`: PyTorch stores weights the other way round.
pub fn transposed(data: &[f32], rows: usize, cols: usize) -> Vec<f32> {
    (0..cols).flat_map(|c| (0..rows).map(move |r| data[r * cols + c])).collect()
}
