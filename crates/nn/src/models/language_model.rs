//! Causal language model such as GPT: predicts the next token from the tokens before it.

use burn::module::Module;
use burn::tensor::{Int, Tensor, TensorData};
use regard_ops::{AttentionOptions, CrossEntropyOptions, Mask};

use super::stack::{Output, Stack, TokenEmbedding};
use super::transformer::TransformerConfig;
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::attention::cache::{AttentionCache, Cached};
use crate::pass::Pass;
use crate::rows::indices;

/// Causal language model; see the [module](self).
#[derive(Module, Debug)]
pub struct LanguageModel {
    /// Embedding of tokens and positions.
    pub embedding: TokenEmbedding,
    /// Stack of blocks.
    pub stack: Stack,
    /// Output layer over the vocabulary.
    pub output: Output,
    #[module(skip)]
    mask: Mask,
}

impl LanguageModel {
    /// Builds the model; `config.sight` is applied through [`Sight::causal_mask`](super::transformer::Sight::causal_mask).
    pub fn new(config: &TransformerConfig, init: &Init) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            embedding: TokenEmbedding::new(config, config.vocab, &init.enter("embedding"))?,
            stack: Stack::new(config, &init.enter("stack"))?,
            output: Output::new(config, config.vocab, &init.enter("output"))?,
            mask: config.sight.causal_mask()?,
        })
    }

    /// Computes the state of each token from the tokens up to it.
    ///
    /// # Shapes
    /// `ids` `[batch, seq]` → `[batch, seq, d_model]`.
    pub fn states(&self, ids: Tensor<2, Int>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        let (x, places) = self.embedding.forward(ids, 0, pass)?;
        self.stack.forward(x, None, &self.options(), &places, pass)
    }

    /// Returns the embedded tokens and the states after every block, the lowest first. The last ones are normalised in a pre-norm
    /// model, as in [`states`](Self::states).
    ///
    /// # Shapes
    /// `ids` `[batch, seq]` → `n_layers + 1` tensors `[batch, seq, d_model]`.
    pub fn states_all(&self, ids: Tensor<2, Int>, pass: &Pass) -> Result<Vec<Tensor<3>>, NnError> {
        let (x, places) = self.embedding.forward(ids, 0, pass)?;
        let mut all = vec![x.clone()];
        all.extend(self.stack.forward_all(x, &self.options(), &places, pass)?);
        Ok(all)
    }

    /// Computes the logits of the token after each input token.
    ///
    /// # Shapes
    /// `ids` `[batch, seq]` → `[batch, seq, vocab]`.
    pub fn logits(&self, ids: Tensor<2, Int>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        Ok(self.output.logits(self.states(ids, pass)?, &self.embedding.tokens)?)
    }

    /// Computes the mean cross-entropy of the token after each input token.
    ///
    /// # Shapes
    /// `ids` and `targets` `[batch, seq]` → `[1]`.
    pub fn loss(
        &self,
        ids: Tensor<2, Int>,
        targets: Tensor<2, Int>,
        options: CrossEntropyOptions,
        pass: &Pass,
    ) -> Result<Tensor<1>, NnError> {
        let states = self.states(ids, pass)?;
        Ok(self.output.loss(states, &self.embedding.tokens, targets, options, pass)?)
    }

    /// Creates empty caches for [`logits_cached`](Self::logits_cached), one per block.
    pub fn caches(&self) -> Vec<AttentionCache> {
        vec![AttentionCache::new(); self.stack.layers.len()]
    }

    /// Same as [`logits`](Self::logits) for tokens that follow those in `caches`.
    ///
    /// # Shapes
    /// `ids` `[batch, new]` → `[batch, new, vocab]`.
    pub fn logits_cached(
        &self,
        ids: Tensor<2, Int>,
        caches: &mut [AttentionCache],
        pass: &Pass,
    ) -> Result<Tensor<3>, NnError> {
        let offset = caches.first().map_or(0, AttentionCache::len);
        let (x, places) = self.embedding.forward(ids, offset, pass)?;
        let caches = caches.iter_mut().map(Cached::Together).collect();
        let states = self.stack.forward(x, Some(caches), &self.options(), &places, pass)?;
        Ok(self.output.logits(states, &self.embedding.tokens)?)
    }

    /// Returns how many numbers the keys and values of one token have in the caches of all blocks.
    pub fn cached_numbers(&self) -> usize {
        self.stack.layers.iter().map(|block| block.attention.cached_numbers()).sum()
    }

    /// Creates empty caches for [`logits_apart`](Self::logits_apart): for each block, one per sequence.
    pub fn caches_apart(&self, sequences: usize) -> Vec<Vec<(AttentionCache, usize)>> {
        vec![vec![(AttentionCache::new(), 0); sequences]; self.stack.layers.len()]
    }

    /// Computes the logits after the last new token of each sequence. The sequences may differ in length, and each follows its
    /// own cache; all pass through the model as one row of tokens. Each must have at least one new token.
    ///
    /// # Shapes
    /// → `[sequences, vocab]`.
    pub fn logits_apart(
        &self,
        new: &[&[u32]],
        caches: &mut [Vec<(AttentionCache, usize)>],
        pass: &Pass,
    ) -> Result<Tensor<2>, NnError> {
        let sequences = caches.first().map_or(0, Vec::len);
        if new.len() != sequences || new.iter().any(|tokens| tokens.is_empty()) {
            let expected = format!("at least one for each of {sequences} sequences");
            return Err(NnError::input(
                "new tokens",
                expected,
                format!("{:?}", new.iter().map(|row| row.len()).collect::<Vec<_>>()),
            ));
        }
        let runs: Vec<(usize, usize)> =
            caches[0].iter().zip(new).map(|((cache, _), tokens)| (cache.len(), tokens.len())).collect();
        for block in caches.iter_mut() {
            block.iter_mut().zip(new).for_each(|((_, count), tokens)| *count = tokens.len());
        }
        let ids: Vec<i32> = new.iter().copied().flatten().map(|&id| id as i32).collect();
        let (total, device) = (ids.len(), self.embedding.tokens.weight.device());
        let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [1, total]), &device);
        let (x, places) = self.embedding.forward_runs(ids, &runs, pass)?;
        let caches = caches.iter_mut().map(|block| Cached::Apart(block)).collect();
        let states = self.stack.forward(x, Some(caches), &self.options(), &places, pass)?;
        let last = new.iter().scan(0, |end, tokens| {
            *end += tokens.len();
            Some(*end - 1)
        });
        let states = if total == sequences { states } else { states.select(1, indices(last, &device)) };
        Ok(self.output.logits(states, &self.embedding.tokens)?.squeeze_dim(0))
    }

    fn options(&self) -> AttentionOptions {
        AttentionOptions { mask: self.mask, ..AttentionOptions::default() }
    }
}
