//! Mechanisms of attention, explained with numbers: one file per mechanism. Each returns text, JSON and a figure of the same
//! computation, made with the layers themselves.

pub mod attention;
pub mod catalogue;
pub mod cells;
pub mod complexity;
pub mod convolution;
pub mod dense;
pub mod embedding;
pub mod equivariance;
pub mod hard;
pub mod heads;
pub mod identity;
mod limits;
pub mod linear;
pub mod lstm;
pub mod masks;
mod matrix;
pub mod position;
pub mod scaling;
pub mod softmax;
pub mod window;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use regard_figures::{Figure, FigureError};
use regard_nn::{ConfigError, NnError};
use regard_ops::OpError;

/// The result of a demonstration.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Text for the terminal.
    pub text: String,
    /// JSON document.
    pub json: serde_json::Value,
    /// Figure.
    pub figure: Figure,
}

/// Progress of a longer computation.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Number of steps done.
    pub done: usize,
    /// Total number of steps.
    pub total: usize,
    /// The current step.
    pub what: String,
}

/// A mechanism could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    /// An option is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A layer failed.
    #[error(transparent)]
    Layer(#[from] NnError),
    /// An operation failed.
    #[error(transparent)]
    Op(#[from] OpError),
    /// The figure could not be drawn.
    #[error(transparent)]
    Figure(#[from] FigureError),
}

/// Draws `count` standard normal numbers.
fn normals(random: &mut ChaCha8Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| StandardNormal.sample(random)).collect()
}

fn random(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}
