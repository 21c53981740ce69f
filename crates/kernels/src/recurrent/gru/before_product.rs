//! The passes of [`super::GruReset::BeforeProduct`]: two products a step, because `n` needs `r ∘ h` of every unit.

use pulp::{Simd, WithSimd};

use super::super::panels::{PanelColumns, Panels, Source, UNIT_VECTORS, sweep};
use super::super::states::{StateMemory, StatePair};
use super::super::team::Part;
use super::super::through_sigmoid;
use super::super::time_loop::{BackwardPass, Cell, ForwardPass, Step, UnitCell};
use super::cell::{BackwardMemory, ForwardMemory, Place, blend};
use super::{GATES, RecurrentShape};
use crate::vector::tanh;

/// Number of gates in the first product: `r` and `z`.
const FIRST_GATES: usize = 2;

/// The forward pass, with the input projections in the first three values of `saved`.
pub(super) struct Forward<'a>(pub(super) ForwardMemory<'a>);

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let ForwardMemory { shape, weights, h0, .. } = self.0;
        let RecurrentShape { batch, d_hidden, .. } = shape;
        let source = Source {
            data: weights.w_hh,
            offset: FIRST_GATES * d_hidden,
            row_stride: GATES * d_hidden,
            column_stride: 1,
        };
        let candidate = Panels::new::<S>(source, d_hidden, d_hidden, PanelColumns::Units);
        let mut reset = StateMemory::new(batch, d_hidden);
        let cell = GateCell { memory: self.0, candidate, reset: reset.pair() };
        ForwardPass { shape, w_hh: weights.w_hh, columns: PanelColumns::GatesOfUnits, h0, cell }.with_simd(simd);
    }
}

/// Computes `r` and `z`, then `n` and `h_t` in the second product.
struct GateCell<'a> {
    memory: ForwardMemory<'a>,
    candidate: Panels<UNIT_VECTORS>,
    /// `r ∘ h_{t−1}` of a step.
    reset: StatePair<'a>,
}

impl Cell<FIRST_GATES> for GateCell<'_> {
    #[inline(always)]
    fn finish<S: Simd>(
        &self,
        simd: S,
        step: Step<'_>,
        first: usize,
        units: (usize, usize),
        sums: &mut [[S::f32s; FIRST_GATES]],
    ) {
        let (unit, count) = units;
        let m = &self.memory;
        for (row, [r, z]) in (first..).zip(sums) {
            let at = Place::new(&m.shape, row, step.index, unit, count);
            // SAFETY: the row and the units belong to this part alone until the next barrier.
            unsafe {
                let (r, z) = (m.gate(simd, at, 0, *r), m.gate(simd, at, 1, *z));
                let reset = simd.mul_f32s(r, m.previous(simd, at));
                m.saved.store(simd, at.value(0), count, r);
                m.saved.store(simd, at.value(1), count, z);
                m.saved.store(simd, at.value(3), count, reset);
                self.reset.store(simd, step.index, row, unit, count, reset);
            }
        }
    }

    #[inline(always)]
    fn second_product<S: Simd>(&self, simd: S, step: Step<'_>, part: &Part<'_>) {
        // SAFETY: the first product has written the rows of this step before the barrier; the next step writes others.
        let reset = unsafe { self.reset.rows(step.index, part) };
        sweep(simd, part, Some(reset), &self.candidate, step, &CandidateCell(&self.memory));
        part.wait();
    }
}

/// Computes `n` and `h_t` from the sums of `(r ∘ h_{t−1}) W_hn`.
struct CandidateCell<'a>(&'a ForwardMemory<'a>);

impl UnitCell for CandidateCell<'_> {
    #[inline(always)]
    fn unit_vector<S: Simd>(&self, simd: S, step: Step<'_>, row: usize, unit: usize, count: usize, sum: S::f32s) {
        let m = self.0;
        let at = Place::new(&m.shape, row, step.index, unit, count);
        // SAFETY: the row and the units belong to this part alone until the next barrier.
        unsafe {
            let n = tanh(simd, simd.add_f32s(sum, m.projected(simd, at, 2)));
            let h = blend(simd, m.saved.load(simd, at.value(1), count), n, m.previous(simd, at));
            m.saved.store(simd, at.value(2), count, n);
            m.hidden.store(simd, at.hidden, count, h);
            step.store_state(simd, row, unit, count, h);
        }
    }
}

