//! Training runs of any task: from a request to a model folder.

mod resolve;
mod start;

use std::collections::BTreeMap;
use std::fs;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use burn::module::Module;
use regard_inspect::count;
use regard_nn::Pass;
use regard_ops::Precision;
use regard_system::Ranks;

use self::resolve::{chosen, follows_data, plain};
use self::start::{Start, begin, resume, started};
pub(crate) use self::start::{newest, parts_of, restored};
use crate::error::TaskError;
use crate::finished::{Finished, Summary};
use crate::folder::{Description, Folder, METRICS, MODEL, REPORT, sha256};
use crate::opened::{Model, Opened};
use crate::report::{Story, page};
use crate::settings::Resolved;
use crate::survey::Survey;
use crate::task::{Better, Parts, Prediction, Sample, Settings, Task};
use crate::train::{End, Event, Keep, Observer, Origin, Place, Run, Stop, Trained, agreement, scored};
use crate::watch::Live;
use crate::weights::{self, Storage};

/// Number of held-out examples that are shown after training.
const SHOWN: usize = 6;
/// Number of training examples that are shown after training.
const SEEN: usize = 2;

/// The options of `regard train`.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Configuration file, which takes precedence over the task's defaults.
    pub config: Option<PathBuf>,
    /// `key=value` settings, which take precedence over both.
    pub sets: Vec<String>,
    /// Path to the examples; replaces `data.path`.
    pub data: Option<PathBuf>,
    /// Model folder; by default a new one in `runs`, or the task's newest one there when a run is resumed.
    pub out: Option<PathBuf>,
    /// Number of steps; replaces `train.steps`.
    pub steps: Option<u64>,
    /// Time limit in minutes. A run that ends there can be resumed.
    pub minutes: Option<f64>,
    /// Seed of the initial weights, the order of examples and dropout.
    pub seed: Option<u64>,
    /// Precision of large matrix products; replaces `train.precision`.
    pub precision: Option<Precision>,
    /// Whether the run can be watched while it goes on; see [`watch`](crate::watch).
    pub watch: Watch,
    /// Whether to resume a run even if its next steps cannot be bit-identical to those of an uninterrupted run.
    pub force: bool,
    /// What to do with given keys that the chosen kind of network does not have.
    pub unused: UnusedKeys,
    /// Processes that train the model together: all of them make this request. By default this process is alone.
    pub ranks: Ranks,
}

/// Whether a run can be watched from outside. Its weights are the same either way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Watch {
    /// The run writes its metrics only.
    #[default]
    Off,
    /// The run writes its progress and the maps of an example, too, and can be asked to stop; see [`watch`](crate::watch).
    On,
}

/// What to do with keys of `[model]` that were given although the chosen kind of network does not have them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnusedKeys {
    /// Return an error.
    #[default]
    Refused,
    /// Ignore the keys, because another variant of a comparison uses them.
    Dropped,
}

/// A task whose types are erased, so that it can be chosen by name.
pub trait Kind: Sync {
    /// Returns the name of the task in commands.
    fn name(&self) -> &'static str;

    /// Returns the commented default configuration.
    fn config(&self) -> &'static str;

    /// Resolves the configuration of a request, with all defaults and what follows the data, and lists the keys that it does not
    /// use. Returns an error if it is invalid, before anything is written.
    fn configured(&self, request: &Request) -> Result<Resolved<serde_json::Value>, TaskError>;

    /// Returns the fingerprint of the data of a configuration, which changes when the data do.
    fn fingerprint(&self, config: &serde_json::Value) -> Result<String, TaskError>;

    /// Trains a model and writes its folder.
    fn train(
        &self,
        request: &Request,
        from: Origin,
        observer: &mut dyn Observer,
        stop: &Stop,
    ) -> Result<Finished, TaskError>;

    /// Opens a model folder of this task.
    fn open(&self, folder: Folder, description: Description, storage: Storage) -> Result<Arc<dyn Opened>, TaskError>;

    /// Reads the data of a request and counts what they have, without notes.
    fn survey(&self, request: &Request) -> Result<Survey, TaskError>;

    /// Returns what a training would say about the data of a request before it starts.
    fn notes(&self, request: &Request) -> Result<Vec<String>, TaskError>;
}

/// Returns a task by its type: how a program uses a [`Task`] of its own.
pub const fn kind_of<T: Task>() -> &'static dyn Kind {
    &Of::<T>(PhantomData)
}

/// The [`Kind`] of the task `T`.
struct Of<T>(PhantomData<fn() -> T>);

