//! In-context learning as a spin glass: the task, the couplings and fields it makes, solvers, and what they show.
#![forbid(unsafe_code)]

pub mod asymptotic;
pub mod blocks;
mod error;
pub mod fields;
pub mod fitted;
pub mod landscape;
pub mod prompt;
mod random;
pub mod show;
pub mod solver;
pub mod spectrum;
pub mod statistics;
pub mod sweep;
pub mod train;
pub mod weights;

pub use error::TheoryError;
