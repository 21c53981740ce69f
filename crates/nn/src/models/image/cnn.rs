//! Residual network of convolutions (He et al. 2016) with group norm, and optionally with attention between positions and
//! between channels.
//!
//! `relu(norm(conv(x)))` is followed by stages of [residual blocks](ResidualBlock). The first stage works at the size of the
//! image; each later one begins with a stride of 2, which halves height and width. An attention block after a stage lets every
//! position see all others, or every channel.

use burn::module::Module;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::config::{check_dropout, check_layers, check_positive, name_or_table, no_settings};
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::attention::image::{
    ChannelAttention, ChannelAttentionConfig, SpatialAttention, SpatialAttentionConfig,
};
use crate::layers::block::image::{NormedConvolution, NormedConvolutionConfig, ResidualBlock, ResidualBlockConfig};
use crate::pass::Pass;

/// Attention blocks of a [`Cnn`]. A file gives them by name, `attention = "both"`, or with settings,
/// `attention = { kind = "spatial", stages = [2] }`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AttentionBlocks {
    /// No attention.
    #[default]
    #[serde(deserialize_with = "no_settings")]
    None,
    /// Attention between positions.
    Spatial(AttentionBlocksConfig),
    /// Attention between channels.
    Channel(AttentionBlocksConfig),
    /// Attention between positions, then between channels.
    Both(AttentionBlocksConfig),
}

/// Settings of [`AttentionBlocks`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AttentionBlocksConfig {
    /// Stages with attention after them, from 0; all but the first by default.
    pub stages: Option<Vec<usize>>,
    /// Number of features of queries and keys between positions; an eighth of the channels by default.
    pub d_key: Option<usize>,
    /// Number of features of values between positions; half of the channels by default.
    pub d_value: Option<usize>,
    /// Factor on the scores between channels. Their size grows with the number of positions, and with a large factor each
    /// channel sees only itself.
    pub channel_scale: f32,
}

impl Default for AttentionBlocksConfig {
    fn default() -> Self {
        Self { stages: None, d_key: None, d_value: None, channel_scale: 0.1 }
    }
}

/// Configuration of a [`Cnn`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CnnConfig {
    /// Number of channels of each stage.
    pub channels: Vec<usize>,
    /// Number of residual blocks in each stage.
    pub blocks: usize,
    /// Number of groups of channels in the norms; divides the channels of every stage. 0 for no norms, so that a feature
    /// depends only on the pixels around it.
    pub groups: usize,
    /// Dropout probability between the two convolutions of a block.
    pub dropout: f32,
    /// Attention blocks.
    #[serde(deserialize_with = "name_or_table")]
    pub attention: AttentionBlocks,
}

impl Default for CnnConfig {
    fn default() -> Self {
        Self { channels: vec![32, 64, 128], blocks: 1, groups: 8, dropout: 0.0, attention: AttentionBlocks::None }
    }
}

