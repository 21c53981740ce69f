//! Distributions of the elements of features, fields and couplings, block by block, and how they change with the prompt length.
//!
//! The blocks, with `u = (X Xᵀ)_{D+1} / (N + 1)`; the first `D` elements of `u` change sign with `w`, the last does not:
//!
//! ```text
//! A  S_mn, m ≤ D            u_m x̃_n              B  S_{D+1,n}          u_{D+1} x̃_n
//! C  h_mn, m ≤ D            ⟨ỹ u_m x̃_n⟩          D  h_{D+1,n}          ⟨ỹ u_{D+1} x̃_n⟩
//! E  J, both m ≤ D          −⟨u_m u_m' x̃_n x̃_n'⟩  F  J, one of each      −⟨u_m u_{D+1} x̃_n x̃_n'⟩
//! G  J, both in row D+1     −⟨u_{D+1}² x̃_n x̃_n'⟩
//! ```
//!
//! Only the diagonal of C has a nonzero mean, `δ_mn/D`. The diagonal of `J` is part of `λ_i`.

use rand::RngExt;
use serde::Serialize;

use crate::error::TheoryError;
use crate::fields::{Fields, Origin};
use crate::prompt::{Features, Task};
use crate::random::{Purpose, random};
use crate::statistics::mean_and_deviation;

/// A block of elements that share one distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Block {
    /// Features of the first `D` rows.
    A,
    /// Features of the last row.
    B,
    /// Fields of the first `D` rows.
    C,
    /// Fields of the last row.
    D,
    /// Couplings among the first `D` rows.
    E,
    /// Couplings between the first `D` rows and the last one.
    F,
    /// Couplings within the last row.
    G,
}

impl Block {
    /// The blocks of fields and couplings, which depend on all prompts.
    pub const AVERAGED: [Self; 5] = [Self::C, Self::D, Self::E, Self::F, Self::G];
}

/// Returns the elements of a block of fields or couplings; empty for blocks of features.
pub fn elements(fields: &Fields, block: Block) -> Vec<f64> {
    let (d, n) = (fields.d, fields.len());
    let is_last = |i: usize| i / d == d;
    let couplings = |wanted: fn(bool, bool) -> bool| {
        let pairs = (0..n).flat_map(|i| (0..i).map(move |j| (i, j)));
        pairs.filter(|&(i, j)| wanted(is_last(i), is_last(j))).map(|(i, j)| -fields.moments[(i, j)]).collect()
    };
    match block {
        Block::A | Block::B => Vec::new(),
        Block::C => fields.h[..d * d].to_vec(),
        Block::D => fields.h[d * d..].to_vec(),
        Block::E => couplings(|i, j| !i && !j),
        Block::F => couplings(|i, j| i != j),
        Block::G => couplings(|i, j| i && j),
    }
}

/// Returns the elements of a block of features in one prompt; empty for other blocks.
pub fn feature_elements(features: &Features, block: Block) -> Vec<f64> {
    let d = features.query.len();
    let rows = match block {
        Block::A => 0..d,
        Block::B => d..d + 1,
        _ => 0..0,
    };
    rows.flat_map(|m| features.query.iter().map(move |x| features.labelled[m] * x)).collect()
}

/// Returns an error if a histogram cannot have this number of bins.
pub(crate) fn check_bins(bins: usize) -> Result<(), TheoryError> {
    TheoryError::check_range("bins", 2..=10_000, bins)
}

/// Counts the values in each of `bins` bins of equal width from `low` to `high`. Values outside are in no bin.
fn counts(values: &[f64], (low, high): (f64, f64), bins: usize) -> Vec<usize> {
    let mut counts = vec![0; bins];
    for value in values {
        if (low..=high).contains(value) {
            let place = (value - low) / (high - low) * bins as f64;
            counts[(place as usize).min(bins - 1)] += 1;
        }
    }
    counts
}

/// A histogram with bins of equal width.
#[derive(Debug, Clone, Serialize)]
pub struct Histogram {
    /// Lower end of the first bin.
    pub low: f64,
    /// Upper end of the last bin.
    pub high: f64,
    /// Share of all values in each bin.
    pub shares: Vec<f64>,
}

