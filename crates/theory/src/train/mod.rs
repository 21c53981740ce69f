//! Six models of the task, trained by full-batch Adam.
//!
//! The loss is `⟨(ŷ − ỹ)²⟩`, without the ½ of the energy, and `weight_decay · θ` is added to its gradient. The minimum of merged
//! linear attention is therefore the ground state with `λ = weight_decay / 2`.

mod factors;
mod lanes;
mod network;
mod passes;

use std::str::FromStr;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use self::factors::Factors;
use self::lanes::lanes;
use self::network::Network;
use self::passes::Group;
use crate::error::TheoryError;
use crate::fields::{Fields, times};
use crate::prompt::{Split, Task, check_prompts, check_tests};
use crate::statistics::mean_error;

/// The models that can be trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// Merged linear attention, `ŷ = Σ W_mn S_mn`.
    Merged,
    /// Linear attention with keys and queries, `W = Kᵀ Q`.
    Separate,
    /// Linear attention with keys, queries and values, `V X (K X)ᵀ Q x̃ / (N + 1)`.
    Full,
    /// Several heads of full linear attention, joined by an output matrix `O` with `D + 1` rows.
    MultiHead,
    /// Full attention with a softmax over the columns of the prompt; scores are divided by `√D`.
    Softmax,
    /// A Transformer block: softmax attention and a dense layer, each with a residual connection.
    Block,
}

/// Settings of the training.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TrainOptions {
    /// Number of steps of Adam.
    pub steps: usize,
    /// Learning rate.
    pub rate: f64,
    /// Weight decay, `2 λ`.
    pub weight_decay: f64,
    /// Number of heads of [`Model::MultiHead`].
    pub heads: usize,
    /// Number of features of the values of a head of [`Model::MultiHead`].
    pub head_width: HeadWidth,
    /// Number of features of queries and keys; by default as many as the values have.
    pub width: Option<usize>,
    /// Hidden width of [`Model::Block`] as a multiple of `D + 1`.
    pub expansion: usize,
    /// Distribution of the initial weights.
    pub start: Start,
    /// Seed of the initial weights.
    pub seed: u64,
}

/// Number of features of the values of each of `M` heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadWidth {
    /// `D + 1`, as published: `O` has `(D + 1) M` columns.
    Full,
    /// `(D + 1)/M`, rounded up: all heads together have as many features as a single one.
    Split,
}

/// Distribution of the initial weights: normal with mean 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Variance `1/(3 fan_in)`, as in PyTorch's dense layer.
    Dense,
    /// Variance `1/fan_in`, as published.
    Published,
}

impl Start {
    /// Returns the divisor of the variance besides the number of inputs.
    fn divisor(self) -> f64 {
        match self {
            Self::Dense => 3.0,
            Self::Published => 1.0,
        }
    }
}

impl FromStr for HeadWidth {
    type Err = TheoryError;

    fn from_str(text: &str) -> Result<Self, TheoryError> {
        TheoryError::one_of("head-width", &[("full", Self::Full), ("split", Self::Split)], text)
    }
}

impl FromStr for Start {
    type Err = TheoryError;

    fn from_str(text: &str) -> Result<Self, TheoryError> {
        TheoryError::one_of("start", &[("dense", Self::Dense), ("published", Self::Published)], text)
    }
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self {
            steps: 2_000,
            rate: 0.01,
            weight_decay: 0.02,
            heads: 4,
            head_width: HeadWidth::Full,
            width: None,
            expansion: 4,
            start: Start::Dense,
            seed: 1,
        }
    }
}

/// Adam with the state of all parameters.
pub(crate) struct Adam {
    rate: f64,
    weight_decay: f64,
    step: i32,
    first: Vec<f64>,
    second: Vec<f64>,
}

impl Adam {
    pub(crate) fn new(options: &TrainOptions, len: usize) -> Self {
        let TrainOptions { rate, weight_decay, .. } = *options;
        Self { rate, weight_decay, step: 0, first: vec![0.0; len], second: vec![0.0; len] }
    }

    /// Makes one step. `gradient` is that of the loss; the weight decay is added here.
    pub(crate) fn step(&mut self, parameters: &mut [f64], gradient: &[f64]) {
        const BETA: (f64, f64) = (0.9, 0.999);
        self.step += 1;
        let corrections = (1.0 - BETA.0.powi(self.step), 1.0 - BETA.1.powi(self.step));
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((x, gradient), (first, second)) in parameters.iter_mut().zip(gradient).zip(moments) {
            let gradient = gradient + self.weight_decay * *x;
            *first = BETA.0 * *first + (1.0 - BETA.0) * gradient;
            *second = BETA.1 * *second + (1.0 - BETA.1) * gradient * gradient;
            *x -= self.rate * (*first / corrections.0) / ((*second / corrections.1).sqrt() + 1e-8);
        }
    }
}

