//! Plain text for language models.

use crate::file::read_file;
use crate::folder::Files;
use crate::{DataError, Split, Splits};
use std::path::Path;

/// Reads a file as one text whose lines end with `\n`.
///
/// # Errors
/// The errors of [`read_file`].
pub fn read_text(path: &Path) -> Result<String, DataError> {
    Ok(read_file(path)?.into_text())
}

/// Reads and splits a text, one string per part. The first 90 % of a file's characters are train, the last 10 % dev. A folder
/// has `train.*`, `dev.*` and `test.*`; without a dev file, dev is the end of train. Without a test file, test is empty.
///
/// # Errors
/// The errors of [`read_text`]; a folder without `train.*` or with two files for a split; a text too short to be split.
pub fn split_text(path: &Path) -> Result<Splits<String>, DataError> {
    let (train, dev, test) = match Files::of_one(path)? {
        Files::One(file) => {
            let (train, dev) = cut(path, read_text(&file)?)?;
            (train, dev, None)
        }
        Files::Parts { train, dev, test } => {
            let train = read_text(&train[0])?;
            let (train, dev) = match dev.first() {
                Some(dev) => (train, read_text(dev)?),
                None => cut(path, train)?,
            };
            (train, dev, test.first().map(|test| read_text(test)).transpose()?)
        }
    };
    let mut splits = Splits::new(vec![train], vec![dev], test.into_iter().collect());
    if splits.test.is_empty() {
        splits.notes.push("there is no test split: scores are measured on dev".to_string());
    }
    Ok(splits)
}

fn cut(path: &Path, mut text: String) -> Result<(String, String), DataError> {
    let characters = text.chars().count();
    let kept = characters * 9 / 10;
    if kept == 0 || kept == characters {
        return Err(DataError::TooFew { path: path.to_path_buf(), split: Split::Dev, examples: characters });
    }
    let at = text.char_indices().nth(kept).map_or(text.len(), |(at, _)| at);
    let rest = text.split_off(at);
    Ok((text, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::write;
    use tempfile::tempdir;

    #[test]
    fn a_file_is_cut_between_characters() {
        let dir = tempdir().unwrap();
        let splits = split_text(&write(&dir, "a.txt", "éèêëàâîïôûù".as_bytes())).unwrap();
        assert_eq!(splits.train, ["éèêëàâîïô"]);
        assert_eq!(splits.dev, ["ûù"]);
        assert!(splits.test.is_empty(), "the last tenth is dev, which chooses the weights");
        let error = split_text(&write(&dir, "b.txt", b"a")).unwrap_err();
        assert!(matches!(error, DataError::TooFew { split: Split::Dev, .. }), "{error}");
    }

    #[test]
    fn a_folder_gives_its_parts() {
        let dir = tempdir().unwrap();
        write(&dir, "train.txt", b"0123456789");
        assert_eq!(split_text(dir.path()).unwrap().dev, ["9"]);
        write(&dir, "dev.txt", b"dev");
        let splits = split_text(dir.path()).unwrap();
        assert_eq!((&splits.train[0][..], &splits.dev[0][..], splits.test.len()), ("0123456789", "dev", 0));
        write(&dir, "test.txt", b"test");
        assert_eq!(split_text(dir.path()).unwrap().test, ["test"]);
    }
}
