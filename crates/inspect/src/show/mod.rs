//! What attention is, shown by numbers: one small file a mechanism, each giving text, JSON and a figure from the same
//! computation with the layers themselves.

pub mod attention;
pub mod cells;
pub mod complexity;
pub mod convolution;
pub mod dense;
pub mod equivariance;
pub mod heads;
pub mod identity;
mod limits;
pub mod lstm;
pub mod masks;
mod matrix;
pub mod position;
pub mod scaling;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use regard_figures::{Figure, FigureError};
use regard_nn::{ConfigError, NnError};
use regard_ops::OpError;

/// A mechanism, shown.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The numbers, for people.
    pub text: String,
    /// The same for programs.
    pub json: serde_json::Value,
    /// The same to look at.
    pub figure: Figure,
}

/// How far a longer computation is.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Done so far.
    pub done: usize,
    /// To be done in all.
    pub total: usize,
    /// What is done now.
    pub what: String,
}

/// A mechanism that cannot be shown as asked.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    /// An option makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A layer refused.
    #[error(transparent)]
    Layer(#[from] NnError),
    /// An operation refused.
    #[error(transparent)]
    Op(#[from] OpError),
    /// The figure cannot be drawn.
    #[error(transparent)]
    Figure(#[from] FigureError),
}

/// `count` standard normal numbers.
fn normals(random: &mut ChaCha8Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| StandardNormal.sample(random)).collect()
}

fn random(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}
