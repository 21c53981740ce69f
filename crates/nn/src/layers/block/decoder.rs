//! Block of causal self-attention, cross-attention over a source, and feed-forward, as in the decoder of a translator.

use burn::module::Module;
use burn::tensor::Tensor;
use regard_ops::{AttentionOptions, OpError};

use super::BlockConfig;
use super::residual::Residual;
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::attention::cache::{AttentionCache, Cached};
use crate::layers::attention::cross_attention::{CrossAttention, Source};
use crate::layers::attention::self_attention::SelfAttention;
use crate::layers::feed_forward::FeedForward;
use crate::layers::position::Places;
use crate::pass::Pass;

/// Decoder block: causal self-attention, cross-attention and feed-forward.
#[derive(Module, Debug)]
pub struct DecoderBlock {
    /// Self-attention of the target tokens.
    pub attention: SelfAttention,
    /// Residual around the self-attention.
    pub attention_residual: Residual,
    /// Attention of the target tokens over the source.
    pub cross_attention: CrossAttention,
    /// Residual around the cross-attention.
    pub cross_residual: Residual,
    /// Feed-forward part.
    pub feed_forward: FeedForward,
    /// Residual around the feed-forward part.
    pub feed_forward_residual: Residual,
}

/// Masks and positions for a [`DecoderBlock`].
#[derive(Debug, Clone, Copy)]
pub struct DecoderView<'a> {
    /// Target tokens that a token may see: the causal mask and the lengths.
    pub target: &'a AttentionOptions,
    /// Source tokens that a token may see: the lengths.
    pub source: &'a AttentionOptions,
    /// Positions of the target tokens.
    pub places: &'a Places,
}

impl DecoderBlock {
    /// Creates the block for a source of `d_model` features.
    pub fn new(config: &BlockConfig, init: &Init) -> Result<Self, ConfigError> {
        config.validate()?;
        let (attention, attended) = (config.attention(), config.attention_output_dropout());
        Ok(Self {
            attention: SelfAttention::new(&attention, &init.enter("attention"))?,
            attention_residual: Residual::new(config, attended, &init.enter("attention_residual"))?,
            cross_attention: CrossAttention::new(&attention, config.d_model, &init.enter("cross_attention"))?,
            cross_residual: Residual::new(config, attended, &init.enter("cross_residual"))?,
            feed_forward: config.feed_forward().init(&init.enter("feed_forward"))?,
            feed_forward_residual: Residual::new(config, config.dropout, &init.enter("feed_forward_residual"))?,
        })
    }

    /// Computes the keys and values of the encoder's output, for [`forward`](Self::forward).
    ///
    /// # Shapes
    /// `encoded` `[batch, keys, d_model]`.
    pub fn source(&self, encoded: Tensor<3>) -> Result<Source, OpError> {
        self.cross_attention.source(encoded)
    }

    /// Applies self-attention, cross-attention and feed-forward. With a `cache`, the tokens continue those in it.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_model]` → the same.
    pub fn forward(
        &self,
        x: Tensor<3>,
        source: &Source,
        cache: Option<&mut AttentionCache>,
        view: DecoderView,
        pass: &Pass,
    ) -> Result<Tensor<3>, NnError> {
        let first_row = cache.as_ref().map_or(0, |cache| cache.len());
        let attention =
            |x, onto| self.attention.forward_onto(x, onto, cache.map(Cached::Together), view.target, view.places, pass);
        let x = self.attention_residual.around(x, pass, attention)?;
        let cross = |x, onto| self.cross_attention.forward_onto(x, onto, source, view.source, first_row, pass);
        let x = self.cross_residual.around(x, pass, cross)?;
        self.feed_forward_residual.around(x, pass, |x, onto| Ok(self.feed_forward.forward_onto(x, onto, pass)?))
    }
}
