//! The trainer that all tasks share.
//!
//! A run depends only on its configuration, data, seed, number of threads, instruction set and version. The order of examples
//! and all random numbers follow from the seed and the step, so a killed run that is resumed from its last checkpoint ends with
//! the same bits as one that was never interrupted.
//!
//! Several processes, the [`Ranks`], may make each step together: they have the same weights and add gradients in the order of
//! one process with as many threads. Rank 0 alone scores, writes and reports.

pub(crate) mod agreement;
mod batch_sum;
mod checkpoint;
mod conditions;
mod config;
mod journal;
mod observer;
mod ordered_sum;
mod rank_gradients;
pub(crate) mod share;
mod step_gradients;

use std::sync::Mutex;
use std::time::Instant;

use burn::module::Module;
use regard_nn::{NnError, Pass};
use regard_ops::{AdamW, AdamWOptions, Decay};
use regard_system::Ranks;
use serde_json::{Value, json};

use self::batch_sum::BatchSum;
pub use self::checkpoint::State;
use self::checkpoint::{Best, Extremes, Snapshot};
pub(crate) use self::checkpoint::{Checkpoints, newest_weights};
pub use self::conditions::Conditions;
pub use self::config::{Keep, Schedule, TrainConfig};
use self::journal::Journal;
pub use self::observer::{Event, Observer, Stop};
pub use self::share::parts;
use self::step_gradients::Passed;
pub use self::step_gradients::StepGradients;
use crate::error::TaskError;
use crate::folder::{Folder, METRICS};
use crate::run::Watch;
use crate::task::{Evaluation, Parts, Settings, Task};
use crate::watch::Snapshots;
use crate::weights;

/// Approximate number of points of the loss curve that a run writes to its metrics.
const CURVE_POINTS: u64 = 200;
/// Number of steps in a row without finite gradients after which a run fails.
const MOST_BROKEN: u32 = 50;

/// The weights that a run starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Initial weights, for a new run.
    Scratch,
    /// The newest checkpoint in the folder, to resume a run.
    Checkpoint,
}

/// The folder and the data of a run, and how it starts.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    /// Model folder, which gets the metrics.
    pub folder: &'a Folder,
    /// Checkpoints of the folder.
    pub checkpoints: Checkpoints,
    /// Fingerprint of the examples, which must not change when the run is resumed.
    pub data: &'a str,
    /// Weights that the run starts from.
    pub from: Origin,
    /// Whether the run writes what a watcher sees.
    pub watch: Watch,
    /// Whether to resume even if the next steps cannot be bit-identical to those of an uninterrupted run.
    pub force: bool,
    /// Processes that train the model together.
    pub ranks: &'a Ranks,
}

/// The outcome of a training run.
#[derive(Debug)]
pub struct Trained<M> {
    /// Model with the weights that [`Keep`] selects, without gradients.
    pub model: M,
    /// State at the end of the run.
    pub state: State,
    /// Reason why the run ended.
    pub end: End,
}

/// The reason why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All steps were made, or the score stopped improving.
    Whole,
    /// The time limit was reached.
    OutOfTime,
    /// The run was asked to stop.
    Stopped,
}

/// A run in progress.
pub(crate) struct Run<'a, T: Task> {
    task: &'a T,
    parts: &'a Parts<T::Part>,
    config: &'a TrainConfig,
    seed: u64,
    steps: u64,
    model: Option<T::Model>,
    /// Model with the best weights so far, without gradients, if the run keeps them.
    best: Option<T::Model>,
    optimiser: AdamW,
    state: State,
    plan: Vec<Vec<usize>>,
    checkpoints: Checkpoints,
    /// Metrics, which rank 0 writes.
    journal: Option<Journal>,
    /// Snapshots of an example, if the run is watched. Rank 0 writes them.
    snapshots: Option<Snapshots>,
    ranks: Ranks,
}

