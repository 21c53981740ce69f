//! Checkpoints: everything that a run needs to go on to the same bits.
//!
//! A checkpoint is a folder `checkpoints/step-N`, written beside its place, synced and renamed; `state.json` holds the
//! SHA-256 of its other files and of itself. Two whole ones are kept, so that one is there while the next is written and if
//! the last is damaged. What is written goes from the model to the disk tensor by tensor.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use regard_kernels::Isa;
use regard_ops::Moments;
use regard_system::{save_streamed, sync_folder};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::TaskError;
use crate::folder::{CHECKPOINTS, save};
use crate::seal::{hexadecimal, sealed, sha256, unsealed};
use crate::weights::{self, Stored, Tensors};

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
    /// Whether the dev split is still to be scored after the last step: the run was asked to stop meanwhile.
    pub evaluation_due: bool,
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
    /// What its bits depend on.
    pub conditions: Conditions,
}

/// What the bits of a step depend on beside the configuration and the seed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// The version of Regard.
    pub regard: String,
    /// The instruction set of the kernels.
    pub instructions: String,
    /// The threads that share its batches.
    pub threads: usize,
    /// The fingerprint of its data.
    pub data: String,
}

impl Conditions {
    /// The conditions of this process, with data of this fingerprint.
    pub fn of(data: &str) -> Self {
        Self {
            regard: env!("CARGO_PKG_VERSION").to_string(),
            instructions: Isa::current().name().to_string(),
            threads: rayon::current_num_threads(),
            data: data.to_string(),
        }
    }

    /// What is other in `now`, in words, each with what would make it the same.
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let mut found = Vec::new();
        if self.regard != now.regard {
            found.push(format!("it was begun by Regard {}, and this is {}", self.regard, now.regard));
        }
        if self.instructions != now.instructions {
            let (before, now) = (&self.instructions, &now.instructions);
            found.push(format!("it was begun with {before} instructions, and these are {now} (REGARD_ISA chooses)"));
        }
        if self.threads != now.threads {
            let (before, now) = (self.threads, now.threads);
            found.push(format!("it was begun on {before} threads, and these are {now} (--threads {before})"));
        }
        if self.data != now.data {
            found.push("the built-in data are others in this version".to_string());
        }
        found
    }
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

/// A run as it is, to be saved.
pub struct Snapshot<'a> {
    /// Where it stands.
    pub state: &'a State,
    /// The weights.
    pub weights: BTreeMap<String, Stored<'a>>,
    /// The best weights so far, where they are others.
    pub best: Option<&'a Tensors>,
    /// The optimiser's averages.
    pub moments: &'a [Moments],
}

/// A checkpoint that was read.
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
    /// The steps of the checkpoints that this process has written or read, and which so are whole, in ascending order.
    whole: Vec<u64>,
    /// The state in the last of them.
    last: Option<State>,
}

impl Checkpoints {
    /// The checkpoints of a model folder that this process trains in. What an earlier run left half-written is removed.
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

    /// The checkpoints of a model folder that another process may be training in.
    pub fn of(folder: &Path) -> Self {
        Self { folder: folder.join(CHECKPOINTS), whole: Vec::new(), last: None }
    }

    /// Saves one and removes all but the newest whole ones; what was there stays until it is complete.
    pub fn save(&mut self, snapshot: &Snapshot) -> Result<(), TaskError> {
        let step = snapshot.state.step;
        if self.last.as_ref() == Some(snapshot.state) {
            // A run that was asked to stop before its first step is where it was.
            return Ok(());
        }
        let aside = self.folder.join(format!(".tmp-step-{step}"));
        let place = self.place(step);
        let written = self.write(snapshot, &aside);
        if written.is_err() {
            // A full disk is no better for half a checkpoint.
            let _ = fs::remove_dir_all(&aside);
        }
        written?;
        if place.exists() {
            // A damaged one, or that of a run which was stopped before it had scored this step.
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
            put(BEST, &Stored::all(best))?;
        }
        let order = moments.iter().map(|m| m.path.clone()).collect();
        let state = StateFile { state: State::clone(state), order, files };
        save(&aside.join(STATE), sealed(&state).as_bytes())
    }

