//! The configuration of `image`.

use std::path::{Path, PathBuf};

use regard_data::{Colours, Fit, Fold, Held, Side, builtin, fingerprint_images};
use regard_nn::ConfigError;
use regard_nn::config::{check_positive, name_or_table};
use regard_nn::models::image::cnn::{AttentionBlocks, AttentionBlocksConfig, CnnConfig};
use regard_nn::models::image::dnn::DnnConfig;
use regard_nn::models::image::vision_transformer::VisionTransformerConfig;
use regard_nn::models::image::{ImageShape, NetworkConfig};
use serde::{Deserialize, Serialize};

use super::augment::Augmentation;
use crate::error::TaskError;
use crate::extended::Extended;
use crate::pictures::LONGEST_SIDE;
use crate::run_config::{DataSection, RunConfig, check_built_in};
use crate::task::Validate;

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// Folder of pictures or IDX file; built-in digits if absent.
    pub path: Option<PathBuf>,
    /// Fold `k/n` that is the test split of pictures without splits.
    pub fold: Option<Fold>,
    /// Height and width that pictures are brought to; by default their own if it is the same for all, else 32 × 32.
    pub size: Option<Side>,
    /// Colours that pictures are brought to.
    pub colours: Colours,
    /// Number of training images at the end of an IDX file that are used as dev.
    pub dev: Option<usize>,
    /// Number of training images to use, chosen by a hash of their content.
    pub limit: Option<usize>,
    /// Largest number of pixels by which a training picture is shifted at random.
    pub shift: usize,
    /// Whether training pictures are mirrored at random.
    pub flip: bool,
    /// Smallest share of height and width that a random section of a training picture keeps.
    pub crop: f32,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            path: None,
            fold: None,
            size: None,
            colours: Colours::Auto,
            dev: None,
            limit: None,
            shift: 0,
            flip: false,
            crop: 1.0,
        }
    }
}

impl DataConfig {
    /// The size and the colours that pictures are brought to, as far as they are given.
    pub(super) fn fit(&self) -> Fit {
        Fit { size: self.size, colours: self.colours }
    }

    pub(super) fn held(&self) -> Held {
        Held { dev: self.dev, limit: self.limit }
    }

    pub(super) fn augmentation(&self) -> Augmentation {
        Augmentation { shift: self.shift, flip: self.flip, crop: self.crop }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        for side in self.size.iter().flat_map(|size| size.sides()) {
            if !(1..=LONGEST_SIDE).contains(&side) {
                return Err(ConfigError::new("size", side, format!("1 to {LONGEST_SIDE}")));
            }
        }
        for (field, count) in [("dev", self.dev), ("limit", self.limit)] {
            count.map_or(Ok(()), |count| check_positive(field, count))?;
        }
        if self.shift > LONGEST_SIDE {
            return Err(ConfigError::new("shift", self.shift, format!("at most {LONGEST_SIDE}")));
        }
        if !(self.crop > 0.0 && self.crop <= 1.0) {
            return Err(ConfigError::new("crop", self.crop, "above 0 and at most 1, the whole picture"));
        }
        if self.path.is_some() {
            return Ok(());
        }
        if let Some(dev) = self.dev {
            return Err(ConfigError::new("dev", dev, "no number: the built-in digits have a dev split"));
        }
        if self.size.is_some() || self.colours == Colours::Rgb {
            let (field, got) = if self.size.is_some() { ("size", "a size") } else { ("colours", "rgb") };
            return Err(ConfigError::new(field, got, "none: the built-in digits are 28 × 28 in grey"));
        }
        Ok(())
    }
}

impl DataSection for DataConfig {
    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn fingerprint(&self) -> Result<String, TaskError> {
        match &self.path {
            Some(path) => Ok(fingerprint_images(path)?),
            None => Ok(format!("built-in {}", builtin::digits_fingerprint())),
        }
    }
}

/// Keys of a network of convolutions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CnnKeys {
    /// Number of channels of each stage; each stage after the first halves height and width.
    pub channels: Vec<usize>,
    /// Number of residual blocks in each stage.
    pub blocks: usize,
    /// Number of groups of channels in the norms; divides the channels of every stage.
    pub groups: usize,
    /// Dropout inside the blocks and of the picture's vector.
    pub dropout: f32,
}

impl Default for CnnKeys {
    fn default() -> Self {
        let CnnConfig { channels, blocks, groups, .. } = CnnConfig::default();
        Self { channels, blocks, groups, dropout: 0.1 }
    }
}

/// Keys that attention blocks add to [`CnnKeys`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BlockKeys {
    /// Attention blocks after the stages.
    #[serde(deserialize_with = "name_or_table")]
    pub attention_blocks: AttentionBlocks,
}

impl Default for BlockKeys {
    fn default() -> Self {
        Self { attention_blocks: AttentionBlocks::Both(AttentionBlocksConfig::default()) }
    }
}

/// The `[model]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ModelConfig {
    /// Vision Transformer.
    Vit(VisionTransformerConfig),
    /// Residual network of convolutions.
    Cnn(CnnKeys),
    /// Residual network of convolutions with attention blocks between positions and between channels.
    AttentionCnn(Extended<CnnKeys, BlockKeys>),
    /// Dense network on all pixels.
    Dnn(DnnConfig),
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self::Vit(VisionTransformerConfig::default())
    }
}

impl ModelConfig {
    /// The configuration of the network.
    pub(super) fn network(&self) -> NetworkConfig {
        let cnn = |keys: &CnnKeys, attention: AttentionBlocks| {
            let CnnKeys { channels, blocks, groups, dropout } = keys.clone();
            NetworkConfig::Cnn(CnnConfig { channels, blocks, groups, dropout, attention })
        };
        match self {
            Self::Vit(keys) => NetworkConfig::Vit(*keys),
            Self::Cnn(keys) => cnn(keys, AttentionBlocks::None),
            Self::AttentionCnn(keys) => cnn(&keys.base, keys.more.attention_blocks.clone()),
            Self::Dnn(keys) => NetworkConfig::Dnn(keys.clone()),
        }
    }

    /// Dropout of the picture's vector.
    pub(super) fn dropout(&self) -> f32 {
        match self {
            Self::Vit(keys) => keys.dropout,
            Self::Cnn(keys) => keys.dropout,
            Self::AttentionCnn(keys) => keys.base.dropout,
            Self::Dnn(keys) => keys.dropout,
        }
    }

    /// Returns an error unless the network can read pictures of this size; without one, unless it can read any.
    pub(super) fn validate(&self, image: Option<ImageShape>) -> Result<(), ConfigError> {
        match self.network() {
            NetworkConfig::Vit(config) => {
                let one_patch = ImageShape { channels: 1, height: config.patch, width: config.patch };
                config.validate(image.unwrap_or(one_patch))
            }
            NetworkConfig::Cnn(config) => config.validate(),
            NetworkConfig::Dnn(config) => config.validate(),
        }
        .map_err(|error| error.within("model"))
    }
}

/// The configuration of `image`.
pub type Config = RunConfig<DataConfig, ModelConfig>;

impl Validate for Config {
    fn validate(&self) -> Result<(), TaskError> {
        self.data.validate().map_err(|error| error.within("data"))?;
        if self.data.path.is_none() {
            check_built_in(self.data.fold, &[])?;
        }
        Ok(self.model.validate(None)?)
    }
}
