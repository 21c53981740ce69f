//! Every mechanism of attention as a Burn module on the fused operations of `regard-ops`.
//!
//! A layer is one file: a configuration that is checked before anything is built, the module, its forward pass.
//! [`Init`] says where the first weights come from, [`Pass`] what goes with a forward pass (training or not, random
//! numbers, what to look at and what to leave out), [`Capture`] gives the attention weights of any layer, [`Ablation`] switches
//! parts of a model off, [`Heads`] is what an attention layer owns to take part in both.
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

pub use ablation::{Ablation, Means, Mode};
pub use capture::{AttentionMap, Capture, Wanted};
pub use error::{ConfigError, NnError};
pub use heads::{AttentionKind, Heads, Inventory, Side, Site};
pub use init::{Init, LayerPath, Spread};
pub use pass::Pass;
pub use rows::row_indices;

/// The README's examples are run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
