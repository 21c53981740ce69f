//! The configuration of `classify`.

use std::path::{Path, PathBuf};

use regard_data::{Case, Fold, TokenizerConfig, TokenizerKind};
use regard_nn::ConfigError;
use regard_nn::config::check_positive;
use serde::{Deserialize, Serialize};

use crate::error::TaskError;
use crate::model::{ModelConfig, ModelKind};
use crate::pretrained;
use crate::task::Settings;
use crate::train::TrainConfig;

/// What the second column of the data says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// One label.
    #[default]
    Label,
    /// Any number of labels, parted by `|`.
    Labels,
    /// A number.
    Value,
}

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// Labelled texts; built-in ones if absent.
    pub path: Option<PathBuf>,
    /// Fold `k/n` of a single file.
    pub fold: Option<Fold>,
    /// What is known of a text.
    pub target: TargetKind,
    /// How text becomes tokens.
    pub tokenizer: TokenizerConfig,
    /// Tokens of a text at most: longer ones are left out of training, refused in prediction, cut in evaluation.
    pub max_length: usize,
    /// Tokens of a training text at most, to see what becomes of longer ones in the test.
    pub longest: Option<usize>,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            path: None,
            fold: None,
            target: TargetKind::Label,
            tokenizer: TokenizerConfig { kind: TokenizerKind::Word, vocab: 20_000, case: Case::Lower, min_count: 1 },
            max_length: 256,
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
        let DataConfig { target, max_length, longest, .. } = self.data;
        check_positive("data.max_length", max_length)?;
        if let Some(longest) = longest.filter(|longest| !(1..=max_length).contains(longest)) {
            return Err(ConfigError::new("data.longest", longest, format!("1 to data.max_length, {max_length}")).into());
        }
        let (path, fold) = (&self.data.path, self.data.fold);
        if let (None, Some(fold)) = (path, fold) {
            return Err(
                ConfigError::new("data.fold", fold, "nothing for built-in data, which have their own parts").into()
            );
        }
        if path.is_none() && target == TargetKind::Labels {
            return Err(ConfigError::new("data.target", "labels", "label or value for built-in data").into());
        }
        let smoothing = self.train.label_smoothing;
        if target == TargetKind::Value && smoothing != 0.0 {
            return Err(ConfigError::new("train.label_smoothing", smoothing, "0 where numbers are predicted").into());
        }
        self.data.tokenizer.validate()?;
        pretrained::validate(&self.model)?;
        let kinds = [ModelKind::Transformer, ModelKind::Rnn, ModelKind::Lstm, ModelKind::Gru, ModelKind::Bag];
        Ok(self.model.validate(&kinds)?)
    }
}
