//! The configuration of `compose`.

use std::path::Path;

use regard_nn::ConfigError;
use regard_nn::config::check_positive;
use serde::{Deserialize, Serialize};

use crate::error::TaskError;
use crate::model::{ModelConfig, ModelKind};
use crate::task::Settings;
use crate::train::TrainConfig;

/// The largest permutation, grid and number of colours.
const MOST: usize = 4_096;

/// What is composed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Two permutations.
    #[default]
    Permutations,
    /// A picture of `colours` and a map of places: each cell of the result is the cell of the picture that the map names.
    Grid,
}

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// What is composed.
    pub form: Form,
    /// Numbers of a permutation, or cells of the grid.
    pub size: usize,
    /// Columns of the grid, for the eye alone; it must divide `size`.
    pub width: usize,
    /// Colours of the grid.
    pub colours: usize,
    /// Examples of the dev split.
    pub dev: usize,
    /// Examples of the test split.
    pub test: usize,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self { form: Form::Permutations, size: 12, width: 4, colours: 8, dev: 256, test: 2_000 }
    }
}

/// The configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Of weights, examples and dropout.
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
        None
    }

    fn validate(&self) -> Result<(), TaskError> {
        let DataConfig { form, size, width, colours, dev, test } = self.data;
        let check = || {
            for (field, value) in [("size", size), ("width", width), ("colours", colours), ("dev", dev), ("test", test)]
            {
                check_positive(field, value)?;
            }
            if size > MOST || colours > MOST {
                let (field, value) = if size > MOST { ("size", size) } else { ("colours", colours) };
                return Err(ConfigError::new(field, value, format!("at most {MOST}")));
            }
            if form == Form::Grid && !size.is_multiple_of(width) {
                return Err(ConfigError::new("width", width, format!("a divisor of size, {size}")));
            }
            // So many pictures and maps there are; in logarithms, since they soon outgrow any number.
            if form == Form::Grid && (colours as f64 * size as f64).ln() * (size as f64) < 1_000f64.ln() {
                return Err(ConfigError::new("size", size, "more: there are fewer than 1000 pictures with their maps"));
            }
            if form == Form::Permutations && size < 4 {
                return Err(ConfigError::new("size", size, "4 or more: fewer have too few pairs to hold some out"));
            }
            Ok(())
        };
        check().map_err(|error: ConfigError| error.within("data"))?;
        let kinds = [ModelKind::Transformer, ModelKind::Rnn, ModelKind::Lstm, ModelKind::Gru];
        Ok(self.model.validate(&kinds)?)
    }
}
