//! `metrics.jsonl`, with one measurement per line.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

use serde_json::Value;

use crate::error::TaskError;

/// The metrics file, open for appending.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens or creates the file at `path` and cuts it to `bytes`, because the steps after that will be made again.
    pub fn open(path: PathBuf, bytes: u64) -> Result<Self, TaskError> {
        let open = || -> std::io::Result<File> {
            let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
            file.set_len(bytes.min(file.metadata()?.len()))?;
            file.seek(SeekFrom::End(0))?;
            Ok(file)
        };
        let file = open().map_err(TaskError::io(&path))?;
        Ok(Self { path, file })
    }

    /// Appends a line.
    pub fn write(&mut self, line: &Value) -> Result<(), TaskError> {
        self.file.write_all(format!("{line}\n").as_bytes()).map_err(TaskError::io(&self.path))
    }

    /// Syncs the file to disk and returns its length in bytes.
    pub fn sync(&mut self) -> Result<u64, TaskError> {
        let sync = |file: &File| -> std::io::Result<u64> {
            file.sync_all()?;
            Ok(file.metadata()?.len())
        };
        sync(&self.file).map_err(TaskError::io(&self.path))
    }
}
