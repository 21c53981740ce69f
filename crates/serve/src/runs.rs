//! Training runs that the server shows: their folders are read when a client asks.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use hyper::StatusCode;
use regard_tasks::folder::{Description, Folder, METRICS, is_training};
use regard_tasks::watch::{Progress, WatchFolder};
use serde::Serialize;
use serde_json::Value;

use crate::error::ApiError;

/// Largest number of runs of a table; those that were changed last are shown.
const MOST_RUNS: usize = 500;
/// Largest number of bytes of metrics that are read for curves.
const MOST_METRICS: u64 = 16_000_000;
/// Largest number of measurements that a client gets at once.
const MOST_RECORDS: usize = 2_000;
/// Number of bytes at the end of the metrics in which the last scores stand.
const LAST_METRICS: u64 = 64_000;

/// Runs that the server shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Runs {
    /// All runs in a folder.
    In(PathBuf),
    /// The run in this folder.
    One(PathBuf),
}

/// A run.
#[derive(Debug)]
pub struct Run {
    name: String,
    path: PathBuf,
}

/// A line of the table of runs.
#[derive(Debug, Serialize)]
pub struct Row {
    name: String,
    task: String,
    state: State,
    step: u64,
    /// Number of steps of the whole run, if it is known.
    steps: Option<u64>,
    /// Number of tokens trained on per second, while the run goes on.
    rate: Option<f64>,
    seconds_left: Option<f64>,
    /// Whether the run can be stopped from here and has maps.
    watched: bool,
    /// Last scores on the dev split, or those at the end.
    scores: BTreeMap<String, f64>,
    /// Configuration, with a dotted key for each value.
    settings: BTreeMap<String, Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Running,
    Stopped,
    Finished,
}

impl Runs {
    /// Returns the runs, those that were changed last first.
    pub fn all(&self) -> Vec<Run> {
        let found = match self {
            Self::One(path) => Run::of(path.clone()).into_iter().collect(),
            Self::In(folder) => {
                let entries = fs::read_dir(folder).into_iter().flatten().flatten();
                let mut found: Vec<_> = entries
                    .filter_map(|entry| {
                        let run = Run::of(entry.path())?;
                        let changed = fs::metadata(run.path.join(METRICS)).and_then(|file| file.modified()).ok();
                        Some((changed, run))
                    })
                    .collect();
                found.sort_by(|(a, one), (b, other)| b.cmp(a).then_with(|| one.name.cmp(&other.name)));
                found.into_iter().map(|(_, run)| run).collect::<Vec<_>>()
            }
        };
        found.into_iter().take(MOST_RUNS).collect()
    }

    /// Finds a run by the name of its folder. A name is compared with those that there are and never used as a path.
    pub fn find(&self, name: &str) -> Result<Run, ApiError> {
        self.all().into_iter().find(|run| run.name == name).ok_or_else(|| {
            let said = format!("no run is called {}; /v1/runs lists them", regard_data::excerpt(name));
            ApiError::new(StatusCode::NOT_FOUND, "run_not_found", said)
        })
    }
}

impl Run {
    /// Returns the run in a folder, if there is one.
    fn of(path: PathBuf) -> Option<Self> {
        let whole = path.canonicalize().ok()?;
        let name = path.file_name().or_else(|| whole.file_name())?.to_str()?.to_string();
        path.join(regard_tasks::folder::CONFIG).is_file().then_some(Self { name, path })
    }

    /// Returns the name of the run's folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what is to be watched of the run.
    pub fn watch(&self) -> WatchFolder {
        WatchFolder::of(&self.path)
    }

    /// Returns whether a process trains the run now and looks whether it is to stop.
    pub fn can_be_stopped(&self) -> bool {
        self.live().is_some()
    }

    /// Returns the progress of the process that trains the run now. A killed one leaves its last progress behind.
    fn live(&self) -> Option<Progress> {
        is_training(&self.path).then(|| self.watch().progress()).flatten()
    }

