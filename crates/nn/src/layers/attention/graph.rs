//! Graph attention (GAT, Veličković 2018): each node attends to the nodes that have an edge to it.
//!
//! `h = x W`, `e_ij = LeakyReLU(a_source·h_j + a_target·h_i)`, `α_ij = softmax_j e_ij` over the edges into `i`,
//! `y_i = Σ_j α_ij h_j + b`. Heads are concatenated or, in the last layer, averaged.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use regard_ops::{Graph, GraphAttentionOptions, graph_attention, graph_attention_weights};
use serde::{Deserialize, Serialize};

use crate::config::{check_dropout, check_positive, check_product};
use crate::error::{ConfigError, NnError};
use crate::heads::{AttentionKind, Heads};
use crate::init::Init;
use crate::layers::linear::{Bias, Linear, LinearConfig};
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
        Self { d_in, n_heads, d_head, join: Join::Concat, bias: Bias::Learned, slope: default_slope(), dropout: 0.0 }
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
        let Self { d_in, n_heads, d_head, join, bias, slope, dropout } = *self;
        let values = LinearConfig::new(d_in, n_heads * d_head).with_bias(Bias::None);
        let score = |name| init.weight(name, [n_heads, d_head], [d_head, 1]);
        Ok(GraphAttention {
            values: values.init(&init.enter("values"))?,
            source: score("source"),
            target: score("target"),
            bias: (bias == Bias::Learned).then(|| init.constant([self.d_out()], 0.0)),
            slope,
            dropout,
            join,
            heads: init.heads(AttentionKind::Edges, n_heads),
        })
    }
}

/// Graph attention layer; see the [module](self) for the formula.
#[derive(Module, Debug)]
pub struct GraphAttention {
    /// `W`, `[d_in, n_heads · d_head]`.
    pub values: Linear,
    /// `a_source`, `[n_heads, d_head]`.
    pub source: Param<Tensor<2>>,
    /// `a_target`, `[n_heads, d_head]`.
    pub target: Param<Tensor<2>>,
    /// `b`, `[d_out]`.
    pub bias: Option<Param<Tensor<1>>>,
    slope: f32,
    dropout: f32,
    #[module(skip)]
    join: Join,
    #[module(skip)]
    heads: Heads,
}

impl GraphAttention {
    /// Computes for each node a mixture of the nodes that have an edge to it. A node without incoming edges gets the bias.
    ///
    /// # Shapes
    /// `x` `[nodes, d_in]` → `[nodes, d_out]`.
    pub fn forward(&self, x: Tensor<2>, graph: &Graph, pass: &Pass) -> Result<Tensor<2>, NnError> {
        let [nodes, _] = x.dims();
        let [n_heads, d_head] = self.source.dims();
        let h = self.values.forward(x)?.reshape([nodes, n_heads, d_head]);
        let [sources, targets] = [&self.source, &self.target].map(|a| scores(&h, a));
        let options =
            GraphAttentionOptions { slope: self.slope, dropout: pass.dropout(self.heads.path(), self.dropout) };
        if pass.capture().is_some() {
            let weights = graph_attention_weights(sources.clone(), targets.clone(), graph, &options)?;
            self.heads.capture_edges(graph, &weights, pass);
        }
        let mut mixed = graph_attention(h.clone(), sources.clone(), targets.clone(), graph, &options)?;
        if self.heads.needs_outputs(pass) {
            // Ablation sees the nodes as a batch of one sequence.
            let as_heads = |x: Tensor<3>| x.swap_dims(0, 1).unsqueeze_dim::<4>(0);
            let equally = || {
                let (sources, targets) = (sources.zeros_like(), targets.zeros_like());
                Ok(as_heads(graph_attention(h.clone(), sources, targets, graph, &options)?))
            };
            let changed = self.heads.ablate(as_heads(mixed), &as_heads(h.clone()), equally, pass)?;
            mixed = changed.squeeze_dim::<3>(0).swap_dims(0, 1);
        }
        let y: Tensor<2> = match self.join {
            Join::Concat => mixed.reshape([nodes, n_heads * d_head]),
            Join::Mean => mixed.mean_dim(1).squeeze_dim(1),
        };
        Ok(match &self.bias {
            Some(bias) => y + bias.val().unsqueeze(),
            None => y,
        })
    }
}

/// Computes `a·h` for each node and head, `[nodes, n_heads]`.
fn scores(h: &Tensor<3>, a: &Param<Tensor<2>>) -> Tensor<2> {
    (h.clone() * a.val().unsqueeze()).sum_dim(2).squeeze_dim(2)
}
