//! The loops of [`super::GruReset::BeforeProduct`]: two products a step, as `n` needs every unit's `r ∘ h`.

use pulp::{Simd, WithSimd};

use super::super::panels::{Finish, PanelColumns, Panels, PerUnit, Source, UNIT_VECTORS, UnitStep, sweep};
use super::super::states::{IntoInitialState, StateMemory, StatePair};
use super::super::team::{Part, Team, TimeLoop};
use super::super::{add_groups, through_sigmoid, through_tanh};
use super::cell::{BackwardMemory, ForwardMemory, Place, blend};
use super::{GATES, GruWeights, RecurrentShape};
use crate::shared_slice::SharedSlice;
use crate::vector::{sigmoid, tanh};

/// The gates `r` and `z` of the first product.
const FIRST_GATES: usize = 2;

/// The loop over the steps, with the input projections in the first three values of `saved`.
pub(super) struct Forward<'a> {
    pub(super) shape: RecurrentShape,
    pub(super) weights: GruWeights<'a>,
    pub(super) h0: &'a [f32],
    pub(super) hidden: &'a mut [f32],
    pub(super) saved: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { shape, weights, h0, hidden, saved } = self;
        let d_hidden = shape.d_hidden;
        let gates = Source { data: weights.w_hh, offset: 0, row_stride: GATES * d_hidden, column_stride: 1 };
        let candidate = Source { offset: FIRST_GATES * d_hidden, ..gates };
        let mut states = StateMemory::starting_from(h0, shape.batch, d_hidden);
        let mut reset = StateMemory::new(shape.batch, d_hidden);
        let time_loop = ForwardLoop {
            memory: ForwardMemory {
                shape,
                weights,
                h0,
                hidden: SharedSlice::new(hidden),
                saved: SharedSlice::new(saved),
            },
            gates: Panels::new::<S>(gates, d_hidden, d_hidden, PanelColumns::GatesOfUnits),
            candidate: Panels::new::<S>(candidate, d_hidden, d_hidden, PanelColumns::Units),
            states: states.pair(),
            reset: reset.pair(),
        };
        Team::new(&shape, GATES * d_hidden).run(simd, &time_loop);
    }
}

struct ForwardLoop<'a> {
    memory: ForwardMemory<'a>,
    gates: Panels<FIRST_GATES>,
    candidate: Panels<UNIT_VECTORS>,
    /// `h` before a step.
    states: StatePair<'a>,
    /// `r ∘ h` of a step.
    reset: StatePair<'a>,
}

impl TimeLoop for ForwardLoop<'_> {
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, part: &Part<'_>) {
        for step in 0..self.memory.shape.seq {
            // SAFETY: the states of a step are written before a barrier that comes before the product they are for.
            let state = unsafe { self.states.rows(step, part) };
            sweep(simd, part, Some(state), &self.gates, &GateStep { time_loop: self, step });
            part.wait();
            // SAFETY: as above.
            let reset = unsafe { self.reset.rows(step, part) };
            let unit_step = CandidateStep { time_loop: self, step };
            sweep(simd, part, Some(reset), &self.candidate, &PerUnit { panels: &self.candidate, step: unit_step });
            part.wait();
        }
    }
}

struct GateStep<'a> {
    time_loop: &'a ForwardLoop<'a>,
    step: usize,
}

impl<S: Simd> Finish<S, FIRST_GATES> for GateStep<'_> {
    #[inline(always)]
    fn finish(&self, simd: S, first: usize, panel: usize, sums: &mut [[S::f32s; FIRST_GATES]]) {
        let (unit, count) = self.time_loop.gates.units_of(panel, 0);
        for (i, sums) in sums.iter().enumerate() {
            self.row(simd, first + i, unit, count, *sums);
        }
    }
}

