//! The cell of the backward pass.

use pulp::Simd;

use super::super::time_loop::{Step, UnitCell};
use super::super::{prefetch, through_sigmoid, through_tanh};
use super::{GATES, RecurrentShape};
use crate::shared_slice::SharedSlice;
use crate::vector::{load, tanh};

/// Computes the gradients of the gates before their nonlinearity from those of `h_t` and `c_t`.
pub(super) struct BackwardCell<'a> {
    pub(super) shape: RecurrentShape,
    pub(super) c0: &'a [f32],
    pub(super) cells: &'a [f32],
    /// Gates of the steps not yet done and gradients of the others.
    pub(super) gates: SharedSlice<'a>,
    pub(super) grad_hidden: &'a [f32],
    pub(super) grad_cells: Option<&'a [f32]>,
    /// Gradient of `c_t`, zero at first; after the last step it is that of `c_0`.
    pub(super) grad_c: SharedSlice<'a>,
}

impl UnitCell for BackwardCell<'_> {
    #[inline(always)]
    fn unit_vector<S: Simd>(&self, simd: S, step: Step<'_>, row: usize, unit: usize, count: usize, from_next: S::f32s) {
        let RecurrentShape { seq, d_hidden, .. } = self.shape;
        let at = row * seq + step.index;
        let (cell, state) = (at * d_hidden + unit, row * d_hidden + unit);
        let gates = at * GATES * d_hidden + unit;
        // SAFETY: the row and the units belong to this part alone until the barrier after the step, and so do the
        // units of the row group's bias.
        unsafe {
            let i = self.gates.load(simd, gates, count);
            let f = self.gates.load(simd, gates + d_hidden, count);
            let g = self.gates.load(simd, gates + 2 * d_hidden, count);
            let o = self.gates.load(simd, gates + 3 * d_hidden, count);
            let previous = match step.index {
                0 => load(simd, &self.c0[state..][..count]),
                _ => load(simd, &self.cells[cell - d_hidden..][..count]),
            };
            let squashed = tanh(simd, load(simd, &self.cells[cell..][..count]));
            let grad_h = simd.add_f32s(from_next, load(simd, &self.grad_hidden[cell..][..count]));
            let mut grad_c = self.grad_c.load(simd, state, count);
            if let Some(outside) = self.grad_cells {
                grad_c = simd.add_f32s(grad_c, load(simd, &outside[cell..][..count]));
            }
            let grad_c = simd.add_f32s(grad_c, through_tanh(simd, squashed, simd.mul_f32s(grad_h, o)));
            let grads = [
                through_sigmoid(simd, i, simd.mul_f32s(grad_c, g)),
                through_sigmoid(simd, f, simd.mul_f32s(grad_c, previous)),
                through_tanh(simd, g, simd.mul_f32s(grad_c, i)),
                through_sigmoid(simd, o, simd.mul_f32s(grad_h, squashed)),
            ];
            prefetch(self.cells.as_ptr().wrapping_add(cell).wrapping_sub(2 * d_hidden));
            prefetch(self.grad_hidden.as_ptr().wrapping_add(cell).wrapping_sub(d_hidden));
            self.grad_c.store(simd, state, count, simd.mul_f32s(grad_c, f));
            for (j, grad) in grads.into_iter().enumerate() {
                let column = j * d_hidden + unit;
                self.gates.store(simd, gates + j * d_hidden, count, grad);
                prefetch(self.gates.pointer(gates.wrapping_sub((GATES - j) * d_hidden)));
                step.store_state(simd, row, column, count, grad);
                step.add_bias(simd, column, count, grad);
            }
        }
    }
}
