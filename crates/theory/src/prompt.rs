//! The task: in-context linear regression.
//!
//! A prompt is the matrix `X = [[x_1 … x_N, x̃], [y_1 … y_N, 0]]` with labels `y = w·x/√D`; the answer to predict is
//! `ỹ = w·x̃/√D`. Inputs and `w` are standard normal, and every prompt has a new `w`. Prompt `μ` of a seed is always the same, in
//! whatever order prompts are drawn, so none has to be stored.

use std::str::FromStr;

use rand_distr::{ChiSquared, Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use crate::error::TheoryError;
use crate::fields::dot;
use crate::random::{Purpose, random};

/// Largest number of features of an input: the couplings of more do not fit in memory.
const MOST_FEATURES: usize = 200;
/// Largest number of examples in a prompt.
const MOST_EXAMPLES: usize = 1 << 20;
/// Largest number of training prompts, more than anyone can wait for.
const MOST_PROMPTS: u64 = 1 << 40;
/// Largest number of test prompts.
const MOST_TESTS: u64 = 100_000_000;

/// Returns an error if the number of training prompts is out of range.
pub(crate) fn check_prompts(prompts: u64) -> Result<(), TheoryError> {
    check_count("p", prompts, MOST_PROMPTS)
}

/// Returns an error if the number of test prompts is out of range.
pub(crate) fn check_tests(tests: u64) -> Result<(), TheoryError> {
    check_count("tests", tests, MOST_TESTS)
}

fn check_count(what: &'static str, count: u64, most: u64) -> Result<(), TheoryError> {
    match (1..=most).contains(&count) {
        true => Ok(()),
        false => Err(TheoryError::setting(what, format!("1 prompt or more, at most {most}"), count)),
    }
}

/// The distribution of prompts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Number of features of an input, `D`.
    pub d: usize,
    /// Number of examples before the query, `N`.
    pub n: usize,
    /// Correlation `c` between the inputs of a prompt, from 0 to 1.
    pub c: f64,
    /// Covariance of the inputs that the correlation `c` describes.
    pub correlation: Correlation,
    /// Standard deviation of the noise on the labels of the examples.
    pub noise: f64,
    /// Divisor of the sums over a prompt.
    pub divisor: Divisor,
}

/// Covariance of the inputs of a prompt, query included, for a correlation `c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Correlation {
    /// 1 for one input, `c` for any two.
    #[default]
    Equal,
    /// `LᵀL`, where `L Lᵀ` is the Cholesky factorisation of [`Self::Equal`]'s covariance. The script behind the published figure
    /// multiplies independent inputs by `L` from the right, which exchanges the factors: later inputs then vary less, and the query
    /// varies least, with a variance of about `1 − c`.
    Published,
}

impl FromStr for Correlation {
    type Err = TheoryError;

    fn from_str(text: &str) -> Result<Self, TheoryError> {
        TheoryError::one_of("correlation", &[("equal", Self::Equal), ("published", Self::Published)], text)
    }
}

/// Divisor of the sums over a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Divisor {
    /// `N + 1`, the number of columns of the prompt.
    Columns,
    /// `N`, the number of examples.
    Examples,
}

impl FromStr for Divisor {
    type Err = TheoryError;

    fn from_str(text: &str) -> Result<Self, TheoryError> {
        TheoryError::one_of("divisor", &[("columns", Self::Columns), ("examples", Self::Examples)], text)
    }
}

/// Which prompts of a seed to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// Training prompts.
    Train,
    /// Test prompts, independent of the training prompts.
    Test,
}

/// One prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// Inputs `[N + 1, D]`; the last row is the query.
    pub inputs: Vec<f64>,
    /// Labels `[N]` of the examples, with noise.
    pub labels: Vec<f64>,
    /// The noiseless label `ỹ` of the query.
    pub answer: f64,
}

/// The part of a prompt that the prediction of linear attention depends on: `S_mn = labelled_m query_n`.
#[derive(Debug, Clone, PartialEq)]
pub struct Features {
    /// `u_m = (X Xᵀ)_{D+1, m}` over the [`Divisor`], `[D + 1]`.
    pub labelled: Vec<f64>,
    /// The query `x̃`, `[D]`, without the 0 in place of its label.
    pub query: Vec<f64>,
    /// The noiseless label `ỹ` of the query.
    pub answer: f64,
}

