//! What both resets share: where a unit's values lie, and the memory of a loop.

use pulp::Simd;

use super::{GATES, GruWeights, RecurrentShape, SAVED};
use crate::shared_slice::SharedSlice;
use crate::vector::load;

/// The slices of a forward loop.
#[derive(Clone, Copy)]
pub(super) struct ForwardMemory<'a> {
    pub(super) shape: RecurrentShape,
    pub(super) weights: GruWeights<'a>,
    pub(super) h0: &'a [f32],
    pub(super) hidden: SharedSlice<'a>,
    pub(super) saved: SharedSlice<'a>,
}

/// The slices of a backward loop.
#[derive(Clone, Copy)]
pub(super) struct BackwardMemory<'a> {
    pub(super) shape: RecurrentShape,
    pub(super) h0: &'a [f32],
    pub(super) hidden: &'a [f32],
    /// What the forward pass kept for steps not yet done, gradients for those done.
    pub(super) saved: SharedSlice<'a>,
    pub(super) grad_hidden: &'a [f32],
    /// A sum for each row group, `[row_groups, 4·d_hidden]`.
    pub(super) biases: SharedSlice<'a>,
    /// The gradient of `h_t` that does not pass through a product, in the end of `h_0`.
    pub(super) grad_h: SharedSlice<'a>,
}

/// Some units of one row at one step.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// In `[batch, d_hidden]`.
    pub(super) state: usize,
    /// In `[batch, seq, d_hidden]`.
    pub(super) hidden: usize,
    /// In `[batch, seq, 4·d_hidden]`, of the first of the four.
    pub(super) saved: usize,
    /// First unit.
    pub(super) unit: usize,
    /// Units.
    pub(super) count: usize,
    d_hidden: usize,
    step: usize,
}

impl Place {
    #[inline(always)]
    pub(super) fn new(shape: &RecurrentShape, row: usize, step: usize, unit: usize, count: usize) -> Self {
        let (at, d_hidden) = (row * shape.seq + step, shape.d_hidden);
        Self {
            state: row * d_hidden + unit,
            hidden: at * d_hidden + unit,
            saved: at * SAVED * d_hidden + unit,
            unit,
            count,
            d_hidden,
            step,
        }
    }

    /// Where value `j` of the four lies in `saved`.
    #[inline(always)]
    pub(super) fn value(&self, j: usize) -> usize {
        self.saved + j * self.d_hidden
    }

    /// Where value `j` of the four lies in the sums of a row group.
    #[inline(always)]
    pub(super) fn bias(&self, group: usize, j: usize) -> usize {
        (group * SAVED + j) * self.d_hidden + self.unit
    }
}

impl ForwardMemory<'_> {
    /// The two biases of gate `j`.
    #[inline(always)]
    pub(super) fn biases<S: Simd>(&self, simd: S, at: Place, j: usize) -> (S::f32s, S::f32s) {
        debug_assert!(j < GATES);
        let start = j * at.d_hidden + at.unit;
        let (ih, hh) = (&self.weights.bias_ih[start..][..at.count], &self.weights.bias_hh[start..][..at.count]);
        (load(simd, ih), load(simd, hh))
    }

    /// `h_{t−1}`.
    ///
    /// # Safety
    /// No other thread writes these units of the step before this one until the next barrier.
    #[inline(always)]
    pub(super) unsafe fn previous<S: Simd>(&self, simd: S, at: Place) -> S::f32s {
        match at.step {
            0 => load(simd, &self.h0[at.state..][..at.count]),
            // SAFETY: the caller's promise.
            _ => unsafe { self.hidden.load(simd, at.hidden - at.d_hidden, at.count) },
        }
    }
}

impl BackwardMemory<'_> {
    /// `h_{t−1}`.
    #[inline(always)]
    pub(super) fn previous<S: Simd>(&self, simd: S, at: Place) -> S::f32s {
        match at.step {
            0 => load(simd, &self.h0[at.state..][..at.count]),
            _ => load(simd, &self.hidden[at.hidden - at.d_hidden..][..at.count]),
        }
    }

    /// The gradient of `h_t`: through the next step's products, past them, and from outside.
    ///
    /// # Safety
    /// No other thread writes these units of `grad_h` before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn grad_h<S: Simd>(&self, simd: S, at: Place, from_next: S::f32s) -> S::f32s {
        // SAFETY: the caller's promise.
        let carried = unsafe { self.grad_h.load(simd, at.state, at.count) };
        let outside = load(simd, &self.grad_hidden[at.hidden..][..at.count]);
        simd.add_f32s(simd.add_f32s(from_next, carried), outside)
    }
}

/// `(1 − z) ∘ n + z ∘ h`, as `n + z (h − n)`.
#[inline(always)]
pub(super) fn blend<S: Simd>(simd: S, z: S::f32s, n: S::f32s, h: S::f32s) -> S::f32s {
    simd.mul_add_e_f32s(z, simd.sub_f32s(h, n), n)
}
