//! Graph convolution (GCN, [Kipf and Welling 2017](https://arxiv.org/abs/1609.02907)): each node gets a mean of its neighbours
//! with fixed weights.
//!
//! `y = Â x W + b`, `Â_ij = 1/√(d_i d_j)` for each edge `j → i`, where `d_i` counts the edges to `i` and `d_j` those from `j`,
//! self-loops included.
//!
//! The same weights carry predictions on ([`propagated`], [Gasteiger et al. 2019](https://arxiv.org/abs/1810.05997)): a node far from
//! all labels learns from those that its neighbours' neighbours have found.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use regard_ops::{Graph, OpError, SparseMatrix, sparse_matmul};

use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::linear::{Bias, Linear, LinearConfig};
use crate::layers::node_features::NodeFeatures;

/// Graph convolution layer; see the [module](self) for the formula.
#[derive(Module, Debug)]
pub struct GraphConvolution {
    /// `W`, `[d_in, d_out]`.
    pub values: Linear,
    /// `b`, `[d_out]`.
    pub bias: Param<Tensor<1>>,
}

impl GraphConvolution {
    /// Creates the layer.
    pub fn new(d_in: usize, d_out: usize, init: &Init) -> Result<Self, ConfigError> {
        let values = LinearConfig::new(d_in, d_out).with_bias(Bias::None);
        Ok(Self { values: values.init(&init.enter("values"))?, bias: init.constant([d_out], 0.0) })
    }

    /// Computes for each node the mean of its neighbours, weighted by `adjacency` (`Â`).
    ///
    /// # Shapes
    /// `x` `[nodes, d_in]`, `adjacency` `[nodes, nodes]` → `[nodes, d_out]`.
    pub fn forward(&self, x: impl Into<NodeFeatures>, adjacency: &SparseMatrix) -> Result<Tensor<2>, NnError> {
        let h = x.into().through(&self.values)?;
        Ok(sparse_matmul(adjacency, h, None)? + self.bias.val().unsqueeze())
    }
}

/// Propagates `h` along the edges with the weights `adjacency` (`Â`): `z ← (1 − α) Â z + α h`, `rounds` times from `z = h`, where `α`
/// is `teleport`. Many rounds approach the personalised PageRank of `h`.
///
/// # Shapes
/// `h` `[nodes, d]`, `adjacency` `[nodes, nodes]` → `[nodes, d]`.
pub fn propagated(h: Tensor<2>, adjacency: &SparseMatrix, rounds: usize, teleport: f32) -> Result<Tensor<2>, NnError> {
    let own = h.clone() * teleport;
    let mut z = h;
    for _ in 0..rounds {
        z = sparse_matmul(adjacency, z, None)? * (1.0 - teleport) + own.clone();
    }
    Ok(z)
}

/// Computes the weights `Â` of a graph.
pub fn normalised(graph: &Graph) -> Result<SparseMatrix, OpError> {
    let nodes = graph.n_nodes();
    let (mut to, mut from) = (vec![0usize; nodes], vec![0usize; nodes]);
    for (source, target) in graph.edges() {
        from[source] += 1;
        to[target] += 1;
    }
    let row = |target: usize| -> Vec<(usize, f32)> {
        let weight = |source: usize| 1.0 / (from[source] as f32 * to[target] as f32).sqrt();
        graph.sources(target).map(|source| (source, weight(source))).collect()
    };
    SparseMatrix::new(nodes, &(0..nodes).map(row).collect::<Vec<_>>())
}
