//! The networks of the task, and a batch of pictures that one of them has seen.

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use regard_data::{END, START};
use regard_nn::models::captioner::features::PictureFeatures;
use regard_nn::models::captioner::{RecurrentCaptioner, TransformerCaptioner};
use regard_nn::models::recurrent_writer::{RecurrentLoss, RecurrentSource, RecurrentWriter};
use regard_nn::models::transformer_writer::{TransformerSource, TransformerWriter};
use regard_nn::{NnError, Pass};
use regard_ops::CrossEntropyOptions;

use crate::decode::{BeamOptions, Hypothesis, RecurrentDecoder, TransformerDecoder, beam};

/// A captioner.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a model has only one")]
pub enum Captioner {
    /// Decoder of a Transformer.
    Transformer(TransformerCaptioner),
    /// Recurrent decoder with attention.
    Recurrent(RecurrentCaptioner),
}

/// The features of a batch of pictures, with the writer that describes them.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "a batch has only one")]
pub(super) enum Seen<'a> {
    Transformer(TransformerWriter<'a>, TransformerSource),
    Recurrent(RecurrentWriter<'a>, RecurrentSource),
}

impl Captioner {
    /// Returns the part that turns pictures into features.
    pub(super) fn picture(&self) -> &PictureFeatures {
        match self {
            Self::Transformer(model) => &model.picture,
            Self::Recurrent(model) => &model.picture,
        }
    }

    /// Computes the features of pictures, `[batch, channels, height, width]`.
    pub(super) fn see(&self, pictures: Tensor<4>, pass: &Pass) -> Result<Seen<'_>, NnError> {
        Ok(match self {
            Self::Transformer(model) => Seen::Transformer(model.writer(), model.encode(pictures, pass)?),
            Self::Recurrent(model) => Seen::Recurrent(model.writer(), model.encode(pictures, pass)?),
        })
    }
}

impl Seen<'_> {
    /// Trains hard attention as soft attention.
    pub fn softly(self) -> Self {
        match self {
            Self::Recurrent(writer, source) => Self::Recurrent(writer.softly(), source),
            transformer => transformer,
        }
    }

    /// Selects pictures, which may repeat.
    pub fn select(&self, rows: &[usize]) -> Result<Self, NnError> {
        Ok(match self {
            Self::Transformer(writer, source) => Self::Transformer(*writer, source.select(rows)?),
            Self::Recurrent(writer, source) => Self::Recurrent(*writer, source.select(rows)?),
        })
    }

    /// Computes the mean cross-entropy of the token after each of `ids`, `[batch, tokens]`.
    pub fn loss(
        &self,
        ids: Tensor<2, Int>,
        targets: Tensor<2, Int>,
        options: CrossEntropyOptions,
        pass: &Pass,
    ) -> Result<RecurrentLoss, NnError> {
        match self {
            Self::Transformer(writer, source) => {
                Ok(RecurrentLoss { loss: writer.loss(source, ids, targets, options, pass)?, rewarded: None })
            }
            Self::Recurrent(writer, source) => writer.loss(source, ids, targets, options, pass),
        }
    }

    /// Runs the writer over `ids`, `[batch, tokens]`, for what the pass captures.
    pub fn read_again(&self, ids: Tensor<2, Int>, pass: &Pass) -> Result<(), NnError> {
        match self {
            Self::Transformer(writer, source) => writer.logits(source, ids, pass)?,
            Self::Recurrent(writer, source) => writer.logits(source, ids, pass)?,
        };
        Ok(())
    }

    /// Searches for the best sentences of at most `limit` tokens about each picture.
    pub fn search(self, limit: usize, options: &BeamOptions, pass: &Pass) -> Result<Vec<Vec<Hypothesis>>, NnError> {
        match self {
            Self::Transformer(writer, source) => {
                let limits = vec![limit; source.batch()];
                beam(&mut TransformerDecoder::new(writer, source, *pass), START, END, &limits, options)
            }
            Self::Recurrent(writer, source) => {
                let limits = vec![limit; source.batch()];
                beam(&mut RecurrentDecoder::new(writer, source, *pass), START, END, &limits, options)
            }
        }
    }
}
