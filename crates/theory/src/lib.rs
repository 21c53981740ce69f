//! In-context learning as a spin glass: the regression task, its couplings and fields, solvers, training and figures.
#![forbid(unsafe_code)]

pub mod asymptotic;
pub mod blocks;
mod error;
pub mod fields;
pub mod fitted;
mod journal;
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