impl Histogram {
    /// Counts `values` in `bins` bins from `low` to `high`. Values outside are in no bin but count in the total.
    pub fn new(values: &[f64], low: f64, high: f64, bins: usize) -> Self {
        let counts = counts(values, (low, high), bins);
        let shares = counts.iter().map(|&count| count as f64 / values.len().max(1) as f64).collect();
        Self { low, high, shares }
    }

    /// Returns the centre of each bin and the density there.
    pub fn densities(&self) -> impl Iterator<Item = (f64, f64)> {
        let width = (self.high - self.low) / self.shares.len() as f64;
        self.shares.iter().enumerate().map(move |(i, share)| (self.low + (i as f64 + 0.5) * width, share / width))
    }
}

/// Returns `KL[p‖q]` of two sets of values, from histograms with `bins` common bins over the range of both. A bin that is empty
/// in `q` counts as half a value, so that the divergence is finite.
pub fn divergence(p: &[f64], q: &[f64], bins: usize) -> Result<f64, TheoryError> {
    check_bins(bins)?;
    let all = || p.iter().chain(q).copied();
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    if low.partial_cmp(&high) != Some(std::cmp::Ordering::Less) {
        return Ok(0.0);
    }
    let (p, least) = (Histogram::new(p, low, high, bins), 0.5 / q.len().max(1) as f64);
    let q = Histogram::new(q, low, high, bins);
    let terms = p.shares.iter().zip(&q.shares).filter(|(p, _)| **p > 0.0).map(|(p, q)| p * (p / q.max(least)).ln());
    Ok(terms.sum::<f64>().max(0.0))
}

/// Number of bins of the published histograms.
pub const PUBLISHED_BINS: usize = 100;

impl Block {
    /// Returns the published range of the bins, which is the same for every `N`.
    fn published_range(self) -> (f64, f64) {
        match self {
            Self::C => (-0.2, 0.4),
            Self::E => (-0.1, 0.1),
            Self::G => (-0.5, 0.5),
            Self::A | Self::B | Self::D | Self::F => (-0.3, 0.3),
        }
    }

    /// Returns the published histogram of a block of fields or couplings from one set of prompts: C without its diagonal, every
    /// coupling counted as `J_ij` and as `J_ji`, and one added to each count.
    fn published_counts(self, fields: &Fields) -> Vec<f64> {
        let mut values = elements(fields, self);
        if self == Self::C {
            let mut place = 0..;
            values.retain(|_| place.next().is_some_and(|i| i / fields.d != i % fields.d));
        }
        let copies = if matches!(self, Self::E | Self::F | Self::G) { 2 } else { 1 };
        let counts = counts(&values, self.published_range(), PUBLISHED_BINS);
        counts.iter().map(|count| (copies * count + 1) as f64).collect()
    }
}

/// Returns the published divergence of two lists of counts: `KL[p‖q]` in bits.
fn bits(p: &[f64], q: &[f64]) -> f64 {
    let (all, other): (f64, f64) = (p.iter().sum(), q.iter().sum());
    p.iter().zip(q).map(|(p, q)| p / all * (p / all / (q / other)).log2()).sum()
}

/// How much the blocks of fields and couplings change if prompts have `more` examples.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Number of additional examples.
    pub more: usize,
    /// Divergence of each block of [`Block::AVERAGED`].
    pub divergence: [f64; 5],
    /// Standard deviation of the divergence between pairs of sets of prompts; `None` if there is one pair, or if all sets were pooled.
    pub deviation: Option<[f64; 5]>,
}

