//! The configuration of `classify`.

use std::path::{Path, PathBuf};

use regard_data::{Case, Column, Fold, LabelledColumns, TokenizerConfig, TokenizerKind};
use regard_inspect::count::RecurrentModel;
use regard_nn::ConfigError;
use regard_nn::config::{check_dropout, check_layers, check_positive, check_product, name_or_table};
use regard_nn::layers::pooling::PoolingConfig;
use regard_nn::layers::recurrent::Cell;
use regard_nn::models::body::BodyConfig;
use regard_nn::models::classifier::ClassifierConfig;
use regard_nn::models::transformer::{EmbeddingNorm, EmbeddingScale, TransformerConfig};
use serde::{Deserialize, Serialize};

use crate::answers::TargetKind;
use crate::error::TaskError;
use crate::extended::Extended;
use crate::model::{RecurrentKeys, TransformerKeys};
use crate::pretrained;
use crate::run_config::{DataSection, RunConfig, check_built_in, check_lengths};
use crate::task::Validate;
use crate::word_vectors::VectorKeys;

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// File or folder of labelled texts; built-in sentences if absent.
    pub path: Option<PathBuf>,
    /// Fold `k/n` that is the test split of a single file.
    pub fold: Option<Fold>,
    /// Column of the text, by name or, in a file without a header, by number; `text` by default.
    pub text: Option<Column>,
    /// Column of the label, by name or number; `label`, `labels` or `value` by default.
    pub label: Option<Column>,
    /// What is predicted: one label, several, or a number.
    pub target: TargetKind,
    /// Tokeniser, trained on the training texts.
    pub tokenizer: TokenizerConfig<Option<TokenizerKind>>,
    /// Maximum tokens of a text: longer ones are left out of training, refused in prediction, cut in evaluation.
    pub max_length: usize,
    /// Stricter maximum for training texts, to measure how the model does on longer ones.
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
    /// The columns that hold text and label.
    pub(super) fn columns(&self) -> LabelledColumns {
        LabelledColumns { text: self.text.clone(), label: self.label.clone() }
    }
}

impl DataSection for DataConfig {
    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

/// Keys that a classifier adds to [`TransformerKeys`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EncoderKeys {
    /// Model folder of `pretrain` whose encoder the classifier starts from.
    pub from: Option<PathBuf>,
    /// Whether the weights of that encoder stay fixed.
    pub freeze: bool,
    /// Factor on the learning rate of that encoder, 1 by default.
    pub encoder_rate: Option<f32>,
    /// Factor on the embedding.
    pub embedding_scale: EmbeddingScale,
    /// Norm of the embedded tokens.
    pub embedding_norm: EmbeddingNorm,
    /// How the tokens' states become one vector.
    #[serde(deserialize_with = "name_or_table")]
    pub pooling: PoolingConfig,
    /// Number of tanh layers of `d_model` features between that vector and the output.
    pub hidden: usize,
    /// Probability that a training token is replaced by the unknown token.
    pub word_dropout: f32,
}

/// Keys that a classifier adds to [`RecurrentKeys`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReaderKeys {
    /// How the tokens' states become one vector.
    #[serde(deserialize_with = "name_or_table")]
    pub pooling: PoolingConfig,
    /// Probability that a training token is replaced by the unknown token.
    pub word_dropout: f32,
}

/// Keys of a dense network on a bag of words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BagKeys {
    /// Width of a token's embedding.
    pub d_model: usize,
    /// Number of hidden layers.
    pub n_layers: usize,
    /// Width of a hidden layer.
    pub d_ff: usize,
    /// How the tokens' states become one vector.
    #[serde(deserialize_with = "name_or_table")]
    pub pooling: PoolingConfig,
    /// Dropout of embeddings, of the pooled vector and of hidden features.
    pub dropout: f32,
    /// Probability that a training token is replaced by the unknown token.
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
    /// Transformer encoder.
    Transformer(Extended<TransformerKeys, EncoderKeys>),
    /// Plain recurrent network in both directions.
    Rnn(Extended<RecurrentKeys, ReaderKeys>),
    /// LSTM in both directions.
    Lstm(Extended<RecurrentKeys, ReaderKeys>),
    /// GRU in both directions.
    Gru(Extended<RecurrentKeys, ReaderKeys>),
    /// Dense network on pooled token embeddings, by default their mean; it ignores word order.
    Bag(BagKeys),
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self::Transformer(Extended::default())
    }
}

