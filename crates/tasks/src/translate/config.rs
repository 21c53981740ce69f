//! The configuration of `translate`.

use std::path::{Path, PathBuf};

use regard_data::{Case, Fold, TokenizerConfig, TokenizerKind};
use regard_nn::ConfigError;
use regard_nn::config::check_positive;
use serde::{Deserialize, Serialize};

use crate::decode::BeamOptions;
use crate::error::TaskError;
use crate::model::{ModelConfig, ModelKind};
use crate::task::Settings;
use crate::train::TrainConfig;

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// Pairs of sentences; built-in ones if absent.
    pub path: Option<PathBuf>,
    /// Fold `k/n` of a single file.
    pub fold: Option<Fold>,
    /// How text becomes tokens.
    pub tokenizer: TokenizerConfig,
    /// Tokens of a source or target at most: longer pairs are left out of training, longer inputs refused.
    pub max_length: usize,
    /// Training pairs with more tokens on either side are left out, and longer sources scored by themselves as well.
    pub longest: Option<usize>,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            path: None,
            fold: None,
            tokenizer: TokenizerConfig { kind: TokenizerKind::Word, vocab: 8_000, case: Case::Keep, min_count: 1 },
            max_length: 100,
            longest: None,
        }
    }
}

/// The configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Of weights, order and dropout.
    pub seed: u64,
    /// The examples.
    pub data: DataConfig,
    /// The network.
    pub model: ModelConfig,
    /// How it is trained.
    pub train: TrainConfig,
    /// How translations are searched.
    pub decode: BeamOptions,
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
        let DataConfig { max_length, longest, .. } = self.data;
        check_positive("data.max_length", max_length)?;
        if let Some(longest) = longest.filter(|longest| !(1..=max_length).contains(longest)) {
            return Err(ConfigError::new("data.longest", longest, format!("1 to data.max_length, {max_length}")).into());
        }
        if let (None, Some(fold)) = (&self.data.path, self.data.fold) {
            return Err(
                ConfigError::new("data.fold", fold, "nothing for built-in data, which have their own parts").into()
            );
        }
        self.data.tokenizer.validate()?;
        self.decode.validate().map_err(|error| error.within("decode"))?;
        self.model.validate(&[ModelKind::Transformer, ModelKind::Rnn, ModelKind::Lstm, ModelKind::Gru])?;
        if let Some(config) = self.model.recurrent_translator(1) {
            config.validate().map_err(|error| error.within("model"))?;
        }
        Ok(())
    }
}
