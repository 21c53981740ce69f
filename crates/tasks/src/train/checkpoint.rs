//! Checkpoints: everything that a run needs to continue bit-identically.
//!
//! A checkpoint is a folder `checkpoints/step-N`, which is written under another name, synced and renamed. Its `state.json` holds
//! the SHA-256 of itself and of the other files. Two intact checkpoints are kept, so that one remains if the newest is damaged.
//! Tensors are written to disk one by one.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use regard_ops::Moments;
use regard_system::{save_streamed, sync_folder};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::conditions::Conditions;
use crate::error::TaskError;
use crate::folder::{CHECKPOINTS, save};
use crate::seal::{hexadecimal, sealed, sha256, unsealed};
use crate::weights::{self, Stored, Tensors};

const STATE: &str = "state.json";
const WEIGHTS: &str = "model.safetensors";
const BEST: &str = "best.safetensors";
const OPTIMISER: &str = "optimizer.safetensors";
/// Number of checkpoints that are kept.
const KEPT: usize = 2;

/// The state of a run, apart from its weights.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Number of steps made.
    pub step: u64,
    /// Epoch of the next batch.
    pub epoch: u64,
    /// Index of the next batch in the epoch's plan.
    pub batch: usize,
    /// Training losses since the last evaluation.
    pub since_evaluation: LossSum,
    /// Training losses since the last point of the loss curve.
    pub since_point: LossSum,
    /// Best score so far and its step.
    pub best: Option<Best>,
    /// Best score and lowest loss so far, which may belong to different steps, if the run keeps weights by both.
    #[serde(default)]
    pub extremes: Option<Extremes>,
    /// Number of evaluations since the best score.
    pub stale: u32,
    /// Number of steps of the optimiser; fewer than `step` if some gradients were not finite.
    pub optimiser_steps: u64,
    /// Whether the dev split still has to be scored after the last step, because the run was asked to stop meanwhile.
    pub evaluation_due: bool,
    /// Number of steps in a row whose gradients were not finite.
    pub broken: u32,
    /// Length of `metrics.jsonl` in bytes; anything after that belongs to steps that will be made again.
    pub metrics_bytes: u64,
    /// Seconds spent in training.
    pub seconds: f64,
    /// Number of tokens trained on.
    pub tokens: u64,
    /// State of the task between steps.
    pub memory: serde_json::Value,
    /// Conditions under which the run is bit-identical.
    pub conditions: Conditions,
}

/// The sum of the losses of some steps, for their mean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LossSum {
    /// Bits of the `f64` sum: decimal text would round it, and a resumed run would not be bit-identical.
    sum_bits: u64,
    /// Number of steps in the sum.
    steps: u64,
}

impl LossSum {
    /// Adds the loss of one step.
    pub fn add(&mut self, loss: f64) {
        self.sum_bits = (f64::from_bits(self.sum_bits) + loss).to_bits();
        self.steps += 1;
    }

    /// Returns the mean and resets the sum.
    pub fn take_mean(&mut self) -> f64 {
        let Self { sum_bits, steps } = std::mem::take(self);
        f64::from_bits(sum_bits) / steps.max(1) as f64
    }
}

/// The best score so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Step after which it was reached.
    pub step: u64,
    /// Bits of the main score as `f64`, with its sign chosen so that larger is better.
    pub worth_bits: u64,
}

/// The best score and the lowest loss so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Extremes {
    /// Bits of the best main score as `f64`, with its sign chosen so that larger is better.
    pub worth_bits: u64,
    /// Bits of the lowest loss as `f64`.
    pub loss_bits: u64,
}

/// A run in memory, to be saved.
pub struct Snapshot<'a> {
    /// State of the run.
    pub state: &'a State,
    /// Weights after the last step, by path.
    pub weights: BTreeMap<String, Stored<'a>>,
    /// Best weights so far, if the run keeps them.
    pub best: Option<BTreeMap<String, Stored<'a>>>,
    /// Moments of the optimiser.
    pub moments: &'a [Moments],
}

