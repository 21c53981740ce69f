//! From a request to a model folder, for any task.

use std::collections::BTreeMap;
use std::fs;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use burn::module::Module;
use burn::tensor::Device;
use regard_data::Split;
use regard_inspect::count;
use regard_nn::{Init, NnError, Pass};

use crate::error::{TaskError, path_text};
use crate::folder::{Description, Folder, METRICS, MODEL, REPORT, sha256};
use crate::memory;
use crate::opened::{Model, Opened};
use crate::report::{Story, page};
use crate::settings::{Resolved, resolve_loosely};
use crate::task::{Better, Evaluation, Parts, Prediction, Sample, Settings, Task, Validate};
use crate::train::{End, Event, Keep, Observer, Origin, Place, Run, Stop, Trained, has_checkpoint, hear_scored};
use crate::weights;

/// Examples that are shown after training.
const SHOWN: usize = 6;
/// Examples of the training split that are shown before them.
const SEEN: usize = 2;

/// What `regard train` was asked for.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// A file over the task's configuration.
    pub config: Option<PathBuf>,
    /// `key=value` over both.
    pub sets: Vec<String>,
    /// The examples.
    pub data: Option<PathBuf>,
    /// The folder to write.
    pub out: Option<PathBuf>,
    /// Steps.
    pub steps: Option<u64>,
    /// Minutes after which the run ends wherever it is; it can be gone on with.
    pub minutes: Option<f64>,
    /// The seed of weights, order and dropout.
    pub seed: Option<u64>,
    /// Whether a run goes on although the next steps cannot have the bits that they would have had.
    pub force: bool,
    /// What becomes of given keys that the chosen kind of network does not have.
    pub unused: UnusedKeys,
}

/// What becomes of keys of `[model]` that were given although the chosen kind of network does not have them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnusedKeys {
    /// They are refused.
    #[default]
    Refused,
    /// They are dropped: another variant of a comparison uses them.
    Dropped,
}

/// What a run has given.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The task.
    pub task: &'static str,
    /// The model folder.
    pub folder: PathBuf,
    /// Whether it has a model with scores; otherwise it was asked to stop.
    pub finished: bool,
    /// Whether it ended because its minutes were over.
    pub out_of_time: bool,
    /// Steps made.
    pub step: u64,
    /// Seconds of training, without evaluation.
    pub seconds: f64,
    /// Tokens seen.
    pub tokens: u64,
    /// The split that was scored: test, or dev where the data have no test.
    pub split: Split,
    /// The scores of the held-out split; empty if the run was stopped.
    pub scores: BTreeMap<String, f64>,
    /// The score that decides.
    pub main: &'static str,
    /// Whether a higher score is better.
    pub better: Better,
    /// Parameters of the network.
    pub parameters: usize,
    /// The step whose weights were kept because their score was the best; none where the last ones are.
    pub kept: Option<u64>,
    /// Whether `look` has something to show of it.
    pub is_seen: bool,
    /// Examples of that split with what the model makes of them.
    pub samples: Vec<(Sample, Prediction)>,
    /// A few examples of the training split with a right answer, and what the model makes of them.
    pub seen: Vec<(Sample, Prediction)>,
}

/// A task by name, without its types.
pub trait Kind: Sync {
    /// The name of the task in commands.
    fn name(&self) -> &'static str;

    /// The commented default configuration.
    fn config(&self) -> &'static str;

    /// The configuration that a request asks for, with all defaults, and the keys that it does not use. Refuses one that makes
    /// no sense, before data are read or anything is written.
    fn configured(&self, request: &Request) -> Result<Resolved<serde_json::Value>, TaskError>;

    /// By what the data of a configuration are known again.
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
}

/// The [`Kind`] of a task.
pub(crate) struct Of<T>(pub PhantomData<fn() -> T>);

