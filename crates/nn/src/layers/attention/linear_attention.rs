//! Linear attention (Katharopoulos et al. 2020): attention without a softmax, in time linear in the sequence length.
//!
//! With tokens as the columns of `X` (`d_model × n`), as in studies of in-context learning:
//!
//! | kind | formula |
//! |---|---|
//! | merged | `Y = (1/n) X Xᵀ W X` |
//! | separate | `Y = (1/n) X Xᵀ W_Qᵀ W_K X` |
//! | full | `Y = (1/n) W_V X Xᵀ W_Qᵀ W_K X` |
//! | multi-head | `Y = (1/n) Σ_h W_O^h W_V^h X Xᵀ W_Q^hᵀ W_K^h X` |
//!
//! Column `i` is `y_i = (1/n) Σ_j (q_i·k_j) v_j`. The matrix on the right, `W` or `W_K`, acts on the token `i` that attends
//! and gives what this crate calls its query. `W_Q` acts on the tokens `j` that are attended to and gives their keys. In
//! this crate tokens are rows, `[batch, seq, d_model]`, and weights are `[d_in, d_out]`: `query.weight = W_Kᵀ` (or `Wᵀ`),
//! `key.weight = W_Qᵀ`, `value.weight = W_Vᵀ`, `output.weight = W_Oᵀ`. In general, `y_i = Σ_j (φ(q_i)·φ(k_j)) v_j / D_i`,
//! over all `j` or those up to `i`; see [`regard_ops::linear_attention()`].
//!
//! A capture gets `φ(q_i)·φ(k_j) / D_i`, which may be negative and need not sum to 1.

use burn::module::Module;
use burn::tensor::Tensor;
use regard_ops::{Direction, FeatureMap, LinearAttentionOptions, Normalization, join_heads, split_heads};
use serde::{Deserialize, Serialize};

use super::check::{Size, check_input};
pub use super::linear_heads::LinearAttentionState;
use super::linear_heads::LinearHeads;
use crate::config::{check_positive, name_or_table, no_settings};
use crate::error::{ConfigError, NnError};
use crate::heads::{AttentionKind, Heads};
use crate::init::Init;
use crate::layers::linear::{Bias, Linear, LinearConfig};
use crate::pass::Pass;

/// The matrices that a [`LinearAttention`] has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LinearAttentionKind {
    /// Only `W`.
    #[serde(deserialize_with = "no_settings")]
    Merged,
    /// `W_Q` and `W_K`.
    #[serde(deserialize_with = "no_settings")]
    Separate,
    /// `W_Q`, `W_K` and `W_V`.
    #[serde(deserialize_with = "no_settings")]
    Full,
    /// `W_Q`, `W_K` and `W_V` for each head, and `W_O`.
    MultiHead {
        /// Number of heads.
        n_heads: usize,
        /// Number of features of a head; `d_model / n_heads` by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        d_head: Option<usize>,
    },
}

/// Configuration of a [`LinearAttention`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearAttentionConfig {
    /// Number of features of a token.
    pub d_model: usize,
    /// The matrices of the layer.
    #[serde(deserialize_with = "name_or_table")]
    pub kind: LinearAttentionKind,
    /// Feature map `φ`: `identity` or `elu_plus_one`.
    #[serde(default = "identity", with = "FeatureMapName")]
    pub feature_map: FeatureMap,
    /// Denominator `D`: `length` (the number of visible tokens), `sum` (of the products) or `none`.
    #[serde(default = "length", with = "NormalizationName")]
    pub normalization: Normalization,
    /// Tokens that a token sees: `bidirectional` (all) or `causal` (those up to it).
    #[serde(default = "bidirectional", with = "DirectionName")]
    pub direction: Direction,
}

impl LinearAttentionConfig {
    /// Returns the configuration in the table of the [module](self): no feature map, divided by the length, over all tokens.
    pub fn new(d_model: usize, kind: LinearAttentionKind) -> Self {
        let (feature_map, normalization, direction) = (identity(), length(), bidirectional());
        Self { d_model, kind, feature_map, normalization, direction }
    }

    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("d_model", self.d_model)?;
        let LinearAttentionKind::MultiHead { n_heads, d_head } = self.kind else { return Ok(()) };
        check_positive("kind.n_heads", n_heads)?;
        match d_head {
            Some(d_head) => check_positive("kind.d_head", d_head),
            None if self.d_model.is_multiple_of(n_heads) => Ok(()),
            None => {
                let allowed = format!("a divisor of d_model = {}, or set kind.d_head", self.d_model);
                Err(ConfigError::new("kind.n_heads", n_heads, allowed))
            }
        }
    }

    /// Creates the layer. None of its matrices has a bias.
    pub fn init(&self, init: &Init) -> Result<LinearAttention, ConfigError> {
        self.validate()?;
        let Self { d_model, kind, feature_map, normalization, direction } = *self;
        let (n_heads, d_head) = match kind {
            LinearAttentionKind::MultiHead { n_heads, d_head } => (n_heads, d_head.unwrap_or(d_model / n_heads)),
            _ => (1, d_model),
        };
        let width = n_heads * d_head;
        let linear = |name, d_in, d_out| LinearConfig { d_in, d_out, bias: Bias::None }.init(&init.enter(name));
        let matrices = match kind {
            LinearAttentionKind::Merged => 1,
            LinearAttentionKind::Separate => 2,
            LinearAttentionKind::Full => 3,
            LinearAttentionKind::MultiHead { .. } => 4,
        };
        Ok(LinearAttention {
            query: linear("query", d_model, width)?,
            key: if matrices >= 2 { Some(linear("key", d_model, width)?) } else { None },
            value: if matrices >= 3 { Some(linear("value", d_model, width)?) } else { None },
            output: if matrices >= 4 { Some(linear("output", width, d_model)?) } else { None },
            n_heads,
            options: LinearAttentionOptions { feature_map, normalization, direction },
            heads: init.heads(AttentionKind::SelfAttention, n_heads),
        })
    }
}

