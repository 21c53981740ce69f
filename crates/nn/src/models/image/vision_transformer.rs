//! Vision Transformer (Dosovitskiy et al. 2021): an image is cut into square patches, each becomes a token by a linear layer,
//! and a Transformer encoder reads the tokens row by row.
//!
//! Convolutions with stride 2 may stand before the linear layer in place of the cut (Xiao et al. 2021): neighbouring patches
//! then share pixels, and a small network learns in fewer steps.
//!
//! The image's vector is the state of a learned class token put before the patches, or a pooling of the patches.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use regard_ops::{Activation, AttentionOptions};
use serde::{Deserialize, Serialize};

use super::ImageShape;
use crate::config::{ActivationName, check_positive, check_product, name_or_table, no_settings};
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::attention::multi_head::Weighing;
use crate::layers::block::NormPlace;
use crate::layers::block::image::{NormedConvolution, NormedConvolutionConfig};
use crate::layers::dropout::Dropout;
use crate::layers::linear::{Bias, Linear, LinearConfig};
use crate::layers::norm::NormKind;
use crate::layers::pooling::{Pooling, PoolingConfig};
use crate::layers::position::learned::LearnedConfig;
use crate::layers::position::{Places, Position, Positions};
use crate::models::stack::Stack;
use crate::models::transformer::TransformerConfig;
use crate::pass::Pass;

/// How an image becomes tokens, one for each patch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stem {
    /// A linear layer reads the pixels of a patch, as published.
    #[default]
    Patches,
    /// Convolutions of 3 × 3 with stride 2 and ReLU shrink the image to one position per patch, and a linear layer reads it. The
    /// last convolution has `d_model` channels, each one before it half as many.
    Convolutions,
}

/// How the states of the tokens become the vector of the image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum PatchPooling {
    /// State of a learned token before the patches, as published.
    #[default]
    #[serde(deserialize_with = "no_settings")]
    ClassToken,
    /// Mean of the patches.
    #[serde(deserialize_with = "no_settings")]
    Mean,
    /// Maximum of each feature over the patches.
    #[serde(deserialize_with = "no_settings")]
    Max,
    /// Mean of the patches, weighted by learned attention.
    Attention {
        /// Number of hidden units of the score; `d_model` by default.
        #[serde(default)]
        d_hidden: Option<usize>,
    },
}

impl PatchPooling {
    fn config(self) -> PoolingConfig {
        match self {
            Self::ClassToken => PoolingConfig::First,
            Self::Mean => PoolingConfig::Mean,
            Self::Max => PoolingConfig::Max,
            Self::Attention { d_hidden } => PoolingConfig::Attention { d_hidden },
        }
    }
}

/// Configuration of a [`VisionTransformer`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VisionTransformerConfig {
    /// Height and width of a patch; divides those of the image.
    pub patch: usize,
    /// How an image becomes tokens.
    pub stem: Stem,
    /// Features per token.
    pub d_model: usize,
    /// Number of blocks.
    pub n_layers: usize,
    /// Number of query heads.
    pub n_heads: usize,
    /// Number of heads of keys and values; `n_heads` by default.
    pub kv_heads: Option<usize>,
    /// Hidden width of the feed-forward part; four times `d_model` by default.
    pub d_ff: Option<usize>,
    /// Activation of the feed-forward part.
    #[serde(with = "ActivationName")]
    pub activation: Activation,
    /// Kind of norm: layer norm or RMS norm.
    pub norm: NormKind,
    /// Bias of the linear layers in the blocks.
    pub bias: Bias,
    /// Place of the norms in a block: post-norm or pre-norm.
    pub norm_place: NormPlace,
    /// Position encoding of the tokens, which are numbered row by row.
    #[serde(deserialize_with = "name_or_table")]
    pub position: Position,
    /// How a token weighs the others.
    pub attention: Weighing,
    /// How the states of the tokens become one vector.
    #[serde(deserialize_with = "name_or_table")]
    pub pooling: PatchPooling,
    /// Dropout probability of the tokens and of the output of each part of a block.
    pub dropout: f32,
    /// Dropout probability of attention weights.
    pub attention_dropout: f32,
}

impl Default for VisionTransformerConfig {
    /// Pre-norm, GELU, learned positions and a class token as published, small enough for images of 28 × 28.
    fn default() -> Self {
        Self {
            patch: 4,
            stem: Stem::Patches,
            d_model: 96,
            n_layers: 6,
            n_heads: 4,
            kv_heads: None,
            d_ff: None,
            activation: Activation::Gelu,
            norm: NormKind::Layer,
            bias: Bias::Learned,
            norm_place: NormPlace::Pre,
            position: Position::Learned(LearnedConfig::default()),
            attention: Weighing::Softmax,
            pooling: PatchPooling::ClassToken,
            dropout: 0.1,
            attention_dropout: 0.0,
        }
    }
}

