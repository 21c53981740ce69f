//! What a state attends to: soft or hard attention over the outputs of an encoder or the features of a picture.
//!
//! `α = softmax(score(s, k_i))`. Soft (Bahdanau et al. 2015): `C = Σ α_i v_i`. Hard (Xu et al. 2015): `C = v_z`, where
//! `z ~ Discrete(α)` in training and the most probable `z` otherwise. A choice has no derivative; its estimators:
//!
//! - score function (Williams 1992): the gradient of an expected reward `R` is that of `(R − baseline) log α_z`; see
//!   [`score_function_loss`](super::score_function::score_function_loss);
//! - straight-through Gumbel-softmax (Jang et al. 2017): `z = argmax (log α + g)/τ` with Gumbel noise `g`, and the
//!   derivative of `softmax((log α + g)/τ)` in place of the choice's.
//!
//! A capture gets `α`, of soft and hard attention alike; what was chosen is in the [`Choice`].

use burn::module::Module;
use burn::tensor::{Bool, Int, Tensor, TensorData};
use rand_distr::{Distribution, Gumbel, StandardUniform};
use regard_ops::{AttentionOptions, log_softmax, softmax};
use serde::{Deserialize, Serialize};

use super::check::{Size, blank, check_input, check_lengths, padding};
use super::score::{PreparedKeys, Score, ScoreConfig};
use crate::config::{name_or_table, no_settings};
use crate::error::{ConfigError, NnError};
use crate::heads::{AttentionKind, Heads};
use crate::init::Init;
use crate::pass::Pass;
use crate::rows::row_indices;

/// All keys by their weights, or one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Selection {
    /// The weighted mean.
    #[default]
    #[serde(deserialize_with = "no_settings")]
    Soft,
    /// One, drawn by the weights.
    Hard {
        /// How it is trained.
        #[serde(deserialize_with = "name_or_table")]
        estimator: Estimator,
    },
}

/// How the gradient of a choice is estimated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Estimator {
    /// By the reward: the task adds a loss made from the [`Choice`].
    #[serde(deserialize_with = "no_settings")]
    ScoreFunction,
    /// Straight through a softmax with Gumbel noise.
    Gumbel {
        /// `τ`: the smaller, the nearer to a choice, and the larger the gradient's variance.
        temperature: f32,
    },
}

/// The shape of a [`ContextAttention`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextConfig {
    /// How queries are compared with keys.
    pub score: ScoreConfig,
    /// Soft or hard.
    #[serde(default, deserialize_with = "name_or_table")]
    pub selection: Selection,
}

impl ContextConfig {
    /// Soft attention.
    pub fn new(score: ScoreConfig) -> Self {
        Self { score, selection: Selection::default() }
    }

    /// Refuses what makes no sense.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.score.validate().map_err(|error| error.within("score"))?;
        match self.selection {
            Selection::Hard { estimator: Estimator::Gumbel { temperature } } => check_temperature(temperature),
            _ => Ok(()),
        }
    }

    /// The layer.
    pub fn init(&self, init: &Init) -> Result<ContextAttention, ConfigError> {
        self.validate()?;
        let score = self.score.init(&init.enter("score"))?;
        Ok(ContextAttention { score, selection: self.selection, heads: init.heads(AttentionKind::Alignment, 1) })
    }
}

/// See the [module](self).
#[derive(Module, Debug)]
pub struct ContextAttention {
    /// `score(s, k)`
    pub score: Score,
    #[module(skip)]
    selection: Selection,
    #[module(skip)]
    heads: Heads,
}

/// What is attended to, made ready once for all steps of a decoder.
#[derive(Debug, Clone)]
pub struct Sources {
    keys: PreparedKeys,
    values: Tensor<3>,
    lengths: Option<Vec<usize>>,
    /// `[batch, 1, keys]`
    padding: Option<Tensor<3, Bool>>,
}

/// What attention found.
#[derive(Debug, Clone)]
pub struct Context {
    /// `C`, `[batch, queries, d_value]`; zeros for a sequence of length zero.
    pub context: Tensor<3>,
    /// The choice of hard attention.
    pub choice: Option<Choice>,
}

/// Which key each query has taken.
#[derive(Debug, Clone)]
pub struct Choice {
    /// `z`, `[batch, queries]`; 0 in a sequence of length zero.
    pub keys: Tensor<2, Int>,
    /// `log α_z`, `[batch, queries]`; 0 in a sequence of length zero.
    pub log_probability: Tensor<2>,
    /// `−Σ α log α`, `[batch, queries]`.
    pub entropy: Tensor<2>,
}

