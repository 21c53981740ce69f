//! Support for the tests of all recurrent layers: noise, comparisons, finite differences.

use super::RecurrentShape;
use crate::scratch::Scratch;
use crate::test_support::{assert_relative, wide};

/// Returns numbers in `−scale..scale` that depend on the seed alone.
pub(super) fn noise(seed: u64, len: usize, scale: f32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / 8_388_608.0 - 1.0
    };
    for _ in 0..8 {
        next();
    }
    (0..len).map(|_| next() * scale).collect()
}

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Returns `Σ_k a[k] w[k, column]` for a matrix with `columns` columns.
pub(super) fn column_dot(a: &[f64], w: &[f64], columns: usize, column: usize) -> f64 {
    a.iter().enumerate().map(|(k, a)| a * w[k * columns + column]).sum()
}

/// Asserts that every element has at most this relative error. Weights and inputs are of order 1, so the terms of a gradient
/// that cancels have rounding errors of 2⁻²⁴: with the smallest tolerance, 1e-6, a floor of a sixteenth allows one.
#[track_caller]
pub(super) fn assert_close(what: &str, got: &[f32], want: &[f64], tolerance: f64) {
    assert_relative(what, got, want, 1.0 / 16.0, tolerance);
}

/// Returns the derivative of `loss` with respect to every element of `parameters[which]`.
pub(super) fn finite_differences(parameters: &[Vec<f64>], which: usize, loss: &dyn Fn(&[Vec<f64>]) -> f64) -> Vec<f64> {
    const STEP: f64 = 1e-5;
    let mut moved = parameters.to_vec();
    (0..parameters[which].len())
        .map(|i| {
            let mut at = |offset: f64| {
                moved[which][i] = parameters[which][i] + offset;
                let value = loss(&moved);
                moved[which][i] = parameters[which][i];
                value
            };
            (at(STEP) - at(-STEP)) / (2.0 * STEP)
        })
        .collect()
}

/// Returns the derivative of `loss` as `parameters[which]` moves along `direction`.
pub(super) fn directional_derivative(
    parameters: &[Vec<f64>],
    which: usize,
    direction: &[f32],
    loss: &dyn Fn(&[Vec<f64>]) -> f64,
) -> f64 {
    const STEP: f64 = 1e-5;
    let at = |offset: f64| {
        let mut moved = parameters.to_vec();
        moved[which].iter_mut().zip(direction).for_each(|(p, d)| *p += offset * f64::from(*d));
        loss(&moved)
    };
    (at(STEP) - at(-STEP)) / (2.0 * STEP)
}

pub(super) fn dot(a: &[f64], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * f64::from(*b)).sum()
}

/// Returns sizes of one, sizes around a vector and a tile, and a zero in every place.
pub(super) fn shapes() -> Vec<RecurrentShape> {
    [
        (1, 1, 1, 1),
        (2, 3, 5, 7),
        (7, 2, 3, 19),
        (13, 3, 4, 16),
        (3, 4, 17, 33),
        (9, 1, 5, 37),
        (2, 1, 0, 4),
        (0, 3, 2, 4),
        (2, 0, 3, 4),
        (2, 3, 0, 4),
        (2, 3, 4, 0),
    ]
    .map(|(batch, seq, d_in, d_hidden)| RecurrentShape { batch, seq, d_in, d_hidden })
    .to_vec()
}

/// Runs `test` in a pool of `threads` threads.
pub(super) fn in_pool<T: Send>(threads: usize, test: impl FnOnce() -> T + Send) -> T {
    crate::isa::pool(threads).install(test)
}

