//! Finds the files of a data set and the part that each belongs to.

use crate::error::listed;
use crate::file::check_rereadable;
use crate::vectors::names;
use crate::{DataError, Split};
use std::path::{Path, PathBuf};

/// The files of a data set: a single file, or the files of its parts. A part is one file, one per language in translation, or
/// arrays of inputs and targets.
#[derive(Debug)]
pub(crate) enum Files {
    /// A single file, which is to be split.
    One(PathBuf),
    /// The files in a folder. `dev` and `test` may be empty, `train` not.
    Parts { train: Vec<PathBuf>, dev: Vec<PathBuf>, test: Vec<PathBuf> },
}

impl Files {
    /// Finds a file, or a folder with one file for each part.
    pub(crate) fn of_one(path: &Path) -> Result<Self, DataError> {
        Self::find(path, |split, files| match files {
            [] | [_] => Ok(()),
            _ => Err(several(path, split, files)),
        })
    }

    /// Like [`Files::of_one`], but a part may also be two arrays, such as `x-train.npy` and `y-train.npy`.
    pub(crate) fn of_arrays(path: &Path) -> Result<Self, DataError> {
        Self::find(path, |split, files| match files {
            [] | [_] => Ok(()),
            _ if is_arrays(files) => Ok(()),
            _ => Err(several(path, split, files)),
        })
    }

    /// Like [`Files::of_one`], but a part may also be two files, such as `train.en` and `train.de`, or two arrays.
    pub(crate) fn of_one_or_two(path: &Path) -> Result<Self, DataError> {
        let files = Self::find(path, |split, files| match files {
            [] | [_] => Ok(()),
            [one, other] if language(one).is_some() && language(other).is_some() => Ok(()),
            _ if is_arrays(files) => Ok(()),
            _ => Err(several(path, split, files)),
        })?;
        if let Self::Parts { train, dev, test } = &files {
            let languages = |files: &[PathBuf]| files.iter().filter_map(|file| language(file)).collect::<Vec<_>>();
            for part in [dev, test] {
                if !part.is_empty() && (train.len(), languages(train)) != (part.len(), languages(part)) {
                    let expected = format!("the languages of {} for each split", named(train));
                    return Err(DataError::Folder { path: path.to_path_buf(), expected, found: named(part) });
                }
            }
        }
        Ok(files)
    }

    fn find(path: &Path, check: impl Fn(Split, &[PathBuf]) -> Result<(), DataError>) -> Result<Self, DataError> {
        if !path.exists() {
            return Err(DataError::Missing { path: path.to_path_buf() });
        }
        if !path.is_dir() {
            check_rereadable(path)?;
            return Ok(Self::One(path.to_path_buf()));
        }
        let names = file_names(path).map_err(|cause| DataError::Read { path: path.to_path_buf(), cause })?;
        let part = |split| -> Result<Vec<PathBuf>, DataError> {
            let files: Vec<PathBuf> =
                names.iter().filter(|name| is_part(name, split)).map(|name| path.join(name)).collect();
            check(split, &files).map(|()| files)
        };
        let train = part(Split::Train)?;
        if train.is_empty() {
            return Err(DataError::Folder {
                path: path.to_path_buf(),
                expected: "train.* (and dev.* or val.*, test.*)".into(),
                found: listed(&names),
            });
        }
        Ok(Self::Parts { train, dev: part(Split::Dev)?, test: part(Split::Test)? })
    }

    /// Every file with the name of its part. The targets beside an array of inputs are among them.
    pub(crate) fn present(&self) -> Vec<(&'static str, PathBuf)> {
        match self {
            Self::One(path) => {
                std::iter::once(path.clone()).chain(names::targets(path)).map(|path| ("all", path)).collect()
            }
            Self::Parts { train, dev, test } => {
                let parts = [("train", train), ("dev", dev), ("test", test)];
                parts.into_iter().flat_map(|(name, files)| files.iter().map(move |file| (name, file.clone()))).collect()
            }
        }
    }
}

/// The language in a file name: `de` in `train.de`, `zh-CN` in `train.zh-CN.gz`.
pub(crate) fn language(path: &Path) -> Option<String> {
    const FORMATS: [&str; 8] = ["txt", "tsv", "csv", "tok", "bpe", "xml", "md", "npy"];
    let name = path.file_name()?.to_str()?;
    let (_, extension) = name.strip_suffix(".gz").unwrap_or(name).rsplit_once('.')?;
    let code = extension.split(['-', '_']).next().unwrap_or_default();
    let is_code =
        (2..=3).contains(&code.len()) && extension.bytes().all(|b| b.is_ascii_alphabetic() || b"-_".contains(&b));
    (is_code && !FORMATS.contains(&extension)).then(|| extension.to_string())
}

/// Whether two files are an array of inputs and the targets that belong to it.
fn is_arrays(files: &[PathBuf]) -> bool {
    let belongs = |inputs: &Path, targets: &Path| names::targets(inputs).is_some_and(|file| file == targets);
    matches!(files, [one, other] if belongs(one, other) || belongs(other, one))
}