    /// Whether there is any.
    pub fn is_any(&self) -> bool {
        self.steps().is_ok_and(|steps| !steps.is_empty())
    }

    /// The newest that is whole; each damaged one is told to `damaged`.
    pub fn newest(&mut self, mut damaged: impl FnMut(TaskError)) -> Result<Checkpoint, TaskError> {
        for step in self.steps()?.into_iter().rev() {
            match self.read(&self.place(step)) {
                Ok(checkpoint) => {
                    self.whole = vec![step];
                    self.last = Some(checkpoint.state.clone());
                    return Ok(checkpoint);
                }
                Err(error) if is_damage(&error) => damaged(error),
                // It may be as good as ever: the system does not let it be read.
                Err(error) => return Err(error),
            }
        }
        Err(TaskError::folder(&self.folder, "no whole checkpoint to go on from; start a new run in another folder"))
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

    /// The steps of which there is a checkpoint, the first first.
    fn steps(&self) -> Result<Vec<u64>, TaskError> {
        let entries = fs::read_dir(&self.folder).map_err(TaskError::io(&self.folder))?;
        let step = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix("step-")?.parse().ok();
        let mut steps: Vec<u64> = entries.flatten().filter_map(step).collect();
        steps.sort_unstable();
        Ok(steps)
    }
}

/// Whether a file is not what was written, rather than out of reach.
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

/// The weights of the newest whole checkpoint after step `after` of a run that another process may be training: the best so far
/// where the run keeps those. Their step comes with them; nothing if there is no such checkpoint.
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
    // The other process may remove one while it is read, and has then written a newer one.
    (0..3).find_map(|_| newest())
}

/// Hashes what it hands on.
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
        checkpoints.save(&Snapshot { state: &state, weights, best: best.as_ref(), moments: &moments }).unwrap();
    }

    /// Changes the last byte of a file.
    fn damage(path: &Path) {
        let mut content = fs::read(path).unwrap();
        *content.last_mut().unwrap() ^= 1;
        fs::write(path, content).unwrap();
    }

    #[test]
    fn the_newest_whole_one_is_used_and_a_damaged_one_named() {
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
    fn a_damaged_one_takes_no_place_of_those_that_are_kept() {
        let place = tempfile::tempdir().unwrap();
        let mut checkpoints = Checkpoints::new(place.path()).unwrap();
        for step in [10, 100] {
            save(&mut checkpoints, step);
        }
        damage(&checkpoints.place(100).join(WEIGHTS));
        // Another process goes on from the one before.
        let mut checkpoints = Checkpoints::new(place.path()).unwrap();
        checkpoints.newest(drop).unwrap();
        save(&mut checkpoints, 20);
        assert_eq!(checkpoints.steps().unwrap(), [10, 20]);
    }

    #[test]
    fn a_model_is_used_rather_than_older_weights() {
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
    fn what_would_change_the_bits_is_said() {
        let before = Conditions::of("data");
        assert!(before.differences(&before.clone()).is_empty());
        let now = Conditions {
            regard: "0.0.0".into(),
            instructions: "plain".into(),
            threads: before.threads + 1,
            data: "other".into(),
        };
        let said = before.differences(&now);
        assert_eq!(said.len(), 4, "{said:?}");
        assert!(said[2].contains(&format!("--threads {}", before.threads)));
    }

    #[test]
    fn half_a_checkpoint_is_swept_away() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("checkpoints/.tmp-step-3")).unwrap();
        let mut checkpoints = Checkpoints::new(place.path()).unwrap();
        assert!(fs::read_dir(place.path().join("checkpoints")).unwrap().next().is_none());
        assert!(checkpoints.newest(|_| ()).unwrap_err().to_string().contains("no whole checkpoint"));
    }
}