impl<'a, T: Task> Run<'a, T> {
    /// Prepares a run of `model`, the task's network, whose weights a checkpoint may replace. Returns an error if resuming could
    /// not be bit-identical to an uninterrupted run, unless forced.
    pub(crate) fn new(
        task: &'a T,
        parts: &'a Parts<T::Part>,
        mut model: T::Model,
        Place { folder, mut checkpoints, data, from, force, watch, ranks }: Place,
        observer: &mut dyn Observer,
    ) -> Result<Self, TaskError> {
        let config = task.config().train();
        let mut optimiser =
            AdamW::new(options(config, 0.0), (config.clip > 0.0).then_some(config.clip), Decay::Matrices);
        let rates = weights::stored(&model).into_keys().map(|path| (task.rate(&path), path));
        optimiser.rates = rates.filter(|(rate, _)| *rate != 1.0).map(|(rate, path)| (path, rate)).collect();
        let conditions = Conditions::of(data, ranks);
        let (mut state, mut best) = (State { conditions: conditions.clone(), ..State::default() }, None);
        if from == Origin::Checkpoint {
            let warn = |error: TaskError| observer.hear(&Event::Warning(format!("{error}; using an older one")));
            let saved = checkpoints.newest(warn)?;
            for difference in saved.state.conditions.differences(&conditions) {
                if !force {
                    let problem =
                        format!("{difference}: the run would not be bit-identical; --force resumes it anyway");
                    return Err(TaskError::folder(folder.path(), problem));
                }
                observer.hear(&Event::Warning(format!("{difference}: from here on the run is not bit-identical")));
            }
            model = weights::load(model, saved.weights, folder.path())?;
            let restored = optimiser.restore(&model, saved.state.optimiser_steps, saved.moments);
            restored.map_err(|error| TaskError::folder(folder.path(), error.to_string()))?;
            best = saved.best.map(|best| weights::load(model.valid(), best, folder.path())).transpose()?;
            state = saved.state;
            state.conditions = conditions;
        }
        let snapshots = match watch {
            Watch::On if ranks.is_first() => Some(Snapshots::of(folder.path(), state.step)?),
            Watch::On | Watch::Off => None,
        };
        let plan = task.plan(&parts.train, state.epoch);
        if plan.is_empty() {
            return Err(TaskError::input("training data", "at least one example", "none"));
        }
        let mut run = Self {
            task,
            parts,
            config,
            seed: task.config().seed(),
            steps: 0,
            model: Some(model),
            best,
            optimiser,
            state,
            plan,
            checkpoints,
            journal: None,
            snapshots,
            ranks: ranks.clone(),
        };
        run.steps = run.total();
        if run.state.step > run.steps {
            let problem = format!("{} steps have been made already; --steps must be at least that", run.state.step);
            return Err(TaskError::folder(folder.path(), problem));
        }
        if !ranks.is_alone() {
            let state = run.optimiser.state();
            agreement::check_weights(ranks, run.state.step, &weights::stored(run.model()), state.1)?;
        }
        if ranks.is_first() {
            run.journal = Some(Journal::open(folder.file(METRICS), run.state.metrics_bytes)?);
        }
        Ok(run)
    }

