//! Classifier of the nodes of a graph: graph attention (GAT), graph convolution (GCN), or a multilayer perceptron that does not
//! see the edges.
//!
//! Each layer is preceded by dropout; all but the last are followed by an activation. The last layer computes the logits, which
//! may then be propagated along the edges ([`propagated`]): a few labels reach farther than layers do.

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use regard_ops::{Activation, CrossEntropyOptions, Graph, SparseMatrix, activation, cross_entropy, softmax};
use serde::{Deserialize, Serialize};

use crate::config::{ActivationName, check_dropout, check_layers, check_positive, check_product, name_or_table};
use crate::error::{ConfigError, NnError};
use crate::init::{Init, LayerPath};
use crate::layers::attention::graph::{GraphAttention, GraphAttentionConfig, Join, Scoring};
use crate::layers::graph_convolution::{GraphConvolution, normalised, propagated};
use crate::layers::linear::{Linear, LinearConfig};
use crate::layers::node_features::NodeFeatures;
use crate::pass::Pass;
use crate::rows::row_indices;

/// Published share of a node's own logits in each round of their propagation.
const TELEPORT: f32 = 0.1;
/// Most rounds of propagation. At the published share, later rounds change the logits by less than f32 can tell.
const MOST_ROUNDS: usize = 200;

/// Configuration of graph attention layers. The defaults are those published for the citation graphs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GatConfig {
    /// Number of features of a hidden layer, all heads together.
    pub d_model: usize,
    /// Number of layers.
    pub n_layers: usize,
    /// Number of heads of a hidden layer; their outputs are concatenated.
    pub n_heads: usize,
    /// Number of heads of the last layer; their outputs are averaged.
    pub output_heads: usize,
    /// How the score of an edge depends on its two nodes.
    pub scoring: Scoring,
    /// Slope of the leaky ReLU below zero in the scores.
    pub slope: f32,
    /// Activation between the layers.
    #[serde(with = "ActivationName")]
    pub activation: Activation,
    /// Dropout probability of the features of each layer's input.
    pub dropout: f32,
    /// Dropout probability of the attention weights.
    pub attention_dropout: f32,
    /// Number of rounds in which the logits are propagated along the edges; 0 for none.
    pub propagation: usize,
    /// Share of a node's own logits in each round of the propagation.
    pub teleport: f32,
}

impl Default for GatConfig {
    fn default() -> Self {
        Self {
            d_model: 64,
            n_layers: 2,
            n_heads: 8,
            output_heads: 1,
            scoring: Scoring::Static,
            slope: 0.2,
            activation: Activation::Elu,
            dropout: 0.6,
            attention_dropout: 0.6,
            propagation: 0,
            teleport: TELEPORT,
        }
    }
}

impl GatConfig {
    /// Returns the configuration of layer `layer` of a network with `d_in` features and `outputs` labels.
    pub fn layer(&self, layer: usize, d_in: usize, outputs: usize) -> GraphAttentionConfig {
        let Self { n_heads, output_heads, scoring, slope, attention_dropout, .. } = *self;
        let d_in = if layer == 0 { d_in } else { self.d_model };
        let (n_heads, d_head, join) = match layer + 1 == self.n_layers {
            true => (output_heads, outputs, Join::Mean),
            false => (n_heads, self.d_model / n_heads.max(1), Join::Concat),
        };
        GraphAttentionConfig {
            join,
            scoring,
            slope,
            dropout: attention_dropout,
            ..GraphAttentionConfig::new(d_in, n_heads, d_head)
        }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        check_sizes(self.d_model, self.n_layers, self.dropout)?;
        check_positive("n_heads", self.n_heads)?;
        check_positive("output_heads", self.output_heads)?;
        if !self.d_model.is_multiple_of(self.n_heads) {
            return Err(ConfigError::new("n_heads", self.n_heads, format!("a divisor of d_model, {}", self.d_model)));
        }
        if !self.slope.is_finite() {
            return Err(ConfigError::new("slope", self.slope, "a finite number, such as 0.2"));
        }
        check_dropout("attention_dropout", self.attention_dropout)?;
        check_propagation(self.propagation, self.teleport)
    }
}

/// Configuration of graph convolution layers, or of dense layers without edges.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GcnConfig {
    /// Number of features of a hidden layer.
    pub d_model: usize,
    /// Number of layers.
    pub n_layers: usize,
    /// Dropout probability of the features of each layer's input.
    pub dropout: f32,
    /// Number of rounds in which the logits are propagated along the edges; 0 for none.
    pub propagation: usize,
    /// Share of a node's own logits in each round of the propagation.
    pub teleport: f32,
}

impl Default for GcnConfig {
    fn default() -> Self {
        Self { d_model: 64, n_layers: 2, dropout: 0.6, propagation: 0, teleport: TELEPORT }
    }
}

impl GcnConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        check_sizes(self.d_model, self.n_layers, self.dropout)?;
        check_propagation(self.propagation, self.teleport)
    }
}

