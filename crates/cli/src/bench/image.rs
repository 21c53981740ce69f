//! The classifiers of images of the speed table, the same as in `bench/peer_torch.py`: grey images and ten labels.

use regard_nn::models::image::cnn::CnnConfig;
use regard_nn::models::image::vision_transformer::VisionTransformerConfig;
use regard_nn::models::image::{ImageClassifierConfig, ImageShape, NetworkConfig};

/// Number of labels.
pub const LABELS: usize = 10;

/// The sizes of a classifier of images and its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageModel {
    /// Vision Transformer with a class token, learned positions and GELU: batch, side of an image, side of a patch, d_model,
    /// n_heads, n_layers and d_ff.
    Vit([usize; 7]),
    /// Residual network of one block per stage: batch, side of an image, groups and the channels of three stages.
    Cnn([usize; 6]),
}

impl ImageModel {
    /// The Vision Transformer that the speed table measures.
    pub const VIT: Self = Self::Vit([64, 28, 4, 96, 4, 6, 384]);
    /// The residual network that the speed table measures.
    pub const CNN: Self = Self::Cnn([64, 28, 8, 32, 64, 128]);

    /// Returns the model if its sizes fit together.
    pub fn checked(self) -> Result<Self, String> {
        self.config().validate().map_err(|error| error.to_string())?;
        Ok(self)
    }

    /// Returns the name of the kind of network, and the sizes in the order of a benchmark's name.
    pub fn name_and_sizes(&self) -> (&'static str, &[usize]) {
        match self {
            Self::Vit(sizes) => ("vit", sizes),
            Self::Cnn(sizes) => ("cnn", sizes),
        }
    }

    /// Returns the number of images of a step.
    pub fn batch(&self) -> usize {
        self.name_and_sizes().1[0]
    }

    /// Returns the number of rows and columns of an image.
    pub fn side(&self) -> usize {
        self.name_and_sizes().1[1]
    }

    /// Returns the configuration of the model, without dropout as in the other benchmarks.
    pub fn config(&self) -> ImageClassifierConfig {
        let network = match *self {
            Self::Vit([_, _, patch, d_model, n_heads, n_layers, d_ff]) => NetworkConfig::Vit(VisionTransformerConfig {
                patch,
                d_model,
                n_heads,
                n_layers,
                d_ff: Some(d_ff),
                dropout: 0.0,
                ..Default::default()
            }),
            Self::Cnn([_, _, groups, a, b, c]) => {
                NetworkConfig::Cnn(CnnConfig { channels: vec![a, b, c], groups, ..Default::default() })
            }
        };
        let image = ImageShape { channels: 1, height: self.side(), width: self.side() };
        ImageClassifierConfig { image, outputs: LABELS, network, dropout: 0.0, ..Default::default() }
    }

    /// Estimates the numbers that a training step holds. A float, because huge sizes would overflow an integer.
    pub fn numbers(&self) -> f64 {
        let float = |n: usize| n as f64;
        let pixels = float(self.batch()) * float(self.side()).powi(2);
        match *self {
            Self::Vit([_, _, patch, d_model, _, n_layers, d_ff]) => {
                let (d, tokens) = (float(d_model), pixels / float(patch).powi(2) + float(self.batch()));
                let weights = float(n_layers) * d * (4.0 * d + 2.0 * float(d_ff));
                4.0 * weights + tokens * float(n_layers) * (9.0 * d + 2.0 * float(d_ff))
            }
            Self::Cnn([_, _, _, a, b, c]) => {
                let (a, b, c) = (float(a), float(b), float(c));
                let weights = 9.0 * (2.0 * a * a + a * b + b * b + b * c + c * c);
                // Two tensors for each convolution, with its norm, and their gradients.
                4.0 * weights + pixels * (9.0 * a + 9.0 * b / 4.0 + 9.0 * c / 16.0)
            }
        }
    }
}
