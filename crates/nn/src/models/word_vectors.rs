//! Word vectors learned from the surrounding words by negative sampling (Mikolov 2013).
//!
//! ```text
//! loss = −ln σ(u_o·h) − Σ_k ln σ(−u_k·h)       u: rows of `output`; o: the right word, k: words drawn at random
//! skip-gram   h = v_c, the row of `input` for the centre word; o is a word near it
//! CBOW        h = mean of v over the words nearby; o is the centre word
//! ```
//! [`neighbours`] and [`analogy`] query a trained table.

use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor, TensorData};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardUniform};
use regard_ops::{CrossEntropyOptions, embedding};
use serde::{Deserialize, Serialize};

use super::target::binary_cross_entropy;
use crate::config::{check_positive, check_product};
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::lengths::Lengths;

/// Configuration of [`WordVectors`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WordVectorsConfig {
    /// Number of distinct words.
    pub vocab: usize,
    /// Features per word.
    pub d_word: usize,
}

impl WordVectorsConfig {
    /// Returns an error if a size is zero or the table is too large.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("vocab", self.vocab)?;
        check_positive("d_word", self.d_word)?;
        check_product("vocab", &[self.vocab, self.d_word])
    }

    /// Builds the tables, as published: `input` uniform in `±1/(2 d_word)`, `output` zero.
    pub fn init(&self, init: &Init) -> Result<WordVectors, ConfigError> {
        self.validate()?;
        let shape = [self.vocab, self.d_word];
        Ok(WordVectors {
            input: init.uniform("input", shape, 0.5 / self.d_word as f32),
            output: init.constant(shape, 0.0),
        })
    }
}

/// Word vectors and their training loss; see the [module](self).
#[derive(Module, Debug)]
pub struct WordVectors {
    /// Word vectors `v`, `[vocab, d_word]`: the result of training.
    pub input: Param<Tensor<2>>,
    /// Output vectors `u`, `[vocab, d_word]`.
    pub output: Param<Tensor<2>>,
}

impl WordVectors {
    /// Computes the mean skip-gram loss over pairs of a centre word and a word near it.
    ///
    /// # Shapes
    /// `centres` and `contexts` `[n]`, `negatives` `[n, k]` → `[1]`.
    pub fn skip_gram_loss(
        &self,
        centres: Tensor<1, Int>,
        contexts: Tensor<1, Int>,
        negatives: Tensor<2, Int>,
    ) -> Result<Tensor<1>, NnError> {
        let [n] = centres.dims();
        check_count(n)?;
        self.loss(embedding(self.input.val(), centres.reshape([n, 1]))?, contexts, negatives)
    }

    /// Computes the mean CBOW loss over centre words; `counts` says how many words of each row of `contexts` are real.
    ///
    /// # Shapes
    /// `contexts` `[n, width]`, `counts` `[n]`, `centres` `[n]`, `negatives` `[n, k]` → `[1]`.
    pub fn cbow_loss(
        &self,
        contexts: Tensor<2, Int>,
        counts: &[usize],
        centres: Tensor<1, Int>,
        negatives: Tensor<2, Int>,
    ) -> Result<Tensor<1>, NnError> {
        let shape @ [n, width] = contexts.dims();
        check_count(n.min(width))?;
        let padding = Lengths::new(Some(counts), shape, &contexts.device())?;
        if counts.contains(&0) {
            return Err(NnError::input("counts", "1 or more words around each centre", "0"));
        }
        let around = embedding(self.input.val(), contexts)?;
        self.loss(padding.mean(around).unsqueeze_dim(1), centres, negatives)
    }