impl Choice {
    /// Choices of one query each and more, as those of all.
    pub(crate) fn in_a_row(choices: Vec<Self>) -> Self {
        let floats = |part: fn(&Self) -> &Tensor<2>| Tensor::cat(choices.iter().map(|c| part(c).clone()).collect(), 1);
        Self {
            keys: Tensor::cat(choices.iter().map(|choice| choice.keys.clone()).collect(), 1),
            log_probability: floats(|choice| &choice.log_probability),
            entropy: floats(|choice| &choice.entropy),
        }
    }
}

impl ContextAttention {
    /// Keys and values, which are often the same, ready for any number of queries. `lengths` are the real keys of each
    /// sequence; the rest is padding.
    ///
    /// # Shapes
    /// `keys` `[batch, keys, d_key]`, `values` `[batch, keys, d_value]`, `lengths` `[batch]`.
    pub fn prepare(&self, keys: Tensor<3>, values: Tensor<3>, lengths: Option<Vec<usize>>) -> Result<Sources, NnError> {
        let [batch, n_keys, _] = keys.dims();
        check_input("keys", &keys, ["batch", "keys", "d_key"].map(Size::Any))?;
        check_input("values", &values, [Size::Is(batch), Size::Is(n_keys), Size::Any("d_value")])?;
        check_lengths(lengths.as_deref(), batch, n_keys)?;
        let padding = lengths.as_deref().map(|lengths| padding(lengths, n_keys, &values.device()));
        let (keys, values) = match &padding {
            Some(padding) => (blank(keys, padding), blank(values, padding)),
            None => (keys, values),
        };
        let keys = self.score.prepare(keys)?;
        Ok(Sources { keys, values, lengths, padding })
    }

    /// The context of each query. `first_row` is the first query's place in its sequence, for a capture: the step of a
    /// decoder, 0 for whole sequences. A decoder gives each step its own random numbers with [`Pass::at`].
    ///
    /// # Shapes
    /// `queries` `[batch, queries, d_query]` → context `[batch, queries, d_value]`.
    pub fn forward(
        &self,
        queries: Tensor<3>,
        sources: &Sources,
        first_row: usize,
        pass: &Pass,
    ) -> Result<Context, NnError> {
        let estimator = match self.selection {
            Selection::Hard { estimator } => estimator,
            Selection::Soft => return self.soft(queries, sources, first_row, pass),
        };
        let scores = sources.hide(self.score.forward(queries, &sources.keys)?, f32::NEG_INFINITY);
        let log_weights = log_softmax(scores)?;
        let weights = log_weights.clone().exp();
        self.heads.look_at(&weights, sources.lengths.as_deref(), first_row, pass)?;
        let (keys, context) = self.choose(estimator, &log_weights, &weights, sources, pass)?;
        let context = self.heads.changed_alone(context, &sources.values, sources.lengths.as_deref(), pass)?;
        // Zero in place of −∞, so that neither 0 · ∞ nor a sequence without keys gives NaN.
        let log_weights = sources.hide(log_weights, 0.0);
        let log_probability = log_weights.clone().gather(2, keys.clone().unsqueeze_dim(2)).squeeze_dim(2);
        let entropy = -(weights * log_weights).sum_dim(2).squeeze_dim(2);
        Ok(Context { context, choice: Some(Choice { keys, log_probability, entropy }) })
    }

    /// The weighted mean; fused if the score is a product.
    fn soft(&self, queries: Tensor<3>, sources: &Sources, first_row: usize, pass: &Pass) -> Result<Context, NnError> {
        if let Some((queries, scale)) = self.score.as_product(&queries, &sources.keys)? {
            let options =
                AttentionOptions { scale: Some(scale), lengths: sources.lengths.clone(), ..Default::default() };
            let heads = |x: &Tensor<3>| x.clone().unsqueeze_dim::<4>(1);
            let (q, k, v) = (heads(&queries), heads(&sources.keys.keys), heads(&sources.values));
            let context = self.heads.attend(q, k, v, &options, first_row, pass)?.squeeze_dim(1);
            return Ok(Context { context, choice: None });
        }
        let scores = self.score.forward(queries, &sources.keys)?;
        let weights = softmax(sources.hide(scores, f32::NEG_INFINITY))?;
        self.heads.look_at(&weights, sources.lengths.as_deref(), first_row, pass)?;
        let context = weights.matmul(sources.values.clone());
        let context = self.heads.changed_alone(context, &sources.values, sources.lengths.as_deref(), pass)?;
        Ok(Context { context, choice: None })
    }

