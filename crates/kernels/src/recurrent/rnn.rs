//! The plain recurrent network (Elman 1990).
//!
//! ```text
//! h_t = tanh(x_t W_ih + h_{t−1} W_hh + b)
//! ```

use pulp::Simd;

use super::panels::PanelColumns;
use super::time_loop::{BackwardPass, ForwardPass, SingleStep, Step, UnitCell};
use super::weight_gradient::{Columns, Target, weight_gradients};
use super::{PreviousStates, RecurrentShape, in_pool, product, step_product, through_tanh};
use crate::error::{KernelError, check_sizes};
use crate::isa::dispatch;
use crate::matmul::Matrix;
use crate::scratch::Scratch;
use crate::shared_slice::SharedSlice;
use crate::vector::{load, tanh};

#[cfg(test)]
mod tests;

/// The parameters of the layer.
#[derive(Debug, Clone, Copy)]
pub struct RnnWeights<'a> {
    /// Weights of the input, `[d_in, d_hidden]`
    pub w_ih: &'a [f32],
    /// Weights of the state, `[d_hidden, d_hidden]`
    pub w_hh: &'a [f32],
    /// Bias, `[d_hidden]`
    pub bias: &'a [f32],
}

/// Where [`rnn_backward`] writes the gradients. Old content is replaced.
#[derive(Debug)]
pub struct RnnGradients<'a> {
    /// Gradient of the input, `[batch, seq, d_in]`
    pub x: &'a mut [f32],
    /// Gradient of `w_ih`, `[d_in, d_hidden]`
    pub w_ih: &'a mut [f32],
    /// Gradient of `w_hh`, `[d_hidden, d_hidden]`
    pub w_hh: &'a mut [f32],
    /// Gradient of `bias`, `[d_hidden]`
    pub bias: &'a mut [f32],
    /// Gradient of `h0`, `[batch, d_hidden]`
    pub h0: &'a mut [f32],
}

/// Runs the layer over the sequence.
///
/// # Shapes
/// `x` `[batch, seq, d_in]`, `h0` `[batch, d_hidden]`; out: `hidden` (every `h_t`) `[batch, seq, d_hidden]`.
pub fn rnn_forward(
    shape: RecurrentShape,
    x: &[f32],
    weights: RnnWeights<'_>,
    h0: &[f32],
    hidden: &mut [f32],
) -> Result<(), KernelError> {
    check(shape, x, weights, h0, hidden)?;
    if hidden.is_empty() {
        return Ok(());
    }
    in_pool(&shape, || {
        let columns = PanelColumns::Units;
        if shape.seq == 1 {
            step_product(shape.batch, x, weights.w_ih, hidden)?;
            let mut sums = Scratch::new(hidden.len());
            step_product(shape.batch, h0, weights.w_hh, &mut sums)?;
            let cell = ForwardCell { shape, bias: weights.bias, hidden: SharedSlice::new(hidden) };
            dispatch(SingleStep { shape, columns, sums: &sums, cell });
            return Ok(());
        }
        let x = Matrix::new(x, shape.rows(), shape.d_in)?;
        product(x, Matrix::new(weights.w_ih, shape.d_in, shape.d_hidden)?, hidden, shape.d_hidden)?;
        let cell = ForwardCell { shape, bias: weights.bias, hidden: SharedSlice::new(hidden) };
        let w_hh = weights.w_hh;
        dispatch(ForwardPass { shape, w_hh, columns, h0, cell });
        Ok(())
    })
}