/// A checkpoint read from disk.
#[derive(Debug)]
pub struct Checkpoint {
    /// State of the run.
    pub state: State,
    /// Weights after the last step, by path.
    pub weights: Tensors,
    /// Best weights so far, if the run keeps them.
    pub best: Option<Tensors>,
    /// Moments of the optimiser.
    pub moments: Vec<Moments>,
}

#[derive(Serialize, Deserialize)]
struct StateFile {
    state: State,
    /// Paths of the moments, in the order of the module.
    order: Vec<String>,
    files: BTreeMap<String, String>,
}

/// The checkpoints of a model folder.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    folder: PathBuf,
    /// Steps of the checkpoints that this process has written or read and that are therefore intact, in ascending order.
    whole: Vec<u64>,
    /// State in the last of these checkpoints.
    last: Option<State>,
}

impl Checkpoints {
    /// Opens the checkpoints of a model folder for training. Removes half-written checkpoints.
    pub fn new(folder: &Path) -> Result<Self, TaskError> {
        let Self { folder, .. } = Self::of(folder);
        fs::create_dir_all(&folder).map_err(TaskError::io(&folder))?;
        for entry in fs::read_dir(&folder).map_err(TaskError::io(&folder))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(".tmp-") {
                fs::remove_dir_all(entry.path()).map_err(TaskError::io(entry.path()))?;
            }
        }
        Ok(Self { folder, whole: Vec::new(), last: None })
    }

    /// Opens the checkpoints of a model folder for reading; another process may be training in it.
    pub fn of(folder: &Path) -> Self {
        Self { folder: folder.join(CHECKPOINTS), whole: Vec::new(), last: None }
    }

    /// Saves a checkpoint, then removes all but the newest intact ones.
    pub fn save(&mut self, snapshot: &Snapshot) -> Result<(), TaskError> {
        let step = snapshot.state.step;
        if self.last.as_ref() == Some(snapshot.state) {
            // Nothing has changed: the run was asked to stop before its first step.
            return Ok(());
        }
        let aside = self.folder.join(format!(".tmp-step-{step}"));
        let place = self.place(step);
        let written = self.write(snapshot, &aside);
        if written.is_err() {
            // Half a checkpoint would only fill the disk.
            let _ = fs::remove_dir_all(&aside);
        }
        written?;
        if place.exists() {
            // It is damaged, or the run was stopped before it scored this step.
            fs::remove_dir_all(&place).map_err(TaskError::io(&place))?;
        }
        fs::rename(&aside, &place).map_err(TaskError::io(&place))?;
        sync_folder(&self.folder).map_err(TaskError::io(&self.folder))?;
        self.whole.retain(|known| *known != step);
        self.whole.push(step);
        self.last = Some(snapshot.state.clone());
        let kept = self.whole.len().saturating_sub(KEPT);
        self.whole.drain(..kept);
        for old in self.steps()?.into_iter().filter(|step| !self.whole.contains(step)) {
            fs::remove_dir_all(self.place(old)).map_err(TaskError::io(self.place(old)))?;
        }
        Ok(())
    }

    fn write(&self, snapshot: &Snapshot, aside: &Path) -> Result<(), TaskError> {
        if aside.exists() {
            fs::remove_dir_all(aside).map_err(TaskError::io(aside))?;
        }
        fs::create_dir_all(aside).map_err(TaskError::io(aside))?;
        let Snapshot { state, weights, best, moments } = snapshot;
        let averages = moments.iter().flat_map(|Moments { path, first, second }| {
            [(format!("first.{path}"), Stored::row(first)), (format!("second.{path}"), Stored::row(second))]
        });
        let mut files = BTreeMap::new();
        let mut put = |name: &str, tensors: &BTreeMap<String, Stored>| -> Result<(), TaskError> {
            let mut hasher = Sha256::new();
            save_streamed(&aside.join(name), |file| {
                weights::write(tensors, &mut Hashed { to: file, hasher: &mut hasher })
            })?;
            files.insert(name.to_string(), hexadecimal(hasher));
            Ok(())
        };
        put(WEIGHTS, weights)?;
        put(OPTIMISER, &averages.collect())?;
        if let Some(best) = best {
            put(BEST, best)?;
        }
        let order = moments.iter().map(|m| m.path.clone()).collect();
        let state = StateFile { state: State::clone(state), order, files };
        save(&aside.join(STATE), sealed(&state).as_bytes())
    }

    /// Returns whether there is a checkpoint.
    pub fn is_any(&self) -> bool {
        self.steps().is_ok_and(|steps| !steps.is_empty())
    }

    /// Reads the newest intact checkpoint; `damaged` is called for each damaged one.
    pub fn newest(&mut self, mut damaged: impl FnMut(TaskError)) -> Result<Checkpoint, TaskError> {
        for step in self.steps()?.into_iter().rev() {
            match self.read(&self.place(step)) {
                Ok(checkpoint) => {
                    self.whole = vec![step];
                    self.last = Some(checkpoint.state.clone());
                    return Ok(checkpoint);
                }
                Err(error) if is_damage(&error) => damaged(error),
                // It cannot be read at present, but may be intact.
                Err(error) => return Err(error),
            }
        }
        Err(TaskError::folder(&self.folder, "no intact checkpoint to resume from; start a new run in another folder"))
    }

    fn place(&self, step: u64) -> PathBuf {
        self.folder.join(format!("step-{step}"))
    }

    fn read(&self, place: &Path) -> Result<Checkpoint, TaskError> {
        let StateFile { state, order, files } = read_state(place)?;
        let weights = read_tensors(place, &files, WEIGHTS)?;
        let best = files.contains_key(BEST).then(|| read_tensors(place, &files, BEST)).transpose()?;
        let mut averages = read_tensors(place, &files, OPTIMISER)?;
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

    /// Returns the steps of all checkpoints in ascending order.
    fn steps(&self) -> Result<Vec<u64>, TaskError> {
        let entries = fs::read_dir(&self.folder).map_err(TaskError::io(&self.folder))?;
        let step = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix("step-")?.parse().ok();
        let mut steps: Vec<u64> = entries.flatten().filter_map(step).collect();
        steps.sort_unstable();
        Ok(steps)
    }
}

