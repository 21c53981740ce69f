//! Model folders: the files of a trained model, which are checked when they are read.
//!
//! `config.json` describes the model and holds the SHA-256 of itself and of every other file except the lock of the training
//! process. To replace files, all new ones are written beside their places as `NAME.new`, then `config.json` lists their hashes,
//! then they are renamed into place. So a folder is always either the old or the new one: after a crash before the renaming, the
//! files are read from `NAME.new`, and the next process that trains in the folder renames them.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use regard_data::Tokenizer;
use regard_system::{create_folder, remove_temporary_files, save_atomically, sync_folder};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::TaskError;
pub use crate::seal::sha256;
use crate::seal::{sealed, unsealed};

/// File that describes the model.
pub const CONFIG: &str = "config.json";
/// File with the weights.
pub const MODEL: &str = "model.safetensors";
/// File with the tokeniser, if the task has one.
pub const TOKENIZER: &str = "tokenizer.json";
/// File with the losses and scores during training, one JSON object per line.
pub const METRICS: &str = "metrics.jsonl";
/// File with the report on the run.
pub const REPORT: &str = "report.html";

/// Lock file of the training process; without meaning afterwards.
const LOCK: &str = ".training";

/// How often a lock that is held is tried again.
const LOCK_TRIES: usize = 10;

/// Name of the folder with the checkpoints.
pub(crate) const CHECKPOINTS: &str = "checkpoints";

/// Suffix of a file that is written before `config.json` lists it.
const BESIDE: &str = ".new";

/// Version of the folder layout that this version of Regard reads and writes. In format 1, `[model]` had the keys of all kinds
/// of networks; in format 2, `config.json` had no hash of itself.
const FORMAT: u32 = 3;

/// The content of `config.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Version of the folder layout.
    pub format: u32,
    /// Version of Regard that wrote the folder.
    pub regard: String,
    /// Name of the task.
    pub task: String,
    /// Whether training has finished.
    pub finished: bool,
    /// Number of steps made.
    pub step: u64,
    /// Configuration of the run, with all defaults.
    pub config: serde_json::Value,
    /// What was chosen for the data when the run began and why, as lines; empty if nothing was chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chosen: Vec<String>,
    /// Fingerprint of the data that the model was trained on.
    pub data: String,
    /// Scores on the held-out split by name, once training has finished.
    pub scores: Option<BTreeMap<String, f64>>,
    /// SHA-256 of the other files, by name.
    pub files: BTreeMap<String, String>,
    /// Keys for `regard count`, if the task can describe its model: `architecture`, `model`, `sizes`.
    #[serde(flatten)]
    pub counted: serde_json::Map<String, serde_json::Value>,
}

/// A model folder on disk.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
    /// Lock that keeps other processes from training in the folder while this one does.
    _lock: Option<Arc<File>>,
}

impl Folder {
    /// Creates a folder to train in; returns an error if there are files in it.
    pub fn create(path: &Path) -> Result<Self, TaskError> {
        check_free(path)?;
        create_folder(path).map_err(TaskError::io(path))?;
        let lock = lock(path)?;
        // Another process may have started a run here in the meantime.
        check_free(path)?;
        let folder = Self { path: path.to_path_buf(), _lock: Some(lock) };
        folder.settle(&BTreeMap::new())?;
        Ok(folder)
    }

    /// Returns a folder that another process of the run writes.
    pub(crate) fn of_first_rank(path: PathBuf) -> Self {
        Self { path, _lock: None }
    }

    /// Opens an existing folder to continue training. Files that a crash has left beside their places are renamed or removed.
    pub fn resume(path: &Path) -> Result<(Self, Description), TaskError> {
        Self::open(path)?;
        let lock = lock(path)?;
        // Read again: another process may have written until it released the lock.
        let (folder, description) = Self::open(path)?;
        folder.settle(&description.files)?;
        Ok((Self { _lock: Some(lock), ..folder }, description))
    }

