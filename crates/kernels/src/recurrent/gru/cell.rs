//! The memory of a time loop and the parts of a step that both kinds of reset share.

use pulp::Simd;

use super::super::time_loop::Step;
use super::super::{through_sigmoid, through_tanh};
use super::{GATES, GruWeights, RecurrentShape, SAVED};
use crate::shared_slice::SharedSlice;
use crate::vector::{load, sigmoid};

/// The slices of a forward pass.
#[derive(Clone, Copy)]
pub(super) struct ForwardMemory<'a> {
    pub(super) shape: RecurrentShape,
    pub(super) weights: GruWeights<'a>,
    pub(super) h0: &'a [f32],
    pub(super) hidden: SharedSlice<'a>,
    pub(super) saved: SharedSlice<'a>,
}

/// The slices of a backward pass.
#[derive(Clone, Copy)]
pub(super) struct BackwardMemory<'a> {
    pub(super) shape: RecurrentShape,
    pub(super) h0: &'a [f32],
    pub(super) hidden: &'a [f32],
    /// Values that the forward pass saved for the steps not yet done, and gradients for the others.
    pub(super) saved: SharedSlice<'a>,
    pub(super) grad_hidden: &'a [f32],
    /// Gradient of `h_t` that does not pass through a product; after the last step it is that of `h_0`.
    pub(super) grad_h: SharedSlice<'a>,
}

/// The place of some units of one row at one step.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Index in `[batch, d_hidden]`.
    pub(super) state: usize,
    /// Index in `[batch, seq, d_hidden]`.
    pub(super) hidden: usize,
    /// Index of the first of the four values in `[batch, seq, 4·d_hidden]`.
    pub(super) saved: usize,
    /// First unit.
    unit: usize,
    /// Number of units.
    count: usize,
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

    /// Returns the index of value `j` of the four in `saved`.
    #[inline(always)]
    pub(super) fn value(&self, j: usize) -> usize {
        self.saved + j * self.d_hidden
    }

    /// Returns the column of value `j` in a row of gates or biases.
    #[inline(always)]
    pub(super) fn column(&self, j: usize) -> usize {
        j * self.d_hidden + self.unit
    }
}

impl ForwardMemory<'_> {
    /// Returns the two biases of gate `j`.
    #[inline(always)]
    pub(super) fn biases<S: Simd>(&self, simd: S, at: Place, j: usize) -> (S::f32s, S::f32s) {
        debug_assert!(j < GATES);
        let start = at.column(j);
        let (ih, hh) = (&self.weights.bias_ih[start..][..at.count], &self.weights.bias_hh[start..][..at.count]);
        (load(simd, ih), load(simd, hh))
    }

    /// Returns the input projection of gate `j` plus both biases.
    ///
    /// # Safety
    /// No other thread writes these units of `saved` before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn projected<S: Simd>(&self, simd: S, at: Place, j: usize) -> S::f32s {
        let (ih, hh) = self.biases(simd, at, j);
        // SAFETY: the caller's promise.
        let projected = unsafe { self.saved.load(simd, at.value(j), at.count) };
        simd.add_f32s(projected, simd.add_f32s(ih, hh))
    }

    /// Returns gate `j`, one of `r` and `z`, from its sum `h_{t−1} W_hh`.
    ///
    /// # Safety
    /// No other thread writes these units of `saved` before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn gate<S: Simd>(&self, simd: S, at: Place, j: usize, sum: S::f32s) -> S::f32s {
        // SAFETY: the caller's promise.
        sigmoid(simd, simd.add_f32s(sum, unsafe { self.projected(simd, at, j) }))
    }

    /// Returns `h_{t−1}`.
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
    /// Returns `h_{t−1}`.
    #[inline(always)]
    pub(super) fn previous<S: Simd>(&self, simd: S, at: Place) -> S::f32s {
        match at.step {
            0 => load(simd, &self.h0[at.state..][..at.count]),
            _ => load(simd, &self.hidden[at.hidden - at.d_hidden..][..at.count]),
        }
    }

    /// Returns the gradients before the nonlinearities of `z` and `n`, and stores the part of the gradient of `h_{t−1}` that
    /// does not pass through a product in `grad_h`.
    ///
    /// The gradient of `h_t` has three parts: through the next step's products, past them, and from outside.
    ///
    /// # Safety
    /// No other thread uses these units of `saved` and `grad_h` before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn update_and_candidate<S: Simd>(&self, simd: S, at: Place, from_next: S::f32s) -> [S::f32s; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let z = self.saved.load(simd, at.value(1), at.count);
            let n = self.saved.load(simd, at.value(2), at.count);
            let carried = self.grad_h.load(simd, at.state, at.count);
            let outside = load(simd, &self.grad_hidden[at.hidden..][..at.count]);
            let grad_h = simd.add_f32s(simd.add_f32s(from_next, carried), outside);
            self.grad_h.store(simd, at.state, at.count, simd.mul_f32s(grad_h, z));
            let toward_h = simd.sub_f32s(self.previous(simd, at), n);
            let toward_n = simd.sub_f32s(simd.splat_f32s(1.0), z);
            [
                through_sigmoid(simd, z, simd.mul_f32s(grad_h, toward_h)),
                through_tanh(simd, n, simd.mul_f32s(grad_h, toward_n)),
            ]
        }
    }

    /// Stores the gradient of value `j` in `saved` and adds it to that of the biases.
    ///
    /// # Safety
    /// No other thread uses these units of `saved` and of the row group's bias before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn store_gradient<S: Simd>(&self, simd: S, step: Step<'_>, at: Place, j: usize, grad: S::f32s) {
        // SAFETY: the caller's promise.
        unsafe {
            self.saved.store(simd, at.value(j), at.count, grad);
            step.add_bias(simd, at.column(j), at.count, grad);
        }
    }
}

/// Returns `(1 − z) ∘ n + z ∘ h`, computed as `n + z (h − n)`.
#[inline(always)]
pub(super) fn blend<S: Simd>(simd: S, z: S::f32s, n: S::f32s, h: S::f32s) -> S::f32s {
    simd.mul_add_e_f32s(z, simd.sub_f32s(h, n), n)
}
