//! Series whose next vectors are to be forecast.

use super::{Vectors, load_vectors, read};
use crate::{DataError, Source, Split, Splits};

/// A series, and where the vectors to be forecast begin.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The vectors, in order of time. Their target is not used.
    pub vectors: Vectors,
    /// Index of the first vector to forecast. Earlier ones are only looked back on.
    pub from: usize,
}

impl Series {
    /// A series that is forecast from its beginning.
    pub fn whole(vectors: Vectors) -> Self {
        Self { vectors, from: 0 }
    }
}

/// Reads series to forecast. The series of a single file without a column `split` are split by time: the last tenth of each is
/// test, the tenth before it dev. A folder or a column `split` assigns whole series to the parts. A table may lack the column
/// `id`; all its rows are then one series.
///
/// # Errors
/// The errors of [`read_vectors`](super::read_vectors); a fold; series that are too short to be split.
pub fn load_series(source: &Source) -> Result<Splits<Series>, DataError> {
    if let Some(fold) = source.fold {
        let expected = "no fold, since series are split by time".into();
        return Err(DataError::Setting { field: "fold", expected, found: fold.to_string() });
    }
    if source.path.is_dir() {
        return Ok(load_vectors(source)?.map(Series::whole));
    }
    let loaded = read(&source.path, WithoutId::OneSeries)?;
    if loaded.examples.iter().all(|example| example.split.is_some()) {
        return Ok(load_vectors(source)?.map(Series::whole));
    }
    let mut splits = by_time(loaded.examples);
    if let Some(split) = Split::ALL.into_iter().find(|&split| splits.get(split).is_empty()) {
        return Err(DataError::TooFew { path: source.path.clone(), split, examples: splits.train.len() });
    }
    splits.notes = loaded.notes;
    splits.notes.push("the last tenth of each series is test, the tenth before it dev".to_string());
    Ok(splits)
}

/// Reads all series of a file, to forecast each from its beginning.
///
/// # Errors
/// The errors of [`read_vectors`](super::read_vectors).
pub fn read_series(path: &std::path::Path) -> Result<Vec<Series>, DataError> {
    Ok(read(path, WithoutId::OneSeries)?.examples.into_iter().map(Series::whole).collect())
}

/// The meaning of a table without a column `id`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WithoutId {
    /// It is an error.
    Refused,
    /// All rows are one series.
    OneSeries,
}

/// Splits every series by time. A series of less than ten vectors is only trained on.
pub fn by_time(all: Vec<Vectors>) -> Splits<Series> {
    let mut splits = Splits::new(Vec::new(), Vec::new(), Vec::new());
    for vectors in all {
        let (length, width) = (vectors.length(), vectors.width);
        let tenth = length / 10;
        let until = |end: usize| Vectors { features: vectors.features[..end * width].to_vec(), ..vectors.clone() };
        let (trained, chosen) = (length - 2 * tenth, length - tenth);
        splits.train.push(Series::whole(until(trained)));
        if tenth > 0 {
            splits.dev.push(Series { vectors: until(chosen), from: trained });
            splits.test.push(Series { vectors, from: chosen });
        }
    }
    splits
}
