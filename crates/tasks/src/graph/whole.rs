//! A graph as the network sees it: names, labels, scaled features and edges.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use regard_data::{NodeGraph, Split, Splits, builtin, read_graph};
use regard_nn::layers::graph_convolution::normalised;
use regard_nn::models::graph::NodeBatch;
use regard_ops::{Graph, SelfLoops, SparseMatrix};

use super::config::{Config, DataConfig, Normalise};
use crate::error::TaskError;

/// Seed of the built-in graph, which is the same in every run.
const BUILT_IN_SEED: u64 = 1;

/// A graph with all its nodes.
#[derive(Debug)]
pub(super) struct Whole {
    /// Names of the nodes.
    pub names: Vec<String>,
    /// Labels of the nodes, as far as they are known.
    pub labels: Vec<Option<String>>,
    /// Features and edges of all nodes.
    pub batch: NodeBatch,
    places: HashMap<String, usize>,
}

impl Whole {
    /// Scales the features of a graph and turns its edges into what each node sees.
    pub fn new(data: &NodeGraph, config: &Config) -> Result<Self, TaskError> {
        let total = |features: &[(u32, f32)]| match config.data.normalise {
            Normalise::None => 1.0,
            Normalise::Rows => {
                let sum: f64 = features.iter().map(|(_, value)| f64::from(value.abs())).sum();
                if sum > 0.0 { sum } else { 1.0 }
            }
        };
        let rows: Vec<Vec<(usize, f32)>> = data
            .nodes
            .iter()
            .map(|node| {
                let total = total(&node.features);
                let scaled = |value: f32| (f64::from(value) / total) as f32;
                node.features.iter().map(|&(number, value)| (number as usize, scaled(value))).collect()
            })
            .collect();
        let features = SparseMatrix::new(data.width, &rows)?;
        let batch = with_edges(features, &data.edges, config)?;
        let names: Vec<String> = data.nodes.iter().map(|node| node.name.clone()).collect();
        let places = names.iter().cloned().enumerate().map(|(at, name)| (name, at)).collect();
        let labels = data.nodes.iter().map(|node| node.label.clone()).collect();
        Ok(Self { names, labels, batch, places })
    }

    /// Returns the index of the node with this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// Returns the number of other nodes that a node sees.
    pub fn degree(&self, node: usize) -> usize {
        self.batch.graph.sources(node).filter(|&source| source != node).count()
    }
}

/// Builds what the network runs on, with the weights `Â` if it needs them.
fn with_edges(features: SparseMatrix, edges: &[(u32, u32)], config: &Config) -> Result<NodeBatch, TaskError> {
    let DataConfig { directed, self_loops, .. } = config.data;
    let edges = edges.iter().map(|&(from, to)| (from as usize, to as usize));
    let edges: Vec<(usize, usize)> = match directed {
        true => edges.collect(),
        false => edges.flat_map(|(from, to)| [(from, to), (to, from)]).collect(),
    };
    let loops = if self_loops { SelfLoops::Add } else { SelfLoops::AsGiven };
    let graph = Graph::new(features.rows(), &edges, loops)?;
    let adjacency = config.model.uses_adjacency().then(|| normalised(&graph)).transpose()?;
    Ok(NodeBatch { features, graph, adjacency })
}

/// The graph of a run and the nodes of its splits.
#[derive(Debug)]
pub(super) struct Source {
    /// The graph that predictions and scores are computed on.
    pub whole: Arc<Whole>,
    /// The graph that training sees: the same, or without the edges of held-out nodes.
    pub train: NodeBatch,
    /// Nodes of the splits, by their indices.
    pub splits: Splits<usize>,
    /// Number of features.
    pub width: usize,
}

impl Source {
    /// Reads or draws the graph of a configuration.
    pub fn load(config: &Config, width: Option<usize>) -> Result<Self, TaskError> {
        let (data, place) = Self::data(config, width)?;
        let mut splits = data.splits(&place)?;
        let whole = Whole::new(&data, config)?;
        let train = match config.data.inductive {
            false => whole.batch.clone(),
            true => {
                let hidden: BTreeSet<usize> =
                    [Split::Dev, Split::Test].iter().flat_map(|&split| splits.get(split)).copied().collect();
                let seen = |node: u32| !hidden.contains(&(node as usize));
                let edges: Vec<_> = data.edges.iter().copied().filter(|&(from, to)| seen(from) && seen(to)).collect();
                splits.notes.push(format!("training sees {} of {} edges", edges.len(), data.edges.len()));
                with_edges(whole.batch.features.clone(), &edges, config)?
            }
        };
        Ok(Self { whole: Arc::new(whole), train, splits, width: data.width })
    }

    /// Reads or draws the nodes and edges of a configuration, and returns them with the name of their place.
    pub fn data(config: &Config, width: Option<usize>) -> Result<(NodeGraph, std::path::PathBuf), TaskError> {
        match &config.data.path {
            Some(path) => Ok((read_graph(path, width.or(config.data.features))?, path.clone())),
            None => {
                Ok((builtin::citations(config.data.papers, BUILT_IN_SEED), Path::new("built-in graph").to_path_buf()))
            }
        }
    }
}
