//! Attention mechanisms and models as Burn modules, built on the fused operations of `regard-ops`.
//!
//! Each layer is one file: a validated configuration, the module and its forward pass. [`Init`] creates the initial weights.
//! [`Pass`] carries the settings of a forward pass: training or inference, random numbers, capture and ablation. [`Capture`]
//! collects the attention weights of any layer, [`Ablation`] switches parts of a model off, and an attention layer supports
//! both through its [`Heads`].
#![forbid(unsafe_code)]

mod ablation;
mod capture;
pub mod config;
mod error;
mod heads;
mod init;
pub mod layers;
mod lengths;
pub mod models;
mod pass;
mod rows;
mod temperature;

pub use ablation::{Ablation, Means, Mode};
pub use capture::{AttentionMap, Capture, Wanted};
pub use error::{ConfigError, NnError};
pub use heads::{AttentionKind, Heads, Inventory, Side, Site};
pub use init::{Init, LayerPath, Spread};
pub use pass::Pass;
pub use rows::row_indices;
pub use temperature::Temperature;

/// Runs the examples of the README as doc-tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
