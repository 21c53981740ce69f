//! Sets and sequences of real vectors, with a label or a number for each, or for each of their vectors.
//!
//! Formats, each plain or gzipped:
//! - JSON Lines: `{"vectors": [[1, 2], [3, 4]], "label": "a"}`, with `labels`, `value`, `values` or no target;
//! - a CSV or TSV with a header: the rows with the same `id` are the vectors of one example;
//! - `x.npy` of shape `[examples, steps, features]` or `[examples, features]`, with the targets in `y.npy` beside it;
//! - UNIPEN pen trajectories: a point is a vector of x, y and 1 at the end of a stroke.
//!
//! All examples of a data set have the same width and the same kind of target.

mod arrays;
mod jsonl;
pub(crate) mod names;
mod npy;
mod scaler;
mod series;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod unipen;

use crate::error::counted;
use crate::file::{format_of, is_jsonl, read_file};
use crate::folder::Files;
use crate::split::{load_splits, split_given};
use crate::{DataError, Loaded, Source, Split, Splits, hash};
pub use jsonl::{Unlike, vectors_from_json};
use names::Role;
pub use scaler::Scaler;
use series::WithoutId;
pub use series::{Series, by_time, load_series, read_series};
use std::path::{Path, PathBuf};

/// A set or sequence of vectors, and what is to be predicted from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Vectors {
    /// The numbers `[length, width]`, row by row. All are finite and there is at least one.
    pub features: Vec<f32>,
    /// Number of features of each vector.
    pub width: usize,
    /// The target; none in data that are only to be predicted.
    pub target: Option<Target>,
    /// The part that a `split` column names.
    pub split: Option<Split>,
    /// The first line in the file, from 1; none if the file is an array.
    pub line: Option<usize>,
}

impl Vectors {
    /// Number of vectors.
    pub fn length(&self) -> usize {
        self.features.len() / self.width
    }

    /// Mean of each feature.
    pub fn mean(&self) -> Vec<f32> {
        let sum =
            |feature| self.features[feature..].iter().step_by(self.width).map(|&number| f64::from(number)).sum::<f64>();
        (0..self.width).map(|feature| (sum(feature) / self.length() as f64) as f32).collect()
    }

    /// Largest deviation of a number from the mean of its feature.
    pub fn size(&self) -> f32 {
        let mean = self.mean();
        let rows = self.features.chunks(self.width);
        rows.flat_map(|row| row.iter().zip(&mean)).fold(0.0, |size, (number, mean)| (number - mean).abs().max(size))
    }

    /// Hash of the numbers as they are, which chooses the part of the data.
    pub fn hash(&self) -> u64 {
        let numbers = self.features.iter().flat_map(|number| number.to_le_bytes());
        hash(&(self.width as u64).to_le_bytes().into_iter().chain(numbers).collect::<Vec<u8>>())
    }
}

/// What is to be predicted from vectors.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// One class.
    Label(String),
    /// A class for each vector.
    Labels(Vec<String>),
    /// One number.
    Value(f32),
    /// A number for each vector.
    Values(Vec<f32>),
}

impl Target {
    /// The kind of the target.
    pub fn kind(&self) -> TargetKind {
        match self {
            Self::Label(_) => TargetKind::Label,
            Self::Labels(_) => TargetKind::Labels,
            Self::Value(_) => TargetKind::Value,
            Self::Values(_) => TargetKind::Values,
        }
    }
}

/// The kind of a target, named as the column or key that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// One class.
    Label,
    /// A class for each vector.
    Labels,
    /// One number.
    Value,
    /// A number for each vector.
    Values,
}

impl TargetKind {
    pub(crate) const ALL: [Self; 4] = [Self::Label, Self::Labels, Self::Value, Self::Values];

    /// The name of the column or key.
    pub fn name(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Labels => "labels",
            Self::Value => "value",
            Self::Values => "values",
        }
    }
}

