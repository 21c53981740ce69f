//! The decoder that Transformer translators and captioners share: blocks of causal self-attention and attention over the sources.

use burn::tensor::{Device, Int, Tensor};
use regard_ops::{AttentionOptions, CrossEntropyOptions, Mask};

use super::stack::{Output, TokenEmbedding, check_caches};
use crate::error::NnError;
use crate::layers::attention::cache::AttentionCache;
use crate::layers::attention::cross_attention::Source;
use crate::layers::block::decoder::{DecoderBlock, DecoderView};
use crate::layers::dropout::Dropout;
use crate::layers::norm::Norm;
use crate::layers::position::{Places, Positions};
use crate::pass::Pass;
use crate::rows::row_indices;

/// The parts of a Transformer that write a sentence, borrowed from it.
#[derive(Debug, Clone, Copy)]
pub struct TransformerWriter<'a> {
    /// Embedding of the words.
    pub(super) embedding: &'a TokenEmbedding,
    /// Positions, if they are not those of the embedding.
    pub(super) position: Option<&'a Positions>,
    /// Decoder blocks, the lowest first.
    pub(super) blocks: &'a [DecoderBlock],
    /// Norm after the last block.
    pub(super) norm: Option<&'a Norm>,
    /// Dropout of the states after that norm.
    pub(super) dropout: Option<&'a Dropout>,
    pub(super) output: &'a Output,
}

/// What a batch of sentences is written from, encoded sentences or pictures: the keys and values for each block of the decoder.
#[derive(Debug, Clone)]
pub struct TransformerSource {
    pub(super) blocks: Vec<Source>,
    pub(super) lengths: Option<Vec<usize>>,
}

impl TransformerSource {
    /// Returns the number of sequences.
    pub fn batch(&self) -> usize {
        self.blocks.first().map_or(0, |block| block.keys_values.dims()[0])
    }

    /// Returns the keys and values of a block of the decoder, `[batch, keys, 2 · features]`.
    pub fn keys_values(&self, block: usize) -> Option<&Tensor<3>> {
        self.blocks.get(block).map(|source| &source.keys_values)
    }

    /// Returns the device of its tensors.
    pub fn device(&self) -> Device {
        self.blocks.first().map(|block| block.keys_values.device()).unwrap_or_default()
    }

    /// Selects the sequences `rows`, which may repeat and come in any order. A source encoded once thus serves all hypotheses
    /// of a beam.
    pub fn select(&self, rows: &[usize]) -> Result<Self, NnError> {
        if self.blocks.is_empty() {
            return Ok(self.clone());
        }
        let indices = row_indices(rows, self.batch(), &self.device())?;
        let select = |source: &Source| Source { keys_values: source.keys_values.clone().select(0, indices.clone()) };
        Ok(Self {
            blocks: self.blocks.iter().map(select).collect(),
            lengths: self.lengths.as_ref().map(|all| rows.iter().map(|&row| all[row]).collect()),
        })
    }
}

