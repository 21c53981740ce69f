//! Splits data sets into training, development and test parts.
//!
//! A hash of an example's input alone chooses the part, so that the same input is always in the same part, whatever else
//! is in the file. The high half of the hash chooses the fold, the low half dev or test.

use crate::DataError;
use crate::file::read_error;
use crate::folder::Files;
use crate::hash::Fnv;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A part of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// Examples to train on.
    Train,
    /// Examples to make choices by.
    Dev,
    /// Examples to report scores on.
    Test,
}

impl Split {
    /// All parts, in order.
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

/// The examples of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded<T> {
    /// The examples in the order of the file.
    pub examples: Vec<T>,
    /// Notes for the user, such as columns that are not used.
    pub notes: Vec<String>,
}

impl<T> Default for Loaded<T> {
    fn default() -> Self {
        Self { examples: Vec::new(), notes: Vec::new() }
    }
}

/// The parts of a data set.
#[derive(Clone, Debug, PartialEq)]
pub struct Splits<T> {
    /// Examples to train on.
    pub train: Vec<T>,
    /// Examples to make choices by.
    pub dev: Vec<T>,
    /// Examples to report scores on; empty for a plain text without a test file.
    pub test: Vec<T>,
    /// Notes for the user, such as how the data were split.
    pub notes: Vec<String>,
}

impl<T> Splits<T> {
    /// Parts without notes.
    pub fn new(train: Vec<T>, dev: Vec<T>, test: Vec<T>) -> Self {
        Self { train, dev, test, notes: Vec::new() }
    }

    /// The examples of one part.
    pub fn get(&self, split: Split) -> &[T] {
        match split {
            Split::Train => &self.train,
            Split::Dev => &self.dev,
            Split::Test => &self.test,
        }
    }

    /// Applies a function to every example.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> Splits<U> {
        Splits {
            train: self.train.into_iter().map(&mut f).collect(),
            dev: self.dev.into_iter().map(&mut f).collect(),
            test: self.test.into_iter().map(&mut f).collect(),
            notes: self.notes,
        }
    }

    /// Number of examples in all parts.
    fn total(&self) -> usize {
        self.train.len() + self.dev.len() + self.test.len()
    }
}

/// One of `n` equal parts of the data, used as test: `3/10` is the third of ten.
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

    /// Whether an example with this hash is in the fold.
    fn holds(self, hash: u64) -> bool {
        bucket(hash >> 32, self.n) == self.k - 1
    }

    /// The error for a fold of data that have parts of their own.
    pub(crate) fn of_parts(self, path: &Path) -> DataError {
        let expected = "a single file, since only a file can be split into folds".into();
        DataError::Setting { field: "fold", expected, found: format!("{self} of the folder {}", path.display()) }
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
    /// The fold of a single file to use as test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<Fold>,
}

/// Largest number of examples taken from a file for dev or for test. It is enough for a score to within half a percent, and
/// the rest of a large file stays for training.
const MOST_HELD_OUT: usize = 10_000;

/// Reads the parts of a data set; `key` returns the hash of an example's input.
///
/// A single file gives 5 % of its examples, at most [`MOST_HELD_OUT`], to dev and as many to test, by the hash of the input.
/// With a fold, that fold is test and the rest is split. A folder has its own parts; if dev or test is missing, it is taken
/// from train in the same way.
///
/// # Errors
/// The errors of `read`; a folder with a fold; too few examples.
pub(crate) fn load_splits<T>(
    Source { path, fold }: &Source,
    files: Files,
    mut read: impl FnMut(&[PathBuf]) -> Result<Loaded<T>, DataError>,
    key: impl Fn(&T) -> u64,
) -> Result<Splits<T>, DataError> {
    let splits = match (files, *fold) {
        (Files::One(file), fold) => split_one(read(&[file])?, fold, key),
        (Files::Parts { .. }, Some(fold)) => return Err(fold.of_parts(path)),
        (Files::Parts { train, dev, test }, None) => {
            let train = read(&train)?;
            let mut part = |files: &[PathBuf]| if files.is_empty() { Ok(None) } else { read(files).map(Some) };
            complete(train, [part(&dev)?, part(&test)?], key, "file")
        }
    };
    finish(path, splits)
}

/// Splits the examples of a single file by the hash of the input, or by a fold of it.
pub(crate) fn split_one<T>(loaded: Loaded<T>, fold: Option<Fold>, key: impl Fn(&T) -> u64) -> Splits<T> {
    let Some(fold) = fold else {
        let mut splits = deal(loaded, key, side, &[Split::Dev, Split::Test]);
        let most = MOST_HELD_OUT;
        splits.notes.push(format!("dev and test are 5 % of the file each, at most {most}, by a hash of the input"));
        return splits;
    };
    let of = |hash| match side(hash) {
        _ if fold.holds(hash) => Split::Test,
        Split::Dev => Split::Dev,
        _ => Split::Train,
    };
    let mut splits = deal(loaded, key, of, &[Split::Dev]);
    splits.notes.push(format!("test is fold {fold} of the file, dev 5 % of the rest, by a hash of the input"));
    splits
}

