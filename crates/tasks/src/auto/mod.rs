//! The automatic choice: settings that follow the data of a run.
//!
//! The defaults of a task suit its built-in data. Given other data, a task looks at [`Facts`] about them and returns a [`Choice`]:
//! settings, each with its reason. They lie between the defaults and what the user sets, so anything set by hand wins. A rule is
//! a smooth function of the facts and knows no data set by name.

mod choice;
mod explained;
mod facts;
mod rules;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use self::choice::{Asked, Choice, Reason};
pub use self::facts::Facts;
pub(crate) use self::rules::{Length, Work, by_size, count, rounded, seconds, share, significant};

/// Whether a run chooses settings by its data: the key `auto` of every configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Auto {
    /// The run chooses what the user has not set, if the user gave the data.
    #[default]
    On,
    /// The run uses the plain defaults.
    Off,
}