    /// Returns the line of the table; `None` if the folder is none of a run.
    pub fn row(&self) -> Option<Row> {
        let (_, Description { task, finished, step, config, scores, .. }) = Folder::open(&self.path).ok()?;
        let live = self.live();
        let last = lines(&self.path.join(METRICS), LAST_METRICS);
        let made = last.iter().filter_map(|line| line["step"].as_u64()).max().unwrap_or(0).max(step);
        let dev = last.iter().rev().find_map(|line| serde_json::from_value(line.get("metrics")?.clone()).ok());
        let state = match (is_training(&self.path), finished) {
            (true, _) => State::Running,
            (false, true) => State::Finished,
            (false, false) => State::Stopped,
        };
        let mut settings = BTreeMap::new();
        flatten(String::new(), &config, &mut settings);
        let planned = settings.get("train.steps").and_then(Value::as_u64);
        let steps = live.as_ref().map(|live| live.steps).or(if finished { Some(step) } else { planned });
        Some(Row {
            name: self.name.clone(),
            task,
            state,
            step: live.as_ref().map_or(made, |live| live.step),
            steps,
            rate: live.as_ref().map(|live| live.tokens_per_second),
            seconds_left: live.as_ref().and_then(|live| live.seconds_left),
            watched: live.is_some(),
            scores: scores.or(dev).unwrap_or_default(),
            settings,
        })
    }

    /// Returns the measurements after a step, in order. Of very many, some without scores are left out evenly.
    pub fn records(&self, since: u64) -> Vec<Value> {
        let all = lines(&self.path.join(METRICS), MOST_METRICS).into_iter();
        let all: Vec<Value> = all.filter(|line| line["step"].as_u64().is_some_and(|step| step > since)).collect();
        let every = all.len().div_ceil(MOST_RECORDS).max(1);
        let last = all.len().saturating_sub(1);
        let kept = all
            .into_iter()
            .enumerate()
            .filter(|(at, line)| at % every == 0 || *at == last || !line["metrics"].is_null());
        kept.map(|(_, line)| line).collect()
    }

    /// Returns the progress of the run, while it goes on.
    pub fn progress(&self) -> Option<Progress> {
        self.live()
    }
}

/// Returns the JSON documents in the last `most` bytes of a file of lines; a line that is being written is left out.
fn lines(path: &Path, most: u64) -> Vec<Value> {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let start = file.metadata()?.len().saturating_sub(most);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(Value::is_object).collect()
}

/// Collects the values of a configuration under dotted keys.
fn flatten(key: String, value: &Value, to: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                flatten(key, value, to);
            }
        }
        value => drop(to.insert(key, value.clone())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_have_dotted_keys() {
        let mut found = BTreeMap::new();
        flatten(String::new(), &json!({ "seed": 1, "model": { "kind": "x", "sizes": [1, 2] } }), &mut found);
        let wanted = [("model.kind", json!("x")), ("model.sizes", json!([1, 2])), ("seed", json!(1))];
        assert_eq!(found, wanted.map(|(key, value)| (key.to_string(), value)).into());
    }

    #[test]
    fn the_end_of_a_file_of_lines_is_read() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("metrics.jsonl");
        let text: String = (1..=100).map(|step| format!("{{\"step\":{step}}}\n")).collect();
        std::fs::write(&path, format!("{text}{{\"step\":1")).unwrap();
        assert_eq!(lines(&path, 1_000_000).len(), 100);
        let last = lines(&path, 40);
        assert!(last.len() < 5 && last.last() == Some(&json!({ "step": 100 })), "{last:?}");
        assert!(lines(&place.path().join("none"), 10).is_empty());
    }

    #[test]
    fn a_name_is_never_a_path() {
        let place = tempfile::tempdir().unwrap();
        let runs = Runs::In(place.path().join("runs"));
        for folder in ["runs/a", "runs/b", "other"] {
            std::fs::create_dir_all(place.path().join(folder)).unwrap();
            std::fs::write(place.path().join(folder).join("config.json"), "{}").unwrap();
        }
        std::fs::create_dir(place.path().join("runs/empty")).unwrap();
        assert_eq!(runs.all().len(), 2);
        assert!(runs.find("a").is_ok());
        for name in ["", ".", "..", "../other", "empty", "a/", "a/.", "/", "b\0", "%2e%2e/other"] {
            assert!(runs.find(name).is_err(), "{name:?}");
        }
        // A folder with another config.json is no run.
        assert!(runs.find("a").unwrap().row().is_none());
    }
}
