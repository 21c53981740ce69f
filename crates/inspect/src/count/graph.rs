//! Cost of the classifiers of nodes.

use regard_nn::ConfigError;
use regard_nn::config::check_positive;
use regard_nn::layers::attention::graph::{GraphAttentionConfig, Scoring};
use regard_nn::models::graph::{GraphClassifierConfig, GraphNetworkConfig};
use serde::{Deserialize, Serialize};

use super::description::Sizes;
use super::part::Draft;
use super::quantity::{Quantity, q};

/// A classifier of nodes and the size of the graph that it runs on. The nodes are the tokens of an input.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GraphModel {
    /// Network over the nodes.
    pub classifier: GraphClassifierConfig,
    /// Number of edges along which a node sees another or itself.
    pub edges: usize,
    /// Number of features that are not zero, over all nodes.
    pub entries: usize,
}

impl Default for GraphModel {
    fn default() -> Self {
        Self { classifier: GraphClassifierConfig::default(), edges: 1, entries: 1 }
    }
}

impl GraphModel {
    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("edges", self.edges)?;
        check_positive("entries", self.entries)?;
        self.classifier.validate().map_err(|error| error.within("classifier"))
    }

    /// Returns the cost of all nodes and their loss.
    pub(super) fn draft(&self, sizes: &Sizes) -> Draft {
        let GraphClassifierConfig { d_in, outputs, network } = self.classifier;
        let (nodes, count) = (sizes.tokens(), network.n_layers());
        let layers = (0..count).map(|n| {
            let d_model = network.d_model();
            let d_in = if n == 0 { d_in } else { d_model };
            let d_out = if n + 1 == count { outputs } else { d_model };
            let size = Layer { n, d_in, nodes, edges: q(self.edges), entries: q(self.entries) };
            let layer = match network {
                GraphNetworkConfig::Gat(config) => size.attention(&config.layer(n, d_in, outputs)),
                GraphNetworkConfig::Gcn(_) => size.convolution(d_out),
                GraphNetworkConfig::Dnn(_) => size.product(Draft::new(size.name()), d_out).parameters(q(d_out)),
            };
            // The activation keeps its input, the loss the probabilities.
            layer.keeps(nodes * d_out)
        });
        // Each round of propagation is a sparse product, a scaling and a sum, which keep nothing: the weights are fixed.
        let (rounds, _) = network.propagation();
        let propagation = (q(self.edges) * 2 + nodes * 2) * outputs * rounds;
        Draft::new("model").with_all(layers).flops(propagation)
    }
}

/// The sizes of a layer.
struct Layer {
    n: usize,
    d_in: usize,
    nodes: Quantity,
    edges: Quantity,
    entries: Quantity,
}

impl Layer {
    fn name(&self) -> String {
        format!("layers.{}", self.n)
    }

    /// The product of the input with a matrix, whose input is sparse in the first layer. It keeps its input.
    fn product(&self, draft: Draft, d_out: usize) -> Draft {
        match self.n {
            0 => draft.parameters(q(self.d_in) * d_out).flops(self.entries * d_out * 2).keeps(self.entries),
            _ => draft.linear(self.nodes, q(self.d_in), q(d_out), false).keeps(self.nodes * self.d_in),
        }
    }

    /// Attention keeps the projected nodes, two scores of each and the log-sum-exp; or, with dynamic scores, a second projection and
    /// the scores of the edges.
    fn attention(&self, config: &GraphAttentionConfig) -> Draft {
        let GraphAttentionConfig { n_heads, d_head, scoring, .. } = *config;
        let width = q(n_heads) * d_head;
        let draft = self.product(Draft::new(self.name()), n_heads * d_head);
        let draft = draft.keeps(self.nodes * width + self.nodes * n_heads).flops(self.edges * width * 2);
        let draft = match scoring {
            Scoring::Static => {
                draft.parameters(width * 2).flops(self.nodes * width * 4).keeps(self.nodes * n_heads * 2)
            }
            Scoring::Dynamic => {
                let kept = self.nodes * width + self.edges * n_heads;
                self.product(draft, n_heads * d_head).parameters(width).flops(self.edges * width * 2).keeps(kept)
            }
        };
        draft.parameters(q(config.d_out()))
    }

    fn convolution(&self, d_out: usize) -> Draft {
        let draft = self.product(Draft::new(self.name()), d_out);
        draft.parameters(q(d_out)).flops(self.edges * d_out * 2)
    }
}
