//! Attention scores: how well a query matches a key, as one number.
//!
//! | kind | score | |
//! |---|---|---|
//! | additive | `vᵀ tanh(W q + U k + b)` | Bahdanau et al. 2015 |
//! | dot | `q·k` | Luong et al. 2015 |
//! | general | `qᵀ W k` | Luong et al. 2015 |
//! | scaled dot | `q·k / √d` | Vaswani et al. 2017 |

use burn::module::Module;
use burn::tensor::Tensor;
use regard_ops::{Activation, OpError, activation};
use serde::{Deserialize, Serialize};

use super::check::{Size, check_input};
use crate::config::{check_positive, name_or_table, no_settings};
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::linear::{Bias, Linear, LinearConfig};

/// The formula of a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ScoreKind {
    /// `vᵀ tanh(W q + U k + b)`.
    Additive {
        /// Number of hidden units.
        d_hidden: usize,
    },
    /// `q·k`.
    #[serde(deserialize_with = "no_settings")]
    Dot,
    /// `qᵀ W k`.
    #[serde(deserialize_with = "no_settings")]
    General,
    /// `q·k / √d`.
    #[serde(deserialize_with = "no_settings")]
    ScaledDot,
}

/// Configuration of a [`Score`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreConfig {
    /// Formula of the score.
    #[serde(deserialize_with = "name_or_table")]
    pub kind: ScoreKind,
    /// Number of features of a query.
    pub d_query: usize,
    /// Number of features of a key.
    pub d_key: usize,
}

impl ScoreConfig {
    /// Returns an error if a size is zero or the sizes do not match each other.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("d_query", self.d_query)?;
        check_positive("d_key", self.d_key)?;
        match self.kind {
            ScoreKind::Additive { d_hidden } => check_positive("kind.d_hidden", d_hidden),
            ScoreKind::Dot | ScoreKind::ScaledDot if self.d_key != self.d_query => {
                let allowed = format!("d_query = {}, or a score of kind general or additive", self.d_query);
                Err(ConfigError::new("d_key", self.d_key, allowed))
            }
            _ => Ok(()),
        }
    }

    /// Creates the score. `b` starts at zero.
    pub fn init(&self, init: &Init) -> Result<Score, ConfigError> {
        self.validate()?;
        let Self { kind, d_query, d_key } = *self;
        let linear = |name, d_in, d_out, bias| LinearConfig { d_in, d_out, bias }.init(&init.enter(name));
        let plain = Score { query: None, key: None, vector: None, scale: 1.0, d_query, d_key };
        Ok(match kind {
            ScoreKind::Additive { d_hidden } => Score {
                query: Some(linear("query", d_query, d_hidden, Bias::Learned)?),
                key: Some(linear("key", d_key, d_hidden, Bias::None)?),
                vector: Some(linear("vector", d_hidden, 1, Bias::None)?),
                ..plain
            },
            ScoreKind::Dot => plain,
            ScoreKind::General => Score { query: Some(linear("query", d_query, d_key, Bias::None)?), ..plain },
            ScoreKind::ScaledDot => Score { scale: 1.0 / (d_key as f32).sqrt(), ..plain },
        })
    }
}

/// Score of a query and a key; see the [module](self) for the formulas.
#[derive(Module, Debug)]
pub struct Score {
    /// `W` and `b`, `[d_query, d_hidden]` and `[d_hidden]` (additive); `W`, `[d_query, d_key]` (general).
    pub query: Option<Linear>,
    /// `U`, `[d_key, d_hidden]` (additive).
    pub key: Option<Linear>,
    /// `v`, `[d_hidden, 1]` (additive).
    pub vector: Option<Linear>,
    scale: f32,
    d_query: usize,
    d_key: usize,
}

/// The part of a score that does not depend on queries: `U k` of an additive score, the keys themselves otherwise.
#[derive(Debug, Clone)]
pub struct PreparedKeys {
    /// Prepared keys, `[batch, keys, d_hidden or d_key]`.
    pub(super) keys: Tensor<3>,
}

impl Score {
    /// Computes the part of the score that depends only on the keys, once for all steps of a decoder.
    ///
    /// # Shapes
    /// `keys` `[batch, keys, d_key]`.
    pub fn prepare(&self, keys: Tensor<3>) -> Result<PreparedKeys, NnError> {
        check_input("keys", &keys, [Size::Any("batch"), Size::Any("keys"), Size::Is(self.d_key)])?;
        let keys = match &self.key {
            Some(key) => key.forward(keys)?,
            None => keys,
        };
        Ok(PreparedKeys { keys })
    }

    /// Computes the score of every query with every key of its sequence.
    ///
    /// # Shapes
    /// `queries` `[batch, queries, d_query]`, `keys` `[batch, keys, …]` → `[batch, queries, keys]`.
    pub fn forward(&self, queries: Tensor<3>, keys: &PreparedKeys) -> Result<Tensor<3>, NnError> {
        let Some(vector) = &self.vector else {
            let product = self.project(queries, keys)?.matmul(keys.keys.clone().swap_dims(1, 2));
            return Ok(if self.scale == 1.0 { product } else { product * self.scale });
        };
        let queries = self.project(queries, keys)?.unsqueeze_dim::<4>(2);
        let hidden = activation(queries + keys.keys.clone().unsqueeze_dim::<4>(1), Activation::Tanh)?;
        Ok(vector.forward(hidden)?.squeeze_dim(3))
    }

    /// Returns `q'` and `factor` such that the score is `factor · q'·k`, or `None` if it is not a dot product.
    pub(super) fn as_product(
        &self,
        queries: &Tensor<3>,
        keys: &PreparedKeys,
    ) -> Result<Option<(Tensor<3>, f32)>, NnError> {
        if self.vector.is_some() {
            return Ok(None);
        }
        Ok(Some((self.project(queries.clone(), keys)?, self.scale)))
    }

    /// Projects queries to the width of the prepared keys, `[batch, queries, d_hidden or d_key]`.
    fn project(&self, queries: Tensor<3>, keys: &PreparedKeys) -> Result<Tensor<3>, NnError> {
        let [batch, _, width] = keys.keys.dims();
        check_input("queries", &queries, [Size::Is(batch), Size::Any("queries"), Size::Is(self.d_query)])?;
        let queries = match &self.query {
            Some(query) => query.forward(queries)?,
            None => queries,
        };
        if queries.dims()[2] != width {
            let expected = format!("[batch, keys, {}], prepared by the same score", queries.dims()[2]);
            return Err(OpError::Shape { what: "prepared keys", expected, got: keys.keys.dims().to_vec() }.into());
        }
        Ok(queries)
    }
}
