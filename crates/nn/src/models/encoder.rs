//! Transformer encoder: one vector per token that depends on its context, for tagging, classification and pre-training.

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use regard_ops::AttentionOptions;

use super::stack::{Stack, TokenEmbedding};
use super::transformer::{Sight, TransformerConfig};
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::pass::Pass;

/// Transformer encoder; see the [module](self).
#[derive(Module, Debug)]
pub struct Encoder {
    /// Embedding of tokens and positions.
    pub embedding: TokenEmbedding,
    /// Stack of blocks.
    pub stack: Stack,
    #[module(skip)]
    sight: Sight,
}

impl Encoder {
    /// Builds the model.
    pub fn new(config: &TransformerConfig, init: &Init) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            embedding: TokenEmbedding::new(config, config.vocab, &init.enter("embedding"))?,
            stack: Stack::new(config, &init.enter("stack"))?,
            sight: config.sight,
        })
    }

    /// Computes the state of each token; states beyond a length are meaningless.
    ///
    /// # Shapes
    /// `ids` `[batch, seq]`, `lengths` `[batch]` → `[batch, seq, d_model]`.
    pub fn forward(&self, ids: Tensor<2, Int>, lengths: Option<Vec<usize>>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        self.forward_typed(ids, None, lengths, pass)
    }

    /// Same as [`forward`](Self::forward) with the type of each token; `None` gives all tokens type 0.
    ///
    /// # Shapes
    /// `ids` and `types` `[batch, seq]`, `lengths` `[batch]` → `[batch, seq, d_model]`.
    pub fn forward_typed(
        &self,
        ids: Tensor<2, Int>,
        types: Option<Tensor<2, Int>>,
        lengths: Option<Vec<usize>>,
        pass: &Pass,
    ) -> Result<Tensor<3>, NnError> {
        let (x, places) = self.embedding.forward_typed(ids, types, pass)?;
        self.stack.forward(x, None, &self.options(lengths), &places, pass)
    }

    /// Returns the embedded tokens and the states after every block, the lowest first.
    ///
    /// # Shapes
    /// `ids` and `types` `[batch, seq]`, `lengths` `[batch]` → `n_layers + 1` tensors `[batch, seq, d_model]`.
    pub fn forward_all(
        &self,
        ids: Tensor<2, Int>,
        types: Option<Tensor<2, Int>>,
        lengths: Option<Vec<usize>>,
        pass: &Pass,
    ) -> Result<Vec<Tensor<3>>, NnError> {
        let (x, places) = self.embedding.forward_typed(ids, types, pass)?;
        let mut all = vec![x.clone()];
        all.extend(self.stack.forward_all(x, &self.options(lengths), &places, pass)?);
        Ok(all)
    }

    fn options(&self, lengths: Option<Vec<usize>>) -> AttentionOptions {
        AttentionOptions { mask: self.sight.mask(), lengths, ..AttentionOptions::default() }
    }
}
