//! Recurrent networks over a sequence: [`lstm`], [`gru`] and the plain tanh network [`rnn`].
//!
//! All three have the same structure. The input projections of all steps are one matrix product before the time loop, and
//! the gradients of the weights and of the input are products after it. Only `h_{t−1} W_hh` stays inside the loop: its
//! weights are packed once into column panels, the batch (or, for small batches, the hidden units) is split over a team of
//! threads, and the nonlinearity of a step is applied to the sums while they are in cache. A sequence of one step, as in decoding,
//! packs nothing.
//!
//! Weights are `[from, to]`, as in `x W`: the transpose of PyTorch's `weight_ih_l0`.

pub mod gru;
pub mod lstm;
mod panels;
pub mod rnn;
mod states;
mod team;
#[cfg(test)]
mod testing;
mod time_loop;
mod weight_gradient;

use pulp::Simd;

use self::weight_gradient::RowSource;
use crate::error::KernelError;
use crate::linear::LinearShape;
use crate::linear_weight::LinearWeight;
use crate::matmul::{Matrix, Output, Threads, matmul};

/// The sizes of a recurrent layer and of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecurrentShape {
    /// Number of sequences.
    pub batch: usize,
    /// Number of steps of each sequence.
    pub seq: usize,
    /// Number of features of the input.
    pub d_in: usize,
    /// Number of hidden units.
    pub d_hidden: usize,
}

impl RecurrentShape {
    /// Returns the number of rows of the products outside the time loop.
    fn rows(&self) -> usize {
        self.batch * self.seq
    }
}

/// Number of multiply-adds below which a call stays on its thread.
const SERIAL_WORK: usize = 1 << 18;

/// Runs a whole pass on a thread of the pool: each entry into the pool costs 20 to 50 µs, and a pass makes up to nine.
fn in_pool<T: Send>(shape: &RecurrentShape, pass: impl FnOnce() -> T + Send) -> T {
    let columns = shape.d_in.saturating_add(shape.d_hidden);
    if shape.rows().saturating_mul(shape.d_hidden).saturating_mul(columns) < SERIAL_WORK {
        pass()
    } else {
        rayon::join(pass, || ()).0
    }
}

/// The rows `h_{t−1}` for every `(batch, step)`: `h0`, then `hidden` without its last step.
struct PreviousStates<'a> {
    shape: RecurrentShape,
    h0: &'a [f32],
    hidden: &'a [f32],
}

impl RowSource for PreviousStates<'_> {
    fn width(&self) -> usize {
        self.shape.d_hidden
    }

    fn row(&self, index: usize) -> &[f32] {
        let width = self.shape.d_hidden;
        match index % self.shape.seq {
            0 => &self.h0[index / self.shape.seq * width..][..width],
            _ => &self.hidden[(index - 1) * width..][..width],
        }
    }
}

/// Returns the columns `first..first + cols` of a row-major buffer of `rows` rows, `width` elements apart.
fn columns(data: &[f32], rows: usize, width: usize, first: usize, cols: usize) -> Result<Matrix<'_>, KernelError> {
    Matrix::strided(data.get(first..).unwrap_or(&[]), rows, cols, width, 1)
}

/// Computes `out = a b` on all threads; zero if the inner size is zero.
fn product(a: Matrix<'_>, b: Matrix<'_>, out: &mut [f32], row_stride: usize) -> Result<(), KernelError> {
    matmul(a, b, out, row_stride, Output::Replace, Threads::Pool)
}

/// Computes `out = x W` for one step. A row of `out` has the same bits whatever other rows are computed with it.
///
/// # Shapes
/// `x` `[batch, depth]`, `weight` `[depth, width]`, `out` `[batch, width]`.
fn step_product(batch: usize, x: &[f32], weight: &[f32], out: &mut [f32]) -> Result<(), KernelError> {
    let (d_in, d_out) = (x.len() / batch, out.len() / batch);
    let weight = LinearWeight::from(Matrix::new(weight, d_in, d_out)?);
    weight.product(LinearShape { rows: batch, d_in, d_out }, x, out)
}

/// Returns the gradient before a logistic function whose value is `s`: `σ' = s (1 − s)`.
#[inline(always)]
fn through_sigmoid<S: Simd>(simd: S, s: S::f32s, grad: S::f32s) -> S::f32s {
    simd.mul_f32s(simd.mul_f32s(grad, s), simd.sub_f32s(simd.splat_f32s(1.0), s))
}

/// Returns the gradient before a `tanh` whose value is `t`: `tanh' = 1 − t²`.
#[inline(always)]
fn through_tanh<S: Simd>(simd: S, t: S::f32s, grad: S::f32s) -> S::f32s {
    simd.mul_f32s(grad, simd.sub_f32s(simd.splat_f32s(1.0), simd.mul_f32s(t, t)))
}

/// Prefetches the cache line of an address that will be read soon; the address need not be valid.
#[inline(always)]
fn prefetch(address: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, and every x86-64 processor has it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