    /// Finishes an interrupted commit: each file beside its place is renamed into it if its hash is the one in `files`, and
    /// removed otherwise.
    fn settle(&self, files: &BTreeMap<String, String>) -> Result<(), TaskError> {
        remove_temporary_files(&self.path, Duration::ZERO);
        for beside in fs::read_dir(&self.path).map_err(TaskError::io(&self.path))?.flatten().map(|entry| entry.path()) {
            let Some(name) = beside.file_name().and_then(|name| name.to_str()?.strip_suffix(BESIDE)) else { continue };
            let is_named = |path: &Path| fs::read(path).is_ok_and(|content| files.get(name) == Some(&sha256(&content)));
            let place = self.file(name);
            match !is_named(&place) && is_named(&beside) {
                true => fs::rename(&beside, &place),
                false => fs::remove_file(&beside),
            }
            .map_err(TaskError::io(&beside))?;
        }
        sync_folder(&self.path).map_err(TaskError::io(&self.path))
    }

    /// Opens an existing folder for reading and checks its `config.json`.
    pub fn open(path: &Path) -> Result<(Self, Description), TaskError> {
        let file = path.join(CONFIG);
        if !file.is_file() {
            let problem = match path.exists() {
                true => "not a model folder: it has no config.json (regard train writes one)",
                false => "not a model folder: it does not exist",
            };
            return Err(TaskError::folder(path, problem));
        }
        let text = fs::read(&file).map_err(TaskError::io(&file))?;
        let text = String::from_utf8_lossy(&text);
        let damaged = |error: serde_json::Error| TaskError::folder(&file, format!("damaged: {error}"));
        let Layout { format } = serde_json::from_str(&text).map_err(damaged)?;
        if format != FORMAT {
            let age = if format < FORMAT { "an earlier" } else { "a later" };
            let problem = format!(
                "written by {age} version of Regard (format {format}; this one reads {FORMAT}) and cannot be opened; \
                 train the model again"
            );
            return Err(TaskError::folder(&file, problem));
        }
        let Some(text) = unsealed(&text) else {
            let problem = "changed since Regard wrote it: its SHA-256 is not the one under \"sha256\"; restore the \
                           original, or train a model with the new settings";
            return Err(TaskError::folder(&file, problem));
        };
        let description = serde_json::from_str(&text).map_err(damaged)?;
        Ok((Self { path: path.to_path_buf(), _lock: None }, description))
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Reads a file and checks it against its hash in the description.
    pub fn read(&self, description: &Description, name: &str) -> Result<Vec<u8>, TaskError> {
        let path = self.file(name);
        let Some(expected) = description.files.get(name) else {
            let problem = match description.finished {
                true => format!("not listed in {CONFIG}: the folder is damaged"),
                false => "not written yet: training has not finished; continue it with --resume".to_string(),
            };
            return Err(TaskError::folder(path, problem));
        };
        for place in [self.file(name), self.beside(name)] {
            match fs::read(&place) {
                Ok(content) if sha256(&content) == *expected => return Ok(content),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(TaskError::io(&place)(error)),
            }
        }
        let problem = match path.is_file() {
            true => "damaged: its SHA-256 is not the one in config.json; copy the folder again",
            false => "missing, although config.json lists it: the folder is damaged",
        };
        Err(TaskError::folder(path, problem))
    }

    /// Writes `files` and the description into the folder; after a crash either all of them are in effect or none.
    pub fn commit(&self, description: &mut Description, files: &BTreeMap<String, Vec<u8>>) -> Result<(), TaskError> {
        for (name, content) in files {
            save(&self.beside(name), content)?;
            description.files.insert(name.clone(), sha256(content));
        }
        self.describe(description)?;
        for name in files.keys() {
            fs::rename(self.beside(name), self.file(name)).map_err(TaskError::io(self.file(name)))?;
        }
        sync_folder(&self.path).map_err(TaskError::io(&self.path))
    }

    /// Returns the path at which a file is written before `config.json` lists it.
    fn beside(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}{BESIDE}"))
    }

