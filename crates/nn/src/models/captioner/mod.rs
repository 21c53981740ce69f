//! Captioners: a picture becomes a set of [features], from which an LSTM with soft or hard attention (Xu et al. 2015) or
//! the decoder of a Transformer writes a sentence.
//!
//! The recurrent captioner starts from a state of zeros, so that all it knows about the picture comes through attention; the paper
//! starts from the mean of the features.

pub mod features;

use burn::module::Module;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use self::features::{PictureFeatures, PictureFeaturesConfig};
use super::recurrent_writer::{Alignment, Attend, RecurrentSource, RecurrentWriter, RecurrentWriterConfig};
use super::stack::{Output, TokenEmbedding, last_norm};
use super::transformer::{OutputWeights, TransformerConfig};
use super::transformer_writer::{TransformerSource, TransformerWriter};
use crate::config::{check_positive, check_product, name_or_table};
use crate::error::{ConfigError, NnError};
use crate::heads::Side;
use crate::init::Init;
use crate::layers::attention::context::{ContextAttention, Selection};
use crate::layers::block::decoder::DecoderBlock;
use crate::layers::dropout::Dropout;
use crate::layers::embedding::{Embedding, EmbeddingConfig};
use crate::layers::linear::{Linear, LinearConfig};
use crate::layers::norm::Norm;
use crate::layers::recurrent::{Cell, Recurrent};
use crate::pass::Pass;

/// Configuration of a [`RecurrentCaptioner`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecurrentCaptionerConfig {
    /// Number of distinct tokens of a sentence.
    pub vocab: usize,
    /// Features of a picture.
    pub picture: PictureFeaturesConfig,
    /// Recurrent cell: RNN, LSTM or GRU.
    #[serde(deserialize_with = "name_or_table")]
    pub cell: Cell,
    /// Number of recurrent layers.
    pub n_layers: usize,
    /// Features per token.
    pub d_model: usize,
    /// Features of a state and of a cell of the picture.
    pub d_hidden: usize,
    /// Score of the attention over the picture.
    pub attention: Alignment,
    /// Soft attention over the whole picture, or hard attention to one cell of it.
    #[serde(deserialize_with = "name_or_table")]
    pub selection: Selection,
    /// When the writer attends to the picture.
    pub attend: Attend,
    /// Source of the output layer's matrix.
    pub output_weights: OutputWeights,
    /// Dropout probability of embeddings, between layers, and of the features before the output.
    pub dropout: f32,
}

impl RecurrentCaptionerConfig {
    /// Returns an error if the configuration is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("vocab", self.vocab)?;
        check_product("vocab", &[self.vocab, self.d_model])?;
        if self.attention == Alignment::None {
            let allowed = "additive, dot, general or scaled_dot: without attention the picture is not seen";
            return Err(ConfigError::new("attention", "none", allowed));
        }
        self.picture.validate()?;
        self.writer().validate()
    }

    /// Returns the configuration of the decoder, its attention and its output.
    pub fn writer(&self) -> RecurrentWriterConfig {
        RecurrentWriterConfig {
            cell: self.cell,
            n_layers: self.n_layers,
            d_model: self.d_model,
            d_hidden: self.d_hidden,
            attention: self.attention,
            selection: self.selection,
            attend: self.attend,
            dropout: self.dropout,
        }
    }
}

/// Recurrent captioner; see the [module](self).
#[derive(Module, Debug)]
pub struct RecurrentCaptioner {
    /// Features of the picture.
    pub picture: PictureFeatures,
    /// Embedding of the words, `[vocab, d_model]`.
    pub embedding: Embedding,
    /// Network that writes the sentence.
    pub decoder: Recurrent,
    /// Attention of the decoder over the picture.
    pub attention: Option<ContextAttention>,
    /// Layer from state, context and word to `d_model` features.
    pub readout: Linear,
    /// Layer from `d_model` features to the vocabulary.
    pub output: Output,
    word_dropout: Dropout,
    readout_dropout: Dropout,
    #[module(skip)]
    config: RecurrentWriterConfig,
}

