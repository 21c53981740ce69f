//! Gated recurrent units (Cho et al. 2014), with the reset gate before or after the product.
//!
//! ```text
//! r, z = σ(x_t W_ih + b_ih + h_{t−1} W_hh + b_hh)
//! n = tanh(x_t W_in + b_in + r ∘ (h_{t−1} W_hn + b_hn))     GruReset::AfterProduct
//! n = tanh(x_t W_in + b_in + (r ∘ h_{t−1}) W_hn + b_hn)     GruReset::BeforeProduct
//! h_t = (1 − z) ∘ n + z ∘ h_{t−1}
//! ```
//!
//! The gates lie in PyTorch's order `r, z, n` along the last axis of the weights.

mod after_product;
mod before_product;
mod cell;
#[cfg(test)]
mod tests;

use self::cell::{BackwardMemory, ForwardMemory};
use super::panels::PanelColumns;
use super::time_loop::{BackwardPass, ForwardPass, SingleStep};
use super::weight_gradient::{Columns, RowSource, Target, weight_gradients};
use super::{PreviousStates, RecurrentShape, columns, in_pool, product, step_product};
use crate::error::{KernelError, check_sizes};
use crate::isa::dispatch;
use crate::matmul::Matrix;
use crate::scratch::Scratch;
use crate::shared_slice::SharedSlice;

/// Number of gates of a unit.
const GATES: usize = 3;
/// Number of values stored for each unit and step: `r, z, n` and, by [`GruReset`], `h_{t−1} W_hn + b_hn` or `r ∘ h_{t−1}`.
const SAVED: usize = 4;

/// The place where the reset gate acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GruReset {
    /// On `h_{t−1} W_hn + b_hn`, as in PyTorch and cuDNN.
    AfterProduct,
    /// On `h_{t−1}`, as in Cho et al. 2014.
    BeforeProduct,
}

/// The parameters of the layer, gates in the order `r, z, n`.
#[derive(Debug, Clone, Copy)]
pub struct GruWeights<'a> {
    /// Weights of the input, `[d_in, 3·d_hidden]`
    pub w_ih: &'a [f32],
    /// Weights of the state, `[d_hidden, 3·d_hidden]`
    pub w_hh: &'a [f32],
    /// Bias of the input projection, `[3·d_hidden]`
    pub bias_ih: &'a [f32],
    /// Bias of the state projection, `[3·d_hidden]`
    pub bias_hh: &'a [f32],
}

/// Where [`gru_backward`] writes the gradients. Old content is replaced.
#[derive(Debug)]
pub struct GruGradients<'a> {
    /// Gradient of the input, `[batch, seq, d_in]`
    pub x: &'a mut [f32],
    /// Gradient of `w_ih`, `[d_in, 3·d_hidden]`
    pub w_ih: &'a mut [f32],
    /// Gradient of `w_hh`, `[d_hidden, 3·d_hidden]`
    pub w_hh: &'a mut [f32],
    /// Gradient of `bias_ih`, `[3·d_hidden]`
    pub bias_ih: &'a mut [f32],
    /// Gradient of `bias_hh`, `[3·d_hidden]`
    pub bias_hh: &'a mut [f32],
    /// Gradient of `h0`, `[batch, d_hidden]`
    pub h0: &'a mut [f32],
}

/// Returns the length of `saved` in [`gru_forward`] and [`gru_backward`], `batch · seq · 4·d_hidden`.
pub fn gru_saved_len(shape: RecurrentShape) -> usize {
    [shape.seq, SAVED, shape.d_hidden].iter().fold(shape.batch, |len, &size| len.saturating_mul(size))
}