impl<T: Task> Kind for Of<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn config(&self) -> &'static str {
        T::CONFIG
    }

    fn configured(&self, request: &Request) -> Result<Resolved<serde_json::Value>, TaskError> {
        let Resolved { config, unused } = configured::<T>(request)?;
        Ok(Resolved { config: serde_json::to_value(config).expect("plain values"), unused })
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
        let deadline = request.minutes.map(|minutes| deadline(Instant::now(), minutes)).transpose()?;
        observer.hear(&Event::Doing("reading the data".to_string()));
        let Start { task, parts, mut model, folder, mut description, data } = match from {
            Origin::Scratch => begin::<T>(request)?,
            Origin::Checkpoint => go_on::<T>(request)?,
        };
        parts.notes.iter().for_each(|note| observer.hear(&Event::Note(note.clone())));
        // A run that ended before its first checkpoint begins again.
        let from = if has_checkpoint(&folder)? { from } else { Origin::Scratch };
        if from == Origin::Scratch {
            model = task.warm(model)?;
            description.counted = counted(&task, &model);
        }
        let run = Run::new(
            &task,
            &parts,
            model,
            Place { folder: &folder, data: &data, from, force: request.force },
            observer,
        )?;
        // They will be written anew; what is there of the model stays good until then.
        description.files.remove(METRICS);
        description.files.remove(REPORT);
        // Scores of an earlier end are not those of the weights to come.
        (description.finished, description.scores, description.data) = (false, None, data.clone());
        folder.describe(&description)?;
        let trained = run.go(&folder, observer, stop, deadline)?;
        finish(&task, &parts, trained, &folder, &mut description, observer, stop)
    }

    fn open(&self, folder: Folder, description: Description) -> Result<Arc<dyn Opened>, TaskError> {
        Ok(Arc::new(Model::<T>::open(folder, description)?))
    }
}

/// The configuration that a request asks for.
fn configured<T: Task>(request: &Request) -> Result<Resolved<T::Config>, TaskError> {
    let flags = [
        (
            "--data",
            "data.path",
            request.data.as_deref().map(|path| path_text(path).map(toml::Value::String)).transpose()?,
        ),
        ("--steps", "train.steps", request.steps.map(number).transpose()?),
        ("--seed", "seed", request.seed.map(number).transpose()?),
    ];
    let resolved: Resolved<T::Config> = resolve_loosely(T::CONFIG, request.config.as_deref(), &request.sets, &flags)?;
    resolved.config.train().validate()?;
    resolved.config.validate()?;
    Ok(resolved)
}

/// When a run that began at `start` has had its minutes.
fn deadline(start: Instant, minutes: f64) -> Result<Instant, TaskError> {
    let after = Duration::try_from_secs_f64(60.0 * minutes).ok().filter(|after| !after.is_zero());
    let found = after.and_then(|after| start.checked_add(after));
    found
        .ok_or_else(|| TaskError::input("--minutes", "a number above 0 that a clock can count", format!("{minutes:?}")))
}

/// A number of a flag as a configuration has it.
fn number(value: u64) -> Result<toml::Value, TaskError> {
    let number = i64::try_from(value).map_err(|_| TaskError::input("number", "at most 2⁶³ − 1", value.to_string()))?;
    Ok(toml::Value::Integer(number))
}

/// A run before its first step.
struct Start<T: Task> {
    task: T,
    parts: Parts<T::Part>,
    /// With its first weights.
    model: T::Model,
    folder: Folder,
    description: Description,
    /// The fingerprint of its data.
    data: String,
}

/// The network with its first weights, to be trained.
fn untrained<T: Task>(task: &T) -> Result<T::Model, TaskError> {
    task.model(&Init::new(task.config().seed(), &Device::flex().autodiff()))
}

/// A new run in a new folder, which is made when nothing of the request can be refused any more.
fn begin<T: Task>(request: &Request) -> Result<Start<T>, TaskError> {
    let resolved = configured::<T>(request)?;
    let config = match request.unused {
        UnusedKeys::Refused => resolved.all_used()?,
        UnusedKeys::Dropped => resolved.config,
    };
    let path = config.data_path().map(Path::to_path_buf);
    let data = config.fingerprint()?;
    let task = T::start(config).map_err(TaskError::in_file(path.as_deref()))?;
    if let Some(described) = task.described() {
        memory::check(&described)?;
    }
    let (parts, model) = (parts_of(&task)?, untrained(&task)?);
    // As the task has it: a model that starts from another takes over its sizes.
    let described = serde_json::to_value(task.config()).expect("plain values");
    let path = request.out.clone().unwrap_or_else(|| fresh(T::NAME));
    let folder = Folder::create(&path)?;
    let mut description = Description { data: data.clone(), ..Description::new(T::NAME, described) };
    folder.commit(&mut description, &task.files()?)?;
    Ok(Start { task, parts, model, folder, description, data })
}

