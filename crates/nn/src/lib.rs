//! Every mechanism of attention as a Burn module on the fused operations of `regard-ops`.
//!
//! A layer is one file: a configuration that is checked before anything is built, the module, its forward pass.
//! [`Init`] says where the first weights come from, [`Pass`] what goes with a forward pass (training or not, random
//! numbers, what to look at), [`Capture`] gives the attention weights of any layer.
#![forbid(unsafe_code)]

mod capture;
pub mod config;
mod error;
mod init;
pub mod layers;
mod lengths;
pub mod models;
mod pass;
mod rows;

pub use capture::{AttentionMap, Capture, Wanted};
pub use error::{ConfigError, NnError};
pub use init::{Init, LayerPath, Spread};
pub use pass::Pass;
pub use rows::row_indices;

/// The README's examples are run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