/// A trained model's errors and weights.
#[derive(Debug, Clone)]
pub struct Trained {
    /// Training error after some of the steps: `(step, error)`.
    pub curve: Vec<(usize, f64)>,
    /// Mean of `(ŷ − ỹ)²` over the training prompts at the end.
    pub train_error: f64,
    /// Mean of `(ŷ − ỹ)²` over test prompts, and its standard error.
    pub test_error: (f64, f64),
    /// The matrix `W`, `[D + 1, D]`, of [`Model::Merged`] and [`Model::Separate`].
    pub weights: Option<Vec<f64>>,
}

/// Largest number of points of a training curve before the last one.
const CURVE: usize = 200;
/// Number of parts of the prompts. Their gradients are added in order, so that the number of threads changes nothing.
const PARTS: usize = 32;

impl TrainOptions {
    /// Returns the settings of the published comparison of models. The width of queries and keys is not published: with `D + 1`
    /// features, softmax attention stays at its start for some seeds, because the weight decay is stronger than the first gradients.
    pub fn published() -> Self {
        let (steps, rate, weight_decay, width) = (5_000, 0.001, 0.01, Some(64));
        Self { steps, rate, weight_decay, width, start: Start::Published, ..Self::default() }
    }

    /// Returns an error if a setting is out of range.
    pub fn validate(&self, task: &Task) -> Result<(), TheoryError> {
        task.validate()?;
        if self.steps == 0 {
            return Err(TheoryError::setting("steps", "1 or more", 0));
        }
        if !(self.rate > 0.0 && self.rate.is_finite()) {
            return Err(TheoryError::setting("rate", "above 0", self.rate));
        }
        if !(self.weight_decay >= 0.0 && self.weight_decay.is_finite()) {
            return Err(TheoryError::setting("lambda", "0 or more for training", self.weight_decay / 2.0));
        }
        TheoryError::check_range("heads", 1..=1000, self.heads)?;
        if self.head_width == HeadWidth::Split {
            TheoryError::check_range("heads", 1..=task.side(), self.heads)?;
        }
        if let Some(width) = self.width {
            TheoryError::check_range("width", 1..=1000, width)?;
        }
        TheoryError::check_range("expansion", 1..=1000, self.expansion)
    }
}

impl Model {
    /// All models.
    pub const ALL: [Self; 6] = [Self::Merged, Self::Separate, Self::Full, Self::MultiHead, Self::Softmax, Self::Block];

    /// Returns the name of the model on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Merged => "merged",
            Self::Separate => "separate",
            Self::Full => "full",
            Self::MultiHead => "multi_head",
            Self::Softmax => "softmax",
            Self::Block => "block",
        }
    }
}

/// Trains a model on the prompts `0..prompts` of `seed` and scores it on `tests` test prompts. `progress` is called with the
/// number of steps done and the training error. Returns `None` if `stop` returned true.
pub fn train(
    model: Model,
    task: &Task,
    (prompts, tests): (u64, u64),
    seed: u64,
    options: &TrainOptions,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(usize, f64),
) -> Result<Option<Trained>, TheoryError> {
    options.validate(task)?;
    check_prompts(prompts)?;
    check_tests(tests)?;
    let trained = match model {
        Model::Merged | Model::Separate => {
            let fields = Fields::draw(task, prompts, 0.0, seed, &mut |_| {})?;
            train_on_fields(model, task, &fields, tests, seed, options, stop, progress)
        }
        Model::Full | Model::MultiHead | Model::Softmax | Model::Block => {
            let network = Network::new(model, task, options);
            let gradients = (lanes() * rayon::current_num_threads() + PARTS) * network.merged_len();
            let numbers = prompts as f64 * network.kept_len(task) as f64 + (gradients + 5 * network.len()) as f64;
            TheoryError::check_memory(format!("training on {prompts} prompts"), numbers)?;
            train_on_prompts(network, task, (prompts, tests), seed, options, stop, progress)
        }
    };
    match trained {
        Some(Trained { train_error, test_error, .. }) if !(train_error + test_error.0).is_finite() => {
            Err(TheoryError::Diverged { model: model.name() })
        }
        trained => Ok(trained),
    }
}

