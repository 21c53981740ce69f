//! The configuration of `generate`.

use std::path::{Path, PathBuf};

use regard_data::{Case, TokenizerConfig, TokenizerKind};
use regard_nn::ConfigError;
use regard_nn::config::check_positive;
use regard_nn::layers::position::Position;
use regard_nn::layers::position::learned::LearnedConfig;
use regard_nn::models::transformer::TransformerConfig;
use serde::{Deserialize, Serialize};

use crate::decode::SampleOptions;
use crate::error::TaskError;
use crate::model::{ModelConfig, ModelKind};
use crate::task::Settings;
use crate::train::TrainConfig;

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// Plain text; a built-in one if absent.
    pub path: Option<PathBuf>,
    /// How text becomes tokens.
    pub tokenizer: TokenizerConfig,
    /// Tokens of a training example, and so what the model can look back on.
    pub block: usize,
    /// A longer look back, scored beside it: `loss_longer`.
    pub evaluate_block: Option<usize>,
}

impl Default for DataConfig {
    fn default() -> Self {
        let tokenizer = TokenizerConfig { kind: TokenizerKind::Char, vocab: 1_000, case: Case::Keep, min_count: 1 };
        Self { path: None, tokenizer, block: 64, evaluate_block: None }
    }
}

/// The configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Of weights, blocks and dropout.
    pub seed: u64,
    /// The text.
    pub data: DataConfig,
    /// The network.
    pub model: ModelConfig,
    /// How it is trained.
    pub train: TrainConfig,
    /// How `predict` goes on from a prompt; `regard generate` has flags for it.
    pub decode: SampleOptions,
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
        let DataConfig { block, evaluate_block, tokenizer, .. } = &self.data;
        check_positive("data.block", *block)?;
        if let Some(longer) = evaluate_block.filter(|longer| longer <= block) {
            return Err(
                ConfigError::new("data.evaluate_block", longer, format!("more than data.block, {block}")).into()
            );
        }
        tokenizer.validate()?;
        self.decode.validate().map_err(|error| error.within("decode"))?;
        self.model.validate(&[ModelKind::Transformer, ModelKind::Rnn, ModelKind::Lstm, ModelKind::Gru])?;
        match self.model.recurrent_language_model(1) {
            Some(config) => config.validate(),
            None => self.model.sight.causal_mask().map(drop),
        }
        .map_err(|error| error.within("model"))?;
        Ok(())
    }
}

impl Config {
    /// The Transformer; a table of positions has as many rows as are ever trained.
    pub(super) fn transformer(&self, vocab: usize) -> TransformerConfig {
        let mut config = self.model.transformer(vocab, None);
        if let Position::Learned(LearnedConfig { max_length, .. }) = &mut config.position {
            *max_length = (*max_length).min(self.data.block);
        }
        config
    }

    /// What the model may look back on when it writes: no more than in training, unless it knows tokens by how far away
    /// they are.
    pub(super) fn window(&self) -> Option<usize> {
        match self.model.position {
            Position::None | Position::Relative(_) | Position::Alibi => None,
            Position::Sinusoidal
            | Position::Learned(_)
            | Position::Rope(_)
            | Position::Floater(_)
            | Position::Rnn(_) => Some(self.data.block.max(2)),
        }
    }
}
