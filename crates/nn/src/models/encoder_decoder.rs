//! The Transformer as published (Vaswani 2017): an encoder of the source, and a decoder of the target that attends to it.

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use regard_ops::{AttentionOptions, CrossEntropyOptions, Mask};

use super::stack::{Output, Stack, TokenEmbedding, check_caches, last_norm};
use super::transformer::{Memory, Sight, TransformerConfig};
use crate::error::{ConfigError, NnError};
use crate::heads::Side;
use crate::init::Init;
use crate::layers::attention::cache::AttentionCache;
use crate::layers::attention::cross_attention::Source;
use crate::layers::block::decoder::{DecoderBlock, DecoderView};
use crate::layers::norm::Norm;
use crate::layers::position::Places;
use crate::pass::Pass;
use crate::rows::row_indices;

/// Transformer with encoder and decoder; see the [module](self).
#[derive(Module, Debug)]
pub struct EncoderDecoder {
    /// Embedding of the source, and of the target if they share a vocabulary.
    pub source_embedding: TokenEmbedding,
    /// Embedding of the target, if it has its own vocabulary.
    pub target_embedding: Option<TokenEmbedding>,
    /// Encoder stack, which reads the source.
    pub encoder: Stack,
    /// Decoder blocks, which write the target, the lowest first.
    pub decoder: Vec<DecoderBlock>,
    /// Norm after the last block of the decoder.
    pub decoder_norm: Option<Norm>,
    /// Output layer over the target's vocabulary.
    pub output: Output,
    #[module(skip)]
    sight: Sight,
    #[module(skip)]
    memory: Memory,
}

/// Encoded source sequences: the keys and values for each block of the decoder.
#[derive(Debug, Clone)]
pub struct EncodedSource {
    blocks: Vec<Source>,
    lengths: Option<Vec<usize>>,
}

impl EncodedSource {
    /// Returns the number of sequences.
    pub fn batch(&self) -> usize {
        self.blocks.first().map_or(0, |block| block.keys_values.dims()[0])
    }