impl GateStep<'_> {
    #[inline(always)]
    fn row<S: Simd>(&self, simd: S, row: usize, unit: usize, count: usize, sums: [S::f32s; FIRST_GATES]) {
        let Self { time_loop: l, step } = *self;
        let m = &l.memory;
        let at = Place::new(&m.shape, row, step, unit, count);
        let ((r_ih, r_hh), (z_ih, z_hh)) = (m.biases(simd, at, 0), m.biases(simd, at, 1));
        // SAFETY: the row and the units belong to this part alone until the next barrier.
        unsafe {
            let r = simd.add_f32s(m.saved.load(simd, at.value(0), count), simd.add_f32s(r_ih, r_hh));
            let z = simd.add_f32s(m.saved.load(simd, at.value(1), count), simd.add_f32s(z_ih, z_hh));
            let r = sigmoid(simd, simd.add_f32s(sums[0], r));
            let z = sigmoid(simd, simd.add_f32s(sums[1], z));
            let reset = simd.mul_f32s(r, m.previous(simd, at));
            m.saved.store(simd, at.value(0), count, r);
            m.saved.store(simd, at.value(1), count, z);
            m.saved.store(simd, at.value(3), count, reset);
            l.reset.store(simd, step, row, unit, count, reset);
        }
    }
}

struct CandidateStep<'a> {
    time_loop: &'a ForwardLoop<'a>,
    step: usize,
}

impl UnitStep for CandidateStep<'_> {
    #[inline(always)]
    fn unit_vector<S: Simd>(&self, simd: S, row: usize, unit: usize, count: usize, sum: S::f32s) {
        let Self { time_loop: l, step } = *self;
        let m = &l.memory;
        let at = Place::new(&m.shape, row, step, unit, count);
        let (n_ih, n_hh) = m.biases(simd, at, 2);
        // SAFETY: the row and the units belong to this part alone until the next barrier.
        unsafe {
            let n = simd.add_f32s(m.saved.load(simd, at.value(2), count), simd.add_f32s(n_ih, n_hh));
            let n = tanh(simd, simd.add_f32s(sum, n));
            let h = blend(simd, m.saved.load(simd, at.value(1), count), n, m.previous(simd, at));
            m.saved.store(simd, at.value(2), count, n);
            m.hidden.store(simd, at.hidden, count, h);
            l.states.store(simd, step + 1, row, unit, count, h);
        }
    }
}

/// The loop over the steps; `bias` and `grad_h0` must be zero before.
pub(super) struct Backward<'a> {
    pub(super) shape: RecurrentShape,
    pub(super) weights: GruWeights<'a>,
    pub(super) h0: &'a [f32],
    pub(super) hidden: &'a [f32],
    pub(super) saved: &'a mut [f32],
    pub(super) grad_hidden: &'a [f32],
    /// `[4·d_hidden]`, beside the values of `saved`; the fourth stays zero.
    pub(super) bias: &'a mut [f32],
    pub(super) grad_h0: &'a mut [f32],
}

impl WithSimd for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { shape, weights, h0, hidden, saved, grad_hidden, bias, grad_h0 } = self;
        let d_hidden = shape.d_hidden;
        let gates = Source { data: weights.w_hh, offset: 0, row_stride: 1, column_stride: GATES * d_hidden };
        let candidate = Source { offset: FIRST_GATES * d_hidden, ..gates };
        let team = Team::new(&shape, GATES * d_hidden);
        let mut states = StateMemory::new(shape.batch, FIRST_GATES * d_hidden);
        let mut candidates = StateMemory::new(shape.batch, d_hidden);
        let mut biases = vec![0.0; team.row_groups() * bias.len()];
        let memory = BackwardMemory {
            shape,
            h0,
            hidden,
            saved: SharedSlice::new(saved),
            grad_hidden,
            biases: SharedSlice::new(&mut biases),
            grad_h: SharedSlice::new(grad_h0),
        };
        let time_loop = BackwardLoop {
            memory,
            gates: Panels::new::<S>(gates, FIRST_GATES * d_hidden, d_hidden, PanelColumns::Units),
            candidate: Panels::new::<S>(candidate, d_hidden, d_hidden, PanelColumns::Units),
            states: states.pair(),
            candidates: candidates.pair(),
        };
        team.run(simd, &time_loop);
        add_groups(&biases, bias);
    }
}

struct BackwardLoop<'a> {
    memory: BackwardMemory<'a>,
    gates: Panels<UNIT_VECTORS>,
    candidate: Panels<UNIT_VECTORS>,
    /// The gradients before the nonlinearity of `r` and `z` of a step.
    states: StatePair<'a>,
    /// The gradients before the `tanh` of a step.
    candidates: StatePair<'a>,
}

