//! Soft or hard attention of a state over the outputs of an encoder or the features of an image.
//!
//! `α = softmax(score(s, k_i))`. Soft (Bahdanau et al. 2015): `C = Σ α_i v_i`. Hard (Xu et al. 2015): `C = v_z`, where
//! `z ~ Discrete(α)` in training and the most probable `z` otherwise. A choice has no derivative; two estimators replace it:
//!
//! - score function (Williams 1992): the gradient of an expected reward `R` is that of `(R − baseline) log α_z`; see
//!   [`score_function_loss`](super::score_function::score_function_loss);
//! - straight-through Gumbel-softmax (Jang et al. 2017): `z = argmax (log α + g)/τ` with Gumbel noise `g`, and the
//!   derivative of `softmax((log α + g)/τ)` in the backward pass.
//!
//! A capture gets `α` for both soft and hard attention; the chosen keys are in the [`Choice`].

use burn::module::Module;
use burn::tensor::{Int, Tensor, TensorData};
use rand_distr::{Distribution, StandardUniform};
use regard_ops::{AttentionOptions, log_softmax, softmax};
use serde::{Deserialize, Serialize};

use super::check::{Size, check_input};
use super::score::{PreparedKeys, Score, ScoreConfig};
use crate::config::{name_or_table, no_settings};
use crate::error::{ConfigError, NnError};
use crate::heads::{AttentionKind, Heads};
use crate::init::Init;
use crate::lengths::Lengths;
use crate::pass::Pass;
use crate::rows::{indices, largest, row_indices};

/// Largest number of samples of the score-function estimator.
const MOST_SAMPLES: usize = 64;

/// Whether the context is a mean of all values or a single value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Selection {
    /// The mean of the values, weighted by attention.
    #[default]
    #[serde(deserialize_with = "no_settings")]
    Soft,
    /// One value, drawn with the weights as probabilities.
    Hard {
        /// Estimator of the gradient.
        #[serde(deserialize_with = "name_or_table")]
        estimator: Estimator,
    },
}

impl Selection {
    /// Returns how many times a sentence is written in training, which is more than once only for the score function.
    pub fn samples(&self) -> usize {
        match self {
            Self::Hard { estimator: Estimator::ScoreFunction { samples } } => *samples,
            _ => 1,
        }
    }
}

/// How the gradient of a choice is estimated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Estimator {
    /// Score function: the task adds a loss computed from the [`Choice`] and a reward.
    ScoreFunction {
        /// Number of times that a sentence is written in training, each time with choices of its own. With several, the mean
        /// reward of the others is the baseline of each; with one, it is the mean of earlier rewards.
        #[serde(default = "one")]
        samples: usize,
    },
    /// Straight-through Gumbel-softmax.
    Gumbel {
        /// Temperature `τ`. A smaller value is closer to a discrete choice, but gives gradients of larger variance.
        temperature: f32,
    },
}

/// Configuration of a [`ContextAttention`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextConfig {
    /// Score that compares queries with keys.
    pub score: ScoreConfig,
    /// Soft or hard attention.
    #[serde(default, deserialize_with = "name_or_table")]
    pub selection: Selection,
}

impl ContextConfig {
    /// Returns a configuration of soft attention.
    pub fn new(score: ScoreConfig) -> Self {
        Self { score, selection: Selection::default() }
    }

    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.score.validate().map_err(|error| error.within("score"))?;
        match self.selection {
            Selection::Hard { estimator: Estimator::Gumbel { temperature } } => check_temperature(temperature),
            Selection::Hard { estimator: Estimator::ScoreFunction { samples } } => check_samples(samples),
            _ => Ok(()),
        }
    }

    /// Creates the layer.
    pub fn init(&self, init: &Init) -> Result<ContextAttention, ConfigError> {
        self.validate()?;
        let score = self.score.init(&init.enter("score"))?;
        Ok(ContextAttention { score, selection: self.selection, heads: init.heads(AttentionKind::Alignment, 1) })
    }
}

/// Soft or hard attention layer; see the [module](self) for the formulas.
#[derive(Module, Debug)]
pub struct ContextAttention {
    /// `score(s, k)`.
    pub score: Score,
    #[module(skip)]
    selection: Selection,
    #[module(skip)]
    heads: Heads,
}

/// Keys and values to attend to, prepared once for all steps of a decoder.
#[derive(Debug, Clone)]
pub struct Sources {
    keys: PreparedKeys,
    values: Tensor<3>,
    lengths: Option<Vec<usize>>,
    padding: Lengths,
}

/// The result of [`ContextAttention::forward`].
#[derive(Debug, Clone)]
pub struct Context {
    /// Context `C`, `[batch, queries, d_value]`; zeros for a sequence of length zero.
    pub context: Tensor<3>,
    /// Choice of hard attention; `None` for soft attention.
    pub choice: Option<Choice>,
}

