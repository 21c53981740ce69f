//! The configuration of `caption`.

use std::path::{Path, PathBuf};

use regard_data::builtin::{SCENE_SIZE, scenes_fingerprint};
use regard_data::{Case, Colours, Fit, Fold, ImageSize, Side, TokenizerConfig, TokenizerKind, fingerprint_captions};
use regard_nn::ConfigError;
use regard_nn::config::{check_positive, name_or_table};
use regard_nn::layers::attention::context::Selection;
use regard_nn::layers::linear::Bias;
use regard_nn::models::captioner::features::PictureFeaturesConfig;
use regard_nn::models::captioner::{RecurrentCaptionerConfig, TransformerCaptionerConfig};
use regard_nn::models::image::ImageShape;
use regard_nn::models::image::cnn::{AttentionBlocks, CnnConfig};
use regard_nn::models::recurrent_writer::{Alignment, Attend};
use regard_nn::models::transformer::{EmbeddingScale, OutputWeights, Sight, TransformerConfig};
use serde::{Deserialize, Serialize};

use crate::decode::BeamOptions;
use crate::error::TaskError;
use crate::extended::Extended;
use crate::model::{Chosen, RecurrentKeys, TransformerKeys, TransformerOrRecurrent};
use crate::pictures::LONGEST_SIDE;
use crate::run_config::{DataSection, RunConfig, check_built_in};
use crate::task::Validate;

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// `captions.tsv`, or a folder with it; built-in scenes if absent.
    pub path: Option<PathBuf>,
    /// Fold `k/n` that is the test split of a single file.
    pub fold: Option<Fold>,
    /// Height and width that pictures are brought to; by default their own if they are the same for all.
    pub size: Option<Side>,
    /// Whether pictures are grey or in colour.
    pub colours: Colours,
    /// Tokeniser of the sentences, trained on those of the training split.
    pub tokenizer: TokenizerConfig<Option<TokenizerKind>>,
    /// Maximum tokens of a sentence: longer ones are left out of training, and none longer is written.
    pub max_length: usize,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            path: None,
            fold: None,
            size: None,
            colours: Colours::Auto,
            tokenizer: TokenizerConfig { kind: None, vocab: 8_000, case: Case::Keep, min_count: 1 },
            max_length: 60,
        }
    }
}

impl DataConfig {
    /// Returns what pictures are to be brought to.
    pub(super) fn fit(&self) -> Fit {
        Fit { size: self.size, colours: self.colours }
    }

    /// Returns the size of pictures, once it is settled; before, that of built-in scenes for what is not set.
    pub(super) fn image_size(&self) -> ImageSize {
        let [height, width] = self.size.map_or([SCENE_SIZE.height, SCENE_SIZE.width], Side::sides);
        let channels = if self.colours == Colours::Grey { 1 } else { 3 };
        ImageSize { channels, height, width }
    }

    /// Returns the size of pictures, or the largest one while that of the user's pictures is not known.
    fn largest_size(&self) -> ImageSize {
        match (&self.path, self.size) {
            (Some(_), None) => ImageSize { height: LONGEST_SIDE, width: LONGEST_SIDE, ..self.image_size() },
            _ => self.image_size(),
        }
    }
}

impl DataSection for DataConfig {
    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn fingerprint(&self) -> Result<String, TaskError> {
        match &self.path {
            Some(path) => Ok(fingerprint_captions(path)?),
            None => Ok(format!("built-in scenes {}", scenes_fingerprint())),
        }
    }
}

/// Keys of the convolutional network over the picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PictureKeys {
    /// Number of channels of each stage.
    pub channels: Vec<usize>,
    /// Number of residual blocks in each stage.
    pub blocks: usize,
    /// Height and width of a cell, in positions of the last stage.
    pub cell: usize,
    /// Number of groups of channels in the norms; 0 for no norms.
    pub groups: usize,
    /// Attention blocks between the stages.
    #[serde(deserialize_with = "name_or_table")]
    pub blocks_attention: AttentionBlocks,
}

impl Default for PictureKeys {
    fn default() -> Self {
        Self { channels: vec![16, 48], blocks: 1, cell: 3, groups: 0, blocks_attention: AttentionBlocks::None }
    }
}

impl PictureKeys {
    fn features(&self, size: ImageSize) -> PictureFeaturesConfig {
        let ImageSize { channels, height, width } = size;
        let cnn = CnnConfig {
            channels: self.channels.clone(),
            blocks: self.blocks,
            groups: self.groups,
            dropout: 0.0,
            attention: self.blocks_attention.clone(),
        };
        PictureFeaturesConfig { shape: ImageShape { channels, height, width }, cnn, cell: self.cell }
    }
}

/// Keys that a captioner adds to [`TransformerKeys`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WriterKeys {
    /// Factor on the embedding.
    pub embedding_scale: EmbeddingScale,
    /// Matrix of the output layer.
    pub output_weights: OutputWeights,
    /// Bias of the output layer.
    pub output_bias: Bias,
}

