//! Configuration of multi-head self-attention and cross-attention (Vaswani 2017).
//!
//! `concat_i softmax(Q_i K_iᵀ/√d_head) V_i · W_O`, optionally with fewer heads for keys and values (Ainslie 2023). With
//! [`Weighing::Linear`] the weights are `φ(q_i)·φ(k_j) / Σ_j φ(q_i)·φ(k_j)` instead.

use serde::{Deserialize, Serialize};

use crate::config::{check_above_zero, check_dropout, check_positive, check_product};
use crate::error::ConfigError;
use crate::layers::linear::Bias;

/// How a query weighs the keys that it sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weighing {
    /// Softmax of the scaled products `q·k/√d_head` (Vaswani 2017).
    #[default]
    Softmax,
    /// Products of positive features, `φ(q)·φ(k)` with `φ(x) = elu(x) + 1`, divided by their sum (Katharopoulos 2020): time
    /// linear in the number of tokens, and a running state of fixed size for decoding. RoPE rotates queries and keys before
    /// `φ`, so that a product depends on both positions and not on their distance alone.
    Linear,
}

/// Factor on the scores `q·k` before the softmax.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScoreScale {
    /// `1/√d_head`, as published.
    #[default]
    Root,
    /// No scaling, as in T5, which scales its initial weights instead.
    None,
}

impl ScoreScale {
    /// Returns the scale of a layer for [`AttentionOptions`](regard_ops::AttentionOptions), where `None` means `1/√d_head`. A
    /// caller's own scale replaces that of the layer, and `factor`, such as that of YaRN, multiplies it.
    pub(crate) fn of(self, given: Option<f32>, factor: f32, d_head: usize) -> Option<f32> {
        let own = match self {
            Self::Root => given,
            Self::None => given.or(Some(1.0)),
        };
        if factor == 1.0 { own } else { Some(own.unwrap_or(1.0 / (d_head as f32).sqrt()) * factor) }
    }
}

/// Norm of each query and of each key, before rotations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueryKeyNorm {
    /// No norm.
    #[default]
    None,
    /// RMS norm over the features of a head, with one weight per feature for all queries and one for all keys (Qwen3).
    Rms,
}

/// Configuration of multi-head attention.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MultiHeadConfig {
    /// Number of features of a token.
    pub d_model: usize,
    /// Number of query heads.
    pub n_heads: usize,
    /// Number of heads of keys and values; `n_heads` by default.
    #[serde(default)]
    pub kv_heads: Option<usize>,
    /// Number of features of a head; `d_model / n_heads` by default.
    #[serde(default)]
    pub d_head: Option<usize>,
    /// Bias of the projections to queries, keys and values.
    #[serde(default)]
    pub bias: Bias,
    /// Bias of the output projection.
    #[serde(default)]
    pub output_bias: Bias,
    /// How a query weighs the keys.
    #[serde(default)]
    pub weighing: Weighing,
    /// Factor on the scores.
    #[serde(default)]
    pub scale: ScoreScale,
    /// Norm of queries and keys; cross-attention has none.
    #[serde(default)]
    pub query_key_norm: QueryKeyNorm,
    /// `ε` of the norm of queries and keys.
    #[serde(default = "default_epsilon")]
    pub epsilon: f32,
    /// Dropout probability of the attention weights; linear attention has none.
    #[serde(default)]
    pub dropout: f32,
}

fn default_epsilon() -> f32 {
    1e-5
}

impl MultiHeadConfig {
    /// Returns the published configuration: heads of `d_model / n_heads` features, biases, no dropout.
    pub fn new(d_model: usize, n_heads: usize) -> Self {
        Self {
            d_model,
            n_heads,
            kv_heads: None,
            d_head: None,
            bias: Bias::Learned,
            output_bias: Bias::Learned,
            weighing: Weighing::Softmax,
            scale: ScoreScale::Root,
            query_key_norm: QueryKeyNorm::None,
            epsilon: default_epsilon(),
            dropout: 0.0,
        }
    }

    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("d_model", self.d_model)?;
        check_positive("n_heads", self.n_heads)?;
        match self.d_head {
            Some(d_head) => check_positive("d_head", d_head)?,
            None if self.d_model.is_multiple_of(self.n_heads) => {}
            None => {
                let allowed = format!("a divisor of d_model ({}), or set d_head", divisors(self.d_model));
                return Err(ConfigError::new("n_heads", self.n_heads, allowed));
            }
        }
        if let Some(kv_heads) = self.kv_heads
            && (kv_heads == 0 || !self.n_heads.is_multiple_of(kv_heads))
        {
            let allowed = format!("a divisor of n_heads ({})", divisors(self.n_heads));
            return Err(ConfigError::new("kv_heads", kv_heads, allowed));
        }
        check_product("n_heads", &[self.n_heads, 3, self.d_head(), self.d_model])?;
        check_dropout("dropout", self.dropout)?;
        check_above_zero("epsilon", self.epsilon)?;
        if (self.weighing, self.scale) == (Weighing::Linear, ScoreScale::None) {
            return Err(ConfigError::new("scale", "none", "root when weighing is linear, which has no scores"));
        }
        match self.weighing {
            Weighing::Linear if self.dropout != 0.0 => {
                Err(ConfigError::new("dropout", self.dropout, "0 when weighing is linear, which has no single weights"))
            }
            Weighing::Softmax | Weighing::Linear => Ok(()),
        }
    }

    /// Returns the number of features of a head.
    pub fn d_head(&self) -> usize {
        self.d_head.unwrap_or(self.d_model / self.n_heads.max(1))
    }

    /// Returns the number of heads of keys and values.
    pub fn kv_heads(&self) -> usize {
        self.kv_heads.unwrap_or(self.n_heads)
    }
}

/// Returns the divisors of a number as text, in ascending order, up to 2¹⁶ to limit the search.
fn divisors(n: usize) -> String {
    const SEARCHED: usize = 1 << 16;
    let small = (1..=n.min(SEARCHED)).filter(|d| n.is_multiple_of(*d)).map(|d| d.to_string());
    let list: Vec<_> = small.chain((n > SEARCHED).then(|| "…".to_string())).collect();
    list.join(", ")
}
