//! The configuration of `pretrain`.

use std::path::{Path, PathBuf};

use regard_data::{Case, TokenizerConfig, TokenizerKind};
use regard_nn::ConfigError;
use regard_nn::config::{check_above_zero, check_positive};
use serde::{Deserialize, Serialize};

use crate::error::TaskError;
use crate::model::{ModelConfig, ModelKind};
use crate::task::Settings;
use crate::train::TrainConfig;

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// Plain text, a line an example; a built-in one if absent.
    pub path: Option<PathBuf>,
    /// How text becomes tokens.
    pub tokenizer: TokenizerConfig,
    /// Tokens of an example at most: longer lines are cut, longer inputs refused.
    pub max_length: usize,
    /// Training examples with more tokens are left out, and scored by themselves in the test: `accuracy_longer`.
    pub longest: Option<usize>,
    /// The probability that a token is to be guessed.
    pub masked: f32,
}

impl Default for DataConfig {
    fn default() -> Self {
        let tokenizer = TokenizerConfig { kind: TokenizerKind::Bpe, vocab: 2_000, case: Case::Keep, min_count: 1 };
        Self { path: None, tokenizer, max_length: 128, longest: None, masked: 0.15 }
    }
}

/// The configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Of weights, order, hidden tokens and dropout.
    pub seed: u64,
    /// The text.
    pub data: DataConfig,
    /// The network.
    pub model: ModelConfig,
    /// How it is trained.
    pub train: TrainConfig,
}

impl Settings for Config {
    fn train(&self) -> &TrainConfig {
        &self.train
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn data_path(&self) -> Option<&Path> {
        self.data.path.as_deref()
    }

    fn validate(&self) -> Result<(), TaskError> {
        let DataConfig { max_length, longest, masked, tokenizer, .. } = &self.data;
        check_positive("data.max_length", *max_length)?;
        if let Some(longest) = longest.filter(|longest| *longest == 0 || longest >= max_length) {
            let allowed = format!("1 or more, less than data.max_length, {max_length}");
            return Err(ConfigError::new("data.longest", longest, allowed).into());
        }
        check_above_zero("data.masked", *masked)?;
        if *masked > 1.0 {
            return Err(ConfigError::new("data.masked", masked, "a number above 0, up to 1").into());
        }
        tokenizer.validate()?;
        Ok(self.model.validate(&[ModelKind::Transformer])?)
    }
}
