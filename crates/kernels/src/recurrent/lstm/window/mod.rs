//! LSTM with a Gaussian window over a text among its inputs, the first layer of handwriting synthesis (Graves 2013).
//!
//! ```text
//! h_t, c_t = LSTM([x_t; w_{t−1}], h_{t−1}, c_{t−1})
//! (α̂, β̂, κ̂) = h_t W + b           β = exp β̂,  κ_t = κ_{t−1} + exp κ̂
//! φ(t, u) = Σ_k exp(α̂_k − β_k (κ_k − u)²)           u = 1 … U
//! w_t = Σ_u φ(t, u) e(character u)
//! ```
//! `e` is a one-hot vector, and all states are zero before the first step. A step needs the window of the step before it, so
//! the layer is not a loop of LSTM steps after all input projections, as in [`super`]: the product of a step has the rows of
//! `W_hh` and those of `W_ih` that belong to the window.
//!
//! Backward, with `d = κ_k − u`, `E = exp(α̂_k − β_k d²)` and the gradient `g(u)` of `φ(t, u)`:
//!
//! ```text
//! ∂α̂_k = Σ_u g(u) E      ∂β̂_k = −β_k Σ_u g(u) E d²      ∂κ_k = −2 β_k Σ_u g(u) E d + ∂κ_k of step t + 1
//! ∂κ̂_k = ∂κ_k exp κ̂_k
//! ```

mod backward;
mod forward;
#[cfg(test)]
mod tests;

use self::backward::BackwardLoop;
use self::forward::ForwardLoop;
use super::super::weight_gradient::{Columns, Target, weight_gradients};
use super::super::{PreviousStates, RecurrentShape, in_pool, product};
use super::{GATES, LstmWeights};
use crate::error::{KernelError, check_sizes};
use crate::isa::dispatch;
use crate::matmul::{Matrix, transpose};

/// The largest `α̂`; a larger one counts as this one and gets no gradient.
pub const MAX_LOG_HEIGHT: f32 = 20.0;
/// The largest `β̂`.
pub const MAX_LOG_SHARPNESS: f32 = 20.0;
/// The largest `κ̂`.
pub const MAX_LOG_MOVE: f32 = 10.0;

/// The sizes of the layer and of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowShape {
    /// Sizes of the LSTM; `d_in` does not count the window.
    pub lstm: RecurrentShape,
    /// Number of distinct characters, the width of the window.
    pub d_char: usize,
    /// Number of Gaussians.
    pub n_components: usize,
}

/// The parameters of the layer.
#[derive(Debug, Clone, Copy)]
pub struct WindowWeights<'a> {
    /// Weights of the LSTM; `w_ih` is `[d_in + d_char, 4·d_hidden]`.
    pub lstm: LstmWeights<'a>,
    /// `W`, `[d_hidden, 3·n_components]`: all of `α̂`, then `β̂`, then `κ̂`.
    pub projection: &'a [f32],
    /// `b`, `[3·n_components]`.
    pub projection_bias: &'a [f32],
}

/// What the forward pass writes.
#[derive(Debug)]
pub struct WindowStates<'a> {
    /// Every `h_t`, `[batch, seq, d_hidden]`.
    pub hidden: &'a mut [f32],
    /// Every `w_t`, `[batch, seq, d_char]`.
    pub windows: &'a mut [f32],
    /// Every `c_t`, `[batch, seq, d_hidden]`.
    pub cells: &'a mut [f32],
    /// Gates after their nonlinearity, `[batch, seq, 4·d_hidden]`.
    pub gates: &'a mut [f32],
    /// `α̂`, `β̂` and `κ̂` of every step before they are limited, `[batch, seq, 3·n_components]`.
    pub raw: &'a mut [f32],
    /// Every `κ_t`, `[batch, seq, n_components]`.
    pub positions: &'a mut [f32],
}

/// What the backward pass reads of the forward pass.
#[derive(Debug)]
pub struct WindowSaved<'a> {
    /// Every `h_t`.
    pub hidden: &'a [f32],
    /// Every `w_t`.
    pub windows: &'a [f32],
    /// Every `c_t`.
    pub cells: &'a [f32],
    /// Gates after their nonlinearity; overwritten by their gradients before it.
    pub gates: &'a mut [f32],
    /// `α̂`, `β̂` and `κ̂`; overwritten by their gradients.
    pub raw: &'a mut [f32],
    /// Every `κ_t`.
    pub positions: &'a [f32],
}

