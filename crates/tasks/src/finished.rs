//! The result of a training run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use regard_data::Split;
use serde::{Deserialize, Serialize};

use crate::task::{Better, Prediction, Sample};

/// The result of a training run. On other ranks than 0 it has no scores, samples or facts about the model.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Name of the task.
    pub task: &'static str,
    /// Path of the model folder.
    pub folder: PathBuf,
    /// Whether the folder holds a scored model; `false` if the run was asked to stop before that.
    pub finished: bool,
    /// Whether the run ended because it reached its time limit.
    pub out_of_time: bool,
    /// Number of steps made.
    pub step: u64,
    /// Seconds spent on training, without evaluation.
    pub seconds: f64,
    /// Number of tokens trained on, without padding.
    pub tokens: u64,
    /// Split that was scored: test, or dev if the data have no test split.
    pub split: Split,
    /// Scores on that split, by name; empty if the run was stopped.
    pub scores: BTreeMap<String, f64>,
    /// Name of the main score, which decides which weights are best.
    pub main: &'static str,
    /// Whether a higher or a lower main score is better.
    pub better: Better,
    /// Number of parameters of the network.
    pub parameters: usize,
    /// Step whose weights were kept because they scored best; `None` if the last weights were kept.
    pub kept: Option<u64>,
    /// Whether the loss decided as well which weights were kept.
    pub kept_by_loss: bool,
    /// Whether `regard look` has something to show of the model.
    pub is_seen: bool,
    /// Examples of the scored split with the model's predictions.
    pub samples: Vec<(Sample, Prediction)>,
    /// A few training examples that have an expected answer, with the model's predictions.
    pub seen: Vec<(Sample, Prediction)>,
}

/// What rank 0 tells the others about the end of a run.
#[derive(Serialize, Deserialize)]
pub(crate) struct Summary {
    folder: PathBuf,
    finished: bool,
    out_of_time: bool,
    step: u64,
    seconds: f64,
    tokens: u64,
}

impl Summary {
    pub(crate) fn of(Finished { folder, finished, out_of_time, step, seconds, tokens, .. }: &Finished) -> Self {
        let (finished, out_of_time, step, seconds, tokens) = (*finished, *out_of_time, *step, *seconds, *tokens);
        Self { folder: folder.clone(), finished, out_of_time, step, seconds, tokens }
    }

    /// Returns the result of the run on another rank.
    pub(crate) fn finished(self, task: &'static str, split: Split) -> Finished {
        let Self { folder, finished, out_of_time, step, seconds, tokens } = self;
        Finished {
            task,
            folder,
            finished,
            out_of_time,
            step,
            seconds,
            tokens,
            split,
            scores: BTreeMap::new(),
            main: "",
            better: Better::Higher,
            parameters: 0,
            kept: None,
            kept_by_loss: false,
            is_seen: false,
            samples: Vec::new(),
            seen: Vec::new(),
        }
    }
}