/// The key that hard attention chose for each query.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Index `z` of the key, `[batch, queries]`; 0 in a sequence of length zero.
    pub keys: Tensor<2, Int>,
    /// Log-probability `log α_z`, `[batch, queries]`; 0 in a sequence of length zero.
    pub log_probability: Tensor<2>,
    /// Entropy `−Σ α log α` of the weights, `[batch, queries]`.
    pub entropy: Tensor<2>,
}

impl Choice {
    /// Concatenates choices along the queries.
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
    /// Prepares keys and values, which are often the same, for any number of queries. `lengths` are the numbers of real
    /// keys of each sequence; the rest is padding.
    ///
    /// # Shapes
    /// `keys` `[batch, keys, d_key]`, `values` `[batch, keys, d_value]`, `lengths` `[batch]`.
    pub fn prepare(&self, keys: Tensor<3>, values: Tensor<3>, lengths: Option<Vec<usize>>) -> Result<Sources, NnError> {
        let [batch, n_keys, _] = keys.dims();
        check_input("keys", &keys, ["batch", "keys", "d_key"].map(Size::Any))?;
        check_input("values", &values, [Size::Is(batch), Size::Is(n_keys), Size::Any("d_value")])?;
        let padding = Lengths::new(lengths.as_deref(), [batch, n_keys], &values.device())?;
        let keys = self.score.prepare(padding.blank(keys))?;
        Ok(Sources { keys, values: padding.blank(values), lengths, padding })
    }

    /// Computes the context of each query. `first_row` is the index of the first query in its sequence, for a capture: the
    /// step of a decoder, or 0 for whole sequences. A decoder gives each step its own random numbers with [`Pass::at`].
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
        self.forward_as(self.selection, queries, sources, first_row, pass)
    }

    /// Same as [`forward`](Self::forward) with another selection than that of the layer, for hard attention that begins softly.
    ///
    /// # Shapes
    /// `queries` `[batch, queries, d_query]` → context `[batch, queries, d_value]`.
    pub fn forward_as(
        &self,
        selection: Selection,
        queries: Tensor<3>,
        sources: &Sources,
        first_row: usize,
        pass: &Pass,
    ) -> Result<Context, NnError> {
        let estimator = match selection {
            Selection::Hard { estimator } => estimator,
            Selection::Soft => return self.soft(queries, sources, first_row, pass),
        };
        let scores = pass.cooled(self.score.forward(queries, &sources.keys)?);
        let scores = sources.padding.fill_keys(scores, f32::NEG_INFINITY);
        let log_weights = log_softmax(scores)?;
        let weights = log_weights.clone().exp();
        self.heads.capture_weights(&weights, sources.lengths.as_deref(), first_row, pass)?;
        let (keys, context) = self.choose(estimator, &log_weights, &weights, sources, pass)?;
        let context = self.heads.ablate_single(context, &sources.values, sources.lengths.as_deref(), pass)?;
        // Zero in place of −∞ avoids NaN from 0 · ∞ and in sequences without keys.
        let log_weights = sources.padding.fill_keys(log_weights, 0.0);
        let log_probability = log_weights.clone().gather(2, keys.clone().unsqueeze_dim(2)).squeeze_dim(2);
        let entropy = -(weights * log_weights).sum_dim(2).squeeze_dim(2);
        Ok(Context { context, choice: Some(Choice { keys, log_probability, entropy }) })
    }

    /// Computes the weighted mean, with fused attention if the score is a dot product.
    fn soft(&self, queries: Tensor<3>, sources: &Sources, first_row: usize, pass: &Pass) -> Result<Context, NnError> {
        if let Some((queries, scale)) = self.score.as_product(&queries, &sources.keys)? {
            let options =
                AttentionOptions { scale: Some(scale), lengths: sources.lengths.clone(), ..Default::default() };
            let heads = |x: &Tensor<3>| x.clone().unsqueeze_dim::<4>(1);
            let (q, k, v) = (heads(&queries), heads(&sources.keys.keys), heads(&sources.values));
            let context = self.heads.attend(q, k, v, &options, first_row, pass)?.squeeze_dim(1);
            return Ok(Context { context, choice: None });
        }
        let scores = pass.cooled(self.score.forward(queries, &sources.keys)?);
        let weights = softmax(sources.padding.fill_keys(scores, f32::NEG_INFINITY))?;
        self.heads.capture_weights(&weights, sources.lengths.as_deref(), first_row, pass)?;
        let context = weights.matmul(sources.values.clone());
        let context = self.heads.ablate_single(context, &sources.values, sources.lengths.as_deref(), pass)?;
        Ok(Context { context, choice: None })
    }

    /// Returns the chosen keys, `[batch, queries]`, and their values.
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
        let rows = |x: &Tensor<3>| x.clone().into_data().iter::<f32>().collect::<Vec<_>>();
        let (chosen, straight_through) = match (pass.random(self.heads.path()), estimator) {
            (None, _) => (rows(weights).chunks_exact(keys).map(largest).collect::<Vec<_>>(), None),
            (Some(mut random), Estimator::ScoreFunction { .. }) => {
                let draw = |row: &[f32]| drawn(row, StandardUniform.sample(&mut random));
                (rows(weights).chunks_exact(keys).map(draw).collect(), None)
            }
            (Some(mut random), Estimator::Gumbel { temperature }) => {
                let draw = |_| gumbel(StandardUniform.sample(&mut random));
                let noise: Vec<f32> = (0..batch * queries * keys).map(draw).collect();
                let noise = Tensor::<3>::from_data(TensorData::new(noise, shape), &device);
                let perturbed = (log_weights.clone() + noise) / temperature;
                (rows(&perturbed).chunks_exact(keys).map(largest).collect(), Some(softmax(perturbed)?))
            }
        };
        let keys_chosen = indices(chosen.iter().copied(), &device).reshape([batch, queries]);
        let context = match straight_through {
            None => {
                let d_value = sources.values.dims()[2];
                let rows = keys_chosen.clone().unsqueeze_dim::<3>(2).expand([batch, queries, d_value]);
                sources.padding.zero_empty(sources.values.clone().gather(1, rows))
            }
            Some(relaxed) => {
                let mut choice = vec![0.0f32; batch * queries * keys];
                for (row, &key) in choice.chunks_exact_mut(keys).zip(&chosen) {
                    row[key] = 1.0;
                }
                let choice = Tensor::<3>::from_data(TensorData::new(choice, shape), &device);
                // The difference is exactly zero: forward this is the choice, backward the softmax.
                let mixed = choice + (relaxed.clone() - relaxed.detach());
                sources.padding.zero_empty(mixed.matmul(sources.values.clone()))
            }
        };
        Ok((keys_chosen, context))
    }
}

