//! The time loop of the backward pass.

use pulp::{Simd, WithSimd};

use super::super::panels::{PanelColumns, Panels, PerUnit, Source, UNIT_VECTORS, UnitStep, sweep};
use super::super::states::{IntoInitialState, StateMemory, StatePair};
use super::super::team::{Part, Team, TimeLoop};
use super::super::{add_groups, prefetch, through_sigmoid, through_tanh};
use super::{GATES, LstmWeights, RecurrentShape};
use crate::shared_slice::SharedSlice;
use crate::vector::{load, tanh};

/// The loop over the steps; `bias`, `grad_h0` and `grad_c0` must be zero before.
pub(super) struct Backward<'a> {
    pub(super) shape: RecurrentShape,
    pub(super) weights: LstmWeights<'a>,
    pub(super) c0: &'a [f32],
    pub(super) cells: &'a [f32],
    pub(super) gates: &'a mut [f32],
    pub(super) grad_hidden: &'a [f32],
    pub(super) grad_cells: Option<&'a [f32]>,
    pub(super) bias: &'a mut [f32],
    pub(super) grad_h0: &'a mut [f32],
    pub(super) grad_c0: &'a mut [f32],
}

impl WithSimd for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let RecurrentShape { batch, d_hidden, .. } = self.shape;
        let width = GATES * d_hidden;
        let source = Source { data: self.weights.w_hh, offset: 0, row_stride: 1, column_stride: width };
        let panels = Panels::<UNIT_VECTORS>::new::<S>(source, width, d_hidden, PanelColumns::Units);
        let team = Team::new(&self.shape, width);
        let mut states = StateMemory::new(batch, width);
        let mut biases = vec![0.0; team.row_groups() * width];
        let time_loop = BackwardLoop {
            shape: self.shape,
            panels,
            c0: self.c0,
            cells: self.cells,
            gates: SharedSlice::new(self.gates),
            grad_hidden: self.grad_hidden,
            grad_cells: self.grad_cells,
            biases: SharedSlice::new(&mut biases),
            grad_h0: SharedSlice::new(self.grad_h0),
            grad_c: SharedSlice::new(self.grad_c0),
            states: states.pair(),
        };
        team.run(simd, &time_loop);
        add_groups(&biases, self.bias);
    }
}

struct BackwardLoop<'a> {
    shape: RecurrentShape,
    panels: Panels<UNIT_VECTORS>,
    c0: &'a [f32],
    cells: &'a [f32],
    /// The gates of steps not yet done, the gradients of those done.
    gates: SharedSlice<'a>,
    grad_hidden: &'a [f32],
    grad_cells: Option<&'a [f32]>,
    /// A sum for each row group, `[row_groups, 4·d_hidden]`.
    biases: SharedSlice<'a>,
    grad_h0: SharedSlice<'a>,
    /// The gradient of `c_t`, in the end of `c_0`.
    grad_c: SharedSlice<'a>,
    /// Gradients of the gates of a step.
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
        let at = row * l.shape.seq + step;
        let (cell, state) = (at * d_hidden + unit, row * d_hidden + unit);
        let gates = at * GATES * d_hidden + unit;
        // SAFETY: the row and the units belong to this part alone until the barrier after the step, and so do the
        // units of the row group's bias.
        unsafe {
            let i = l.gates.load(simd, gates, count);
            let f = l.gates.load(simd, gates + d_hidden, count);
            let g = l.gates.load(simd, gates + 2 * d_hidden, count);
            let o = l.gates.load(simd, gates + 3 * d_hidden, count);
            let previous = match step {
                0 => load(simd, &l.c0[state..][..count]),
                _ => load(simd, &l.cells[cell - d_hidden..][..count]),
            };
            let squashed = tanh(simd, load(simd, &l.cells[cell..][..count]));
            let grad_h = simd.add_f32s(from_next, load(simd, &l.grad_hidden[cell..][..count]));
            let mut grad_c = l.grad_c.load(simd, state, count);
            if let Some(outside) = l.grad_cells {
                grad_c = simd.add_f32s(grad_c, load(simd, &outside[cell..][..count]));
            }
            let grad_c = simd.add_f32s(grad_c, through_tanh(simd, squashed, simd.mul_f32s(grad_h, o)));
            let grads = [
                through_sigmoid(simd, i, simd.mul_f32s(grad_c, g)),
                through_sigmoid(simd, f, simd.mul_f32s(grad_c, previous)),
                through_tanh(simd, g, simd.mul_f32s(grad_c, i)),
                through_sigmoid(simd, o, simd.mul_f32s(grad_h, squashed)),
            ];
            prefetch(l.cells.as_ptr().wrapping_add(cell).wrapping_sub(2 * d_hidden));
            prefetch(l.grad_hidden.as_ptr().wrapping_add(cell).wrapping_sub(d_hidden));
            l.grad_c.store(simd, state, count, simd.mul_f32s(grad_c, f));
            for (j, grad) in grads.into_iter().enumerate() {
                let column = j * d_hidden + unit;
                l.gates.store(simd, gates + j * d_hidden, count, grad);
                prefetch(l.gates.pointer(gates.wrapping_sub((GATES - j) * d_hidden)));
                l.states.store(simd, step, row, column, count, grad);
                l.biases.add(simd, group * GATES * d_hidden + column, count, grad);
            }
        }
    }
}
