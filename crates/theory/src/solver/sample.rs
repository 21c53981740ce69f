//! Monte-Carlo sampling at inverse temperature β: the judge of the other solvers, since it assumes nothing of them.

use faer::Mat;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

use super::{Options, Progress, Solution, Solver, check_precision};
use crate::error::TheoryError;
use crate::fields::{Fields, dot, times};

/// Chains that run beside each other.
const CHAINS: usize = 4;
/// Parts of a chain whose means are taken for independent.
const BATCHES: usize = 20;
/// How much wider all chains together may be than each by itself (Gelman and Rubin).
const MIXED: f64 = 1.05;
/// Steps of a Hamiltonian trajectory at most.
const MOST_LEAPS: usize = 100;

/// How a chain moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moves {
    /// Each spin in turn from its distribution given all others.
    Gibbs,
    /// All spins along a trajectory of Hamilton's equations, kept by Metropolis' rule.
    Hamiltonian,
}

pub(super) struct Sampler {
    pub(super) options: Options,
    pub(super) moves: Moves,
}

/// What chains share.
struct Problem<'a> {
    fields: &'a Fields,
    hessian: Mat<f64>,
    beta: f64,
    /// Of a Hamiltonian trajectory: the length of a step and how many there are.
    step: f64,
    leaps: usize,
}

/// Sums over a part of a chain.
#[derive(Clone)]
struct Batch {
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl Solver for Sampler {
    fn solve(&self, fields: &Fields, progress: Progress<'_>) -> Result<Solution, TheoryError> {
        let Options { beta, sweeps, seed, .. } = self.options;
        for spin in 0..fields.len() {
            check_precision(spin, fields.stiffness(spin), 0)?;
        }
        let hessian = fields.hessian();
        let (smallest, largest) = extremes(&hessian)?;
        if smallest <= 0.0 {
            return Err(TheoryError::Indefinite { lambda: fields.lambda });
        }
        let step = 1.0 / (beta * largest).sqrt();
        let leaps = (0.5 * std::f64::consts::PI * (largest / smallest).sqrt()).ceil() as usize;
        let problem = Problem { fields, hessian, beta, step, leaps: leaps.clamp(1, MOST_LEAPS) };
        let length = (sweeps / BATCHES).max(1);
        let mut chains: Vec<Chain> = (0..CHAINS).map(|chain| Chain::new(&problem, seed, chain as u64)).collect();
        let mut batches = vec![Vec::new(); CHAINS];
        let mut run = |steps: usize| -> Vec<Batch> {
            chains.par_iter_mut().map(|chain| chain.run(&problem, self.moves, steps)).collect()
        };
        run(sweeps / 10);
        for batch in 0..BATCHES {
            for (all, new) in batches.iter_mut().zip(run(length)) {
                all.push(new);
            }
            progress((batch + 1) * length, &so_far(&batches, length));
        }
        Ok(summary(&batches, length))
    }
}

/// One chain.
struct Chain {
    state: Vec<f64>,
    random: ChaCha8Rng,
}

impl Chain {
    /// Started apart from the others, wider than the distribution.
    fn new(problem: &Problem<'_>, seed: u64, stream: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        let state = (0..problem.fields.len())
            .map(|i| 2.0 * normal(&mut random) / (problem.beta * problem.hessian[(i, i)]).sqrt())
            .collect();
        Self { state, random }
    }

    fn run(&mut self, problem: &Problem<'_>, moves: Moves, steps: usize) -> Batch {
        let n = self.state.len();
        let mut batch = Batch { sums: vec![0.0; n], squares: vec![0.0; n] };
        for _ in 0..steps {
            match moves {
                Moves::Gibbs => self.sweep(problem),
                Moves::Hamiltonian => self.trajectory(problem),
            }
            for ((sum, square), x) in batch.sums.iter_mut().zip(&mut batch.squares).zip(&self.state) {
                *sum += x;
                *square += x * x;
            }
        }
        batch
    }

    fn sweep(&mut self, problem: &Problem<'_>) {
        for i in 0..self.state.len() {
            let stiffness = problem.hessian[(i, i)];
            let column = problem.hessian.col(i).try_as_col_major().expect("columns are contiguous").as_slice();
            let others = dot(column, &self.state) - stiffness * self.state[i];
            let mean = (problem.fields.h[i] - others) / stiffness;
            self.state[i] = mean + normal(&mut self.random) / (problem.beta * stiffness).sqrt();
        }
    }

