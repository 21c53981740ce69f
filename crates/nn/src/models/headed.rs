//! Encoders of texts and of images with the heads of published models: a pooler, a classifier of the whole input or one of each
//! token.
//!
//! A head computes `f(h W + b) V + c` from the state `h` of the first token, or of every token; either layer may be missing. In
//! training there is dropout of what the last layer reads, and of `h` if the head says so.

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use regard_ops::Activation;

use super::encoder::Encoder;
use super::image::vision_transformer::VisionTransformer;
use super::transformer::TransformerConfig;
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::dropout::Dropout;
use crate::layers::linear::{Linear, LinearConfig};
use crate::pass::Pass;

/// Tokens whose states a head reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadInput {
    /// The first token, which stands for the whole input.
    First,
    /// Every token.
    Every,
}

/// Places of dropout in a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadDropout {
    /// Before the output layer.
    Output,
    /// Before the hidden layer and before the output layer, as in RoBERTa.
    Both,
}

/// Configuration of a [`Head`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeadConfig {
    /// Tokens whose states the head reads.
    pub reads: HeadInput,
    /// Activation of the hidden layer, which has as many features as a state; `None` without such a layer.
    pub hidden: Option<Activation>,
    /// Number of outputs; `None` without an output layer.
    pub outputs: Option<usize>,
    /// Dropout probability.
    pub dropout: f32,
    /// Places of dropout.
    pub dropout_at: HeadDropout,
}

impl HeadConfig {
    /// Returns the configuration of a head without layers and without dropout.
    pub fn new(reads: HeadInput) -> Self {
        Self { reads, hidden: None, outputs: None, dropout: 0.0, dropout_at: HeadDropout::Output }
    }
}

/// Head of an encoder; see the [module](self) for the formula.
#[derive(Module, Debug)]
pub struct Head {
    /// `W` and `b`, `[d_model, d_model]` and `[d_model]`.
    pub hidden: Option<Linear>,
    /// `V` and `c`, `[d_model, outputs]` and `[outputs]`.
    pub output: Option<Linear>,
    state_dropout: Option<Dropout>,
    dropout: Dropout,
    #[module(skip)]
    config: HeadConfig,
}

impl Head {
    /// Creates the head of an encoder with states of `d_model` features.
    pub fn new(config: HeadConfig, d_model: usize, init: &Init) -> Result<Self, ConfigError> {
        let dropout = |name| Dropout::new("dropout", config.dropout, &init.enter(name));
        let linear = |name, d_out| LinearConfig::new(d_model, d_out).init(&init.enter(name));
        Ok(Self {
            hidden: config.hidden.map(|_| linear("hidden", d_model)).transpose()?,
            output: config.outputs.map(|outputs| linear("output", outputs)).transpose()?,
            state_dropout: (config.dropout_at == HeadDropout::Both).then(|| dropout("state_dropout")).transpose()?,
            dropout: dropout("dropout")?,
            config,
        })
    }

    /// Returns whether the head has no layers, so that its outputs are states.
    pub fn is_empty(&self) -> bool {
        self.hidden.is_none() && self.output.is_none()
    }

    /// Returns the tokens whose states the head reads.
    pub fn reads(&self) -> HeadInput {
        self.config.reads
    }

    /// Computes the outputs for the first token or for every token.
    ///
    /// # Shapes
    /// `states` `[batch, seq, d_model]` → `[batch, 1 or seq, outputs]`, or `d_model` features without an output layer.
    pub fn forward(&self, states: Tensor<3>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        let states = match self.config.reads {
            HeadInput::First => states.narrow(1, 0, 1),
            HeadInput::Every => states,
        };
        let states = match &self.state_dropout {
            Some(dropout) => dropout.forward(states, pass)?,
            None => states,
        };
        let hidden = match (&self.hidden, self.config.hidden) {
            (Some(hidden), Some(activation)) => hidden.forward_activated(states, activation)?,
            _ => states,
        };
        Ok(match &self.output {
            Some(output) => output.forward(self.dropout.forward(hidden, pass)?)?,
            None => hidden,
        })
    }
}

/// Encoder of texts with a head.
#[derive(Module, Debug)]
pub struct HeadedEncoder {
    /// Encoder.
    pub encoder: Encoder,
    /// Head.
    pub head: Head,
}

impl HeadedEncoder {
    /// Builds the model.
    pub fn new(config: &TransformerConfig, head: HeadConfig, init: &Init) -> Result<Self, ConfigError> {
        Ok(Self {
            encoder: Encoder::new(config, &init.enter("encoder"))?,
            head: Head::new(head, config.d_model, &init.enter("head"))?,
        })
    }

    /// Computes the outputs of the head; see [`Encoder::forward_typed`] and [`Head::forward`].
    ///
    /// # Shapes
    /// `ids` and `types` `[batch, seq]`, `lengths` `[batch]` → `[batch, 1 or seq, outputs]`.
    pub fn forward(
        &self,
        ids: Tensor<2, Int>,
        types: Option<Tensor<2, Int>>,
        lengths: Option<Vec<usize>>,
        pass: &Pass,
    ) -> Result<Tensor<3>, NnError> {
        self.head.forward(self.encoder.forward_typed(ids, types, lengths, pass)?, pass)
    }
}

/// Vision Transformer with a head that reads its class token.
#[derive(Module, Debug)]
pub struct HeadedVisionTransformer {
    /// Encoder of images.
    pub vision: VisionTransformer,
    /// Head.
    pub head: Head,
}

impl HeadedVisionTransformer {
    /// Builds the model for images with this many channels, cut into squares of `patch` pixels. Of `config`, the blocks and the
    /// positions are used.
    pub fn new(
        config: &TransformerConfig,
        channels: usize,
        patch: usize,
        head: HeadConfig,
        init: &Init,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            vision: VisionTransformer::of_patches(config, channels, patch, &init.enter("vision"))?,
            head: Head::new(head, config.d_model, &init.enter("head"))?,
        })
    }

    /// Computes the outputs of the head.
    ///
    /// # Shapes
    /// `x` `[batch, channels, height, width]` → `[batch, 1, outputs]`.
    pub fn forward(&self, x: Tensor<4>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        self.head.forward(self.vision.states(x, pass)?, pass)
    }
}
