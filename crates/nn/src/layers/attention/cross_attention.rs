//! Multi-head cross-attention: queries come from one sequence, keys and values from another, the source.

use burn::module::Module;
use burn::tensor::Tensor;
use regard_ops::{AttentionOptions, OpError, attention_crossed, join_heads, split_heads};

use super::multi_head::{MultiHeadConfig, ScoreScale, Weighing};
use crate::config::check_positive;
use crate::error::{ConfigError, NnError};
use crate::heads::{AttentionKind, Heads};
use crate::init::Init;
use crate::layers::linear::{Linear, LinearConfig};
use crate::pass::Pass;

/// Multi-head cross-attention layer.
#[derive(Module, Debug)]
pub struct CrossAttention {
    /// Query projection, `[d_model, n_heads · d_head]`.
    pub query: Linear,
    /// Projection `[d_source, 2 kv_heads · d_head]` to all keys, then all values.
    pub key_value: Linear,
    /// Output projection, `[n_heads · d_head, d_model]`.
    pub output: Linear,
    n_heads: usize,
    kv_heads: usize,
    d_head: usize,
    dropout: f32,
    #[module(skip)]
    scale: ScoreScale,
    #[module(skip)]
    heads: Heads,
}

/// Keys and values of a source, computed once for all queries.
#[derive(Debug, Clone)]
pub struct Source {
    /// All keys, then all values, `[batch, keys, 2 kv_heads · d_head]`.
    pub keys_values: Tensor<3>,
}

impl CrossAttention {
    /// Creates the layer for a source of `d_source` features. It weighs by a softmax; other weighings are an error.
    pub fn new(config: &MultiHeadConfig, d_source: usize, init: &Init) -> Result<Self, ConfigError> {
        config.validate()?;
        check_positive("d_source", d_source)?;
        if config.weighing == Weighing::Linear {
            return Err(ConfigError::new("weighing", "linear", "softmax in cross-attention"));
        }
        let MultiHeadConfig { d_model, n_heads, bias, output_bias, scale, dropout, .. } = *config;
        let (kv_heads, d_head) = (config.kv_heads(), config.d_head());
        let query = LinearConfig { d_in: d_model, d_out: n_heads * d_head, bias };
        let key_value = LinearConfig { d_in: d_source, d_out: 2 * kv_heads * d_head, bias };
        let output = LinearConfig { d_in: n_heads * d_head, d_out: d_model, bias: output_bias };
        Ok(Self {
            query: query.init(&init.enter("query"))?,
            key_value: key_value.init(&init.enter("key_value"))?,
            output: output.init(&init.enter("output").into_stream())?,
            n_heads,
            kv_heads,
            d_head,
            dropout,
            scale,
            heads: init.heads(AttentionKind::Cross, n_heads),
        })
    }

    /// Computes the keys and values of a source.
    ///
    /// # Shapes
    /// `source` `[batch, keys, d_source]`.
    pub fn source(&self, source: Tensor<3>) -> Result<Source, OpError> {
        Ok(Source { keys_values: self.key_value.forward(source)? })
    }

    /// Computes for each token a mixture of the source tokens that `options` lets it see. `first_row` is the index of the
    /// first token in its sequence; it is 0 except when decoding step by step.
    ///
    /// # Shapes
    /// `x` `[batch, queries, d_model]` → the same.
    pub fn forward(
        &self,
        x: Tensor<3>,
        source: &Source,
        options: &AttentionOptions,
        first_row: usize,
        pass: &Pass,
    ) -> Result<Tensor<3>, NnError> {
        self.forward_onto(x, None, source, options, first_row, pass)
    }

    /// Adds the output of [`forward`](Self::forward) to `onto`.
    ///
    /// # Shapes
    /// `x` and `onto` `[batch, queries, d_model]` → the same.
    pub fn forward_onto(
        &self,
        x: Tensor<3>,
        onto: Option<Tensor<3>>,
        source: &Source,
        options: &AttentionOptions,
        first_row: usize,
        pass: &Pass,
    ) -> Result<Tensor<3>, NnError> {
        let dropout = pass.dropout(self.heads.path(), self.dropout).or(options.dropout);
        let scale = self.scale.of(options.scale, 1.0, self.d_head);
        let options = AttentionOptions { scale, dropout, ..options.clone() };
        let shape = x.dims();
        let (q, kv) = (self.query.in_pass(pass).forward(x)?, source.keys_values.clone());
        let apart = || {
            let [q] = split_heads(q.clone(), [self.n_heads], self.d_head);
            let [k, v] = split_heads(kv.clone(), [self.kv_heads; 2], self.d_head);
            [q, k, v]
        };
        let mixed = if self.heads.needs_outputs(pass) {
            let [q, k, v] = apart();
            join_heads(self.heads.attend(q, k, v, &options, first_row, pass)?)
        } else {
            if pass.capture().is_some() {
                let [q, k, _] = apart();
                self.heads.capture(&q, &k, &options, first_row, pass)?;
            }
            attention_crossed(q, kv, self.n_heads, self.kv_heads, &pass.at_temperature(&options, self.d_head))?
        };
        if self.heads.are_off(pass) {
            return Ok(onto.unwrap_or_else(|| Tensor::zeros(shape, &mixed.device())));
        }
        Ok(self.output.in_pass(pass).forward_onto(mixed, onto)?)
    }
}
