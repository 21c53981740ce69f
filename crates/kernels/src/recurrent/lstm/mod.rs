//! Long short-term memory (Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000).
//!
//! ```text
//! i, f, o = σ(x_t W_ih + h_{t−1} W_hh + b)      g = tanh(x_t W_ih + h_{t−1} W_hh + b)
//! c_t = f ∘ c_{t−1} + i ∘ g                     h_t = o ∘ tanh(c_t)
//! ```
//!
//! The gates lie in PyTorch's order `i, f, g, o` along the last axis of the weights. There is one bias, the sum of
//! PyTorch's two.

mod backward;
mod forward;
#[cfg(test)]
mod tests;
pub mod window;

use self::backward::BackwardCell;
use self::forward::ForwardCell;
use super::panels::PanelColumns;
use super::time_loop::{BackwardPass, ForwardPass, SingleStep};
use super::weight_gradient::{Columns, Target, weight_gradients};
use super::{PreviousStates, RecurrentShape, in_pool, product, step_product};
use crate::error::{KernelError, check_sizes};
use crate::isa::dispatch;
use crate::matmul::Matrix;
use crate::scratch::Scratch;
use crate::shared_slice::SharedSlice;

/// Number of gates of a unit.
const GATES: usize = 4;

/// The parameters of the layer, gates in the order `i, f, g, o`.
#[derive(Debug, Clone, Copy)]
pub struct LstmWeights<'a> {
    /// Weights of the input, `[d_in, 4·d_hidden]`
    pub w_ih: &'a [f32],
    /// Weights of the state, `[d_hidden, 4·d_hidden]`
    pub w_hh: &'a [f32],
    /// Bias, `[4·d_hidden]`
    pub bias: &'a [f32],
}

/// Where [`lstm_backward`] writes the gradients. Old content is replaced.
#[derive(Debug)]
pub struct LstmGradients<'a> {
    /// Gradient of the input, `[batch, seq, d_in]`
    pub x: &'a mut [f32],
    /// Gradient of `w_ih`, `[d_in, 4·d_hidden]`
    pub w_ih: &'a mut [f32],
    /// Gradient of `w_hh`, `[d_hidden, 4·d_hidden]`
    pub w_hh: &'a mut [f32],
    /// Gradient of `bias`, `[4·d_hidden]`
    pub bias: &'a mut [f32],
    /// Gradient of `h0`, `[batch, d_hidden]`
    pub h0: &'a mut [f32],
    /// Gradient of `c0`, `[batch, d_hidden]`
    pub c0: &'a mut [f32],
}

/// Runs the layer over the sequence.
///
/// # Shapes
/// `x` `[batch, seq, d_in]`, `h0` and `c0` `[batch, d_hidden]`; out: `hidden` (every `h_t`) and `cells` (every `c_t`)
/// `[batch, seq, d_hidden]`, `gates` `[batch, seq, 4·d_hidden]`, the gates after their nonlinearity, which
/// [`lstm_backward`] needs.
#[allow(clippy::too_many_arguments)]
pub fn lstm_forward(
    shape: RecurrentShape,
    x: &[f32],
    weights: LstmWeights<'_>,
    h0: &[f32],
    c0: &[f32],
    hidden: &mut [f32],
    cells: &mut [f32],
    gates: &mut [f32],
) -> Result<(), KernelError> {
    check(shape, x, weights, h0, c0, hidden, cells, gates)?;
    if hidden.is_empty() {
        return Ok(());
    }
    in_pool(&shape, || {
        let (width, columns) = (GATES * shape.d_hidden, PanelColumns::GatesOfUnits);
        if shape.seq == 1 {
            step_product(shape.batch, x, weights.w_ih, gates)?;
            let mut sums = Scratch::new(gates.len());
            step_product(shape.batch, h0, weights.w_hh, &mut sums)?;
            let [hidden, cells, gates] = [hidden, cells, gates].map(SharedSlice::new);
            let cell = ForwardCell { shape, bias: weights.bias, c0, hidden, cells, gates };
            dispatch(SingleStep::<_, GATES> { shape, columns, sums: &sums, cell });
            return Ok(());
        }
        let x = Matrix::new(x, shape.rows(), shape.d_in)?;
        product(x, Matrix::new(weights.w_ih, shape.d_in, width)?, gates, width)?;
        let [hidden, cells, gates] = [hidden, cells, gates].map(SharedSlice::new);
        let cell = ForwardCell { shape, bias: weights.bias, c0, hidden, cells, gates };
        let w_hh = weights.w_hh;
        dispatch(ForwardPass::<_, GATES> { shape, w_hh, columns, h0, cell });
        Ok(())
    })
}