/// Computes the gradients of input, weights and initial state from those of every `h_t`.
///
/// # Shapes
/// The shapes of [`rnn_forward`], with its result in `hidden`; `grad_hidden` `[batch, seq, d_hidden]`.
pub fn rnn_backward(
    shape: RecurrentShape,
    x: &[f32],
    weights: RnnWeights<'_>,
    h0: &[f32],
    hidden: &[f32],
    grad_hidden: &[f32],
    gradients: RnnGradients<'_>,
) -> Result<(), KernelError> {
    check(shape, x, weights, h0, hidden)?;
    let RecurrentShape { batch, seq, d_in, d_hidden } = shape;
    check_sizes("grad_hidden", grad_hidden.len(), &[batch, seq, d_hidden])?;
    check_sizes("gradient of x", gradients.x.len(), &[batch, seq, d_in])?;
    check_sizes("gradient of w_ih", gradients.w_ih.len(), &[d_in, d_hidden])?;
    check_sizes("gradient of w_hh", gradients.w_hh.len(), &[d_hidden, d_hidden])?;
    check_sizes("gradient of bias", gradients.bias.len(), &[d_hidden])?;
    check_sizes("gradient of h0", gradients.h0.len(), &[batch, d_hidden])?;
    let RnnGradients { x: grad_x, w_ih, w_hh, bias, h0: grad_h0 } = gradients;
    for zeroed in [&mut *bias, grad_h0] {
        zeroed.fill(0.0);
    }
    if hidden.is_empty() {
        [grad_x, w_ih, w_hh].into_iter().for_each(|zeroed| zeroed.fill(0.0));
        return Ok(());
    }
    in_pool(&shape, || {
        let mut grad_before = vec![0.0; hidden.len()];
        let cell = BackwardCell { shape, hidden, grad_hidden, grad_before: SharedSlice::new(&mut grad_before) };
        let grad_h0 = SharedSlice::new(grad_h0);
        dispatch(BackwardPass { shape, w_hh: weights.w_hh, depth: d_hidden, bias, grad_h0, cell });
        let rows = shape.rows();
        let grad = Matrix::new(&grad_before, rows, d_hidden)?;
        product(grad, Matrix::new(weights.w_ih, d_in, d_hidden)?.transposed(), grad_x, d_in)?;
        let grad = Columns { data: &grad_before, stride: d_hidden, first: 0, count: d_hidden };
        let x = Columns { data: x, stride: d_in, first: 0, count: d_in };
        let previous = PreviousStates { shape, h0, hidden };
        let targets = [Target { source: &x, out: w_ih }, Target { source: &previous, out: w_hh }];
        weight_gradients(rows, grad, targets, d_hidden, 0)
    })
}

fn check(
    shape: RecurrentShape,
    x: &[f32],
    weights: RnnWeights<'_>,
    h0: &[f32],
    hidden: &[f32],
) -> Result<(), KernelError> {
    let RecurrentShape { batch, seq, d_in, d_hidden } = shape;
    check_sizes("x", x.len(), &[batch, seq, d_in])?;
    check_sizes("w_ih", weights.w_ih.len(), &[d_in, d_hidden])?;
    check_sizes("w_hh", weights.w_hh.len(), &[d_hidden, d_hidden])?;
    check_sizes("bias", weights.bias.len(), &[d_hidden])?;
    check_sizes("h0", h0.len(), &[batch, d_hidden])?;
    check_sizes("hidden", hidden.len(), &[batch, seq, d_hidden])
}

/// Computes `h_t` from the sums of `h_{t−1} W_hh` and the input projections in `hidden`.
struct ForwardCell<'a> {
    shape: RecurrentShape,
    bias: &'a [f32],
    /// `h_t` of the steps done and input projections of the others, `[batch, seq, d_hidden]`.
    hidden: SharedSlice<'a>,
}

impl UnitCell for ForwardCell<'_> {
    #[inline(always)]
    fn unit_vector<S: Simd>(&self, simd: S, step: Step<'_>, row: usize, unit: usize, count: usize, sum: S::f32s) {
        let at = (row * self.shape.seq + step.index) * self.shape.d_hidden + unit;
        let bias = load(simd, &self.bias[unit..][..count]);
        // SAFETY: the row and the units belong to this part alone until the barrier after the step.
        unsafe {
            let projected = self.hidden.load(simd, at, count);
            let h = tanh(simd, simd.add_f32s(simd.add_f32s(sum, projected), bias));
            self.hidden.store(simd, at, count, h);
            step.store_state(simd, row, unit, count, h);
        }
    }
}

/// Computes the gradients before the `tanh` from those of `h_t`.
struct BackwardCell<'a> {
    shape: RecurrentShape,
    hidden: &'a [f32],
    grad_hidden: &'a [f32],
    /// Gradient before the `tanh`, `[batch, seq, d_hidden]`.
    grad_before: SharedSlice<'a>,
}

impl UnitCell for BackwardCell<'_> {
    #[inline(always)]
    fn unit_vector<S: Simd>(&self, simd: S, step: Step<'_>, row: usize, unit: usize, count: usize, from_next: S::f32s) {
        let at = (row * self.shape.seq + step.index) * self.shape.d_hidden + unit;
        let grad_h = simd.add_f32s(from_next, load(simd, &self.grad_hidden[at..][..count]));
        let grad = through_tanh(simd, load(simd, &self.hidden[at..][..count]), grad_h);
        // SAFETY: the row and the units belong to this part alone until the barrier after the step, and so do the
        // units of the row group's bias.
        unsafe {
            self.grad_before.store(simd, at, count, grad);
            step.store_state(simd, row, unit, count, grad);
            step.add_bias(simd, unit, count, grad);
        }
    }
}
