//! Six models of the task, trained by full-batch Adam.
//!
//! The loss is `⟨(ŷ − ỹ)²⟩`, without the ½ of the energy, and `weight_decay · θ` is added to its gradient. The minimum of merged
//! linear attention is therefore the ground state with `λ = weight_decay / 2`.

mod models;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use self::models::Network;
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
    /// Several heads of full linear attention, joined by an output matrix with `D + 1` rows.
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
    /// Hidden width of [`Model::Block`] as a multiple of `D + 1`.
    pub expansion: usize,
    /// Seed of the initial weights.
    pub seed: u64,
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self { steps: 2_000, rate: 0.01, weight_decay: 0.02, heads: 4, expansion: 4, seed: 1 }
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
        TheoryError::check_range("heads", 1..=task.side(), self.heads)?;
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
/// number of steps done and the training error.
pub fn train(
    model: Model,
    task: &Task,
    (prompts, tests): (u64, u64),
    seed: u64,
    options: &TrainOptions,
    progress: &mut dyn FnMut(usize, f64),
) -> Result<Trained, TheoryError> {
    options.validate(task)?;
    check_prompts(prompts)?;
    check_tests(tests)?;
    match model {
        Model::Merged | Model::Separate => {
            let fields = Fields::draw(task, prompts, 0.0, seed, &mut |_| {})?;
            Ok(train_on_fields(model, task, &fields, tests, seed, options, progress))
        }
        Model::Full | Model::MultiHead | Model::Softmax | Model::Block => {
            let network = Network::new(model, task, options);
            let numbers = prompts as f64 * network.kept_len(task) as f64 + (PARTS + 4) as f64 * network.len() as f64;
            TheoryError::check_memory(format!("training on {prompts} prompts"), numbers)?;
            Ok(train_on_prompts(network, task, (prompts, tests), seed, options, progress))
        }
    }
}

/// Trains merged or separate linear attention, whose gradients depend on prompts only through the fields. Expects valid options.
pub(crate) fn train_on_fields(
    model: Model,
    task: &Task,
    fields: &Fields,
    tests: u64,
    seed: u64,
    options: &TrainOptions,
    progress: &mut dyn FnMut(usize, f64),
) -> Trained {
    let side = task.side();
    let first = Network::new(Model::Full, task, options).first_weights(options.seed);
    let factors = (model == Model::Separate).then_some(Factors { d: task.d });
    let mut parameters = match factors {
        Some(_) => first[..2 * side * side].to_vec(),
        None => first[..side * task.d].to_vec(),
    };
    let product = |parameters: &[f64]| match factors {
        Some(factors) => factors.product(parameters),
        None => parameters.to_vec(),
    };
    let mut adam = Adam::new(options, parameters.len());
    let mut curve = Vec::new();
    for step in 0..options.steps {
        let weights = product(&parameters);
        if step.is_multiple_of(options.steps.div_ceil(CURVE)) {
            let error = fields.train_error(&weights);
            curve.push((step, error));
            progress(step, error);
        }
        let slope: Vec<f64> =
            times(&fields.moments, &weights).iter().zip(&fields.h).map(|(g, h)| 2.0 * (g - h)).collect();
        let gradient = match factors {
            Some(factors) => factors.gradient(&parameters, &slope),
            None => slope,
        };
        adam.step(&mut parameters, &gradient);
    }
    let weights = product(&parameters);
    let train_error = fields.train_error(&weights);
    curve.push((options.steps, train_error));
    progress(options.steps, train_error);
    let test_error = crate::fields::test_error(task, &weights, tests, seed);
    Trained { curve, train_error, test_error, weights: Some(weights) }
}

/// The factorisation `W = Kᵀ Q`. `K` and `Q` have `D + 1` rows and columns, and `K` comes first in the parameters.
#[derive(Debug, Clone, Copy)]
struct Factors {
    d: usize,
}

impl Factors {
    fn product(self, parameters: &[f64]) -> Vec<f64> {
        let (d, side) = (self.d, self.d + 1);
        let (k, q) = parameters.split_at(side * side);
        let element = |m: usize, n: usize| (0..side).map(|t| k[t * side + m] * q[t * side + n]).sum();
        (0..side * d).map(|i| element(i / d, i % d)).collect()
    }