impl VisionTransformerConfig {
    /// Returns an error if the configuration is invalid for images of this size.
    pub fn validate(&self, image: ImageShape) -> Result<(), ConfigError> {
        image.validate().map_err(|error| error.within("image"))?;
        check_positive("patch", self.patch)?;
        let ImageShape { height, width, .. } = image;
        if !height.is_multiple_of(self.patch) || !width.is_multiple_of(self.patch) {
            let allowed = format!("a size that divides both sides of the image, {height} × {width}");
            return Err(ConfigError::new("patch", self.patch, allowed));
        }
        if self.stem == Stem::Convolutions {
            if self.patch < 2 || !self.patch.is_power_of_two() {
                let allowed = "2, 4, 8 or a larger power of two: each convolution of the stem halves the image";
                return Err(ConfigError::new("patch", self.patch, allowed));
            }
            if !self.d_model.is_multiple_of(self.patch / 2) {
                let allowed =
                    format!("a multiple of {}: each convolution of the stem doubles the channels", self.patch / 2);
                return Err(ConfigError::new("d_model", self.d_model, allowed));
            }
        }
        self.pooling.config().validate().map_err(|error| error.within("pooling"))?;
        self.transformer(image).validate()?;
        for convolution in self.convolutions(image) {
            convolution.validate().map_err(|error| ConfigError { field: "d_model".to_string(), ..error })?;
        }
        self.embedding(image).validate().map_err(|error| ConfigError { field: "patch".to_string(), ..error })
    }

    /// Returns the numbers of rows and columns of patches.
    pub fn grid(&self, image: ImageShape) -> [usize; 2] {
        [image.height, image.width].map(|size| size / self.patch.max(1))
    }

    /// Returns the number of tokens: the patches and the class token.
    pub fn tokens(&self, image: ImageShape) -> usize {
        let [rows, columns] = self.grid(image);
        rows * columns + usize::from(self.pooling == PatchPooling::ClassToken)
    }

    /// Returns the configuration of a whole Transformer, of which the model uses the blocks and positions. A table of learned
    /// positions has a row for each token, or fewer if `max_length` says so.
    pub fn transformer(&self, image: ImageShape) -> TransformerConfig {
        let position = match self.position {
            Position::Learned(table) => {
                let max_length = table.max_length.min(self.tokens(image));
                Position::Learned(LearnedConfig { max_length, ..table })
            }
            position => position,
        };
        TransformerConfig {
            vocab: 1,
            n_layers: self.n_layers,
            d_model: self.d_model,
            n_heads: self.n_heads,
            kv_heads: self.kv_heads,
            d_ff: self.d_ff.unwrap_or(self.d_model.saturating_mul(4)),
            activation: self.activation,
            norm: self.norm,
            bias: self.bias,
            norm_place: self.norm_place,
            position,
            attention: self.attention,
            dropout: self.dropout,
            attention_dropout: self.attention_dropout,
            ..TransformerConfig::default()
        }
    }

    /// Builds the network for images of this size.
    pub fn init(&self, image: ImageShape, init: &Init) -> Result<VisionTransformer, ConfigError> {
        self.validate(image)?;
        let whole = self.transformer(image);
        let has_token = self.pooling == PatchPooling::ClassToken;
        let stem = self.convolutions(image).into_iter().enumerate();
        Ok(VisionTransformer {
            stem: stem.map(|(n, config)| config.init(&init.enter("stem").enter(n))).collect::<Result<_, _>>()?,
            embedding: self.embedding(image).init(&init.enter("embedding"))?,
            class_token: has_token.then(|| init.normal("class_token", [1, self.d_model], 0.02)),
            position: whole.position.init(whole.position_sizes(), &init.enter("position"))?,
            stack: Stack::new(&whole, &init.enter("stack"))?,
            pooling: self.pooling.config().init(self.d_model, &init.enter("pooling"))?,
            dropout: Dropout::new("dropout", self.dropout, &init.enter("dropout"))?,
            patch: self.positions_of_patch(),
        })
    }

    /// Returns the convolutions of the stem, of which the first reads the image.
    pub fn convolutions(&self, image: ImageShape) -> Vec<NormedConvolutionConfig> {
        let count = match self.stem {
            Stem::Patches => 0,
            Stem::Convolutions => self.patch.max(1).ilog2(),
        };
        let channels = |n: u32| self.d_model >> (count - n);
        let layer = |n: u32| NormedConvolutionConfig {
            in_channels: if n == 0 { image.channels } else { channels(n) },
            out_channels: channels(n + 1),
            kernel: 3,
            stride: 2,
            // A norm would tell every patch about the whole image.
            groups: 0,
        };
        (0..count).map(layer).collect()
    }

    /// Returns the number of features that the embedding of a patch reads.
    pub fn d_patch(&self, image: ImageShape) -> usize {
        let channels = self.convolutions(image).last().map_or(image.channels, |last| last.out_channels);
        channels.saturating_mul(self.positions_of_patch()).saturating_mul(self.positions_of_patch())
    }

    /// Returns height and width of a patch where the embedding reads it: in the image, or after the convolutions.
    fn positions_of_patch(&self) -> usize {
        match self.stem {
            Stem::Patches => self.patch,
            Stem::Convolutions => 1,
        }
    }

