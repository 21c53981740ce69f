//! Monte Carlo sampling at inverse temperature β: an independent check of the other solvers, free of their approximations.

use faer::Mat;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

use super::{FLAT, Options, Progress, Solution, Solver};
use crate::error::TheoryError;
use crate::fields::{Fields, dot, times};
use crate::random::{Purpose, random};
use crate::statistics::mean_and_deviation;

/// Number of chains that run in parallel.
const CHAINS: usize = 4;
/// Number of batches that a chain is split into; their means are treated as independent.
pub(super) const BATCHES: usize = 20;
/// Largest split R̂ of chains that count as mixed: the spread of all half chains together over the spread within one (Gelman and
/// Rubin). Comparing halves also reveals a drift that all chains share.
const MIXED: f64 = 1.05;
/// Largest number of steps in a Hamiltonian trajectory.
const MOST_LEAPS: usize = 100;

/// How a chain moves to its next state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moves {
    /// Draws each spin in turn from its distribution given all others.
    Gibbs,
    /// Moves all spins along a trajectory of Hamilton's equations, accepted by the Metropolis rule.
    Hamiltonian,
}

pub(super) struct Sampler {
    pub(super) options: Options,
    pub(super) moves: Moves,
}

/// The distribution to sample and the step sizes, shared by all chains.
struct Problem<'a> {
    fields: &'a Fields,
    hessian: Mat<f64>,
    beta: f64,
    /// Length of a step of a Hamiltonian trajectory.
    step: f64,
    leaps: usize,
}

/// Sums of the deviations from a reference state, and of their squares, over a batch.
#[derive(Clone)]
struct Batch {
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl Solver for Sampler {
    fn solve(&self, fields: &Fields, progress: Progress<'_>) -> Result<Solution, TheoryError> {
        let Options { beta, sweeps, seed, .. } = self.options;
        let hessian = fields.hessian();
        let (smallest, largest) = extremes(&hessian)?;
        if smallest <= FLAT * largest {
            return Err(TheoryError::Indefinite { lambda: fields.lambda });
        }
        let step = 1.0 / (beta * largest).sqrt();
        let leaps = (0.5 * std::f64::consts::PI * (largest / smallest).sqrt()).ceil() as usize;
        let problem = Problem { fields, hessian, beta, step, leaps: leaps.clamp(1, MOST_LEAPS) };
        let length = (sweeps / BATCHES).max(1);
        let mut chains: Vec<Chain> = (0..CHAINS).map(|chain| Chain::new(&problem, seed, chain as u64)).collect();
        let mut batches = vec![Vec::new(); CHAINS];
        let nothing = vec![0.0; fields.len()];
        chains.par_iter_mut().for_each(|chain| {
            chain.run(&problem, self.moves, &nothing, sweeps / 2);
        });
        // Batches sum differences from a reached state: at large β, plain squares would lose the variance to rounding.
        let reference = chains[0].state.clone();
        let mut run = |steps: usize| -> Vec<Batch> {
            chains.par_iter_mut().map(|chain| chain.run(&problem, self.moves, &reference, steps)).collect()
        };
        for batch in 0..BATCHES {
            for (all, new) in batches.iter_mut().zip(run(length)) {
                all.push(new);
            }
            progress((batch + 1) * length, &so_far(&batches, &reference, length));
        }
        Ok(summary(&batches, &reference, length))
    }
}

/// One chain.
struct Chain {
    state: Vec<f64>,
    random: ChaCha8Rng,
}

impl Chain {
    /// Starts a chain at a random state, at about twice the size of the ground state and of its fluctuations.
    fn new(problem: &Problem<'_>, seed: u64, chain: u64) -> Self {
        let mut random = random(Purpose::Chain, seed, chain);
        let state = (0..problem.fields.len())
            .map(|i| {
                let stiffness = problem.hessian[(i, i)];
                let size = problem.fields.h[i].abs() / stiffness + 1.0 / (problem.beta * stiffness).sqrt();
                2.0 * size * normal(&mut random)
            })
            .collect();
        Self { state, random }
    }

    /// Makes `steps` moves and sums up the differences from `reference`.
    fn run(&mut self, problem: &Problem<'_>, moves: Moves, reference: &[f64], steps: usize) -> Batch {
        let n = self.state.len();
        let mut batch = Batch { sums: vec![0.0; n], squares: vec![0.0; n] };
        for _ in 0..steps {
            match moves {
                Moves::Gibbs => self.sweep(problem),
                Moves::Hamiltonian => self.trajectory(problem),
            }
            let sums = batch.sums.iter_mut().zip(&mut batch.squares);
            for ((sum, square), (x, reference)) in sums.zip(self.state.iter().zip(reference)) {
                *sum += x - reference;
                *square += (x - reference).powi(2);
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
        // The step length is random: a trajectory that fits a period of the motion would return to where it started.
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

/// Returns the smallest and the largest eigenvalue.
fn extremes(hessian: &Mat<f64>) -> Result<(f64, f64), TheoryError> {
    let values = crate::spectrum::eigenvalues(hessian)?;
    Ok((values[0], values[values.len() - 1]))
}

/// Returns the means over all batches so far.
fn so_far(chains: &[Vec<Batch>], reference: &[f64], length: usize) -> Vec<f64> {
    let batches = chains.iter().map(Vec::len).sum::<usize>();
    let mut means = reference.to_vec();
    for batch in chains.iter().flatten() {
        means.iter_mut().zip(&batch.sums).for_each(|(mean, sum)| *mean += sum / (batches * length) as f64);
    }
    means
}

/// Computes means, variances, standard errors and convergence from batches of `length` states.
fn summary(chains: &[Vec<Batch>], reference: &[f64], length: usize) -> Solution {
    let n = reference.len();
    let count = length as f64;
    let (mut means, mut variances) = (reference.to_vec(), vec![0.0; n]);
    let (mut residual, mut converged) = (0.0f64, true);
    for i in 0..n {
        let mean_of =
            |batches: &[Batch]| batches.iter().map(|batch| batch.sums[i]).sum::<f64>() / (count * batches.len() as f64);
        let variance_of = |batches: &[Batch]| {
            let square = batches.iter().map(|batch| batch.squares[i]).sum::<f64>() / (count * batches.len() as f64);
            square - mean_of(batches).powi(2)
        };
        let halves: Vec<&[Batch]> = chains.iter().flat_map(|chain| chain.chunks(BATCHES / 2)).collect();
        let within = halves.iter().map(|half| variance_of(half)).sum::<f64>() / halves.len() as f64;
        let (mean, between) = mean_and_deviation(&halves.iter().map(|half| mean_of(half)).collect::<Vec<_>>());
        let all: Vec<f64> = chains.iter().flatten().map(|batch| batch.sums[i] / count).collect();
        means[i] += mean;
        variances[i] =
            within + halves.iter().map(|half| (mean_of(half) - mean).powi(2)).sum::<f64>() / halves.len() as f64;
        residual = residual.max(mean_and_deviation(&all).1 / (all.len() as f64).sqrt());
        let spread = ((within + between * between) / within).sqrt();
        converged &= within > 0.0 && spread < MIXED;
    }
    Solution { means, variances, iterations: BATCHES * length, residual, converged }
}
