//! Training runs of any task: from a request to a model folder.

use std::collections::BTreeMap;
use std::fs;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use burn::module::Module;
use burn::tensor::Device;
use regard_data::Split;
use regard_inspect::count;
use regard_nn::{Init, Pass};
use regard_ops::Precision;

use crate::auto::{Asked, Auto, Choice, Facts};
use crate::error::{TaskError, path_text};
use crate::folder::{Description, Files, Folder, METRICS, MODEL, REPORT, sha256};
use crate::memory;
use crate::opened::{Model, Opened};
use crate::report::{Story, page};
use crate::settings::{Resolved, resolve_loosely};
use crate::survey::Survey;
use crate::task::{Better, Parts, Prediction, Sample, Settings, Task, Validate};
use crate::train::{Checkpoints, End, Event, Keep, Observer, Origin, Place, Run, Stop, Trained, scored};
use crate::watch::Live;
use crate::weights;

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

/// The result of a training run.
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
    fn open(&self, folder: Folder, description: Description) -> Result<Arc<dyn Opened>, TaskError>;

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
        match request.watch {
            Watch::Off => train::<T>(request, from, observer, stop),
            Watch::On => train::<T>(request, from, &mut Live::new(observer, stop), stop),
        }
    }

    fn open(&self, folder: Folder, description: Description) -> Result<Arc<dyn Opened>, TaskError> {
        Ok(Arc::new(Model::<T>::open(folder, description)?))
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

/// Trains a model and writes its folder.
fn train<T: Task>(
    request: &Request,
    from: Origin,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Finished, TaskError> {
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
        Place { folder: &folder, checkpoints, data: &data, from, force: request.force, watch: request.watch },
        observer,
    )?;
    // Metrics and report will be written anew; the files of the model stay valid until then.
    description.files.remove(METRICS);
    description.files.remove(REPORT);
    // Scores from an earlier end belong to other weights.
    (description.finished, description.scores, description.data) = (false, None, data.clone());
    folder.describe(&description)?;
    let trained = run.go(&folder, observer, stop, deadline)?;
    finish(&task, &parts, trained, &folder, &mut description, observer, stop)
}

/// Resolves the configuration of a new run. Given data decide what the user has not set, unless `auto` is off.
fn chosen<T: Task>(request: &Request) -> Result<Resolved<T::Config>, TaskError> {
    let plain = plain::<T>(request)?;
    if !follows_data(&plain.config) {
        return Ok(plain);
    }
    // The data are read once more when the task starts. That takes a small part of a run, and a task that kept them would hold
    // them twice while it encodes them.
    let raw = T::raw(&plain.config).map_err(TaskError::in_file(plain.config.data_path()))?;
    let choice = raw.and_then(|splits| {
        let facts = Facts::of(&splits);
        drop(splits);
        T::choose(&facts, &Asked::new(&plain.config, &plain.given))
    });
    let found = resolved::<T>(request, &choice.unwrap_or_default())?;
    validate(&found.config)?;
    Ok(found)
}

/// Resolves the configuration of a request before anything is chosen. Sizes that the user has set may fit the chosen model, although
/// they do not fit the default one, so they are checked later.
fn plain<T: Task>(request: &Request) -> Result<Resolved<T::Config>, TaskError> {
    let plain = resolved::<T>(request, &Choice::default())?;
    match validate(&plain.config) {
        Err(TaskError::Config(error)) if error.field.starts_with("model.") && follows_data(&plain.config) => Ok(plain),
        checked => checked.map(|()| plain),
    }
}

/// Returns whether settings that are not given follow the data.
fn follows_data(config: &impl Settings) -> bool {
    config.auto() == Auto::On && config.data_path().is_some()
}

fn validate(config: &impl Settings) -> Result<(), TaskError> {
    config.train().validate()?;
    config.validate()
}

/// Resolves the configuration of a request without a look at its values.
fn resolved<T: Task>(request: &Request, choice: &Choice) -> Result<Resolved<T::Config>, TaskError> {
    let flags = [
        (
            "--data",
            "data.path",
            request.data.as_deref().map(|path| path_text(path).map(toml::Value::String)).transpose()?,
        ),
        ("--steps", "train.steps", request.steps.map(number).transpose()?),
        ("--seed", "seed", request.seed.map(number).transpose()?),
        ("--precision", "train.precision", request.precision.map(|precision| name(precision).into())),
    ];
    resolve_loosely(T::CONFIG, choice, request.config.as_deref(), &request.sets, &flags)
}

/// Returns the time at which a run that began at `start` reaches its limit of `minutes`.
fn deadline(start: Instant, minutes: f64) -> Result<Instant, TaskError> {
    let after = Duration::try_from_secs_f64(60.0 * minutes).ok().filter(|after| !after.is_zero());
    let found = after.and_then(|after| start.checked_add(after));
    found.ok_or_else(|| {
        TaskError::input("--minutes", "a number above 0 that the clock can hold", format!("{minutes:?}"))
    })
}

/// Converts the number given with a flag to TOML.
fn number(value: u64) -> Result<toml::Value, TaskError> {
    let number = i64::try_from(value).map_err(|_| TaskError::input("number", "at most 2⁶³ − 1", value.to_string()))?;
    Ok(toml::Value::Integer(number))
}

/// Returns the name of a precision in a configuration.
fn name(precision: Precision) -> &'static str {
    match precision {
        Precision::F32 => "f32",
        Precision::Bf16 => "bf16",
    }
}