/// Where [`window_backward`] writes the gradients. Old content is replaced.
#[derive(Debug)]
pub struct WindowGradients<'a> {
    /// Gradient of the input, `[batch, seq, d_in]`.
    pub x: &'a mut [f32],
    /// Gradient of `w_ih`, `[d_in + d_char, 4·d_hidden]`.
    pub w_ih: &'a mut [f32],
    /// Gradient of `w_hh`, `[d_hidden, 4·d_hidden]`.
    pub w_hh: &'a mut [f32],
    /// Gradient of the bias of the gates, `[4·d_hidden]`.
    pub bias: &'a mut [f32],
    /// Gradient of `projection`, `[d_hidden, 3·n_components]`.
    pub projection: &'a mut [f32],
    /// Gradient of `projection_bias`, `[3·n_components]`.
    pub projection_bias: &'a mut [f32],
}

/// Runs the layer over the sequences.
///
/// # Shapes
/// `x` `[batch, seq, d_in]`; `texts` has a text of characters below `d_char` for each sequence; the others as in
/// [`WindowWeights`] and [`WindowStates`].
pub fn window_forward(
    shape: WindowShape,
    x: &[f32],
    texts: &[Vec<u32>],
    weights: WindowWeights<'_>,
    states: WindowStates<'_>,
) -> Result<(), KernelError> {
    let RecurrentShape { batch, seq, d_in, d_hidden } = shape.lstm;
    check(shape, x, texts, weights)?;
    check_sizes("hidden", states.hidden.len(), &[batch, seq, d_hidden])?;
    check_sizes("windows", states.windows.len(), &[batch, seq, shape.d_char])?;
    check_sizes("cells", states.cells.len(), &[batch, seq, d_hidden])?;
    check_sizes("gates", states.gates.len(), &[batch, seq, GATES, d_hidden])?;
    check_sizes("raw", states.raw.len(), &[batch, seq, 3, shape.n_components])?;
    check_sizes("positions", states.positions.len(), &[batch, seq, shape.n_components])?;
    if states.hidden.is_empty() {
        [states.windows, states.raw, states.positions].into_iter().for_each(|part| part.fill(0.0));
        return Ok(());
    }
    in_pool(&shape.lstm, || {
        let width = GATES * d_hidden;
        let x = Matrix::new(x, shape.lstm.rows(), d_in)?;
        let of_x = &weights.lstm.w_ih[..d_in * width];
        product(x, Matrix::new(of_x, d_in, width)?, states.gates, width)?;
        let projection = by_output(weights.projection, d_hidden)?;
        let combined = combined(shape, weights.lstm);
        dispatch(ForwardLoop { shape, texts, weights, projection: &projection, combined: &combined, states });
        Ok(())
    })
}