/// Reads vectors from a file. Its extension tells the format: `.jsonl`, `.npy`, `.unipen`, or a table with a header.
///
/// In a table, the column `id` tells the rows of an example. With a column `step`, the rows of an example may stand anywhere
/// and are sorted by it; without one they must be adjacent, in order. `label` and `value` are the same in all rows of an
/// example, `labels` and `values` hold one target for each row, and `split` names the part. All other columns are features.
///
/// # Errors
/// The errors of [`read_file`]; a number that is missing, not finite or too large for `f32`; an example without vectors;
/// vectors of different widths; targets of different kinds, or not one for each vector; an array whose shape does not fit
/// the file or its targets.
pub fn read_vectors(path: &Path) -> Result<Loaded<Vectors>, DataError> {
    read(path, WithoutId::Refused)
}

fn read(path: &Path, without_id: WithoutId) -> Result<Loaded<Vectors>, DataError> {
    if names::is_npy(path) {
        return arrays::read(path);
    }
    let file = read_file(path)?;
    let loaded = match format_of(path).as_str() {
        "unipen" => unipen::read(&file),
        _ if is_jsonl(path) => jsonl::read(&file),
        _ => table::read(&file, without_id),
    }?;
    if loaded.examples.is_empty() {
        return Err(DataError::Empty { path: path.to_path_buf(), expected: "examples of vectors" });
    }
    Ok(loaded)
}

/// Reads a data set of vectors. A single file is split by its column `split`, or else by the hash of the vectors. In a folder
/// a part is one file, or two arrays such as `x-train.npy` and `y-train.npy`.
///
/// # Errors
/// The errors of [`read_vectors`]; parts with different widths or kinds of targets; a data set that cannot be split.
pub fn load_vectors(source: &Source) -> Result<Splits<Vectors>, DataError> {
    let path = &source.path;
    let files = Files::of_arrays(path)?;
    let mut whole = match &files {
        Files::One(file) => Some(read_vectors(file)?),
        Files::Parts { .. } => None,
    };
    let splits = match whole.take_if(|loaded| loaded.examples.iter().all(|example| example.split.is_some())) {
        Some(loaded) => {
            if let Some(fold) = source.fold {
                let expected = "no fold, since the file has a column split".into();
                return Err(DataError::Setting { field: "fold", expected, found: fold.to_string() });
            }
            split_given(path, loaded, |example| example.split.unwrap_or(Split::Train), Vectors::hash)?
        }
        None => {
            let read = |files: &[PathBuf]| match whole.take() {
                Some(loaded) => Ok(loaded),
                None => read_part(files),
            };
            load_splits(source, files, read, Vectors::hash)?
        }
    };
    check_alike(path, &splits)?;
    Ok(splits)
}

/// Reads the file or files of one part.
fn read_part(files: &[PathBuf]) -> Result<Loaded<Vectors>, DataError> {
    let inputs = files.iter().find(|file| names::role(file) == Some(Role::Inputs)).unwrap_or(&files[0]);
    let loaded = read_vectors(inputs)?;
    match loaded.examples.iter().find(|example| example.split.is_some()) {
        Some(example) => {
            let expected = "no column split, since the folder has a file for each part";
            Err(DataError::line(inputs, example.line.unwrap_or(1), expected, "one"))
        }
        None => Ok(loaded),
    }
}

/// Refuses parts whose vectors or targets differ from those of train.
fn check_alike(path: &Path, splits: &Splits<Vectors>) -> Result<(), DataError> {
    let kind = |example: &Vectors| {
        let target = example.target.as_ref().map_or("no target", |target| target.kind().name());
        format!("{} in each vector and {target}", counted(example.width, "number"))
    };
    let Some(first) = splits.train.first().map(kind) else { return Ok(()) };
    for split in [Split::Dev, Split::Test] {
        let found = splits.get(split).first().map(kind);
        if let Some(found) = found.filter(|found| *found != first) {
            return Err(DataError::format(path, format!("{first} in {split} as in train"), found));
        }
    }
    Ok(())
}

/// The number as `f32`, if it is finite.
fn finite(number: f64) -> Option<f32> {
    Some(number as f32).filter(|number| number.is_finite())
}
