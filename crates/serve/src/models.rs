//! The models that are served, by name. A model can be replaced by a new version of its folder without dropping a request.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use regard_tasks::weights::Storage;
use regard_tasks::{TaskError, open_as};

use crate::error::ApiError;
use crate::limits::Limits;
use crate::metrics::ModelMetrics;
use crate::worker::Worker;

/// A model folder and the name that clients call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFolder {
    /// Name in requests.
    pub name: String,
    /// Folder of a trained model or of a checkpoint.
    pub path: PathBuf,
}

impl ModelFolder {
    /// Reads `NAME=FOLDER`, or a folder that is called by its own name.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, path) = match text.split_once('=') {
            Some((name, path)) => (name.to_string(), PathBuf::from(path)),
            None => {
                let path = PathBuf::from(text);
                // `.` and `..` have no name of their own. A symbolic link keeps the name that was typed.
                let whole = match path.file_name() {
                    Some(_) => path.clone(),
                    None => path.canonicalize().unwrap_or_default(),
                };
                (whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(), path)
            }
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@+".contains(c);
        match !name.is_empty() && name.len() <= 200 && name.chars().all(is_plain) {
            true => Ok(Self { name, path }),
            false => {
                Err(format!("expected NAME=FOLDER with a name of letters, digits and -_./:@+, got the name {name:?}"))
            }
        }
    }
}

/// A served model.
pub struct Entry {
    /// The folder and its name.
    pub folder: ModelFolder,
    /// Counters.
    pub metrics: Arc<ModelMetrics>,
    /// Seconds since 1970 when the model was loaded first.
    pub created: u64,
    current: RwLock<Arc<Worker>>,
    /// Time and size of the folder's files when they were read.
    seen: Mutex<Stamp>,
}

/// Times of change and sizes of the files that make a model.
type Stamp = Vec<(Option<SystemTime>, u64)>;

impl Entry {
    /// Returns the worker of the newest version. It stays open while a request holds it.
    pub fn worker(&self) -> Arc<Worker> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether the files of the folder have changed since they were read.
    pub fn is_changed(&self) -> bool {
        let now = stamp(&self.folder.path);
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) != now
    }
}

fn stamp(folder: &Path) -> Stamp {
    let of = |name: &str| {
        let found = std::fs::metadata(folder.join(name));
        found.map_or((None, 0), |file| (file.modified().ok(), file.len()))
    };
    ["config.json", "model.safetensors", "tokenizer.json"].map(of).to_vec()
}

/// All models that are served.
pub struct Models {
    all: Vec<Entry>,
    limits: Limits,
    threads: usize,
    storage: Storage,
}

impl Models {
    /// Opens the models and starts their workers.
    pub fn open(
        folders: Vec<ModelFolder>,
        limits: Limits,
        threads: usize,
        storage: Storage,
    ) -> Result<Self, TaskError> {
        let mut found = Self { all: Vec::new(), limits, threads, storage };
        for folder in folders {
            if found.all.iter().any(|entry| entry.folder.name == folder.name) {
                let expected = "a different name for each model, as NAME=FOLDER";
                return Err(TaskError::input("models", expected, format!("{} twice", folder.name)));
            }
            let seen = Mutex::new(stamp(&folder.path));
            let metrics = Arc::new(ModelMetrics::default());
            let worker = found.start(&folder, &metrics)?;
            let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            found.all.push(Entry { folder, metrics, created, current: RwLock::new(Arc::new(worker)), seen });
        }
        Ok(found)
    }

    fn start(&self, folder: &ModelFolder, metrics: &Arc<ModelMetrics>) -> Result<Worker, TaskError> {
        let model = open_as(&folder.path, self.storage)?;
        Worker::start(&folder.name, model, self.threads, &self.limits, Arc::clone(metrics))
            .map_err(TaskError::io(&folder.path))
    }

    /// Loads a model again and lets new requests go to it. Requests that were accepted are answered by the old version.
    pub fn reload(&self, entry: &Entry) -> Result<(), TaskError> {
        *entry.seen.lock().unwrap_or_else(PoisonError::into_inner) = stamp(&entry.folder.path);
        let worker = Arc::new(self.start(&entry.folder, &entry.metrics)?);
        *entry.current.write().unwrap_or_else(PoisonError::into_inner) = worker;
        entry.metrics.reloads.add(1);
        Ok(())
    }

    /// Returns all models.
    pub fn all(&self) -> &[Entry] {
        &self.all
    }

    /// Finds a model by name. The name may be missing if there is only one.
    pub fn find(&self, name: Option<&str>) -> Result<&Entry, ApiError> {
        let names = || self.all.iter().map(|entry| entry.folder.name.as_str()).collect::<Vec<_>>().join(", ");
        match (name, self.all.as_slice()) {
            (None, [one]) => Ok(one),
            (_, []) => {
                let said = "this server has no model; it shows training runs";
                Err(ApiError::new(hyper::StatusCode::NOT_FOUND, "model_not_found", said).at("model"))
            }
            (None, _) => Err(ApiError::invalid("model", format!("expected the name of a model: {}", names()))),
            (Some(name), all) => all.iter().find(|entry| entry.folder.name == name).ok_or_else(|| {
                let said = format!("no model is called {}; there are {}", regard_data::excerpt(name), names());
                ApiError::new(hyper::StatusCode::NOT_FOUND, "model_not_found", said).at("model")
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_its_own_name_or_another() {
        let parse = |text: &str| ModelFolder::parse(text).map(|found| (found.name, found.path.display().to_string()));
        assert_eq!(parse("runs/tagger/").unwrap(), ("tagger".into(), "runs/tagger/".into()));
        assert_eq!(parse("mini=models/all-MiniLM").unwrap(), ("mini".into(), "models/all-MiniLM".into()));
        assert!(parse("a b=x").is_err() && parse("=x").is_err() && parse("a\"=x").is_err());
    }
}
