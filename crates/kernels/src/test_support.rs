//! Support for the tests of several kernels: reproducible numbers, comparisons, finite differences.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::isa::Isa;

/// Returns the result of `run`; fails after a minute and names `what` still waits, since threads that wait for each other
/// would wait for ever.
#[track_caller]
pub(crate) fn in_time<T: Send + 'static>(what: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = channel();
    let worker = std::thread::spawn(move || send.send(run()));
    match receive.recv_timeout(Duration::from_secs(60)) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => panic!("{what}: still waiting after 60 s"),
        Err(RecvTimeoutError::Disconnected) => std::panic::resume_unwind(worker.join().unwrap_err()),
    }
}

/// Returns `n` numbers in `−scale..scale` that depend on `seed` alone.
pub(crate) fn numbers(n: usize, seed: u64, scale: f32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..8 {
        next();
    }
    (0..n).map(|_| ((next() >> 40) as f32 / 8_388_608.0 - 1.0) * scale).collect()
}

/// Converts numbers to double precision.
pub(crate) fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().copied().map(f64::from).collect()
}

/// Asserts `|got − want| ≤ absolute + relative·|want|` for each element; equal infinities and NaN with NaN agree.
#[track_caller]
pub(crate) fn assert_close(what: &str, isa: Isa, got: &[f32], want: &[f64], absolute: f64, relative: f64) {
    assert_eq!(got.len(), want.len(), "{what} on {isa:?}: length");
    for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
        let got = f64::from(got);
        let agree = got == want || (got.is_nan() && want.is_nan());
        let error = (got - want).abs();
        assert!(
            agree || error <= absolute + relative * want.abs(),
            "{what} on {isa:?}: element {i} is {got}, expected {want}, off by {error}"
        );
    }
}

/// Asserts that every element has at most this relative error.
///
/// An element is a sum of terms, and its rounding error is relative to the terms. Where they cancel, the element is much
/// smaller than they are, but other elements of the tensor are sums of similar terms. So the error is relative to the
/// largest of the element, the root mean square of the tensor and `least`, the size of terms that may cancel in all
/// elements.
#[track_caller]
pub(crate) fn assert_relative(what: &str, got: &[f32], want: &[f64], least: f64, tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    let square = want.iter().map(|want| want * want).sum::<f64>() / want.len().max(1) as f64;
    let floor = square.sqrt().max(least);
    for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(got) - want).abs() / want.abs().max(floor);
        assert!(error <= tolerance, "{what}[{i}]: {got}, expected {want}: relative error {error:e}");
    }
}

/// Returns the gradient of `f` at `x` by central differences.
pub(crate) fn central_differences(x: &[f64], f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let mut x = x.to_vec();
    (0..x.len())
        .map(|i| {
            let (centre, step) = (x[i], 1e-5);
            x[i] = centre + step;
            let above = f(&x);
            x[i] = centre - step;
            let below = f(&x);
            x[i] = centre;
            (above - below) / (2.0 * step)
        })
        .collect()
}

/// Returns `Σ x[i] y[i]`.
pub(crate) fn inner(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}