impl TransformerWriter<'_> {
    /// Computes the keys and values of encoded sources, the same for all blocks.
    ///
    /// # Shapes
    /// `encoded` `[batch, keys, d_model]`, `lengths` `[batch]`.
    pub fn source(&self, encoded: Tensor<3>, lengths: Option<Vec<usize>>) -> Result<TransformerSource, NnError> {
        let blocks = self.blocks.iter().map(|block| block.source(encoded.clone())).collect::<Result<_, _>>()?;
        Ok(TransformerSource { blocks, lengths })
    }

    /// Computes the state of each token from the tokens up to it and the source.
    ///
    /// # Shapes
    /// `ids` `[batch, target]` → `[batch, target, d_model]`.
    pub fn decode(&self, source: &TransformerSource, ids: Tensor<2, Int>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        let (x, places) = self.embedded(ids, 0, pass)?;
        self.decoded(source, x, None, &places, pass, |_| {})
    }

    /// Returns the embedded tokens and the states after every block, the lowest first. The last ones are those of
    /// [`decode`](Self::decode), normalised in a pre-norm model.
    ///
    /// # Shapes
    /// `ids` `[batch, target]` → one tensor `[batch, target, d_model]` more than there are blocks.
    pub fn decode_all(
        &self,
        source: &TransformerSource,
        ids: Tensor<2, Int>,
        pass: &Pass,
    ) -> Result<Vec<Tensor<3>>, NnError> {
        let (x, places) = self.embedded(ids, 0, pass)?;
        let mut all = vec![x.clone()];
        let last = self.decoded(source, x, None, &places, pass, |x| all.push(x.clone()))?;
        if let Some(end) = all.last_mut() {
            *end = last;
        }
        Ok(all)
    }

    /// Computes the logits of the tokens with these states.
    ///
    /// # Shapes
    /// `states` `[batch, target, d_model]` → `[batch, target, vocab]`.
    pub fn logits_from(&self, states: Tensor<3>) -> Result<Tensor<3>, NnError> {
        Ok(self.output.logits(states, &self.embedding.tokens)?)
    }

    /// Computes the mean cross-entropy of the token after each input token.
    ///
    /// # Shapes
    /// `ids` and `targets` `[batch, target]` → `[1]`.
    pub fn loss(
        &self,
        source: &TransformerSource,
        ids: Tensor<2, Int>,
        targets: Tensor<2, Int>,
        options: CrossEntropyOptions,
        pass: &Pass,
    ) -> Result<Tensor<1>, NnError> {
        let states = self.decode(source, ids, pass)?;
        Ok(self.output.loss(states, &self.embedding.tokens, targets, options, pass)?)
    }

    /// Computes the logits of the token after each input token.
    ///
    /// # Shapes
    /// `ids` `[batch, target]` → `[batch, target, vocab]`.
    pub fn logits(&self, source: &TransformerSource, ids: Tensor<2, Int>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        let states = self.decode(source, ids, pass)?;
        Ok(self.output.logits(states, &self.embedding.tokens)?)
    }

    /// Creates empty caches for [`logits_cached`](Self::logits_cached), one per block.
    pub fn caches(&self) -> Vec<AttentionCache> {
        vec![AttentionCache::new(); self.blocks.len()]
    }

    /// Same as [`logits`](Self::logits) for tokens that follow those in `caches`.
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
        check_caches(caches.len(), self.blocks.len())?;
        let offset = caches.first().map_or(0, AttentionCache::len);
        let (x, places) = self.embedded(ids, offset, pass)?;
        let states = self.decoded(source, x, Some(caches), &places, pass, |_| {})?;
        Ok(self.output.logits(states, &self.embedding.tokens)?)
    }

    fn embedded(&self, ids: Tensor<2, Int>, offset: usize, pass: &Pass) -> Result<(Tensor<3>, Places), NnError> {
        let position = self.position.unwrap_or(&self.embedding.position);
        self.embedding.forward_at(ids, position, offset, &target_pass(pass))
    }

    /// Computes the states after the last block, normalised in a pre-norm model, and calls `after` with those of each block.
    fn decoded(
        &self,
        source: &TransformerSource,
        mut x: Tensor<3>,
        mut caches: Option<&mut [AttentionCache]>,
        places: &Places,
        pass: &Pass,
        mut after: impl FnMut(&Tensor<3>),
    ) -> Result<Tensor<3>, NnError> {
        if source.blocks.len() != self.blocks.len() {
            let expected = format!("a source encoded by this model, for {} blocks", self.blocks.len());
            return Err(NnError::input("source", expected, format!("{} blocks", source.blocks.len())));
        }
        // Targets need no mask for their lengths: padding comes last, and a causal token sees nothing after itself.
        let target = AttentionOptions { mask: Mask::Causal, ..AttentionOptions::default() };
        let over = AttentionOptions { lengths: source.lengths.clone(), ..AttentionOptions::default() };
        let view = DecoderView { target: &target, source: &over, places };
        for (i, (block, source)) in self.blocks.iter().zip(&source.blocks).enumerate() {
            x = block.forward(x, source, caches.as_mut().map(|caches| &mut caches[i]), view, pass)?;
            after(&x);
        }
        if let Some(norm) = self.norm {
            x = norm.forward(x)?;
        }
        Ok(match self.dropout {
            Some(dropout) => dropout.forward(x, pass)?,
            None => x,
        })
    }
}

/// Returns the pass for the target's embedding. If source and target share an embedding, their dropouts still differ.
fn target_pass<'a>(pass: &Pass<'a>) -> Pass<'a> {
    pass.at("target", 0)
}
