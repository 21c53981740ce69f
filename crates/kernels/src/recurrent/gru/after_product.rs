//! The loops of [`super::GruReset::AfterProduct`]: one product a step.

use pulp::{Simd, WithSimd};

use super::super::panels::{Finish, PanelColumns, Panels, PerUnit, Source, UNIT_VECTORS, UnitStep, sweep};
use super::super::states::{IntoInitialState, StateMemory, StatePair};
use super::super::team::{Part, Team, TimeLoop};
use super::super::{add_groups, through_sigmoid, through_tanh};
use super::cell::{BackwardMemory, ForwardMemory, Place, blend};
use super::{GATES, GruWeights, RecurrentShape};
use crate::shared_slice::SharedSlice;
use crate::vector::{sigmoid, tanh};

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
        let source = Source { data: weights.w_hh, offset: 0, row_stride: GATES * d_hidden, column_stride: 1 };
        let panels = Panels::new::<S>(source, d_hidden, d_hidden, PanelColumns::GatesOfUnits);
        let mut states = StateMemory::starting_from(h0, shape.batch, d_hidden);
        let memory =
            ForwardMemory { shape, weights, h0, hidden: SharedSlice::new(hidden), saved: SharedSlice::new(saved) };
        let time_loop = ForwardLoop { memory, panels, states: states.pair() };
        Team::new(&shape, GATES * d_hidden).run(simd, &time_loop);
    }
}

struct ForwardLoop<'a> {
    memory: ForwardMemory<'a>,
    panels: Panels<GATES>,
    /// `h` before a step.
    states: StatePair<'a>,
}

impl TimeLoop for ForwardLoop<'_> {
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, part: &Part<'_>) {
        for step in 0..self.memory.shape.seq {
            // SAFETY: this step only writes the other state.
            let state = unsafe { self.states.rows(step, part) };
            sweep(simd, part, Some(state), &self.panels, &ForwardStep { time_loop: self, step });
            part.wait();
        }
    }
}

struct ForwardStep<'a> {
    time_loop: &'a ForwardLoop<'a>,
    step: usize,
}

impl<S: Simd> Finish<S, GATES> for ForwardStep<'_> {
    #[inline(always)]
    fn finish(&self, simd: S, first: usize, panel: usize, sums: &mut [[S::f32s; GATES]]) {
        let (unit, count) = self.time_loop.panels.units_of(panel, 0);
        for (i, sums) in sums.iter().enumerate() {
            self.row(simd, first + i, unit, count, *sums);
        }
    }
}

impl ForwardStep<'_> {
    #[inline(always)]
    fn row<S: Simd>(&self, simd: S, row: usize, unit: usize, count: usize, sums: [S::f32s; GATES]) {
        let Self { time_loop: l, step } = *self;
        let m = &l.memory;
        let at = Place::new(&m.shape, row, step, unit, count);
        let ((r_ih, r_hh), (z_ih, z_hh)) = (m.biases(simd, at, 0), m.biases(simd, at, 1));
        let (n_ih, n_hh) = m.biases(simd, at, 2);
        // SAFETY: the row and the units belong to this part alone until the barrier after the step.
        unsafe {
            let r = simd.add_f32s(m.saved.load(simd, at.value(0), count), simd.add_f32s(r_ih, r_hh));
            let z = simd.add_f32s(m.saved.load(simd, at.value(1), count), simd.add_f32s(z_ih, z_hh));
            let r = sigmoid(simd, simd.add_f32s(sums[0], r));
            let z = sigmoid(simd, simd.add_f32s(sums[1], z));
            let inner = simd.add_f32s(sums[2], n_hh);
            let n = simd.add_f32s(m.saved.load(simd, at.value(2), count), n_ih);
            let n = tanh(simd, simd.mul_add_e_f32s(r, inner, n));
            let h = blend(simd, z, n, m.previous(simd, at));
            for (j, value) in [r, z, n, inner].into_iter().enumerate() {
                m.saved.store(simd, at.value(j), count, value);
            }
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
    /// `[4·d_hidden]`, beside the values of `saved`.
    pub(super) bias: &'a mut [f32],
    pub(super) grad_h0: &'a mut [f32],
}

impl WithSimd for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { shape, weights, h0, hidden, saved, grad_hidden, bias, grad_h0 } = self;
        let d_hidden = shape.d_hidden;
        let width = GATES * d_hidden;
        let source = Source { data: weights.w_hh, offset: 0, row_stride: 1, column_stride: width };
        let panels = Panels::new::<S>(source, width, d_hidden, PanelColumns::Units);
        let team = Team::new(&shape, width);
        let mut states = StateMemory::new(shape.batch, width);
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
        team.run(simd, &BackwardLoop { memory, panels, states: states.pair() });
        add_groups(&biases, bias);
    }
}

struct BackwardLoop<'a> {
    memory: BackwardMemory<'a>,
    panels: Panels<UNIT_VECTORS>,
    /// The gradients at the product of a step.
    states: StatePair<'a>,
}

impl TimeLoop for BackwardLoop<'_> {
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, part: &Part<'_>) {
        let RecurrentShape { seq, d_hidden, .. } = self.memory.shape;
        for step in (0..seq).rev() {
            // SAFETY: this step only writes the other state.
            let next = (step + 1 < seq).then(|| unsafe { self.states.rows(step + 1, part) });
            let unit_step = BackwardStep { time_loop: self, step, group: part.row_group };
            sweep(simd, part, next, &self.panels, &PerUnit { panels: &self.panels, step: unit_step });
            part.wait();
        }
        let initial = IntoInitialState { grad_h0: self.memory.grad_h, d_hidden };
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
        let m = &l.memory;
        let at = Place::new(&m.shape, row, step, unit, count);
        let one = simd.splat_f32s(1.0);
        // SAFETY: the row and the units belong to this part alone until the barrier after the step, and so do the
        // units of the row group's bias.
        unsafe {
            let r = m.saved.load(simd, at.value(0), count);
            let z = m.saved.load(simd, at.value(1), count);
            let n = m.saved.load(simd, at.value(2), count);
            let inner = m.saved.load(simd, at.value(3), count);
            let grad_h = m.grad_h(simd, at, from_next);
            let toward_h = simd.sub_f32s(m.previous(simd, at), n);
            let grad_z = through_sigmoid(simd, z, simd.mul_f32s(grad_h, toward_h));
            let grad_n = through_tanh(simd, n, simd.mul_f32s(grad_h, simd.sub_f32s(one, z)));
            let grad_r = through_sigmoid(simd, r, simd.mul_f32s(grad_n, inner));
            let grad_inner = simd.mul_f32s(grad_n, r);
            m.grad_h.store(simd, at.state, count, simd.mul_f32s(grad_h, z));
            let grads = [grad_r, grad_z, grad_n, grad_inner];
            for (j, grad) in grads.into_iter().enumerate() {
                m.saved.store(simd, at.value(j), count, grad);
                m.biases.add(simd, at.bias(group, j), count, grad);
            }
            for (j, grad) in [grad_r, grad_z, grad_inner].into_iter().enumerate() {
                l.states.store(simd, step, row, j * m.shape.d_hidden + unit, count, grad);
            }
        }
    }
}