/// Linear attention layer; see the [module](self) for the formulas.
#[derive(Module, Debug)]
pub struct LinearAttention {
    /// `Wᵀ` or `W_Kᵀ`, `[d_model, n_heads · d_head]`.
    pub query: Linear,
    /// `W_Qᵀ`, `[d_model, n_heads · d_head]`.
    pub key: Option<Linear>,
    /// `W_Vᵀ`, `[d_model, n_heads · d_head]`.
    pub value: Option<Linear>,
    /// `W_Oᵀ`, `[n_heads · d_head, d_model]`.
    pub output: Option<Linear>,
    n_heads: usize,
    #[module(skip)]
    options: LinearAttentionOptions,
    #[module(skip)]
    heads: Heads,
}

impl LinearAttention {
    /// Attends over all tokens or, if causal, over those up to each token. All sequences must have the same length.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_model]` → the same.
    pub fn forward(&self, x: Tensor<3>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        pass.check_no_temperature("linear attention")?;
        let [q, k, v] = self.project(x)?;
        self.merge(self.linear_heads().attend(q, k, v, None, pass)?)
    }

    /// Computes the next token of causal attention, equal to the last one of [`forward`](Self::forward) over all tokens so
    /// far. Without a `state` it starts anew. A capture gets no weights, because the state does not keep individual keys.
    ///
    /// # Shapes
    /// `x` `[batch, d_model]` → the same.
    pub fn step(
        &self,
        x: Tensor<2>,
        state: Option<LinearAttentionState>,
        pass: &Pass,
    ) -> Result<(Tensor<2>, LinearAttentionState), NnError> {
        let [q, k, v] = self.project(x.unsqueeze_dim(1))?;
        let (out, next) = self.linear_heads().attend_after(state, q, k, v, pass)?;
        Ok((self.merge(out)?.squeeze_dim(1), next))
    }

    fn linear_heads(&self) -> LinearHeads<'_> {
        LinearHeads { heads: &self.heads, options: self.options }
    }

    /// Computes queries, keys and values, `[batch, n_heads, seq, d_head]`. A missing matrix acts as the identity.
    fn project(&self, x: Tensor<3>) -> Result<[Tensor<4>; 3], NnError> {
        let d_model = self.query.weight.dims()[0];
        check_input("tokens", &x, [Size::Any("batch"), Size::Any("seq"), Size::Is(d_model)])?;
        let project = |linear: Option<&Linear>| {
            let y = match linear {
                Some(linear) => linear.forward(x.clone())?,
                None => x.clone(),
            };
            let d_head = y.dims()[2] / self.n_heads;
            let [heads] = split_heads(y, [self.n_heads], d_head);
            Ok::<_, NnError>(heads)
        };
        Ok([project(Some(&self.query))?, project(self.key.as_ref())?, project(self.value.as_ref())?])
    }

    /// Joins the heads side by side and applies `W_O` if there is one.
    fn merge(&self, out: Tensor<4>) -> Result<Tensor<3>, NnError> {
        let merged = join_heads(out);
        match &self.output {
            Some(output) => Ok(output.forward(merged)?),
            None => Ok(merged),
        }
    }
}

fn identity() -> FeatureMap {
    FeatureMap::Identity
}

fn length() -> Normalization {
    Normalization::Length
}

fn bidirectional() -> Direction {
    Direction::Bidirectional
}

/// The names of [`FeatureMap`] in configurations.
#[derive(Serialize, Deserialize)]
#[serde(remote = "FeatureMap", rename_all = "snake_case")]
enum FeatureMapName {
    Identity,
    EluPlusOne,
}

/// The names of [`Normalization`] in configurations.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Normalization", rename_all = "snake_case")]
enum NormalizationName {
    Sum,
    Length,
    None,
}

/// The names of [`Direction`] in configurations.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Direction", rename_all = "snake_case")]
enum DirectionName {
    Bidirectional,
    Causal,
}