    /// Trains until the end, a request to stop or the deadline, and writes checkpoints and metrics into the folder. At least one
    /// step is made before the deadline counts.
    pub(crate) fn go(
        mut self,
        folder: &Folder,
        observer: &mut dyn Observer,
        stop: &Stop,
        deadline: Option<Instant>,
    ) -> Result<Trained<T::Model>, TaskError> {
        observer.hear(&Event::Started {
            task: T::NAME,
            parameters: self.model().num_params(),
            step: self.state.step,
            steps: self.steps,
            folder: folder.path().to_path_buf(),
        });
        let first = self.state.step;
        if let Some(what) = self.task.preparation().filter(|_| self.state.step < self.steps) {
            observer.hear(&Event::Doing(what.to_string()));
            watched(what, observer, stop, |pass| self.task.prepare(&self.parts.train, &self.model().valid(), pass))?;
        }
        if first == 0 {
            self.take_snapshot(observer);
        }
        while self.state.evaluation_due || (self.state.step < self.steps && !self.is_stale()) {
            if self.state.evaluation_due {
                if !self.evaluate(observer, stop)? {
                    self.save()?;
                    return self.end(End::Stopped);
                }
                self.save_when_due()?;
                continue;
            }
            let is_late = self.state.step > first && deadline.is_some_and(|deadline| Instant::now() >= deadline);
            let end = agreement::end(&self.ranks, stop.is_asked(), is_late)?;
            if let Some(end) = end {
                self.save()?;
                return self.end(end);
            }
            if !self.step(observer, stop)? {
                continue;
            }
            let step = self.state.step;
            if step.is_multiple_of(self.steps.div_ceil(CURVE_POINTS)) || step == self.steps {
                self.add_point()?;
            }
            self.state.evaluation_due = step.is_multiple_of(self.config.evaluate_every) || step == self.steps;
            if !self.state.evaluation_due {
                self.save_when_due()?;
            }
        }
        self.end(End::Whole)
    }

    fn model(&self) -> &T::Model {
        self.model.as_ref().expect("put back after each step")
    }

    /// Returns the number of steps of the whole run. All epochs count as many batches as the first. Another order of the examples
    /// may give a batch more or less, but to know that, all epochs would have to be planned before the first step.
    fn total(&self) -> u64 {
        let steps = self.config.steps.unwrap_or(u64::MAX);
        let Some(epochs) = self.config.epochs else { return steps };
        let batches = self.task.plan(&self.parts.train, 0).len() as u64;
        (batches.saturating_mul(epochs) / self.config.accumulate as u64).clamp(1, steps)
    }

    fn is_stale(&self) -> bool {
        self.config.patience > 0 && self.state.stale >= self.config.patience
    }

    /// Returns the next batch of the plan; after the last one it plans the next epoch.
    fn next_batch(&mut self) -> Vec<usize> {
        if self.state.batch >= self.plan.len() {
            self.state.epoch += 1;
            self.state.batch = 0;
            self.plan = self.task.plan(&self.parts.train, self.state.epoch);
        }
        self.state.batch += 1;
        self.plan[self.state.batch - 1].clone()
    }

    /// Updates the weights once. Returns `false`, without an update, if the run is asked to stop between two batches of the step.
    fn step(&mut self, observer: &mut dyn Observer, stop: &Stop) -> Result<bool, TaskError> {
        let start = Instant::now();
        let before = (self.config.accumulate > 1).then(|| self.state.clone());
        let step = self.state.step + 1;
        let rate = self.config.rate(step, self.steps);
        let pass = Pass::training(self.seed).with_precision(self.config.precision).at("step", step as usize);
        let ranks = self.ranks.clone();
        let mut sum = BatchSum::new(self.task, &self.parts.train, &ranks, self.model());
        let mut is_asked = false;
        for part in 0..self.config.accumulate {
            if part > 0 && is_asked {
                self.state = before.expect("there are several batches");
                self.plan = self.task.plan(&self.parts.train, self.state.epoch);
                return Ok(false);
            }
            let batch = self.next_batch();
            let model = self.model.as_ref().expect("put back after each step");
            is_asked = sum.add(&batch, model, &mut self.state.memory, &pass.at("batch", part), stop)?;
        }
        let Passed { means, gradients } = sum.into_sum().expect("at least one batch");
        let (loss, tokens) = (means.loss, means.tokens);
        self.optimiser.options = options(self.config, rate);
        let model = self.model.take().expect("put back after each step");
        let (model, norm) = self.optimiser.step_with(model, gradients)?;
        self.model = Some(model);
        self.state.step = step;
        self.watch(norm, observer)?;
        self.state.since_evaluation.add(loss);
        self.state.since_point.add(loss);
        self.state.tokens += tokens as u64;
        self.state.seconds += start.elapsed().as_secs_f64();
        observer.hear(&Event::Step { step, loss: loss as f32, rate, tokens });
        Ok(true)
    }

