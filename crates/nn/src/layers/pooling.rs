//! Pooling: combines the states of the tokens of a sequence into one vector.
//!
//! | kind | result |
//! |---|---|
//! | mean | `Σ h_i / n` |
//! | sum | `Σ h_i` |
//! | max | the maximum of each feature |
//! | first | `h_1`, as with BERT's `[CLS]` |
//! | attention | `Σ α_i h_i`, `α = softmax(vᵀ tanh(W h_i + b))` with a learned `v` (Yang 2016) |
//!
//! The result of an empty sequence is zero.

use burn::module::Module;
use burn::tensor::Tensor;
use regard_ops::{Activation, OpError, softmax};
use serde::{Deserialize, Serialize};

use crate::config::{check_positive, no_settings};
use crate::error::{ConfigError, NnError};
use crate::heads::{AttentionKind, Heads};
use crate::init::Init;
use crate::layers::linear::{Bias, Linear, LinearConfig};
use crate::lengths::Lengths;
use crate::pass::Pass;

/// The kind of pooling. In a file it is a name, `pooling = "mean"`, or a table with settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum PoolingConfig {
    /// Mean of the tokens.
    #[serde(deserialize_with = "no_settings")]
    Mean,
    /// Sum of the tokens.
    #[serde(deserialize_with = "no_settings")]
    Sum,
    /// Maximum of each feature.
    #[serde(deserialize_with = "no_settings")]
    Max,
    /// First token.
    #[serde(deserialize_with = "no_settings")]
    First,
    /// Mean of the tokens, weighted by learned attention.
    Attention {
        /// Number of hidden units of the score; `d_model` by default.
        #[serde(default)]
        d_hidden: Option<usize>,
    },
}

impl Default for PoolingConfig {
    fn default() -> Self {
        Self::attention()
    }
}

impl PoolingConfig {
    /// Returns attention pooling with `d_model` hidden units.
    pub fn attention() -> Self {
        Self::Attention { d_hidden: None }
    }

    /// Returns an error if a size is zero.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Attention { d_hidden: Some(d_hidden) } => check_positive("d_hidden", *d_hidden),
            _ => Ok(()),
        }
    }

    /// Creates the layer for tokens of `d_model` features.
    pub fn init(&self, d_model: usize, init: &Init) -> Result<Pooling, ConfigError> {
        self.validate()?;
        check_positive("d_model", d_model)?;
        let attention = match *self {
            Self::Attention { d_hidden } => {
                let d_hidden = d_hidden.unwrap_or(d_model);
                let heads = init.heads(AttentionKind::Pooling, 1);
                let query = LinearConfig::new(d_hidden, 1).with_bias(Bias::None);
                Some(PoolingScore {
                    hidden: LinearConfig::new(d_model, d_hidden).init(&init.enter("hidden"))?,
                    query: query.init(&init.enter("query"))?,
                    heads,
                })
            }
            _ => None,
        };
        Ok(Pooling { attention, d_model, kind: *self })
    }
}

/// Pooling layer; see the [module](self) for the kinds.
#[derive(Module, Debug)]
pub struct Pooling {
    /// Score of [`PoolingConfig::Attention`].
    pub attention: Option<PoolingScore>,
    d_model: usize,
    #[module(skip)]
    kind: PoolingConfig,
}

/// The score that attention pooling gives to a token.
#[derive(Module, Debug)]
pub struct PoolingScore {
    /// `W` and `b`, `[d_model, d_hidden]` and `[d_hidden]`.
    pub hidden: Linear,
    /// `v`, `[d_hidden, 1]`.
    pub query: Linear,
    #[module(skip)]
    heads: Heads,
}

impl Pooling {
    /// Computes one vector per sequence. Padding has no effect. A capture gets the attention weights as a map with one row.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_model]`, `lengths` `[batch]` → `[batch, d_model]`.
    pub fn forward(&self, x: Tensor<3>, lengths: Option<&[usize]>, pass: &Pass) -> Result<Tensor<2>, NnError> {
        let [batch, seq, d_model] = x.dims();
        if batch == 0 || seq == 0 || d_model != self.d_model {
            let expected = format!("[batch, seq, {}], each 1 or more", self.d_model);
            return Err(NnError::input("tokens", expected, format!("{:?}", x.dims())));
        }
        let padding = Lengths::new(lengths, [batch, seq], &x.device())?;
        let pooled: Tensor<2> = match (&self.attention, self.kind) {
            (Some(attention), _) => {
                let x = padding.blank(x);
                let scores = padding.fill(pass.cooled(attention.scores(x.clone())?), f32::NEG_INFINITY);
                // [batch, 1, seq]; all zeros in an empty sequence.
                let weights = softmax(scores.swap_dims(1, 2))?;
                return attention.mean(weights, x, lengths, pass);
            }
            (None, PoolingConfig::Mean) => padding.mean(x),
            (None, PoolingConfig::Max) => padding.fill(x, f32::NEG_INFINITY).max_dim(1).squeeze_dim(1),
            (None, PoolingConfig::First) => x.narrow(1, 0, 1).squeeze_dim(1),
            (None, PoolingConfig::Sum | PoolingConfig::Attention { .. }) => padding.blank(x).sum_dim(1).squeeze_dim(1),
        };
        Ok(padding.unmoved(pooled, None))
    }
}

impl PoolingScore {
    /// Computes `Σ α_i h_i` with weights `[batch, 1, seq]`.
    fn mean(
        &self,
        weights: Tensor<3>,
        x: Tensor<3>,
        lengths: Option<&[usize]>,
        pass: &Pass,
    ) -> Result<Tensor<2>, NnError> {
        self.heads.capture_weights(&weights, lengths, 0, pass)?;
        let pooled = weights.matmul(x.clone());
        Ok(self.heads.ablate_single(pooled, &x, lengths, pass)?.squeeze_dim(1))
    }

    /// Computes `vᵀ tanh(W h + b)`, `[batch, seq, d_model]` → `[batch, seq, 1]`.
    fn scores(&self, x: Tensor<3>) -> Result<Tensor<3>, OpError> {
        self.query.forward(self.hidden.forward_activated(x, Activation::Tanh)?)
    }
}
