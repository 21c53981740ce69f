//! Names of array files: `x.npy` holds inputs and `y.npy` beside it their targets.
//!
//! The letter, large or small, is the first or the last word of the name: `x.npy`, `X_train.npy`, `train-x.npy.gz`. The
//! targets have the same name with the other letter.

use crate::file::format_of;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// What an array file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Inputs,
    Targets,
}

/// Whether a file is an array, by its extension.
pub(crate) fn is_npy(path: &Path) -> bool {
    format_of(path) == "npy"
}

/// The role that the name of an array file tells.
pub(crate) fn role(path: &Path) -> Option<Role> {
    letter(path.file_name()?.to_str()?).map(|(_, role)| role)
}

/// The file of the targets beside an array of inputs, if there is one.
pub(crate) fn targets(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let (at, Role::Inputs) = letter(name)? else { return None };
    let stem = name.strip_suffix(".gz").unwrap_or(name);
    let files = ["y", "Y"].into_iter().flat_map(|letter| {
        let mut other = stem.to_string();
        other.replace_range(at..=at, letter);
        [path.with_file_name(&other), path.with_file_name(format!("{other}.gz"))]
    });
    files.into_iter().find(|file| file.is_file())
}

/// The name of an array file without the letter: `train.npy` for `x-train.npy`. Other names are returned unchanged.
pub(crate) fn without_role(name: &str) -> Cow<'_, str> {
    let Some((at, _)) = letter(name) else { return name.into() };
    // The separator goes with the letter, unless the letter stands alone.
    match at {
        0 if name[1..].starts_with(['-', '_']) => name[2..].into(),
        0 => name.into(),
        _ => format!("{}{}", &name[..at - 1], &name[at + 1..]).into(),
    }
}

/// The position of the letter in the name of an array file, and its meaning.
fn letter(name: &str) -> Option<(usize, Role)> {
    let role = |letter: &str| match letter {
        "x" | "X" => Some(Role::Inputs),
        "y" | "Y" => Some(Role::Targets),
        _ => None,
    };
    if !is_npy(Path::new(name)) {
        return None;
    }
    let stem = name.strip_suffix(".gz").unwrap_or(name).rsplit_once('.')?.0;
    let separators = ['-', '_', '.'];
    let first = stem.split(separators).next().and_then(role).map(|role| (0, role));
    first.or_else(|| stem.rsplit(separators).next().and_then(role).map(|role| (stem.len() - 1, role)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::write;
    use tempfile::tempdir;

    #[test]
    fn the_letter_is_the_first_or_last_word() {
        for (name, expected, rest) in [
            ("x.npy", Some(Role::Inputs), "x.npy"),
            ("X_train.npy", Some(Role::Inputs), "train.npy"),
            ("train-x.npy.gz", Some(Role::Inputs), "train.npy.gz"),
            ("train.y.npy", Some(Role::Targets), "train.npy"),
            ("y-dev.npy", Some(Role::Targets), "dev.npy"),
            ("max.npy", None, "max.npy"),
            ("x.csv", None, "x.csv"),
            ("é.npy", None, "é.npy"),
            (".npy", None, ".npy"),
        ] {
            assert_eq!(role(Path::new(name)), expected, "{name}");
            assert_eq!(without_role(name), rest, "{name}");
        }
    }

    #[test]
    fn targets_have_the_same_name() {
        let dir = tempdir().unwrap();
        let file = |name: &str| dir.path().join(name);
        assert_eq!(targets(&file("X_train.npy")), None);
        let y = write(&dir, "y_train.npy.gz", b"");
        assert_eq!(targets(&file("X_train.npy")), Some(y.clone()));
        assert_eq!(targets(&file("x_train.npy.gz")), Some(y.clone()));
        assert_eq!(targets(&y), None);
        assert_eq!(targets(&file("x.npy")), None);
    }
}