    /// Counts steps without finite gradients; returns an error after too many in a row.
    fn watch(&mut self, norm: f32, observer: &mut dyn Observer) -> Result<(), TaskError> {
        if norm.is_finite() {
            self.state.broken = 0;
            return Ok(());
        }
        self.state.broken += 1;
        let step = self.state.step;
        if self.state.broken == 1 {
            observer.hear(&Event::Warning(format!("step {step}: the gradients are not finite; the step is skipped")));
        }
        match self.state.broken >= MOST_BROKEN {
            true => Err(TaskError::Diverged { step, count: self.state.broken }),
            false => Ok(()),
        }
    }

    /// Scores the dev split on rank 0. Returns `false` if the run is asked to stop meanwhile; the evaluation is then still due on
    /// resuming.
    fn evaluate(&mut self, observer: &mut dyn Observer, stop: &Stop) -> Result<bool, TaskError> {
        let own = match self.ranks.is_first() {
            true => Some((self.score(observer, stop)?, self.state.stale)),
            false => None,
        };
        if self.ranks.is_alone() {
            return Ok(own.is_some_and(|(is_scored, _)| is_scored));
        }
        let (is_scored, stale) = agreement::of_first(&self.ranks, own.as_ref())?;
        if is_scored {
            (self.state.evaluation_due, self.state.stale) = (false, stale);
        }
        Ok(is_scored)
    }

    fn score(&mut self, observer: &mut dyn Observer, stop: &Stop) -> Result<bool, TaskError> {
        let limit = self.config.evaluate_examples;
        let limit = (limit > 0).then_some(limit);
        let model = self.model().valid();
        let Some(evaluation) = scored(self.task, &self.parts.dev, &model, limit, observer, stop)? else {
            return Ok(false);
        };
        self.state.evaluation_due = false;
        self.take_snapshot(observer);
        let step = self.state.step;
        let worth = evaluation.worth();
        let (improves, best) = match self.config.keep {
            Keep::Both => self.compare_both(worth, &evaluation)?,
            Keep::Best | Keep::Last => {
                let best = self.state.best.is_none_or(|best| worth > f64::from_bits(best.worth_bits));
                (best, best)
            }
        };
        self.state.stale = if improves { 0 } else { self.state.stale + 1 };
        if best {
            self.state.best = Some(Best { step, worth_bits: worth.to_bits() });
            self.best = (self.config.keep != Keep::Last).then_some(model);
        }
        let loss = self.state.since_evaluation.take_mean();
        let mut line = self.line("dev", loss);
        line["metrics"] = json!(evaluation.scores);
        line["best"] = json!(best);
        self.write(&line)?;
        let main = evaluation.main;
        observer.hear(&Event::Evaluated { step, loss, scores: evaluation.scores, main, best });
        Ok(true)
    }

    /// Writes what the model does with the example of a run that is watched.
    fn take_snapshot(&mut self, observer: &mut dyn Observer) {
        let Some(mut snapshots) = self.snapshots.take() else { return };
        if let Err(error) = snapshots.take(self.task, self.parts, &self.model().valid(), self.state.step) {
            let said = format!("the maps of an example cannot be written: {error}; the run goes on without them");
            observer.hear(&Event::Warning(said));
        }
        self.snapshots = Some(snapshots);
    }

    /// Compares a score and its loss with the best of each so far. Returns whether one of them is as good, and whether both are.
    fn compare_both(&mut self, worth: f64, evaluation: &Evaluation) -> Result<(bool, bool), TaskError> {
        let Some(loss) = evaluation.scores.get("loss").copied() else {
            let problem = "the scores of these data have no loss; use best or last".to_string();
            return Err(TaskError::Settings { place: "train.keep".to_string(), problem });
        };
        let Extremes { worth_bits, loss_bits } = self
            .state
            .extremes
            .unwrap_or(Extremes { worth_bits: f64::NEG_INFINITY.to_bits(), loss_bits: f64::INFINITY.to_bits() });
        let (highest, lowest) = (f64::from_bits(worth_bits), f64::from_bits(loss_bits));
        let (is_higher, is_lower) = (worth >= highest, loss <= lowest);
        let extremes = Extremes { worth_bits: highest.max(worth).to_bits(), loss_bits: lowest.min(loss).to_bits() };
        self.state.extremes = Some(extremes);
        Ok((is_higher || is_lower, is_higher && is_lower))
    }

