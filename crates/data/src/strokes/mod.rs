//! Handwriting: texts with the strokes of a pen, as JSON Lines `{"text": "on", "strokes": [[[x, y], …], …]}`.
//!
//! A stroke is the points between two lifts of the pen, at least one; `y` grows downwards, as on a screen. [`convert_strokes`]
//! makes such examples from recordings of single characters and from stroke fonts.

mod convert;
mod fonts;
pub(crate) mod glyphs;
mod letters;
mod pen_digits;
#[cfg(test)]
mod tests;

use crate::error::excerpt;
use crate::file::read_file;
use crate::folder::Files;
use crate::jsonl::{Unused, records};
use crate::split::load_splits;
use crate::vectors::Unlike;
use crate::{DataError, Loaded, Source, Splits, hash};
pub use convert::convert_strokes;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// The points of a pen between two lifts, `[x, y]` each.
pub type Stroke = Vec<[f32; 2]>;

/// A text written by hand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Handwritten {
    /// The text; empty if it is not known.
    pub text: String,
    /// The strokes in the order of writing. There is at least one, each has at least one point, and all numbers are finite.
    pub strokes: Vec<Stroke>,
}

impl Handwritten {
    /// Hash of text and strokes, which chooses the part of the data.
    pub fn hash(&self) -> u64 {
        let mut bytes = self.text.as_bytes().to_vec();
        for stroke in &self.strokes {
            bytes.extend((stroke.len() as u64).to_le_bytes());
            bytes.extend(stroke.iter().flatten().flat_map(|number| number.to_le_bytes()));
        }
        hash(&bytes)
    }

    /// Returns the example as a line of JSON Lines, with its line break.
    pub fn line(&self) -> String {
        // Through the struct, so that a coordinate is written with the few digits of its `f32`.
        serde_json::to_string(self).expect("plain values can be written as JSON") + "\n"
    }
}

/// Reads handwriting from JSON Lines.
///
/// # Errors
/// The errors of [`read_file`]; a line that is not such an object; an empty list; a coordinate that is missing, not finite or
/// too large for `f32`.
pub fn read_strokes(path: &Path) -> Result<Loaded<Handwritten>, DataError> {
    let file = read_file(path)?;
    let mut unused = Unused::default();
    let mut examples = Vec::new();
    for record in records(&file) {
        let record = record?;
        let Some(value) = record.get("strokes") else {
            return Err(record.error("the key \"strokes\"", record.keys()));
        };
        let strokes = strokes_from_json(value).map_err(|Unlike { expected, found }| record.error(expected, found))?;
        let text = match record.get("text") {
            Some(Value::String(text)) => text.clone(),
            Some(other) => return Err(record.error("a string under \"text\"", excerpt(&other.to_string()))),
            None => return Err(record.error("the key \"text\"", record.keys())),
        };
        unused.add(&record, &["text", "strokes"]);
        examples.push(Handwritten { text, strokes });
    }
    if examples.is_empty() {
        return Err(DataError::Empty { path: path.to_path_buf(), expected: "texts with strokes" });
    }
    Ok(Loaded { examples, notes: unused.note(path).into_iter().collect() })
}

/// Reads a data set of handwriting. A single file is split by the hash of the strokes.
///
/// # Errors
/// The errors of [`read_strokes`]; a data set that cannot be split.
pub fn load_strokes(source: &Source) -> Result<Splits<Handwritten>, DataError> {
    load_splits(source, Files::of_one(&source.path)?, |files| read_strokes(&files[0]), Handwritten::hash)
}

/// Reads strokes from a list of lists of points `[x, y]`.
pub fn strokes_from_json(value: &Value) -> Result<Vec<Stroke>, Unlike> {
    let Value::Array(strokes) = value else {
        return Err(Unlike::new("a list of strokes in strokes", excerpt(&value.to_string())));
    };
    if strokes.is_empty() {
        return Err(Unlike::new("at least one stroke in strokes", "an empty list"));
    }
    let stroke = |(at, value): (usize, &Value)| {
        let Value::Array(points) = value else {
            return Err(Unlike::new(format!("a list of points in strokes[{at}]"), excerpt(&value.to_string())));
        };
        if points.is_empty() {
            return Err(Unlike::new(format!("at least one point in strokes[{at}]"), "an empty list"));
        }
        points.iter().enumerate().map(|(i, value)| point(at, i, value)).collect()
    };
    strokes.iter().enumerate().map(stroke).collect()
}

fn point(at: usize, i: usize, value: &Value) -> Result<[f32; 2], Unlike> {
    let expected = || format!("a point [x, y] of two numbers below 3.4e38 in strokes[{at}][{i}]");
    let number = |value: &Value| value.as_f64().map(|number| number as f32).filter(|number| number.is_finite());
    let read = match value.as_array().map(Vec::as_slice) {
        Some([x, y]) => number(x).zip(number(y)),
        _ => None,
    };
    read.map(|(x, y)| [x, y]).ok_or_else(|| Unlike::new(expected(), excerpt(&value.to_string())))
}