    /// Writes `config.json`.
    pub fn describe(&self, description: &Description) -> Result<(), TaskError> {
        save(&self.file(CONFIG), sealed(description).as_bytes())
    }
}

/// The files of a model folder for [`Task::open`](crate::task::Task::open).
#[derive(Debug, Clone, Copy)]
pub struct Files<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) description: &'a Description,
}

impl Files<'_> {
    /// Reads a JSON file.
    pub fn json<V: DeserializeOwned>(&self, name: &str) -> Result<V, TaskError> {
        let content = self.folder.read(self.description, name)?;
        serde_json::from_slice(&content).map_err(|error| self.damaged(name, error))
    }

    /// Reads the tokeniser, [`TOKENIZER`].
    pub fn tokenizer(&self) -> Result<Tokenizer, TaskError> {
        let content = self.folder.read(self.description, TOKENIZER)?;
        Ok(Tokenizer::from_json(&content, &self.folder.file(TOKENIZER))?)
    }

    /// Returns the error for a file whose content is wrong.
    pub fn damaged(&self, name: &str, problem: impl Display) -> TaskError {
        TaskError::folder(self.folder.file(name), format!("damaged: {problem}"))
    }
}

/// Returns the name and the content of the file that [`Files::tokenizer`] reads.
pub fn tokenizer_file(tokenizer: &Tokenizer) -> (String, Vec<u8>) {
    (TOKENIZER.to_string(), tokenizer.to_json().into_bytes())
}

/// The part of a `config.json` that decides whether the rest can be read.
#[derive(Deserialize)]
struct Layout {
    format: u32,
}

/// Returns an error if a folder has a run or other files in it. Hidden files do not count, nor do the remains of a run that was
/// killed before it wrote a `config.json`.
pub(crate) fn check_free(path: &Path) -> Result<(), TaskError> {
    if path.join(CONFIG).exists() {
        let problem = "already holds a run; continue it with --resume, or name another folder with --out";
        return Err(TaskError::folder(path, problem));
    }
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(TaskError::io(path))?,
    };
    let mut names: Vec<String> = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into()).collect();
    names.sort();
    let is_empty = |name: &str| fs::read_dir(path.join(name)).is_ok_and(|mut entries| entries.next().is_none());
    let is_nobodys =
        |name: &str| name.starts_with('.') || name.ends_with(BESIDE) || (name == CHECKPOINTS && is_empty(name));
    match names.iter().find(|name| !is_nobodys(name)) {
        Some(name) if name == CHECKPOINTS => {
            let problem = "holds checkpoints, but the config.json of their run is gone; name another folder with --out";
            Err(TaskError::folder(path, problem))
        }
        Some(name) => {
            let problem = format!("holds other files, such as {name}; name a new folder with --out");
            Err(TaskError::folder(path, problem))
        }
        None => Ok(()),
    }
}

impl Description {
    /// Creates the description of a run that begins.
    pub fn new(task: &str, config: serde_json::Value) -> Self {
        Self {
            format: FORMAT,
            regard: env!("CARGO_PKG_VERSION").to_string(),
            task: task.to_string(),
            finished: false,
            step: 0,
            config,
            chosen: Vec::new(),
            data: String::new(),
            scores: None,
            files: BTreeMap::new(),
            counted: serde_json::Map::new(),
        }
    }
}

