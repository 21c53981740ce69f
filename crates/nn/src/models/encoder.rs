//! An encoder: a vector for each token that knows its context, for tagging, classifying and pre-training.

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use regard_ops::AttentionOptions;

use super::stack::{Stack, TokenEmbedding};
use super::transformer::{Sight, TransformerConfig};
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::pass::Pass;

/// See the [module](self).
#[derive(Module, Debug)]
pub struct Encoder {
    /// Tokens with positions.
    pub embedding: TokenEmbedding,
    /// The blocks.
    pub stack: Stack,
    #[module(skip)]
    sight: Sight,
}

impl Encoder {
    /// The model.
    pub fn new(config: &TransformerConfig, init: &Init) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            embedding: TokenEmbedding::new(config, config.vocab, &init.enter("embedding"))?,
            stack: Stack::new(config, &init.enter("stack"))?,
            sight: config.sight,
        })
    }

    /// The state of each token; those beyond a length mean nothing.
    ///
    /// # Shapes
    /// `ids` `[batch, seq]`, `lengths` `[batch]` → `[batch, seq, d_model]`.
    pub fn forward(&self, ids: Tensor<2, Int>, lengths: Option<Vec<usize>>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        let options = AttentionOptions { mask: self.sight.mask(), lengths, ..AttentionOptions::default() };
        let (x, places) = self.embedding.forward(ids, 0, pass)?;
        self.stack.forward(x, None, &options, &places, pass)
    }
}
