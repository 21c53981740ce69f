//! Training, development and test part of a data set.
//!
//! An example's side is decided by a hash of its input alone, so that the same input always falls on the same side,
//! whatever else is in the file. The high half of the hash chooses the fold, the low half development and test.

use crate::file::read_bytes;
use crate::folder::Files;
use crate::hash::Fnv;
use crate::{DataError, hash};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A part of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// What is learnt from.
    Train,
    /// What choices are made by.
    Dev,
    /// What is reported.
    Test,
}

impl Split {
    /// All of them, in order.
    pub const ALL: [Self; 3] = [Self::Train, Self::Dev, Self::Test];
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Train => "train",
            Self::Dev => "dev",
            Self::Test => "test",
        })
    }
}

impl FromStr for Split {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        Self::ALL.into_iter().find(|split| split.to_string() == text).ok_or_else(|| DataError::Setting {
            field: "split",
            expected: "train, dev or test".into(),
            found: format!("{text:?}"),
        })
    }
}

/// The parts of a data set.
#[derive(Clone, Debug, PartialEq)]
pub struct Splits<T> {
    /// What is learnt from.
    pub train: Vec<T>,
    /// What choices are made by.
    pub dev: Vec<T>,
    /// What is reported.
    pub test: Vec<T>,
}

impl<T> Splits<T> {
    /// One part.
    pub fn get(&self, split: Split) -> &[T] {
        match split {
            Split::Train => &self.train,
            Split::Dev => &self.dev,
            Split::Test => &self.test,
        }
    }

    /// The same parts of other things.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> Splits<U> {
        Splits {
            train: self.train.into_iter().map(&mut f).collect(),
            dev: self.dev.into_iter().map(&mut f).collect(),
            test: self.test.into_iter().map(&mut f).collect(),
        }
    }

    /// How many examples there are in all parts.
    fn total(&self) -> usize {
        self.train.len() + self.dev.len() + self.test.len()
    }
}

/// One of `n` equal parts of the data as test: `3/10` is the third of ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fold {
    k: u32,
    n: u32,
}

impl Fold {
    /// Part `k` of `n`, counted from 1.
    ///
    /// # Errors
    /// Unless 1 ≤ `k` ≤ `n` and 2 ≤ `n`.
    pub fn new(k: u32, n: u32) -> Result<Self, DataError> {
        if k == 0 || k > n || n < 2 {
            return Err(Self::error(&format!("{k}/{n}")));
        }
        Ok(Self { k, n })
    }

    /// Whether an example of this hash is in the fold.
    fn holds(self, hash: u64) -> bool {
        bucket(hash >> 32, self.n) == self.k - 1
    }

    fn error(found: &str) -> DataError {
        let expected = "k/n with 1 ≤ k ≤ n and n ≥ 2, such as 3/10".into();
        DataError::Setting { field: "fold", expected, found: format!("{found:?}") }
    }
}

impl fmt::Display for Fold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.k, self.n)
    }
}

impl FromStr for Fold {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        let numbers = text.split_once('/').and_then(|(k, n)| Some((k.trim().parse().ok()?, n.trim().parse().ok()?)));
        let (k, n) = numbers.ok_or_else(|| Self::error(text))?;
        Self::new(k, n)
    }
}

impl TryFrom<String> for Fold {
    type Error = DataError;

    fn try_from(text: String) -> Result<Self, DataError> {
        text.parse()
    }
}

impl From<Fold> for String {
    fn from(fold: Fold) -> Self {
        fold.to_string()
    }
}

/// Where examples come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// A file, or a folder with `train.*`, `dev.*`, `test.*`.
    pub path: PathBuf,
    /// The part of a single file that is the test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<Fold>,
}

/// Reads the parts of a data set, `key` giving the input of an example.
///
/// A single file is split 90/5/5 by the hash of the input; with a fold, that fold is the test and 5 % of the rest is dev.
/// A folder has a file a part; where dev or test is missing, its 5 % are cut from train in the same way.
///
/// # Errors
/// Those of `read`; a folder without `train.*`, with two files for a part, or with a fold; too few examples.
pub fn load_splits<T>(
    path: &Path,
    fold: Option<Fold>,
    read: impl Fn(&Path) -> Result<Vec<T>, DataError>,
    key: impl Fn(&T) -> &str,
) -> Result<Splits<T>, DataError> {
    load_splits_by(path, fold, read, |example| hash(key(example).as_bytes()))
}

