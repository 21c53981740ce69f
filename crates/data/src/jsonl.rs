//! JSON Lines: one JSON object per line.

use crate::DataError;
use crate::columns::Column;
use crate::error::{excerpt, listed};
use crate::file::TextFile;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// The JSON object of one line, with its place for error messages.
pub(crate) struct Record<'a> {
    pub(crate) path: &'a Path,
    pub(crate) line: usize,
    fields: Fields,
}

/// Iterates over the objects of a file, skipping blank lines.
pub(crate) fn records(file: &TextFile) -> impl Iterator<Item = Result<Record<'_>, DataError>> {
    file.lines().filter(|(_, text)| !text.trim().is_empty()).map(|(line, text)| {
        match serde_json::from_str::<Fields>(text) {
            Ok(fields) => Ok(Record { path: file.path(), line, fields }),
            Err(e) => {
                // The parser's message may quote a whole value.
                let why = e.to_string();
                let why = why.char_indices().nth(100).map_or(why.as_str(), |(end, _)| &why[..end]);
                let found = format!("{} ({why})", excerpt(text));
                Err(DataError::line(file.path(), line, "a JSON object", found))
            }
        }
    })
}

/// Reads a JSON document. Refuses an object with a duplicate key, of which `serde_json` would silently keep the last.
///
/// # Errors
/// Text that is not JSON, or a duplicate key.
pub fn read_json(text: &str) -> Result<Value, serde_json::Error> {
    match text.trim_start().starts_with('{') {
        true => serde_json::from_str::<Fields>(text).map(|Fields(fields)| Value::Object(fields)),
        false => serde_json::from_str(text),
    }
}

/// The key that a setting names; a number is refused.
pub(crate) fn key<'a>(field: &'static str, column: &'a Option<Column>) -> Result<Option<&'a str>, DataError> {
    match column {
        Some(Column::Number(number)) => {
            let expected = "the name of a key, since the file is JSON Lines".into();
            Err(DataError::Setting { field, expected, found: number.to_string() })
        }
        column => Ok(column.as_ref().and_then(Column::name)),
    }
}

/// A JSON object without duplicate keys.
struct Fields(Map<String, Value>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Unique;
        impl<'de> Visitor<'de> for Unique {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Fields, A::Error> {
                let mut fields = Map::new();
                while let Some(key) = access.next_key::<String>()? {
                    if fields.contains_key(&key) {
                        return Err(A::Error::custom(format!("the key {} comes twice", excerpt(&key))));
                    }
                    fields.insert(key, access.next_value()?);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_any(Unique)
    }
}

/// Keys of a file's records that are not used.
#[derive(Default)]
pub(crate) struct Unused(BTreeSet<String>);

impl Unused {
    /// Adds the keys of a record that are not in `used`.
    pub(crate) fn add(&mut self, record: &Record, used: &[&str]) {
        for key in record.fields.0.keys().filter(|key| !used.contains(&key.as_str())) {
            if !self.0.contains(key) {
                self.0.insert(key.clone());
            }
        }
    }

    /// A note that lists the unused keys, if there are any.
    pub(crate) fn note(&self, path: &Path) -> Option<String> {
        let keys: Vec<&String> = self.0.iter().collect();
        (!keys.is_empty()).then(|| format!("{}: unused keys: {}", path.display(), listed(&keys)))
    }
}

impl Record<'_> {
    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.fields.0.get(key)
    }

    /// The value of a key, which must be a string that is not blank.
    pub(crate) fn text(&self, key: &str) -> Result<&str, DataError> {
        match self.get(key) {
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(text),
            Some(other) => Err(self.error(format!("text under {key:?}"), excerpt(&other.to_string()))),
            None => Err(self.error(format!("the key {key:?}"), self.keys())),
        }
    }

    /// The keys of the record, for an error message.
    pub(crate) fn keys(&self) -> String {
        let keys: Vec<_> = self.fields.0.keys().map(|k| format!("{k:?}")).collect();
        if keys.is_empty() { "no key".into() } else { format!("only {}", listed(&keys)) }
    }

    /// An error at the record's line.
    pub(crate) fn error(&self, expected: impl Into<String>, found: impl Into<String>) -> DataError {
        DataError::line(self.path, self.line, expected, found)
    }
}
