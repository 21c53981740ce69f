//! The configuration of `classify`.

use std::path::{Path, PathBuf};

use regard_data::{Case, Column, Fold, LabelledColumns, TokenizerConfig, TokenizerKind};
use regard_nn::ConfigError;
use regard_nn::config::{check_dropout, check_layers, check_positive, check_product, name_or_table};
use regard_nn::layers::pooling::PoolingConfig;
use regard_nn::layers::recurrent::Cell;
use regard_nn::models::body::BodyConfig;
use regard_nn::models::classifier::ClassifierConfig;
use regard_nn::models::transformer::{EmbeddingScale, TransformerConfig};
use serde::{Deserialize, Serialize};

use crate::error::TaskError;
use crate::extended::Extended;
use crate::model::{RecurrentKeys, TransformerKeys};
use crate::pretrained;
use crate::run_config::{DataSection, RunConfig};
use crate::task::Validate;

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
    /// The column of the text, by name, or by number in a file without a header; `text` by default.
    pub text: Option<Column>,
    /// The column of the label; `label`, `labels` or `value` by default.
    pub label: Option<Column>,
    /// What is known of a text.
    pub target: TargetKind,
    /// How text becomes tokens.
    pub tokenizer: TokenizerConfig<Option<TokenizerKind>>,
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
            text: None,
            label: None,
            target: TargetKind::Label,
            tokenizer: TokenizerConfig { kind: None, vocab: 20_000, case: Case::Lower, min_count: 1 },
            max_length: 256,
            longest: None,
        }
    }
}

impl DataConfig {
    /// Where text and label stand.
    pub(super) fn columns(&self) -> LabelledColumns {
        LabelledColumns { text: self.text.clone(), label: self.label.clone() }
    }
}

impl DataSection for DataConfig {
    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

/// The keys that a classifier adds to those of a Transformer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EncoderKeys {
    /// A model folder of `pretrain` to start from.
    pub from: Option<PathBuf>,
    /// Whether what is taken over from there stays as it is.
    pub freeze: bool,
    /// Factor on the embedding.
    pub embedding_scale: EmbeddingScale,
    /// How tokens become one vector.
    #[serde(deserialize_with = "name_or_table")]
    pub pooling: PoolingConfig,
    /// The probability that a training word becomes the unknown one.
    pub word_dropout: f32,
}

/// The keys that a classifier adds to those of a recurrent network.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReaderKeys {
    /// How tokens become one vector.
    #[serde(deserialize_with = "name_or_table")]
    pub pooling: PoolingConfig,
    /// The probability that a training word becomes the unknown one.
    pub word_dropout: f32,
}

/// The keys of a dense network on a bag of words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BagKeys {
    /// Features of a token.
    pub d_model: usize,
    /// Number of hidden layers.
    pub n_layers: usize,
    /// Features of a hidden layer.
    pub d_ff: usize,
    /// How tokens become one vector.
    #[serde(deserialize_with = "name_or_table")]
    pub pooling: PoolingConfig,
    /// Dropout of token vectors, of the text's vector and of hidden features.
    pub dropout: f32,
    /// The probability that a training word becomes the unknown one.
    pub word_dropout: f32,
}

impl Default for BagKeys {
    fn default() -> Self {
        Self { d_model: 128, n_layers: 2, d_ff: 256, pooling: PoolingConfig::Mean, dropout: 0.1, word_dropout: 0.0 }
    }
}

/// The `[model]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ModelConfig {
    /// Self-attention throughout.
    Transformer(Extended<TransformerKeys, EncoderKeys>),
    /// A plain recurrent network.
    Rnn(Extended<RecurrentKeys, ReaderKeys>),
    /// Long short-term memory.
    Lstm(Extended<RecurrentKeys, ReaderKeys>),
    /// Gated recurrent units.
    Gru(Extended<RecurrentKeys, ReaderKeys>),
    /// A dense network on the mean of the words' vectors.
    Bag(BagKeys),
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self::Transformer(Extended::default())
    }
}

impl ModelConfig {
    /// The keys of a Transformer that starts from another model, and the folder of that model.
    pub(super) fn pretrained(&self) -> Option<(&Extended<TransformerKeys, EncoderKeys>, &Path)> {
        match self {
            Self::Transformer(keys) => Some((keys, keys.more.from.as_deref()?)),
            Self::Rnn(_) | Self::Lstm(_) | Self::Gru(_) | Self::Bag(_) => None,
        }
    }