impl ModelConfig {
    /// The keys and the folder of `model.from`, for a Transformer that starts from a pre-trained encoder.
    pub(super) fn pretrained(&self) -> Option<(&Extended<TransformerKeys, EncoderKeys>, &Path)> {
        match self {
            Self::Transformer(keys) => Some((keys, keys.more.from.as_deref()?)),
            Self::Rnn(_) | Self::Lstm(_) | Self::Gru(_) | Self::Bag(_) => None,
        }
    }

    /// Sets the width of the tokens' vectors.
    pub(super) fn set_width(&mut self, width: usize) {
        match self {
            Self::Transformer(keys) => keys.base.d_model = width,
            Self::Rnn(keys) | Self::Lstm(keys) | Self::Gru(keys) => keys.base.d_model = width,
            Self::Bag(keys) => keys.d_model = width,
        }
    }

    /// The layers, if the network is recurrent.
    pub(super) fn recurrent(&self) -> Option<RecurrentModel> {
        match self {
            Self::Rnn(keys) => Some(keys.base.counted(Cell::Rnn)),
            Self::Lstm(keys) => Some(keys.base.counted(Cell::lstm())),
            Self::Gru(keys) => Some(keys.base.counted(Cell::gru())),
            Self::Transformer(_) | Self::Bag(_) => None,
        }
    }

    /// The configuration of the classifier; settings that depend on the data keep their defaults.
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
                pretrained::check_keys(more.freeze, more.encoder_rate, more.from.as_deref())?;
                check_dropout("word_dropout", more.word_dropout)?;
                check_layers("hidden", more.hidden.max(1))?;
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

/// A classifier on a Transformer encoder.
fn encoding(keys: &Extended<TransformerKeys, EncoderKeys>, vocab: usize) -> ClassifierConfig {
    let Extended { base, more } = keys;
    let encoder = TransformerConfig {
        embedding_scale: more.embedding_scale,
        embedding_norm: more.embedding_norm,
        ..base.transformer(vocab)
    };
    ClassifierConfig {
        vocab,
        encoder: Some(encoder),
        body: BodyConfig::None,
        d_model: base.d_model,
        n_layers: base.n_layers,
        pooling: more.pooling,
        hidden: vec![base.d_model; more.hidden],
        dropout: base.dropout,
        word_dropout: more.word_dropout,
        ..ClassifierConfig::default()
    }
}

/// A classifier on a recurrent network in both directions.
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

/// Sections that only this task has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WordsSection {
    /// Word vectors from a file.
    pub words: VectorKeys,
}

/// The configuration of `classify`.
pub type Config = RunConfig<DataConfig, ModelConfig, WordsSection>;

impl Validate for Config {
    fn validate(&self) -> Result<(), TaskError> {
        let DataConfig { path, fold, text, label, target, max_length, longest, .. } = &self.data;
        check_lengths(*max_length, *longest)?;
        if path.is_none() {
            check_built_in(*fold, &[("data.text", text), ("data.label", label)])?;
            if *target == TargetKind::Labels {
                return Err(ConfigError::new("data.target", "labels", "label or value with the built-in data").into());
            }
        }
        let smoothing = self.train.label_smoothing;
        if *target == TargetKind::Value && smoothing != 0.0 {
            return Err(ConfigError::new("train.label_smoothing", smoothing, "0 when data.target is value").into());
        }
        self.data.tokenizer.validate()?;
        self.more.words.validate().map_err(|error| error.within("words"))?;
        if let Some(path) = &self.more.words.vectors {
            let refused = |expected| ConfigError::new("words.vectors", path.display(), expected).into();
            if self.model.pretrained().is_some() {
                return Err(refused("no file when model.from has vectors of its own"));
            }
            if self.data.tokenizer.kind.is_some_and(|kind| kind != TokenizerKind::Word) {
                return Err(refused("no file unless data.tokenizer.kind is word"));
            }
        }
        Ok(self.model.validate().map_err(|error| error.within("model"))?)
    }
}
