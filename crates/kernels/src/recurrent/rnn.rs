//! The plain recurrent network (Elman 1990).
//!
//! ```text
//! h_t = tanh(x_t W_ih + h_{t−1} W_hh + b)
//! ```

use pulp::{Simd, WithSimd};

use super::panels::{PanelColumns, Panels, PerUnit, Source, UNIT_VECTORS, UnitStep, sweep};
use super::states::{IntoInitialState, StateMemory, StatePair};
use super::team::{Part, Team, TimeLoop};
use super::weight_gradient::{Columns, Target, weight_gradients};
use super::{PreviousStates, RecurrentShape, add_groups, in_pool, product, through_tanh};
use crate::error::{KernelError, check_sizes};
use crate::isa::dispatch;
use crate::matmul::Matrix;
use crate::shared_slice::SharedSlice;
use crate::vector::{load, tanh};

#[cfg(test)]
mod tests;

/// The parameters of the layer.
#[derive(Debug, Clone, Copy)]
pub struct RnnWeights<'a> {
    /// `[d_in, d_hidden]`
    pub w_ih: &'a [f32],
    /// `[d_hidden, d_hidden]`
    pub w_hh: &'a [f32],
    /// `[d_hidden]`
    pub bias: &'a [f32],
}

/// Where [`rnn_backward`] writes; old content is replaced.
#[derive(Debug)]
pub struct RnnGradients<'a> {
    /// `[batch, seq, d_in]`
    pub x: &'a mut [f32],
    /// `[d_in, d_hidden]`
    pub w_ih: &'a mut [f32],
    /// `[d_hidden, d_hidden]`
    pub w_hh: &'a mut [f32],
    /// `[d_hidden]`
    pub bias: &'a mut [f32],
    /// `[batch, d_hidden]`
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
        let x = Matrix::new(x, shape.rows(), shape.d_in)?;
        product(x, Matrix::new(weights.w_ih, shape.d_in, shape.d_hidden)?, hidden, shape.d_hidden)?;
        dispatch(Forward { shape, weights, h0, hidden });
        Ok(())
    })
}

/// The gradients of everything, given those of every `h_t`.
///
/// # Shapes
/// The shapes are those of [`rnn_forward`], with its result in `hidden`; `grad_hidden` `[batch, seq, d_hidden]`.
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
        dispatch(Backward { shape, weights, hidden, grad_hidden, grad_before: &mut grad_before, bias, grad_h0 });
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

/// The loop over the steps, with the input projections in `hidden`.
struct Forward<'a> {
    shape: RecurrentShape,
    weights: RnnWeights<'a>,
    h0: &'a [f32],
    hidden: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let RecurrentShape { batch, d_hidden, .. } = self.shape;
        let source = Source { data: self.weights.w_hh, offset: 0, row_stride: d_hidden, column_stride: 1 };
        let panels = Panels::new::<S>(source, d_hidden, d_hidden, PanelColumns::Units);
        let mut states = StateMemory::starting_from(self.h0, batch, d_hidden);
        let (hidden, states) = (SharedSlice::new(self.hidden), states.pair());
        let time_loop = ForwardLoop { shape: self.shape, panels, bias: self.weights.bias, hidden, states };
        Team::new(&self.shape, d_hidden).run(simd, &time_loop);
    }
}

struct ForwardLoop<'a> {
    shape: RecurrentShape,
    panels: Panels<UNIT_VECTORS>,
    bias: &'a [f32],
    hidden: SharedSlice<'a>,
    /// `h` before a step.
    states: StatePair<'a>,
}

impl TimeLoop for ForwardLoop<'_> {
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, part: &Part<'_>) {
        for step in 0..self.shape.seq {
            // SAFETY: this step only writes the other state.
            let state = unsafe { self.states.rows(step, part) };
            let unit_step = ForwardStep { time_loop: self, step };
            sweep(simd, part, Some(state), &self.panels, &PerUnit { panels: &self.panels, step: unit_step });
            part.wait();
        }
    }
}

struct ForwardStep<'a> {
    time_loop: &'a ForwardLoop<'a>,
    step: usize,
}

