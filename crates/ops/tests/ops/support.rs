//! Helpers shared by the tests of all operations.

use burn::tensor::{Device, Gradients, Tensor, TensorData};

/// Returns the backend under test: Flex, where the fused operations run, or NdArray with the feature `ndarray`, where the
/// fallbacks run.
pub fn device() -> Device {
    #[cfg(feature = "ndarray")]
    #[allow(deprecated, reason = "any backend other than Flex will do")]
    return Device::ndarray();
    #[cfg(not(feature = "ndarray"))]
    Device::flex()
}

/// Returns the backend under test with autodiff.
pub fn training() -> Device {
    device().autodiff()
}

/// Returns a tracked tensor of deterministic values in about [−1, 1].
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

/// Returns the gradient of a leaf, or zeros if it has none.
pub fn gradient<const D: usize>(leaf: &Tensor<D>, gradients: &Gradients) -> Vec<f32> {
    leaf.grad(gradients).map_or_else(|| vec![0.0; leaf.shape().num_elements()], values)
}

/// Runs the backward pass of `Σ output ∘ weights`, whose gradient with respect to the output is `weights`.
pub fn loss<const D: usize>(output: &Tensor<D>, weights: &Tensor<D>) -> Gradients {
    (output.clone() * weights.clone().detach()).sum().backward()
}

/// Smallest magnitude that an error is relative to. Inputs and output gradients are of order 1 in most of these tests, so a
/// tensor that is zero by symmetry is a sum of terms of order 1, each rounded by 2⁻²⁴. With the smallest tolerance, 1e-6, a
/// floor of 1/4 allows four such roundings.
pub const FLOOR: f64 = 1.0 / 4.0;

/// Panics unless every element has at most the relative error `tolerance`.
///
/// An element is a sum of terms, and its rounding error is relative to the terms. Where they cancel, the element is much
/// smaller than its terms, but other elements of the tensor are sums of similar terms. So the error is relative to the
/// element or to the root mean square of the tensor, whichever is larger, and at least to [`FLOOR`].
#[track_caller]
pub fn close(what: &str, got: &[f32], want: &[f32], tolerance: f32) {
    close_above(FLOOR, what, got, want, tolerance);
}

/// [`close`] with another floor than [`FLOOR`], for terms of another order than 1.
#[track_caller]
pub fn close_above(floor: f64, what: &str, got: &[f32], want: &[f32], tolerance: f32) {
    let wide = |x: &[f32]| x.iter().copied().map(f64::from).collect::<Vec<_>>();
    close_wide(floor, what, &wide(got), &wide(want), f64::from(tolerance));
}

/// [`close_above`] in double precision.
#[track_caller]
pub fn close_wide(floor: f64, what: &str, got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    let finite = || want.iter().filter(|want| want.is_finite());
    let square = finite().map(|want| want * want).sum::<f64>() / finite().count().max(1) as f64;
    let floor = square.sqrt().max(floor);
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let error = (got - want).abs() / want.abs().max(floor);
        assert!(got == want || error <= tolerance, "{what}[{i}]: {got}, expected {want}: relative error {error:e}");
    }
}

/// Transposes `[rows, cols]` to `[cols, rows]`, because PyTorch stores weights as `[d_out, d_in]`.
pub fn transposed(data: &[f32], rows: usize, cols: usize) -> Vec<f32> {
    (0..cols).flat_map(|c| (0..rows).map(move |r| data[r * cols + c])).collect()
}
