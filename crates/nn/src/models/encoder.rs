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
        let options = AttentionOptions { mask: self.sight.mask(), lengths, ..AttentionOptions::default() };
        let (x, places) = self.embedding.forward(ids, 0, pass)?;
        self.stack.forward(x, None, &options, &places, pass)
    }
}
