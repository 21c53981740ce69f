//! The configuration of `pretrain`.

use std::path::{Path, PathBuf};

use regard_data::{Case, TokenizerConfig, TokenizerKind};
use regard_nn::config::{check_above_zero, check_positive, name_or_table};
use regard_nn::models::transformer::{EmbeddingNorm, EmbeddingScale, TransformerConfig};
use regard_nn::{ConfigError, Init};
use serde::{Deserialize, Serialize};

use crate::error::TaskError;
use crate::extended::Extended;
use crate::model::{FirstWeights, TransformerKeys};
use crate::run_config::{DataSection, RunConfig};
use crate::task::Validate;

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// File or folder of plain text, one example per line; built-in stories if absent.
    pub path: Option<PathBuf>,
    /// Tokeniser, trained on the training text.
    pub tokenizer: TokenizerConfig,
    /// Maximum tokens of an example: longer lines are split, longer inputs refused.
    pub max_length: usize,
    /// Stricter maximum for training examples; longer ones are scored separately, as `accuracy_longer`.
    pub longest: Option<usize>,
    /// Probability that a token must be predicted.
    pub masked: f32,
}

impl Default for DataConfig {
    fn default() -> Self {
        let tokenizer = TokenizerConfig { kind: TokenizerKind::Bpe, vocab: 2_000, case: Case::Keep, min_count: 1 };
        Self { path: None, tokenizer, max_length: 128, longest: None, masked: 0.15 }
    }
}

impl DataSection for DataConfig {
    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

/// Keys that pre-training adds to [`TransformerKeys`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EncoderKeys {
    /// Factor on the embedding.
    pub embedding_scale: EmbeddingScale,
    /// Norm of the embedded tokens.
    pub embedding_norm: EmbeddingNorm,
    /// Distribution of the initial weights.
    #[serde(deserialize_with = "name_or_table")]
    pub first_weights: FirstWeights,
}

/// The `[model]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ModelConfig {
    /// Transformer encoder.
    Transformer(Extended<TransformerKeys, EncoderKeys>),
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self::Transformer(Extended::default())
    }
}

impl ModelConfig {
    /// The configuration of the encoder.
    pub fn transformer(&self, vocab: usize) -> TransformerConfig {
        let Self::Transformer(Extended { base, more }) = self;
        TransformerConfig {
            embedding_scale: more.embedding_scale,
            embedding_norm: more.embedding_norm,
            ..base.transformer(vocab)
        }
    }

    /// `init` with the distribution of the initial weights that `first_weights` selects.
    pub fn spread(&self, init: &Init) -> Init {
        let Self::Transformer(Extended { base, more }) = self;
        more.first_weights.spread(base.n_layers, init)
    }

    fn validate(&self) -> Result<(), ConfigError> {
        let Self::Transformer(keys) = self;
        self.transformer(1).validate()?;
        keys.more.first_weights.validate()
    }
}

/// The configuration of `pretrain`.
pub type Config = RunConfig<DataConfig, ModelConfig>;

impl Validate for Config {
    fn validate(&self) -> Result<(), TaskError> {
        let DataConfig { max_length, longest, masked, tokenizer, .. } = &self.data;
        check_positive("data.max_length", *max_length)?;
        if let Some(longest) = longest.filter(|longest| *longest == 0 || longest >= max_length) {
            let allowed = format!("1 or more and less than data.max_length, {max_length}");
            return Err(ConfigError::new("data.longest", longest, allowed).into());
        }
        check_above_zero("data.masked", *masked)?;
        if *masked > 1.0 {
            return Err(ConfigError::new("data.masked", masked, "a number above 0, up to 1").into());
        }
        tokenizer.validate()?;
        Ok(self.model.validate().map_err(|error| error.within("model"))?)
    }
}
