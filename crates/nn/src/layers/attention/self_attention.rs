//! Multi-head self-attention: attention of a sequence over itself.

use burn::module::Module;
use burn::tensor::Tensor;
use regard_ops::{
    AttentionOptions, Direction, Distance, FeatureMap, LinearAttentionOptions, Mask, Normalization, OpError,
    attention_packed, join_heads, linear_attention_packed, rope_packed, split_heads,
};

use super::cache::{AttentionCache, Cached};
use super::linear_heads::LinearHeads;
use super::multi_head::{MultiHeadConfig, QueryKeyNorm, ScoreScale, Weighing};
use crate::error::{ConfigError, NnError};
use crate::heads::{AttentionKind, Heads};
use crate::init::Init;
use crate::layers::linear::{Linear, LinearConfig};
use crate::layers::norm::{Norm, NormConfig, NormKind};
use crate::layers::position::{Places, Rotation};
use crate::pass::Pass;

/// Multi-head self-attention layer.
#[derive(Module, Debug)]
pub struct SelfAttention {
    /// Projection `[d_model, (n_heads + 2 kv_heads) · d_head]` to all queries, then all keys, then all values.
    pub qkv: Linear,
    /// Output projection, `[n_heads · d_head, d_model]`.
    pub output: Linear,
    /// Norm of each query, `[d_head]`, if there is one.
    pub query_norm: Option<Norm>,
    /// Norm of each key, `[d_head]`, if there is one.
    pub key_norm: Option<Norm>,
    n_heads: usize,
    kv_heads: usize,
    d_head: usize,
    dropout: f32,
    #[module(skip)]
    weighing: Weighing,
    #[module(skip)]
    scale: ScoreScale,
    #[module(skip)]
    heads: Heads,
}

impl SelfAttention {
    /// Creates the layer.
    pub fn new(config: &MultiHeadConfig, init: &Init) -> Result<Self, ConfigError> {
        config.validate()?;
        let MultiHeadConfig { d_model, n_heads, bias, output_bias, weighing, scale, dropout, .. } = *config;
        let (kv_heads, d_head) = (config.kv_heads(), config.d_head());
        let qkv = LinearConfig { d_in: d_model, d_out: (n_heads + 2 * kv_heads) * d_head, bias };
        let output = LinearConfig { d_in: n_heads * d_head, d_out: d_model, bias: output_bias };
        let norm = |name| match config.query_key_norm {
            QueryKeyNorm::None => Ok(None),
            QueryKeyNorm::Rms => {
                let norm = NormConfig { d_model: d_head, kind: NormKind::Rms, epsilon: config.epsilon };
                norm.init(&init.enter(name)).map(Some)
            }
        };
        Ok(Self {
            qkv: qkv.init(&init.enter("qkv"))?,
            output: output.init(&init.enter("output").into_stream())?,
            query_norm: norm("query_norm")?,
            key_norm: norm("key_norm")?,
            n_heads,
            kv_heads,
            d_head,
            dropout,
            weighing,
            scale,
            heads: init.heads(AttentionKind::SelfAttention, n_heads),
        })
    }

    /// Returns how many numbers the keys and values of one token have in a cache.
    pub fn cached_numbers(&self) -> usize {
        2 * self.kv_heads * self.d_head
    }

    /// Mixes each token with the tokens that `options` lets it see. Rotations and distance biases come from `places`,
    /// dropout from `pass`.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_model]` → the same.
    pub fn forward(
        &self,
        x: Tensor<3>,
        options: &AttentionOptions,
        places: &Places,
        pass: &Pass,
    ) -> Result<Tensor<3>, NnError> {
        self.forward_onto(x, None, None, options, places, pass)
    }

    /// Adds the output of [`forward`](Self::forward) to `onto`. With a `cache`, the tokens continue those in it and are appended
    /// to it, and `places` belong to the new tokens. With [`Mask::Causal`](regard_ops::Mask), the outputs then equal those of
    /// one pass over the whole sequence.
    ///
    /// # Shapes
    /// `x` and `onto` `[batch, seq, d_model]` → the same.
    pub fn forward_onto(
        &self,
        x: Tensor<3>,
        onto: Option<Tensor<3>>,
        cache: Option<Cached>,
        options: &AttentionOptions,
        places: &Places,
        pass: &Pass,
    ) -> Result<Tensor<3>, NnError> {
        let (shape, options) = (x.dims(), self.options(options, places, pass)?);
        let qkv = self.turned(self.normed(self.qkv.in_pass(pass).forward(x)?)?, places)?;
        let mixed = match cache {
            Some(cache) => self.mixed_cached(qkv, cache, &options, pass)?,
            None => self.mixed(qkv, &options, pass)?,
        };
        if self.heads.are_off(pass) {
            return Ok(onto.unwrap_or_else(|| Tensor::zeros(shape, &mixed.device())));
        }
        Ok(self.output.in_pass(pass).forward_onto(mixed, onto)?)
    }

    /// Computes the outputs of all heads, side by side.
    fn mixed(&self, qkv: Tensor<3>, options: &AttentionOptions, pass: &Pass) -> Result<Tensor<3>, NnError> {
        if self.heads.needs_outputs(pass) {
            let [q, k, v] = self.split(qkv);
            return Ok(join_heads(match self.weighing {
                Weighing::Softmax => self.heads.attend(q, k, v, options, 0, pass)?,
                Weighing::Linear => self.linear(options, pass)?.attend(q, k, v, options.lengths.as_deref(), pass)?,
            }));
        }
        if pass.capture().is_some() {
            let [q, k, _] = self.split(qkv.clone());
            match self.weighing {
                Weighing::Softmax => self.heads.capture(&q, &k, options, 0, pass)?,
                Weighing::Linear => self.linear(options, pass)?.capture(&q, &k, options.lengths.as_deref(), pass)?,
            }
        }
        Ok(match self.weighing {
            Weighing::Softmax => {
                let scored = pass.at_temperature(options, self.d_head);
                attention_packed(qkv, self.n_heads, self.kv_heads, &scored)?
            }
            Weighing::Linear => {
                let (lengths, linear) = (options.lengths.as_deref(), self.linear(options, pass)?.options);
                linear_attention_packed(qkv, self.n_heads, self.kv_heads, lengths, linear)?
            }
        })
    }

