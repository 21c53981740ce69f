//! The part of a graph that the answers for some nodes depend on: the nodes, their neighbours, the neighbours of these, as many
//! edges away as the network reaches.

use std::collections::HashMap;

use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;
use regard_nn::models::graph::NodeBatch;
use regard_ops::{Graph, SelfLoops, SparseMatrix};

use crate::error::TaskError;

/// A part of a graph, with the nodes numbered anew in the order in which they are found: first those it is about.
#[derive(Debug)]
pub(super) struct Block {
    /// Nodes of the part, by their indices in the whole graph.
    pub nodes: Vec<usize>,
    /// Features and edges of the part. The outermost nodes see only themselves: nothing depends on what else they see.
    pub batch: NodeBatch,
    /// Number of nodes within each number of edges: `within[0]` are those that the block is about.
    pub within: Vec<usize>,
}

impl Block {
    /// Collects the nodes that are at most `hops` edges away from `targets`, which must be different.
    pub fn around(whole: &NodeBatch, targets: &[usize], hops: usize) -> Result<Self, TaskError> {
        Self::collect(whole, targets, hops, |_, _| None)
    }

    /// Draws at most `neighbours[hop]` neighbours of each node that is `hop` edges away from `targets`, which must be different.
    /// `random` returns the random numbers of a node; the choice for a node does not depend on the other targets of this call.
    pub fn drawn(
        whole: &NodeBatch,
        targets: &[usize],
        neighbours: &[usize],
        random: impl Fn(usize) -> Option<ChaCha8Rng>,
    ) -> Result<Self, TaskError> {
        Self::collect(whole, targets, neighbours.len(), |node, hop| Some((neighbours[hop], random(node)?)))
    }

    /// Collects nodes; `draw` returns the number of neighbours to draw for a node at a distance, or `None` for all of them.
    fn collect(
        whole: &NodeBatch,
        targets: &[usize],
        hops: usize,
        draw: impl Fn(usize, usize) -> Option<(usize, ChaCha8Rng)>,
    ) -> Result<Self, TaskError> {
        let mut nodes = targets.to_vec();
        let mut places: HashMap<usize, usize> = targets.iter().enumerate().map(|(at, &node)| (node, at)).collect();
        let (mut edges, mut within) = (Vec::new(), vec![nodes.len()]);
        // Weights of graph convolution, a row per node.
        let mut weights: Vec<Vec<(usize, f32)>> = Vec::new();
        let mut first = 0;
        for hop in 0..hops {
            for at in first..within[hop] {
                let Seen { own, mut others } = Seen::of(whole, nodes[at]);
                let all = others.len();
                if let Some((count, mut random)) = draw(nodes[at], hop).filter(|(count, _)| *count < all) {
                    let mut chosen = sample(&mut random, all, count).into_vec();
                    chosen.sort_unstable();
                    others = chosen.into_iter().map(|at| others[at]).collect();
                }
                // A neighbour that was drawn also stands for those that were not.
                let share = all as f32 / others.len().max(1) as f32;
                let mut row: Vec<(usize, f32)> = own.map(|weight| (at, weight)).into_iter().collect();
                for (source, weight) in others {
                    let place = *places.entry(source).or_insert_with(|| {
                        nodes.push(source);
                        nodes.len() - 1
                    });
                    row.push((place, weight * share));
                }
                edges.extend(row.iter().map(|&(place, _)| (place, at)));
                row.sort_unstable_by_key(|&(place, _)| place);
                weights.push(row);
            }
            first = within[hop];
            within.push(nodes.len());
        }
        for (at, &node) in nodes.iter().enumerate().skip(first) {
            let own = Seen::of(whole, node).own;
            edges.extend(own.map(|_| (at, at)));
            weights.push(own.map(|weight| (at, weight)).into_iter().collect());
        }
        let rows: Vec<Vec<(usize, f32)>> = nodes.iter().map(|&node| whole.features.row(node).collect()).collect();
        let features = SparseMatrix::new(whole.features.columns(), &rows)?;
        let graph = Graph::new(nodes.len(), &edges, SelfLoops::AsGiven)?;
        let adjacency = whole.adjacency.as_ref().map(|_| SparseMatrix::new(nodes.len(), &weights)).transpose()?;
        Ok(Self { nodes, batch: NodeBatch { features, graph, adjacency }, within })
    }
}

/// Returns the largest numbers of nodes and edges of a block around `targets` nodes with so many drawn neighbours.
pub(super) fn most(targets: usize, neighbours: &[usize]) -> (usize, usize) {
    let mut last = targets;
    let (mut nodes, mut edges) = (targets, 0usize);
    for &count in neighbours {
        let found = last.saturating_mul(count);
        (nodes, edges, last) = (nodes.saturating_add(found), edges.saturating_add(found), found);
    }
    // Each node also sees itself.
    (nodes, edges.saturating_add(nodes))
}

/// The nodes that a node sees, with their weights in graph convolution, or 1.
struct Seen {
    /// Weight of the node itself, if it sees itself.
    own: Option<f32>,
    others: Vec<(usize, f32)>,
}

impl Seen {
    fn of(whole: &NodeBatch, node: usize) -> Self {
        let mut seen = Self { own: None, others: Vec::new() };
        let mut add = |(source, weight): (usize, f32)| match source == node {
            true => seen.own = Some(weight),
            false => seen.others.push((source, weight)),
        };
        match &whole.adjacency {
            Some(weights) => weights.row(node).for_each(&mut add),
            None => whole.graph.sources(node).map(|source| (source, 1.0)).for_each(&mut add),
        }
        seen
    }
}
