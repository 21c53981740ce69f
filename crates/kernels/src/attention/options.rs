//! The sizes of an attention call, the masks and the biases.

use super::view::View;
use crate::error::{KernelError, check_len, check_reach};

/// The sizes of an attention call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttentionShape {
    /// Number of sequences.
    pub batch: usize,
    /// Number of query heads.
    pub n_heads: usize,
    /// Number of key and value heads; query head `h` uses head `h / (n_heads / kv_heads)`.
    pub kv_heads: usize,
    /// Number of queries in each sequence.
    pub queries: usize,
    /// Number of keys in each sequence.
    pub keys: usize,
    /// Number of features of a query and of a key.
    pub d_head: usize,
    /// Number of features of a value.
    pub d_value: usize,
}

/// The keys that a query sees by distance, from `position − left` to `position + right`; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Band {
    /// Number of keys before the query's position.
    pub left: Option<usize>,
    /// Number of keys after the query's position; `Some(0)` is causal.
    pub right: Option<usize>,
}

impl Band {
    /// All keys.
    pub const FULL: Band = Band { left: None, right: None };
    /// The keys up to the query's own position.
    pub const CAUSAL: Band = Band { left: None, right: Some(0) };
}

/// A mask `[batch, heads, queries, keys]` of bytes, non-zero where the query may see the key.
#[derive(Debug, Clone, Copy)]
pub struct BooleanMask<'a> {
    /// The bytes of the mask.
    pub data: &'a [u8],
    /// Number of elements from one index to the next, for each of the four; 0 repeats.
    pub strides: [usize; 4],
}

/// The keys each query may see, as compressed sparse rows, the same for every batch and head.
#[derive(Debug, Clone, Copy)]
pub struct SparseRows<'a> {
    /// Where each query's keys begin in `columns`: `queries + 1` offsets that never fall.
    pub offsets: &'a [usize],
    /// The keys of all queries, strictly rising within a row.
    pub columns: &'a [usize],
}

/// Dropout of attention weights, the same for the same seed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    /// Probability that a weight becomes zero, in `[0, 1)`.
    pub probability: f32,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// The masks, biases and dropout of an attention call. A query sees a key that all masks allow; all biases are added.
#[derive(Debug, Clone, Copy, Default)]
pub struct AttentionOptions<'a> {
    /// Factor of `q·k`, usually `1/√d_head`.
    pub scale: f32,
    /// Limits of the distance from query to key.
    pub band: Band,
    /// Number of keys in each sequence, `[batch]`; the rest is padding.
    pub lengths: Option<&'a [usize]>,
    /// A dense mask.
    pub mask: Option<BooleanMask<'a>>,
    /// A sparse mask.
    pub sparse: Option<SparseRows<'a>>,
    /// Bias added to the scores, `[batch, heads, queries, keys]`.
    pub bias: Option<View<'a>>,
    /// Bias by distance, `[n_heads, queries + keys − 1]`: for key `j` and query position `p` the entry is
    /// `j − p + keys − 1`. See [`alibi_distances`](super::alibi_distances) and
    /// [`relative_distances`](super::relative_distances).
    pub distance: Option<&'a [f32]>,
    /// Dropout of weights.
    pub dropout: Option<Dropout>,
}

impl AttentionShape {
    /// Returns the number of query heads that share a key head.
    pub(crate) fn group(&self) -> usize {
        self.n_heads / self.kv_heads.max(1)
    }

    /// Shape of the queries.
    pub(crate) fn query_shape(&self) -> [usize; 4] {
        [self.batch, self.n_heads, self.queries, self.d_head]
    }

    /// Shape of the keys.
    pub(crate) fn key_shape(&self) -> [usize; 4] {
        [self.batch, self.kv_heads, self.keys, self.d_head]
    }

    /// Shape of the values.
    pub(crate) fn value_shape(&self) -> [usize; 4] {
        [self.batch, self.kv_heads, self.keys, self.d_value]
    }

    /// Shape of the output.
    pub(crate) fn output_shape(&self) -> [usize; 4] {
        [self.batch, self.n_heads, self.queries, self.d_value]
    }