/// Everything a run has before its first step.
struct Start<T: Task> {
    task: T,
    parts: Parts<T::Part>,
    /// Network with its initial weights, or with none if a checkpoint will replace them.
    model: T::Model,
    folder: Folder,
    checkpoints: Checkpoints,
    from: Origin,
    description: Description,
    /// Fingerprint of the data.
    data: String,
}

/// Starts a task. An error names the file of the data.
fn started<T: Task>(config: T::Config) -> Result<(T, Parts<T::Part>), TaskError> {
    let path = config.data_path().map(Path::to_path_buf);
    T::start(config).map_err(TaskError::in_file(path.as_deref()))
}

/// Creates the network, ready to be trained. Initial weights are drawn only if no checkpoint will replace them.
fn untrained<T: Task>(task: &T, from: Origin) -> Result<T::Model, TaskError> {
    let device = Device::flex().autodiff();
    task.model(&match from {
        Origin::Scratch => Init::new(task.config().seed(), &device),
        Origin::Checkpoint => Init::for_weights(&device),
    })
}

/// Prepares a new run. Its folder is created last, when nothing in the request can be refused any more.
fn begin<T: Task>(request: &Request) -> Result<Start<T>, TaskError> {
    let resolved = chosen::<T>(request)?;
    let lines = resolved.chosen.clone();
    let config = match request.unused {
        UnusedKeys::Refused => resolved.all_used()?,
        UnusedKeys::Dropped => resolved.config,
    };
    config.train().check_precision()?;
    let data = config.fingerprint()?;
    let (task, parts) = started::<T>(config)?;
    if let Some(described) = task.described() {
        memory::check(&described)?;
    }
    let from = Origin::Scratch;
    let model = untrained(&task, from)?;
    // The task's configuration may differ from the request: a model that starts from another takes over its sizes.
    let described = serde_json::to_value(task.config()).expect("plain values");
    let path = request.out.clone().unwrap_or_else(|| fresh(T::NAME));
    let folder = Folder::create(&path)?;
    let mut description = Description { data: data.clone(), chosen: lines, ..Description::new(T::NAME, described) };
    folder.commit(&mut description, &task.files())?;
    let checkpoints = Checkpoints::new(folder.path())?;
    Ok(Start { task, parts, model, folder, checkpoints, from, description, data })
}