    /// Returns the gradient with respect to `K` and `Q`, given the gradient `slope` with respect to `W`.
    fn gradient(self, parameters: &[f64], slope: &[f64]) -> Vec<f64> {
        let (d, side) = (self.d, self.d + 1);
        let (k, q) = parameters.split_at(side * side);
        let mut gradient = vec![0.0; parameters.len()];
        let (grad_k, grad_q) = gradient.split_at_mut(side * side);
        for t in 0..side {
            for m in 0..side {
                for n in 0..d {
                    grad_k[t * side + m] += q[t * side + n] * slope[m * d + n];
                    grad_q[t * side + n] += k[t * side + m] * slope[m * d + n];
                }
            }
        }
        gradient
    }
}

/// Trains the models whose gradients need the prompts themselves, which are kept in memory.
fn train_on_prompts(
    network: Network,
    task: &Task,
    (prompts, tests): (u64, u64),
    seed: u64,
    options: &TrainOptions,
    progress: &mut dyn FnMut(usize, f64),
) -> Trained {
    let kept: Vec<_> =
        (0..prompts).into_par_iter().map(|index| network.keep(task, &task.prompt(Split::Train, seed, index))).collect();
    let mut parameters = network.first_weights(options.seed);
    let mut adam = Adam::new(options, parameters.len());
    let mut curve = Vec::new();
    let factor = 1.0 / prompts as f64;
    for step in 0..options.steps {
        let parts: Vec<(f64, Vec<f64>)> = kept
            .par_chunks(kept.len().div_ceil(PARTS))
            .map(|prompts| {
                let mut gradient = vec![0.0; network.len()];
                let errors =
                    prompts.iter().map(|prompt| network.add_gradient(&parameters, prompt, factor, &mut gradient));
                (errors.sum::<f64>(), gradient)
            })
            .collect();
        let mut gradient = vec![0.0; network.len()];
        let mut error = 0.0;
        for (sum, part) in &parts {
            error += factor * sum;
            gradient.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
        if step.is_multiple_of(options.steps.div_ceil(CURVE)) {
            curve.push((step, error));
            progress(step, error);
        }
        adam.step(&mut parameters, &gradient);
    }
    let square = |prompt: &models::Kept| (network.predict(&parameters, prompt) - prompt.answer()).powi(2);
    let train_error = factor * kept.par_iter().map(square).collect::<Vec<f64>>().iter().sum::<f64>();
    curve.push((options.steps, train_error));
    progress(options.steps, train_error);
    let test_error = mean_error(tests, |range| {
        range.map(|index| square(&network.keep(task, &task.prompt(Split::Test, seed, index))))
    });
    Trained { curve, train_error, test_error, weights: None }
}

impl std::str::FromStr for Model {
    type Err = TheoryError;

    fn from_str(name: &str) -> Result<Self, TheoryError> {
        TheoryError::one_of("model", &Self::ALL.map(|model| (model.name(), model)), name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gradient_of_two_factors_is_the_slope_of_the_error() {
        let task = Task::new(3, 6);
        let fields = Fields::draw(&task, 20, 0.0, 1, &mut |_| {}).unwrap();
        let factors = Factors { d: 3 };
        let mut parameters: Vec<f64> = (0..32).map(|i| f64::from(i).sin()).collect();
        let error = |parameters: &[f64]| fields.train_error(&factors.product(parameters));
        let weights = factors.product(&parameters);
        let slope: Vec<f64> =
            times(&fields.moments, &weights).iter().zip(&fields.h).map(|(g, h)| 2.0 * (g - h)).collect();
        let gradient = factors.gradient(&parameters, &slope);
        for at in 0..parameters.len() {
            let old = parameters[at];
            parameters[at] = old + 1e-5;
            let up = error(&parameters);
            parameters[at] = old - 1e-5;
            let slope = (up - error(&parameters)) / 2e-5;
            parameters[at] = old;
            assert!((slope - gradient[at]).abs() < 1e-6 * (1.0 + slope.abs()), "{at}: {} and {slope}", gradient[at]);
        }
    }
}
