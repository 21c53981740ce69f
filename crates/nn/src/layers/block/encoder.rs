//! Block of self-attention and feed-forward, as in an encoder or, with a causal mask, in a language model.

use burn::module::Module;
use burn::tensor::Tensor;
use regard_ops::AttentionOptions;

use super::BlockConfig;
use super::residual::Residual;
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::attention::cache::Cached;
use crate::layers::attention::self_attention::SelfAttention;
use crate::layers::feed_forward::FeedForward;
use crate::layers::position::Places;
use crate::pass::Pass;

/// Encoder block: self-attention and feed-forward.
#[derive(Module, Debug)]
pub struct EncoderBlock {
    /// Self-attention.
    pub attention: SelfAttention,
    /// Residual around the attention.
    pub attention_residual: Residual,
    /// Feed-forward part.
    pub feed_forward: FeedForward,
    /// Residual around the feed-forward part.
    pub feed_forward_residual: Residual,
}

impl EncoderBlock {
    /// Creates the block.
    pub fn new(config: &BlockConfig, init: &Init) -> Result<Self, ConfigError> {
        config.validate()?;
        let attended = config.attention_output_dropout();
        Ok(Self {
            attention: SelfAttention::new(&config.attention(), &init.enter("attention"))?,
            attention_residual: Residual::new(config, attended, &init.enter("attention_residual"))?,
            feed_forward: config.feed_forward().init(&init.enter("feed_forward"))?,
            feed_forward_residual: Residual::new(config, config.dropout, &init.enter("feed_forward_residual"))?,
        })
    }

    /// Applies attention, then feed-forward. With a `cache`, the tokens continue those in it.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_model]` → the same.
    pub fn forward(
        &self,
        x: Tensor<3>,
        cache: Option<Cached>,
        options: &AttentionOptions,
        places: &Places,
        pass: &Pass,
    ) -> Result<Tensor<3>, NnError> {
        let attention = |x, onto| self.attention.forward_onto(x, onto, cache, options, places, pass);
        let x = self.attention_residual.around(x, pass, attention)?;
        self.feed_forward_residual.around(x, pass, |x, onto| Ok(self.feed_forward.forward_onto(x, onto, pass)?))
    }
}
