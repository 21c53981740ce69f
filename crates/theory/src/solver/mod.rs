//! Six solvers for the ground state and its fluctuations.
//!
//! At inverse temperature β the spins are Gaussian with precision `β (λ + ⟨s sᵀ⟩)`. Means do not depend on β, and variances are
//! proportional to `1/β`. Messages are therefore kept in units of β: `v` in the code is `β v` in the formulas.

mod edges;
mod exact;
mod node;
mod sample;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::TheoryError;
use crate::fields::Fields;

/// Means and variances of the spins, as found by a solver.
#[derive(Debug, Clone)]
pub struct Solution {
    /// Means `⟨σ_i⟩`: `W` in row-major order, `[D + 1, D]`.
    pub means: Vec<f64>,
    /// Variances `⟨σ_i²⟩ − ⟨σ_i⟩²`, `[D + 1, D]`.
    pub variances: Vec<f64>,
    /// Number of iterations, or of sweeps per chain when sampling; 1 for a factorisation.
    pub iterations: usize,
    /// Accuracy: the largest change of a mean in the last iteration of message passing, the largest `|(λ + ⟨s sᵀ⟩) σ − h|` of a
    /// factorisation, or the largest standard error of a mean when sampling.
    pub residual: f64,
    /// Whether the solver converged.
    pub converged: bool,
}

/// A callback that receives the number of iterations done and the means so far.
pub type Progress<'a> = &'a mut dyn FnMut(usize, &[f64]);

/// A method that finds the ground state.
pub trait Solver: Sync {
    /// Solves for means and variances of the spins.
    fn solve(&self, fields: &Fields, progress: Progress<'_>) -> Result<Solution, TheoryError>;
}

/// The available solvers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The cavity method, one message per edge: exact means if it converges.
    Edges,
    /// One message per spin without Onsager's reaction term, as published: its fixed point is not the ground state.
    Node,
    /// Approximate message passing, one message per spin with Onsager's reaction term: exact means if it converges.
    Amp,
    /// Factorisation of the Hessian.
    Exact,
    /// Gibbs sampling at β.
    Gibbs,
    /// Hamiltonian Monte Carlo at β.
    Hmc,
}

/// Settings of the solvers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Inverse temperature β.
    pub beta: f64,
    /// Share of the old message that an iteration keeps, at least 0 and below 1.
    pub damping: f64,
    /// Largest change of a mean, relative to the largest mean, at which an iteration has converged.
    pub tolerance: f64,
    /// Largest number of iterations.
    pub most_iterations: usize,
    /// Number of sweeps per chain of a sampler, after half as many that are discarded.
    pub sweeps: usize,
    /// Seed of a sampler.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { beta: 100.0, damping: 0.5, tolerance: 1e-10, most_iterations: 2_000, sweeps: 2_000, seed: 1 }
    }
}

impl Options {
    /// Returns an error if a setting is out of range.
    pub fn validate(&self) -> Result<(), TheoryError> {
        if !(self.beta > 0.0 && self.beta.is_finite()) {
            return Err(TheoryError::setting("beta", "an inverse temperature above 0", self.beta));
        }
        if !(0.0..1.0).contains(&self.damping) {
            return Err(TheoryError::setting("damping", "at least 0 and below 1", self.damping));
        }
        if !(self.tolerance > 0.0 && self.tolerance.is_finite()) {
            return Err(TheoryError::setting("tolerance", "above 0", self.tolerance));
        }
        if self.most_iterations == 0 {
            return Err(TheoryError::setting("iterations", "1 or more", 0));
        }
        if self.sweeps < sample::BATCHES {
            return Err(TheoryError::setting("sweeps", format!("{} or more", sample::BATCHES), self.sweeps));
        }
        Ok(())
    }
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 6] = [Self::Edges, Self::Node, Self::Amp, Self::Exact, Self::Gibbs, Self::Hmc];

    /// Returns the name of the method on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Edges => "edges",
            Self::Node => "node",
            Self::Amp => "amp",
            Self::Exact => "exact",
            Self::Gibbs => "gibbs",
            Self::Hmc => "hmc",
        }
    }

    /// Creates the solver.
    pub fn solver(self, options: Options) -> Box<dyn Solver> {
        match self {
            Self::Edges => Box::new(edges::Edges(options)),
            Self::Node => Box::new(node::Node { options, reaction: node::Reaction::None }),
            Self::Amp => Box::new(node::Node { options, reaction: node::Reaction::Onsager }),
            Self::Exact => Box::new(exact::Exact(options)),
            Self::Gibbs => Box::new(sample::Sampler { options, moves: sample::Moves::Gibbs }),
            Self::Hmc => Box::new(sample::Sampler { options, moves: sample::Moves::Hamiltonian }),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = TheoryError;

    fn from_str(name: &str) -> Result<Self, TheoryError> {
        TheoryError::one_of("solver", &Self::ALL.map(|method| (method.name(), method)), name)
    }
}

/// Eigenvalue, relative to the largest one, below which a direction counts as flat.
const FLAT: f64 = 1e-12;

/// Returns the largest absolute value, or infinity if a value is infinite or NaN.
fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |most, value| if value.is_finite() { f64::max(most, value.abs()) } else { f64::INFINITY })
}

/// Returns an error unless the precision is positive.
fn check_precision(spin: usize, precision: f64, iteration: usize) -> Result<(), TheoryError> {
    match precision > 0.0 {
        true => Ok(()),
        false => Err(TheoryError::NegativePrecision { spin, iteration, precision }),
    }
}