/// Splits the examples of a single file that names the part of each. If dev or test is missing, it is taken from train as
/// in [`load_splits`].
pub(crate) fn split_given<T>(
    path: &Path,
    Loaded { mut examples, notes }: Loaded<T>,
    split: impl Fn(&T) -> Split,
    key: impl Fn(&T) -> u64,
) -> Result<Splits<T>, DataError> {
    let [dev, test] = [Split::Dev, Split::Test].map(|part| {
        let examples: Vec<T> = examples.extract_if(.., |example| split(example) == part).collect();
        (!examples.is_empty()).then_some(Loaded { examples, notes: Vec::new() })
    });
    finish(path, complete(Loaded { examples, notes }, [dev, test], key, "row"))
}

/// Joins the parts. A missing dev or test part is taken from train by the hash of the input; `what` names what is missing.
pub(crate) fn complete<T>(
    train: Loaded<T>,
    [dev, test]: [Option<Loaded<T>>; 2],
    key: impl Fn(&T) -> u64,
    what: &str,
) -> Splits<T> {
    let mut splits = deal(
        train,
        key,
        |hash| match side(hash) {
            Split::Dev if dev.is_none() => Split::Dev,
            Split::Test if test.is_none() => Split::Test,
            _ => Split::Train,
        },
        &[Split::Dev, Split::Test],
    );
    for (split, given, part) in [(Split::Dev, dev, &mut splits.dev), (Split::Test, test, &mut splits.test)] {
        let Some(Loaded { examples, notes }) = given else {
            let note = format!("{split} is 5 % of train, by a hash of the input: there is no {split} {what}");
            splits.notes.push(note);
            continue;
        };
        *part = examples;
        splits.notes.extend(notes);
    }
    splits
}

/// Removes duplicate notes and refuses a part without examples.
pub(crate) fn finish<T>(path: &Path, mut splits: Splits<T>) -> Result<Splits<T>, DataError> {
    let mut seen = BTreeSet::new();
    splits.notes.retain(|note| seen.insert(note.clone()));
    match Split::ALL.into_iter().find(|&split| splits.get(split).is_empty()) {
        Some(split) => Err(DataError::TooFew { path: path.to_path_buf(), split, examples: splits.total() }),
        None => Ok(splits),
    }
}

/// Computes a hash of the files of a data set, so that a resumed run can refuse changed data.
///
/// # Errors
/// Files that are missing, ambiguous or cannot be read.
pub fn fingerprint(path: &Path) -> Result<String, DataError> {
    fingerprint_of(Files::of_one_or_two(path)?.present())
}

/// Computes a hash of the names and the contents of files.
pub(crate) fn fingerprint_of(files: impl IntoIterator<Item = (impl AsRef<str>, PathBuf)>) -> Result<String, DataError> {
    let mut state = Fnv::default();
    let mut buffer = vec![0; 1 << 16];
    for (name, path) in files {
        let fail = |cause| read_error(&path, cause);
        let mut file = File::open(&path).map_err(fail)?;
        state.write(name.as_ref().as_bytes());
        state.write(&file.metadata().map_err(fail)?.len().to_le_bytes());
        loop {
            match file.read(&mut buffer).map_err(fail)? {
                0 => break,
                read => state.write(&buffer[..read]),
            }
        }
    }
    Ok(format!("{:016x}", state.0))
}

/// The part of an example by its hash: one of twenty buckets is test, another dev.
fn side(hash: u64) -> Split {
    match bucket(hash & 0xffff_ffff, 20) {
        0 => Split::Test,
        1 => Split::Dev,
        _ => Split::Train,
    }
}

/// The index of the range, out of `n` equal ones, that a half of a hash falls into.
fn bucket(half: u64, n: u32) -> u32 {
    ((half * u64::from(n)) >> 32) as u32
}

