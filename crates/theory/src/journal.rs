//! Journals: files that keep finished runs, so that a command that was stopped or extended computes only the missing ones.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::TheoryError;

/// Start of every line of a journal.
const BEGIN: &[u8] = br#"{"version":""#;

/// An append-only file of finished runs, one line each. Commands may share one: they ignore lines of other kinds.
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
}

/// A line of the journal.
#[derive(Serialize, Deserialize)]
struct Line<S, R> {
    /// Version of this crate. Runs of other versions are not reused, because they may have computed something else.
    version: String,
    settings: S,
    run: R,
}

impl Journal {
    /// Opens or creates a journal and returns the runs in it with their settings, without lines that a crash cut off.
    pub(crate) fn open<S: DeserializeOwned, R: DeserializeOwned>(
        path: &Path,
    ) -> Result<(Self, Vec<(S, R)>), TheoryError> {
        let failed = |problem: String| TheoryError::File { path: path.to_path_buf(), problem };
        let io = |error: std::io::Error| failed(error.to_string());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(io)?;
        }
        let mut file = OpenOptions::new().append(true).create(true).open(path).map_err(io)?;
        let bytes = fs::read(path).map_err(io)?;
        let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        // A crash may have cut off a line anywhere.
        let begins = |line: &[u8]| line.starts_with(BEGIN) || BEGIN.starts_with(line);
        if !lines.iter().all(|line| begins(line)) {
            return Err(failed("this file is no journal of runs; choose another --journal".into()));
        }
        if bytes.last().is_some_and(|byte| *byte != b'\n') {
            file.write_all(b"\n").map_err(io)?;
        }
        let runs = lines
            .into_iter()
            .filter_map(|line| serde_json::from_slice::<Line<S, R>>(line).ok())
            .filter(|line| line.version == env!("CARGO_PKG_VERSION"))
            .map(|Line { settings, run, .. }| (settings, run))
            .collect();
        Ok((Self { path: path.to_path_buf(), file }, runs))
    }

    /// Appends a run.
    pub(crate) fn write(&mut self, settings: &impl Serialize, run: &impl Serialize) -> Result<(), TheoryError> {
        let line = Line { version: env!("CARGO_PKG_VERSION").to_string(), settings, run };
        let mut text = serde_json::to_string(&line).expect("settings and runs serialise to JSON");
        text.push('\n');
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| TheoryError::File { path: self.path.clone(), problem: error.to_string() })
    }
}
