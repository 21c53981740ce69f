//! A model folder: what a trained model needs, in files that are checked when they are read.
//!
//! `config.json` describes the model and holds a SHA-256 of every other file but the lock of the process that trains, and one
//! of itself. New files are first written beside their places, then `config.json` names them, then they take their places: a
//! folder is as it was or as it should be. Where a crash came between the last two, the files are read from beside their places,
//! and the next process that trains in the folder moves them there.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use regard_system::{create_folder, remove_temporary_files, save_atomically, sync_folder};
use serde::{Deserialize, Serialize};

use crate::error::TaskError;
pub use crate::seal::sha256;
use crate::seal::{sealed, unsealed};

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

/// The folder of the checkpoints.
pub(crate) const CHECKPOINTS: &str = "checkpoints";

/// What the name of a file ends with that waits for `config.json` to name it.
const BESIDE: &str = ".new";

/// The layout of folders that this version writes. In format 1, `[model]` had the keys of all kinds of networks; in format 2,
/// `config.json` had no hash of itself.
const FORMAT: u32 = 3;

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
    /// The fingerprint of the data it was trained on.
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
    /// Held while this process trains in the folder, so that no other does.
    _lock: Option<Arc<File>>,
}

impl Folder {
    /// A new folder to train in; one that has anything in it is refused.
    pub fn create(path: &Path) -> Result<Self, TaskError> {
        check_free(path)?;
        create_folder(path).map_err(TaskError::io(path))?;
        let lock = lock(path)?;
        // Another process may have been the first.
        check_free(path)?;
        let folder = Self { path: path.to_path_buf(), _lock: Some(lock) };
        folder.settle(&BTreeMap::new())?;
        Ok(folder)
    }

    /// A folder that is there, to train on in it. What a crash has left aside is moved into its place or removed.
    pub fn resume(path: &Path) -> Result<(Self, Description), TaskError> {
        Self::open(path)?;
        let lock = lock(path)?;
        // The process that trained in it before may have written until the lock was free.
        let (folder, description) = Self::open(path)?;
        folder.settle(&description.files)?;
        Ok((Self { _lock: Some(lock), ..folder }, description))
    }

    /// Finishes a commit that was interrupted: each file that waits beside its place takes it if it is the one of that name in
    /// `files`, and is removed if not.
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

    /// A folder that is there.
    pub fn open(path: &Path) -> Result<(Self, Description), TaskError> {
        let file = path.join(CONFIG);
        if !file.is_file() {
            let problem = "is no model folder: it has no config.json (regard train writes one)";
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
            let problem = "changed since Regard has written it: its SHA-256 is not the one under \"sha256\"; put back \
                           what it was, or train a model with the other settings";
            return Err(TaskError::folder(&file, problem));
        };
        let description = serde_json::from_str(&text).map_err(damaged)?;
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
            false => "missing, though config.json names it: the folder is damaged",
        };
        Err(TaskError::folder(path, problem))
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
        sync_folder(&self.path).map_err(TaskError::io(&self.path))
    }

    /// Where a file waits for `config.json` to name it.
    fn beside(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}{BESIDE}"))
    }

    /// Writes `config.json`.
    pub fn describe(&self, description: &Description) -> Result<(), TaskError> {
        save(&self.file(CONFIG), sealed(description).as_bytes())
    }
}

/// What decides whether the rest of a `config.json` can be read.
#[derive(Deserialize)]
struct Layout {
    format: u32,
}

/// Refuses a folder in which there is something already: a run, or files of others. Hidden files and what a run has left that
/// was killed before it had a `config.json` do not count.
pub(crate) fn check_free(path: &Path) -> Result<(), TaskError> {
    if path.join(CONFIG).exists() {
        let problem = "there is a run in it; go on with it by --resume, or name another folder with --out";
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
            let problem = "there are checkpoints in it, but the config.json of their run is gone; name another folder \
                           with --out";
            Err(TaskError::folder(path, problem))
        }
        Some(name) => {
            let problem = format!("there are other files in it, such as {name}; name a new folder with --out");
            Err(TaskError::folder(path, problem))
        }
        None => Ok(()),
    }
}

impl Description {
    /// The description of a run that begins.
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
pub(crate) fn lock(folder: &Path) -> Result<Arc<File>, TaskError> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
        // Before config.json names the new file.
        fs::write(folder.beside(MODEL), b"new").unwrap();
        assert_eq!(folder.read(&old, MODEL).unwrap(), b"old");
        // After that, before it takes its place.
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
    fn only_a_free_folder_is_trained_in() {
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
        // The checkpoints of one run are not lent to another.
        assert!(
            refused(&["checkpoints/step-10/state.json", "metrics.jsonl"]).contains("config.json of their run is gone")
        );
        // Killed before it had a description: the same command begins again.
        let begun = folder(&[".training", "tokenizer.json.new", ".regard-a.tmp"]);
        fs::create_dir(begun.join(CHECKPOINTS)).unwrap();
        Folder::create(&begun).unwrap();
        assert!(!begun.join(".regard-a.tmp").exists() && !begun.join("tokenizer.json.new").exists());
    }
}