impl Sources {
    /// Returns the sources of the sequences `rows` of the batch, in this order, as beam search needs them.
    pub fn select(&self, rows: &[usize]) -> Result<Self, NnError> {
        let [batch, n_keys, _] = self.values.dims();
        let device = self.values.device();
        let indices = row_indices(rows, batch, &device)?;
        let lengths: Option<Vec<_>> = self.lengths.as_ref().map(|all| rows.iter().map(|&row| all[row]).collect());
        Ok(Self {
            keys: PreparedKeys { keys: self.keys.keys.clone().select(0, indices.clone()) },
            values: self.values.clone().select(0, indices),
            padding: Lengths::new(lengths.as_deref(), [rows.len(), n_keys], &device)?,
            lengths,
        })
    }
}

/// Returns the first index where the running sum of the weights exceeds `uniform` times their total.
fn drawn(row: &[f32], uniform: f64) -> usize {
    let threshold = uniform * row.iter().map(|&weight| f64::from(weight)).sum::<f64>();
    let mut sum = 0.0;
    let passes = |&weight: &f32| {
        sum += f64::from(weight);
        sum > threshold
    };
    // Both sums have the same order, so rounding cannot keep the sum below the threshold. Without keys, all weights are 0.
    row.iter().position(passes).unwrap_or(0)
}

/// Returns `−ln(−ln u)`, Gumbel noise if `u` is uniform. It is finite for all `u` from 0 to 1: a single infinite number among the
/// millions that are drawn in training would make all gradients NaN.
fn gumbel(uniform: f64) -> f32 {
    let inside = uniform.clamp(f64::MIN_POSITIVE, 1.0 - f64::EPSILON);
    -(-inside.ln()).ln() as f32
}

fn one() -> usize {
    1
}

/// Returns an error unless the number of samples is positive and reasonable.
fn check_samples(samples: usize) -> Result<(), ConfigError> {
    match samples {
        1..=MOST_SAMPLES => Ok(()),
        _ => Err(ConfigError::new("selection.estimator.samples", samples, format!("1 to {MOST_SAMPLES}"))),
    }
}

/// Returns an error if dividing by the temperature would overflow `f32`.
fn check_temperature(value: f32) -> Result<(), ConfigError> {
    if value.is_finite() && value >= 1e-4 {
        return Ok(());
    }
    Err(ConfigError::new("selection.estimator.temperature", value, "a finite number of at least 0.0001"))
}

#[cfg(test)]
mod tests {
    use super::gumbel;

    #[test]
    fn gumbel_noise_is_finite_for_every_uniform_number() {
        assert!((gumbel(0.5) - 0.366_512_9).abs() < 1e-6);
        assert!(
            (gumbel(0.0) + 6.56).abs() < 0.01 && (gumbel(1.0) - 36.04).abs() < 0.01,
            "{} {}",
            gumbel(0.0),
            gumbel(1.0)
        );
    }
}