/// The run of a folder, to go on.
fn go_on<T: Task>(request: &Request) -> Result<Start<T>, TaskError> {
    let others = [
        ("--config", request.config.is_some()),
        ("--set", !request.sets.is_empty()),
        ("--seed", request.seed.is_some()),
    ];
    if let Some((flag, _)) = others.iter().find(|(_, given)| *given) {
        let problem = "--resume goes on with the run's own configuration; only --steps may change, and where the same \
                       data are now (--data)"
            .to_string();
        return Err(TaskError::Settings { place: flag.to_string(), problem });
    }
    let path = match &request.out {
        Some(path) => path.clone(),
        None => newest(T::NAME)?,
    };
    let (folder, mut description) = Folder::resume(&path)?;
    if description.task != T::NAME {
        let problem = format!("its task is {}: regard train {} --resume", description.task, description.task);
        return Err(TaskError::folder(path, problem));
    }
    if let Some(data) = &request.data {
        let moved = data.canonicalize().map_err(TaskError::io(data))?;
        description.config["data"]["path"] = path_text(&moved)?.into();
    }
    let (mut task, mut notes): (T, Vec<String>) = (restored(&folder, &description)?, Vec::new());
    if let Some(steps) = request.steps {
        description.config["train"]["steps"] = steps.into();
        description.config["train"]["epochs"] = serde_json::Value::Null;
        task = restored(&folder, &description)?;
        notes.push(format!(
            "the learning rate follows a schedule of {steps} steps now; it may be higher than where the run ended"
        ));
    }
    if let Some(described) = task.described() {
        memory::check(&described)?;
    }
    let data = task.config().fingerprint()?;
    // Where there is a checkpoint, it is compared with the built-in data of this version.
    if data != description.data && (task.config().data_path().is_some() || !has_checkpoint(&folder)?) {
        let problem = "the data are not those that this run began with; give it the same, or start a new run";
        return Err(TaskError::folder(path, problem));
    }
    let (mut parts, model) = (parts_of(&task)?, untrained(&task)?);
    parts.notes.extend(notes);
    Ok(Start { task, parts, model, folder, description, data })
}

/// The examples; what does not suit is named with its file.
pub(crate) fn parts_of<T: Task>(task: &T) -> Result<Parts<T::Part>, TaskError> {
    task.parts().map_err(TaskError::in_file(task.config().data_path()))
}

/// The task of a folder, its configuration checked as that of a new run.
pub(crate) fn restored<T: Task>(folder: &Folder, description: &Description) -> Result<T, TaskError> {
    let config: T::Config = serde_path_to_error::deserialize(&description.config).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { "config".to_string() } else { format!("config.{path}") };
        let problem = format!("{place}: {}", error.inner());
        TaskError::folder(folder.file(crate::folder::CONFIG), problem)
    })?;
    // A file can be edited; what a new run would refuse, an old one has no better use for.
    let checked = config.train().validate().map_err(TaskError::from).and_then(|()| config.validate());
    checked.map_err(|error| TaskError::folder(folder.file(crate::folder::CONFIG), format!("config.{error}")))?;
    T::open(config, &mut |name| folder.read(description, name))
}

/// What `regard count` can say of the model: its description, where that is exact.
fn counted<T: Task>(task: &T, model: &T::Model) -> serde_json::Map<String, serde_json::Value> {
    let exact = |described: &count::Description| {
        count::count(described).is_ok_and(|counted| counted.parameters() == model.num_params() as u128)
    };
    match task.described().filter(exact).map(|described| described.to_value()) {
        Some(serde_json::Value::Object(counted)) => counted,
        _ => serde_json::Map::new(),
    }
}