impl<T: Task> Kind for Of<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn config(&self) -> &'static str {
        T::CONFIG
    }

    fn configured(&self, request: &Request) -> Result<Resolved<serde_json::Value>, TaskError> {
        let Resolved { config, unused, given, chosen } = chosen::<T>(request)?;
        Ok(Resolved { config: serde_json::to_value(config).expect("plain values"), unused, given, chosen })
    }

    fn fingerprint(&self, config: &serde_json::Value) -> Result<String, TaskError> {
        let config: T::Config = serde_json::from_value(config.clone())
            .map_err(|error| TaskError::Settings { place: "configuration".to_string(), problem: error.to_string() })?;
        config.fingerprint()
    }

    fn train(
        &self,
        request: &Request,
        from: Origin,
        observer: &mut dyn Observer,
        stop: &Stop,
    ) -> Result<Finished, TaskError> {
        // Rank 0 alone reports and is watched.
        let is_first = request.ranks.is_first();
        let silent: &mut dyn Observer = &mut ();
        let observer = if is_first { observer } else { silent };
        let trained = match request.watch {
            Watch::On if is_first => trained::<T>(request, from, &mut Live::new(observer, stop), stop),
            Watch::On | Watch::Off => trained::<T>(request, from, observer, stop),
        };
        trained.inspect_err(|error| request.ranks.leave(error))
    }

    fn open(&self, folder: Folder, description: Description, storage: Storage) -> Result<Arc<dyn Opened>, TaskError> {
        Ok(Arc::new(Model::<T>::open(folder, description, storage)?))
    }

    fn survey(&self, request: &Request) -> Result<Survey, TaskError> {
        let plain = plain::<T>(request)?;
        // Which keys are used depends on the kind of network, which may follow the data: `notes` refuses the others.
        let config = if follows_data(&plain.config) { plain.config } else { plain.all_used()? };
        Ok(T::raw(&config)?.map_or_else(Survey::default, |splits| Survey::new(&splits)))
    }

    fn notes(&self, request: &Request) -> Result<Vec<String>, TaskError> {
        let resolved = chosen::<T>(request)?;
        let lines = resolved.chosen.clone();
        Ok([lines, started::<T>(resolved.all_used()?)?.1.notes].concat())
    }
}

