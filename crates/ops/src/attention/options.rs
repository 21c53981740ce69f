//! Who may see whom, and what is added to the scores.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use regard_kernels::attention::{self as kernel, AttentionShape, Band};

use crate::error::OpError;
use crate::fused::check_f32;

/// Which keys a query may see by their distance. The position of query `i` is `i + keys − queries`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mask {
    /// All.
    #[default]
    Full,
    /// The keys up to the query's own position.
    Causal,
    /// The keys at most `left` before and `right` after the query's own position; `right: 0` is causal too.
    Window {
        /// Keys before.
        left: usize,
        /// Keys after.
        right: usize,
    },
}

/// The keys each query may see, as compressed sparse rows, the same for every sequence and head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SparseRows {
    pub(super) offsets: Arc<Vec<usize>>,
    pub(super) columns: Arc<Vec<usize>>,
}

impl SparseRows {
    /// Rows from the keys of each query; they are sorted, and each counts once.
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

/// A bias that depends on the distance of the key from the query's position.
#[derive(Debug, Clone, Default)]
#[allow(clippy::large_enum_variant, reason = "one a call; a box would only be in the way")]
pub enum Distance {
    /// None.
    #[default]
    None,
    /// ALiBi: `−slope · |distance|`, a slope a head (`regard_kernels::attention::alibi_slopes` has the published ones).
    Alibi {
        /// `[n_heads]`.
        slopes: Vec<f32>,
    },
    /// A learned table of distances clipped to `±max`, index `distance + max`.
    Relative {
        /// `[n_heads, 2 max + 1]`.
        table: Tensor<2>,
    },
}

/// Random omission of weights, drawn from a counter: the same seed gives the same choice, on any number of threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    /// Probability that a weight is left out, in `[0, 1)`.
    pub probability: f32,
    /// Selects the random numbers; take a new one each step and layer.
    pub seed: u64,
}

/// Everything that shapes the scores. All restrictions hold together; all biases add up.
#[derive(Debug, Clone, Default)]
pub struct AttentionOptions {
    /// Factor on `q·k`; `1/√d_head` by default.
    pub scale: Option<f32>,
    /// Limits by distance.
    pub mask: Mask,
    /// Keys that exist in each sequence; the rest is padding.
    pub lengths: Option<Vec<usize>>,
    /// An arbitrary mask, true where the query may see the key: `[batch or 1, n_heads or 1, queries or 1, keys or 1]`.
    pub allowed: Option<Tensor<4, Bool>>,
    /// An arbitrary sparse mask.
    pub sparse: Option<SparseRows>,
    /// Added to the scores: `[batch or 1, n_heads or 1, queries or 1, keys or 1]`.
    pub bias: Option<Tensor<4>>,
    /// Added by distance.
    pub distance: Distance,
    /// Dropout of weights.
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
    /// The learned table.
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

    /// Refuses options that do not fit `shape`.
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
            return option("scale", format!("{scale} is not finite"));
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
                return option("ALiBi slopes", format!("{} for {n_heads} heads", slopes.len()));
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
        // The rest is of plain numbers, which the kernel's own options check.
        let lengths = self.lengths.as_deref();
        let sparse = self.sparse.as_ref().map(|s| kernel::SparseRows { offsets: &s.offsets, columns: &s.columns });
        let dropout = self.dropout.map(|d| kernel::Dropout { probability: d.probability, seed: d.seed });
        kernel::AttentionOptions { scale: 1.0, lengths, sparse, dropout, ..Default::default() }.validate(shape)?;
        Ok(())
    }
}
