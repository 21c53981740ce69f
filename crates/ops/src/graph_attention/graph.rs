//! Graphs of nodes and directed edges.

use std::sync::Arc;

use regard_kernels::attention as kernel;
use regard_kernels::graph_attention::Edges;

use crate::attention::SparseRows;
use crate::error::OpError;

/// Whether to add an edge from every node to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelfLoops {
    /// Add a self-loop to every node.
    Add,
    /// Keep the edges as given; a node sees itself only if the edges include its self-loop.
    AsGiven,
}

/// A graph of nodes and directed edges, with the edges sorted by target, then by source. Cheap to clone.
///
/// ```
/// use regard_ops::{Graph, SelfLoops};
///
/// let graph = Graph::new(3, &[(0, 2), (1, 2), (0, 2)], SelfLoops::Add)?;
/// assert_eq!(graph.edges().collect::<Vec<_>>(), [(0, 0), (1, 1), (0, 2), (1, 2), (2, 2)]);
/// # Ok::<(), regard_ops::OpError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    edges: Arc<Edges>,
}

impl Graph {
    /// Builds a graph of `nodes` nodes from edges `(source, target)` in any order; duplicate edges count once.
    ///
    /// An undirected edge is given as two edges, one in each direction.
    pub fn new(nodes: usize, edges: &[(usize, usize)], self_loops: SelfLoops) -> Result<Self, OpError> {
        if nodes > u32::MAX as usize {
            return Err(OpError::Option { what: "nodes", why: format!("expected at most 2³² − 1, got {nodes}") });
        }
        let outside = |&(source, target): &(usize, usize)| source >= nodes || target >= nodes;
        if let Some(index) = edges.iter().position(outside) {
            return Err(OpError::Edge { index, edge: edges[index], nodes });
        }
        let mut by_target: Vec<(usize, usize)> = edges.iter().map(|&(source, target)| (target, source)).collect();
        if self_loops == SelfLoops::Add {
            by_target.extend((0..nodes).map(|node| (node, node)));
        }
        by_target.sort_unstable();
        by_target.dedup();
        let mut offsets = vec![0; nodes + 1];
        for &(target, _) in &by_target {
            offsets[target + 1] += 1;
        }
        for target in 0..nodes {
            offsets[target + 1] += offsets[target];
        }
        let columns: Vec<usize> = by_target.into_iter().map(|(_, source)| source).collect();
        let rows = kernel::SparseRows { offsets: &offsets, columns: &columns };
        Ok(Self { edges: Arc::new(Edges::new(rows, nodes)?) })
    }

    /// Returns the number of nodes.
    pub fn n_nodes(&self) -> usize {
        self.edges.n_targets()
    }

    /// Returns the number of edges, self-loops included.
    pub fn n_edges(&self) -> usize {
        self.edges.len()
    }

    /// Iterates over the edges `(source, target)`, sorted by target, then by source. This is the order of
    /// [`graph_attention_weights`](super::graph_attention_weights).
    pub fn edges(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.n_nodes()).flat_map(move |target| self.sources(target).map(move |source| (source, target)))
    }

    /// Iterates over the nodes that have an edge to `target`, in ascending order.
    ///
    /// # Panics
    /// Panics if `target` is not a node of the graph.
    pub fn sources(&self, target: usize) -> impl Iterator<Item = usize> + '_ {
        self.edges.sources()[self.edges.incoming(target)].iter().map(|&source| source as usize)
    }

    pub(super) fn kernel(&self) -> &Edges {
        &self.edges
    }
}

/// Converts the graph to a mask of dot-product attention: a query sees the keys that have an edge to it.
impl From<&Graph> for SparseRows {
    fn from(graph: &Graph) -> Self {
        Self::new((0..graph.n_nodes()).map(|target| graph.sources(target).collect()).collect())
    }
}