/// Prepares to resume the run of a folder.
fn resume<T: Task>(request: &Request) -> Result<Start<T>, TaskError> {
    let others = [
        ("--config", request.config.is_some()),
        ("--set", !request.sets.is_empty()),
        ("--seed", request.seed.is_some()),
        ("--precision", request.precision.is_some()),
    ];
    if let Some((flag, _)) = others.iter().find(|(_, given)| *given) {
        let problem = "--resume uses the run's own configuration; only --steps and the location of the same data \
                       (--data) may change"
            .to_string();
        return Err(TaskError::Settings { place: flag.to_string(), problem });
    }
    let path = match &request.out {
        Some(path) => path.clone(),
        None => newest(T::NAME)?,
    };
    let (folder, mut description) = Folder::resume(&path)?;
    if description.task != T::NAME {
        let problem = format!("this is a run of {}; use regard train {} --resume", description.task, description.task);
        return Err(TaskError::folder(path, problem));
    }
    if let Some(data) = &request.data {
        let moved = data.canonicalize().map_err(TaskError::io(data))?;
        description.config["data"]["path"] = path_text(&moved)?.into();
    }
    if let Some(steps) = request.steps {
        description.config["train"]["steps"] = steps.into();
        description.config["train"]["epochs"] = serde_json::Value::Null;
    }
    let task: T = restored(&folder, &description)?;
    task.config().train().check_precision()?;
    if let Some(described) = task.described() {
        memory::check(&described)?;
    }
    let data = task.config().fingerprint()?;
    let checkpoints = Checkpoints::new(folder.path())?;
    // A run that ended before its first checkpoint starts from scratch.
    let from = if checkpoints.is_any() { Origin::Checkpoint } else { Origin::Scratch };
    // `Run::new` compares built-in data with those of the checkpoint, if there is one, and takes --force into account.
    if data != description.data && (task.config().data_path().is_some() || from == Origin::Scratch) {
        let problem = "the data are not those that this run began with; give it the same data, or start a new run";
        return Err(TaskError::folder(path, problem));
    }
    let (mut parts, model) = (parts_of(&task)?, untrained(&task, from)?);
    parts.notes.extend(request.steps.map(|steps| {
        format!(
            "the learning rate now follows a schedule of {steps} steps, so it may be higher than where the run ended"
        )
    }));
    Ok(Start { task, parts, model, folder, checkpoints, from, description, data })
}

/// Loads the examples of the run. An error names their file.
pub(crate) fn parts_of<T: Task>(task: &T) -> Result<Parts<T::Part>, TaskError> {
    task.parts().map_err(TaskError::in_file(task.config().data_path()))
}

/// Restores the task of a folder. Its configuration is checked like that of a new run.
pub(crate) fn restored<T: Task>(folder: &Folder, description: &Description) -> Result<T, TaskError> {
    let config: T::Config = serde_path_to_error::deserialize(&description.config).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { "config".to_string() } else { format!("config.{path}") };
        let problem = format!("{place}: {}", error.inner());
        TaskError::folder(folder.file(crate::folder::CONFIG), problem)
    })?;
    let checked = config.train().validate().map_err(TaskError::from).and_then(|()| config.validate());
    checked.map_err(|error| TaskError::folder(folder.file(crate::folder::CONFIG), format!("config.{error}")))?;
    T::open(config, &Files { folder, description })
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

/// Returns `runs/NAME`, or the first of `runs/NAME-2`, `runs/NAME-3`, … that does not exist.
fn fresh(name: &str) -> PathBuf {
    let numbered = |number: usize| match number {
        1 => Path::new("runs").join(name),
        _ => Path::new("runs").join(format!("{name}-{number}")),
    };
    (1..).map(numbered).find(|path| !path.exists()).expect("there is always a free number")
}

/// Returns the run of a task whose checkpoints were written last.
pub(crate) fn newest(name: &str) -> Result<PathBuf, TaskError> {
    let runs = Path::new("runs");
    let ours = |path: &PathBuf| {
        let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        let rest = file.strip_prefix(name).map(|rest| rest.trim_start_matches('-'));
        rest.is_some_and(|rest| rest.is_empty() || rest.parse::<usize>().is_ok())
    };
    let changed = |path: &PathBuf| path.join("checkpoints").metadata().and_then(|data| data.modified()).ok();
    let entries = fs::read_dir(runs).into_iter().flatten().flatten().map(|entry| entry.path()).filter(ours);
    let newest = entries.filter(|path| changed(path).is_some()).max_by_key(changed);
    newest.ok_or_else(|| TaskError::folder(runs, format!("no run of {name} to resume; name its folder with --out")))
}