    fn embedding(&self, image: ImageShape) -> LinearConfig {
        LinearConfig::new(self.d_patch(image), self.d_model)
    }
}

/// Vision Transformer; see the [module](self).
#[derive(Module, Debug)]
pub struct VisionTransformer {
    /// Convolutions before the embedding; none if it reads the pixels themselves.
    pub stem: Vec<NormedConvolution>,
    /// Embedding of a patch, `[channels · patch · patch, d_model]`, or `[d_model, d_model]` after convolutions.
    pub embedding: Linear,
    /// Class token, `[1, d_model]`.
    pub class_token: Option<Param<Tensor<2>>>,
    /// Positions, shared by all layers.
    pub position: Positions,
    /// Stack of blocks.
    pub stack: Stack,
    /// Pooling of the tokens' states into one vector.
    pub pooling: Pooling,
    dropout: Dropout,
    patch: usize,
}

impl VisionTransformer {
    /// Builds the network of a published model, which reads the pixels of square patches after a class token. Of `config`, the
    /// blocks and the positions are used.
    pub fn of_patches(
        config: &TransformerConfig,
        channels: usize,
        patch: usize,
        init: &Init,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        check_positive("channels", channels)?;
        check_positive("patch", patch)?;
        check_product("patch", &[channels, patch, patch, config.d_model])?;
        let embedding = LinearConfig::new(channels * patch * patch, config.d_model);
        Ok(Self {
            stem: Vec::new(),
            embedding: embedding.init(&init.enter("embedding"))?,
            class_token: Some(init.normal("class_token", [1, config.d_model], 0.02)),
            position: config.position.init(config.position_sizes(), &init.enter("position"))?,
            stack: Stack::new(config, &init.enter("stack"))?,
            pooling: PatchPooling::ClassToken.config().init(config.d_model, &init.enter("pooling"))?,
            dropout: Dropout::new("embedding_dropout", config.embedding_dropout(), &init.enter("dropout"))?,
            patch,
        })
    }

    /// Computes one vector per image. Captured maps list the class token first, then the patches row by row.
    ///
    /// # Shapes
    /// `x` `[batch, channels, height, width]` → `[batch, d_model]`.
    pub fn forward(&self, x: Tensor<4>, pass: &Pass) -> Result<Tensor<2>, NnError> {
        let x = self.states(x, pass)?;
        self.pooling.forward(x, None, pass)
    }

    /// Computes the state of each token: the class token first, then the patches row by row.
    ///
    /// # Shapes
    /// `x` `[batch, channels, height, width]` → `[batch, tokens, d_model]`.
    pub fn states(&self, x: Tensor<4>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        let (x, places) = self.embedded(x, pass)?;
        self.stack.forward(x, None, &AttentionOptions::default(), &places, pass)
    }

    /// Returns the embedded tokens and the states after every block, the lowest first, none of them normalised.
    ///
    /// # Shapes
    /// `x` `[batch, channels, height, width]` → `n_layers + 1` tensors `[batch, tokens, d_model]`.
    pub fn states_all(&self, x: Tensor<4>, pass: &Pass) -> Result<Vec<Tensor<3>>, NnError> {
        let (x, places) = self.embedded(x, pass)?;
        let mut all = vec![x.clone()];
        all.extend(self.stack.forward_blocks(x, &AttentionOptions::default(), &places, pass)?);
        Ok(all)
    }

    fn embedded(&self, x: Tensor<4>, pass: &Pass) -> Result<(Tensor<3>, Places), NnError> {
        let mut x = x;
        for convolution in &self.stem {
            x = convolution.forward_rectified(x, None)?;
        }
        let patches = self.embedding.forward(patches(x, self.patch)?)?;
        let [batch, _, d_model] = patches.dims();
        let x = match &self.class_token {
            Some(token) => {
                let token = token.val().unsqueeze_dim::<3>(0).expand([batch, 1, d_model]);
                Tensor::cat(vec![token, patches], 1)
            }
            None => patches,
        };
        let seq = x.dims()[1];
        let (x, places) = self.position.enter(x, &[(0, seq)], pass)?;
        Ok((self.dropout.forward(x, pass)?, places))
    }
}

/// Cuts images into square patches, row by row. The numbers of a patch are ordered by channel, row and column.
///
/// # Shapes
/// `x` `[batch, channels, height, width]` → `[batch, patches, channels · patch · patch]`.
fn patches(x: Tensor<4>, patch: usize) -> Result<Tensor<3>, NnError> {
    let [batch, channels, height, width] = x.dims();
    if [height, width].iter().any(|&size| size == 0 || !size.is_multiple_of(patch)) {
        let expected = format!("[batch, channels, height, width] with multiples of {patch} as height and width");
        return Err(NnError::input("images", expected, format!("{:?}", x.dims())));
    }
    let (rows, columns) = (height / patch, width / patch);
    let cells = x.reshape([batch, channels, rows, patch, columns, patch]).permute([0, 2, 4, 1, 3, 5]);
    Ok(cells.reshape([batch, rows * columns, channels * patch * patch]))
}
