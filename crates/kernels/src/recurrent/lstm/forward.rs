//! The time loop of the forward pass.

use pulp::{Simd, WithSimd};

use super::super::panels::{Finish, PanelColumns, Panels, Source, sweep};
use super::super::prefetch;
use super::super::states::{StateMemory, StatePair};
use super::super::team::{Part, Team, TimeLoop};
use super::{GATES, LstmWeights, RecurrentShape};
use crate::shared_slice::SharedSlice;
use crate::vector::{exp_bounded, load, tanh, tanh_near_zero};

/// The loop over the steps, with the input projections in `gates`.
pub(super) struct Forward<'a> {
    pub(super) shape: RecurrentShape,
    pub(super) weights: LstmWeights<'a>,
    pub(super) h0: &'a [f32],
    pub(super) c0: &'a [f32],
    pub(super) hidden: &'a mut [f32],
    pub(super) cells: &'a mut [f32],
    pub(super) gates: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let d_hidden = self.shape.d_hidden;
        let width = GATES * d_hidden;
        let source = Source { data: self.weights.w_hh, offset: 0, row_stride: width, column_stride: 1 };
        let panels = Panels::<GATES>::new::<S>(source, d_hidden, d_hidden, PanelColumns::GatesOfUnits);
        let mut states = StateMemory::starting_from(self.h0, self.shape.batch, d_hidden);
        let time_loop = ForwardLoop {
            shape: self.shape,
            panels,
            bias: self.weights.bias,
            c0: self.c0,
            hidden: SharedSlice::new(self.hidden),
            cells: SharedSlice::new(self.cells),
            gates: SharedSlice::new(self.gates),
            states: states.pair(),
        };
        Team::new(&self.shape, width).run(simd, &time_loop);
    }
}

struct ForwardLoop<'a> {
    shape: RecurrentShape,
    panels: Panels<GATES>,
    bias: &'a [f32],
    c0: &'a [f32],
    hidden: SharedSlice<'a>,
    cells: SharedSlice<'a>,
    gates: SharedSlice<'a>,
    /// `h` before a step.
    states: StatePair<'a>,
}

impl TimeLoop for ForwardLoop<'_> {
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, part: &Part<'_>) {
        for step in 0..self.shape.seq {
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
        // Two copies of the code, so that the usual one has no branch on the number of lanes.
        if count == S::F32_LANES {
            self.units(simd, first, unit, S::F32_LANES, sums);
        } else {
            self.units(simd, first, unit, count, sums);
        }
    }
}

impl ForwardStep<'_> {
    #[inline(always)]
    fn units<S: Simd>(&self, simd: S, first: usize, unit: usize, count: usize, sums: &mut [[S::f32s; GATES]]) {
        let Self { time_loop: l, step } = *self;
        let d_hidden = l.shape.d_hidden;
        let mut bias = [simd.splat_f32s(0.0); GATES];
        for (j, bias) in bias.iter_mut().enumerate() {
            *bias = load(simd, &l.bias[j * d_hidden + unit..][..count]);
        }
        for (i, sums) in sums.iter_mut().enumerate() {
            let at = (first + i) * l.shape.seq + step;
            let (cell, gates) = (at * d_hidden + unit, at * GATES * d_hidden + unit);
            let mut before = *sums;
            for j in 0..GATES {
                // SAFETY: the row and the units belong to this part alone until the barrier after the step.
                let projected = unsafe { l.gates.load(simd, gates + j * d_hidden, count) };
                before[j] = simd.add_f32s(simd.add_f32s(before[j], projected), bias[j]);
            }
            let activated = activate(simd, before);
            let previous = match step {
                0 => load(simd, &l.c0[(first + i) * d_hidden + unit..][..count]),
                // SAFETY: as above.
                _ => unsafe { l.cells.load(simd, cell - d_hidden, count) },
            };
            let [i, f, g, o] = activated;
            let c = simd.mul_add_e_f32s(f, previous, simd.mul_f32s(i, g));
            for (j, value) in activated.into_iter().enumerate() {
                // SAFETY: as above.
                unsafe { l.gates.store(simd, gates + j * d_hidden, count, value) };
                prefetch(l.gates.pointer(gates + (GATES + j) * d_hidden));
            }
            // SAFETY: as above.
            unsafe { l.cells.store(simd, cell, count, c) };
            prefetch(l.cells.pointer(cell + d_hidden));
            prefetch(l.hidden.pointer(cell + d_hidden));
            (sums[0], sums[1]) = (c, o);
        }
        // A loop of its own: the rows' long chains of operations overlap better.
        for (i, sums) in sums.iter().enumerate() {
            let row = first + i;
            let h = simd.mul_f32s(sums[1], tanh(simd, sums[0]));
            // SAFETY: as above.
            unsafe {
                l.hidden.store(simd, (row * l.shape.seq + step) * d_hidden + unit, count, h);
                l.states.store(simd, step + 1, row, unit, count, h);
            }
        }
    }
}

/// `[σ(i), σ(f), tanh(g), σ(o)]` with one division for all: `1/(abcd)` times the three other factors.
#[inline(always)]
fn activate<S: Simd>(simd: S, before: [S::f32s; GATES]) -> [S::f32s; GATES] {
    let (zero, one) = (simd.splat_f32s(0.0), simd.splat_f32s(1.0));
    let g = before[2];
    // e⁻|ˣ| is at most 1, so no product of denominators overflows.
    let mut e = [zero; GATES];
    let mut d = [zero; GATES];
    for j in 0..GATES {
        let x = if j == 2 { simd.add_f32s(g, g) } else { before[j] };
        e[j] = exp_bounded(simd, simd.neg_f32s(simd.abs_f32s(x)));
        d[j] = simd.add_f32s(one, e[j]);
    }
    let (d01, d23) = (simd.mul_f32s(d[0], d[1]), simd.mul_f32s(d[2], d[3]));
    let all = simd.div_f32s(one, simd.mul_f32s(d01, d23));
    let (r01, r23) = (simd.mul_f32s(all, d23), simd.mul_f32s(all, d01));
    let r = [simd.mul_f32s(r01, d[1]), simd.mul_f32s(r01, d[0]), simd.mul_f32s(r23, d[3]), simd.mul_f32s(r23, d[2])];
    let mut out = [zero; GATES];
    for j in 0..GATES {
        let negative = simd.less_than_f32s(before[j], zero);
        out[j] = if j == 2 {
            let magnitude = simd.mul_f32s(simd.sub_f32s(one, e[2]), r[2]);
            let large = simd.select_f32s(negative, simd.neg_f32s(magnitude), magnitude);
            tanh_near_zero(simd, g, large)
        } else {
            simd.mul_f32s(simd.select_f32s(negative, e[j], one), r[j])
        };
    }
    out
}