/// A layer under test, with its formula in f64.
pub(super) trait Layer: Sync {
    /// Returns name and length of each parameter.
    fn parameters(&self, shape: &RecurrentShape) -> Vec<(&'static str, usize)>;
    /// Returns the total length of all outputs.
    fn outputs(&self, shape: &RecurrentShape) -> usize;
    /// Computes the outputs by the formula.
    fn reference(&self, shape: &RecurrentShape, parameters: &[Vec<f64>]) -> Vec<f64>;
    /// Computes the outputs, and the gradients of `Σ grad · outputs` with respect to every parameter.
    fn run(&self, shape: &RecurrentShape, parameters: &[Vec<f32>], grad: &[f32]) -> (Vec<f32>, Vec<Vec<f32>>);
}

fn parameters_of(layer: &dyn Layer, shape: &RecurrentShape, scale: f32) -> Vec<Vec<f32>> {
    let scale = scale / (shape.d_hidden.max(1) as f32).sqrt();
    let sizes = layer.parameters(shape);
    sizes.iter().zip(1..).map(|((_, len), seed)| noise(seed, *len, scale)).collect()
}

/// Compares outputs and all gradients with the reference in f64, element by element.
pub(super) fn check_layer(layer: &dyn Layer, shape: &RecurrentShape, scale: f32) {
    let parameters = parameters_of(layer, shape, scale);
    let exact: Vec<Vec<f64>> = parameters.iter().map(|p| wide(p)).collect();
    let grad = noise(99, layer.outputs(shape), 1.0);
    // Working memory may hold anything from an earlier call.
    let mut kept = [(); 4].map(|_| Scratch::new(1 << 16));
    kept.iter_mut().for_each(|memory| memory.fill(f32::NAN));
    drop(kept);
    let (outputs, gradients) = layer.run(shape, &parameters, &grad);
    assert_close(&format!("{shape:?} outputs"), &outputs, &layer.reference(shape, &exact), 1e-6);
    let loss = |p: &[Vec<f64>]| dot(&layer.reference(shape, p), &grad);
    for (which, (name, _)) in layer.parameters(shape).iter().enumerate() {
        let want = finite_differences(&exact, which, &loss);
        // Large weights magnify rounding errors.
        let tolerance = 6e-6 * f64::from(scale).sqrt();
        assert_close(&format!("{shape:?} gradient of {name}"), &gradients[which], &want, tolerance);
    }
}

/// Checks a shape that is large enough for several threads: gradients along a direction, thread counts, repeatability.
pub(super) fn check_threads(layer: &dyn Layer, shape: &RecurrentShape) {
    let parameters = parameters_of(layer, shape, 1.0);
    let exact: Vec<Vec<f64>> = parameters.iter().map(|p| wide(p)).collect();
    let grad = noise(99, layer.outputs(shape), 1.0);
    let run = || layer.run(shape, &parameters, &grad);
    let (outputs, gradients) = in_pool(1, run);
    assert_close(&format!("{shape:?} outputs"), &outputs, &layer.reference(shape, &exact), 2e-6);
    let loss = |p: &[Vec<f64>]| dot(&layer.reference(shape, p), &grad);
    for (which, (name, _)) in layer.parameters(shape).iter().enumerate() {
        let direction = noise(7, parameters[which].len(), 1.0);
        let want = directional_derivative(&exact, which, &direction, &loss);
        let got = dot(&wide(&gradients[which]), &direction);
        let size = dot(&wide(&gradients[which]), &gradients[which]).sqrt();
        assert!((got - want).abs() < 1e-5 * (1.0 + size), "{shape:?} {name}: {got} and {want}, size {size}");
    }
    for threads in [2, 3] {
        let (first, second) = in_pool(threads, || (run(), run()));
        assert!(first == second, "{shape:?}: {threads} threads give different bits the second time");
        assert_close("outputs", &first.0, &wide(&outputs), 1e-6);
        for (which, (name, _)) in layer.parameters(shape).iter().enumerate() {
            let what = format!("{shape:?} gradient of {name}, {threads} threads");
            assert_close(&what, &first.1[which], &wide(&gradients[which]), 3e-6);
        }
    }
}