impl CnnConfig {
    /// Returns an error if the configuration is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_layers("channels", self.channels.len())?;
        check_layers("blocks", self.blocks)?;
        check_dropout("dropout", self.dropout)?;
        for (stage, &channels) in self.channels.iter().enumerate() {
            let field = format!("channels[{stage}]");
            check_positive(&field, channels)?;
            if self.groups > 0 && !channels.is_multiple_of(self.groups) {
                let allowed = format!("a multiple of groups, {}", self.groups);
                return Err(ConfigError::new(field, channels, allowed));
            }
            self.spatial(stage)
                .map_or(Ok(()), |config| config.validate())
                .map_err(|error| error.within("attention"))?;
            self.channel(stage).map_or(Ok(()), |config| config.validate()).map_err(|mut error| {
                error.field = "attention.channel_scale".to_string();
                error
            })?;
        }
        let stages = self.settings().and_then(|settings| settings.stages.as_deref()).unwrap_or_default();
        match stages.iter().find(|&&stage| stage >= self.channels.len()) {
            Some(stage) => {
                let allowed = format!("stages from 0 to {}", self.channels.len() - 1);
                Err(ConfigError::new("attention.stages", stage, allowed))
            }
            None => Ok(()),
        }
    }

    /// Returns the number of channels of the features.
    pub fn d_out(&self) -> usize {
        self.channels.last().copied().unwrap_or(0)
    }

    /// Returns height and width of the features of an image.
    pub fn grid(&self, image: [usize; 2]) -> [usize; 2] {
        image.map(|size| (1..self.channels.len()).fold(size, |size, _| size.div_ceil(2)))
    }

    /// Builds the network for images of `in_channels` channels.
    pub fn init(&self, in_channels: usize, init: &Init) -> Result<Cnn, ConfigError> {
        check_positive("in_channels", in_channels)?;
        self.validate()?;
        let Self { groups, dropout, .. } = *self;
        let mut channels = self.channels[0];
        let stem = NormedConvolutionConfig { in_channels, out_channels: channels, kernel: 3, stride: 1, groups };
        let mut stages = Vec::with_capacity(self.channels.len());
        for (stage, &out_channels) in self.channels.iter().enumerate() {
            let init = init.enter("stages").enter(stage).layer(stage);
            let blocks = (0..self.blocks).map(|n| {
                let stride = if stage > 0 && n == 0 { 2 } else { 1 };
                let config = ResidualBlockConfig { in_channels: channels, out_channels, stride, groups, dropout };
                channels = out_channels;
                config.init(&init.enter("blocks").enter(n))
            });
            stages.push(CnnStage {
                blocks: blocks.collect::<Result<_, _>>()?,
                spatial: self.spatial(stage).map(|config| config.init(&init.enter("spatial"))).transpose()?,
                channel: self.channel(stage).map(|config| config.init(&init.enter("channel"))).transpose()?,
            });
        }
        Ok(Cnn { stem: stem.init(&init.enter("stem"))?, stages })
    }

    /// Returns the settings of the attention blocks, if there are any.
    fn settings(&self) -> Option<&AttentionBlocksConfig> {
        match &self.attention {
            AttentionBlocks::None => None,
            AttentionBlocks::Spatial(settings)
            | AttentionBlocks::Channel(settings)
            | AttentionBlocks::Both(settings) => Some(settings),
        }
    }

    /// Returns the settings of the attention blocks after a stage.
    fn settings_after(&self, stage: usize) -> Option<&AttentionBlocksConfig> {
        self.settings().filter(|settings| match &settings.stages {
            Some(stages) => stages.contains(&stage),
            None => stage > 0 || self.channels.len() == 1,
        })
    }

    /// Returns the configuration of the attention between positions after a stage.
    pub fn spatial(&self, stage: usize) -> Option<SpatialAttentionConfig> {
        let wanted = matches!(self.attention, AttentionBlocks::Spatial(_) | AttentionBlocks::Both(_));
        let settings = self.settings_after(stage).filter(|_| wanted)?;
        let channels = self.channels[stage];
        let d_key = settings.d_key.unwrap_or((channels / 8).max(1));
        let d_value = settings.d_value.unwrap_or((channels / 2).max(1));
        let scale = 1.0 / (d_key as f32).sqrt();
        Some(SpatialAttentionConfig { scale, ..SpatialAttentionConfig::new(channels, d_key, d_value) })
    }

    /// Returns the configuration of the attention between channels after a stage.
    pub fn channel(&self, stage: usize) -> Option<ChannelAttentionConfig> {
        let wanted = matches!(self.attention, AttentionBlocks::Channel(_) | AttentionBlocks::Both(_));
        let settings = self.settings_after(stage).filter(|_| wanted)?;
        Some(ChannelAttentionConfig { scale: settings.channel_scale, ..ChannelAttentionConfig::default() })
    }
}

/// Residual network of convolutions; see the [module](self).
#[derive(Module, Debug)]
pub struct Cnn {
    /// First convolution, at the size of the image.
    pub stem: NormedConvolution,
    /// Stages, the one at the size of the image first.
    pub stages: Vec<CnnStage>,
}

/// Residual blocks at one size, and the attention after them.
#[derive(Module, Debug)]
pub struct CnnStage {
    /// Residual blocks.
    pub blocks: Vec<ResidualBlock>,
    /// Attention between positions.
    pub spatial: Option<SpatialAttention>,
    /// Attention between channels.
    pub channel: Option<ChannelAttention>,
}

impl Cnn {
    /// Computes the features of each image: the output of the last stage.
    ///
    /// # Shapes
    /// `x` `[batch, in_channels, height, width]` → `[batch, d_out, h, w]`, where `h` is `height` halved once for each stage after
    /// the first and rounded up, and `w` likewise.
    pub fn features(&self, x: Tensor<4>, pass: &Pass) -> Result<Tensor<4>, NnError> {
        let mut x = self.stem.forward_rectified(x, None)?;
        for stage in &self.stages {
            for block in &stage.blocks {
                x = block.forward(x, pass)?;
            }
            if let Some(attention) = &stage.spatial {
                x = attention.forward(x, pass)?;
            }
            if let Some(attention) = &stage.channel {
                x = attention.forward(x, pass)?;
            }
        }
        Ok(x)
    }
}
