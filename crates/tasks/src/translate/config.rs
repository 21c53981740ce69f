//! The configuration of `translate`.

use std::path::{Path, PathBuf};

use regard_data::{Case, Column, Fold, PairColumns, TokenizerConfig, TokenizerKind};
use regard_nn::ConfigError;
use regard_nn::config::{check_positive, name_or_table};
use regard_nn::layers::attention::context::Selection;
use regard_nn::layers::linear::Bias;
use regard_nn::layers::recurrent::Direction;
use regard_nn::models::recurrent_translator::{Alignment, Attend, RecurrentTranslatorConfig};
use regard_nn::models::transformer::{EmbeddingScale, Memory, OutputWeights, TransformerConfig};
use serde::{Deserialize, Serialize};

use crate::decode::BeamOptions;
use crate::error::TaskError;
use crate::extended::Extended;
use crate::model::{Chosen, RecurrentKeys, TransformerKeys, TransformerOrRecurrent};
use crate::run_config::{DataSection, RunConfig};
use crate::task::Validate;

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// Pairs of sentences; built-in ones if absent.
    pub path: Option<PathBuf>,
    /// Fold `k/n` of a single file.
    pub fold: Option<Fold>,
    /// The language, key or column that is given; the first by default.
    pub source: Option<Column>,
    /// The language, key or column that is wanted; the second by default.
    pub target: Option<Column>,
    /// How text becomes tokens.
    pub tokenizer: TokenizerConfig<Option<TokenizerKind>>,
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
            source: None,
            target: None,
            tokenizer: TokenizerConfig { kind: None, vocab: 8_000, case: Case::Keep, min_count: 1 },
            max_length: 100,
            longest: None,
        }
    }
}

impl DataConfig {
    /// Where source and target stand.
    pub(super) fn columns(&self) -> PairColumns {
        PairColumns { source: self.source.clone(), target: self.target.clone() }
    }
}

impl DataSection for DataConfig {
    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

/// The keys that a translator adds to those of a Transformer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EncoderDecoderKeys {
    /// Layers of the decoder; `n_layers` by default.
    pub n_decoder_layers: Option<usize>,
    /// Factor on the embedding.
    pub embedding_scale: EmbeddingScale,
    /// Matrix of the output layer.
    pub output_weights: OutputWeights,
    /// Bias of the output layer.
    pub output_bias: Bias,
    /// Which encoder layer a decoder layer looks at.
    pub memory: Memory,
}

/// The keys that a translator adds to those of a recurrent network.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AlignedKeys {
    /// Matrix of the output layer.
    pub output_weights: OutputWeights,
    /// How the decoder looks at the source.
    pub score: Alignment,
    /// When the decoder looks at the source.
    pub attend: Attend,
    /// Whether the decoder takes all of the source by its weights, or one word of it.
    #[serde(deserialize_with = "name_or_table")]
    pub selection: Selection,
}

/// The `[model]` section.
pub type ModelConfig =
    TransformerOrRecurrent<Extended<TransformerKeys, EncoderDecoderKeys>, Extended<RecurrentKeys, AlignedKeys>>;

/// The sections of this task alone.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Decoding {
    /// How translations are searched.
    pub decode: BeamOptions,
}

/// The configuration.
pub type Config = RunConfig<DataConfig, ModelConfig, Decoding>;

/// The network of a configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "one a model")]
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
            Self::Transformer(config) => config.validate(),
            Self::Recurrent(config) => config.validate(),
        }
    }
}

impl Validate for Config {
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
        for (key, column) in [("data.source", &self.data.source), ("data.target", &self.data.target)] {
            if let (None, Some(column)) = (&self.data.path, column) {
                return Err(ConfigError::new(key, column, "nothing for built-in data, which have no columns").into());
            }
        }
        self.data.tokenizer.validate()?;
        self.more.decode.validate().map_err(|error| error.within("decode"))?;
        NetworkConfig::of(&self.model, 1).validate().map_err(|error| error.within("model"))?;
        Ok(())
    }
}
