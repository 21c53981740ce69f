//! Everything that a run has before its first step: the task with its data, the network and the folder, new or resumed.

use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use regard_nn::Init;
use regard_system::Ranks;

use super::resolve::chosen;
use super::{Request, UnusedKeys};
use crate::error::{TaskError, path_text};
use crate::folder::{Description, Files, Folder};
use crate::memory;
use crate::task::{Parts, Settings, Task, Validate};
use crate::train::{Checkpoints, Conditions, Origin, agreement};

/// Everything a run has before its first step.
pub(super) struct Start<T: Task> {
    pub task: T,
    pub parts: Parts<T::Part>,
    /// Network with its initial weights, or with none if a checkpoint will replace them.
    pub model: T::Model,
    pub folder: Folder,
    pub checkpoints: Checkpoints,
    pub from: Origin,
    pub description: Description,
    /// Fingerprint of the data.
    pub data: String,
}

/// Starts a task. An error names the file of the data.
pub(super) fn started<T: Task>(config: T::Config) -> Result<(T, Parts<T::Part>), TaskError> {
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
pub(super) fn begin<T: Task>(request: &Request) -> Result<Start<T>, TaskError> {
    let resolved = chosen::<T>(request)?;
    let lines = resolved.chosen.clone();
    let config = match request.unused {
        UnusedKeys::Refused => resolved.all_used()?,
        UnusedKeys::Dropped => resolved.config,
    };
    config.train().check_precision()?;
    let data = config.fingerprint()?;
    let (task, parts) = started::<T>(config)?;
    check_divisible(&task, &request.ranks)?;
    if let Some(described) = task.described() {
        memory::check(&described)?;
    }
    let from = Origin::Scratch;
    let model = untrained(&task, from)?;
    // The task's configuration may differ from the request: a model that starts from another takes over its sizes.
    let described = serde_json::to_value(task.config()).expect("plain values");
    let path = request.out.clone().unwrap_or_else(|| fresh(T::NAME));
    let mut description = Description { data: data.clone(), chosen: lines, ..Description::new(T::NAME, described) };
    agreement::check_conditions(&request.ranks, &Conditions::of(&data, &request.ranks), &description.config)?;
    let (folder, checkpoints) = match request.ranks.is_first() {
        true => {
            let folder = Folder::create(&path)?;
            folder.commit(&mut description, &task.files())?;
            let checkpoints = Checkpoints::new(folder.path())?;
            (folder, checkpoints)
        }
        false => (Folder::of_first_rank(path.clone()), Checkpoints::of(&path)),
    };
    Ok(Start { task, parts, model, folder, checkpoints, from, description, data })
}

/// Prepares to resume the run of a folder.
pub(super) fn resume<T: Task>(request: &Request) -> Result<Start<T>, TaskError> {
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
    let (folder, mut description) = opened(&path, &request.ranks)?;
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
    check_divisible(&task, &request.ranks)?;
    if let Some(described) = task.described() {
        memory::check(&described)?;
    }
    let data = task.config().fingerprint()?;
    let checkpoints = match request.ranks.is_first() {
        true => Checkpoints::new(folder.path())?,
        false => Checkpoints::of(folder.path()),
    };
    // A run that ended before its first checkpoint starts from scratch.
    let from = if checkpoints.is_any() { Origin::Checkpoint } else { Origin::Scratch };
    // `Run::new` compares built-in data with those of the checkpoint, if there is one, and takes --force into account.
    if data != description.data && (task.config().data_path().is_some() || from == Origin::Scratch) {
        let problem = "the data are not those that this run began with; give it the same data, or start a new run";
        return Err(TaskError::folder(path, problem));
    }
    agreement::check_conditions(&request.ranks, &Conditions::of(&data, &request.ranks), &description.config)?;
    let (mut parts, model) = (parts_of(&task)?, untrained(&task, from)?);
    parts.notes.extend(request.steps.map(|steps| {
        format!(
            "the learning rate now follows a schedule of {steps} steps, so it may be higher than where the run ended"
        )
    }));
    Ok(Start { task, parts, model, folder, checkpoints, from, description, data })
}

/// Opens the folder of a run that continues. Rank 0 locks it and repairs what a crash has left; then the others read it.
fn opened(path: &Path, ranks: &Ranks) -> Result<(Folder, Description), TaskError> {
    if ranks.is_alone() {
        return Folder::resume(path);
    }
    let own = match ranks.is_first() {
        true => Some(Folder::resume(path)?),
        false => None,
    };
    agreement::of_first(ranks, Some(&()))?;
    own.map_or_else(|| Folder::open(path), Ok)
}

/// Returns an error if several processes cannot share the batches of a task.
fn check_divisible<T: Task>(task: &T, ranks: &Ranks) -> Result<(), TaskError> {
    if ranks.is_alone() || task.is_divisible() {
        return Ok(());
    }
    let what = "share these batches among processes, because the loss of a batch is not that of its parts; train with \
                one process, or share out the runs of a comparison (regard compare)";
    Err(TaskError::Unsupported { task: T::NAME, what: what.to_string() })
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
