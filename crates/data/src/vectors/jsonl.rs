//! Vectors in JSON Lines.

use super::{Target, TargetKind, Vectors, finite};
use crate::error::{counted, excerpt};
use crate::file::TextFile;
use crate::jsonl::{Record, Unused, records};
use crate::{DataError, Loaded};
use serde_json::Value;

pub(super) fn read(file: &TextFile) -> Result<Loaded<Vectors>, DataError> {
    let mut unused = Unused::default();
    let mut examples: Vec<Vectors> = Vec::new();
    for record in records(file) {
        let record = record?;
        let first = examples.first();
        let (features, width) = features(&record, first.map(|first| first.width))?;
        let target = target(&record, features.len() / width)?;
        let name = |target: &Option<Target>| target.as_ref().map_or("no target", |target| target.kind().name());
        if let Some(first) = first
            && name(&first.target) != name(&target)
        {
            let line = first.line.unwrap_or(1);
            return Err(record.error(format!("{} as in line {line}", name(&first.target)), name(&target)));
        }
        let used = target.as_ref().map(|target| target.kind().name());
        unused.add(&record, &["vectors", used.unwrap_or("vectors")]);
        examples.push(Vectors { features, width, target, split: None, line: Some(record.line) });
    }
    Ok(Loaded { examples, notes: unused.note(file.path()).into_iter().collect() })
}

/// Reads the vectors of a record and their width, which must be that of the first record.
fn features(record: &Record, before: Option<usize>) -> Result<(Vec<f32>, usize), DataError> {
    let Some(value) = record.get("vectors") else { return Err(record.error("the key \"vectors\"", record.keys())) };
    vectors_from_json(value, before).map_err(|Unlike { expected, found }| record.error(expected, found))
}

/// A part of a JSON value that is not as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlike {
    /// The expected form, and where it is expected.
    pub expected: String,
    /// The form that was found.
    pub found: String,
}

impl Unlike {
    pub(crate) fn new(expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { expected: expected.into(), found: found.into() }
    }
}

/// Reads vectors from a list of lists of numbers. Returns the numbers, row by row, and the width, which is the given one if there
/// is one.
pub fn vectors_from_json(value: &Value, before: Option<usize>) -> Result<(Vec<f32>, usize), Unlike> {
    let vectors = match value {
        Value::Array(vectors) if !vectors.is_empty() => vectors,
        Value::Array(_) => return Err(Unlike::new("at least one vector in vectors", "an empty list")),
        other => return Err(Unlike::new("a list of vectors in vectors", excerpt(&other.to_string()))),
    };
    let mut features = Vec::new();
    let mut width = before;
    for (at, vector) in vectors.iter().enumerate() {
        let Value::Array(numbers) = vector else {
            let expected = format!("a list of numbers in vectors[{at}]");
            return Err(Unlike::new(expected, excerpt(&vector.to_string())));
        };
        if numbers.is_empty() {
            return Err(Unlike::new(format!("at least one number in vectors[{at}]"), "an empty list"));
        }
        let expected = *width.get_or_insert(numbers.len());
        if numbers.len() != expected {
            let place = if before.is_some() { "as in all examples" } else { "as in the first vector" };
            let expected = format!("{} in vectors[{at}] {place}", counted(expected, "number"));
            return Err(Unlike::new(expected, numbers.len().to_string()));
        }
        for (i, value) in numbers.iter().enumerate() {
            features.push(number(&format_args!("vectors[{at}][{i}]"), value)?);
        }
    }
    Ok((features, width.unwrap_or(1)))
}

fn number(place: &dyn std::fmt::Display, value: &Value) -> Result<f32, Unlike> {
    value.as_f64().and_then(finite).ok_or_else(|| match value {
        Value::Number(number) => Unlike::new(format!("a number below 3.4e38 in {place}"), excerpt(&number.to_string())),
        other => Unlike::new(format!("a number in {place}"), excerpt(&other.to_string())),
    })
}

fn target(record: &Record, length: usize) -> Result<Option<Target>, DataError> {
    let present = TargetKind::ALL.iter().filter_map(|&kind| Some((kind, record.get(kind.name())?)));
    let (kind, value) = match present.collect::<Vec<_>>()[..] {
        [] => return Ok(None),
        [one] => one,
        _ => return Err(record.error("only one of the keys label, labels, value, values", record.keys())),
    };
    let at = |Unlike { expected, found }| record.error(expected, found);
    Ok(Some(match kind {
        TargetKind::Label => Target::Label(label(record, &"label", value)?),
        TargetKind::Value => Target::Value(number(&"value", value).map_err(at)?),
        TargetKind::Labels => {
            let labels = list(record, kind, value, length)?.iter().enumerate();
            Target::Labels(
                labels
                    .map(|(i, value)| label(record, &format_args!("labels[{i}]"), value))
                    .collect::<Result<_, _>>()?,
            )
        }
        TargetKind::Values => {
            let values = list(record, kind, value, length)?.iter().enumerate();
            Target::Values(
                values
                    .map(|(i, value)| number(&format_args!("values[{i}]"), value).map_err(at))
                    .collect::<Result<_, _>>()?,
            )
        }
    }))
}

fn label(record: &Record, place: &dyn std::fmt::Display, value: &Value) -> Result<String, DataError> {
    let found = match value {
        Value::String(label) if !label.trim().is_empty() => return Ok(label.trim().to_string()),
        Value::Number(_) => format!("the number {value}; put quotes around a class, or use value or values"),
        Value::Bool(_) => format!("{value}, which is no string; put quotes around a class"),
        other => excerpt(&other.to_string()),
    };
    Err(record.error(format!("a string in {place}"), found))
}

/// A list with one target for each vector.
fn list<'a>(record: &Record, kind: TargetKind, value: &'a Value, length: usize) -> Result<&'a Vec<Value>, DataError> {
    let expected = format!("a list of {length} in {}, one for each vector", kind.name());
    match value {
        Value::Array(values) if values.len() == length => Ok(values),
        Value::Array(values) => Err(record.error(expected, values.len().to_string())),
        other => Err(record.error(expected, excerpt(&other.to_string()))),
    }
}
