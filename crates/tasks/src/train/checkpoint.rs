//! Checkpoints: everything that a run needs to go on to the same bits.
//!
//! A checkpoint is a folder `checkpoints/step-N`, written beside its place, synced and renamed; `state.json` holds the
//! SHA-256 of its other files. Two are kept, so that one is there while the next is written and if the last is damaged.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use regard_ops::Moments;
use serde::{Deserialize, Serialize};

use crate::error::TaskError;
use crate::folder::sha256;
use crate::weights::{Tensors, from_bytes, to_bytes};

const STATE: &str = "state.json";
const WEIGHTS: &str = "model.safetensors";
const BEST: &str = "best.safetensors";
const OPTIMISER: &str = "optimizer.safetensors";
/// Checkpoints that are kept.
const KEPT: usize = 2;

/// Where a run stands, beside its weights.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Steps made.
    pub step: u64,
    /// The epoch of the next batch.
    pub epoch: u64,
    /// The next batch in the epoch's plan.
    pub batch: usize,
    /// Training losses since the last evaluation.
    pub since_evaluation: LossSum,
    /// Training losses since the last point of the loss curve.
    pub since_point: LossSum,
    /// The best score so far and its step.
    pub best: Option<Best>,
    /// Evaluations since then.
    pub stale: u32,
    /// Steps the optimiser has made; fewer than `step` where gradients were not finite.
    pub optimiser_steps: u64,
    /// Steps in a row whose gradients were not finite.
    pub broken: u32,
    /// Length of `metrics.jsonl`; what stands behind belongs to steps that will be made again.
    pub metrics_bytes: u64,
    /// Seconds spent in training.
    pub seconds: f64,
    /// Tokens seen.
    pub tokens: u64,
    /// What the task keeps between steps.
    pub memory: serde_json::Value,
    /// The data it was trained on.
    pub data: String,
    /// Threads that it runs on: they share its batches.
    pub threads: usize,
}

/// Losses of some steps, to be averaged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LossSum {
    /// Bits of the `f64` sum: text would round it, and a resumed run would end on other bits.
    sum_bits: u64,
    /// Steps in the sum.
    steps: u64,
}

impl LossSum {
    /// Adds the loss of one step.
    pub fn add(&mut self, loss: f64) {
        self.sum_bits = (f64::from_bits(self.sum_bits) + loss).to_bits();
        self.steps += 1;
    }

    /// Returns the mean and starts again from nothing.
    pub fn take_mean(&mut self) -> f64 {
        let Self { sum_bits, steps } = std::mem::take(self);
        f64::from_bits(sum_bits) / steps.max(1) as f64
    }
}

/// The best score so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// After this step.
    pub step: u64,
    /// The bits of the `f64` score, larger is better.
    pub worth_bits: u64,
}

/// A whole checkpoint.
#[derive(Debug)]
pub struct Checkpoint {
    /// Where it stands.
    pub state: State,
    /// The weights.
    pub weights: Tensors,
    /// The best weights so far, where they are others.
    pub best: Option<Tensors>,
    /// The optimiser's averages.
    pub moments: Vec<Moments>,
}

#[derive(Serialize, Deserialize)]
struct StateFile {
    state: State,
    /// Paths of the averages, in the module's order.
    order: Vec<String>,
    files: BTreeMap<String, String>,
}

/// The checkpoints of a model folder.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    folder: PathBuf,
}

