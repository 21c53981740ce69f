//! A model folder: what a trained model needs, in files that are checked when they are read.
//!
//! `config.json` describes the model and holds a SHA-256 of every other file but the lock of the process that trains. New
//! files are first written beside their places, then `config.json` names them, then they take their places: a folder is as
//! it was or as it should be, and one that was interrupted between the last two is read from beside.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use regard_inspect::save_atomically;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::TaskError;

/// The files of a folder beside its checkpoints.
pub const CONFIG: &str = "config.json";
/// The weights.
pub const MODEL: &str = "model.safetensors";
/// How text becomes tokens, where the task has that.
pub const TOKENIZER: &str = "tokenizer.json";
/// A line a measurement.
pub const METRICS: &str = "metrics.jsonl";
/// The page with pictures.
pub const REPORT: &str = "report.html";

/// Held by the process that trains; of no meaning afterwards.
const LOCK: &str = ".training";

/// The layout of folders that this version writes: in format 1, `[model]` had the keys of all kinds of networks.
const FORMAT: u32 = 2;

/// What `config.json` says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Layout of the folder.
    pub format: u32,
    /// The version of Regard that wrote it.
    pub regard: String,
    /// The task's name.
    pub task: String,
    /// Whether training came to its end.
    pub finished: bool,
    /// Steps made.
    pub step: u64,
    /// The resolved configuration of the run.
    pub config: serde_json::Value,
    /// The fingerprint of the data it was trained on; `built-in` for those.
    pub data: String,
    /// Scores of the test split, once training is finished.
    pub scores: Option<BTreeMap<String, f64>>,
    /// SHA-256 of the other files.
    pub files: BTreeMap<String, String>,
    /// What `regard count` reads, where the task can say: `architecture`, `model`, `sizes`.
    #[serde(flatten)]
    pub counted: serde_json::Map<String, serde_json::Value>,
}

/// A folder on disk.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
    /// Of a process that trains in it.
    _lock: Option<Arc<File>>,
}

impl Folder {
    /// A new folder to train in; one that has a model or a run in it is refused.
    pub fn create(path: &Path) -> Result<Self, TaskError> {
        let check = || match path.join(CONFIG).exists() {
            true => {
                let problem = "there is a run in it; go on with it by --resume, or name another folder with --out";
                Err(TaskError::folder(path, problem))
            }
            false => Ok(()),
        };
        check()?;
        fs::create_dir_all(path).map_err(TaskError::io(path))?;
        let lock = lock(path)?;
        // Another process may have been the first.
        check()?;
        Ok(Self { path: path.to_path_buf(), _lock: Some(lock) })
    }

    /// A folder that is there, to train on in it.
    pub fn resume(path: &Path) -> Result<(Self, Description), TaskError> {
        Self::open(path)?;
        let lock = lock(path)?;
        // As the process that trained in it before has left it.
        let (folder, description) = Self::open(path)?;
        Ok((Self { _lock: Some(lock), ..folder }, description))
    }

    /// A folder that is there.
    pub fn open(path: &Path) -> Result<(Self, Description), TaskError> {
        let file = path.join(CONFIG);
        if !file.is_file() {
            let problem = "is no model folder: it has no config.json (regard train writes one)";
            return Err(TaskError::folder(path, problem));
        }
        let text = fs::read_to_string(&file).map_err(TaskError::io(&file))?;
        let description: Description =
            serde_json::from_str(&text).map_err(|error| TaskError::folder(&file, format!("damaged: {error}")))?;
        if description.format != FORMAT {
            let age = if description.format < FORMAT { "an earlier" } else { "a later" };
            let format = description.format;
            let problem = format!(
                "written by {age} version of Regard (format {format}; this one reads {FORMAT}) and cannot be opened; \
                 train the model again"
            );
            return Err(TaskError::folder(&file, problem));
        }
        Ok((Self { path: path.to_path_buf(), _lock: None }, description))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of one of its files.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The content of a file, which must be the one that the description names.
    pub fn read(&self, description: &Description, name: &str) -> Result<Vec<u8>, TaskError> {
        let path = self.file(name);
        let Some(expected) = description.files.get(name) else {
            let problem = match description.finished {
                true => format!("{CONFIG} does not name it: the folder is damaged"),
                false => "not there yet: training has not finished; go on with --resume".to_string(),
            };
            return Err(TaskError::folder(path, problem));
        };
        let found = [self.file(name), self.beside(name)]
            .into_iter()
            .find(|path| fs::read(path).is_ok_and(|content| sha256(&content) == *expected));
        match found {
            Some(found) => fs::read(&found).map_err(TaskError::io(&found)),
            None if path.is_file() => {
                let problem = "damaged: its SHA-256 is not the one in config.json; copy the folder again";
                Err(TaskError::folder(path, problem))
            }
            None => Err(TaskError::folder(path, "missing, though config.json names it: the folder is damaged")),
        }
    }

    /// Makes `files` those of the folder, all of them or none.
    pub fn commit(&self, description: &mut Description, files: &BTreeMap<String, Vec<u8>>) -> Result<(), TaskError> {
        for (name, content) in files {
            save(&self.beside(name), content)?;
            description.files.insert(name.clone(), sha256(content));
        }
        self.describe(description)?;
        for name in files.keys() {
            fs::rename(self.beside(name), self.file(name)).map_err(TaskError::io(self.file(name)))?;
        }
        Ok(())
    }

    /// Where a file waits for `config.json` to name it.
    fn beside(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.new"))
    }

    /// Writes `config.json`.
    pub fn describe(&self, description: &Description) -> Result<(), TaskError> {
        let text = serde_json::to_string_pretty(description).expect("plain values");
        save(&self.file(CONFIG), text.as_bytes())
    }
}

impl Description {
    /// Of a run that begins.
    pub fn new(task: &str, config: serde_json::Value) -> Self {
        Self {
            format: FORMAT,
            regard: env!("CARGO_PKG_VERSION").to_string(),
            task: task.to_string(),
            finished: false,
            step: 0,
            config,
            data: String::new(),
            scores: None,
            files: BTreeMap::new(),
            counted: serde_json::Map::new(),
        }
    }
}

/// Keeps other processes from training in a folder for as long as the file is open.
fn lock(folder: &Path) -> Result<Arc<File>, TaskError> {
    let path = folder.join(LOCK);
    let file = File::create(&path).map_err(TaskError::io(&path))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            let problem = "another process is training in it; wait for it, or name another folder with --out";
            Err(TaskError::folder(folder, problem))
        }
        // A file system without locks is no reason not to train.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(Arc::new(file)),
    }
}