/// Distributes examples by the hash of their input. If more than [`MOST_HELD_OUT`] fall to a `bounded` part, those with the
/// smallest hashes stay, so that equal inputs stay together, and the others go to train.
fn deal<T>(loaded: Loaded<T>, key: impl Fn(&T) -> u64, side: impl Fn(u64) -> Split, bounded: &[Split]) -> Splits<T> {
    let Loaded { mut examples, notes } = loaded;
    let hashes: Vec<u64> = examples.iter().map(key).collect();
    // The low half chooses dev and test, so it comes first in this order.
    let order = |hash: u64| hash.rotate_left(32);
    let [dev, test] = [Split::Dev, Split::Test].map(|split| {
        let mut inside: Vec<u64> = hashes.iter().filter(|&&h| side(h) == split).map(|&h| order(h)).collect();
        if inside.len() <= MOST_HELD_OUT || !bounded.contains(&split) {
            return u64::MAX;
        }
        let (smaller, &mut next, _) = inside.select_nth_unstable(MOST_HELD_OUT);
        // If a single input fills the whole part, all its examples are held out.
        if smaller.iter().any(|&h| h < next) { next - 1 } else { next }
    });
    let of_bounds = |hash: u64| match side(hash) {
        Split::Dev if order(hash) <= dev => Split::Dev,
        Split::Test if order(hash) <= test => Split::Test,
        _ => Split::Train,
    };
    // Train stays in its vector: a second one of a million examples would take as much memory again.
    let mut splits = Splits::new(Vec::new(), Vec::new(), Vec::new());
    let mut at = hashes.iter();
    for example in examples.extract_if(.., |_| at.next().is_some_and(|&hash| of_bounds(hash) != Split::Train)) {
        splits.dev.push(example);
    }
    // The examples taken out are in their original order, so their hashes tell dev from test.
    let mut held = hashes.iter().map(|&hash| of_bounds(hash)).filter(|split| *split != Split::Train);
    splits.test = splits.dev.extract_if(.., |_| held.next() == Some(Split::Test)).collect();
    Splits { train: examples, notes, ..splits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::write;
    use crate::{LabelledColumns, PairColumns, hash, load_labelled, load_pairs, read_pairs};
    use tempfile::{TempDir, tempdir};

    fn tsv(range: std::ops::Range<usize>) -> String {
        range.map(|i| format!("sentence {i}\tphrase {i}\nsentence {i}\tautre {i}\n")).collect()
    }

    fn load(dir: &TempDir, name: &str, fold: Option<&str>) -> Result<Splits<crate::Pair>, DataError> {
        load_pairs(
            &Source { path: dir.path().join(name), fold: fold.map(|f| f.parse().unwrap()) },
            &PairColumns::default(),
        )
    }

    fn sources(pairs: &[crate::Pair]) -> BTreeSet<&str> {
        pairs.iter().map(|p| p.source()).collect()
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
    fn the_number_held_out_of_a_large_file_is_bounded() {
        let examples: Vec<u64> = (0..1_000_000u64).map(|i| i / 2).collect();
        let key = |i: &u64| hash(&i.to_le_bytes());
        let both = [Split::Dev, Split::Test];
        let splits = deal(Loaded { examples: examples.clone(), notes: Vec::new() }, key, side, &both);
        for part in [&splits.dev, &splits.test] {
            assert!((MOST_HELD_OUT - 2..=MOST_HELD_OUT).contains(&part.len()), "{}", part.len());
        }
        assert_eq!(splits.total(), 1_000_000);
        // Both examples of an input are in one part, and those held out of the large file would be held out of any other.
        let train: BTreeSet<u64> = splits.train.iter().copied().collect();
        assert!(splits.dev.iter().chain(&splits.test).all(|i| !train.contains(i)));
        assert!(splits.test.iter().all(|i| side(key(i)) == Split::Test));
        let one = deal(Loaded { examples: vec![7u64; 30_000], notes: Vec::new() }, key, |_| Split::Dev, &both);
        assert_eq!((one.train.len(), one.dev.len()), (0, 30_000));
        // A fold that was asked for is not bounded.
        let fold = deal(Loaded { examples, notes: Vec::new() }, key, side, &[Split::Dev]);
        assert!(fold.dev.len() <= MOST_HELD_OUT && fold.test.len() > 40_000);
    }

    #[test]
    fn folds_are_disjoint_and_cover_the_data() {
        let dir = tempdir().unwrap();
        write(&dir, "all.tsv", tsv(0..2000).as_bytes());
        let mut seen = BTreeSet::new();
        for k in 1..=10 {
            let splits = load(&dir, "all.tsv", Some(&format!("{k}/10"))).unwrap();
            assert_eq!(splits.total(), 4000);
            let tests = sources(&splits.test);
            assert!((tests.len() as f64 - 200.0).abs() < 5.0 * (2000.0f64 * 0.1 * 0.9).sqrt(), "{}", tests.len());
            // The hashes of the fold and of dev are independent: dev is 5 % of the rest.
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
    fn too_few_examples_are_refused() {
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
        let splits =
            load_labelled(&Source { path, fold: Some(Fold::new(2, 5).unwrap()) }, &LabelledColumns::default()).unwrap();
        assert_eq!(splits.total(), 400);
        assert_eq!(splits.clone().map(|e| e.text).test[0], splits.test[0].text);
    }

    #[test]
    fn a_fingerprint_covers_exactly_the_files_used() {
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
        assert!(read_pairs(&dir.path().join("train.tsv"), &PairColumns::default()).is_ok());
    }
}