    /// The cell of a recurrent network.
    pub(super) fn cell(&self) -> Option<Cell> {
        match self {
            Self::Rnn(_) => Some(Cell::Rnn),
            Self::Lstm(_) => Some(Cell::lstm()),
            Self::Gru(_) => Some(Cell::gru()),
            Self::Transformer(_) | Self::Bag(_) => None,
        }
    }

    /// The classifier of this description; what the data decide has its default.
    pub(super) fn classifier(&self, vocab: usize) -> ClassifierConfig {
        match self {
            Self::Transformer(keys) => encoding(keys, vocab),
            Self::Rnn(keys) => reading(BodyConfig::Rnn, keys, vocab),
            Self::Lstm(keys) => reading(BodyConfig::Lstm, keys, vocab),
            Self::Gru(keys) => reading(BodyConfig::Gru, keys, vocab),
            Self::Bag(keys) => ClassifierConfig {
                vocab,
                d_word: keys.d_model,
                pooling: keys.pooling,
                dropout: keys.dropout,
                word_dropout: keys.word_dropout,
                ..ClassifierConfig::bag(vec![keys.d_ff; keys.n_layers])
            },
        }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Transformer(Extended { base, more }) => {
                pretrained::check_freeze(more.freeze, more.from.as_deref())?;
                check_dropout("word_dropout", more.word_dropout)?;
                base.transformer(1).validate()
            }
            Self::Rnn(keys) | Self::Lstm(keys) | Self::Gru(keys) => {
                check_dropout("word_dropout", keys.more.word_dropout)?;
                keys.base.validate()
            }
            Self::Bag(keys) => {
                check_dropout("word_dropout", keys.word_dropout)?;
                check_positive("d_model", keys.d_model)?;
                check_layers("n_layers", keys.n_layers)?;
                check_positive("d_ff", keys.d_ff)?;
                check_product("d_ff", &[keys.d_ff, keys.d_ff.max(keys.d_model)])?;
                check_dropout("dropout", keys.dropout)
            }
        }
    }
}

/// A classifier of what an encoder gives.
fn encoding(keys: &Extended<TransformerKeys, EncoderKeys>, vocab: usize) -> ClassifierConfig {
    let Extended { base, more } = keys;
    let encoder = TransformerConfig { embedding_scale: more.embedding_scale, ..base.transformer(vocab) };
    ClassifierConfig {
        vocab,
        encoder: Some(encoder),
        body: BodyConfig::None,
        d_model: base.d_model,
        n_layers: base.n_layers,
        pooling: more.pooling,
        dropout: base.dropout,
        word_dropout: more.word_dropout,
        ..ClassifierConfig::default()
    }
}

/// A classifier of texts that are read in both directions.
fn reading(body: BodyConfig, keys: &Extended<RecurrentKeys, ReaderKeys>, vocab: usize) -> ClassifierConfig {
    let Extended { base, more } = keys;
    ClassifierConfig {
        vocab,
        d_word: base.d_model,
        body,
        d_model: base.d_hidden().saturating_mul(2),
        n_layers: base.n_layers,
        pooling: more.pooling,
        dropout: base.dropout,
        word_dropout: more.word_dropout,
        ..ClassifierConfig::default()
    }
}

/// The configuration.
pub type Config = RunConfig<DataConfig, ModelConfig>;

impl Validate for Config {
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
        for (key, column) in [("data.text", &self.data.text), ("data.label", &self.data.label)] {
            if let (None, Some(column)) = (path, column) {
                return Err(ConfigError::new(key, column, "nothing for built-in data, which have no columns").into());
            }
        }
        if path.is_none() && target == TargetKind::Labels {
            return Err(ConfigError::new("data.target", "labels", "label or value for built-in data").into());
        }
        let smoothing = self.train.label_smoothing;
        if target == TargetKind::Value && smoothing != 0.0 {
            return Err(ConfigError::new("train.label_smoothing", smoothing, "0 where numbers are predicted").into());
        }
        self.data.tokenizer.validate()?;
        Ok(self.model.validate().map_err(|error| error.within("model"))?)
    }
}