/// As [`load_splits`], where the input of an example is no single string: `key` is its [`hash`].
///
/// # Errors
/// Those of [`load_splits`].
pub fn load_splits_by<T>(
    path: &Path,
    fold: Option<Fold>,
    read: impl Fn(&Path) -> Result<Vec<T>, DataError>,
    key: impl Fn(&T) -> u64,
) -> Result<Splits<T>, DataError> {
    let splits = match (Files::find(path)?, fold) {
        (Files::One(file), None) => deal(read(&file)?, |example| side(key(example))),
        (Files::One(file), Some(fold)) => deal(read(&file)?, |example| match key(example) {
            hash if fold.holds(hash) => Split::Test,
            hash if side(hash) == Split::Dev => Split::Dev,
            _ => Split::Train,
        }),
        (Files::Parts { .. }, Some(fold)) => {
            let expected = "a single file, of which a fold can be taken".into();
            return Err(DataError::Setting {
                field: "fold",
                expected,
                found: format!("{fold} of the folder {}", path.display()),
            });
        }
        (Files::Parts { train, dev, test }, None) => {
            let mut splits = deal(read(&train)?, |example| match side(key(example)) {
                Split::Dev if dev.is_none() => Split::Dev,
                Split::Test if test.is_none() => Split::Test,
                _ => Split::Train,
            });
            if let Some(file) = &dev {
                splits.dev = read(file)?;
            }
            if let Some(file) = &test {
                splits.test = read(file)?;
            }
            splits
        }
    };
    match Split::ALL.into_iter().find(|&split| splits.get(split).is_empty()) {
        Some(split) => Err(DataError::TooFew { path: path.to_path_buf(), split, examples: splits.total() }),
        None => Ok(splits),
    }
}

/// A hash of the files that a data set is read from, so that a resumed run can refuse changed data.
///
/// # Errors
/// Files that are missing, ambiguous or cannot be read.
pub fn fingerprint(path: &Path) -> Result<String, DataError> {
    let mut state = Fnv::default();
    for (part, file) in Files::find(path)?.present() {
        let bytes = read_bytes(file)?;
        state.write(part.as_bytes());
        state.write(&(bytes.len() as u64).to_le_bytes());
        state.write(&bytes);
    }
    Ok(format!("{:016x}", state.0))
}

/// One of twenty buckets is the test, another dev.
fn side(hash: u64) -> Split {
    match bucket(hash & 0xffff_ffff, 20) {
        0 => Split::Test,
        1 => Split::Dev,
        _ => Split::Train,
    }
}

/// Which of `n` equal ranges half a hash falls into.
fn bucket(half: u64, n: u32) -> u32 {
    ((half * u64::from(n)) >> 32) as u32
}