/// Writes aside, syncs and renames.
pub(crate) fn save(path: &Path, content: &[u8]) -> Result<(), TaskError> {
    Ok(save_atomically(path, content)?)
}

/// In hexadecimal.
pub fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_standard() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), abc);
    }

    #[test]
    fn a_flipped_byte_and_a_missing_file_are_named() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::create(place.path()).unwrap();
        let mut description = Description::new("tag", serde_json::json!({}));
        let files = |content: &[u8]| BTreeMap::from([(MODEL.to_string(), content.to_vec())]);
        folder.commit(&mut description, &files(b"weights")).unwrap();
        let (folder, description) = Folder::open(place.path()).unwrap();
        assert_eq!(folder.read(&description, MODEL).unwrap(), b"weights");
        fs::write(folder.file(MODEL), b"weightz").unwrap();
        let error = folder.read(&description, MODEL).unwrap_err().to_string();
        assert!(error.contains(MODEL) && error.contains("damaged"), "{error}");
        fs::remove_file(folder.file(MODEL)).unwrap();
        assert!(folder.read(&description, MODEL).unwrap_err().to_string().contains("missing"));
        assert!(Folder::create(place.path()).unwrap_err().to_string().contains("--resume"));
    }

    #[test]
    fn folders_of_other_versions_are_refused_in_one_line() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::create(place.path()).unwrap();
        for (format, age) in [(1, "an earlier version"), (FORMAT + 1, "a later version")] {
            let config = serde_json::json!({ "model": { "kind": "lstm", "n_heads": 4 } });
            folder.describe(&Description { format, ..Description::new("tag", config) }).unwrap();
            let error = Folder::open(place.path()).unwrap_err().to_string();
            assert!(error.contains(age) && error.contains("cannot be opened") && error.lines().count() == 1, "{error}");
        }
    }

    #[test]
    fn one_process_trains_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::create(place.path()).unwrap();
        assert!(Folder::create(place.path()).unwrap_err().to_string().contains("another process"));
        folder.describe(&Description::new("tag", serde_json::json!({}))).unwrap();
        assert!(Folder::resume(place.path()).unwrap_err().to_string().contains("another process"));
        Folder::open(place.path()).unwrap();
        drop(folder);
        Folder::resume(place.path()).unwrap();
    }

    #[test]
    fn an_interrupted_commit_is_the_old_folder_or_the_new_one() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::create(place.path()).unwrap();
        let mut old = Description::new("tag", serde_json::json!({}));
        let files = |content: &[u8]| BTreeMap::from([(MODEL.to_string(), content.to_vec())]);
        folder.commit(&mut old, &files(b"old")).unwrap();
        // Before config.json names the new file.
        fs::write(folder.beside(MODEL), b"new").unwrap();
        assert_eq!(folder.read(&old, MODEL).unwrap(), b"old");
        // After that, before it takes its place.
        let mut new = old.clone();
        new.files.insert(MODEL.to_string(), sha256(b"new"));
        folder.describe(&new).unwrap();
        let (folder, read) = Folder::open(place.path()).unwrap();
        assert_eq!(folder.read(&read, MODEL).unwrap(), b"new");
    }
}
