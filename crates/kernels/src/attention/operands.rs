//! A checked attention call, and its operands laid out for the register tiles.

use pulp::Simd;

use super::options::{AttentionOptions, AttentionShape};
use super::view::View;
use crate::error::KernelError;
use crate::tile::{panel_width, round_to_lanes};

/// The inputs of an attention call whose sizes have been checked against each other.
#[derive(Clone, Copy)]
pub(crate) struct Problem<'a> {
    pub(crate) shape: AttentionShape,
    pub(crate) options: AttentionOptions<'a>,
    pub(crate) q: View<'a>,
    pub(crate) k: View<'a>,
    pub(crate) v: View<'a>,
}

impl<'a> Problem<'a> {
    pub(crate) fn new(
        shape: AttentionShape,
        options: &AttentionOptions<'a>,
        q: View<'a>,
        k: View<'a>,
        v: View<'a>,
    ) -> Result<Self, KernelError> {
        options.validate(&shape)?;
        q.check("queries", shape.query_shape())?;
        k.check("keys", shape.key_shape())?;
        v.check("values", shape.value_shape())?;
        Ok(Self { shape, options: *options, q, k, v })
    }

    /// Returns the multiply-adds of the forward pass without masks, which decide whether several threads pay.
    pub(crate) fn multiply_adds(&self) -> usize {
        let AttentionShape { batch, n_heads, queries, keys, d_head, d_value, .. } = self.shape;
        batch * n_heads * queries * keys * (d_head + d_value)
    }

    /// Returns the number of keys of sequence `batch`, without padding.
    #[inline(always)]
    pub(crate) fn length(&self, batch: usize) -> usize {
        self.options.lengths.map_or(self.shape.keys, |lengths| lengths[batch])
    }
}

/// Copies the rows of `[batch, head]`, times `scale`, one after another, each filled up with zeros from `d` to `width`.
#[inline(always)]
pub(crate) fn copy_rows(
    view: View<'_>,
    (batch, head): (usize, usize),
    rows: std::ops::Range<usize>,
    d: usize,
    scale: f32,
    width: usize,
    out: &mut [f32],
) {
    let step = view.strides[3];
    for (i, out) in rows.zip(out.chunks_exact_mut(width.max(1))) {
        let from = &view.data[view.offset(batch, head, i).min(view.data.len())..];
        let (head, tail) = out.split_at_mut(d);
        if step == 1 {
            for (out, x) in head.iter_mut().zip(from) {
                *out = x * scale;
            }
        } else {
            for (t, out) in head.iter_mut().enumerate() {
                *out = from[t * step] * scale;
            }
        }
        tail.fill(0.0);
    }
}

/// The rows of one head as a register tile reads them: in whole vectors, one row after another.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    data: &'a [f32],
    pub(crate) width: usize,
}

impl<'a> Rows<'a> {
    /// Returns the number of elements of scratch memory that [`Rows::new`] needs.
    pub(crate) fn scratch<S: Simd>(view: View<'_>, rows: usize, d: usize) -> usize {
        if Self::fits::<S>(view, d) { 0 } else { rows * round_to_lanes::<S>(d) }
    }

    /// Uses the view itself if it is laid out in this way, else a copy in `scratch`.
    ///
    /// Rows that lie far apart, as in packed queries, keys and values, are copied: 64 of them would fall on too few sets
    /// of the first-level cache.
    #[inline(always)]
    pub(crate) fn new<S: Simd>(
        view: View<'a>,
        (batch, head): (usize, usize),
        rows: usize,
        d: usize,
        scratch: &'a mut [f32],
    ) -> Self {
        let width = round_to_lanes::<S>(d);
        if Self::fits::<S>(view, d) {
            let start = view.offset(batch, head, 0).min(view.data.len());
            return Self { data: &view.data[start..], width };
        }
        copy_rows(view, (batch, head), 0..rows, d, 1.0, width, scratch);
        Self { data: scratch, width }
    }

    fn fits<S: Simd>(view: View<'_>, d: usize) -> bool {
        view.strides[3] == 1 && view.strides[2] == d && d.is_multiple_of(S::F32_LANES)
    }

    /// Returns the address of row `i`.
    #[inline(always)]
    pub(crate) fn pointer(&self, i: usize) -> *const f32 {
        self.data[i * self.width..].as_ptr()
    }

    /// Returns the first `d` elements of row `i`.
    #[inline(always)]
    pub(crate) fn row(&self, i: usize, d: usize) -> &[f32] {
        &self.data[i * self.width..][..d]
    }
}

/// The rows of one head as columns, in panels as wide as a register tile, or in one narrower panel if that holds all rows:
/// element `t` of row `j` is at `(j / panel)·stride + t·width + j % panel`, and zero for rows past the last.
///
/// Ten keys in a panel of 64 would be a copy of mostly zeros; translation, whose sentences are that short, then spent 17 %
/// of its backward pass in attention.
#[derive(Clone, Copy)]
pub(crate) struct Columns<'a> {
    data: &'a [f32],
    /// Number of elements of a row.
    d: usize,
    /// Number of rows in a panel, the stride from element to element.
    pub(crate) width: usize,
    /// Stride from panel to panel.
    pub(crate) stride: usize,
}

impl<'a> Columns<'a> {
    fn width<S: Simd>(rows: usize) -> usize {
        panel_width::<S>().min(round_to_lanes::<S>(rows))
    }

    /// Returns the number of elements of scratch memory that [`Columns::new`] needs.
    pub(crate) fn scratch<S: Simd>(rows: usize, d: usize) -> usize {
        rows.next_multiple_of(Self::width::<S>(rows).max(1)) * d
    }

    /// Copies the rows, times `scale`, to `scratch`.
    #[inline(always)]
    pub(crate) fn new<S: Simd>(
        view: View<'_>,
        (batch, head): (usize, usize),
        rows: usize,
        d: usize,
        scale: f32,
        scratch: &'a mut [f32],
    ) -> Self {
        let width = Self::width::<S>(rows);
        let stride = d * width;
        let step = view.strides[3];
        for (p, out) in scratch.chunks_exact_mut(stride.max(1)).enumerate() {
            let present = rows.saturating_sub(p * width).min(width);
            if present < width {
                out.fill(0.0);
            }
            let base = view.offset(batch, head, p * width);
            // Four rows at once: four neighbouring stores fill a quarter of a cache line, and rows are read in order.
            let mut j = 0;
            while j + 4 <= present && step == 1 {
                let row = |r: usize| &view.data[base + (j + r) * view.strides[2]..][..d];
                let (r0, r1, r2, r3) = (row(0), row(1), row(2), row(3));
                for (t, out) in out.chunks_exact_mut(width).enumerate() {
                    out[j..j + 4].copy_from_slice(&[r0[t] * scale, r1[t] * scale, r2[t] * scale, r3[t] * scale]);
                }
                j += 4;
            }
            for j in j..present {
                for (t, out) in out.chunks_exact_mut(width).enumerate() {
                    out[j] = view.data[base + j * view.strides[2] + t * step] * scale;
                }
            }
        }
        Self { data: scratch, d, width, stride }
    }

    /// Returns the address of the panel that begins with row `first`.
    #[inline(always)]
    pub(crate) fn pointer(&self, first: usize) -> *const f32 {
        self.data[first * self.d..].as_ptr()
    }
}