    /// Selects the sequences `rows`, which may repeat and come in any order. A source encoded once thus serves all hypotheses
    /// of a beam.
    pub fn select(&self, rows: &[usize]) -> Result<Self, NnError> {
        let Some(first) = self.blocks.first() else { return Ok(self.clone()) };
        let indices = row_indices(rows, self.batch(), &first.keys_values.device())?;
        let select = |source: &Source| Source { keys_values: source.keys_values.clone().select(0, indices.clone()) };
        Ok(Self {
            blocks: self.blocks.iter().map(select).collect(),
            lengths: self.lengths.as_ref().map(|all| rows.iter().map(|&row| all[row]).collect()),
        })
    }
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
        Ok(Self {
            source_embedding: TokenEmbedding::new(config, config.vocab, &init.enter("source_embedding"))?,
            target_embedding: config.target_vocab.map(target).transpose()?,
            encoder: Stack::new(config, &init.enter("encoder").on(Side::Encoder))?,
            decoder: (0..layers).map(decoder).collect::<Result<_, _>>()?,
            decoder_norm: last_norm(config, &init.enter("decoder"))?,
            output: Output::new(config, target_vocab, &init.enter("output"))?,
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
    ) -> Result<EncodedSource, NnError> {
        let options =
            AttentionOptions { mask: self.sight.mask(), lengths: lengths.clone(), ..AttentionOptions::default() };
        let (x, places) = self.source_embedding.forward(ids, 0, pass)?;
        let blocks: Vec<Source> = match self.memory {
            Memory::Last => {
                let last = self.encoder.forward(x, None, &options, &places, pass)?;
                self.decoder.iter().map(|block| block.source(last.clone())).collect::<Result<_, _>>()?
            }
            Memory::LayerByLayer => {
                let all = self.encoder.forward_all(x, &options, &places, pass)?;
                self.decoder.iter().zip(all).map(|(block, x)| block.source(x)).collect::<Result<_, _>>()?
            }
        };
        Ok(EncodedSource { blocks, lengths })
    }

    /// Computes the state of each target token from the target tokens up to it and the source.
    ///
    /// # Shapes
    /// `ids` `[batch, target]` → `[batch, target, d_model]`.
    pub fn decode(&self, source: &EncodedSource, ids: Tensor<2, Int>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        let (x, places) = self.target().forward(ids, 0, &target_pass(pass))?;
        self.decoded(source, x, None, &places, pass)
    }

    /// Computes the mean cross-entropy of the target token after each input token.
    ///
    /// # Shapes
    /// `ids` and `targets` `[batch, target]` → `[1]`.
    pub fn loss(
        &self,
        source: &EncodedSource,
        ids: Tensor<2, Int>,
        targets: Tensor<2, Int>,
        options: CrossEntropyOptions,
        pass: &Pass,
    ) -> Result<Tensor<1>, NnError> {
        let states = self.decode(source, ids, pass)?;
        Ok(self.output.loss(states, &self.target().tokens, targets, options)?)
    }

    /// Computes the logits of the target token after each input token.
    ///
    /// # Shapes
    /// `ids` `[batch, target]` → `[batch, target, vocab]`.
    pub fn logits(&self, source: &EncodedSource, ids: Tensor<2, Int>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        let states = self.decode(source, ids, pass)?;
        Ok(self.output.logits(states, &self.target().tokens)?)
    }

    /// Creates empty caches for [`logits_cached`](Self::logits_cached), one per block of the decoder.
    pub fn caches(&self) -> Vec<AttentionCache> {
        vec![AttentionCache::new(); self.decoder.len()]
    }

    /// Same as [`logits`](Self::logits) for target tokens that follow those in `caches`.
    ///
    /// # Shapes
    /// `ids` `[batch, new]` → `[batch, new, vocab]`.
    pub fn logits_cached(
        &self,
        source: &EncodedSource,
        ids: Tensor<2, Int>,
        caches: &mut [AttentionCache],
        pass: &Pass,
    ) -> Result<Tensor<3>, NnError> {
        check_caches(caches.len(), self.decoder.len())?;
        let offset = caches.first().map_or(0, AttentionCache::len);
        let (x, places) = self.target().forward(ids, offset, &target_pass(pass))?;
        let states = self.decoded(source, x, Some(caches), &places, pass)?;
        Ok(self.output.logits(states, &self.target().tokens)?)
    }

    fn target(&self) -> &TokenEmbedding {
        self.target_embedding.as_ref().unwrap_or(&self.source_embedding)
    }

    fn decoded(
        &self,
        source: &EncodedSource,
        mut x: Tensor<3>,
        mut caches: Option<&mut [AttentionCache]>,
        places: &Places,
        pass: &Pass,
    ) -> Result<Tensor<3>, NnError> {
        if source.blocks.len() != self.decoder.len() {
            let expected = format!("a source encoded by this model, for {} blocks", self.decoder.len());
            return Err(NnError::input("source", expected, format!("{} blocks", source.blocks.len())));
        }
        // Targets need no mask for their lengths: padding comes last, and a causal token sees nothing after itself.
        let target = AttentionOptions { mask: Mask::Causal, ..AttentionOptions::default() };
        let over = AttentionOptions { lengths: source.lengths.clone(), ..AttentionOptions::default() };
        let view = DecoderView { target: &target, source: &over, places };
        for (i, (block, source)) in self.decoder.iter().zip(&source.blocks).enumerate() {
            x = block.forward(x, source, caches.as_mut().map(|caches| &mut caches[i]), view, pass)?;
        }
        Ok(match &self.decoder_norm {
            Some(norm) => norm.forward(x)?,
            None => x,
        })
    }
}

/// Returns the pass for the target's embedding. If source and target share an embedding, their dropouts still differ.
fn target_pass<'a>(pass: &Pass<'a>) -> Pass<'a> {
    pass.at("target", 0)
}
