//! The configuration of `translate`.

use std::path::{Path, PathBuf};

use regard_data::{Case, Column, Fold, TokenizerConfig, TokenizerKind};
use regard_nn::ConfigError;
use regard_nn::config::name_or_table;
use regard_nn::layers::attention::context::Selection;
use regard_nn::layers::linear::Bias;
use regard_nn::layers::recurrent::Direction;
use regard_nn::models::recurrent_translator::RecurrentTranslatorConfig;
use regard_nn::models::recurrent_writer::{Alignment, Attend};
use regard_nn::models::transformer::{EmbeddingScale, Memory, OutputWeights, TransformerConfig};
use serde::{Deserialize, Serialize};

use super::files::PairFiles;
use crate::data_share::check_share;
use crate::decode::BeamOptions;
use crate::error::TaskError;
use crate::extended::Extended;
use crate::model::{Chosen, RecurrentKeys, TransformerKeys, TransformerOrRecurrent};
use crate::run_config::{DataSection, RunConfig, check_built_in, check_lengths};
use crate::task::Validate;

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// File or folder of sentence pairs; built-in ones if absent.
    pub path: Option<PathBuf>,
    /// Fold `k/n` that is the test split of a single file.
    pub fold: Option<Fold>,
    /// Language, key or column of the source; the first by default.
    pub source: Option<Column>,
    /// Language, key or column of the target; the second by default.
    pub target: Option<Column>,
    /// Tokeniser of both languages, trained on the training pairs.
    pub tokenizer: TokenizerConfig<Option<TokenizerKind>>,
    /// Share of the training pairs that is used, by a hash of the source; the same pairs for every seed.
    pub share: f64,
    /// Maximum tokens of a source or target: longer pairs are left out of training, longer inputs refused.
    pub max_length: usize,
    /// Stricter maximum for both sides of training pairs; longer sources are also scored separately.
    pub longest: Option<usize>,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            path: None,
            fold: None,
            source: None,
            target: None,
            tokenizer: TokenizerConfig { kind: None, vocab: 8_000, case: Case::Keep, min_count: 1 },
            share: 1.0,
            max_length: 100,
            longest: None,
        }
    }
}

impl DataConfig {
    /// The files of the pairs.
    pub(super) fn files(&self) -> PairFiles<'_> {
        let Self { path, fold, source, target, share, .. } = self;
        PairFiles { path: path.as_deref(), fold: *fold, source, target, share: *share }
    }
}

impl DataSection for DataConfig {
    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

/// Keys that a translator adds to [`TransformerKeys`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EncoderDecoderKeys {
    /// Number of decoder layers; `n_layers` by default.
    pub n_decoder_layers: Option<usize>,
    /// Factor on the embedding.
    pub embedding_scale: EmbeddingScale,
    /// Matrix of the output layer.
    pub output_weights: OutputWeights,
    /// Bias of the output layer.
    pub output_bias: Bias,
    /// Encoder layer that a decoder layer attends to.
    pub memory: Memory,
}

/// Keys that a translator adds to [`RecurrentKeys`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AlignedKeys {
    /// Matrix of the output layer.
    pub output_weights: OutputWeights,
    /// Score function of the decoder's attention to the source.
    pub score: Alignment,
    /// Whether the decoder attends to the source before or after its step.
    pub attend: Attend,
    /// Whether the decoder takes the weighted mean of the source's states, or one of them.
    #[serde(deserialize_with = "name_or_table")]
    pub selection: Selection,
}

/// The `[model]` section.
pub type ModelConfig =
    TransformerOrRecurrent<Extended<TransformerKeys, EncoderDecoderKeys>, Extended<RecurrentKeys, AlignedKeys>>;

/// Sections that only this task has.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Decoding {
    /// Beam search for the best translation.
    pub decode: BeamOptions,
}

/// The configuration of `translate`.
pub type Config = RunConfig<DataConfig, ModelConfig, Decoding>;

/// The configuration of the network.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a model has only one")]
pub(super) enum NetworkConfig {
    Transformer(TransformerConfig),
    Recurrent(RecurrentTranslatorConfig),
}

impl NetworkConfig {
    pub fn of(model: &ModelConfig, vocab: usize) -> Self {
        match model.chosen() {
            Chosen::Transformer(Extended { base, more }) => Self::Transformer(TransformerConfig {
                n_decoder_layers: more.n_decoder_layers,
                embedding_scale: more.embedding_scale,
                output_weights: more.output_weights,
                output_bias: more.output_bias,
                memory: more.memory,
                ..base.transformer(vocab)
            }),
            Chosen::Recurrent(cell, Extended { base, more }) => Self::Recurrent(RecurrentTranslatorConfig {
                vocab,
                target_vocab: None,
                cell,
                n_layers: base.n_layers,
                d_model: base.d_model,
                d_hidden: base.d_hidden(),
                direction: Direction::Both,
                attention: more.score,
                selection: more.selection,
                attend: more.attend,
                output_weights: more.output_weights,
                dropout: base.dropout,
            }),
        }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Transformer(config) => config.validate_encoder_decoder(),
            Self::Recurrent(config) => config.validate(),
        }
    }
}

impl Validate for Config {
    fn validate(&self) -> Result<(), TaskError> {
        let DataConfig { path, fold, source, target, tokenizer, share, max_length, longest } = &self.data;
        check_share(*share)?;
        check_lengths(*max_length, *longest)?;
        if path.is_none() {
            check_built_in(*fold, &[("data.source", source), ("data.target", target)])?;
        }
        tokenizer.validate()?;
        self.more.decode.validate().map_err(|error| error.within("decode"))?;
        NetworkConfig::of(&self.model, 1).validate().map_err(|error| error.within("model"))?;
        Ok(())
    }
}