/// Scores, shows and writes what training gave.
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
    let evaluation = match end {
        End::Stopped => None,
        End::Whole | End::OutOfTime => scored(task, parts, &model, observer, stop)?,
    };
    let finished = evaluation.is_some();
    let (split, held_out) = parts.held_out();
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
        kept: state.best.filter(|_| task.config().train().keep == Keep::Best).map(|best| best.step),
        is_seen: false,
        samples: Vec::new(),
        seen: Vec::new(),
    };
    if let Some(evaluation) = evaluation {
        done.scores = evaluation.scores.clone();
        (done.main, done.better) = (evaluation.main, evaluation.better);
        // JSON has no number for what is not finite, and a folder must be readable.
        let finite = |(_, value): &(String, f64)| value.is_finite();
        description.scores = Some(evaluation.scores.clone().into_iter().filter(finite).collect());
        let unseen = task.samples(held_out, 4 * SHOWN);
        // Some tasks ask the same questions whatever the split.
        let seen = task.samples(&parts.train, 4 * SEEN).into_iter();
        let seen = seen.filter(|sample| !sample.expected.is_empty() && !unseen.contains(sample)).collect();
        done.samples = answered(task, unseen, &model, SHOWN)?;
        done.seen = answered(task, seen, &model, SEEN)?;
        observer.hear(&Event::Doing("writing the report".to_string()));
        let metrics = folder.file(METRICS);
        let journal = fs::read_to_string(&metrics).map_err(TaskError::io(&metrics))?;
        let story = Story { task, model: &model, evaluation, journal: &journal, finished: &done };
        let (report, is_seen) = page(story)?;
        files.insert(REPORT.to_string(), report.into_bytes());
        done.is_seen = is_seen;
        description.files.insert(METRICS.to_string(), sha256(journal.as_bytes()));
    }
    folder.commit(description, &files)?;
    if !finished {
        // That of an earlier end tells of other weights.
        let _ = fs::remove_file(folder.file(REPORT));
    }
    Ok(done)
}

/// The scores of the held-out examples; nothing if the run was asked to stop meanwhile.
fn scored<T: Task>(
    task: &T,
    parts: &Parts<T::Part>,
    model: &T::Model,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Option<Evaluation>, TaskError> {
    let (split, held_out) = parts.held_out();
    observer.hear(&Event::Doing(format!("scoring the {split} split")));
    let observer = Mutex::new(observer);
    let tell = |done, all| hear_scored(&observer, done, all);
    match task.evaluate(held_out, model, None, &Pass::inference().until(stop.flag()).telling(&tell)) {
        Ok(evaluation) => Ok(Some(evaluation)),
        Err(TaskError::Nn(NnError::Cancelled)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// At most `count` examples with what the model makes of them; those that it does not take, such as too long ones, are passed over.
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

/// `runs/NAME`, or the first `runs/NAME-2`, `-3` … that is free.
fn fresh(name: &str) -> PathBuf {
    let numbered = |number: usize| match number {
        1 => Path::new("runs").join(name),
        _ => Path::new("runs").join(format!("{name}-{number}")),
    };
    (1..).map(numbered).find(|path| !path.exists()).expect("numbers do not end")
}

/// The run of a task that was last written to.
fn newest(name: &str) -> Result<PathBuf, TaskError> {
    let runs = Path::new("runs");
    let ours = |path: &PathBuf| {
        let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        let rest = file.strip_prefix(name).map(|rest| rest.trim_start_matches('-'));
        rest.is_some_and(|rest| rest.is_empty() || rest.parse::<usize>().is_ok())
    };
    let changed = |path: &PathBuf| path.join("checkpoints").metadata().and_then(|data| data.modified()).ok();
    let entries = fs::read_dir(runs).into_iter().flatten().flatten().map(|entry| entry.path()).filter(ours);
    let newest = entries.filter(|path| changed(path).is_some()).max_by_key(changed);
    newest.ok_or_else(|| TaskError::folder(runs, format!("no run of {name} to go on with; name it with --out")))
}