/// Keys that a captioner adds to [`RecurrentKeys`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LookingKeys {
    /// Matrix of the output layer.
    pub output_weights: OutputWeights,
    /// Score function of the decoder's attention to the picture.
    pub score: Alignment,
    /// Whether the decoder attends to the picture before or after its step.
    pub attend: Attend,
    /// Whether the decoder takes the weighted mean of all cells, or one of them.
    #[serde(deserialize_with = "name_or_table")]
    pub selection: Selection,
    /// Number of steps in which hard attention is trained as soft attention, before it chooses.
    pub soft_steps: u64,
}

/// The `[model]` section.
pub type ModelConfig = TransformerOrRecurrent<
    Extended<Extended<TransformerKeys, WriterKeys>, PictureKeys>,
    Extended<Extended<RecurrentKeys, LookingKeys>, PictureKeys>,
>;

/// Sections that only this task has.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Decoding {
    /// Beam search for the best sentence.
    pub decode: BeamOptions,
}

/// The configuration of `caption`.
pub type Config = RunConfig<DataConfig, ModelConfig, Decoding>;

/// The configuration of the network.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a model has only one")]
pub(super) enum NetworkConfig {
    Transformer(TransformerCaptionerConfig),
    Recurrent(RecurrentCaptionerConfig),
}

impl NetworkConfig {
    pub fn of(model: &ModelConfig, vocab: usize, size: ImageSize) -> Self {
        match model.chosen() {
            Chosen::Transformer(Extended { base: Extended { base, more }, more: picture }) => {
                let decoder = TransformerConfig {
                    embedding_scale: more.embedding_scale,
                    output_weights: more.output_weights,
                    output_bias: more.output_bias,
                    ..base.transformer(vocab)
                };
                Self::Transformer(TransformerCaptionerConfig { picture: picture.features(size), decoder })
            }
            Chosen::Recurrent(cell, Extended { base: Extended { base, more }, more: picture }) => {
                Self::Recurrent(RecurrentCaptionerConfig {
                    vocab,
                    picture: picture.features(size),
                    cell,
                    n_layers: base.n_layers,
                    d_model: base.d_model,
                    d_hidden: base.d_hidden(),
                    attention: more.score,
                    selection: more.selection,
                    attend: more.attend,
                    output_weights: more.output_weights,
                    dropout: base.dropout,
                })
            }
        }
    }

    /// The part of the network that depends on the size of pictures.
    fn picture(&self) -> &PictureFeaturesConfig {
        match self {
            Self::Transformer(config) => &config.picture,
            Self::Recurrent(config) => &config.picture,
        }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Transformer(config) if config.decoder.sight != Sight::Full => {
                let allowed = "full: a word sees all words before it and the whole picture";
                Err(ConfigError::new("sight", "another", allowed))
            }
            Self::Transformer(config) => config.validate(),
            // The score is called attention in the network, but that is another key here.
            Self::Recurrent(config) => config.validate().map_err(|mut error| {
                if error.field == "attention" {
                    error.field = "score".to_string();
                }
                error
            }),
        }
    }
}

/// Returns whether attention chooses one cell, and the number of steps in which it is trained softly before.
pub(super) fn hard(model: &ModelConfig) -> Option<u64> {
    match model.chosen() {
        Chosen::Transformer(_) => None,
        Chosen::Recurrent(_, Extended { base: Extended { more, .. }, .. }) => {
            (more.selection != Selection::Soft).then_some(more.soft_steps)
        }
    }
}

impl Config {
    /// Sets size and colours to those of the pictures, so that later ones are brought to the same. Returns an error if the
    /// network cannot see pictures of this size.
    pub(super) fn settle(&mut self, size: ImageSize) -> Result<(), ConfigError> {
        let ImageSize { channels, height, width } = size;
        if height.max(width) > LONGEST_SIDE {
            let allowed = format!("1 to {LONGEST_SIDE}; set it, and larger pictures are resized");
            return Err(ConfigError::new("data.size", format!("{height} × {width}, as the pictures are"), allowed));
        }
        self.data.size = Some(if height == width { Side::Square(height) } else { Side::Sides([height, width]) });
        self.data.colours = if channels == 1 { Colours::Grey } else { Colours::Rgb };
        let network = NetworkConfig::of(&self.model, 1, size);
        network.picture().validate().map_err(|mut error| {
            error.allowed += &format!(", for pictures of {size}");
            error.within("model")
        })
    }
}

impl Validate for Config {
    fn validate(&self) -> Result<(), TaskError> {
        let DataConfig { path, fold, size, tokenizer, max_length, .. } = &self.data;
        check_positive("data.max_length", *max_length)?;
        if path.is_none() {
            check_built_in(*fold, &[])?;
        }
        for side in size.iter().flat_map(|size| size.sides()) {
            if !(1..=LONGEST_SIDE).contains(&side) {
                return Err(ConfigError::new("data.size", side, format!("1 to {LONGEST_SIDE}")).into());
            }
        }
        tokenizer.validate()?;
        self.more.decode.validate().map_err(|error| error.within("decode"))?;
        let network = NetworkConfig::of(&self.model, 1, self.data.largest_size());
        network.validate().map_err(|error| error.within("model"))?;
        Ok(())
    }
}
