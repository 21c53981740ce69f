//! Graph attention (GAT, Veličković 2018): each node attends to the nodes that have an edge to it.
//!
//! `h = x W`, `e_ij = LeakyReLU(a_source·h_j + a_target·h_i)`, `α_ij = softmax_j e_ij` over the edges into `i`,
//! `y_i = Σ_j α_ij h_j + b`. Heads are concatenated or, in the last layer, averaged.
//!
//! These scores are static: the order of the sources is the same for every target. Dynamic scores (GATv2, Brody 2022),
//! `e_ij = a·LeakyReLU(h_j + x_i W_target)`, let the target choose.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use regard_ops::{
    Graph, GraphAttentionOptions, OpError, edge_attention, edge_attention_weights, edge_scores, graph_attention,
    graph_attention_weights,
};
use serde::{Deserialize, Serialize};

use crate::config::{check_dropout, check_positive, check_product};
use crate::error::{ConfigError, NnError};
use crate::heads::{AttentionKind, Heads};
use crate::init::Init;
use crate::layers::linear::{Bias, Linear, LinearConfig};
use crate::layers::node_features::NodeFeatures;
use crate::pass::Pass;

/// How the outputs of the heads are combined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// Concatenated.
    #[default]
    Concat,
    /// Averaged.
    Mean,
}

/// How the score of an edge depends on its source and its target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scoring {
    /// `LeakyReLU(a_source·h_j + a_target·h_i)`, as in GAT.
    #[default]
    Static,
    /// `a·LeakyReLU(h_j + x_i W_target)`, as in GATv2.
    Dynamic,
}

/// Configuration of a [`GraphAttention`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphAttentionConfig {
    /// Number of input features of a node.
    pub d_in: usize,
    /// Number of heads.
    pub n_heads: usize,
    /// Number of output features of a head.
    pub d_head: usize,
    /// How the outputs of the heads are combined.
    #[serde(default)]
    pub join: Join,
    /// How the score of an edge depends on its two nodes.
    #[serde(default)]
    pub scoring: Scoring,
    /// Bias of the output.
    #[serde(default)]
    pub bias: Bias,
    /// Slope of the leaky ReLU below zero.
    #[serde(default = "default_slope")]
    pub slope: f32,
    /// Dropout probability of the attention weights.
    #[serde(default)]
    pub dropout: f32,
}

fn default_slope() -> f32 {
    GraphAttentionOptions::default().slope
}

impl GraphAttentionConfig {
    /// Returns a configuration with concatenated heads, the published slope and no dropout.
    pub fn new(d_in: usize, n_heads: usize, d_head: usize) -> Self {
        Self {
            d_in,
            n_heads,
            d_head,
            join: Join::Concat,
            scoring: Scoring::Static,
            bias: Bias::Learned,
            slope: default_slope(),
            dropout: 0.0,
        }
    }

    /// Returns the number of output features.
    pub fn d_out(&self) -> usize {
        match self.join {
            Join::Concat => self.n_heads * self.d_head,
            Join::Mean => self.d_head,
        }
    }

    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("d_in", self.d_in)?;
        check_positive("n_heads", self.n_heads)?;
        check_positive("d_head", self.d_head)?;
        check_product("d_head", &[self.d_in, self.n_heads, self.d_head])?;
        if !self.slope.is_finite() {
            return Err(ConfigError::new("slope", self.slope, "a finite number, such as 0.2"));
        }
        check_dropout("dropout", self.dropout)
    }

    /// Creates the layer.
    pub fn init(&self, init: &Init) -> Result<GraphAttention, ConfigError> {
        self.validate()?;
        let Self { d_in, n_heads, d_head, join, scoring, bias, slope, dropout } = *self;
        let project = |name| LinearConfig::new(d_in, n_heads * d_head).with_bias(Bias::None).init(&init.enter(name));
        let vector = |name| init.weight(name, [n_heads, d_head], [d_head, 1]);
        Ok(GraphAttention {
            values: project("values")?,
            score: match scoring {
                Scoring::Static => Score::Static(StaticScore { source: vector("source"), target: vector("target") }),
                Scoring::Dynamic => {
                    Score::Dynamic(DynamicScore { target: project("target")?, vector: vector("vector") })
                }
            },
            bias: (bias == Bias::Learned).then(|| init.constant([self.d_out()], 0.0)),
            slope,
            dropout,
            join,
            n_heads,
            heads: init.heads(AttentionKind::Edges, n_heads),
        })
    }
}

/// The parameters of the scores of edges.
#[derive(Module, Debug)]
pub enum Score {
    /// [`Scoring::Static`].
    Static(StaticScore),
    /// [`Scoring::Dynamic`].
    Dynamic(DynamicScore),
}

/// The parameters of static scores.
#[derive(Module, Debug)]
pub struct StaticScore {
    /// `a_source`, `[n_heads, d_head]`.
    pub source: Param<Tensor<2>>,
    /// `a_target`, `[n_heads, d_head]`.
    pub target: Param<Tensor<2>>,
}

/// The parameters of dynamic scores.
#[derive(Module, Debug)]
pub struct DynamicScore {
    /// `W_target`, `[d_in, n_heads · d_head]`.
    pub target: Linear,
    /// `a`, `[n_heads, d_head]`.
    pub vector: Param<Tensor<2>>,
}

