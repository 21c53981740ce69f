//! The state of a comparison: what is compared, and the runs with their outcomes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::summary::{self, Main, Row};
use super::vary::{Variant, Vary, combinations};
use crate::task::Better;
use crate::train::Conditions;

/// The state of a comparison, saved as `compare.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// What is compared.
    #[serde(flatten)]
    pub plan: Plan,
    /// Number of runs of each variant.
    pub seeds: u64,
    /// Whether all runs have ended.
    pub finished: bool,
    /// Summary with one row per variant.
    #[serde(skip_deserializing)]
    pub table: Vec<Row>,
    /// All runs, by variant and then by seed.
    pub runs: Vec<Entry>,
}

/// What is compared. Two comparisons with equal plans are the same, and the second continues the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the task.
    pub task: String,
    /// Keys that differ between variants, with their values.
    pub vary: Vec<Vary>,
    /// `--set` settings of all runs.
    pub sets: Vec<String>,
    /// Content of the `--config` file.
    pub config: Option<String>,
    /// Absolute path given with `--data`.
    pub data: Option<PathBuf>,
    /// Number given with `--steps`.
    pub steps: Option<u64>,
    /// First seed.
    pub seed: u64,
    /// Hash of the data and of every variant's full configuration. A comparison is resumed only if it is unchanged.
    #[serde(default)]
    pub fingerprint: String,
    /// Further conditions that the bits of the runs depend on. Runs under different conditions cannot be compared.
    #[serde(default)]
    pub conditions: Conditions,
}

impl Plan {
    /// Returns whether two comparisons are the same except for their conditions.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Self { conditions: other.conditions.clone(), ..self.clone() } == *other
    }
}

/// A run of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Values of the varied keys.
    pub settings: Variant,
    /// Seed of the run.
    pub seed: u64,
    /// Model folder of the run, relative to the folder of the comparison.
    pub folder: String,
    /// Outcome of the run.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Outcome {
    /// The run ended with a scored model.
    Finished(Measured),
    /// The run was stopped or has not begun.
    Stopped,
    /// The run failed.
    Failed {
        /// Error message.
        error: String,
    },
}

/// The scores and costs of a finished run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Name of the main score.
    pub main: String,
    /// Whether a higher or a lower main score is better.
    pub better: Better,
    /// Scores on the held-out split by name; `None` if a score is not finite.
    pub metrics: BTreeMap<String, Option<f64>>,
    /// Number of parameters of the network.
    pub parameters: usize,
    /// Number of steps made.
    pub steps: u64,
    /// Seconds spent on training.
    pub seconds: f64,
    /// Tokens per second of training.
    pub tokens_per_second: f64,
}

impl Outcome {
    /// Returns the scores and costs of a finished run; `None` for others.
    pub fn measured(&self) -> Option<&Measured> {
        match self {
            Self::Finished(measured) => Some(measured),
            Self::Stopped | Self::Failed { .. } => None,
        }
    }
}

impl Entry {
    /// Returns the values of the varied keys, separated by commas.
    pub fn name(&self) -> String {
        self.settings.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ")
    }
}

impl Document {
    /// Returns the varied keys.
    pub fn keys(&self) -> Vec<String> {
        self.plan.vary.iter().map(|vary| vary.key.clone()).collect()
    }

    pub(super) fn main(&self) -> Option<Main> {
        let first = self.runs.iter().find_map(|entry| entry.outcome.measured())?;
        Some(Main { name: first.main.clone(), better: first.better })
    }

    pub(super) fn summarise(&mut self) {
        let variants = combinations(&self.plan.vary);
        let of = |variant: &Variant| self.runs.iter().filter(|entry| entry.settings == *variant).collect::<Vec<_>>();
        self.table = variants.iter().map(|variant| Row::of(&of(variant))).collect();
    }

    /// Formats the table of results and the errors of failed runs.
    pub fn text(&self) -> String {
        let mut text = summary::text(&summary::cells(&self.keys(), &self.table, self.main().as_ref()));
        for row in &self.table {
            for error in &row.errors {
                text += &format!("{} failed, {error}\n", row.name);
            }
        }
        if let Some(main) = self.main().filter(|_| text.contains(" *")) {
            text += &format!("* best {}; scores are those of the held-out split\n", main.name);
        }
        text
    }
}
