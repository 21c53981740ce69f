//! The graph attention network of the speed table, the same as in `bench/peer_torch.py`: two layers with dropout 0.6 on a random
//! graph with sparse features, learning from a twentieth of its nodes.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use burn::tensor::{Device, Int, Tensor, TensorData};
use regard_nn::models::graph::{GatConfig, GraphClassifier, GraphClassifierConfig, GraphNetworkConfig, NodeBatch};
use regard_nn::{Init, Pass};
use regard_ops::{Graph, SelfLoops, SparseMatrix};

use super::train::Training;

/// The sizes of a graph and its network: nodes, links of a node to others, features, features that a node has, d_model, n_heads and
/// labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphModel(pub [usize; 7]);

impl GraphModel {
    /// The sizes of Cora with the published network.
    pub const CORA: Self = Self([2708, 2, 1433, 18, 64, 8, 7]);

    /// Returns the model if its sizes fit together.
    pub fn checked(self) -> Result<Self, String> {
        self.config().validate().map_err(|error| error.to_string())?;
        let [nodes, _, features, own, ..] = self.0;
        match own <= features && nodes >= 20 {
            true => Ok(self),
            false => Err("expected at least 20 nodes, and no more features of a node than there are".to_string()),
        }
    }

    pub fn config(&self) -> GraphClassifierConfig {
        let [_, _, d_in, _, d_model, n_heads, outputs] = self.0;
        let network = GraphNetworkConfig::Gat(GatConfig { d_model, n_heads, ..GatConfig::default() });
        GraphClassifierConfig { d_in, outputs, network }
    }

    /// Estimates the numbers that a training step holds. A float, because huge sizes would overflow an integer.
    pub fn numbers(&self) -> f64 {
        let [nodes, links, features, own, d_model, n_heads, outputs] = self.0.map(|size| size as f64);
        let edges = nodes * (2.0 * links + 1.0);
        let weights = features * d_model + d_model * outputs;
        4.0 * weights + nodes * (8.0 * own + 8.0 * d_model + 8.0 * outputs) + edges * (10.0 + 4.0 * n_heads)
    }

    pub fn batch(&self) -> Result<NodeBatch> {
        let [nodes, links, features, own, ..] = self.0;
        let mut state = 1u64;
        let mut below = |count: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % count
        };
        let edges = (0..nodes * links).map(|at| (at % nodes, below(nodes))).flat_map(|(a, b)| [(a, b), (b, a)]);
        let graph = Graph::new(nodes, &edges.collect::<Vec<_>>(), SelfLoops::Add)?;
        let value = 1.0 / own as f32;
        let row = |_| {
            let chosen: std::collections::BTreeSet<usize> = (0..own).map(|_| below(features)).collect();
            chosen.into_iter().map(|feature| (feature, value)).collect::<Vec<_>>()
        };
        let features = SparseMatrix::new(features, &(0..nodes).map(row).collect::<Vec<_>>())?;
        Ok(NodeBatch { features, graph, adjacency: None })
    }
}

/// Returns a call of one training step, which is an epoch: all training nodes at once.
pub fn step(model: GraphModel) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let device = Device::flex().autodiff();
    let (batch, [nodes, .., labels]) = (model.batch()?, model.0);
    let targets: Vec<usize> = (0..nodes / 20).collect();
    let answers: Vec<i64> = targets.iter().map(|target| (target % labels) as i64).collect();
    let answers = Tensor::<1, Int>::from_data(TensorData::new(answers, [targets.len()]), &device);
    let seed = AtomicU64::new(0);
    let model = model.config().init(&Init::new(0, &device))?;
    let mut training = Training::new(model, vec![()], move |model: &GraphClassifier, ()| {
        let pass = Pass::training(seed.fetch_add(1, Ordering::Relaxed));
        model.loss(&batch, &targets, answers.clone(), 0.0, &pass)
    });
    Ok(Box::new(move || training.step().map(|_| ())))
}
