//! The configuration of `words`.

use std::path::{Path, PathBuf};

use regard_data::Case;
use regard_nn::ConfigError;
use regard_nn::config::{check_positive, check_product};
use serde::{Deserialize, Serialize};

use crate::error::TaskError;
use crate::run_config::{DataSection, RunConfig};
use crate::task::Validate;

/// Maxima of `model.window` and `model.negatives`; a batch grows with their product.
const MOST_WINDOW: usize = 256;
const MOST_NEGATIVES: usize = 1_000;

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// File or folder of plain text; built-in stories if absent.
    pub path: Option<PathBuf>,
    /// File of analogies `a b c d`, one per line, that are scored; built-in ones for the built-in stories, else none.
    pub analogies: Option<PathBuf>,
    /// Whether words that differ in case are different.
    pub case: Case,
    /// Number of times a word must occur in training; rarer words are left out.
    pub min_count: usize,
    /// Maximum number of words with vectors; the most frequent are kept.
    pub max_words: usize,
    /// Share of the text above which occurrences of a word are dropped at random; 0 to keep all.
    pub subsample: f64,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self { path: None, analogies: None, case: Case::Lower, min_count: 5, max_words: 100_000, subsample: 1e-3 }
    }
}

/// The training objective.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Predicts the surrounding words from the word in the middle.
    #[default]
    SkipGram,
    /// Predicts the word in the middle from the mean of the surrounding words.
    Cbow,
}

/// The `[model]` section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelConfig {
    /// The training objective.
    pub kind: Kind,
    /// Width of a word's vector.
    pub d_model: usize,
    /// Maximum number of words on each side that count as near.
    pub window: usize,
    /// Number of wrong words drawn for each correct one.
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

/// The configuration of `words`.
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
            let expected = "0: negative sampling has no label smoothing";
            return Err(ConfigError::new("train.label_smoothing", smoothing, expected).into());
        }
        match self.data.subsample {
            0.0..=1.0 => Ok(()),
            other => Err(ConfigError::new("data.subsample", other, "a number from 0 to 1").into()),
        }
    }
}
