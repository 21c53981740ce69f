//! The left factor of the product of a step, stored compactly: one state that the step reads and one that it writes.

use pulp::Simd;

use super::panels::Rows;
use super::team::Part;
use crate::shared_slice::SharedSlice;

/// Number of elements between rows, so that rows do not fall on the same cache sets.
const ROW_PADDING: usize = 16;

/// The memory of a [`StatePair`].
pub(super) struct StateMemory {
    data: Vec<f32>,
    batch: usize,
    stride: usize,
}

impl StateMemory {
    pub(super) fn new(batch: usize, width: usize) -> Self {
        let stride = width + ROW_PADDING;
        Self { data: vec![0.0; 2 * batch * stride], batch, stride }
    }

    /// Creates memory in which state 0 is `initial`, `[batch, width]`.
    pub(super) fn starting_from(initial: &[f32], batch: usize, width: usize) -> Self {
        let mut memory = Self::new(batch, width);
        for row in 0..batch {
            memory.data[row * memory.stride..][..width].copy_from_slice(&initial[row * width..][..width]);
        }
        memory
    }

    pub(super) fn pair(&mut self) -> StatePair<'_> {
        let len = self.batch * self.stride;
        StatePair { data: SharedSlice::new(&mut self.data), len, stride: self.stride }
    }
}

/// Two states `[batch, stride]`, one for even and one for odd numbers.
#[derive(Clone, Copy)]
pub(super) struct StatePair<'a> {
    data: SharedSlice<'a>,
    len: usize,
    stride: usize,
}

impl<'a> StatePair<'a> {
    /// Returns the part's rows of the state number `step`.
    ///
    /// # Safety
    /// No thread writes these rows of this state before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn rows(self, step: usize, part: &Part<'_>) -> Rows<'a> {
        let start = step % 2 * self.len + part.rows.start * self.stride;
        // SAFETY: the caller's promise.
        let data = unsafe { self.data.read(start, part.rows.len() * self.stride) };
        Rows { data, stride: self.stride, depth_stride: 1 }
    }

    /// Writes the first `count` lanes to the columns from `column` on of the state number `step`.
    ///
    /// # Safety
    /// No other thread uses these elements before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn store<S: Simd>(
        self,
        simd: S,
        step: usize,
        row: usize,
        column: usize,
        count: usize,
        value: S::f32s,
    ) {
        let start = step % 2 * self.len + row * self.stride + column;
        // SAFETY: the caller's promise.
        unsafe { self.data.store(simd, start, count, value) };
    }
}
