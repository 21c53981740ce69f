//! The configuration of `graph`.

use std::path::{Path, PathBuf};

use regard_data::{builtin, fingerprint_graph};
use regard_nn::ConfigError;
use regard_nn::config::check_positive;
use regard_nn::models::graph::GraphNetworkConfig;
use serde::{Deserialize, Serialize};

use crate::error::TaskError;
use crate::run_config::{DataSection, RunConfig};
use crate::task::Validate;

/// Fewest and most papers of the built-in graph.
const PAPERS: (usize, usize) = (24, 5_000_000);

/// How the features of a node are scaled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalise {
    /// The absolute values of each node's features sum to 1.
    #[default]
    Rows,
    /// Features stay as they are.
    None,
}

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// Folder with `nodes.tsv` and `edges.tsv`; the built-in graph if absent.
    pub path: Option<PathBuf>,
    /// Number of features; by default one more than the largest number in the file.
    pub features: Option<usize>,
    /// Number of papers of the built-in graph.
    pub papers: usize,
    /// Whether an edge is seen only by its target; otherwise by both of its nodes.
    pub directed: bool,
    /// Whether each node also sees itself.
    pub self_loops: bool,
    /// How the features of a node are scaled.
    pub normalise: Normalise,
    /// Whether training does not see the edges of dev and test nodes.
    pub inductive: bool,
    /// Number of neighbours that are drawn for a node in each layer, those of the nodes to learn from first; empty to train on
    /// the whole graph at once.
    pub neighbours: Vec<usize>,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            path: None,
            features: None,
            papers: 1_200,
            directed: false,
            self_loops: true,
            normalise: Normalise::Rows,
            inductive: false,
            neighbours: Vec::new(),
        }
    }
}

impl DataConfig {
    fn validate(&self, model: &GraphNetworkConfig) -> Result<(), ConfigError> {
        self.features.map_or(Ok(()), |count| check_positive("features", count))?;
        if self.path.is_none() {
            if let Some(features) = self.features {
                return Err(ConfigError::new("features", features, "no number: the built-in papers have their own"));
            }
            if !(PAPERS.0..=PAPERS.1).contains(&self.papers) {
                return Err(ConfigError::new("papers", self.papers, format!("{} to {}", PAPERS.0, PAPERS.1)));
            }
        }
        let n_layers = model.n_layers();
        if !self.neighbours.is_empty() && model.propagation().0 > 0 {
            let expected = "none with model.propagation, which needs the whole graph at once";
            return Err(ConfigError::new("neighbours", format!("{:?}", self.neighbours), expected));
        }
        if !self.neighbours.is_empty() && self.neighbours.len() != n_layers {
            let expected = format!("as many numbers as model.n_layers, {n_layers}, or none for the whole graph");
            return Err(ConfigError::new("neighbours", format!("{:?}", self.neighbours), expected));
        }
        self.neighbours.iter().try_for_each(|&count| check_positive("neighbours", count))
    }
}

impl DataSection for DataConfig {
    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn fingerprint(&self) -> Result<String, TaskError> {
        match &self.path {
            Some(path) => Ok(fingerprint_graph(path)?),
            None => Ok(format!("built-in {}", builtin::citations_fingerprint(self.papers))),
        }
    }
}

/// The configuration of `graph`.
pub type Config = RunConfig<DataConfig, GraphNetworkConfig>;

impl Validate for Config {
    fn validate(&self) -> Result<(), TaskError> {
        self.model.validate().map_err(|error| error.within("model"))?;
        Ok(self.data.validate(&self.model).map_err(|error| error.within("data"))?)
    }
}