/// Graph attention layer; see the [module](self) for the formula.
#[derive(Module, Debug)]
pub struct GraphAttention {
    /// `W`, `[d_in, n_heads · d_head]`.
    pub values: Linear,
    /// Parameters of the scores.
    pub score: Score,
    /// `b`, `[d_out]`.
    pub bias: Option<Param<Tensor<1>>>,
    slope: f32,
    dropout: f32,
    #[module(skip)]
    join: Join,
    n_heads: usize,
    #[module(skip)]
    heads: Heads,
}

impl GraphAttention {
    /// Computes for each node a mixture of the nodes that have an edge to it. A node without incoming edges gets the bias.
    ///
    /// # Shapes
    /// `x` `[nodes, d_in]` → `[nodes, d_out]`.
    pub fn forward(&self, x: impl Into<NodeFeatures>, graph: &Graph, pass: &Pass) -> Result<Tensor<2>, NnError> {
        let x = x.into();
        let (nodes, n_heads) = (x.nodes(), self.n_heads);
        let by_head = |y: Tensor<2>| {
            let d_head = y.dims()[1] / n_heads;
            y.reshape([nodes, n_heads, d_head])
        };
        let (h, scores) = match &self.score {
            Score::Static(score) => {
                let h = by_head(x.through(&self.values)?);
                // Dividing both parts of a score divides what the leaky ReLU makes of it.
                let [sources, targets] = [&score.source, &score.target].map(|a| pass.cooled(scores(&h, a)));
                (h, Scores::Nodes { sources, targets })
            }
            Score::Dynamic(score) => {
                let h = by_head(x.clone().through(&self.values)?);
                let targets = by_head(x.through(&score.target)?);
                let scores = edge_scores(h.clone(), targets, score.vector.val(), graph, self.slope)?;
                (h, Scores::Edges(pass.cooled(scores)))
            }
        };
        let options =
            GraphAttentionOptions { slope: self.slope, dropout: pass.dropout(self.heads.path(), self.dropout) };
        if pass.capture().is_some() {
            self.heads.capture_edges(graph, &scores.weights(graph, &options)?, pass);
        }
        let mut mixed = scores.attend(h.clone(), graph, &options)?;
        if self.heads.needs_outputs(pass) {
            // Ablation sees the nodes as a batch of one sequence.
            let as_heads = |x: Tensor<3>| x.swap_dims(0, 1).unsqueeze_dim::<4>(0);
            let equally = || Ok(as_heads(scores.equal().attend(h.clone(), graph, &options)?));
            let changed = self.heads.ablate(as_heads(mixed), &as_heads(h.clone()), equally, pass)?;
            mixed = changed.squeeze_dim::<3>(0).swap_dims(0, 1);
        }
        let [_, _, d_head] = mixed.dims();
        let y: Tensor<2> = match self.join {
            Join::Concat => mixed.reshape([nodes, n_heads * d_head]),
            Join::Mean if n_heads == 1 => mixed.squeeze_dim(1),
            Join::Mean => mixed.mean_dim(1).squeeze_dim(1),
        };
        Ok(match &self.bias {
            Some(bias) if !self.heads.are_off(pass) => y + bias.val().unsqueeze(),
            _ => y,
        })
    }
}

/// The scores that the weights of edges are computed from.
#[allow(clippy::large_enum_variant, reason = "a forward pass has only one")]
enum Scores {
    /// Scores of the nodes as sources and as targets, `[nodes, n_heads]`.
    Nodes { sources: Tensor<2>, targets: Tensor<2> },
    /// Scores of the edges, `[edges, n_heads]`.
    Edges(Tensor<2>),
}

impl Scores {
    /// Computes the weights of the edges before dropout, `[edges, n_heads]`.
    fn weights(&self, graph: &Graph, options: &GraphAttentionOptions) -> Result<Tensor<2>, OpError> {
        match self {
            Self::Nodes { sources, targets } => {
                graph_attention_weights(sources.clone(), targets.clone(), graph, options)
            }
            Self::Edges(scores) => edge_attention_weights(scores.clone(), graph),
        }
    }

    /// Mixes the sources of each node, `[nodes, n_heads, d_head]`.
    fn attend(&self, h: Tensor<3>, graph: &Graph, options: &GraphAttentionOptions) -> Result<Tensor<3>, OpError> {
        match self {
            Self::Nodes { sources, targets } => graph_attention(h, sources.clone(), targets.clone(), graph, options),
            Self::Edges(scores) => edge_attention(h, scores.clone(), graph, options.dropout),
        }
    }

    /// Returns scores that are all the same.
    fn equal(&self) -> Self {
        match self {
            Self::Nodes { sources, targets } => {
                Self::Nodes { sources: sources.zeros_like(), targets: targets.zeros_like() }
            }
            Self::Edges(scores) => Self::Edges(scores.zeros_like()),
        }
    }
}

/// Computes `a·h` for each node and head, `[nodes, n_heads]`.
fn scores(h: &Tensor<3>, a: &Param<Tensor<2>>) -> Tensor<2> {
    (h.clone() * a.val().unsqueeze()).sum_dim(2).squeeze_dim(2)
}
