//! The Transformer as published (Vaswani 2017): an encoder of the source, and a decoder of the target that attends to it.

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use regard_ops::{AttentionOptions, CrossEntropyOptions};

use super::stack::{Output, Stack, TokenEmbedding, last_norm};
use super::transformer::{Memory, Sight, StateDropout, TransformerConfig};
use super::transformer_writer::{TransformerSource, TransformerWriter};
use crate::error::{ConfigError, NnError};
use crate::heads::Side;
use crate::init::Init;
use crate::layers::attention::cache::AttentionCache;
use crate::layers::block::decoder::DecoderBlock;
use crate::layers::dropout::Dropout;
use crate::layers::norm::Norm;
use crate::layers::position::relative::{RelativeConfig, Sides};
use crate::layers::position::{Position, Positions};
use crate::pass::Pass;

/// Transformer with encoder and decoder; see the [module](self).
#[derive(Module, Debug)]
pub struct EncoderDecoder {
    /// Embedding of the source, and of the target if they share a vocabulary.
    pub source_embedding: TokenEmbedding,
    /// Embedding of the target, if it has its own vocabulary.
    pub target_embedding: Option<TokenEmbedding>,
    /// Encoder stack, which reads the source.
    pub encoder: Stack,
    /// Positions of the target, if they differ from those of its embedding: relative positions in buckets look back only.
    pub decoder_position: Option<Positions>,
    /// Decoder blocks, which write the target, the lowest first.
    pub decoder: Vec<DecoderBlock>,
    /// Norm after the last block of the decoder.
    pub decoder_norm: Option<Norm>,
    /// Output layer over the target's vocabulary.
    pub output: Output,
    source_dropout: Dropout,
    target_dropout: Dropout,
    #[module(skip)]
    sight: Sight,
    #[module(skip)]
    memory: Memory,
}

impl EncoderDecoder {
    /// Builds the model.
    pub fn new(config: &TransformerConfig, init: &Init) -> Result<Self, ConfigError> {
        config.validate_encoder_decoder()?;
        let target_vocab = config.target_vocab.unwrap_or(config.vocab);
        let target = |vocab| TokenEmbedding::new(config, vocab, &init.enter("target_embedding"));
        let block = config.block();
        let decoder = |i| DecoderBlock::new(&block, &init.enter("decoder").enter(i).on(Side::Decoder).layer(i));
        let layers = config.n_decoder_layers.unwrap_or(config.n_layers);
        let decoder_position = match config.position {
            Position::Relative(relative @ RelativeConfig { buckets: Some(_), .. }) => {
                let back = Position::Relative(RelativeConfig { sides: Sides::Before, ..relative });
                Some(back.init(config.position_sizes(), &init.enter("decoder_position"))?)
            }
            _ => None,
        };
        let probability = match config.state_dropout {
            StateDropout::None => 0.0,
            StateDropout::Features => config.dropout,
        };
        let dropout = |name| Dropout::new("dropout", probability, &init.enter(name));
        Ok(Self {
            decoder_position,
            source_embedding: TokenEmbedding::new(config, config.vocab, &init.enter("source_embedding"))?,
            target_embedding: config.target_vocab.map(target).transpose()?,
            encoder: Stack::new(config, &init.enter("encoder").on(Side::Encoder))?,
            decoder: (0..layers).map(decoder).collect::<Result<_, _>>()?,
            decoder_norm: last_norm(config, &init.enter("decoder"))?,
            output: Output::new(config, target_vocab, &init.enter("output"))?,
            source_dropout: dropout("source_dropout")?,
            target_dropout: dropout("target_dropout")?,
            sight: config.sight,
            memory: config.memory,
        })
    }

    /// Encodes the source once for all steps of the decoder.
    ///
    /// # Shapes
    /// `ids` `[batch, source]`, `lengths` `[batch]`.
    pub fn encode(
        &self,
        ids: Tensor<2, Int>,
        lengths: Option<Vec<usize>>,
        pass: &Pass,
    ) -> Result<TransformerSource, NnError> {
        let options =
            AttentionOptions { mask: self.sight.mask(), lengths: lengths.clone(), ..AttentionOptions::default() };
        let (x, places) = self.source_embedding.forward(ids, 0, pass)?;
        match self.memory {
            Memory::Last => {
                let last = self.encoder.forward(x, None, &options, &places, pass)?;
                self.writer().source(self.source_dropout.forward(last, pass)?, lengths)
            }
            Memory::LayerByLayer => {
                let all = self.encoder.forward_all(x, &options, &places, pass)?;
                let blocks =
                    self.decoder.iter().zip(all).map(|(block, x)| block.source(x)).collect::<Result<_, _>>()?;
                Ok(TransformerSource { blocks, lengths })
            }
        }
    }

    /// Returns the parts that write the target.
    pub fn writer(&self) -> TransformerWriter<'_> {
        TransformerWriter {
            embedding: self.target_embedding.as_ref().unwrap_or(&self.source_embedding),
            position: self.decoder_position.as_ref(),
            blocks: &self.decoder,
            norm: self.decoder_norm.as_ref(),
            dropout: Some(&self.target_dropout),
            output: &self.output,
        }
    }

    /// Computes the state of each target token; see [`TransformerWriter::decode`].
    pub fn decode(&self, source: &TransformerSource, ids: Tensor<2, Int>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        self.writer().decode(source, ids, pass)
    }

    /// Computes the mean cross-entropy of the target token after each input token; see [`TransformerWriter::loss`].
    pub fn loss(
        &self,
        source: &TransformerSource,
        ids: Tensor<2, Int>,
        targets: Tensor<2, Int>,
        options: CrossEntropyOptions,
        pass: &Pass,
    ) -> Result<Tensor<1>, NnError> {
        self.writer().loss(source, ids, targets, options, pass)
    }

    /// Computes the logits of the target token after each input token; see [`TransformerWriter::logits`].
    pub fn logits(&self, source: &TransformerSource, ids: Tensor<2, Int>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        self.writer().logits(source, ids, pass)
    }

    /// Creates empty caches for [`logits_cached`](Self::logits_cached), one per block of the decoder.
    pub fn caches(&self) -> Vec<AttentionCache> {
        self.writer().caches()
    }

    /// Same as [`logits`](Self::logits) for target tokens that follow those in `caches`.
    ///
    /// # Shapes
    /// `ids` `[batch, new]` → `[batch, new, vocab]`.
    pub fn logits_cached(
        &self,
        source: &TransformerSource,
        ids: Tensor<2, Int>,
        caches: &mut [AttentionCache],
        pass: &Pass,
    ) -> Result<Tensor<3>, NnError> {
        self.writer().logits_cached(source, ids, caches, pass)
    }
}
