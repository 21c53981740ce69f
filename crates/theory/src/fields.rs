//! The spin glass of linear attention: couplings and fields of a set of prompts.
//!
//! With `σ = vec(W)` and `s = vec(S)`, `S_mn = (X Xᵀ)_{D+1,m} X_{n,N+1} / (N + 1)`, the prediction is `ŷ = Σ_i σ_i s_i`,
//! and the regularised loss of `P` prompts is the energy
//!
//! ```text
//! H = −Σ_{i<j} J_ij σ_i σ_j − Σ_i h_i σ_i + ½ Σ_i λ_i σ_i²
//! J_ij = −⟨s_i s_j⟩,   h_i = ⟨ỹ s_i⟩,   λ_i = λ + ⟨s_i²⟩
//! ```
//!
//! up to a constant, where `⟨·⟩` is the mean over prompts. The query's column ends in 0, so the last column of `S` is 0 and the
//! last column of `W` does not depend on the data. Its `D + 1` spins are left out: here `W` is `[D + 1, D]`.
//!
//! `⟨s_i s_j⟩ = ⟨u_m u_m' x̃_n x̃_n'⟩` is symmetric in `(m, m')` and in `(n, n')`. It is therefore computed as one product of the
//! `(D+1)(D+2)/2` distinct `u_m u_m'` with the `D(D+1)/2` distinct `x̃_n x̃_n'`, at half the cost of a symmetric update.

use std::ops::Range;
use std::str::FromStr;

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};
use rayon::prelude::*;
use serde::Serialize;

use crate::error::TheoryError;
use crate::fitted::fitted;
use crate::prompt::{Features, Scratch, Split, Task, check_prompts};
use crate::statistics::mean_error;

/// Number of prompts whose products are in memory at a time.
const BLOCK: usize = 1024;
/// Number of prompts that one thread draws at a time.
const PIECE: usize = 32;

/// Couplings, fields and stiffnesses of a set of prompts.
#[derive(Debug, Clone)]
pub struct Fields {
    /// Number of features of an input, `D`.
    pub d: usize,
    /// The regularisation `λ`.
    pub lambda: f64,
    /// Second moments `⟨s_i s_j⟩`, `[D(D+1), D(D+1)]`, with `i = m·D + n`.
    pub moments: Mat<f64>,
    /// Fields `h_i = ⟨ỹ s_i⟩`, `[D(D+1)]`.
    pub h: Vec<f64>,
    /// Mean square `⟨ỹ²⟩` of the answers.
    pub answer_square: f64,
}

/// Returns the index of the unordered pair `(a, b)` among all distinct pairs.
fn pair(a: usize, b: usize) -> usize {
    let (a, b) = (a.min(b), a.max(b));
    b * (b + 1) / 2 + a
}

/// Writes all distinct products of two elements of `x`, ordered as by [`pair`].
fn products(x: &[f64], out: &mut [f64]) {
    let mut rest = out;
    for (b, &right) in x.iter().enumerate() {
        let row;
        (row, rest) = rest.split_at_mut(b + 1);
        row.iter_mut().zip(x).for_each(|(out, left)| *out = left * right);
    }
}

/// Origin of features, and of the fields and couplings that are made of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Whole prompts.
    Prompts,
    /// The closed expressions of [`Task::closed_features`], which give the same distribution.
    Closed,
    /// Normal distributions that [`fitted`] fits to the blocks of whole prompts.
    Fitted,
}

impl FromStr for Origin {
    type Err = TheoryError;

    fn from_str(text: &str) -> Result<Self, TheoryError> {
        let names = [("prompts", Self::Prompts), ("closed", Self::Closed), ("fitted", Self::Fitted)];
        TheoryError::one_of("fields", &names, text)
    }
}