/// Trains a model and writes its folder. If this rank fails, it has still to leave the others.
fn trained<T: Task>(
    request: &Request,
    from: Origin,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Finished, TaskError> {
    let ranks = &request.ranks;
    let deadline = request.minutes.map(|minutes| deadline(Instant::now(), minutes)).transpose()?;
    observer.hear(&Event::Doing("reading the data".to_string()));
    let Start { task, parts, mut model, folder, checkpoints, from, mut description, data } = match from {
        Origin::Scratch => begin::<T>(request)?,
        Origin::Checkpoint => resume::<T>(request)?,
    };
    if from == Origin::Scratch {
        description.chosen.iter().for_each(|line| observer.hear(&Event::Note(line.clone())));
    }
    parts.notes.iter().for_each(|note| observer.hear(&Event::Note(note.clone())));
    if from == Origin::Scratch {
        model = task.warm(model)?;
        description.counted = counted(&task, &model);
    }
    let run = Run::new(
        &task,
        &parts,
        model,
        Place { folder: &folder, checkpoints, data: &data, from, force: request.force, watch: request.watch, ranks },
        observer,
    )?;
    if ranks.is_first() {
        // Metrics and report will be written anew; the files of the model stay valid until then.
        description.files.remove(METRICS);
        description.files.remove(REPORT);
        // Scores from an earlier end belong to other weights.
        (description.finished, description.scores, description.data) = (false, None, data.clone());
        folder.describe(&description)?;
    }
    let trained = run.go(&folder, observer, stop, deadline)?;
    let finished = match ranks.is_first() {
        true => Some(finish(&task, &parts, trained, &folder, &mut description, observer, stop)?),
        false => None,
    };
    if ranks.is_alone() {
        return Ok(finished.expect("this process has finished the run"));
    }
    let summary = agreement::of_first(ranks, finished.as_ref().map(Summary::of).as_ref())?;
    ranks.part();
    Ok(finished.unwrap_or_else(|| summary.finished(T::NAME, parts.held_out().0)))
}

/// Returns the time at which a run that began at `start` reaches its limit of `minutes`.
fn deadline(start: Instant, minutes: f64) -> Result<Instant, TaskError> {
    let after = Duration::try_from_secs_f64(60.0 * minutes).ok().filter(|after| !after.is_zero());
    let found = after.and_then(|after| start.checked_add(after));
    found.ok_or_else(|| {
        TaskError::input("--minutes", "a number above 0 that the clock can hold", format!("{minutes:?}"))
    })
}

/// Returns the model's description for `regard count`, or nothing if its count of parameters would not be exact.
fn counted<T: Task>(task: &T, model: &T::Model) -> serde_json::Map<String, serde_json::Value> {
    let exact = |described: &count::Description| {
        count::count(described).is_ok_and(|counted| counted.parameters() == model.num_params() as u128)
    };
    match task.described().filter(exact).map(|described| described.to_value()) {
        Some(serde_json::Value::Object(counted)) => counted,
        _ => serde_json::Map::new(),
    }
}

/// Scores the trained model, then writes it and the report into the folder.
fn finish<T: Task>(
    task: &T,
    parts: &Parts<T::Part>,
    trained: Trained<T::Model>,
    folder: &Folder,
    description: &mut Description,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Finished, TaskError> {
    let Trained { model, state, end } = trained;
    let (split, held_out) = parts.held_out();
    let evaluation = match end {
        End::Stopped => None,
        End::Whole | End::OutOfTime => {
            observer.hear(&Event::Doing(format!("scoring the {split} split")));
            scored(task, held_out, &model, None, observer, stop)?
        }
    };
    let finished = evaluation.is_some();
    (description.step, description.finished) = (state.step, finished);
    let mut files = task.extras(&model)?;
    files.insert(MODEL.to_string(), weights::to_bytes(&weights::stored(&model)));
    let mut done = Finished {
        task: T::NAME,
        folder: folder.path().to_path_buf(),
        finished,
        out_of_time: end == End::OutOfTime,
        step: state.step,
        seconds: state.seconds,
        tokens: state.tokens,
        split,
        scores: BTreeMap::new(),
        main: "",
        better: Better::Higher,
        parameters: model.num_params(),
        kept: state.best.filter(|_| task.config().train().keep != Keep::Last).map(|best| best.step),
        kept_by_loss: task.config().train().keep == Keep::Both,
        is_seen: false,
        samples: Vec::new(),
        seen: Vec::new(),
    };
    if let Some(evaluation) = evaluation {
        done.scores = evaluation.scores.clone();
        (done.main, done.better) = (evaluation.main, evaluation.better);
        // JSON has no NaN and no infinity, and the folder must remain readable.
        let finite = |(_, value): &(String, f64)| value.is_finite();
        description.scores = Some(evaluation.scores.clone().into_iter().filter(finite).collect());
        let unseen = task.samples(held_out, 4 * SHOWN);
        // Some tasks have the same samples in every split.
        let seen = task.samples(&parts.train, 4 * SEEN).into_iter();
        let seen = seen.filter(|sample| !sample.expected.is_empty() && !unseen.contains(sample)).collect();
        done.samples = answered(task, unseen, &model, SHOWN)?;
        done.seen = answered(task, seen, &model, SEEN)?;
        observer.hear(&Event::Doing("writing the report".to_string()));
        let metrics = folder.file(METRICS);
        let journal = fs::read_to_string(&metrics).map_err(TaskError::io(&metrics))?;
        let chosen = &description.chosen;
        let story = Story { task, model: &model, evaluation, journal: &journal, finished: &done, chosen };
        let (report, is_seen) = page(story)?;
        files.insert(REPORT.to_string(), report.into_bytes());
        done.is_seen = is_seen;
        description.files.insert(METRICS.to_string(), sha256(journal.as_bytes()));
    }
    folder.commit(description, &files)?;
    if !finished {
        // A report from an earlier end belongs to other weights.
        let _ = fs::remove_file(folder.file(REPORT));
    }
    Ok(done)
}

/// Returns the predictions for at most `count` of the samples; inputs that the model refuses, such as too long ones, are skipped.
fn answered<T: Task>(
    task: &T,
    samples: Vec<Sample>,
    model: &T::Model,
    count: usize,
) -> Result<Vec<(Sample, Prediction)>, TaskError> {
    let mut shown = Vec::new();
    for sample in samples {
        let input = task.input(&sample.given);
        match input.and_then(|input| task.predict(model, std::slice::from_ref(&input), &Pass::inference())) {
            Ok(predictions) => shown.extend(predictions.into_iter().next().map(|prediction| (sample, prediction))),
            Err(TaskError::Input { .. }) => {}
            Err(error) => return Err(error),
        }
        if shown.len() == count {
            break;
        }
    }
    Ok(shown)
}