impl TimeLoop for BackwardLoop<'_> {
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, part: &Part<'_>) {
        let RecurrentShape { seq, d_hidden, .. } = self.memory.shape;
        for step in (0..seq).rev() {
            // SAFETY: the states of a step are written before a barrier that comes before the product they are for.
            let next = (step + 1 < seq).then(|| unsafe { self.states.rows(step + 1, part) });
            let unit_step = CandidateGradient { time_loop: self, step, group: part.row_group };
            sweep(simd, part, next, &self.gates, &PerUnit { panels: &self.gates, step: unit_step });
            part.wait();
            // SAFETY: as above.
            let candidates = unsafe { self.candidates.rows(step, part) };
            let unit_step = ResetGradient { time_loop: self, step, group: part.row_group };
            let unit_step = PerUnit { panels: &self.candidate, step: unit_step };
            sweep(simd, part, Some(candidates), &self.candidate, &unit_step);
            part.wait();
        }
        let initial = IntoInitialState { grad_h0: self.memory.grad_h, d_hidden };
        // SAFETY: nobody writes the states any more.
        let first = unsafe { self.states.rows(0, part) };
        sweep(simd, part, Some(first), &self.gates, &PerUnit { panels: &self.gates, step: initial });
    }
}

/// The gradients of `z` and `n`.
struct CandidateGradient<'a> {
    time_loop: &'a BackwardLoop<'a>,
    step: usize,
    group: usize,
}

impl UnitStep for CandidateGradient<'_> {
    #[inline(always)]
    fn unit_vector<S: Simd>(&self, simd: S, row: usize, unit: usize, count: usize, from_next: S::f32s) {
        let Self { time_loop: l, step, group } = *self;
        let m = &l.memory;
        let at = Place::new(&m.shape, row, step, unit, count);
        let one = simd.splat_f32s(1.0);
        // SAFETY: the row and the units belong to this part alone until the next barrier, and so do the units of the
        // row group's bias.
        unsafe {
            let z = m.saved.load(simd, at.value(1), count);
            let n = m.saved.load(simd, at.value(2), count);
            let grad_h = m.grad_h(simd, at, from_next);
            let toward_h = simd.sub_f32s(m.previous(simd, at), n);
            let grad_z = through_sigmoid(simd, z, simd.mul_f32s(grad_h, toward_h));
            let grad_n = through_tanh(simd, n, simd.mul_f32s(grad_h, simd.sub_f32s(one, z)));
            m.grad_h.store(simd, at.state, count, simd.mul_f32s(grad_h, z));
            for (j, grad) in [(1, grad_z), (2, grad_n)] {
                m.saved.store(simd, at.value(j), count, grad);
                m.biases.add(simd, at.bias(group, j), count, grad);
            }
            l.states.store(simd, step, row, m.shape.d_hidden + unit, count, grad_z);
            l.candidates.store(simd, step, row, unit, count, grad_n);
        }
    }
}

/// The gradient of `r`, from that of `r ∘ h`.
struct ResetGradient<'a> {
    time_loop: &'a BackwardLoop<'a>,
    step: usize,
    group: usize,
}

impl UnitStep for ResetGradient<'_> {
    #[inline(always)]
    fn unit_vector<S: Simd>(&self, simd: S, row: usize, unit: usize, count: usize, grad_reset: S::f32s) {
        let Self { time_loop: l, step, group } = *self;
        let m = &l.memory;
        let at = Place::new(&m.shape, row, step, unit, count);
        // SAFETY: the row and the units belong to this part alone until the next barrier, and so do the units of the
        // row group's bias.
        unsafe {
            let r = m.saved.load(simd, at.value(0), count);
            let grad_r = through_sigmoid(simd, r, simd.mul_f32s(grad_reset, m.previous(simd, at)));
            m.grad_h.add(simd, at.state, count, simd.mul_f32s(grad_reset, r));
            m.saved.store(simd, at.value(0), count, grad_r);
            m.biases.add(simd, at.bias(group, 0), count, grad_r);
            l.states.store(simd, step, row, unit, count, grad_r);
        }
    }
}