    /// The chosen keys, `[batch, queries]`, and their values.
    fn choose(
        &self,
        estimator: Estimator,
        log_weights: &Tensor<3>,
        weights: &Tensor<3>,
        sources: &Sources,
        pass: &Pass,
    ) -> Result<(Tensor<2, Int>, Tensor<3>), NnError> {
        let shape @ [batch, queries, keys] = weights.dims();
        let device = weights.device();
        let indices = |chosen: &[usize]| {
            let chosen: Vec<i32> = chosen.iter().map(|&key| key as i32).collect();
            Tensor::<2, Int>::from_data(TensorData::new(chosen, [batch, queries]), &device)
        };
        let rows = |x: &Tensor<3>| x.clone().into_data().iter::<f32>().collect::<Vec<_>>();
        let (chosen, straight_through) = match (pass.random(self.heads.path()), estimator) {
            (None, _) => (rows(weights).chunks_exact(keys).map(largest).collect::<Vec<_>>(), None),
            (Some(mut random), Estimator::ScoreFunction) => {
                let draw = |row: &[f32]| drawn(row, StandardUniform.sample(&mut random));
                (rows(weights).chunks_exact(keys).map(draw).collect(), None)
            }
            (Some(mut random), Estimator::Gumbel { temperature }) => {
                let gumbel = Gumbel::new(0.0f32, 1.0).expect("the standard distribution");
                let noise: Vec<f32> = (0..batch * queries * keys).map(|_| gumbel.sample(&mut random)).collect();
                let noise = Tensor::<3>::from_data(TensorData::new(noise, shape), &device);
                let perturbed = (log_weights.clone() + noise) / temperature;
                (rows(&perturbed).chunks_exact(keys).map(largest).collect(), Some(softmax(perturbed)?))
            }
        };
        let context = match straight_through {
            None => {
                let d_value = sources.values.dims()[2];
                let rows = indices(&chosen).unsqueeze_dim::<3>(2).expand([batch, queries, d_value]);
                sources.zero_empty(sources.values.clone().gather(1, rows))
            }
            Some(relaxed) => {
                let mut choice = vec![0.0f32; batch * queries * keys];
                for (row, &key) in choice.chunks_exact_mut(keys).zip(&chosen) {
                    row[key] = 1.0;
                }
                let choice = Tensor::<3>::from_data(TensorData::new(choice, shape), &device);
                // The difference is exactly zero: the choice forward, the softmax backward.
                let mixed = choice + (relaxed.clone() - relaxed.detach());
                sources.zero_empty(mixed.matmul(sources.values.clone()))
            }
        };
        Ok((indices(&chosen), context))
    }
}

impl Sources {
    /// The sources of the sequences `rows` of the batch, in this order, as beam search needs them.
    pub fn select(&self, rows: &[usize]) -> Result<Self, NnError> {
        let [batch, n_keys, _] = self.values.dims();
        let device = self.values.device();
        let indices = row_indices(rows, batch, &device)?;
        let lengths: Option<Vec<_>> = self.lengths.as_ref().map(|all| rows.iter().map(|&row| all[row]).collect());
        Ok(Self {
            keys: PreparedKeys { keys: self.keys.keys.clone().select(0, indices.clone()) },
            values: self.values.clone().select(0, indices),
            padding: lengths.as_deref().map(|lengths| padding(lengths, n_keys, &device)),
            lengths,
        })
    }

    /// `x` `[batch, queries, keys]` with `value` at padding.
    fn hide(&self, x: Tensor<3>, value: f32) -> Tensor<3> {
        match &self.padding {
            Some(padding) => {
                let dims = x.dims();
                x.mask_fill(padding.clone().expand(dims), value)
            }
            None => x,
        }
    }

    /// A context `[batch, queries, d_value]` with zeros for sequences without keys.
    fn zero_empty(&self, context: Tensor<3>) -> Tensor<3> {
        match &self.lengths {
            Some(lengths) if lengths.contains(&0) => {
                let empty = padding(lengths, 1, &context.device());
                let dims = context.dims();
                context.mask_fill(empty.expand(dims), 0.0)
            }
            _ => context,
        }
    }
}

/// The index of the largest weight, the first of equals.
fn largest(row: &[f32]) -> usize {
    (1..row.len()).fold(0, |best, key| if row[key] > row[best] { key } else { best })
}

/// The index where the running sum of the weights passes the share `uniform` of their total.
fn drawn(row: &[f32], uniform: f64) -> usize {
    let threshold = uniform * row.iter().map(|&weight| f64::from(weight)).sum::<f64>();
    let mut sum = 0.0;
    let passes = |&weight: &f32| {
        sum += f64::from(weight);
        sum > threshold
    };
    // Rounding is no way past the end: both sums go in the same order. All zeros is a sequence without keys.
    row.iter().position(passes).unwrap_or(0)
}

/// Refuses temperatures so low that `f32` cannot divide by them.
fn check_temperature(value: f32) -> Result<(), ConfigError> {
    if value.is_finite() && value >= 1e-4 {
        return Ok(());
    }
    Err(ConfigError::new("selection.estimator.temperature", value, "a finite number of at least 0.0001"))
}