    fn trajectory(&mut self, problem: &Problem<'_>) {
        let Problem { fields, hessian, beta, leaps, .. } = problem;
        let (mut place, mut momentum) = (self.state.clone(), vec![0.0; self.state.len()]);
        momentum.iter_mut().for_each(|p| *p = normal(&mut self.random));
        // Steps of changing length: one that fits a period of the motion would go round in a circle.
        let step = problem.step * self.random.random_range(0.6..1.2);
        let slope = |place: &[f64]| -> Vec<f64> {
            times(hessian, place).iter().zip(&fields.h).map(|(a, h)| beta * (a - h)).collect()
        };
        let energy = |place: &[f64], momentum: &[f64]| beta * fields.energy(place) + 0.5 * dot(momentum, momentum);
        let before = energy(&place, &momentum);
        let kick = |momentum: &mut [f64], slope: &[f64], step: f64| {
            momentum.iter_mut().zip(slope).for_each(|(p, slope)| *p -= step * slope);
        };
        kick(&mut momentum, &slope(&place), 0.5 * step);
        for leap in 0..*leaps {
            place.iter_mut().zip(&momentum).for_each(|(x, p)| *x += step * p);
            kick(&mut momentum, &slope(&place), if leap + 1 < *leaps { step } else { 0.5 * step });
        }
        if self.random.random::<f64>().ln() < before - energy(&place, &momentum) {
            self.state = place;
        }
    }
}

fn normal(random: &mut ChaCha8Rng) -> f64 {
    StandardNormal.sample(random)
}

/// The smallest and the largest eigenvalue.
fn extremes(hessian: &Mat<f64>) -> Result<(f64, f64), TheoryError> {
    let values = crate::spectrum::eigenvalues(hessian)?;
    Ok((values[0], values[values.len() - 1]))
}

/// The means of all states so far.
fn so_far(chains: &[Vec<Batch>], length: usize) -> Vec<f64> {
    let batches = chains.iter().map(Vec::len).sum::<usize>();
    let mut means = vec![0.0; chains[0][0].sums.len()];
    for batch in chains.iter().flatten() {
        means.iter_mut().zip(&batch.sums).for_each(|(mean, sum)| *mean += sum / (batches * length) as f64);
    }
    means
}

/// Means, variances and how far they are to be trusted, from batches of `length` states.
fn summary(chains: &[Vec<Batch>], length: usize) -> Solution {
    let n = chains[0][0].sums.len();
    let (count, batches) = (length as f64, (CHAINS * BATCHES) as f64);
    let (mut means, mut variances) = (vec![0.0; n], vec![0.0; n]);
    let (mut residual, mut spread) = (0.0f64, 1.0f64);
    for i in 0..n {
        let of = |batch: &Batch| batch.sums[i] / count;
        let chain_means: Vec<f64> =
            chains.iter().map(|chain| chain.iter().map(of).sum::<f64>() / BATCHES as f64).collect();
        let mean = chain_means.iter().sum::<f64>() / CHAINS as f64;
        let square = chains.iter().flatten().map(|batch| batch.squares[i] / count).sum::<f64>() / batches;
        let within = chains
            .iter()
            .zip(&chain_means)
            .map(|(chain, mean)| {
                chain.iter().map(|batch| batch.squares[i] / count).sum::<f64>() / BATCHES as f64 - mean * mean
            })
            .sum::<f64>()
            / CHAINS as f64;
        let between = chain_means.iter().map(|other| (other - mean).powi(2)).sum::<f64>() / (CHAINS - 1) as f64;
        let scatter = chains.iter().flatten().map(|batch| (of(batch) - mean).powi(2)).sum::<f64>() / (batches - 1.0);
        means[i] = mean;
        variances[i] = square - mean * mean;
        residual = residual.max((scatter / batches).sqrt());
        spread = spread.max(((within + between) / within).sqrt());
    }
    Solution { means, variances, iterations: BATCHES * length, residual, converged: spread < MIXED }
}
