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
    let vectors = match record.get("vectors") {
        Some(Value::Array(vectors)) if !vectors.is_empty() => vectors,
        Some(Value::Array(_)) => return Err(record.error("at least one vector in vectors", "an empty list")),
        Some(other) => return Err(record.error("a list of vectors in vectors", excerpt(&other.to_string()))),
        None => return Err(record.error("the key \"vectors\"", record.keys())),
    };
    let mut features = Vec::new();
    let mut width = before;
    for (at, vector) in vectors.iter().enumerate() {
        let Value::Array(numbers) = vector else {
            let expected = format!("a list of numbers in vectors[{at}]");
            return Err(record.error(expected, excerpt(&vector.to_string())));
        };
        if numbers.is_empty() {
            return Err(record.error(format!("at least one number in vectors[{at}]"), "an empty list"));
        }
        let expected = *width.get_or_insert(numbers.len());
        if numbers.len() != expected {
            let place = if before.is_some() { "as in the lines before" } else { "as in the first vector" };
            let expected = format!("{} in vectors[{at}] {place}", counted(expected, "number"));
            return Err(record.error(expected, numbers.len().to_string()));
        }
        for (i, value) in numbers.iter().enumerate() {
            features.push(number(record, &format_args!("vectors[{at}][{i}]"), value)?);
        }
    }
    Ok((features, width.unwrap_or(1)))
}

fn number(record: &Record, place: &dyn std::fmt::Display, value: &Value) -> Result<f32, DataError> {
    value.as_f64().and_then(finite).ok_or_else(|| match value {
        Value::Number(number) => {
            record.error(format!("a number below 3.4e38 in {place}"), excerpt(&number.to_string()))
        }
        other => record.error(format!("a number in {place}"), excerpt(&other.to_string())),
    })
}

fn target(record: &Record, length: usize) -> Result<Option<Target>, DataError> {
    let present = TargetKind::ALL.iter().filter_map(|&kind| Some((kind, record.get(kind.name())?)));
    let (kind, value) = match present.collect::<Vec<_>>()[..] {
        [] => return Ok(None),
        [one] => one,
        _ => return Err(record.error("only one of the keys label, labels, value, values", record.keys())),
    };
    Ok(Some(match kind {
        TargetKind::Label => Target::Label(label(record, &"label", value)?),
        TargetKind::Value => Target::Value(number(record, &"value", value)?),
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
                    .map(|(i, value)| number(record, &format_args!("values[{i}]"), value))
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
