//! Multilayer perceptron on all pixels of an image, which does not know which of them are neighbours.

use regard_ops::Activation;
use serde::{Deserialize, Serialize};

use super::ImageShape;
use crate::config::{ActivationName, check_dropout, check_layers, check_positive};
use crate::error::ConfigError;
use crate::init::Init;
use crate::layers::mlp::{LastLayer, Mlp, MlpConfig};

/// Configuration of the hidden layers on the pixels of an image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DnnConfig {
    /// Width of each hidden layer.
    pub hidden: Vec<usize>,
    /// Activation of every layer.
    #[serde(with = "ActivationName")]
    pub activation: Activation,
    /// Dropout probability between the layers.
    pub dropout: f32,
}

impl Default for DnnConfig {
    fn default() -> Self {
        Self { hidden: vec![512, 256], activation: Activation::Relu, dropout: 0.1 }
    }
}

impl DnnConfig {
    /// Returns an error if the configuration is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_layers("hidden", self.hidden.len())?;
        for (n, &size) in self.hidden.iter().enumerate() {
            check_positive(&format!("hidden[{n}]"), size)?;
        }
        check_dropout("dropout", self.dropout)
    }

    /// Returns the number of features of the last hidden layer.
    pub fn d_out(&self) -> usize {
        self.hidden.last().copied().unwrap_or(0)
    }

    /// Builds the hidden layers.
    pub fn init(&self, image: ImageShape, init: &Init) -> Result<Mlp, ConfigError> {
        self.validate()?;
        image.validate().map_err(|error| error.within("image"))?;
        let ImageShape { channels, height, width } = image;
        let sizes: Vec<usize> = [channels * height * width].into_iter().chain(self.hidden.iter().copied()).collect();
        let Self { activation, dropout, .. } = *self;
        MlpConfig { sizes, activation, last: LastLayer::Activated, dropout }.init(init)
    }
}