fn several(folder: &Path, split: Split, files: &[PathBuf]) -> DataError {
    DataError::Folder { path: folder.to_path_buf(), expected: format!("one file for {split}"), found: named(files) }
}

fn named(files: &[PathBuf]) -> String {
    let names: Vec<_> = files.iter().filter_map(|file| file.file_name()).map(|name| name.to_string_lossy()).collect();
    listed(&names)
}

/// The names of the files in a folder, sorted, without hidden ones.
fn file_names(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && entry.path().is_file() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// The usual names of a part.
pub(crate) fn names_of(split: Split) -> &'static [&'static str] {
    match split {
        Split::Train => &["train"],
        Split::Dev => &["dev", "val", "valid", "validation"],
        Split::Test => &["test"],
    }
}

/// Whether a file name belongs to a part. `train.tsv`, `train.tsv.gz` and `en_ewt-ud-train.conllu` are all training data;
/// dev has several common names. `x-train.npy` and `train-x.npy` are the same.
fn is_part(name: &str, split: Split) -> bool {
    let name = names::without_role(name);
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    names_of(split).iter().any(|called| {
        stem == *called
            || name.strip_prefix(called).is_some_and(|rest| rest.starts_with('.'))
            || stem.strip_suffix(called).is_some_and(|rest| rest.ends_with(['-', '_']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::write;
    use tempfile::tempdir;

    #[test]
    fn names_of_parts() {
        for name in [
            "train.tsv",
            "train.tsv.gz",
            "train.en.txt",
            "en_ewt-ud-train.conllu",
            "x-train.conllu.gz",
            "my_train.csv",
            "x_train.npy",
            "train-y.npy.gz",
            "train",
        ] {
            assert!(is_part(name, Split::Train), "{name}");
        }
        for name in
            ["training.tsv", "trained.txt", "strain.txt", "test.tsv", "README.md", "train-notes.md", "train-x.csv"]
        {
            assert!(!is_part(name, Split::Train), "{name}");
        }
        for name in ["dev.tsv", "val.csv", "valid.jsonl.gz", "validation.txt", "x-val.conllu"] {
            assert!(is_part(name, Split::Dev), "{name}");
        }
        for name in ["value.csv", "validate.py", "interval.txt", "validity.tsv"] {
            assert!(!is_part(name, Split::Dev), "{name}");
        }
        for (name, expected) in
            [("train.en", Some("en")), ("a.zh-CN.gz", Some("zh-CN")), ("train.tsv", None), ("de", None)]
        {
            assert_eq!(language(Path::new(name)).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn a_folder_has_one_file_per_part() {
        let dir = tempdir().unwrap();
        write(&dir, "LICENSE", b"x");
        write(&dir, ".train.tsv.swp", b"x");
        let error = Files::of_one(dir.path()).err().unwrap().to_string();
        assert!(error.contains("expected train.* (and dev.* or val.*, test.*), found LICENSE"), "{error}");
        write(&dir, "a-train.tsv", b"x");
        write(&dir, "a-dev.tsv", b"x");
        let files = Files::of_one(dir.path()).unwrap();
        let names: Vec<_> = files.present().iter().map(|(part, _)| *part).collect();
        assert_eq!(names, ["train", "dev"]);
        write(&dir, "train.tsv.gz", b"x");
        let error = Files::of_one(dir.path()).err().unwrap().to_string();
        assert!(error.contains("expected one file for train, found a-train.tsv, train.tsv.gz"), "{error}");
        write(&dir, "a-val.tsv", b"x");
        let error = Files::of_one(dir.path()).unwrap_err().to_string();
        assert!(error.contains("expected one file for"), "{error}");
        let error = Files::of_one(&dir.path().join("none")).err().unwrap();
        assert!(matches!(error, DataError::Missing { .. }));
    }

    #[test]
    fn only_translation_takes_two_languages_per_part() {
        let dir = tempdir().unwrap();
        for name in ["train.en", "train.de", "valid.en", "valid.de"] {
            write(&dir, name, b"x");
        }
        let names = |files: Files| files.present().iter().map(|(part, _)| *part).collect::<Vec<_>>();
        assert_eq!(names(Files::of_one_or_two(dir.path()).unwrap()), ["train", "train", "dev", "dev"]);
        let error = Files::of_one(dir.path()).unwrap_err().to_string();
        assert!(error.contains("expected one file for train, found train.de, train.en"), "{error}");
        write(&dir, "test.en", b"x");
        let error = Files::of_one_or_two(dir.path()).unwrap_err().to_string();
        assert!(
            error.contains("expected the languages of train.de, train.en for each split, found test.en"),
            "{error}"
        );
        write(&dir, "test.fr", b"x");
        assert!(Files::of_one_or_two(dir.path()).is_err());
        write(&dir, "train.fr", b"x");
        assert!(Files::of_one_or_two(dir.path()).is_err());
    }
}
