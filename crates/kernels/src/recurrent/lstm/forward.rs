//! The cell of the forward pass.

use pulp::Simd;

use super::super::prefetch;
use super::super::time_loop::{Cell, Step};
use super::{GATES, RecurrentShape};
use crate::shared_slice::SharedSlice;
use crate::vector::{exp_bounded, load, tanh, tanh_near_zero};

/// Computes `h_t` and `c_t` from the sums of `h_{t−1} W_hh` and the input projections in `gates`.
pub(super) struct ForwardCell<'a> {
    pub(super) shape: RecurrentShape,
    pub(super) bias: &'a [f32],
    pub(super) c0: &'a [f32],
    pub(super) hidden: SharedSlice<'a>,
    pub(super) cells: SharedSlice<'a>,
    /// Gates of the steps done and input projections of the others.
    pub(super) gates: SharedSlice<'a>,
}

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
        // Two copies of the code, so that the usual one has no branch on the number of lanes.
        if units.1 == S::F32_LANES {
            self.units(simd, step, first, (units.0, S::F32_LANES), sums);
        } else {
            self.units(simd, step, first, units, sums);
        }
    }
}

impl ForwardCell<'_> {
    #[inline(always)]
    fn units<S: Simd>(
        &self,
        simd: S,
        step: Step<'_>,
        first: usize,
        (unit, count): (usize, usize),
        sums: &mut [[S::f32s; GATES]],
    ) {
        let RecurrentShape { seq, d_hidden, .. } = self.shape;
        let mut bias = [simd.splat_f32s(0.0); GATES];
        for (j, bias) in bias.iter_mut().enumerate() {
            *bias = load(simd, &self.bias[j * d_hidden + unit..][..count]);
        }
        for (i, sums) in sums.iter_mut().enumerate() {
            let at = (first + i) * seq + step.index;
            let (cell, gates) = (at * d_hidden + unit, at * GATES * d_hidden + unit);
            let mut before = *sums;
            for j in 0..GATES {
                // SAFETY: the row and the units belong to this part alone until the barrier after the step.
                let projected = unsafe { self.gates.load(simd, gates + j * d_hidden, count) };
                before[j] = simd.add_f32s(simd.add_f32s(before[j], projected), bias[j]);
            }
            let activated = activate(simd, before);
            let previous = match step.index {
                0 => load(simd, &self.c0[(first + i) * d_hidden + unit..][..count]),
                // SAFETY: as above.
                _ => unsafe { self.cells.load(simd, cell - d_hidden, count) },
            };
            let [i, f, g, o] = activated;
            let c = simd.mul_add_e_f32s(f, previous, simd.mul_f32s(i, g));
            for (j, value) in activated.into_iter().enumerate() {
                // SAFETY: as above.
                unsafe { self.gates.store(simd, gates + j * d_hidden, count, value) };
                prefetch(self.gates.pointer(gates + (GATES + j) * d_hidden));
            }
            // SAFETY: as above.
            unsafe { self.cells.store(simd, cell, count, c) };
            prefetch(self.cells.pointer(cell + d_hidden));
            prefetch(self.hidden.pointer(cell + d_hidden));
            (sums[0], sums[1]) = (c, o);
        }
        // A loop of its own, so that the long chains of operations of the rows overlap better.
        for (i, sums) in sums.iter().enumerate() {
            let row = first + i;
            let h = simd.mul_f32s(sums[1], tanh(simd, sums[0]));
            // SAFETY: as above.
            unsafe {
                self.hidden.store(simd, (row * seq + step.index) * d_hidden + unit, count, h);
                step.store_state(simd, row, unit, count, h);
            }
        }
    }
}

/// Returns `[σ(i), σ(f), tanh(g), σ(o)]` with a single division: `1/a` is `1/(abcd)` times the three other factors.
#[inline(always)]
fn activate<S: Simd>(simd: S, before: [S::f32s; GATES]) -> [S::f32s; GATES] {
    let (zero, one) = (simd.splat_f32s(0.0), simd.splat_f32s(1.0));
    let g = before[2];
    // e⁻|ˣ| is at most 1, so the product of the denominators cannot overflow.
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
