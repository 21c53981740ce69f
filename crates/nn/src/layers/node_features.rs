//! Input of a layer over nodes: a dense tensor, or a sparse matrix such as words of documents.

use burn::tensor::Tensor;
use regard_ops::{Dropout, OpError, SparseMatrix, sparse_matmul};

use crate::layers::linear::Linear;

/// The features of nodes, a row per node.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "a layer has only one input")]
pub enum NodeFeatures {
    /// All features, `[nodes, d_in]`.
    Dense(Tensor<2>),
    /// The features that are not zero, `[nodes, d_in]`, and their dropout. They stay sparse: only the product with a weight is
    /// dense.
    Sparse(SparseMatrix, Option<Dropout>),
}

impl From<Tensor<2>> for NodeFeatures {
    fn from(features: Tensor<2>) -> Self {
        Self::Dense(features)
    }
}

impl NodeFeatures {
    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        match self {
            Self::Dense(features) => features.dims()[0],
            Self::Sparse(features, _) => features.rows(),
        }
    }

    /// Applies a linear layer to each node.
    ///
    /// # Shapes
    /// `[nodes, d_in]` → `[nodes, d_out]`.
    pub fn through(self, layer: &Linear) -> Result<Tensor<2>, OpError> {
        match self {
            Self::Dense(features) => layer.forward(features),
            Self::Sparse(features, dropout) => {
                let y = sparse_matmul(&features, layer.weight_f32(), dropout)?;
                Ok(match &layer.bias {
                    Some(bias) => y + bias.val().unsqueeze(),
                    None => y,
                })
            }
        }
    }
}
