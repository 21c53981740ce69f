//! Row F3: the ground state and its fluctuations, six ways.
//!
//! At inverse temperature β the spins are Gaussian with precision `β (λ + ⟨s sᵀ⟩)`. Means do not depend on β; variances are
//! those of β = 1 over β. So messages are kept in units of β: `v` here is `β v` of the formulas.

mod edges;
mod exact;
mod node;
mod sample;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::TheoryError;
use crate::fields::Fields;

/// What a solver found.
#[derive(Debug, Clone)]
pub struct Solution {
    /// `⟨σ_i⟩`, `W` row after row, `[D + 1, D]`.
    pub means: Vec<f64>,
    /// `⟨σ_i²⟩ − ⟨σ_i⟩²`.
    pub variances: Vec<f64>,
    /// Iterations, or sweeps of sampling; 1 of a factorisation.
    pub iterations: usize,
    /// The largest change of a mean in the last iteration; of a factorisation the largest `|(λ + ⟨s sᵀ⟩) σ − h|`; of
    /// sampling the largest standard error.
    pub residual: f64,
    /// Whether it came to rest.
    pub converged: bool,
}

/// Hears the iterations done and the means so far.
pub type Progress<'a> = &'a mut dyn FnMut(usize, &[f64]);

/// A way to solve.
pub trait Solver: Sync {
    /// Solves; `progress` hears the iterations done and the means so far.
    fn solve(&self, fields: &Fields, progress: Progress<'_>) -> Result<Solution, TheoryError>;
}

/// The ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// A message along each edge, the cavity method: exact where it converges.
    Edges,
    /// One message a spin without the reaction of the others, as published: a fixed point of its own.
    Node,
    /// The same with Onsager's reaction term: exact where it converges.
    Amp,
    /// A factorisation of the Hessian.
    Exact,
    /// Gibbs sampling at β.
    Gibbs,
    /// Hamiltonian Monte Carlo at β.
    Hmc,
}

/// How a method goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Inverse temperature.
    pub beta: f64,
    /// The share of the old message that is kept in an iteration.
    pub damping: f64,
    /// The change of a mean, over the largest mean, at which an iteration has come to rest.
    pub tolerance: f64,
    /// Iterations at most.
    pub most_iterations: usize,
    /// Sweeps of each chain of a sampler, after half as many that are thrown away.
    pub sweeps: usize,
    /// The seed of a sampler.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { beta: 100.0, damping: 0.5, tolerance: 1e-10, most_iterations: 2_000, sweeps: 2_000, seed: 1 }
    }
}

impl Options {
    /// Refuses what makes no sense.
    pub fn validate(&self) -> Result<(), TheoryError> {
        if !(self.beta > 0.0 && self.beta.is_finite()) {
            return Err(TheoryError::setting("beta", "an inverse temperature above 0", self.beta));
        }
        if !(0.0..1.0).contains(&self.damping) {
            return Err(TheoryError::setting("damping", "0 or more, below 1", self.damping));
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
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Edges, Self::Node, Self::Amp, Self::Exact, Self::Gibbs, Self::Hmc];

    /// The name in commands.
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

    /// The solver.
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

/// The smallest eigenvalue over the largest below which a direction counts as flat.
const FLAT: f64 = 1e-12;

/// The largest absolute value, or infinity where one is no number.
fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |most, value| if value.is_finite() { f64::max(most, value.abs()) } else { f64::INFINITY })
}

/// Refuses a precision that is none.
fn check_precision(spin: usize, precision: f64, iteration: usize) -> Result<(), TheoryError> {
    match precision > 0.0 {
        true => Ok(()),
        false => Err(TheoryError::NegativePrecision { spin, iteration, precision }),
    }
}