impl Task {
    /// A task with independent inputs, labels without noise and the divisor `N + 1`.
    pub fn new(d: usize, n: usize) -> Self {
        Self { d, n, c: 0.0, correlation: Correlation::Equal, noise: 0.0, divisor: Divisor::Columns }
    }

    /// Returns an error if a setting is out of range.
    pub fn validate(&self) -> Result<(), TheoryError> {
        let Self { d, n, c, correlation, noise, .. } = *self;
        TheoryError::check_range("d", 1..=MOST_FEATURES, d)?;
        TheoryError::check_range("n", 1..=MOST_EXAMPLES, n)?;
        if !(0.0..=1.0).contains(&c) {
            return Err(TheoryError::setting("c", "a correlation from 0 to 1", c));
        }
        if c >= 1.0 && correlation == Correlation::Published {
            return Err(TheoryError::setting("c", "below 1 with --correlation published", c));
        }
        if !(noise >= 0.0 && noise.is_finite()) {
            return Err(TheoryError::setting("noise", "a deviation of 0 or more", noise));
        }
        Ok(())
    }

    /// Returns an error for correlated inputs or noisy labels, which `what` does not support.
    pub(crate) fn validate_plain(&self, what: &str) -> Result<(), TheoryError> {
        match [("c", self.c), ("noise", self.noise)].into_iter().find(|(_, value)| *value > 0.0) {
            Some((name, value)) => Err(TheoryError::setting(name, format!("0 for {what}"), value)),
            None => Ok(()),
        }
    }

    /// Returns the number of rows and columns of the attention matrix `W`, `D + 1`.
    pub fn side(&self) -> usize {
        self.d + 1
    }

    /// Returns the divisor of the sums over a prompt.
    pub fn divisor(&self) -> f64 {
        match self.divisor {
            Divisor::Columns => (self.n + 1) as f64,
            Divisor::Examples => self.n as f64,
        }
    }

    /// Draws prompt `index` of `seed`.
    pub fn prompt(&self, split: Split, seed: u64, index: u64) -> Prompt {
        let Self { d, n, .. } = *self;
        let mut inputs = vec![0.0; (n + 1) * d];
        let mut labels = vec![0.0; n];
        let answer = self.draw(split, seed, index, &mut inputs, &mut labels);
        Prompt { inputs, labels, answer }
    }

    /// Draws prompt `index` of `seed` and writes its features to `out`. `scratch` is reused between calls.
    pub fn features(&self, split: Split, seed: u64, index: u64, scratch: &mut Scratch, out: &mut Features) {
        let Self { d, n, .. } = *self;
        scratch.inputs.resize((n + 1) * d, 0.0);
        scratch.labels.resize(n, 0.0);
        out.answer = self.draw(split, seed, index, &mut scratch.inputs, &mut scratch.labels);
        out.labelled.clear();
        out.labelled.resize(d + 1, 0.0);
        for (x, &y) in scratch.inputs.chunks_exact(d).zip(&scratch.labels) {
            out.labelled.iter_mut().zip(x).for_each(|(sum, x)| *sum += y * x);
            out.labelled[d] += y * y;
        }
        let factor = 1.0 / self.divisor();
        out.labelled.iter_mut().for_each(|sum| *sum *= factor);
        out.query.clear();
        out.query.extend_from_slice(&scratch.inputs[n * d..]);
    }

