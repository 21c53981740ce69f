//! The configuration of `vectors`.

use std::path::{Path, PathBuf};

use regard_data::{Fold, builtin};
use regard_inspect::count::RecurrentModel;
use regard_nn::ConfigError;
use regard_nn::config::{check_dropout, check_layers, check_positive, check_product, name_or_table};
use regard_nn::layers::pooling::PoolingConfig;
use regard_nn::layers::recurrent::Cell;
use regard_nn::models::body::{BodyConfig, TransformerBodyConfig};
use regard_nn::models::vectors::VectorModelConfig;
use serde::{Deserialize, Serialize};

use super::augment::Augment;
use crate::error::TaskError;
use crate::extended::Extended;
use crate::model::{RecurrentKeys, TransformerKeys};
use crate::run_config::{DataSection, RunConfig, check_built_in};
use crate::task::Validate;

/// What is predicted from vectors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aim {
    /// The label, labels, value or values that the data give.
    #[default]
    Given,
    /// The vectors that follow: forecasting.
    Next,
}

/// What is taken out of each example before the scaling that is learnt from all of them. Flags keep their values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalise {
    /// Nothing.
    #[default]
    None,
    /// The mean of each feature.
    Mean,
    /// The mean of each feature, and the size: all features are divided by the largest of their deviations, so that they keep
    /// their proportions.
    Size,
}

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// File or folder of vectors; built-in motions if absent.
    pub path: Option<PathBuf>,
    /// Fold `k/n` that is the test split of a single file.
    pub fold: Option<Fold>,
    /// What is predicted.
    pub target: Aim,
    /// Number of past vectors that a forecast sees.
    pub window: usize,
    /// Number of vectors that a forecast predicts.
    pub horizon: usize,
    /// Features to forecast, counted from 1; all if absent.
    pub features: Option<Vec<usize>>,
    /// Number of vectors at equal distances along its path that stand for an example; the vectors themselves if absent.
    pub resample: Option<usize>,
    /// What is taken out of each example before it is scaled.
    pub normalise: Normalise,
    /// Whether the network also sees the difference of each vector to the one before it.
    pub differences: bool,
    /// Random changes of training examples.
    pub augment: Augment,
    /// Maximum vectors of an example: longer ones are left out of training, refused in prediction, cut in evaluation.
    pub max_length: usize,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            path: None,
            fold: None,
            target: Aim::Given,
            window: 32,
            horizon: 1,
            features: None,
            resample: None,
            normalise: Normalise::None,
            differences: false,
            augment: Augment::default(),
            max_length: 512,
        }
    }
}

impl DataSection for DataConfig {
    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn fingerprint(&self) -> Result<String, TaskError> {
        match self.path() {
            Some(path) => Ok(regard_data::fingerprint(path)?),
            None => Ok(format!("built-in {}", builtin::motions_fingerprint())),
        }
    }
}

/// Keys that this task adds to those of a network.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolingKeys {
    /// How the states of the vectors become one.
    #[serde(deserialize_with = "name_or_table")]
    pub pooling: PoolingConfig,
}

/// Keys of a dense network on the mean of the vectors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DenseKeys {
    /// Number of hidden layers.
    pub n_layers: usize,
    /// Width of a hidden layer.
    pub d_ff: usize,
    /// How the vectors become one.
    #[serde(deserialize_with = "name_or_table")]
    pub pooling: PoolingConfig,
    /// Dropout of the pooled vector and of hidden features.
    pub dropout: f32,
}

impl Default for DenseKeys {
    fn default() -> Self {
        Self { n_layers: 2, d_ff: 128, pooling: PoolingConfig::Mean, dropout: 0.1 }
    }
}

/// The `[model]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ModelConfig {
    /// Transformer encoder.
    Transformer(Extended<TransformerKeys, PoolingKeys>),
    /// Plain recurrent network in both directions.
    Rnn(Extended<RecurrentKeys, PoolingKeys>),
    /// LSTM in both directions.
    Lstm(Extended<RecurrentKeys, PoolingKeys>),
    /// GRU in both directions.
    Gru(Extended<RecurrentKeys, PoolingKeys>),
    /// Dense network on the mean of the vectors, or on each vector alone.
    Dnn(DenseKeys),
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self::Transformer(Extended::default())
    }
}