fn deal<T>(examples: Vec<T>, side: impl Fn(&T) -> Split) -> Splits<T> {
    let mut splits = Splits { train: Vec::new(), dev: Vec::new(), test: Vec::new() };
    for example in examples {
        match side(&example) {
            Split::Train => splits.train.push(example),
            Split::Dev => splits.dev.push(example),
            Split::Test => splits.test.push(example),
        }
    }
    splits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::write;
    use crate::{load_labelled, load_pairs, read_pairs};
    use std::collections::BTreeSet;
    use tempfile::{TempDir, tempdir};

    fn tsv(range: std::ops::Range<usize>) -> String {
        range.map(|i| format!("sentence {i}\tphrase {i}\nsentence {i}\tautre {i}\n")).collect()
    }

    fn load(dir: &TempDir, name: &str, fold: Option<&str>) -> Result<Splits<crate::Pair>, DataError> {
        load_pairs(&Source { path: dir.path().join(name), fold: fold.map(|f| f.parse().unwrap()) })
    }

    fn sources(pairs: &[crate::Pair]) -> BTreeSet<&str> {
        pairs.iter().map(|p| p.source.as_str()).collect()
    }

    #[test]
    fn names_are_read_and_written() {
        for split in Split::ALL {
            assert_eq!(split.to_string().parse::<Split>().unwrap(), split);
            assert_eq!(serde_json::to_string(&split).unwrap(), format!("\"{split}\""));
        }
        let error = "valid".parse::<Split>().unwrap_err().to_string();
        assert_eq!(error, "split: expected train, dev or test, found \"valid\"");
        assert_eq!("3/10".parse::<Fold>().unwrap(), Fold::new(3, 10).unwrap());
        assert_eq!(serde_json::from_str::<Fold>("\"3/10\"").unwrap().to_string(), "3/10");
        for wrong in ["0/10", "11/10", "1/1", "3", "a/b", "-1/3", "1/", ""] {
            assert!(matches!(wrong.parse::<Fold>(), Err(DataError::Setting { field: "fold", .. })), "{wrong}");
        }
        assert!(serde_json::from_str::<Source>(r#"{"path": "a", "folds": "1/2"}"#).is_err());
    }

    #[test]
    fn a_file_is_split_by_its_inputs() {
        let dir = tempdir().unwrap();
        write(&dir, "all.tsv", tsv(0..5000).as_bytes());
        write(&dir, "some.tsv", tsv(1000..3000).as_bytes());
        let (all, some) = (load(&dir, "all.tsv", None).unwrap(), load(&dir, "some.tsv", None).unwrap());
        assert_eq!(all.total(), 10_000);
        // 5 % of 5,000 inputs, within five standard deviations.
        for part in [&all.dev, &all.test] {
            assert!((sources(part).len() as f64 - 250.0).abs() < 5.0 * (5000.0f64 * 0.05 * 0.95).sqrt());
        }
        for split in Split::ALL {
            assert!(sources(some.get(split)).is_subset(&sources(all.get(split))), "{split}");
        }
        assert!(sources(&all.train).is_disjoint(&sources(&all.test)));
        assert!(sources(&all.train).is_disjoint(&sources(&all.dev)));
    }

    #[test]
    fn folds_part_the_data() {
        let dir = tempdir().unwrap();
        write(&dir, "all.tsv", tsv(0..2000).as_bytes());
        let mut seen = BTreeSet::new();
        for k in 1..=10 {
            let splits = load(&dir, "all.tsv", Some(&format!("{k}/10"))).unwrap();
            assert_eq!(splits.total(), 4000);
            let tests = sources(&splits.test);
            assert!((tests.len() as f64 - 200.0).abs() < 5.0 * (2000.0f64 * 0.1 * 0.9).sqrt(), "{}", tests.len());
            // The hash of the fold and that of dev are independent: 5 % of what is left.
            let dev = sources(&splits.dev).len() as f64;
            assert!((dev - 90.0).abs() < 5.0 * (1800.0f64 * 0.05 * 0.95).sqrt(), "{dev}");
            assert!(tests.is_disjoint(&sources(&splits.train)) && tests.is_disjoint(&sources(&splits.dev)));
            for test in tests {
                assert!(seen.insert(test.to_string()), "{test} is in two folds");
            }
        }
        assert_eq!(seen.len(), 2000);
    }

    #[test]
    fn a_folder_gives_its_parts() {
        let dir = tempdir().unwrap();
        write(&dir, "train.tsv", tsv(0..500).as_bytes());
        let cut = load(&dir, "", None).unwrap();
        assert!(!cut.dev.is_empty() && !cut.test.is_empty());
        assert_eq!(cut.total(), 1000);
        write(&dir, "x-test.tsv", b"one\tun\n");
        let with_test = load(&dir, "", None).unwrap();
        assert_eq!(with_test.test.len(), 1);
        assert_eq!(with_test.dev, cut.dev);
        assert_eq!(with_test.train.len() + with_test.dev.len(), 1000);
        write(&dir, "dev.tsv", b"two\tdeux\n");
        let whole = load(&dir, "", None).unwrap();
        assert_eq!((whole.train.len(), whole.dev.len(), whole.test.len()), (1000, 1, 1));
        let error = load(&dir, "", Some("1/10")).unwrap_err().to_string();
        assert!(error.starts_with("fold: expected a single file"), "{error}");
    }

    #[test]
    fn too_few_are_named() {
        let dir = tempdir().unwrap();
        write(&dir, "few.tsv", tsv(0..1).as_bytes());
        let error = load(&dir, "few.tsv", None).unwrap_err();
        assert!(matches!(error, DataError::TooFew { examples: 2, .. }), "{error}");
        assert!(matches!(load(&dir, "none.tsv", None).unwrap_err(), DataError::Missing { .. }));
    }

    #[test]
    fn labelled_texts_are_split_too() {
        let dir = tempdir().unwrap();
        let rows: String = (0..400).map(|i| format!("text {i},{}\n", i % 2)).collect();
        let path = write(&dir, "a.csv", format!("text,label\n{rows}").as_bytes());
        let splits = load_labelled(&Source { path, fold: Some(Fold::new(2, 5).unwrap()) }).unwrap();
        assert_eq!(splits.total(), 400);
        assert_eq!(splits.clone().map(|e| e.text).test[0], splits.test[0].text);
    }

    #[test]
    fn a_fingerprint_sees_every_file_used_and_no_other() {
        let dir = tempdir().unwrap();
        write(&dir, "train.tsv", b"a\tb\n");
        write(&dir, "test.tsv", b"c\td\n");
        let first = fingerprint(dir.path()).unwrap();
        write(&dir, "README", b"x");
        assert_eq!(fingerprint(dir.path()).unwrap(), first);
        write(&dir, "test.tsv", b"c\te\n");
        assert_ne!(fingerprint(dir.path()).unwrap(), first);
        // Bytes moved from one file to the next are a change.
        write(&dir, "train.tsv", b"a\tb\nc\td\n");
        write(&dir, "test.tsv", b"");
        assert_ne!(fingerprint(dir.path()).unwrap(), first);
        assert_eq!(first.len(), 16);
        assert!(read_pairs(&dir.path().join("train.tsv")).is_ok());
    }
}
