//! Events of a run, observers that receive them, and the request to stop.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to save and stop a run, shared by all clones.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks the run to stop.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether the run was asked to stop.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the flag that becomes true on [`ask`](Self::ask), for [`Pass::until`](regard_nn::Pass::until).
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }
}

/// Receives the events of a run.
pub trait Observer: Send {
    /// Called for each event.
    fn hear(&mut self, event: &Event);
}

/// An observer that ignores all events.
impl Observer for () {
    fn hear(&mut self, _: &Event) {}
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The run starts or is resumed.
    Started {
        /// Name of the task.
        task: &'static str,
        /// Number of parameters of the model.
        parameters: usize,
        /// Number of steps made before.
        step: u64,
        /// Number of steps of the whole run.
        steps: u64,
        /// Path of the model folder.
        folder: PathBuf,
    },
    /// A step was made.
    Step {
        /// Number of the step, from 1.
        step: u64,
        /// Mean loss of the step.
        loss: f32,
        /// Learning rate.
        rate: f32,
        /// Number of tokens in the step.
        tokens: usize,
    },
    /// The dev split was scored.
    Evaluated {
        /// Number of steps made before the evaluation.
        step: u64,
        /// Mean training loss since the previous evaluation.
        loss: f64,
        /// Scores by name.
        scores: BTreeMap<String, f64>,
        /// Name of the main score, which decides which weights are best.
        main: &'static str,
        /// Whether the main score is the best so far.
        best: bool,
    },
    /// Information for the user.
    Note(String),
    /// A problem that does not stop the run.
    Warning(String),
    /// Work without training steps begins, such as the final evaluation.
    Doing(String),
    /// Work without training steps has made progress.
    Progress {
        /// The work, such as `scoring`.
        what: &'static str,
        /// Number of batches done.
        done: usize,
        /// Number of all batches.
        all: usize,
    },
}