impl Origin {
    /// Draws features `index` of `seed` and writes them to `out`. `scratch` is reused between calls.
    pub(crate) fn features(self, task: &Task, seed: u64, index: u64, scratch: &mut Scratch, out: &mut Features) {
        match self {
            Self::Closed => task.closed_features(seed, index, out),
            Self::Prompts | Self::Fitted => task.features(Split::Train, seed, index, scratch, out),
        }
    }
}

impl Fields {
    /// Computes the fields of the prompts `0..prompts` of `seed`. `progress` is called with the number of prompts done.
    pub fn draw(
        task: &Task,
        prompts: u64,
        lambda: f64,
        seed: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, TheoryError> {
        Self::new(task, Origin::Prompts, prompts, lambda, seed, progress)
    }

    /// Computes the fields of the features `0..prompts` of `seed`. `progress` is called with the number of prompts done.
    pub fn new(
        task: &Task,
        origin: Origin,
        prompts: u64,
        lambda: f64,
        seed: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, TheoryError> {
        if origin == Origin::Closed {
            task.validate_plain("the closed expressions")?;
        }
        task.validate()?;
        check_prompts(prompts)?;
        if !lambda.is_finite() {
            return Err(TheoryError::setting("lambda", "a number", lambda));
        }
        let (d, side) = (task.d, task.side());
        // Enough for the moments and for the matrices of a solver.
        let spins = (d * side) as f64;
        TheoryError::check_memory(format!("a spin glass of {spins} spins"), 6.0 * spins * spins)?;
        let sizes = [pair(0, side), pair(0, d), side, d];
        let [labelled_pairs, query_pairs, _, _] = sizes;
        let mut sums = Mat::<f64>::zeros(labelled_pairs, query_pairs);
        let mut fields = Mat::<f64>::zeros(d, side);
        let mut answer_square = 0.0;
        let mut memory = sizes.map(|size| vec![0.0; size * BLOCK]);
        let mut first = 0;
        while first < prompts {
            let count = (prompts - first).min(BLOCK as u64) as usize;
            answer_square += fill(task, origin, seed, first..first + count as u64, &mut memory, sizes);
            let columns =
                |at: usize| MatRef::from_column_major_slice(&memory[at][..sizes[at] * count], sizes[at], count);
            matmul(sums.as_mut(), Accum::Add, columns(0), columns(1).transpose(), 1.0, Par::rayon(0));
            matmul(fields.as_mut(), Accum::Add, columns(3), columns(2).transpose(), 1.0, Par::rayon(0));
            first += count as u64;
            progress(first);
        }
        let mean = 1.0 / prompts as f64;
        let moments = Mat::from_fn(d * side, d * side, |i, j| mean * sums[(pair(i / d, j / d), pair(i % d, j % d))]);
        let h = (0..d * side).map(|i| mean * fields[(i % d, i / d)]).collect();
        let fields = Self { d, lambda, moments, h, answer_square: mean * answer_square };
        Ok(if origin == Origin::Fitted { fitted(&fields, seed) } else { fields })
    }

    /// Returns the number of spins, `D(D + 1)`.
    pub fn len(&self) -> usize {
        self.h.len()
    }

    /// Returns true if there are no spins, which no valid task has.
    pub fn is_empty(&self) -> bool {
        self.h.is_empty()
    }

    /// Returns the stiffness `λ_i = λ + ⟨s_i²⟩` of spin `i`.
    pub fn stiffness(&self, i: usize) -> f64 {
        self.lambda + self.moments[(i, i)]
    }

    /// Returns the Hessian of the energy, `λ + ⟨s sᵀ⟩`.
    pub fn hessian(&self) -> Mat<f64> {
        let mut hessian = self.moments.clone();
        (0..self.len()).for_each(|i| hessian[(i, i)] += self.lambda);
        hessian
    }

    /// Returns the couplings `J`, row-major, with zeros on the diagonal.
    pub fn couplings(&self) -> Vec<f64> {
        let n = self.len();
        let mut couplings: Vec<f64> =
            (0..n).flat_map(|j| (0..n).map(move |i| (i, j))).map(|(i, j)| -self.moments[(i, j)]).collect();
        (0..n).for_each(|i| couplings[i * n + i] = 0.0);
        couplings
    }

    /// Returns the energy of `weights`, `[D + 1, D]`.
    pub fn energy(&self, weights: &[f64]) -> f64 {
        0.5 * (self.prediction_square(weights) + self.lambda * dot(weights, weights)) - dot(&self.h, weights)
    }

    /// Returns the mean of `(ŷ − ỹ)²` over the prompts.
    pub fn train_error(&self, weights: &[f64]) -> f64 {
        (self.answer_square - 2.0 * dot(&self.h, weights) + self.prediction_square(weights)).max(0.0)
    }

    /// Returns the mean square `⟨ŷ²⟩` of the predictions.
    fn prediction_square(&self, weights: &[f64]) -> f64 {
        dot(weights, &times(&self.moments, weights))
    }
}

/// Draws `prompts` and writes four column-major matrices to `memory`, one column per prompt: the distinct products of `u`,
/// those of `x̃`, `ỹ u` and `x̃`. Returns the sum of `ỹ²`.
fn fill(
    task: &Task,
    origin: Origin,
    seed: u64,
    prompts: Range<u64>,
    memory: &mut [Vec<f64>; 4],
    sizes: [usize; 4],
) -> f64 {
    let (first, count) = (prompts.start, (prompts.end - prompts.start) as usize);
    let [pairs, query_pairs, labelled, queries] = memory;
    let pieces = pairs[..sizes[0] * count]
        .par_chunks_mut(sizes[0] * PIECE)
        .zip(query_pairs.par_chunks_mut(sizes[1] * PIECE))
        .zip(labelled.par_chunks_mut(sizes[2] * PIECE).zip(queries.par_chunks_mut(sizes[3] * PIECE)));
    let squares: Vec<f64> = pieces
        .enumerate()
        .map(|(piece, ((pairs, query_pairs), (labelled, queries)))| {
            let (mut scratch, mut features) = (Scratch::default(), Features::empty());
            let columns = pairs.chunks_exact_mut(sizes[0]).zip(query_pairs.chunks_exact_mut(sizes[1]));
            let columns = columns.zip(labelled.chunks_exact_mut(sizes[2]).zip(queries.chunks_exact_mut(sizes[3])));
            let mut square = 0.0;
            for (at, ((pairs, query_pairs), (labelled, query))) in columns.enumerate() {
                let index = first + (piece * PIECE + at) as u64;
                origin.features(task, seed, index, &mut scratch, &mut features);
                products(&features.labelled, pairs);
                products(&features.query, query_pairs);
                labelled.iter_mut().zip(&features.labelled).for_each(|(out, u)| *out = features.answer * u);
                query.copy_from_slice(&features.query);
                square += features.answer * features.answer;
            }
            square
        })
        .collect();
    squares.iter().sum()
}

/// Returns the mean of `(ŷ − ỹ)²` and its standard error over `count` prompts of the test split.
pub fn test_error(task: &Task, weights: &[f64], count: u64, seed: u64) -> (f64, f64) {
    mean_error(count, |range| {
        let (mut scratch, mut features) = (Scratch::default(), Features::empty());
        range.map(move |index| {
            task.features(Split::Test, seed, index, &mut scratch, &mut features);
            (features.prediction(weights) - features.answer).powi(2)
        })
    })
}

/// Returns the product of a matrix and a vector.
pub(crate) fn times(matrix: &Mat<f64>, vector: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; matrix.nrows()];
    let vector = MatRef::from_column_major_slice(vector, vector.len(), 1);
    let result = faer::MatMut::from_column_major_slice_mut(&mut out, matrix.nrows(), 1);
    matmul(result, Accum::Replace, matrix.as_ref(), vector, 1.0, Par::Seq);
    out
}

/// Returns the dot product of two vectors.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