/// Returns an error unless all networks can have these sizes.
fn check_sizes(d_model: usize, n_layers: usize, dropout: f32) -> Result<(), ConfigError> {
    check_positive("d_model", d_model)?;
    check_layers("n_layers", n_layers)?;
    check_dropout("dropout", dropout)
}

/// Returns an error unless logits can be propagated in this way.
fn check_propagation(rounds: usize, teleport: f32) -> Result<(), ConfigError> {
    if rounds > MOST_ROUNDS {
        return Err(ConfigError::new("propagation", rounds, format!("0 to {MOST_ROUNDS} rounds")));
    }
    match teleport > 0.0 && teleport <= 1.0 {
        true => Ok(()),
        false => Err(ConfigError::new("teleport", teleport, "a share above 0 and at most 1, such as 0.1")),
    }
}

/// Network over the nodes of a graph. A file gives it by name, `network = "gcn"`, or with settings,
/// `network = { kind = "gat", n_heads = 4 }`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum GraphNetworkConfig {
    /// Graph attention.
    Gat(GatConfig),
    /// Graph convolution.
    Gcn(GcnConfig),
    /// Dense layers that do not see the edges.
    Dnn(GcnConfig),
}

impl Default for GraphNetworkConfig {
    fn default() -> Self {
        Self::Gat(GatConfig::default())
    }
}

impl GraphNetworkConfig {
    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Gat(config) => config.validate(),
            Self::Gcn(config) | Self::Dnn(config) => config.validate(),
        }
    }

    /// Returns the number of layers.
    pub fn n_layers(&self) -> usize {
        match self {
            Self::Gat(config) => config.n_layers,
            Self::Gcn(config) | Self::Dnn(config) => config.n_layers,
        }
    }

    /// Returns the number of features of a hidden layer.
    pub fn d_model(&self) -> usize {
        match self {
            Self::Gat(config) => config.d_model,
            Self::Gcn(config) | Self::Dnn(config) => config.d_model,
        }
    }

    /// Returns the number of rounds in which the logits are propagated along the edges, and the share of a node's own logits.
    pub fn propagation(&self) -> (usize, f32) {
        match self {
            Self::Gat(config) => (config.propagation, config.teleport),
            Self::Gcn(config) | Self::Dnn(config) => (config.propagation, config.teleport),
        }
    }

    /// Returns how many edges away the farthest node is that the answer for a node depends on.
    pub fn reach(&self) -> usize {
        self.n_layers() + self.propagation().0
    }

    /// Returns whether the network uses the weights `Â` of graph convolution.
    pub fn uses_adjacency(&self) -> bool {
        matches!(self, Self::Gcn(_)) || self.propagation().0 > 0
    }

    fn dropout(&self) -> f32 {
        match self {
            Self::Gat(config) => config.dropout,
            Self::Gcn(config) | Self::Dnn(config) => config.dropout,
        }
    }
}

/// Configuration of a [`GraphClassifier`]. `d_in` and `outputs` must be set from the data: their default of zero is invalid.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GraphClassifierConfig {
    /// Number of features of a node.
    pub d_in: usize,
    /// Number of labels.
    pub outputs: usize,
    /// Network over the nodes.
    #[serde(deserialize_with = "name_or_table")]
    pub network: GraphNetworkConfig,
}

impl GraphClassifierConfig {
    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("d_in", self.d_in)?;
        if self.outputs < 2 {
            return Err(ConfigError::new("outputs", self.outputs, "2 or more labels to choose one from"));
        }
        let d_model = self.network.d_model();
        check_product("d_model", &[self.d_in, d_model])?;
        check_product("d_model", &[d_model, d_model])?;
        check_product("d_model", &[d_model, self.outputs])?;
        if let GraphNetworkConfig::Gat(config) = self.network {
            let widest = d_model.max(self.d_in);
            check_product("network.output_heads", &[widest, config.output_heads, self.outputs])?;
        }
        self.network.validate().map_err(|error| error.within("network"))
    }

    /// Creates the network.
    pub fn init(&self, init: &Init) -> Result<GraphClassifier, ConfigError> {
        self.validate()?;
        let Self { d_in, outputs, network } = *self;
        let (count, d_model) = (network.n_layers(), network.d_model());
        let sizes = |layer: usize| {
            (if layer == 0 { d_in } else { d_model }, if layer + 1 == count { outputs } else { d_model })
        };
        let layers = (0..count).map(|n| {
            let (init, (d_in, d_out)) = (init.enter("layers").enter(n).layer(n), sizes(n));
            Ok(match network {
                GraphNetworkConfig::Gat(config) => NodeLayer::Attention(config.layer(n, d_in, outputs).init(&init)?),
                GraphNetworkConfig::Gcn(_) => NodeLayer::Convolution(GraphConvolution::new(d_in, d_out, &init)?),
                GraphNetworkConfig::Dnn(_) => NodeLayer::Dense(LinearConfig::new(d_in, d_out).init(&init)?),
            })
        });
        let activation = match network {
            GraphNetworkConfig::Gat(config) => config.activation,
            GraphNetworkConfig::Gcn(_) | GraphNetworkConfig::Dnn(_) => Activation::Relu,
        };
        let (rounds, teleport) = network.propagation();
        Ok(GraphClassifier {
            layers: layers.collect::<Result<_, ConfigError>>()?,
            activation,
            dropout: network.dropout(),
            rounds,
            teleport,
            drops: (0..count).map(|n| init.enter("dropout").enter(n).path()).collect(),
        })
    }
}