impl UnitStep for ForwardStep<'_> {
    #[inline(always)]
    fn unit_vector<S: Simd>(&self, simd: S, row: usize, unit: usize, count: usize, sum: S::f32s) {
        let Self { time_loop: l, step } = *self;
        let at = (row * l.shape.seq + step) * l.shape.d_hidden + unit;
        let bias = load(simd, &l.bias[unit..][..count]);
        // SAFETY: the row and the units belong to this part alone until the barrier after the step.
        unsafe {
            let projected = l.hidden.load(simd, at, count);
            let h = tanh(simd, simd.add_f32s(simd.add_f32s(sum, projected), bias));
            l.hidden.store(simd, at, count, h);
            l.states.store(simd, step + 1, row, unit, count, h);
        }
    }
}

/// The loop over the steps; `bias` and `grad_h0` must be zero before.
struct Backward<'a> {
    shape: RecurrentShape,
    weights: RnnWeights<'a>,
    hidden: &'a [f32],
    grad_hidden: &'a [f32],
    grad_before: &'a mut [f32],
    bias: &'a mut [f32],
    grad_h0: &'a mut [f32],
}

impl WithSimd for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let RecurrentShape { batch, d_hidden, .. } = self.shape;
        let source = Source { data: self.weights.w_hh, offset: 0, row_stride: 1, column_stride: d_hidden };
        let team = Team::new(&self.shape, d_hidden);
        let mut states = StateMemory::new(batch, d_hidden);
        let mut biases = vec![0.0; team.row_groups() * d_hidden];
        let time_loop = BackwardLoop {
            shape: self.shape,
            panels: Panels::new::<S>(source, d_hidden, d_hidden, PanelColumns::Units),
            hidden: self.hidden,
            grad_hidden: self.grad_hidden,
            grad_before: SharedSlice::new(self.grad_before),
            biases: SharedSlice::new(&mut biases),
            grad_h0: SharedSlice::new(self.grad_h0),
            states: states.pair(),
        };
        team.run(simd, &time_loop);
        add_groups(&biases, self.bias);
    }
}

struct BackwardLoop<'a> {
    shape: RecurrentShape,
    panels: Panels<UNIT_VECTORS>,
    hidden: &'a [f32],
    grad_hidden: &'a [f32],
    /// The gradient before the `tanh`, `[batch, seq, d_hidden]`.
    grad_before: SharedSlice<'a>,
    /// A sum for each row group, `[row_groups, d_hidden]`.
    biases: SharedSlice<'a>,
    grad_h0: SharedSlice<'a>,
    /// The gradient before the `tanh` of a step.
    states: StatePair<'a>,
}

impl TimeLoop for BackwardLoop<'_> {
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, part: &Part<'_>) {
        for step in (0..self.shape.seq).rev() {
            // SAFETY: this step only writes the other state.
            let next = (step + 1 < self.shape.seq).then(|| unsafe { self.states.rows(step + 1, part) });
            let unit_step = BackwardStep { time_loop: self, step, group: part.row_group };
            sweep(simd, part, next, &self.panels, &PerUnit { panels: &self.panels, step: unit_step });
            part.wait();
        }
        let initial = IntoInitialState { grad_h0: self.grad_h0, d_hidden: self.shape.d_hidden };
        // SAFETY: nobody writes the states any more.
        let first = unsafe { self.states.rows(0, part) };
        sweep(simd, part, Some(first), &self.panels, &PerUnit { panels: &self.panels, step: initial });
    }
}

struct BackwardStep<'a> {
    time_loop: &'a BackwardLoop<'a>,
    step: usize,
    group: usize,
}

impl UnitStep for BackwardStep<'_> {
    #[inline(always)]
    fn unit_vector<S: Simd>(&self, simd: S, row: usize, unit: usize, count: usize, from_next: S::f32s) {
        let Self { time_loop: l, step, group } = *self;
        let d_hidden = l.shape.d_hidden;
        let at = (row * l.shape.seq + step) * d_hidden + unit;
        let grad_h = simd.add_f32s(from_next, load(simd, &l.grad_hidden[at..][..count]));
        let grad = through_tanh(simd, load(simd, &l.hidden[at..][..count]), grad_h);
        // SAFETY: the row and the units belong to this part alone until the barrier after the step, and so do the
        // units of the row group's bias.
        unsafe {
            l.grad_before.store(simd, at, count, grad);
            l.states.store(simd, step, row, unit, count, grad);
            l.biases.add(simd, group * d_hidden + unit, count, grad);
        }
    }
}