/// Returns whether a file is missing or damaged, as opposed to unreadable at present.
fn is_damage(error: &TaskError) -> bool {
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
    match error {
        TaskError::Io { cause, .. } => matches!(cause.kind(), NotFound | IsADirectory | NotADirectory),
        _ => true,
    }
}

fn read_state(place: &Path) -> Result<StateFile, TaskError> {
    let path = place.join(STATE);
    let text = fs::read(&path).map_err(TaskError::io(&path))?;
    let text = unsealed(&String::from_utf8_lossy(&text))
        .ok_or_else(|| TaskError::folder(&path, "damaged: its SHA-256 is not the one under \"sha256\""))?;
    serde_json::from_str(&text).map_err(|error| TaskError::folder(&path, format!("damaged: {error}")))
}

fn read_tensors(place: &Path, files: &BTreeMap<String, String>, name: &str) -> Result<Tensors, TaskError> {
    let path = place.join(name);
    let content = fs::read(&path).map_err(TaskError::io(&path))?;
    if files.get(name) != Some(&sha256(&content)) {
        return Err(TaskError::folder(&path, "damaged: its SHA-256 is not the one in state.json"));
    }
    weights::from_bytes(&content, &path)
}

/// Returns the weights of the newest intact checkpoint after step `after`, and their step: the best weights so far if the run
/// keeps them, else the last ones. Another process may be training the run. `None` if there is no such checkpoint.
pub fn newest_weights(folder: &Path, after: Option<u64>) -> Option<(u64, Tensors)> {
    let checkpoints = Checkpoints::of(folder);
    let read = |step: u64| -> Result<(u64, Tensors), TaskError> {
        let place = checkpoints.place(step);
        let StateFile { state, files, .. } = read_state(&place)?;
        match state.best.filter(|_| files.contains_key(BEST)) {
            Some(best) => Ok((best.step, read_tensors(&place, &files, BEST)?)),
            None => Ok((state.step, read_tensors(&place, &files, WEIGHTS)?)),
        }
    };
    let newest = || {
        let steps = checkpoints.steps().ok()?.into_iter().rev();
        steps.take_while(|step| after.is_none_or(|after| *step > after)).find_map(|step| read(step).ok())
    };
    // The other process may remove a checkpoint while it is read; it has then written a newer one.
    (0..3).find_map(|_| newest())
}