/// Trains merged or separate linear attention, whose gradients depend on prompts only through the fields. Expects valid
/// options. Returns `None` if `stop` returned true.
#[expect(clippy::too_many_arguments, reason = "the arguments of `train`, with fields in place of prompts")]
pub(crate) fn train_on_fields(
    model: Model,
    task: &Task,
    fields: &Fields,
    tests: u64,
    seed: u64,
    options: &TrainOptions,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(usize, f64),
) -> Option<Trained> {
    let side = task.side();
    let factors = (model == Model::Separate).then_some(Factors { side });
    let keys = options.width.unwrap_or(side) * side;
    let first = Network::new(Model::Full, task, options).first_weights(options.start, options.seed);
    let mut parameters = match factors {
        Some(_) => first[..2 * keys].to_vec(),
        None => first[..side * task.d].to_vec(),
    };
    let product = |parameters: &[f64]| match factors {
        Some(factors) => {
            let (k, q) = parameters.split_at(keys);
            let mut weights = vec![0.0; side * task.d];
            factors.product(k, q, &mut weights);
            weights
        }
        None => parameters.to_vec(),
    };
    let mut adam = Adam::new(options, parameters.len());
    let mut curve = Vec::new();
    for step in 0..options.steps {
        if stop() {
            return None;
        }
        let weights = product(&parameters);
        if step.is_multiple_of(options.steps.div_ceil(CURVE)) {
            let error = fields.train_error(&weights);
            curve.push((step, error));
            progress(step, error);
        }
        let slope: Vec<f64> =
            times(&fields.moments, &weights).iter().zip(&fields.h).map(|(g, h)| 2.0 * (g - h)).collect();
        let gradient = match factors {
            Some(factors) => {
                let (k, q) = parameters.split_at(keys);
                let mut gradient = vec![0.0; parameters.len()];
                let (grad_k, grad_q) = gradient.split_at_mut(keys);
                factors.add_gradient(k, q, &slope, grad_k, grad_q);
                gradient
            }
            None => slope,
        };
        adam.step(&mut parameters, &gradient);
    }
    let weights = product(&parameters);
    let train_error = fields.train_error(&weights);
    curve.push((options.steps, train_error));
    progress(options.steps, train_error);
    let test_error = crate::fields::test_error(task, &weights, tests, seed);
    Some(Trained { curve, train_error, test_error, weights: Some(weights) })
}

/// Trains the models whose gradients need the prompts themselves, which are kept in memory.
fn train_on_prompts(
    network: Network,
    task: &Task,
    (prompts, tests): (u64, u64),
    seed: u64,
    options: &TrainOptions,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(usize, f64),
) -> Option<Trained> {
    let lanes = lanes() as u64;
    let range = |group: u64, count: u64| group * lanes..((group + 1) * lanes).min(count);
    let groups: Vec<Group> = (0..prompts.div_ceil(lanes))
        .into_par_iter()
        .map(|group| network.group(task, Split::Train, seed, range(group, prompts)))
        .collect();
    let mut parameters = network.first_weights(options.start, options.seed);
    let mut adam = Adam::new(options, parameters.len());
    let mut curve = Vec::new();
    let factor = 1.0 / prompts as f64;
    for step in 0..options.steps {
        if stop() {
            return None;
        }
        let merged = network.merge(&parameters);
        let parts: Vec<(f64, Vec<f64>)> =
            groups.par_chunks(groups.len().div_ceil(PARTS)).map(|groups| network.gradient(&merged, groups)).collect();
        let mut gradient = vec![0.0; network.merged_len()];
        let mut error = 0.0;
        for (sum, part) in &parts {
            error += factor * sum;
            gradient.iter_mut().zip(part).for_each(|(sum, part)| *sum += factor * part);
        }
        if step.is_multiple_of(options.steps.div_ceil(CURVE)) {
            curve.push((step, error));
            progress(step, error);
        }
        let gradient = network.unmerge(&parameters, &gradient);
        adam.step(&mut parameters, &gradient);
    }
    let merged = network.merge(&parameters);
    let squares = groups.par_iter().map(|group| network.squares(&merged, group).iter().sum::<f64>());
    let train_error = factor * squares.collect::<Vec<f64>>().iter().sum::<f64>();
    curve.push((options.steps, train_error));
    progress(options.steps, train_error);
    let test_error = mean_error(tests, |indices| {
        // The pieces of `mean_error` start at multiples of the lanes.
        let groups = indices.start / lanes..indices.end.div_ceil(lanes);
        let (merged, network) = (&merged, &network);
        groups.flat_map(move |group| {
            network.squares(merged, &network.group(task, Split::Test, seed, range(group, indices.end)))
        })
    });
    Some(Trained { curve, train_error, test_error, weights: None })
}

impl FromStr for Model {
    type Err = TheoryError;

    fn from_str(name: &str) -> Result<Self, TheoryError> {
        TheoryError::one_of("model", &Self::ALL.map(|model| (model.name(), model)), name)
    }
}
