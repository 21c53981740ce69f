//! The configuration of `words`.

use std::path::{Path, PathBuf};

use regard_data::Case;
use regard_nn::ConfigError;
use regard_nn::config::{check_positive, check_product};
use serde::{Deserialize, Serialize};

use crate::error::TaskError;
use crate::run_config::{DataSection, RunConfig};
use crate::task::Validate;

/// The largest `model.window` and `model.negatives`: a batch grows with their product.
const MOST_WINDOW: usize = 256;
const MOST_NEGATIVES: usize = 1_000;

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// Plain text; built-in stories if absent.
    pub path: Option<PathBuf>,
    /// Questions `a b c d` to be scored by, a line each; built-in ones if absent.
    pub analogies: Option<PathBuf>,
    /// Whether capitals are told from small letters.
    pub case: Case,
    /// A rarer word is left out.
    pub min_count: usize,
    /// Words that have vectors, at most: the most frequent.
    pub max_words: usize,
    /// Share of the text above which a word is dropped now and then; 0 for never.
    pub subsample: f64,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self { path: None, analogies: None, case: Case::Lower, min_count: 5, max_words: 100_000, subsample: 1e-3 }
    }
}

/// What is predicted from what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The words around from the one in the middle.
    #[default]
    SkipGram,
    /// The one in the middle from the mean of those around it.
    Cbow,
}

/// The `[model]` section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelConfig {
    /// What is predicted from what.
    pub kind: Kind,
    /// Features of a word.
    pub d_model: usize,
    /// Words to each side at most.
    pub window: usize,
    /// Wrong words that are drawn against each right one.
    pub negatives: usize,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self { kind: Kind::SkipGram, d_model: 64, window: 3, negatives: 5 }
    }
}

impl DataSection for DataConfig {
    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

/// The configuration.
pub type Config = RunConfig<DataConfig, ModelConfig>;

impl Validate for Config {
    fn validate(&self) -> Result<(), TaskError> {
        let ModelConfig { d_model, window, negatives, .. } = self.model;
        for (field, value) in [
            ("data.min_count", self.data.min_count),
            ("data.max_words", self.data.max_words),
            ("model.d_model", d_model),
            ("model.window", window),
            ("model.negatives", negatives),
        ] {
            check_positive(field, value)?;
        }
        check_product("model.d_model", &[self.data.max_words, d_model])?;
        for (field, value, most) in
            [("model.window", window, MOST_WINDOW), ("model.negatives", negatives, MOST_NEGATIVES)]
        {
            if value > most {
                return Err(ConfigError::new(field, value, format!("a whole number from 1 to {most}")).into());
            }
        }
        let smoothing = self.train.label_smoothing;
        if smoothing != 0.0 {
            let expected = "0: each word is only told from some that are drawn";
            return Err(ConfigError::new("train.label_smoothing", smoothing, expected).into());
        }
        match self.data.subsample {
            0.0..=1.0 => Ok(()),
            other => Err(ConfigError::new("data.subsample", other, "a number from 0 to 1").into()),
        }
    }
}