    /// Draws features with the distribution of [`Task::features`], but without a prompt: given `w`, the inputs enter only through
    /// `Q = Σ (ŵ·x_i)²`, which is χ² with `N` degrees of freedom, and a Gaussian vector `η⊥` orthogonal to `w`,
    ///
    /// ```text
    /// u = |w|/√D · (Q ŵ + √Q η⊥) / (N + 1),   u_{D+1} = |w|²/D · Q / (N + 1)
    /// ```
    ///
    /// This holds only for independent inputs and labels without noise.
    pub fn closed_features(&self, seed: u64, index: u64, out: &mut Features) {
        let d = self.d;
        let mut random = random(Purpose::Closed, seed, index);
        let squares: f64 = ChiSquared::new(self.n as f64).expect("validated tasks have n ≥ 1").sample(&mut random);
        let mut normals = || -> Vec<f64> { (0..d).map(|_| StandardNormal.sample(&mut random)).collect() };
        let (w, eta, query) = (normals(), normals(), normals());
        let norm = w.iter().map(|w| w * w).sum::<f64>().sqrt();
        let along = dot(&w, &eta) / norm;
        let (root, factor) = ((d as f64).sqrt(), 1.0 / self.divisor());
        out.answer = dot(&w, &query) / root;
        let element = |(w, eta): (&f64, &f64)| {
            let unit = w / norm;
            factor * norm / root * (squares * unit + squares.sqrt() * (eta - along * unit))
        };
        out.labelled = w.iter().zip(&eta).map(element).chain([factor * norm * norm / d as f64 * squares]).collect();
        out.query = query;
    }

    /// Fills `inputs` and `labels` and returns the answer.
    fn draw(&self, split: Split, seed: u64, index: u64, inputs: &mut [f64], labels: &mut [f64]) -> f64 {
        let Self { d, c, noise, .. } = *self;
        let purpose = match split {
            Split::Train => Purpose::Train,
            Split::Test => Purpose::Test,
        };
        let mut random = random(purpose, seed, index);
        let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
        let w: Vec<f64> = (0..d).map(|_| normal()).collect();
        inputs.iter_mut().for_each(|x| *x = normal());
        match self.correlation {
            Correlation::Equal if c > 0.0 => {
                let shared: Vec<f64> = (0..d).map(|_| normal()).collect();
                let (common, own) = (c.sqrt(), (1.0 - c).sqrt());
                for input in inputs.chunks_exact_mut(d) {
                    input.iter_mut().zip(&shared).for_each(|(x, shared)| *x = common * shared + own * *x);
                }
            }
            Correlation::Published if c > 0.0 => multiply_by_factor(inputs, d, c),
            Correlation::Equal | Correlation::Published => {}
        }
        let root = (d as f64).sqrt();
        let label = |x: &[f64]| dot(x, &w) / root;
        for (y, x) in labels.iter_mut().zip(inputs.chunks_exact(d)) {
            *y = label(x);
        }
        if noise > 0.0 {
            labels.iter_mut().for_each(|y| *y += noise * normal());
        }
        label(&inputs[inputs.len() - d..])
    }
}

/// Multiplies the inputs, `[N + 1, D]`, by the Cholesky factor `L` of the matrix with 1 on the diagonal and `c` elsewhere: input `l`
/// becomes `Σ_k L_kl x_k`. Below the diagonal, all elements of a column of `L` are equal.
fn multiply_by_factor(inputs: &mut [f64], d: usize, c: f64) {
    let count = inputs.len() / d;
    // Squares of the elements of a row before the diagonal, summed.
    let mut squares: f64 = 0.0;
    let columns: Vec<(f64, f64)> = (0..count)
        .map(|_| {
            let diagonal = (1.0 - squares).sqrt();
            let below = (c - squares) / diagonal;
            squares += below * below;
            (diagonal, below)
        })
        .collect();
    let mut later = vec![0.0; d];
    for (input, (diagonal, below)) in inputs.chunks_exact_mut(d).zip(columns).rev() {
        for (x, later) in input.iter_mut().zip(&mut later) {
            let own = *x;
            *x = diagonal * own + below * *later;
            *later += own;
        }
    }
}

impl Features {
    /// Empty features, to be filled by [`Task::features`].
    pub fn empty() -> Self {
        Self { labelled: Vec::new(), query: Vec::new(), answer: 0.0 }
    }

    /// Returns the prediction `ŷ = Σ W_mn S_mn`. `weights` are `W` without its last column, `[D + 1, D]`.
    pub fn prediction(&self, weights: &[f64]) -> f64 {
        let rows = weights.chunks_exact(self.query.len()).zip(&self.labelled);
        rows.map(|(row, u)| u * dot(row, &self.query)).sum()
    }
}

/// Buffers that are reused between prompts.
#[derive(Debug, Default)]
pub struct Scratch {
    inputs: Vec<f64>,
    labels: Vec<f64>,
}
