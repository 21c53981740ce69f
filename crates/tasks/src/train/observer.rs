//! What is to be heard of a run while it goes, and how it is stopped.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Asks a run to save and stop. All clones are one.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From now on.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// What becomes true when it is asked, for [`Pass::until`](regard_nn::Pass::until).
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }
}

/// Hears of a run.
pub trait Observer: Send {
    /// Something has happened.
    fn hear(&mut self, event: &Event);
}

/// An observer that does not listen.
impl Observer for () {
    fn hear(&mut self, _: &Event) {}
}

/// What happens in a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It begins, or goes on.
    Started {
        /// The task.
        task: &'static str,
        /// Parameters of the model.
        parameters: usize,
        /// Steps made before.
        step: u64,
        /// Steps in all.
        steps: u64,
        /// The folder it writes.
        folder: PathBuf,
    },
    /// A step was made.
    Step {
        /// The number of the step, from 1.
        step: u64,
        /// The loss of the step.
        loss: f32,
        /// Learning rate.
        rate: f32,
        /// Tokens in it.
        tokens: usize,
    },
    /// The dev split was scored.
    Evaluated {
        /// After this step.
        step: u64,
        /// Mean training loss since the last one.
        loss: f64,
        /// The scores.
        scores: BTreeMap<String, f64>,
        /// The one that decides.
        main: &'static str,
        /// Whether none was better.
        best: bool,
    },
    /// Something that is good to know.
    Note(String),
    /// Something the user should know that does not stop the run.
    Warning(String),
    /// A part of the work that has no steps, such as the last evaluation.
    Doing(String),
    /// Some batches of an evaluation are done.
    Scored {
        /// Batches that are done.
        done: usize,
        /// Batches in all.
        all: usize,
    },
}