    /// Writes a point of the loss curve: the mean training loss since the previous point.
    fn add_point(&mut self) -> Result<(), TaskError> {
        let loss = self.state.since_point.take_mean();
        let line = self.line("train", loss);
        self.write(&line)
    }

    /// Writes a line of the metrics, on rank 0.
    fn write(&mut self, line: &Value) -> Result<(), TaskError> {
        self.journal.as_mut().map_or(Ok(()), |journal| journal.write(line))
    }

    /// Returns the keys that every line of the metrics has; `loss` is the mean training loss since the last line of this split.
    fn line(&self, split: &str, loss: f64) -> Value {
        let State { step, epoch, tokens, seconds, .. } = self.state;
        json!({
            "step": step,
            "epoch": epoch,
            "loss": loss,
            "learning_rate": self.config.rate(step, self.steps),
            "tokens": tokens,
            "seconds": seconds,
            "split": split,
        })
    }

    /// Writes a checkpoint if one is due, and at the end of the run.
    fn save_when_due(&mut self) -> Result<(), TaskError> {
        let step = self.state.step;
        let is_due = step.is_multiple_of(self.config.checkpoint_every) || step == self.steps || self.is_stale();
        if is_due { self.save() } else { Ok(()) }
    }

    /// Writes a checkpoint, on rank 0.
    fn save(&mut self) -> Result<(), TaskError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let (steps, moments) = self.optimiser.state();
        self.state.optimiser_steps = steps;
        self.state.metrics_bytes = journal.sync()?;
        let model = self.model.as_ref().expect("put back after each step");
        let best = self.best.as_ref().map(weights::stored);
        let snapshot = Snapshot { state: &self.state, weights: weights::stored(model), best, moments };
        self.checkpoints.save(&snapshot)
    }

    fn end(mut self, end: End) -> Result<Trained<T::Model>, TaskError> {
        let model = self.best.take().unwrap_or_else(|| self.model().valid());
        Ok(Trained { model, state: self.state, end })
    }
}

/// Scores a model on at most `limit` examples and reports the progress; returns `None` if the run is asked to stop meanwhile.
pub(crate) fn scored<T: Task>(
    task: &T,
    part: &T::Part,
    model: &T::Model,
    limit: Option<usize>,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Option<Evaluation>, TaskError> {
    watched("scoring", observer, stop, |pass| task.evaluate(part, model, limit, pass))
}

/// Calls `work` with a pass whose progress is reported as that of `what`; returns `None` if the run is asked to stop meanwhile.
fn watched<R>(
    what: &'static str,
    observer: &mut dyn Observer,
    stop: &Stop,
    work: impl FnOnce(&Pass) -> Result<R, TaskError>,
) -> Result<Option<R>, TaskError> {
    let observer = Mutex::new(observer);
    // Called from any thread.
    let tell = |done, all| {
        if let Ok(mut observer) = observer.lock() {
            observer.hear(&Event::Progress { what, done, all });
        }
    };
    match work(&Pass::inference().until(stop.flag()).with_progress(&tell)) {
        Err(TaskError::Nn(NnError::Cancelled)) => Ok(None),
        result => result.map(Some),
    }
}

fn options(config: &TrainConfig, learning_rate: f32) -> AdamWOptions {
    AdamWOptions {
        learning_rate,
        beta1: config.beta1,
        beta2: config.beta2,
        epsilon: config.epsilon,
        weight_decay: config.weight_decay,
        l2: config.l2,
    }
}
