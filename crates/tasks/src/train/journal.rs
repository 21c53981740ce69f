//! `metrics.jsonl`: a line a measurement.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

use serde_json::Value;

use crate::error::TaskError;

/// The file, open at its end.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens `path`, made if need be, and cuts off what stands behind `bytes`: those steps will be made again.
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

    /// Adds a line.
    pub fn write(&mut self, line: &Value) -> Result<(), TaskError> {
        self.file.write_all(format!("{line}\n").as_bytes()).map_err(TaskError::io(&self.path))
    }

    /// Makes it durable; its length.
    pub fn sync(&mut self) -> Result<u64, TaskError> {
        let sync = |file: &File| -> std::io::Result<u64> {
            file.sync_all()?;
            Ok(file.metadata()?.len())
        };
        sync(&self.file).map_err(TaskError::io(&self.path))
    }
}
