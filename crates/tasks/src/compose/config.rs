//! The configuration of `compose`.

use std::path::Path;

use regard_nn::ConfigError;
use regard_nn::config::check_positive;
use regard_nn::models::transformer::{EmbeddingScale, TransformerConfig};
use serde::{Deserialize, Serialize};

use crate::error::TaskError;
use crate::extended::Extended;
use crate::model::{Chosen, RecurrentKeys, TransformerKeys, TransformerOrRecurrent};
use crate::run_config::{DataSection, RunConfig};
use crate::task::Validate;

/// Maximum `dev` and `test`: these examples are kept in memory.
const MOST_HELD_OUT: usize = 100_000;
/// Maximum `size` and `colours`.
const MOST: usize = 4_096;

/// The form of the examples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Two permutations.
    #[default]
    Permutations,
    /// A picture of `colours` and a map of places: each cell of the result copies the cell that the map points to.
    Grid,
}

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// The form of the examples.
    pub form: Form,
    /// Length of a permutation, or number of cells of the grid.
    pub size: usize,
    /// Columns of the grid, a divisor of `size`. They do not affect the task.
    pub width: usize,
    /// Number of colours of the grid.
    pub colours: usize,
    /// Number of examples of the dev split.
    pub dev: usize,
    /// Number of examples of the test split.
    pub test: usize,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self { form: Form::Permutations, size: 12, width: 4, colours: 8, dev: 256, test: 2_000 }
    }
}

impl DataSection for DataConfig {
    fn path(&self) -> Option<&Path> {
        None
    }
}

/// Keys that this task adds to [`TransformerKeys`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EncoderKeys {
    /// Factor on the embedding.
    pub embedding_scale: EmbeddingScale,
}

/// The `[model]` section.
pub type ModelConfig = TransformerOrRecurrent<Extended<TransformerKeys, EncoderKeys>, RecurrentKeys>;

/// The configuration of `compose`.
pub type Config = RunConfig<DataConfig, ModelConfig>;

/// The configuration of the Transformer encoder.
pub(super) fn encoder(keys: &Extended<TransformerKeys, EncoderKeys>, vocab: usize) -> TransformerConfig {
    TransformerConfig { embedding_scale: keys.more.embedding_scale, ..keys.base.transformer(vocab) }
}

impl Validate for Config {
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
            if let Some((field, value)) =
                [("dev", dev), ("test", test)].into_iter().find(|(_, count)| *count > MOST_HELD_OUT)
            {
                return Err(ConfigError::new(field, value, format!("at most {MOST_HELD_OUT}")));
            }
            if form == Form::Grid && !size.is_multiple_of(width) {
                return Err(ConfigError::new("width", width, format!("a divisor of size, {size}")));
            }
            // There are (colours · size)^size examples; their logarithm does not overflow.
            if form == Form::Grid && (colours as f64 * size as f64).ln() * (size as f64) < 1_000f64.ln() {
                return Err(ConfigError::new("size", size, "a larger grid: this one has fewer than 1000 examples"));
            }
            if form == Form::Permutations && size < 4 {
                return Err(ConfigError::new("size", size, "4 or more: fewer numbers have too few permutations"));
            }
            Ok(())
        };
        check().map_err(|error: ConfigError| error.within("data"))?;
        let model = match self.model.chosen() {
            Chosen::Transformer(keys) => encoder(keys, 1).validate(),
            Chosen::Recurrent(_, keys) => keys.validate(),
        };
        Ok(model.map_err(|error| error.within("model"))?)
    }
}