impl RecurrentCaptioner {
    /// Builds the model.
    pub fn new(config: &RecurrentCaptionerConfig, init: &Init) -> Result<Self, ConfigError> {
        config.validate()?;
        let RecurrentCaptionerConfig { vocab, d_model, d_hidden, .. } = *config;
        let writer = config.writer();
        let dropout = |name| Dropout::new("dropout", config.dropout, &init.enter(name));
        let output = LinearConfig::new(d_model, vocab);
        Ok(Self {
            picture: config.picture.init(d_hidden, &init.enter("picture"))?,
            embedding: EmbeddingConfig { vocab, d_model }.init(&init.enter("embedding"))?,
            decoder: writer.cells().init(&init.enter("decoder"))?,
            attention: writer.context().map(|context| context.init(&init.enter("attention"))).transpose()?,
            readout: writer.readout().init(&init.enter("readout"))?,
            output: Output::of(output, config.output_weights, &init.enter("output"))?,
            word_dropout: dropout("word_dropout")?,
            readout_dropout: dropout("readout_dropout")?,
            config: writer,
        })
    }

    /// Computes the features of pictures, once for all steps of the writer.
    ///
    /// # Shapes
    /// `pictures` `[batch, channels, height, width]`.
    pub fn encode(&self, pictures: Tensor<4>, pass: &Pass) -> Result<RecurrentSource, NnError> {
        let batch = pictures.dims()[0];
        let features = self.picture.forward(pictures, pass)?;
        let prepare = |attention: &ContextAttention| attention.prepare(features.clone(), features, None);
        let sources = self.attention.as_ref().map(prepare).transpose()?;
        Ok(RecurrentSource { sources, state: self.decoder.zero_state(batch) })
    }

    /// Returns the parts that write the sentence.
    pub fn writer(&self) -> RecurrentWriter<'_> {
        RecurrentWriter {
            config: self.config,
            embedding: &self.embedding,
            cells: &self.decoder,
            attention: self.attention.as_ref(),
            readout: &self.readout,
            output: &self.output,
            word_dropout: &self.word_dropout,
            readout_dropout: &self.readout_dropout,
        }
    }
}

/// Configuration of a [`TransformerCaptioner`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformerCaptionerConfig {
    /// Features of a picture.
    pub picture: PictureFeaturesConfig,
    /// Decoder: `n_layers` blocks, and the vocabulary of the sentence.
    pub decoder: TransformerConfig,
}

impl TransformerCaptionerConfig {
    /// Returns an error if the configuration is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.picture.validate()?;
        self.decoder.validate_encoder_decoder()
    }
}

/// Captioner with the decoder of a Transformer; see the [module](self).
#[derive(Module, Debug)]
pub struct TransformerCaptioner {
    /// Features of the picture.
    pub picture: PictureFeatures,
    /// Embedding of the words.
    pub embedding: TokenEmbedding,
    /// Decoder blocks, the lowest first.
    pub decoder: Vec<DecoderBlock>,
    /// Norm after the last block.
    pub norm: Option<Norm>,
    /// Output layer over the vocabulary.
    pub output: Output,
}

impl TransformerCaptioner {
    /// Builds the model.
    pub fn new(config: &TransformerCaptionerConfig, init: &Init) -> Result<Self, ConfigError> {
        config.validate()?;
        let TransformerCaptionerConfig { picture, decoder } = config;
        let block = decoder.block();
        let blocks = |i| DecoderBlock::new(&block, &init.enter("decoder").enter(i).on(Side::Decoder).layer(i));
        Ok(Self {
            picture: picture.init(decoder.d_model, &init.enter("picture"))?,
            embedding: TokenEmbedding::new(decoder, decoder.vocab, &init.enter("embedding"))?,
            decoder: (0..decoder.n_layers).map(blocks).collect::<Result<_, _>>()?,
            norm: last_norm(decoder, init)?,
            output: Output::new(decoder, decoder.vocab, &init.enter("output"))?,
        })
    }

    /// Computes the keys and values of pictures, once for all steps of the writer.
    ///
    /// # Shapes
    /// `pictures` `[batch, channels, height, width]`.
    pub fn encode(&self, pictures: Tensor<4>, pass: &Pass) -> Result<TransformerSource, NnError> {
        self.writer().source(self.picture.forward(pictures, pass)?, None)
    }

    /// Returns the parts that write the sentence.
    pub fn writer(&self) -> TransformerWriter<'_> {
        TransformerWriter {
            embedding: &self.embedding,
            position: None,
            blocks: &self.decoder,
            norm: self.norm.as_ref(),
            dropout: None,
            output: &self.output,
        }
    }
}