    /// Shape of the scores.
    pub(crate) fn score_shape(&self) -> [usize; 4] {
        [self.batch, self.n_heads, self.queries, self.keys]
    }

    /// Returns the number of queries in all heads and sequences.
    pub(crate) fn rows(&self) -> usize {
        self.batch * self.n_heads * self.queries
    }
}

impl AttentionOptions<'_> {
    /// Refuses options that do not fit `shape`; every function that takes options checks them in this way.
    pub fn validate(&self, shape: &AttentionShape) -> Result<(), KernelError> {
        let invalid = |what, why| Err(KernelError::Invalid { what, why });
        if shape.kv_heads == 0 && shape.n_heads > 0 || !shape.n_heads.is_multiple_of(shape.kv_heads.max(1)) {
            return invalid("n_heads", format!("{} is no multiple of {} kv heads", shape.n_heads, shape.kv_heads));
        }
        if shape.keys > u32::MAX as usize {
            return invalid("keys", format!("{} is more than 2³² − 1", shape.keys));
        }
        if let Some(lengths) = self.lengths {
            check_len("lengths", lengths.len(), shape.batch)?;
            if let Some(batch) = lengths.iter().position(|&length| length > shape.keys) {
                return invalid("lengths", format!("{} at {batch} of {} keys", lengths[batch], shape.keys));
            }
        }
        if let Some(mask) = self.mask {
            let extents: [_; 4] = std::array::from_fn(|d| (shape.score_shape()[d], mask.strides[d]));
            check_reach("mask", &extents, mask.data.len())?;
        }
        if let Some(bias) = self.bias {
            bias.check("bias", shape.score_shape())?;
        }
        if let Some(distance) = self.distance {
            check_len("distance", distance.len(), shape.n_heads * (shape.queries + shape.keys).saturating_sub(1))?;
        }
        if let Some(Dropout { probability, .. }) = self.dropout
            && !(0.0..1.0).contains(&probability)
        {
            return invalid("dropout", format!("probability {probability} is not in [0, 1)"));
        }
        if let Some(sparse) = self.sparse {
            sparse.check(shape.queries, shape.keys)?;
        }
        Ok(())
    }

    /// Returns the keys `[low, high)` that query `i` of sequence `batch` may see by band and length.
    #[inline(always)]
    pub(crate) fn interval(&self, shape: &AttentionShape, batch: usize, i: usize) -> (usize, usize) {
        let position = (i + shape.keys) as isize - shape.queries as isize;
        let length = self.lengths.map_or(shape.keys, |lengths| lengths[batch]);
        let low = self.band.left.map_or(0, |left| position.saturating_sub_unsigned(left).max(0) as usize);
        let high = self.band.right.map_or(length, |right| {
            (position.saturating_add_unsigned(right).saturating_add(1).max(0) as usize).min(length)
        });
        (low.min(high), high)
    }
}

impl SparseRows<'_> {
    /// Refuses rows that do not describe a mask of `queries` × `keys`.
    pub(crate) fn check(&self, queries: usize, keys: usize) -> Result<(), KernelError> {
        let invalid = |why| Err(KernelError::Invalid { what: "sparse rows", why });
        check_len("sparse row offsets", self.offsets.len(), queries + 1)?;
        if self.offsets[0] != 0 || self.offsets[queries] != self.columns.len() {
            return invalid(format!("offsets must run from 0 to the number of entries, {}", self.columns.len()));
        }
        for (row, ends) in self.offsets.windows(2).enumerate() {
            if ends[0] > ends[1] || ends[1] > self.columns.len() {
                return invalid(format!("offsets fall at row {row} or after it"));
            }
            let columns = &self.columns[ends[0]..ends[1]];
            if columns.windows(2).any(|pair| pair[0] >= pair[1]) || columns.last().is_some_and(|&c| c >= keys) {
                return invalid(format!("columns of row {row} must rise and be below {keys} keys"));
            }
        }
        Ok(())
    }

    /// Returns the keys of query `i`.
    #[inline(always)]
    pub(crate) fn row(&self, i: usize) -> &[usize] {
        &self.columns[self.offsets[i]..self.offsets[i + 1]]
    }
}