/// Computes the gradients of input and weights from those of every `h_t` and `w_t`.
///
/// # Shapes
/// The shapes of [`window_forward`], with its results in `saved`; `grad_hidden` `[batch, seq, d_hidden]`, `grad_windows`
/// `[batch, seq, d_char]`.
#[allow(clippy::too_many_arguments)]
pub fn window_backward(
    shape: WindowShape,
    x: &[f32],
    texts: &[Vec<u32>],
    weights: WindowWeights<'_>,
    saved: WindowSaved<'_>,
    grad_hidden: &[f32],
    grad_windows: &[f32],
    gradients: WindowGradients<'_>,
) -> Result<(), KernelError> {
    let WindowShape { lstm, d_char, n_components } = shape;
    let RecurrentShape { batch, seq, d_in, d_hidden } = lstm;
    check(shape, x, texts, weights)?;
    for (what, got, width) in [
        ("hidden", saved.hidden.len(), d_hidden),
        ("windows", saved.windows.len(), d_char),
        ("cells", saved.cells.len(), d_hidden),
        ("positions", saved.positions.len(), n_components),
        ("grad_hidden", grad_hidden.len(), d_hidden),
        ("grad_windows", grad_windows.len(), d_char),
        ("gradient of x", gradients.x.len(), d_in),
    ] {
        check_sizes(what, got, &[batch, seq, width])?;
    }
    check_sizes("gates", saved.gates.len(), &[batch, seq, GATES, d_hidden])?;
    check_sizes("raw", saved.raw.len(), &[batch, seq, 3, n_components])?;
    check_sizes("gradient of w_ih", gradients.w_ih.len(), &[d_in + d_char, GATES, d_hidden])?;
    check_sizes("gradient of w_hh", gradients.w_hh.len(), &[d_hidden, GATES, d_hidden])?;
    check_sizes("gradient of bias", gradients.bias.len(), &[GATES, d_hidden])?;
    check_sizes("gradient of projection", gradients.projection.len(), &[d_hidden, 3, n_components])?;
    check_sizes("gradient of projection_bias", gradients.projection_bias.len(), &[3, n_components])?;
    let WindowGradients { x: grad_x, w_ih, w_hh, bias, projection, projection_bias } = gradients;
    bias.fill(0.0);
    projection_bias.fill(0.0);
    if saved.hidden.is_empty() {
        [grad_x, w_ih, w_hh, projection].into_iter().for_each(|empty| empty.fill(0.0));
        return Ok(());
    }
    in_pool(&lstm, || {
        let (width, rows) = (GATES * d_hidden, lstm.rows());
        let by_output = by_output(weights.projection, d_hidden)?;
        let combined = combined(shape, weights.lstm);
        let WindowSaved { hidden, windows, cells, gates, raw, positions } = saved;
        dispatch(BackwardLoop {
            shape,
            texts,
            projection: &by_output,
            combined: &combined,
            cells,
            positions,
            gates,
            raw,
            grad_hidden,
            grad_windows,
            bias,
        });
        let of_x = &weights.lstm.w_ih[..d_in * width];
        let grad_gates = Matrix::new(gates, rows, width)?;
        product(grad_gates, Matrix::new(of_x, d_in, width)?.transposed(), grad_x, d_in)?;
        let grad = Columns { data: gates, stride: width, first: 0, count: width };
        let x = Columns { data: x, stride: d_in, first: 0, count: d_in };
        let (h0, w0) = (vec![0.0; batch * d_hidden], vec![0.0; batch * d_char]);
        let before = PreviousStates { shape: lstm, h0: &h0, hidden };
        let windows_before =
            PreviousStates { shape: RecurrentShape { d_hidden: d_char, ..lstm }, h0: &w0, hidden: windows };
        let (of_x, of_window) = w_ih.split_at_mut(d_in * width);
        let targets = [
            Target { source: &x, out: of_x },
            Target { source: &windows_before, out: of_window },
            Target { source: &before, out: w_hh },
        ];
        weight_gradients(rows, grad, targets, width, 0)?;
        let outputs = 3 * n_components;
        for row in raw.chunks_exact(outputs.max(1)) {
            projection_bias.iter_mut().zip(row).for_each(|(sum, grad)| *sum += grad);
        }
        let grad = Columns { data: raw, stride: outputs, first: 0, count: outputs };
        let source = Columns { data: hidden, stride: d_hidden, first: 0, count: d_hidden };
        weight_gradients(rows, grad, [Target { source: &source, out: projection }], outputs, 0)
    })
}

/// Returns the transpose of the projection, whose rows are the weights of one output.
fn by_output(projection: &[f32], d_hidden: usize) -> Result<Vec<f32>, KernelError> {
    let mut rows = vec![0.0; projection.len()];
    transpose(Matrix::new(projection, d_hidden, projection.len() / d_hidden)?, &mut rows);
    Ok(rows)
}

/// Returns `W_hh` and below it the rows of `W_ih` that belong to the window: `[d_hidden + d_char, 4·d_hidden]`.
fn combined(shape: WindowShape, weights: LstmWeights<'_>) -> Vec<f32> {
    let of_window = &weights.w_ih[shape.lstm.d_in * GATES * shape.lstm.d_hidden..];
    [weights.w_hh, of_window].concat()
}

fn check(shape: WindowShape, x: &[f32], texts: &[Vec<u32>], weights: WindowWeights<'_>) -> Result<(), KernelError> {
    let WindowShape { lstm: RecurrentShape { batch, seq, d_in, d_hidden }, d_char, n_components } = shape;
    check_sizes("x", x.len(), &[batch, seq, d_in])?;
    check_sizes("texts", texts.len(), &[batch])?;
    if let Some(id) = texts.iter().flatten().find(|id| **id as usize >= d_char) {
        return Err(KernelError::Invalid {
            what: "texts",
            why: format!("expected characters below {d_char}, got {id}"),
        });
    }
    let Some(inputs) = d_in.checked_add(d_char) else {
        return Err(KernelError::Invalid { what: "w_ih", why: format!("{d_in} + {d_char} rows do not fit in memory") });
    };
    check_sizes("w_ih", weights.lstm.w_ih.len(), &[inputs, GATES, d_hidden])?;
    check_sizes("w_hh", weights.lstm.w_hh.len(), &[d_hidden, GATES, d_hidden])?;
    check_sizes("bias", weights.lstm.bias.len(), &[GATES, d_hidden])?;
    check_sizes("projection", weights.projection.len(), &[d_hidden, 3, n_components])?;
    check_sizes("projection_bias", weights.projection_bias.len(), &[3, n_components])
}
