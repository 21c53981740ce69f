//! The steps from products to weights: biases, masks and dropout of a row of scores.

use pulp::{Scalar, Simd};

use super::operands::Problem;
use crate::random::{RowKey, lanes, threshold};
use crate::vector::zip_in_place;

impl Problem<'_> {
    /// Sets the scores of `queries` for the keys `first..first + width` to the bias, and returns whether there is one. The
    /// products are then added to it. One pass over many rows lets the memory deliver several at once.
    #[inline(always)]
    pub(crate) fn start_scores(
        &self,
        (batch, head): (usize, usize),
        queries: std::ops::Range<usize>,
        first: usize,
        width: usize,
        scores: &mut [f32],
        row_stride: usize,
    ) -> bool {
        let Some(bias) = self.options.bias else { return false };
        let present = width.min(self.shape.keys - first);
        for (i, scores) in queries.zip(scores.chunks_mut(row_stride)) {
            let from = &bias.data[bias.offset(batch, head, i) + first * bias.strides[3]..];
            let (scores, padding) = scores[..width].split_at_mut(present);
            match bias.strides[3] {
                1 => scores.copy_from_slice(&from[..present]),
                step => scores.iter_mut().enumerate().for_each(|(j, score)| *score = from[j * step]),
            }
            padding.fill(0.0);
        }
        true
    }

    /// Returns the bias of one score, 0 without one.
    #[inline(always)]
    pub(crate) fn bias(&self, (batch, head, i): (usize, usize, usize), key: usize) -> f32 {
        self.options.bias.map_or(0.0, |bias| bias.data[bias.offset(batch, head, i) + key * bias.strides[3]])
    }

    /// Adds the bias by distance to the scores of query `i` for the keys from `first` on, and sets masked scores to −∞.
    #[inline(always)]
    pub(crate) fn adjust_scores<S: Simd>(
        &self,
        simd: S,
        (batch, head, i): (usize, usize, usize),
        first: usize,
        scores: &mut [f32],
    ) {
        let options = &self.options;
        if let Some(distance) = options.distance {
            let offset = self.distance_offset(head, i, first);
            zip_in_place!(simd, scores, &distance[offset..][..scores.len()], |s, b| simd.add_f32s(s, b));
        }
        if let Some(mask) = options.mask {
            let offset =
                batch * mask.strides[0] + head * mask.strides[1] + i * mask.strides[2] + first * mask.strides[3];
            if mask.strides[3] == 1 {
                for (score, &visible) in scores.iter_mut().zip(&mask.data[offset..]) {
                    *score = if visible == 0 { f32::NEG_INFINITY } else { *score };
                }
            } else {
                for (j, score) in scores.iter_mut().enumerate() {
                    if mask.data[offset + j * mask.strides[3]] == 0 {
                        *score = f32::NEG_INFINITY;
                    }
                }
            }
        }
    }

    /// Returns the index of the bias by distance of query `i` and key `first`.
    #[inline(always)]
    pub(crate) fn distance_offset(&self, head: usize, i: usize, first: usize) -> usize {
        head * (self.shape.queries + self.shape.keys - 1) + first + self.shape.queries - 1 - i
    }

    /// Returns whether the boolean mask hides all keys `low..high` from all queries `rows`.
    #[inline(always)]
    pub(crate) fn hides(
        &self,
        (batch, head): (usize, usize),
        rows: std::ops::Range<usize>,
        low: usize,
        high: usize,
    ) -> bool {
        let Some(mask) = self.options.mask else { return false };
        rows.into_iter().all(|i| {
            let offset = batch * mask.strides[0] + head * mask.strides[1] + i * mask.strides[2];
            match mask.strides[3] {
                1 => mask.data[offset + low..offset + high].iter().all(|&visible| visible == 0),
                step => (low..high).all(|j| mask.data[offset + j * step] == 0),
            }
        })
    }

    /// Returns the dropout decisions of query `i`, if there is dropout.
    #[inline(always)]
    pub(crate) fn dropped(&self, (batch, head, i): (usize, usize, usize)) -> Option<DroppedRow> {
        let dropout = self.options.dropout.filter(|dropout| dropout.probability > 0.0)?;
        let row = (batch * self.shape.n_heads + head) * self.shape.queries + i;
        let threshold = threshold(dropout.probability);
        Some(DroppedRow { key: RowKey::new(dropout.seed, row as u64), threshold })
    }

    /// Returns `1 / (1 − p)`, the factor of weights that are kept.
    #[inline(always)]
    pub(crate) fn inverse_keep(&self) -> f32 {
        self.options.dropout.map_or(1.0, |dropout| 1.0 / (1.0 - dropout.probability))
    }
}

/// The dropout decisions of one query.
#[derive(Clone, Copy)]
pub(crate) struct DroppedRow {
    key: RowKey,
    threshold: u32,
}

impl DroppedRow {
    /// Returns `x` in the lanes whose key is kept and 0 in the others, for the keys from `first` on.
    #[inline(always)]
    pub(crate) fn keep<S: Simd>(self, simd: S, first: usize, x: S::f32s) -> S::f32s {
        let index = simd.add_u32s(lanes(simd), simd.splat_u32s(first as u32));
        let dropped = simd.less_than_u32s(self.key.bits(simd, index), simd.splat_u32s(self.threshold));
        simd.select_f32s(dropped, simd.splat_f32s(0.0), x)
    }

    /// Returns whether the weight of a key is kept.
    #[inline(always)]
    pub(crate) fn keeps(self, key: usize) -> bool {
        self.key.bits(Scalar::new(), key as u32) >= self.threshold
    }
}

/// Returns the factor of each weight under dropout, `0` or `1/(1 − p)`: `[rows, keys]`, with rows numbered through
/// `[batch, n_heads, queries]`. The kernels do not call this; they draw the decisions on the fly.
pub fn dropout_decisions(probability: f32, seed: u64, rows: usize, keys: usize) -> Vec<f32> {
    let threshold = threshold(probability);
    let row = |row: usize| DroppedRow { key: RowKey::new(seed, row as u64), threshold };
    let factor = |kept| if kept || probability == 0.0 { 1.0 / (1.0 - probability) } else { 0.0 };
    (0..rows).flat_map(|r| (0..keys).map(move |key| factor(row(r).keeps(key)))).collect()
}
