//! The cells of [`super::GruReset::AfterProduct`]: one product a step.

use pulp::Simd;

use super::super::through_sigmoid;
use super::super::time_loop::{Cell, Step, UnitCell};
use super::GATES;
use super::cell::{BackwardMemory, ForwardMemory, Place, blend};
use crate::vector::tanh;

/// Computes `h_t` from the sums of `h_{t−1} W_hh`.
pub(super) struct ForwardCell<'a>(pub(super) ForwardMemory<'a>);

impl Cell<GATES> for ForwardCell<'_> {
    #[inline(always)]
    fn finish<S: Simd>(
        &self,
        simd: S,
        step: Step<'_>,
        first: usize,
        units: (usize, usize),
        sums: &mut [[S::f32s; GATES]],
    ) {
        let (unit, count) = units;
        for (row, sums) in (first..).zip(sums) {
            self.row(simd, step, row, unit, count, *sums);
        }
    }
}

impl ForwardCell<'_> {
    #[inline(always)]
    fn row<S: Simd>(
        &self,
        simd: S,
        step: Step<'_>,
        row: usize,
        unit: usize,
        count: usize,
        [r, z, inner]: [S::f32s; GATES],
    ) {
        let m = &self.0;
        let at = Place::new(&m.shape, row, step.index, unit, count);
        let (n_ih, n_hh) = m.biases(simd, at, 2);
        // SAFETY: the row and the units belong to this part alone until the barrier after the step.
        unsafe {
            let (r, z) = (m.gate(simd, at, 0, r), m.gate(simd, at, 1, z));
            let inner = simd.add_f32s(inner, n_hh);
            let n = simd.add_f32s(m.saved.load(simd, at.value(2), count), n_ih);
            let n = tanh(simd, simd.mul_add_e_f32s(r, inner, n));
            let h = blend(simd, z, n, m.previous(simd, at));
            for (j, value) in [r, z, n, inner].into_iter().enumerate() {
                m.saved.store(simd, at.value(j), count, value);
            }
            m.hidden.store(simd, at.hidden, count, h);
            step.store_state(simd, row, unit, count, h);
        }
    }
}

/// Computes the gradients before the nonlinearities and of the product from those of `h_t`.
pub(super) struct BackwardCell<'a>(pub(super) BackwardMemory<'a>);

impl UnitCell for BackwardCell<'_> {
    #[inline(always)]
    fn unit_vector<S: Simd>(&self, simd: S, step: Step<'_>, row: usize, unit: usize, count: usize, from_next: S::f32s) {
        let m = &self.0;
        let at = Place::new(&m.shape, row, step.index, unit, count);
        // SAFETY: the row and the units belong to this part alone until the barrier after the step, and so do the
        // units of the row group's bias.
        unsafe {
            let r = m.saved.load(simd, at.value(0), count);
            let inner = m.saved.load(simd, at.value(3), count);
            let [grad_z, grad_n] = m.update_and_candidate(simd, at, from_next);
            let grad_r = through_sigmoid(simd, r, simd.mul_f32s(grad_n, inner));
            let grad_inner = simd.mul_f32s(grad_n, r);
            for (j, grad) in [grad_r, grad_z, grad_n, grad_inner].into_iter().enumerate() {
                m.store_gradient(simd, step, at, j, grad);
            }
            for (j, grad) in [grad_r, grad_z, grad_inner].into_iter().enumerate() {
                step.store_state(simd, row, at.column(j), count, grad);
            }
        }
    }
}
