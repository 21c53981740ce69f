//! Which file of a folder is which part of a data set.

use crate::{DataError, Split};
use std::path::{Path, PathBuf};

/// The files of a data set: one, or one a part.
pub(crate) enum Files {
    /// A single file, still to be split.
    One(PathBuf),
    /// A folder; a part may be missing, but not `train`.
    Parts { train: PathBuf, dev: Option<PathBuf>, test: Option<PathBuf> },
}

impl Files {
    /// Looks at a file or into a folder.
    pub(crate) fn find(path: &Path) -> Result<Self, DataError> {
        if !path.exists() {
            return Err(DataError::Missing { path: path.to_path_buf() });
        }
        if !path.is_dir() {
            return Ok(Self::One(path.to_path_buf()));
        }
        let names = names(path).map_err(|cause| DataError::Read { path: path.to_path_buf(), cause })?;
        let one = |split| part(path, &names, split);
        let Some(train) = one(Split::Train)? else {
            return Err(DataError::Folder {
                path: path.to_path_buf(),
                expected: "train.* (and dev.*, test.*)".into(),
                found: listed(&names),
            });
        };
        Ok(Self::Parts { train, dev: one(Split::Dev)?, test: one(Split::Test)? })
    }

    /// The files there are, with what each is.
    pub(crate) fn present(&self) -> Vec<(&'static str, &Path)> {
        match self {
            Self::One(path) => vec![("all", path)],
            Self::Parts { train, dev, test } => {
                let parts = [("train", Some(train)), ("dev", dev.as_ref()), ("test", test.as_ref())];
                parts.into_iter().filter_map(|(name, path)| Some((name, path?.as_path()))).collect()
            }
        }
    }
}

/// The names of the folder's visible files, sorted.
fn names(folder: &Path) -> std::io::Result<Vec<String>> {
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

fn part(folder: &Path, names: &[String], split: Split) -> Result<Option<PathBuf>, DataError> {
    let candidates: Vec<String> = names.iter().filter(|name| is_part(name, split)).cloned().collect();
    match &candidates[..] {
        [] => Ok(None),
        [one] => Ok(Some(folder.join(one))),
        _ => Err(DataError::Folder {
            path: folder.to_path_buf(),
            expected: format!("one file for {split}"),
            found: listed(&candidates),
        }),
    }
}

/// `train.tsv`, `train.tsv.gz` and `en_ewt-ud-train.conllu` are all training data.
fn is_part(name: &str, split: Split) -> bool {
    let split = split.to_string();
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    stem == split
        || name.starts_with(&format!("{split}."))
        || stem.strip_suffix(&split).is_some_and(|rest| rest.ends_with(['-', '_']))
}

fn listed(names: &[String]) -> String {
    const MOST: usize = 8;
    match names.len() {
        0 => "no file".into(),
        n if n > MOST => format!("{} and {} more", names[..MOST].join(", "), n - MOST),
        _ => names.join(", "),
    }
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
            "train",
        ] {
            assert!(is_part(name, Split::Train), "{name}");
        }
        for name in ["training.tsv", "trained.txt", "strain.txt", "test.tsv", "README.md", "train-notes.md"] {
            assert!(!is_part(name, Split::Train), "{name}");
        }
    }

    #[test]
    fn a_folder_has_one_file_a_part() {
        let dir = tempdir().unwrap();
        write(&dir, "LICENSE", b"x");
        write(&dir, ".train.tsv.swp", b"x");
        let error = Files::find(dir.path()).err().unwrap().to_string();
        assert!(error.contains("expected train.* (and dev.*, test.*), found LICENSE"), "{error}");
        write(&dir, "a-train.tsv", b"x");
        write(&dir, "a-dev.tsv", b"x");
        let files = Files::find(dir.path()).unwrap();
        let names: Vec<_> = files.present().iter().map(|(part, _)| *part).collect();
        assert_eq!(names, ["train", "dev"]);
        write(&dir, "train.tsv.gz", b"x");
        let error = Files::find(dir.path()).err().unwrap().to_string();
        assert!(error.contains("expected one file for train, found a-train.tsv, train.tsv.gz"), "{error}");
        let error = Files::find(&dir.path().join("none")).err().unwrap();
        assert!(matches!(error, DataError::Missing { .. }));
    }
}