impl ModelConfig {
    /// The layers, if the network is recurrent.
    pub(crate) fn recurrent(&self) -> Option<RecurrentModel> {
        match self {
            Self::Rnn(keys) => Some(keys.base.counted(Cell::Rnn)),
            Self::Lstm(keys) => Some(keys.base.counted(Cell::lstm())),
            Self::Gru(keys) => Some(keys.base.counted(Cell::gru())),
            Self::Transformer(_) | Self::Dnn(_) => None,
        }
    }

    /// The configuration of the network; settings that depend on the data keep their defaults.
    pub(crate) fn network(&self) -> VectorModelConfig {
        match self {
            Self::Transformer(Extended { base, more }) => VectorModelConfig {
                body: BodyConfig::Transformer(body(base)),
                d_model: base.d_model,
                n_layers: base.n_layers,
                pooling: more.pooling,
                dropout: base.dropout,
                ..VectorModelConfig::default()
            },
            Self::Rnn(keys) => reading(BodyConfig::Rnn, keys),
            Self::Lstm(keys) => reading(BodyConfig::Lstm, keys),
            Self::Gru(keys) => reading(BodyConfig::Gru, keys),
            Self::Dnn(keys) => VectorModelConfig {
                pooling: keys.pooling,
                dropout: keys.dropout,
                ..VectorModelConfig::dense(vec![keys.d_ff; keys.n_layers])
            },
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Transformer(keys) => keys.base.transformer(1).validate(),
            Self::Rnn(keys) | Self::Lstm(keys) | Self::Gru(keys) => keys.base.validate(),
            Self::Dnn(keys) => {
                check_layers("n_layers", keys.n_layers)?;
                check_positive("d_ff", keys.d_ff)?;
                check_product("d_ff", &[keys.d_ff, keys.d_ff])?;
                check_dropout("dropout", keys.dropout)
            }
        }
    }
}

/// The body of a Transformer with these keys.
fn body(keys: &TransformerKeys) -> TransformerBodyConfig {
    TransformerBodyConfig {
        n_heads: keys.n_heads,
        kv_heads: keys.kv_heads,
        d_ff: Some(keys.d_ff),
        activation: keys.activation,
        norm: keys.norm,
        bias: keys.bias,
        norm_place: keys.norm_place,
        position: keys.position,
        sight: keys.sight,
        attention: keys.attention,
        attention_dropout: keys.attention_dropout,
    }
}

/// A recurrent network in both directions.
fn reading(body: BodyConfig, Extended { base, more }: &Extended<RecurrentKeys, PoolingKeys>) -> VectorModelConfig {
    VectorModelConfig {
        body,
        d_model: base.d_hidden().saturating_mul(2),
        n_layers: base.n_layers,
        pooling: more.pooling,
        dropout: base.dropout,
        ..VectorModelConfig::default()
    }
}

/// The configuration of `vectors`.
pub type Config = RunConfig<DataConfig, ModelConfig>;

impl Validate for Config {
    fn validate(&self) -> Result<(), TaskError> {
        let DataConfig { path, fold, target, window, horizon, features, max_length, .. } = &self.data;
        check_positive("data.max_length", *max_length)?;
        check_positive("data.window", *window)?;
        check_positive("data.horizon", *horizon)?;
        self.data.augment.validate().map_err(|error| error.within("data.augment"))?;
        check_product("data.horizon", &[*horizon, 1 << 16])?;
        if path.is_none() {
            check_built_in(*fold, &[])?;
        }
        match (self.data.resample, target) {
            (Some(count), _) if !(2..=1 << 20).contains(&count) => {
                return Err(ConfigError::new("data.resample", count, "2 or more vectors").into());
            }
            (Some(count), Aim::Next) => {
                let expected = "nothing when data.target is next: a forecast needs equal steps of time";
                return Err(ConfigError::new("data.resample", count, expected).into());
            }
            _ => {}
        }
        let list = features.as_deref().unwrap_or(&[1]);
        let repeats = (1..list.len()).any(|at| list[..at].contains(&list[at]));
        if list.is_empty() || list.contains(&0) || repeats {
            let found = format!("{list:?}");
            return Err(
                ConfigError::new("data.features", found, "different numbers of features, counted from 1").into()
            );
        }
        let smoothing = self.train.label_smoothing;
        if *target == Aim::Next && smoothing != 0.0 {
            return Err(ConfigError::new("train.label_smoothing", smoothing, "0 when data.target is next").into());
        }
        Ok(self.model.validate().map_err(|error| error.within("model"))?)
    }
}