/// Computes the gradients of input, weights and initial state from those of every `h_t` and, if the cells are used outside,
/// of every `c_t`.
///
/// # Shapes
/// The shapes of [`lstm_forward`], with its results in `hidden`, `cells` and `gates`; `grad_hidden` and `grad_cells`
/// `[batch, seq, d_hidden]`.
///
/// `gates` is overwritten by the gradients of the gates before their nonlinearity.
#[allow(clippy::too_many_arguments)]
pub fn lstm_backward(
    shape: RecurrentShape,
    x: &[f32],
    weights: LstmWeights<'_>,
    h0: &[f32],
    c0: &[f32],
    hidden: &[f32],
    cells: &[f32],
    gates: &mut [f32],
    grad_hidden: &[f32],
    grad_cells: Option<&[f32]>,
    gradients: LstmGradients<'_>,
) -> Result<(), KernelError> {
    check(shape, x, weights, h0, c0, hidden, cells, gates)?;
    let RecurrentShape { batch, seq, d_in, d_hidden } = shape;
    check_sizes("grad_hidden", grad_hidden.len(), &[batch, seq, d_hidden])?;
    if let Some(grad_cells) = grad_cells {
        check_sizes("grad_cells", grad_cells.len(), &[batch, seq, d_hidden])?;
    }
    check_sizes("gradient of x", gradients.x.len(), &[batch, seq, d_in])?;
    check_sizes("gradient of w_ih", gradients.w_ih.len(), &[d_in, GATES, d_hidden])?;
    check_sizes("gradient of w_hh", gradients.w_hh.len(), &[d_hidden, GATES, d_hidden])?;
    check_sizes("gradient of bias", gradients.bias.len(), &[GATES, d_hidden])?;
    check_sizes("gradient of h0", gradients.h0.len(), &[batch, d_hidden])?;
    check_sizes("gradient of c0", gradients.c0.len(), &[batch, d_hidden])?;
    let LstmGradients { x: grad_x, w_ih, w_hh, bias, h0: grad_h0, c0: grad_c0 } = gradients;
    for zeroed in [&mut *bias, grad_h0, grad_c0] {
        zeroed.fill(0.0);
    }
    if hidden.is_empty() {
        [grad_x, w_ih, w_hh].into_iter().for_each(|empty| empty.fill(0.0));
        return Ok(());
    }
    in_pool(&shape, || {
        let width = GATES * d_hidden;
        let (grad_c, grad_h0) = (SharedSlice::new(grad_c0), SharedSlice::new(grad_h0));
        let cell = BackwardCell { shape, c0, cells, gates: SharedSlice::new(gates), grad_hidden, grad_cells, grad_c };
        dispatch(BackwardPass { shape, w_hh: weights.w_hh, depth: width, bias, grad_h0, cell });
        let rows = shape.rows();
        let grad_gates = Matrix::new(gates, rows, width)?;
        product(grad_gates, Matrix::new(weights.w_ih, d_in, width)?.transposed(), grad_x, d_in)?;
        let grad = Columns { data: gates, stride: width, first: 0, count: width };
        let x = Columns { data: x, stride: d_in, first: 0, count: d_in };
        let previous = PreviousStates { shape, h0, hidden };
        let targets = [Target { source: &x, out: w_ih }, Target { source: &previous, out: w_hh }];
        weight_gradients(rows, grad, targets, width, 0)
    })
}

#[allow(clippy::too_many_arguments)]
fn check(
    shape: RecurrentShape,
    x: &[f32],
    weights: LstmWeights<'_>,
    h0: &[f32],
    c0: &[f32],
    hidden: &[f32],
    cells: &[f32],
    gates: &[f32],
) -> Result<(), KernelError> {
    let RecurrentShape { batch, seq, d_in, d_hidden } = shape;
    check_sizes("x", x.len(), &[batch, seq, d_in])?;
    check_sizes("w_ih", weights.w_ih.len(), &[d_in, GATES, d_hidden])?;
    check_sizes("w_hh", weights.w_hh.len(), &[d_hidden, GATES, d_hidden])?;
    check_sizes("bias", weights.bias.len(), &[GATES, d_hidden])?;
    check_sizes("h0", h0.len(), &[batch, d_hidden])?;
    check_sizes("c0", c0.len(), &[batch, d_hidden])?;
    check_sizes("hidden", hidden.len(), &[batch, seq, d_hidden])?;
    check_sizes("cells", cells.len(), &[batch, seq, d_hidden])?;
    check_sizes("gates", gates.len(), &[batch, seq, GATES, d_hidden])
}
