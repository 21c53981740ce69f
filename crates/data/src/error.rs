//! What cannot be read, split or written.

use crate::Split;
use std::path::{Path, PathBuf};

/// Data that cannot be used, with the place and what was expected there.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// Nothing is at the path.
    #[error("{path}: there is no such file or folder")]
    Missing {
        /// What was looked for.
        path: PathBuf,
    },
    /// The path leads to something else than a file.
    #[error("{path}: expected a file, found a folder")]
    IsFolder {
        /// The folder.
        path: PathBuf,
    },
    /// The path leads to what can be read only once.
    #[error(
        "{path}: expected a file, which can be read more than once, found a pipe or a device; save it to a file first"
    )]
    NotFile {
        /// The pipe or device.
        path: PathBuf,
    },
    /// A compressed file whose content is more than the memory holds.
    #[error("{path}: unpacked, it does not fit in memory; give a smaller file")]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The system could not read.
    #[error("{path}: could not be read: {cause}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// Compressed data that do not unpack.
    #[error("{path}: expected whole gzip data, found {found}")]
    Gzip {
        /// The file.
        path: PathBuf,
        /// What is wrong with them.
        found: String,
    },
    /// A file without content.
    #[error("{path}: expected {expected}, found nothing: the file is empty")]
    Empty {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
    },
    /// Bytes that are no text.
    #[error("{path}: line {line} is not UTF-8 text: found {found}")]
    NotText {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The bytes.
        found: String,
    },
    /// A line that does not follow its format.
    #[error("{path}, line {line}: expected {expected}, found {found}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What should stand there.
        expected: String,
        /// What does.
        found: String,
    },
    /// A folder whose files do not make a data set.
    #[error("{path}: expected {expected}, found {found}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The files it should have.
        expected: String,
        /// The files it has.
        found: String,
    },
    /// A part of the data came out empty.
    #[error(
        "{path}: {examples} examples are too few to be split: none fell to {split}; \
         give more, or a folder with train.*, dev.* and test.*"
    )]
    TooFew {
        /// The file or folder.
        path: PathBuf,
        /// The part without examples.
        split: Split,
        /// How many there are in all.
        examples: usize,
    },
    /// A setting that cannot be.
    #[error("{field}: expected {expected}, found {found}")]
    Setting {
        /// Which one.
        field: &'static str,
        /// What is allowed.
        expected: String,
        /// What came.
        found: String,
    },
    /// A tokeniser that could not be trained.
    #[error("the tokeniser could not be trained: {why}")]
    Train {
        /// The reason.
        why: String,
    },
    /// A tokeniser file that is damaged or not of this program.
    #[error("{path}: expected {expected}, found {found}")]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// What it does.
        found: String,
    },
    /// A list of names that is no vocabulary.
    #[error("vocabulary: expected distinct names, found {found} twice")]
    Duplicate {
        /// The name.
        found: String,
    },
}

impl DataError {
    /// An error at a line, the most frequent kind.
    pub(crate) fn line(path: &Path, line: usize, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Line { path: path.to_path_buf(), line, expected: expected.into(), found: found.into() }
    }
}

/// The beginning of what was found, short enough for one line of a message.
pub fn excerpt(text: &str) -> String {
    const MOST: usize = 60;
    if text.chars().nth(MOST).is_none() {
        return format!("{text:?}");
    }
    format!("{:?}…", text.chars().take(MOST).collect::<String>())
}

/// The first of many names, for a message.
pub fn listed<S: AsRef<str>>(names: &[S]) -> String {
    const MOST: usize = 8;
    let short = |name: &S| match name.as_ref().char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &name.as_ref()[..end]),
        None => name.as_ref().to_string(),
    };
    let shown: Vec<String> = names.iter().take(MOST).map(short).collect();
    match names.len() {
        0 => "none".into(),
        n if n > MOST => format!("{} and {} more", shown.join(", "), n - MOST),
        _ => shown.join(", "),
    }
}

/// "1 column", "3 columns".
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