/// Runs the layer over the sequence.
///
/// # Shapes
/// `x` `[batch, seq, d_in]`, `h0` `[batch, d_hidden]`; out: `hidden` (every `h_t`) `[batch, seq, d_hidden]` and `saved`
/// ([`gru_saved_len`]), which [`gru_backward`] needs.
pub fn gru_forward(
    shape: RecurrentShape,
    reset: GruReset,
    x: &[f32],
    weights: GruWeights<'_>,
    h0: &[f32],
    hidden: &mut [f32],
    saved: &mut [f32],
) -> Result<(), KernelError> {
    check(shape, x, weights, h0, hidden, saved)?;
    if hidden.is_empty() {
        return Ok(());
    }
    in_pool(&shape, || {
        if shape.seq == 1 && reset == GruReset::AfterProduct {
            return single_step(shape, x, weights, h0, hidden, saved);
        }
        let x = Matrix::new(x, shape.rows(), shape.d_in)?;
        let w_ih = Matrix::new(weights.w_ih, shape.d_in, GATES * shape.d_hidden)?;
        product(x, w_ih, saved, SAVED * shape.d_hidden)?;
        let (hidden, saved) = (SharedSlice::new(hidden), SharedSlice::new(saved));
        let memory = ForwardMemory { shape, weights, h0, hidden, saved };
        match reset {
            GruReset::AfterProduct => {
                let (w_hh, columns) = (weights.w_hh, PanelColumns::GatesOfUnits);
                let cell = after_product::ForwardCell(memory);
                dispatch(ForwardPass::<_, GATES> { shape, w_hh, columns, h0, cell });
            }
            GruReset::BeforeProduct => dispatch(before_product::Forward(memory)),
        }
        Ok(())
    })
}

/// Runs the layer, which resets after the product, over a sequence of one step.
fn single_step(
    shape: RecurrentShape,
    x: &[f32],
    weights: GruWeights<'_>,
    h0: &[f32],
    hidden: &mut [f32],
    saved: &mut [f32],
) -> Result<(), KernelError> {
    let RecurrentShape { batch, d_hidden, .. } = shape;
    let (width, columns) = (GATES * d_hidden, PanelColumns::GatesOfUnits);
    let mut sums = Scratch::new(batch * width);
    step_product(batch, x, weights.w_ih, &mut sums)?;
    for (saved, sums) in saved.chunks_exact_mut(SAVED * d_hidden).zip(sums.chunks_exact(width)) {
        saved[..width].copy_from_slice(sums);
    }
    step_product(batch, h0, weights.w_hh, &mut sums)?;
    let (hidden, saved) = (SharedSlice::new(hidden), SharedSlice::new(saved));
    let cell = after_product::ForwardCell(ForwardMemory { shape, weights, h0, hidden, saved });
    dispatch(SingleStep::<_, GATES> { shape, columns, sums: &sums, cell });
    Ok(())
}