    /// `hidden` `[n, 1, d_word]`, `right` `[n]`, `wrong` `[n, k]` → `[1]`.
    fn loss(&self, hidden: Tensor<3>, right: Tensor<1, Int>, wrong: Tensor<2, Int>) -> Result<Tensor<1>, NnError> {
        let n = hidden.dims()[0];
        let [rows, k] = wrong.dims();
        if rows != n || k == 0 || right.dims() != [n] {
            let got = format!("{:?} and {:?}", right.dims(), wrong.dims());
            return Err(NnError::input("right and negative words", format!("[{n}] and [{n}, 1 or more]"), got));
        }
        let candidates = embedding(self.output.val(), Tensor::cat(vec![right.reshape([n, 1]), wrong], 1))?;
        let scores = candidates.matmul(hidden.swap_dims(1, 2)).reshape([n * (k + 1), 1]);
        let labels: Vec<i64> = (0..n * (k + 1)).map(|place| i64::from(place % (k + 1) == 0)).collect();
        let labels = Tensor::from_data(TensorData::new(labels, [n * (k + 1)]), &scores.device());
        Ok(binary_cross_entropy(scores, labels, CrossEntropyOptions::default())? * (k + 1) as f32)
    }
}

fn check_count(n: usize) -> Result<(), NnError> {
    if n > 0 { Ok(()) } else { Err(NnError::input("words", "1 or more", "0")) }
}

/// Draws negative words with probability proportional to their count to the power ¾, as published.
#[derive(Debug, Clone)]
pub struct NegativeSampler {
    /// Cumulative weights: the sum up to and including each word.
    sums: Vec<f64>,
}

impl NegativeSampler {
    /// Creates a sampler from the number of occurrences of each word. Fails if fewer than two words occur.
    pub fn new(counts: &[u64]) -> Result<Self, NnError> {
        let occurring = counts.iter().filter(|&&count| count > 0).count();
        if occurring < 2 {
            return Err(NnError::input("counts of words", "at least two words that occur", occurring.to_string()));
        }
        let weights = counts.iter().map(|&count| (count as f64).powf(0.75));
        let sums = weights.scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Ok(Self { sums: sums.collect() })
    }

    /// Draws a word other than `right`.
    pub fn draw(&self, right: usize, random: &mut ChaCha8Rng) -> usize {
        let total = self.sums[self.sums.len() - 1];
        loop {
            let share: f64 = StandardUniform.sample(random);
            let word = self.sums.partition_point(|&sum| sum <= share * total);
            if word != right && word < self.sums.len() {
                return word;
            }
        }
    }
}

/// Returns the `k` rows of `table` most similar to `query` by cosine, with their cosines, the most similar first. Leaves out
/// the rows in `except`; equal rows keep their order. A zero vector has cosine 0 with every vector.
///
/// # Shapes
/// `table` `[vocab, query.len()]`.
pub fn neighbours(table: &[f32], query: &[f32], k: usize, except: &[usize]) -> Vec<(usize, f32)> {
    if query.is_empty() {
        return vec![];
    }
    let length = norm(query);
    let cosine = |row: &[f32]| {
        let lengths = length * norm(row);
        if lengths > 0.0 { (dot(row, query) / lengths) as f32 } else { 0.0 }
    };
    let rows = table.chunks_exact(query.len()).enumerate().filter(|(row, _)| !except.contains(row));
    let mut found: Vec<(usize, f32)> = rows.map(|(row, vector)| (row, cosine(vector))).collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found.truncate(k);
    found
}

/// Solves "`a` is to `b` as `c` is to ?": returns the `k` rows most similar to `b − a + c`, with the three normalised to unit
/// length and left out of the result (3CosAdd). Returns nothing if one of them is not in the table.
///
/// # Shapes
/// `table` `[vocab, width]`.
pub fn analogy(table: &[f32], width: usize, [a, b, c]: [usize; 3], k: usize) -> Vec<(usize, f32)> {
    let unit = |row: usize| {
        let vector = table.chunks_exact(width.max(1)).nth(row)?;
        let length = norm(vector).max(f64::MIN_POSITIVE);
        Some(vector.iter().map(move |&x| f64::from(x) / length))
    };
    let (Some(from), Some(to), Some(other)) = (unit(a), unit(b), unit(c)) else { return vec![] };
    let query: Vec<f32> = from.zip(to).zip(other).map(|((a, b), c)| (b - a + c) as f32).collect();
    neighbours(table, &query, k, &[a, b, c])
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

fn norm(x: &[f32]) -> f64 {
    dot(x, x).sqrt()
}