    /// [`mixed`](Self::mixed) for tokens that continue those in the cache.
    fn mixed_cached(
        &self,
        qkv: Tensor<3>,
        cache: Cached,
        options: &AttentionOptions,
        pass: &Pass,
    ) -> Result<Tensor<3>, NnError> {
        let [q, k, v] = self.split(qkv);
        let attend = |q, k, v, cache: &mut AttentionCache, sequence: usize| {
            let pass = pass.beginning_with(sequence);
            match self.weighing {
                Weighing::Softmax => {
                    let first_row = cache.len();
                    let (k, v) = cache.append(k, v)?;
                    self.heads.attend(q, k, v, options, first_row, &pass)
                }
                Weighing::Linear => {
                    let linear = self.linear(options, &pass)?;
                    refuse("lengths", options.lengths.is_some(), "a running state has no padding")?;
                    cache.advance(|state| linear.attend_after(state, q, k, v, &pass))
                }
            }
        };
        let mixed = match cache {
            Cached::Together(cache) | Cached::Apart([(cache, _)]) => attend(q, k, v, cache, 0)?,
            Cached::Apart(rows) => {
                let (mut first, mut mixed) = (0, Vec::with_capacity(rows.len()));
                for (sequence, (cache, new)) in rows.iter_mut().enumerate() {
                    let own = |x: &Tensor<4>| x.clone().narrow(2, first, *new);
                    mixed.push(attend(own(&q), own(&k), own(&v), cache, sequence)?);
                    first += *new;
                }
                Tensor::cat(mixed, 2)
            }
        };
        Ok(join_heads(mixed))
    }

    /// Returns linear attention with these options, or an error if they have what only softmax attention has.
    fn linear(&self, options: &AttentionOptions, pass: &Pass) -> Result<LinearHeads<'_>, NnError> {
        pass.check_no_temperature("linear attention")?;
        let why = "linear attention does not have it";
        let direction = match options.mask {
            Mask::Full => Direction::Bidirectional,
            Mask::Causal => Direction::Causal,
            Mask::Window { .. } => return Err(OpError::Option { what: "window", why: why.to_string() }.into()),
        };
        refuse("scale", options.scale.is_some(), why)?;
        refuse("boolean mask", options.allowed.is_some(), why)?;
        refuse("sparse mask", options.sparse.is_some(), why)?;
        refuse("bias", options.bias.is_some(), why)?;
        refuse("bias by distance", !matches!(options.distance, Distance::None), why)?;
        refuse("dropout of weights", options.dropout.is_some(), why)?;
        let (feature_map, normalization) = (FeatureMap::EluPlusOne, Normalization::Sum);
        let options = LinearAttentionOptions { feature_map, normalization, direction };
        Ok(LinearHeads { heads: &self.heads, options })
    }

    /// Adds the distance bias of the positions, the scale and the dropout of the pass to the options.
    fn options(&self, options: &AttentionOptions, places: &Places, pass: &Pass) -> Result<AttentionOptions, NnError> {
        let options = places.apply(options)?;
        let scale = self.scale.of(options.scale, places.factor, self.d_head);
        let dropout = pass.dropout(self.heads.path(), self.dropout).or(options.dropout);
        Ok(AttentionOptions { scale, dropout, ..options })
    }

    /// Normalises queries and keys if the layer has norms for them.
    fn normed(&self, qkv: Tensor<3>) -> Result<Tensor<3>, NnError> {
        let (Some(query_norm), Some(key_norm)) = (&self.query_norm, &self.key_norm) else { return Ok(qkv) };
        let [batch, seq, _] = qkv.dims();
        let part = |first: usize, heads: usize| qkv.clone().narrow(2, first * self.d_head, heads * self.d_head);
        let normed = |x: Tensor<3>, heads: usize, norm: &Norm| -> Result<Tensor<3>, NnError> {
            let apart = norm.forward(x.reshape([batch, seq, heads, self.d_head]))?;
            Ok(apart.reshape([batch, seq, heads * self.d_head]))
        };
        let q = normed(part(0, self.n_heads), self.n_heads, query_norm)?;
        let k = normed(part(self.n_heads, self.kv_heads), self.kv_heads, key_norm)?;
        Ok(Tensor::cat(vec![q, k, part(self.n_heads + self.kv_heads, self.kv_heads)], 2))
    }

    /// Rotates queries and keys if the positions use RoPE.
    fn turned(&self, qkv: Tensor<3>, places: &Places) -> Result<Tensor<3>, NnError> {
        Ok(match &places.rotation {
            Some(Rotation { angles, pairing }) => {
                rope_packed(qkv, self.n_heads + self.kv_heads, angles.clone(), *pairing)?
            }
            None => qkv,
        })
    }

    /// Splits into queries, keys and values, each `[batch, heads, seq, d_head]`.
    fn split(&self, qkv: Tensor<3>) -> [Tensor<4>; 3] {
        split_heads(qkv, [self.n_heads, self.kv_heads, self.kv_heads], self.d_head)
    }
}

/// Returns an error about an option if it is given.
fn refuse(what: &'static str, is_given: bool, why: &str) -> Result<(), OpError> {
    if is_given { Err(OpError::Option { what, why: why.to_string() }) } else { Ok(()) }
}
