//! One JSON object a line.

use crate::DataError;
use crate::error::excerpt;
use crate::file::TextFile;
use serde_json::{Map, Value};
use std::path::Path;

/// One line's object, able to say what it lacks.
pub(crate) struct Record<'a> {
    pub(crate) path: &'a Path,
    pub(crate) line: usize,
    fields: Map<String, Value>,
}

/// The objects of a file; blank lines are skipped.
pub(crate) fn records(file: &TextFile) -> impl Iterator<Item = Result<Record<'_>, DataError>> {
    file.lines().filter(|(_, text)| !text.trim().is_empty()).map(|(line, text)| {
        match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(fields)) => Ok(Record { path: file.path(), line, fields }),
            Ok(_) => Err(DataError::line(file.path(), line, "a JSON object", excerpt(text))),
            Err(e) => {
                let found = format!("{} ({e})", excerpt(text));
                Err(DataError::line(file.path(), line, "a JSON object", found))
            }
        }
    })
}

impl Record<'_> {
    /// The value under a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.fields.get(key)
    }

    /// The text under a key.
    pub(crate) fn text(&self, key: &str) -> Result<String, DataError> {
        match self.get(key) {
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(text.clone()),
            Some(other) => Err(self.error(format!("text under {key:?}"), excerpt(&other.to_string()))),
            None => Err(self.error(format!("the key {key:?}"), self.keys())),
        }
    }

    /// The keys there are, for a message.
    pub(crate) fn keys(&self) -> String {
        if self.fields.is_empty() {
            return "no key".into();
        }
        let keys: Vec<_> = self.fields.keys().map(|k| format!("{k:?}")).collect();
        format!("only {}", keys.join(", "))
    }

    /// An error at this line.
    pub(crate) fn error(&self, expected: impl Into<String>, found: impl Into<String>) -> DataError {
        DataError::line(self.path, self.line, expected, found)
    }
}