/// Computes the gradients of input, weights and initial state from those of every `h_t`.
///
/// # Shapes
/// The shapes of [`gru_forward`], with its results in `hidden` and `saved`; `grad_hidden` `[batch, seq, d_hidden]`.
///
/// `saved` is overwritten by the gradients before the nonlinearities.
#[allow(clippy::too_many_arguments)]
pub fn gru_backward(
    shape: RecurrentShape,
    reset: GruReset,
    x: &[f32],
    weights: GruWeights<'_>,
    h0: &[f32],
    hidden: &[f32],
    saved: &mut [f32],
    grad_hidden: &[f32],
    gradients: GruGradients<'_>,
) -> Result<(), KernelError> {
    check(shape, x, weights, h0, hidden, saved)?;
    let RecurrentShape { batch, seq, d_in, d_hidden } = shape;
    check_sizes("grad_hidden", grad_hidden.len(), &[batch, seq, d_hidden])?;
    check_sizes("gradient of x", gradients.x.len(), &[batch, seq, d_in])?;
    check_sizes("gradient of w_ih", gradients.w_ih.len(), &[d_in, GATES, d_hidden])?;
    check_sizes("gradient of w_hh", gradients.w_hh.len(), &[d_hidden, GATES, d_hidden])?;
    check_sizes("gradient of bias_ih", gradients.bias_ih.len(), &[GATES, d_hidden])?;
    check_sizes("gradient of bias_hh", gradients.bias_hh.len(), &[GATES, d_hidden])?;
    check_sizes("gradient of h0", gradients.h0.len(), &[batch, d_hidden])?;
    let GruGradients { x: grad_x, w_ih, w_hh, bias_ih, bias_hh, h0: grad_h0 } = gradients;
    grad_h0.fill(0.0);
    if hidden.is_empty() {
        [grad_x, w_ih, w_hh, bias_ih, bias_hh].into_iter().for_each(|zeroed| zeroed.fill(0.0));
        return Ok(());
    }
    in_pool(&shape, || {
        // Sums of the gradients of the four values in `saved`.
        let mut bias = vec![0.0; SAVED * d_hidden];
        let grad_h0 = SharedSlice::new(grad_h0);
        let memory = BackwardMemory { shape, h0, hidden, saved: SharedSlice::new(saved), grad_hidden, grad_h: grad_h0 };
        match reset {
            GruReset::AfterProduct => {
                let (depth, cell) = (GATES * d_hidden, after_product::BackwardCell(memory));
                dispatch(BackwardPass { shape, w_hh: weights.w_hh, depth, bias: &mut bias, grad_h0, cell });
            }
            GruReset::BeforeProduct => {
                dispatch(before_product::Backward { memory, w_hh: weights.w_hh, bias: &mut bias });
            }
        }
        let (both, width) = (2 * d_hidden, GATES * d_hidden);
        bias_ih.copy_from_slice(&bias[..width]);
        bias_hh.copy_from_slice(&bias[..width]);
        if reset == GruReset::AfterProduct {
            bias_hh[both..].copy_from_slice(&bias[width..]);
        }
        let rows = shape.rows();
        let grad_gates = columns(saved, rows, SAVED * d_hidden, 0, width)?;
        product(grad_gates, Matrix::new(weights.w_ih, d_in, width)?.transposed(), grad_x, d_in)?;
        let part = |first, count| Columns { data: saved, stride: SAVED * d_hidden, first, count };
        let x = Columns { data: x, stride: d_in, first: 0, count: d_in };
        let previous = PreviousStates { shape, h0, hidden };
        weight_gradients(rows, part(0, width), [Target { source: &x, out: w_ih }], width, 0)?;
        weight_gradients(rows, part(0, both), [Target { source: &previous, out: w_hh }], width, 0)?;
        let reset_states = part(width, d_hidden);
        let (grad, source): (_, &dyn RowSource) = match reset {
            GruReset::AfterProduct => (part(width, d_hidden), &previous),
            GruReset::BeforeProduct => (part(both, d_hidden), &reset_states),
        };
        weight_gradients(rows, grad, [Target { source, out: w_hh }], width, both)
    })
}

fn check(
    shape: RecurrentShape,
    x: &[f32],
    weights: GruWeights<'_>,
    h0: &[f32],
    hidden: &[f32],
    saved: &[f32],
) -> Result<(), KernelError> {
    let RecurrentShape { batch, seq, d_in, d_hidden } = shape;
    check_sizes("x", x.len(), &[batch, seq, d_in])?;
    check_sizes("w_ih", weights.w_ih.len(), &[d_in, GATES, d_hidden])?;
    check_sizes("w_hh", weights.w_hh.len(), &[d_hidden, GATES, d_hidden])?;
    check_sizes("bias_ih", weights.bias_ih.len(), &[GATES, d_hidden])?;
    check_sizes("bias_hh", weights.bias_hh.len(), &[GATES, d_hidden])?;
    check_sizes("h0", h0.len(), &[batch, d_hidden])?;
    check_sizes("hidden", hidden.len(), &[batch, seq, d_hidden])?;
    check_sizes("saved", saved.len(), &[batch, seq, SAVED, d_hidden])
}
