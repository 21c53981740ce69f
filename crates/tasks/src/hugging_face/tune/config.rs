//! The sections of a configuration with which a checkpoint is trained further.

use std::path::{Path, PathBuf};

use regard_nn::ConfigError;
use regard_nn::config::{check_above_zero, check_dropout};
use serde::{Deserialize, Serialize};

use crate::error::TaskError;

/// The lower layers of a network that are not trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "true, false or a number of layers")]
pub(crate) enum Freeze {
    /// All layers below the head, or none.
    All(bool),
    /// The embedding and this many of the lowest layers; 0 for none.
    Layers(usize),
}

/// The keys of `[model]` for a network from a folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NetworkKeys {
    /// Folder of `transformers` to start from.
    pub from: Option<PathBuf>,
    /// Lower layers that stay as they are.
    pub freeze: Freeze,
    /// Factor between the learning rates of a layer and of the one above it.
    pub layer_decay: f32,
    /// Dropout of features; that of the folder by default.
    pub dropout: Option<f32>,
    /// Dropout of attention weights; that of the folder by default.
    pub attention_dropout: Option<f32>,
}

impl Default for NetworkKeys {
    fn default() -> Self {
        Self { from: None, freeze: Freeze::Layers(0), layer_decay: 1.0, dropout: None, attention_dropout: None }
    }
}

/// The keys of `[model]` for a linear classifier of the vectors of texts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EmbeddingKeys {
    /// Folder of `transformers` or sentence-transformers whose vectors are classified.
    pub from: Option<PathBuf>,
}

/// The `[model]` section of a task that has one kind of network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum PublishedModel {
    /// The network of a folder.
    Published(NetworkKeys),
}

impl Default for PublishedModel {
    fn default() -> Self {
        Self::Published(NetworkKeys::default())
    }
}

impl PublishedModel {
    pub fn keys(&self) -> &NetworkKeys {
        let Self::Published(keys) = self;
        keys
    }

    pub fn keys_mut(&mut self) -> &mut NetworkKeys {
        let Self::Published(keys) = self;
        keys
    }
}

impl NetworkKeys {
    /// Returns an error if a value is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_from(self.from.as_deref())?;
        check_above_zero("layer_decay", self.layer_decay)?;
        if self.layer_decay > 1.0 {
            return Err(ConfigError::new("layer_decay", self.layer_decay, "above 0 and at most 1"));
        }
        check_dropout("dropout", self.dropout.unwrap_or(0.0))?;
        check_dropout("attention_dropout", self.attention_dropout.unwrap_or(0.0))
    }
}

/// Returns an error if there is no folder to start from.
pub(super) fn check_from(from: Option<&Path>) -> Result<(), ConfigError> {
    match from {
        Some(_) => Ok(()),
        None => Err(ConfigError::new("from", "nothing", "a folder of transformers with config.json")),
    }
}

/// Makes the path of the folder absolute, because the configuration will be read from other folders.
pub(super) fn make_absolute(from: &mut Option<PathBuf>) -> Result<(), TaskError> {
    if let Some(path) = from {
        *path = path.canonicalize().map_err(TaskError::io(&*path))?;
    }
    Ok(())
}

/// The layers that get adapters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a list of names")]
pub(crate) enum Targets {
    /// One name, or several with commas between them.
    Line(String),
    /// Several names.
    List(Vec<String>),
}

impl Targets {
    /// Returns the names.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Line(line) => line.split(',').map(str::trim).filter(|name| !name.is_empty()).collect(),
            Self::List(list) => list.iter().map(String::as_str).collect(),
        }
    }
}

/// The `[lora]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LoraKeys {
    /// Rank of the adapters; 0 for none, so that the network itself is trained.
    pub rank: usize,
    /// Factor of the adapters' outputs, divided by the rank.
    pub alpha: f32,
    /// Names of the layers with adapters; `None` for those that are usual for the family.
    pub targets: Option<Targets>,
    /// Dropout of the adapters' inputs.
    pub dropout: f32,
}

impl Default for LoraKeys {
    fn default() -> Self {
        Self { rank: 0, alpha: 16.0, targets: None, dropout: 0.0 }
    }
}

/// Sections that a task has beside the usual ones when it trains a checkpoint further.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TuneSections {
    /// Low-rank adapters.
    pub lora: LoraKeys,
}

/// Sections that a task which writes text has beside the usual ones. `D` says how it writes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WritingSections<D> {
    /// Low-rank adapters.
    pub lora: LoraKeys,
    /// How text is written.
    pub decode: D,
}

/// Returns an error if a value of the network or of its adapters is invalid.
pub(super) fn check_network(keys: &NetworkKeys, lora: &LoraKeys) -> Result<(), TaskError> {
    keys.validate().map_err(|error| error.within("model"))?;
    Ok(lora.validate().map_err(|error| error.within("lora"))?)
}

impl LoraKeys {
    /// Returns an error if a value is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        // A rank above this would need more memory than the matrices that it adapts.
        const MOST: usize = 4_096;
        if self.rank > MOST {
            return Err(ConfigError::new("rank", self.rank, format!("0 to {MOST}")));
        }
        if self.rank == 0 && *self != Self::default() {
            return Err(ConfigError::new("rank", 0, "at least 1 with other keys of [lora], which adapters follow"));
        }
        check_above_zero("alpha", self.alpha)?;
        check_dropout("dropout", self.dropout)?;
        match &self.targets {
            Some(targets) if targets.names().is_empty() => Err(ConfigError::new("targets", "none", "names of layers")),
            _ => Ok(()),
        }
    }
}
