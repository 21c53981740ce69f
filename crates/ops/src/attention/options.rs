//! Options of attention: masks, biases, scale and dropout.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use regard_kernels::attention::{self as kernel, AttentionShape, Band, Dropout};

use crate::error::OpError;
use crate::fused::check_f32;

/// The keys that a query may see, by their distance from it. The position of query `i` is `i + keys − queries`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mask {
    /// All keys.
    #[default]
    Full,
    /// The keys up to and including the query's own position.
    Causal,
    /// The keys at most `left` before and `right` after the query's own position; `right: 0` is also causal.
    Window {
        /// Number of visible keys before the query's position.
        left: usize,
        /// Number of visible keys after the query's position.
        right: usize,
    },
}

/// The keys that each query may see, as compressed sparse rows; the same for every sequence and head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SparseRows {
    pub(super) offsets: Arc<Vec<usize>>,
    pub(super) columns: Arc<Vec<usize>>,
}

impl SparseRows {
    /// Builds the rows from a list of keys for each query. Keys may be unsorted, and duplicates count once.
    pub fn new(rows: Vec<Vec<usize>>) -> Self {
        let mut offsets = vec![0];
        let mut columns = Vec::new();
        for mut row in rows {
            row.sort_unstable();
            row.dedup();
            columns.extend(row);
            offsets.push(columns.len());
        }
        Self { offsets: Arc::new(offsets), columns: Arc::new(columns) }
    }
}

/// A bias on the scores that depends on the distance of the key from the query's position.
#[derive(Debug, Clone, Default)]
#[allow(clippy::large_enum_variant, reason = "one value per call; boxing would gain nothing")]
pub enum Distance {
    /// No bias.
    #[default]
    None,
    /// ALiBi: `−slope · |distance|`, one slope per head. `regard_kernels::attention::alibi_slopes` has the published ones.
    Alibi {
        /// Slopes, `[n_heads]`.
        slopes: Vec<f32>,
    },
    /// A learned bias for each distance, clipped to `±max`, at index `distance + max` of the table.
    Relative {
        /// Biases, `[n_heads, 2 max + 1]`.
        table: Tensor<2>,
    },
}

/// Options of attention. A query sees only the keys that all masks allow; all biases are added up.
#[derive(Debug, Clone, Default)]
pub struct AttentionOptions {
    /// Factor on `q·k`; `1/√d_head` if `None`.
    pub scale: Option<f32>,
    /// Mask by distance.
    pub mask: Mask,
    /// Number of real keys of each sequence, `[batch]`; the rest is padding.
    pub lengths: Option<Vec<usize>>,
    /// Boolean mask, true where the query may see the key: `[batch or 1, n_heads or 1, queries or 1, keys or 1]`.
    pub allowed: Option<Tensor<4, Bool>>,
    /// Sparse mask: a list of visible keys for each query.
    pub sparse: Option<SparseRows>,
    /// Bias added to the scores: `[batch or 1, n_heads or 1, queries or 1, keys or 1]`.
    pub bias: Option<Tensor<4>>,
    /// Bias added to the scores by distance.
    pub distance: Distance,
    /// Dropout of the attention weights. Use a new seed for each step and layer.
    pub dropout: Option<Dropout>,
}

impl Mask {
    pub(super) fn band(self) -> Band {
        match self {
            Mask::Full => Band::FULL,
            Mask::Causal => Band::CAUSAL,
            Mask::Window { left, right } => Band { left: Some(left), right: Some(right) },
        }
    }
}

impl Distance {
    /// Returns the learned table of [`Distance::Relative`].
    pub(super) fn table(&self) -> Option<Tensor<2>> {
        match self {
            Distance::Relative { table } => Some(table.clone()),
            Distance::None | Distance::Alibi { .. } => None,
        }
    }
}

impl AttentionOptions {
    pub(super) fn scale_for(&self, shape: &AttentionShape) -> f32 {
        self.scale.unwrap_or_else(|| 1.0 / (shape.d_head as f32).sqrt())
    }

    /// Returns an error if the options do not fit `shape`.
    pub(super) fn check(&self, shape: &AttentionShape) -> Result<(), OpError> {
        let option = |what, why| Err(OpError::Option { what, why });
        let AttentionShape { batch, n_heads, queries, keys, .. } = *shape;
        let broadcasts = |what, got: [usize; 4]| {
            let fits = got.iter().zip([batch, n_heads, queries, keys]).all(|(&got, full)| got == full || got == 1);
            let expected = format!("[{batch} or 1, {n_heads} or 1, {queries} or 1, {keys} or 1]");
            if fits { Ok(()) } else { Err(OpError::Shape { what, expected, got: got.to_vec() }) }
        };
        if let Some(scale) = self.scale
            && !scale.is_finite()
        {
            return option("scale", format!("expected a finite number, got {scale}"));
        }
        if let Some(allowed) = &self.allowed {
            broadcasts("mask", allowed.dims())?;
        }
        if let Some(bias) = &self.bias {
            check_f32("bias", bias)?;
            broadcasts("bias", bias.dims())?;
        }
        match &self.distance {
            Distance::None => {}
            Distance::Alibi { slopes } if slopes.len() == n_heads => {}
            Distance::Alibi { slopes } => {
                return option("ALiBi slopes", format!("expected {n_heads}, one per head, got {}", slopes.len()));
            }
            Distance::Relative { table } => {
                check_f32("relative table", table)?;
                let [heads, width] = table.dims();
                if heads != n_heads || width % 2 == 0 {
                    let expected = format!("[{n_heads}, 2 max + 1]");
                    return Err(OpError::Shape { what: "relative table", expected, got: vec![heads, width] });
                }
            }
        }
        // The kernel's options check the rest.
        let lengths = self.lengths.as_deref();
        let sparse = self.sparse.as_ref().map(|s| kernel::SparseRows { offsets: &s.offsets, columns: &s.columns });
        let dropout = self.dropout;
        kernel::AttentionOptions { scale: 1.0, lengths, sparse, dropout, ..Default::default() }.validate(shape)?;
        Ok(())
    }
}