/// One layer of a [`GraphClassifier`].
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a model has few layers")]
pub enum NodeLayer {
    /// Graph attention.
    Attention(GraphAttention),
    /// Graph convolution.
    Convolution(GraphConvolution),
    /// Linear layer on each node by itself.
    Dense(Linear),
}

/// Classifier of the nodes of a graph; see the [module](self).
#[derive(Module, Debug)]
pub struct GraphClassifier {
    /// Layers, the one that reads the features first.
    pub layers: Vec<NodeLayer>,
    #[module(skip)]
    activation: Activation,
    dropout: f32,
    /// Rounds of propagation of the logits.
    rounds: usize,
    teleport: f32,
    /// Paths of the dropout before each layer.
    #[module(skip)]
    drops: Vec<LayerPath>,
}

/// A graph with the features of its nodes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct NodeBatch {
    /// Features, a row per node.
    pub features: SparseMatrix,
    /// Edges, with the self-loops that the network is to see.
    pub graph: Graph,
    /// Weights `Â` of graph convolution and of propagation; computed from the graph if `None`.
    pub adjacency: Option<SparseMatrix>,
}

impl GraphClassifier {
    /// Computes the logits of all nodes.
    ///
    /// # Shapes
    /// `batch.features` `[nodes, d_in]` → `[nodes, outputs]`.
    pub fn logits(&self, batch: &NodeBatch, pass: &Pass) -> Result<Tensor<2>, NnError> {
        if batch.features.rows() != batch.graph.n_nodes() {
            let expected = format!("{}, one per node", batch.graph.n_nodes());
            return Err(NnError::input("rows of features", expected, batch.features.rows().to_string()));
        }
        let has_convolutions = self.layers.iter().any(|layer| matches!(layer, NodeLayer::Convolution(_)));
        let adjacency = match &batch.adjacency {
            None if has_convolutions || self.rounds > 0 => Some(normalised(&batch.graph)?),
            given => given.clone(),
        };
        let mut x = NodeFeatures::Sparse(batch.features.clone(), None);
        for (n, (layer, path)) in self.layers.iter().zip(&self.drops).enumerate() {
            pass.check_cancelled()?;
            let dropout = pass.dropout(path, self.dropout);
            x = match (x, dropout) {
                (NodeFeatures::Sparse(features, _), dropout) => NodeFeatures::Sparse(features, dropout),
                (NodeFeatures::Dense(x), Some(drop)) => {
                    NodeFeatures::Dense(regard_ops::dropout(x, drop.probability, drop.seed)?)
                }
                (x, None) => x,
            };
            let y = match (layer, &adjacency) {
                (NodeLayer::Attention(layer), _) => layer.forward(x, &batch.graph, pass)?,
                (NodeLayer::Convolution(layer), Some(adjacency)) => layer.forward(x, adjacency)?,
                (NodeLayer::Convolution(_), None) => unreachable!("computed above"),
                (NodeLayer::Dense(layer), _) => x.through(layer)?,
            };
            x = NodeFeatures::Dense(if n + 1 < self.layers.len() { activation(y, self.activation)? } else { y });
        }
        match (x, adjacency) {
            (NodeFeatures::Dense(logits), Some(adjacency)) => {
                propagated(logits, &adjacency, self.rounds, self.teleport)
            }
            (NodeFeatures::Dense(logits), None) => Ok(logits),
            (NodeFeatures::Sparse(..), _) => Err(NnError::input("layers", "at least one", "none")),
        }
    }

    /// Computes the probabilities of the labels of some nodes.
    ///
    /// # Shapes
    /// `[targets, outputs]`.
    pub fn predict(&self, batch: &NodeBatch, targets: &[usize], pass: &Pass) -> Result<Tensor<2>, NnError> {
        Ok(softmax(self.chosen(batch, targets, pass)?)?)
    }

    /// Computes the mean loss of some nodes with known labels.
    ///
    /// # Shapes
    /// `labels` `[targets]` → `[1]`.
    pub fn loss(
        &self,
        batch: &NodeBatch,
        targets: &[usize],
        labels: Tensor<1, Int>,
        label_smoothing: f32,
        pass: &Pass,
    ) -> Result<Tensor<1>, NnError> {
        let options = CrossEntropyOptions { label_smoothing, ignore_index: None };
        Ok(cross_entropy(self.chosen(batch, targets, pass)?, labels, options)?)
    }

    /// Computes the logits of some nodes.
    fn chosen(&self, batch: &NodeBatch, targets: &[usize], pass: &Pass) -> Result<Tensor<2>, NnError> {
        let nodes = batch.graph.n_nodes();
        let logits = self.logits(batch, pass)?;
        let places = row_indices(targets, nodes, &logits.device())?;
        Ok(logits.select(0, places))
    }
}
