//! The configuration of `write`.

use std::path::{Path, PathBuf};

use regard_data::{Fold, builtin};
use regard_nn::ConfigError;
use regard_nn::config::{check_positive, check_product};
use regard_nn::models::handwriting::{HandwritingConfig, TextWindow};
use serde::{Deserialize, Serialize};

use crate::error::TaskError;
use crate::extended::Extended;
use crate::run_config::{DataSection, RunConfig, check_built_in};
use crate::task::Validate;

/// Allowed `spacing`: a line of a word has thousands of points at the least one.
const SPACING: std::ops::RangeInclusive<f32> = 0.005..=10.0;
/// Largest `max_points` and `max_length`.
const MOST: usize = 1 << 20;

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// File or folder of texts with strokes; built-in words if absent.
    pub path: Option<PathBuf>,
    /// Fold `k/n` that is the test split of a single file.
    pub fold: Option<Fold>,
    /// Distance between the points of a stroke, as a share of the mean height of a line.
    pub spacing: f32,
    /// Deviation of the noise on the scaled movements of training examples.
    pub noise: f32,
    /// Maximum points of an example: longer ones are left out of training, and cut in evaluation.
    pub max_points: usize,
    /// Maximum characters of a text: longer ones are left out of training and refused.
    pub max_length: usize,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self { path: None, fold: None, spacing: 0.1, noise: 0.03, max_points: 1_000, max_length: 80 }
    }
}

impl DataSection for DataConfig {
    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn fingerprint(&self) -> Result<String, TaskError> {
        match self.path() {
            Some(path) => Ok(regard_data::fingerprint(path)?),
            None => Ok(format!("built-in {}", builtin::handwriting_fingerprint())),
        }
    }
}

/// The keys that both networks have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkKeys {
    /// Number of LSTM layers.
    pub n_layers: usize,
    /// Features of the state of each layer.
    pub d_model: usize,
    /// Number of Gaussians of the density of the next movement.
    pub components: usize,
    /// Dropout of the states that go to the next layer and to the output.
    pub dropout: f32,
}

impl Default for NetworkKeys {
    fn default() -> Self {
        Self { n_layers: 2, d_model: 128, components: 10, dropout: 0.0 }
    }
}

/// The keys of the window over the text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WindowKeys {
    /// Number of Gaussians of the window.
    pub window_components: usize,
    /// Number of characters that the untrained window moves with each point.
    pub first_move: f32,
}

impl Default for WindowKeys {
    fn default() -> Self {
        Self { window_components: 5, first_move: 0.06 }
    }
}

/// The `[model]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ModelConfig {
    /// Writes a given text.
    Synthesis(Extended<NetworkKeys, WindowKeys>),
    /// Writes without a text.
    Prediction(NetworkKeys),
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self::Synthesis(Extended::default())
    }
}

impl ModelConfig {
    /// Returns the configuration of the network for an alphabet of `characters`.
    pub(super) fn network(&self, characters: usize) -> HandwritingConfig {
        let (keys, window) = match self {
            Self::Synthesis(keys) => {
                let WindowKeys { window_components, first_move } = keys.more;
                (&keys.base, Some(TextWindow { characters, components: window_components, first_move }))
            }
            Self::Prediction(keys) => (keys, None),
        };
        let NetworkKeys { n_layers, d_model, components, dropout } = *keys;
        HandwritingConfig { window, n_layers, d_hidden: d_model, components, dropout }
    }

    /// Returns whether the network reads a text.
    pub(super) fn reads_text(&self) -> bool {
        matches!(self, Self::Synthesis(_))
    }
}

/// The further section of this task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PenSection {
    /// How texts are written.
    pub pen: PenKeys,
}

/// The `[pen]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PenKeys {
    /// Bias towards likely movements: 0 writes as varied as the data, more writes more neatly.
    pub bias: f32,
}

impl Default for PenKeys {
    fn default() -> Self {
        Self { bias: 0.5 }
    }
}

/// The configuration of `write`.
pub type Config = RunConfig<DataConfig, ModelConfig, PenSection>;

impl Validate for Config {
    fn validate(&self) -> Result<(), TaskError> {
        let DataConfig { path, fold, spacing, noise, max_points, max_length } = &self.data;
        if path.is_none() {
            check_built_in(*fold, &[])?;
        }
        if !SPACING.contains(spacing) {
            let allowed = format!("from {} to {}", SPACING.start(), SPACING.end());
            return Err(ConfigError::new("data.spacing", spacing, allowed).into());
        }
        if !noise.is_finite() || *noise < 0.0 {
            return Err(ConfigError::new("data.noise", noise, "a finite number, 0 or more").into());
        }
        for (field, value) in [("data.max_points", *max_points), ("data.max_length", *max_length)] {
            check_positive(field, value)?;
            if value > MOST {
                return Err(ConfigError::new(field, value, format!("at most {MOST}")).into());
            }
        }
        let bias = self.more.pen.bias;
        if !bias.is_finite() || bias < 0.0 {
            return Err(ConfigError::new("pen.bias", bias, "a finite number, 0 or more").into());
        }
        let smoothing = self.train.label_smoothing;
        if smoothing != 0.0 {
            return Err(ConfigError::new("train.label_smoothing", smoothing, "0: movements have no labels").into());
        }
        let network = self.model.network(1);
        network.validate().map_err(|error| error.within("model"))?;
        if let Some(window) = network.window {
            check_product("model.window_components", &[window.components, 3, network.d_hidden])?;
        }
        Ok(())
    }
}
