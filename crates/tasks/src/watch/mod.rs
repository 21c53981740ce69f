//! Watching a run from outside: the folder `watch` of a run has the attention maps of one example at each evaluation, the progress
//! of the process that trains, and a file by which the process is asked to stop.

mod live;
mod snapshots;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use regard_inspect::AttentionView;
use regard_system::{create_folder, save_atomically};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use self::live::Live;
pub(crate) use self::snapshots::Snapshots;
use crate::error::TaskError;

/// Name of the folder in that of the run.
const FOLDER: &str = "watch";
/// File with the example, as JSON.
const EXAMPLE: &str = "example.json";
/// File with the progress.
const PROGRESS: &str = "progress.json";
/// File that asks the run to stop.
const STOP: &str = "stop";
/// Largest size of a file that is read.
const MOST_BYTES: u64 = 64_000_000;

/// The progress of a run that is being watched.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Number of steps made.
    pub step: u64,
    /// Number of steps of the whole run.
    pub steps: u64,
    /// Loss of the last step.
    pub loss: Option<f32>,
    /// Number of tokens trained on per second, without padding.
    pub tokens_per_second: f64,
    /// Seconds until the last step, as far as one can tell.
    pub seconds_left: Option<f64>,
    /// What the run does beside training steps, such as scoring.
    pub doing: Option<String>,
}

/// What a run's model did with the example after some step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Number of steps made.
    pub step: u64,
    /// Attention maps.
    pub view: AttentionView,
    /// Picture as SVG, if the task draws one.
    pub picture: Option<String>,
    /// The model's answer, as `predict` gives it.
    pub prediction: Option<BTreeMap<String, Value>>,
}

/// The folder `watch` of a run.
#[derive(Debug, Clone)]
pub struct WatchFolder {
    path: PathBuf,
}

impl WatchFolder {
    /// Returns the folder of a run. It may not exist.
    pub fn of(run: &Path) -> Self {
        Self { path: run.join(FOLDER) }
    }

    /// Returns the progress of the process that trains now, or that of one that was killed.
    pub fn progress(&self) -> Option<Progress> {
        self.read(PROGRESS).ok().flatten()
    }

    /// Returns the steps for which there are snapshots, in order.
    pub fn steps(&self) -> Vec<u64> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let step = |entry: fs::DirEntry| {
            let name = entry.file_name();
            name.to_str()?.strip_prefix("step-")?.strip_suffix(".json")?.parse::<u64>().ok()
        };
        let mut steps: Vec<u64> = entries.filter_map(step).collect();
        steps.sort_unstable();
        steps
    }

    /// Returns the snapshot after some step; `None` if there is none.
    pub fn snapshot(&self, step: u64) -> Result<Option<Snapshot>, TaskError> {
        self.read(&snapshot_name(step))
    }

    /// Asks the process that trains to save and stop.
    pub fn ask_to_stop(&self) -> Result<(), TaskError> {
        let path = self.path.join(STOP);
        fs::write(&path, "").map_err(TaskError::io(&path))
    }

    fn create(&self) -> Result<(), TaskError> {
        create_folder(&self.path).map_err(TaskError::io(&self.path))
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, TaskError> {
        let path = self.path.join(name);
        match fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(TaskError::io(&path)(error)),
            Ok(file) if file.len() > MOST_BYTES => return Err(TaskError::folder(&path, "too large to be read")),
            Ok(_) => {}
        }
        let content = fs::read(&path).map_err(TaskError::io(&path))?;
        serde_json::from_slice(&content)
            .map(Some)
            .map_err(|error| TaskError::folder(&path, format!("damaged: {error}")))
    }

    fn write(&self, name: &str, content: &impl Serialize) -> Result<(), TaskError> {
        let content = serde_json::to_vec(content).expect("plain values can be written as JSON");
        Ok(save_atomically(&self.path.join(name), &content)?)
    }

    /// Replaces a file that need not survive a power cut: a sync would hold up the training.
    fn replace(&self, name: &str, content: &impl Serialize) -> std::io::Result<()> {
        let next = self.path.join(format!("{name}.next"));
        fs::write(&next, serde_json::to_vec(content)?)?;
        fs::rename(next, self.path.join(name))
    }

    fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.path.join(name));
    }
}

fn snapshot_name(step: u64) -> String {
    format!("step-{step}.json")
}