/// Returns the published divergences for each `more`: every block of one set of prompts is compared with that of one set of longer
/// prompts, and the results are averaged over `repeats` pairs of sets. Histograms have [`PUBLISHED_BINS`] bins.
pub fn published_divergences(
    task: &Task,
    (prompts, repeats): (u64, usize),
    more: &[usize],
    seed: u64,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<Change>, TheoryError> {
    check_repeats(task, repeats)?;
    let histograms = |task: &Task, seed: u64| -> Result<Vec<[Vec<f64>; 5]>, TheoryError> {
        (0..repeats as u64)
            .map(|repeat| {
                let fields = Fields::draw(task, prompts, 0.0, seed.wrapping_add(repeat), &mut |_| {})?;
                Ok(Block::AVERAGED.map(|block| block.published_counts(&fields)))
            })
            .collect()
    };
    let first = histograms(task, seed)?;
    let mut all = Vec::with_capacity(more.len());
    for (done, &more) in more.iter().enumerate() {
        let longer = Task { n: task.n.saturating_add(more), ..*task };
        let second = histograms(&longer, seed_after(seed, done, repeats))?;
        let moments: [(f64, f64); 5] = std::array::from_fn(|block| {
            let pairs = first.iter().zip(&second);
            mean_and_deviation(&pairs.map(|(first, second)| bits(&first[block], &second[block])).collect::<Vec<_>>())
        });
        let deviation = (repeats > 1).then(|| moments.map(|(_, deviation)| deviation));
        all.push(Change { more, divergence: moments.map(|(mean, _)| mean), deviation });
        progress(done + 1);
    }
    Ok(all)
}

/// Draws elements of a block of couplings by its published approximation, in which couplings are products of fields: `E = C₁C₂`,
/// `F = C₁D₁` and `G = D₁D₂`, each factor drawn from the elements of its block in `averaged`. Returns `None` for other blocks.
pub fn published_products(block: Block, averaged: &[Vec<f64>; 5], count: usize, seed: u64) -> Option<Vec<f64>> {
    let [c, d, ..] = averaged;
    let (first, second) = match block {
        Block::E => (c, c),
        Block::F => (c, d),
        Block::G => (d, d),
        Block::A | Block::B | Block::C | Block::D => return None,
    };
    let mut random = random(Purpose::Products, seed, block as u64);
    let mut draw = |from: &[f64]| from[random.random_range(0..from.len())];
    Some((0..count).map(|_| draw(first) * draw(second)).collect())
}

/// Largest number of sets of prompts that are pooled.
const MOST_REPEATS: usize = 100_000;

/// Returns an error if the number of sets of prompts is out of range or their elements do not fit in memory.
fn check_repeats(task: &Task, repeats: usize) -> Result<(), TheoryError> {
    TheoryError::check_range("repeats", 1..=MOST_REPEATS, repeats)?;
    let spins = (task.d * task.side()) as f64;
    let numbers = 2.0 * repeats as f64 * spins * spins;
    TheoryError::check_memory(format!("the elements of {repeats} sets of prompts"), numbers)
}

/// Returns the seed of the sets of longer prompts that come after `done` others. Reusing the prompts of the first sets would cancel
/// the noise.
fn seed_after(seed: u64, done: usize, repeats: usize) -> u64 {
    seed.wrapping_add(((1 + done) * repeats) as u64)
}

/// Returns the elements of each averaged block, concatenated over `repeats` sets of prompts.
pub fn pooled(
    task: &Task,
    origin: Origin,
    (prompts, repeats): (u64, usize),
    seed: u64,
) -> Result<[Vec<f64>; 5], TheoryError> {
    check_repeats(task, repeats)?;
    let mut all: [Vec<f64>; 5] = Default::default();
    for repeat in 0..repeats as u64 {
        let fields = Fields::new(task, origin, prompts, 0.0, seed.wrapping_add(repeat), &mut |_| {})?;
        for (all, block) in all.iter_mut().zip(Block::AVERAGED) {
            all.extend(elements(&fields, block));
        }
    }
    Ok(all)
}

/// Returns, for each `more`, the divergence of each averaged block from prompts of `N` examples (elements in `first`) to prompts
/// of `N + more`. Every entry uses `repeats` new sets of prompts, so the divergence at `more = 0` is the noise floor.
pub fn divergences(
    task: &Task,
    first: &[Vec<f64>; 5],
    (prompts, repeats): (u64, usize),
    more: &[usize],
    bins: usize,
    seed: u64,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<Change>, TheoryError> {
    let mut all = Vec::with_capacity(more.len());
    for (done, &more) in more.iter().enumerate() {
        let seed = seed_after(seed, done, repeats);
        let longer = Task { n: task.n.saturating_add(more), ..*task };
        let second = pooled(&longer, Origin::Prompts, (prompts, repeats), seed)?;
        let mut change = Change { more, divergence: [0.0; 5], deviation: None };
        for (value, (first, second)) in change.divergence.iter_mut().zip(first.iter().zip(&second)) {
            *value = divergence(first, second, bins)?;
        }
        all.push(change);
        progress(done + 1);
    }
    Ok(all)
}