/// The backward pass.
pub(super) struct Backward<'a> {
    pub(super) memory: BackwardMemory<'a>,
    /// `[d_hidden, 3·d_hidden]`
    pub(super) w_hh: &'a [f32],
    /// Sums of the gradients of the values in `saved`, `[4·d_hidden]`; zero before, and the fourth part stays zero.
    pub(super) bias: &'a mut [f32],
}

impl WithSimd for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { memory, w_hh, bias } = self;
        let (shape, grad_h0) = (memory.shape, memory.grad_h);
        let RecurrentShape { batch, d_hidden, .. } = shape;
        let depth = FIRST_GATES * d_hidden;
        let source = Source { data: w_hh, offset: depth, row_stride: 1, column_stride: GATES * d_hidden };
        let candidate = Panels::new::<S>(source, d_hidden, d_hidden, PanelColumns::Units);
        let mut candidates = StateMemory::new(batch, d_hidden);
        let cell = CandidateGradient { memory, candidate, candidates: candidates.pair() };
        BackwardPass { shape, w_hh, depth, bias, grad_h0, cell }.with_simd(simd);
    }
}

/// Computes the gradients of `z` and `n`, then that of `r` in the second product.
struct CandidateGradient<'a> {
    memory: BackwardMemory<'a>,
    candidate: Panels<UNIT_VECTORS>,
    /// Gradients before the `tanh` of a step.
    candidates: StatePair<'a>,
}

impl UnitCell for CandidateGradient<'_> {
    #[inline(always)]
    fn unit_vector<S: Simd>(&self, simd: S, step: Step<'_>, row: usize, unit: usize, count: usize, from_next: S::f32s) {
        let m = &self.memory;
        let at = Place::new(&m.shape, row, step.index, unit, count);
        // SAFETY: the row and the units belong to this part alone until the next barrier, and so do the units of the
        // row group's bias.
        unsafe {
            let [grad_z, grad_n] = m.update_and_candidate(simd, at, from_next);
            m.store_gradient(simd, step, at, 1, grad_z);
            m.store_gradient(simd, step, at, 2, grad_n);
            step.store_state(simd, row, at.column(1), count, grad_z);
            self.candidates.store(simd, step.index, row, unit, count, grad_n);
        }
    }

    #[inline(always)]
    fn second_product<S: Simd>(&self, simd: S, step: Step<'_>, part: &Part<'_>) {
        // SAFETY: the first product has written the rows of this step before the barrier; the next step writes others.
        let candidates = unsafe { self.candidates.rows(step.index, part) };
        sweep(simd, part, Some(candidates), &self.candidate, step, &ResetGradient(&self.memory));
        part.wait();
    }
}

/// Computes the gradient of `r` from that of `r ∘ h_{t−1}`.
struct ResetGradient<'a>(&'a BackwardMemory<'a>);

impl UnitCell for ResetGradient<'_> {
    #[inline(always)]
    fn unit_vector<S: Simd>(&self, simd: S, step: Step<'_>, row: usize, unit: usize, count: usize, grad: S::f32s) {
        let m = self.0;
        let at = Place::new(&m.shape, row, step.index, unit, count);
        // SAFETY: the row and the units belong to this part alone until the next barrier, and so do the units of the
        // row group's bias.
        unsafe {
            let r = m.saved.load(simd, at.value(0), count);
            let grad_r = through_sigmoid(simd, r, simd.mul_f32s(grad, m.previous(simd, at)));
            m.grad_h.add(simd, at.state, count, simd.mul_f32s(grad, r));
            m.store_gradient(simd, step, at, 0, grad_r);
            step.store_state(simd, row, unit, count, grad_r);
        }
    }
}
