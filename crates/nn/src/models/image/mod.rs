//! Classifier of images: a Vision Transformer, a residual network of convolutions or a multilayer perceptron turns an image into
//! one vector, and a linear layer computes the output.

pub mod cnn;
pub mod dnn;
pub mod vision_transformer;

use burn::module::Module;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use self::cnn::{Cnn, CnnConfig};
use self::dnn::DnnConfig;
use self::vision_transformer::{VisionTransformer, VisionTransformerConfig};
use super::target::{Answers, Target};
use crate::config::{check_dropout, check_positive, check_product, name_or_table};
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::dropout::Dropout;
use crate::layers::linear::{Linear, LinearConfig};
use crate::layers::mlp::Mlp;
use crate::layers::position::Positions;
use crate::pass::Pass;

/// Size of the images of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageShape {
    /// Number of channels: 1 for grey, 3 for colour.
    pub channels: usize,
    /// Number of rows.
    pub height: usize,
    /// Number of columns.
    pub width: usize,
}

impl ImageShape {
    /// Returns an error if a size is zero or an image does not fit in memory.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let Self { channels, height, width } = *self;
        check_positive("channels", channels)?;
        check_positive("height", height)?;
        check_positive("width", width)?;
        check_product("height", &[channels, height, width])
    }

    /// Returns an error unless `x` holds images of this size.
    pub(crate) fn check(&self, x: &Tensor<4>) -> Result<(), NnError> {
        let [batch, channels, height, width] = x.dims();
        if batch > 0 && *self == (Self { channels, height, width }) {
            return Ok(());
        }
        let expected = format!("[batch of 1 or more, {}, {}, {}]", self.channels, self.height, self.width);
        Err(NnError::input("images", expected, format!("{:?}", x.dims())))
    }
}

/// Network that turns an image into a vector. A file gives it by name, `network = "cnn"`, or with settings,
/// `network = { kind = "cnn", blocks = 2 }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "a model has only one")]
pub enum NetworkConfig {
    /// Vision Transformer.
    Vit(VisionTransformerConfig),
    /// Residual network of convolutions, optionally with attention blocks.
    Cnn(CnnConfig),
    /// Multilayer perceptron on all pixels.
    Dnn(DnnConfig),
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self::Vit(VisionTransformerConfig::default())
    }
}

/// Configuration of an [`ImageClassifier`]. `image` and `outputs` must be set from the data: their default of zero is invalid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ImageClassifierConfig {
    /// Size of the images.
    pub image: ImageShape,
    /// Number of labels, or of numbers to predict.
    pub outputs: usize,
    /// What the model predicts.
    pub target: Target,
    /// Network that turns an image into a vector.
    #[serde(deserialize_with = "name_or_table")]
    pub network: NetworkConfig,
    /// Dropout probability of the image's vector before the output.
    pub dropout: f32,
}

impl Default for ImageClassifierConfig {
    fn default() -> Self {
        Self {
            image: ImageShape::default(),
            outputs: 0,
            target: Target::One,
            network: NetworkConfig::default(),
            dropout: 0.1,
        }
    }
}

impl ImageClassifierConfig {
    /// Returns an error if the configuration is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.image.validate().map_err(|error| error.within("image"))?;
        self.target.validate(self.outputs)?;
        check_dropout("dropout", self.dropout)?;
        match &self.network {
            NetworkConfig::Vit(config) => config.validate(self.image),
            NetworkConfig::Cnn(config) => config.validate(),
            NetworkConfig::Dnn(config) => config.validate(),
        }
        .map_err(|error| error.within("network"))
    }

    /// Builds the model.
    pub fn init(&self, init: &Init) -> Result<ImageClassifier, ConfigError> {
        self.validate()?;
        let network = init.enter("network");
        let (network, d_out) = match &self.network {
            NetworkConfig::Vit(config) => (Network::Vit(config.init(self.image, &network)?), config.d_model),
            NetworkConfig::Cnn(config) => (Network::Cnn(config.init(self.image.channels, &network)?), config.d_out()),
            NetworkConfig::Dnn(config) => (Network::Dnn(config.init(self.image, &network)?), config.d_out()),
        };
        Ok(ImageClassifier {
            network,
            output: LinearConfig::new(d_out, self.outputs).init(&init.enter("output"))?,
            dropout: Dropout::new("dropout", self.dropout, &init.enter("dropout"))?,
            image: self.image,
            target: self.target,
        })
    }
}

/// Network that turns an image into a vector.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a model has only one")]
pub enum Network {
    /// Network of [`NetworkConfig::Vit`].
    Vit(VisionTransformer),
    /// Network of [`NetworkConfig::Cnn`].
    Cnn(Cnn),
    /// Network of [`NetworkConfig::Dnn`].
    Dnn(Mlp),
}

/// Classifier of images; see the [module](self).
#[derive(Module, Debug)]
pub struct ImageClassifier {
    /// Network that turns an image into a vector.
    pub network: Network,
    /// Output layer, `[d_out, outputs]`.
    pub output: Linear,
    dropout: Dropout,
    #[module(skip)]
    image: ImageShape,
    #[module(skip)]
    target: Target,
}

impl Network {
    /// Computes one vector per image.
    ///
    /// # Shapes
    /// `x` `[batch, channels, height, width]` → `[batch, d_out]`.
    pub fn forward(&self, x: Tensor<4>, pass: &Pass) -> Result<Tensor<2>, NnError> {
        match self {
            Network::Vit(network) => network.forward(x, pass),
            Network::Cnn(network) => {
                let x = network.features(x, pass)?;
                let [batch, channels, height, width] = x.dims();
                Ok(x.reshape([batch, channels, height * width]).mean_dim(2).squeeze_dim(2))
            }
            Network::Dnn(network) => {
                let [batch, channels, height, width] = x.dims();
                Ok(network.forward(x.reshape([batch, channels * height * width]), pass)?)
            }
        }
    }
}

impl ImageClassifier {
    /// Returns the positions, if the network has any.
    pub fn position(&self) -> Option<&Positions> {
        match &self.network {
            Network::Vit(network) => Some(&network.position),
            Network::Cnn(_) | Network::Dnn(_) => None,
        }
    }

    /// Computes the logits of the labels, or the predicted numbers.
    ///
    /// # Shapes
    /// `x` `[batch, channels, height, width]` → `[batch, outputs]`.
    pub fn logits(&self, x: Tensor<4>, pass: &Pass) -> Result<Tensor<2>, NnError> {
        self.image.check(&x)?;
        let x = self.dropout.forward(self.network.forward(x, pass)?, pass)?;
        Ok(self.output.forward(x)?)
    }

    /// Computes the probability of each label, or the predicted numbers.
    ///
    /// # Shapes
    /// `x` `[batch, channels, height, width]` → `[batch, outputs]`.
    pub fn predict(&self, x: Tensor<4>, pass: &Pass) -> Result<Tensor<2>, NnError> {
        Ok(self.target.predict(self.logits(x, pass)?)?)
    }

    /// Computes the mean loss over images, or over images and outputs; see [`Target::loss`].
    ///
    /// # Shapes
    /// `x` `[batch, channels, height, width]` → `[1]`.
    pub fn loss(
        &self,
        x: Tensor<4>,
        answers: Answers,
        label_smoothing: f32,
        pass: &Pass,
    ) -> Result<Tensor<1>, NnError> {
        self.target.loss(self.logits(x, pass)?, answers, label_smoothing)
    }
}
