//! Tensors `[batch, heads, seq, d]` as a slice with strides.

use crate::error::{KernelError, check_reach};
use crate::shared_slice::SharedSlice;

/// A read-only tensor `[batch, heads, seq, d]`; a stride of 0 repeats along that index.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The elements, beginning with index `[0, 0, 0, 0]`.
    pub data: &'a [f32],
    /// Number of elements from one index to the next, for each of the four.
    pub strides: [usize; 4],
}

/// A tensor `[batch, heads, seq, d]` to write to; the elements along `d` lie side by side.
pub struct ViewMut<'a> {
    data: SharedSlice<'a>,
    offset: usize,
    strides: [usize; 3],
    len: usize,
    /// Number of elements at each position that belong to this tensor; another may be packed behind them.
    row_span: usize,
}

impl<'a> View<'a> {
    /// Creates a view of a tensor stored without gaps.
    pub fn contiguous(data: &'a [f32], shape: [usize; 4]) -> Self {
        Self { data, strides: contiguous_strides(shape) }
    }

    /// Returns the index of the first element of row `[batch, head, i]`.
    #[inline(always)]
    pub(crate) fn offset(&self, batch: usize, head: usize, i: usize) -> usize {
        batch * self.strides[0] + head * self.strides[1] + i * self.strides[2]
    }

    /// Refuses strides that leave the slice.
    pub(crate) fn check(&self, what: &'static str, shape: [usize; 4]) -> Result<(), KernelError> {
        let extents: [_; 4] = std::array::from_fn(|d| (shape[d], self.strides[d]));
        check_reach(what, &extents, self.data.len()).map(|_| ())
    }
}

impl<'a> ViewMut<'a> {
    /// Creates a view of a tensor stored without gaps.
    pub fn contiguous(data: &'a mut [f32], shape: [usize; 4]) -> Self {
        let [s0, s1, s2, _] = contiguous_strides(shape);
        Self::strided(data, [s0, s1, s2])
    }

    /// Creates a view with strides for batch, head and row.
    pub fn strided(data: &'a mut [f32], strides: [usize; 3]) -> Self {
        let len = data.len();
        Self { data: SharedSlice::new(data), offset: 0, strides, len, row_span: usize::MAX }
    }

    /// Creates views of `N` tensors with `heads` heads each, which lie side by side in one `[batch, seq, Σ heads · d_head]`.
    pub fn packed<const N: usize>(
        data: &'a mut [f32],
        seq: usize,
        heads: [usize; N],
        d_head: usize,
    ) -> [ViewMut<'a>; N] {
        let row = heads.iter().sum::<usize>() * d_head;
        let len = data.len();
        let data = SharedSlice::new(data);
        let mut offset = 0;
        heads.map(|heads| {
            let row_span = heads * d_head;
            offset += row_span;
            ViewMut { data, offset: offset - row_span, strides: [seq * row, d_head, row], len, row_span }
        })
    }

    /// Returns the `d` elements of `[batch, head, i]`.
    ///
    /// # Safety
    /// No other live reference covers them.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn row(&self, batch: usize, head: usize, i: usize, d: usize) -> &mut [f32] {
        let [s0, s1, s2] = self.strides;
        // SAFETY: the caller's promise; the range is checked by `slice`.
        unsafe { self.data.slice(self.offset + batch * s0 + head * s1 + i * s2, d) }
    }

    /// Refuses strides that leave the slice or let rows overlap.
    pub(crate) fn check(&self, what: &'static str, shape: [usize; 4]) -> Result<(), KernelError> {
        let [s0, s1, s2] = self.strides;
        let extents = [(shape[0], s0), (shape[1], s1), (shape[2], s2), (shape[3], 1)];
        let reach = check_reach(what, &extents, self.len.saturating_sub(self.offset))?;
        if reach > 0 && (shape[1] - 1) * s1 + shape[3] > self.row_span {
            let why = format!("{} heads of {} reach into the tensor packed behind them", shape[1], shape[3]);
            return Err(KernelError::Invalid { what, why });
        }
        // From the innermost index outwards, each stride must be at least the extent of everything inside it.
        let mut extents: Vec<(usize, usize)> =
            (0..3).filter(|&i| shape[i] > 1).map(|i| (self.strides[i], shape[i])).collect();
        extents.sort_unstable();
        let mut inner = shape[3];
        for (stride, extent) in extents {
            if stride < inner && reach > 0 {
                let why = format!("rows overlap: strides {:?} for a shape {shape:?}", self.strides);
                return Err(KernelError::Invalid { what, why });
            }
            inner += stride * (extent - 1);
        }
        Ok(())
    }
}

/// Returns the strides of a tensor stored without gaps.
fn contiguous_strides([_, heads, seq, d]: [usize; 4]) -> [usize; 4] {
    [heads * seq * d, seq * d, d, 1]
}