impl Checkpoints {
    /// Those in `folder`, a model folder. What an earlier run left half-written is removed.
    pub fn new(folder: &Path) -> Result<Self, TaskError> {
        let folder = folder.join("checkpoints");
        fs::create_dir_all(&folder).map_err(TaskError::io(&folder))?;
        for entry in fs::read_dir(&folder).map_err(TaskError::io(&folder))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(".tmp-") {
                fs::remove_dir_all(entry.path()).map_err(TaskError::io(entry.path()))?;
            }
        }
        Ok(Self { folder })
    }

    /// Saves one and removes the oldest; what was there stays until it is complete.
    pub fn save(&self, checkpoint: &Checkpoint) -> Result<PathBuf, TaskError> {
        let step = checkpoint.state.step;
        let aside = self.folder.join(format!(".tmp-step-{step}"));
        let place = self.folder.join(format!("step-{step}"));
        let written = self.write(checkpoint, &aside);
        if written.is_err() {
            // A full disk is no better for half a checkpoint.
            let _ = fs::remove_dir_all(&aside);
        }
        written?;
        if place.exists() {
            // A run that went on from here is here again: the same bits, unless what is there is damaged.
            if self.read(&place).is_ok() {
                fs::remove_dir_all(&aside).map_err(TaskError::io(&aside))?;
                return Ok(place);
            }
            fs::remove_dir_all(&place).map_err(TaskError::io(&place))?;
        }
        fs::rename(&aside, &place).map_err(TaskError::io(&place))?;
        sync(&self.folder)?;
        for old in self.steps()?.into_iter().rev().skip(KEPT) {
            let old = self.folder.join(format!("step-{old}"));
            fs::remove_dir_all(&old).map_err(TaskError::io(&old))?;
        }
        Ok(place)
    }

    fn write(&self, checkpoint: &Checkpoint, aside: &Path) -> Result<(), TaskError> {
        if aside.exists() {
            fs::remove_dir_all(aside).map_err(TaskError::io(aside))?;
        }
        fs::create_dir_all(aside).map_err(TaskError::io(aside))?;
        let mut averages = Tensors::new();
        for Moments { path, first, second } in &checkpoint.moments {
            averages.insert(format!("first.{path}"), (vec![first.len()], first.clone()));
            averages.insert(format!("second.{path}"), (vec![second.len()], second.clone()));
        }
        let mut files = BTreeMap::new();
        let mut put = |name: &str, content: Vec<u8>| -> Result<(), TaskError> {
            files.insert(name.to_string(), sha256(&content));
            write_synced(&aside.join(name), &content)
        };
        put(WEIGHTS, to_bytes(&checkpoint.weights))?;
        put(OPTIMISER, to_bytes(&averages))?;
        if let Some(best) = &checkpoint.best {
            put(BEST, to_bytes(best))?;
        }
        let order = checkpoint.moments.iter().map(|m| m.path.clone()).collect();
        let state = StateFile { state: checkpoint.state.clone(), order, files };
        let state = serde_json::to_vec_pretty(&state).expect("plain values");
        write_synced(&aside.join(STATE), &state)?;
        sync(aside)
    }

    /// Whether there is any.
    pub fn is_any(&self) -> bool {
        self.steps().is_ok_and(|steps| !steps.is_empty())
    }

    /// The newest that is whole; each damaged one is told to `damaged`.
    pub fn newest(&self, mut damaged: impl FnMut(TaskError)) -> Result<Checkpoint, TaskError> {
        for step in self.steps()?.into_iter().rev() {
            match self.read(&self.folder.join(format!("step-{step}"))) {
                Ok(checkpoint) => return Ok(checkpoint),
                Err(error) => damaged(error),
            }
        }
        Err(TaskError::folder(&self.folder, "no whole checkpoint to go on from; start a new run in another folder"))
    }

    fn read(&self, place: &Path) -> Result<Checkpoint, TaskError> {
        let path = place.join(STATE);
        let text = fs::read(&path).map_err(TaskError::io(&path))?;
        let StateFile { state, order, files } =
            serde_json::from_slice(&text).map_err(|error| TaskError::folder(&path, format!("damaged: {error}")))?;
        let tensors = |name: &str| -> Result<Tensors, TaskError> {
            let path = place.join(name);
            let content = fs::read(&path).map_err(TaskError::io(&path))?;
            if files.get(name) != Some(&sha256(&content)) {
                return Err(TaskError::folder(&path, "damaged: its SHA-256 is not the one in state.json"));
            }
            from_bytes(&content, &path)
        };
        let weights = tensors(WEIGHTS)?;
        let best = files.contains_key(BEST).then(|| tensors(BEST)).transpose()?;
        let mut averages = tensors(OPTIMISER)?;
        let mut take = |name: String| {
            let missing = || TaskError::folder(place.join(OPTIMISER), format!("{name} is missing"));
            averages.remove(&name).map(|(_, values)| values).ok_or_else(missing)
        };
        let moments = order
            .into_iter()
            .map(|path| {
                let (first, second) = (take(format!("first.{path}"))?, take(format!("second.{path}"))?);
                Ok(Moments { path, first, second })
            })
            .collect::<Result<_, TaskError>>()?;
        Ok(Checkpoint { state, weights, best, moments })
    }

    /// The steps of which there is a checkpoint, the first first.
    fn steps(&self) -> Result<Vec<u64>, TaskError> {
        let entries = fs::read_dir(&self.folder).map_err(TaskError::io(&self.folder))?;
        let step = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix("step-")?.parse().ok();
        let mut steps: Vec<u64> = entries.flatten().filter_map(step).collect();
        steps.sort_unstable();
        Ok(steps)
    }
}

fn write_synced(path: &Path, content: &[u8]) -> Result<(), TaskError> {
    use std::io::Write;
    let mut file = File::create(path).map_err(TaskError::io(path))?;
    file.write_all(content).map_err(TaskError::io(path))?;
    file.sync_all().map_err(TaskError::io(path))
}

/// Makes the names in a folder durable.
fn sync(folder: &Path) -> Result<(), TaskError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(TaskError::io(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(step: u64) -> Checkpoint {
        let tensors = |value: f32| Tensors::from([("a.b".to_string(), (vec![2], vec![value, 0.1 + 0.2]))]);
        Checkpoint {
            state: State { step, since_point: LossSum { sum_bits: 0.3f64.to_bits(), steps: 3 }, ..State::default() },
            weights: tensors(step as f32),
            best: Some(tensors(-1.0)),
            moments: vec![Moments { path: "a.b".into(), first: vec![1e-30, 2.0], second: vec![3.0, 4.0] }],
        }
    }

    #[test]
    fn the_newest_whole_one_is_used_and_a_damaged_one_named() {
        let place = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::new(place.path()).unwrap();
        for step in [5, 10, 100] {
            checkpoints.save(&checkpoint(step)).unwrap();
        }
        assert_eq!(checkpoints.steps().unwrap(), [10, 100]);
        let read = checkpoints.newest(|error| panic!("{error}")).unwrap();
        let saved = checkpoint(100);
        assert_eq!((read.state, read.weights, read.best), (saved.state, saved.weights, saved.best));
        assert_eq!(read.moments, saved.moments);
        let weights = place.path().join("checkpoints/step-100").join(WEIGHTS);
        let mut content = fs::read(&weights).unwrap();
        *content.last_mut().unwrap() ^= 1;
        fs::write(&weights, content).unwrap();
        let mut told = Vec::new();
        assert_eq!(checkpoints.newest(|error| told.push(error.to_string())).unwrap().state.step, 10);
        assert!(told.len() == 1 && told[0].contains("step-100"), "{told:?}");
    }

    #[test]
    fn half_a_checkpoint_is_swept_away() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("checkpoints/.tmp-step-3")).unwrap();
        let checkpoints = Checkpoints::new(place.path()).unwrap();
        assert!(fs::read_dir(place.path().join("checkpoints")).unwrap().next().is_none());
        assert!(checkpoints.newest(|_| ()).unwrap_err().to_string().contains("no whole checkpoint"));
    }
}