/// Locks a folder for training as long as the returned file is open; returns an error if another process holds the lock.
pub(crate) fn lock(folder: &Path) -> Result<Arc<File>, TaskError> {
    let path = folder.join(LOCK);
    let file = File::create(&path).map_err(TaskError::io(&path))?;
    let mut locked = file.try_lock();
    for _ in 0..LOCK_TRIES {
        // Somebody who looks whether the folder is being trained in holds the lock for an instant.
        if !matches!(locked, Err(TryLockError::WouldBlock)) {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
        locked = file.try_lock();
    }
    match locked {
        Err(TryLockError::WouldBlock) => {
            let problem = "another process is training in it; wait for it to end, or name another folder with --out";
            Err(TaskError::folder(folder, problem))
        }
        // Without locks in the file system, training goes on unprotected.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(Arc::new(file)),
    }
}

/// Returns whether a process trains in a folder now.
pub fn is_training(folder: &Path) -> bool {
    let Ok(file) = File::open(folder.join(LOCK)) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Writes a file atomically and durably.
pub(crate) fn save(path: &Path, content: &[u8]) -> Result<(), TaskError> {
    Ok(save_atomically(path, content)?)
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Calls `read` with the files of a new model folder.
    pub(crate) fn with_files<R>(files: BTreeMap<String, Vec<u8>>, read: impl FnOnce(&Files) -> R) -> R {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::create(place.path()).unwrap();
        let mut description = Description::new("tag", serde_json::json!({}));
        folder.commit(&mut description, &files).unwrap();
        read(&Files { folder: &folder, description: &description })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_and_a_missing_file_are_named() {
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
        for (format, age) in [(1, "an earlier version"), (2, "an earlier version"), (FORMAT + 1, "a later version")] {
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
        // A crash before config.json lists the new file.
        fs::write(folder.beside(MODEL), b"new").unwrap();
        assert_eq!(folder.read(&old, MODEL).unwrap(), b"old");
        // A crash after that, before the file is renamed.
        let mut new = old.clone();
        new.files.insert(MODEL.to_string(), sha256(b"new"));
        folder.describe(&new).unwrap();
        let (opened, read) = Folder::open(place.path()).unwrap();
        assert_eq!(opened.read(&read, MODEL).unwrap(), b"new");
        // The next process that trains in the folder finishes the commit.
        fs::write(folder.beside(REPORT), b"never named").unwrap();
        fs::write(folder.file(".regard-killed.tmp"), b"half").unwrap();
        drop(folder);
        let (folder, read) = Folder::resume(place.path()).unwrap();
        assert_eq!(fs::read(folder.file(MODEL)).unwrap(), b"new");
        assert_eq!(folder.read(&read, MODEL).unwrap(), b"new");
        let mut names: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [LOCK, CONFIG, MODEL]);
    }

    #[test]
    fn a_changed_description_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::create(place.path()).unwrap();
        folder.describe(&Description::new("tag", serde_json::json!({ "model": { "n_heads": 4 } }))).unwrap();
        Folder::open(place.path()).unwrap();
        let text = fs::read_to_string(folder.file(CONFIG)).unwrap();
        for (from, to, said) in [
            ("\"n_heads\": 4", "\"n_heads\": 2", "changed since"),
            ("sha256", "sha255", "changed since"),
            ("{", "", "damaged"),
        ] {
            fs::write(folder.file(CONFIG), text.replacen(from, to, 1)).unwrap();
            let error = Folder::open(place.path()).unwrap_err().to_string();
            assert!(error.contains(CONFIG) && error.contains(said) && error.lines().count() == 1, "{error}");
        }
    }

    #[test]
    fn a_run_starts_only_in_a_free_folder() {
        let place = tempfile::tempdir().unwrap();
        let folder = |files: &[&str]| {
            let folder = tempfile::tempdir_in(place.path()).unwrap().keep();
            for file in files {
                let file = folder.join(file);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, b"something").unwrap();
            }
            folder
        };
        let refused = |files: &[&str]| Folder::create(&folder(files)).map(drop).unwrap_err().to_string();
        assert!(refused(&["thesis.tex"]).contains("such as thesis.tex"));
        // A new run never uses the checkpoints of another.
        assert!(
            refused(&["checkpoints/step-10/state.json", "metrics.jsonl"]).contains("config.json of their run is gone")
        );
        // A run that was killed before it wrote config.json can be started again.
        let begun = folder(&[".training", "tokenizer.json.new", ".regard-a.tmp"]);
        fs::create_dir(begun.join(CHECKPOINTS)).unwrap();
        Folder::create(&begun).unwrap();
        assert!(!begun.join(".regard-a.tmp").exists() && !begun.join("tokenizer.json.new").exists());
    }
}