/// Writer that hashes what passes through it.
struct Hashed<'a> {
    to: &'a mut dyn Write,
    hasher: &'a mut Sha256,
}

impl Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
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

    fn save(checkpoints: &mut Checkpoints, step: u64) {
        let Checkpoint { state, weights, best, moments } = checkpoint(step);
        let weights = Stored::all(&weights);
        let best = best.as_ref().map(Stored::all);
        checkpoints.save(&Snapshot { state: &state, weights, best, moments: &moments }).unwrap();
    }

    /// Changes the last byte of a file.
    fn damage(path: &Path) {
        let mut content = fs::read(path).unwrap();
        *content.last_mut().unwrap() ^= 1;
        fs::write(path, content).unwrap();
    }

    #[test]
    fn the_newest_intact_checkpoint_is_used_and_a_damaged_one_named() {
        for file in [WEIGHTS, OPTIMISER, BEST, STATE] {
            let place = tempfile::tempdir().unwrap();
            let mut checkpoints = Checkpoints::new(place.path()).unwrap();
            for step in [5, 10, 100] {
                save(&mut checkpoints, step);
            }
            assert_eq!(checkpoints.steps().unwrap(), [10, 100]);
            let read = checkpoints.newest(|error| panic!("{error}")).unwrap();
            let saved = checkpoint(100);
            assert_eq!((read.state, read.weights, read.best), (saved.state, saved.weights, saved.best));
            assert_eq!(read.moments, saved.moments);
            damage(&checkpoints.place(100).join(file));
            let mut told = Vec::new();
            assert_eq!(checkpoints.newest(|error| told.push(error.to_string())).unwrap().state.step, 10);
            assert!(told.len() == 1 && told[0].contains("step-100"), "{told:?}");
        }
    }

    #[test]
    fn a_damaged_checkpoint_does_not_count_as_kept() {
        let place = tempfile::tempdir().unwrap();
        let mut checkpoints = Checkpoints::new(place.path()).unwrap();
        for step in [10, 100] {
            save(&mut checkpoints, step);
        }
        damage(&checkpoints.place(100).join(WEIGHTS));
        // Another process resumes from the checkpoint before.
        let mut checkpoints = Checkpoints::new(place.path()).unwrap();
        checkpoints.newest(drop).unwrap();
        save(&mut checkpoints, 20);
        assert_eq!(checkpoints.steps().unwrap(), [10, 20]);
    }

    #[test]
    fn only_checkpoints_after_a_step_are_used() {
        let place = tempfile::tempdir().unwrap();
        let mut checkpoints = Checkpoints::new(place.path()).unwrap();
        for step in [20, 30] {
            save(&mut checkpoints, step);
        }
        assert_eq!(newest_weights(place.path(), Some(25)).unwrap().0, 30);
        damage(&checkpoints.place(30).join(WEIGHTS));
        assert!(newest_weights(place.path(), Some(30)).is_none() && newest_weights(place.path(), Some(25)).is_none());
        assert_eq!(newest_weights(place.path(), None).unwrap().0, 20);
    }

    #[test]
    fn a_half_written_checkpoint_is_removed() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("checkpoints/.tmp-step-3")).unwrap();
        let mut checkpoints = Checkpoints::new(place.path()).unwrap();
        assert!(fs::read_dir(place.path().join("checkpoints")).unwrap().next().is_none());
        assert!(checkpoints.newest(|_| ()).unwrap_err().to_string().contains("no intact checkpoint"));
    }
}
