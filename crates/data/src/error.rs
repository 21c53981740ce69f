//! The error type of this crate, and helpers for messages.

use crate::Split;
use std::path::{Path, PathBuf};

/// An error in data or settings: where, what was expected and what was found.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A path that does not exist.
    #[error("{path}: there is no such file or folder")]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// A folder in place of a file.
    #[error("{path}: expected a file, found a folder")]
    IsFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A pipe or a device, which can be read only once.
    #[error(
        "{path}: expected a file, which can be read more than once, found a pipe or a device; save it to a file first"
    )]
    NotFile {
        /// The pipe or device.
        path: PathBuf,
    },
    /// A compressed file whose content does not fit in memory.
    #[error("{path}: unpacked, it does not fit in memory; give a smaller file")]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A file or folder that the system could not read.
    #[error("{path}: could not be read: {cause}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// Gzip data that cannot be unpacked.
    #[error("{path}: expected complete gzip data, found {found}")]
    Gzip {
        /// The file.
        path: PathBuf,
        /// What is wrong with the data.
        found: String,
    },
    /// A file without content.
    #[error("{path}: expected {expected}, found nothing: the file is empty")]
    Empty {
        /// The file.
        path: PathBuf,
        /// What the file should hold.
        expected: &'static str,
    },
    /// Bytes that are not UTF-8 text.
    #[error("{path}: line {line} is not UTF-8 text: found {found}")]
    NotText {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The bytes or the encoding.
        found: String,
    },
    /// A line that does not follow its format.
    #[error("{path}, line {line}: expected {expected}, found {found}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What the line should hold.
        expected: String,
        /// What it holds.
        found: String,
    },
    /// A file without lines, such as an array, that does not follow its format.
    #[error("{path}: expected {expected}, found {found}")]
    Format {
        /// The file.
        path: PathBuf,
        /// What the file should hold.
        expected: String,
        /// What it holds.
        found: String,
    },
    /// A folder whose files are not a data set.
    #[error("{path}: expected {expected}, found {found}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The files it should have.
        expected: String,
        /// The files it has.
        found: String,
    },
    /// Too few examples: a part of the data would be empty.
    #[error(
        "{path}: {examples} examples are too few to split: none fell to {split}; \
         give more examples, or a folder with train.*, dev.* and test.*"
    )]
    TooFew {
        /// The file or folder.
        path: PathBuf,
        /// The part without examples.
        split: Split,
        /// Number of examples in all parts.
        examples: usize,
    },
    /// An invalid setting.
    #[error("{field}: expected {expected}, found {found}")]
    Setting {
        /// The name of the setting.
        field: &'static str,
        /// The values that are allowed.
        expected: String,
        /// The value.
        found: String,
    },
    /// A tokeniser that could not be trained.
    #[error("the tokeniser could not be trained: {why}")]
    Train {
        /// The reason.
        why: String,
    },
    /// A tokeniser file that is damaged or not supported.
    #[error("{path}: expected {expected}, found {found}")]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What the file should hold.
        expected: &'static str,
        /// What it holds.
        found: String,
    },
    /// A vocabulary with a duplicate name.
    #[error("vocabulary: expected distinct names, found {found} twice")]
    Duplicate {
        /// The name.
        found: String,
    },
}

impl DataError {
    /// An error in a line.
    pub(crate) fn line(path: &Path, line: usize, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Line { path: path.to_path_buf(), line, expected: expected.into(), found: found.into() }
    }

    /// An error in a file without lines.
    pub(crate) fn format(path: &Path, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Format { path: path.to_path_buf(), expected: expected.into(), found: found.into() }
    }
}

/// The beginning of a text in quotes, short enough for one line of a message.
pub fn excerpt(text: &str) -> String {
    const MOST: usize = 60;
    if text.chars().nth(MOST).is_none() {
        return format!("{text:?}");
    }
    format!("{:?}…", text.chars().take(MOST).collect::<String>())
}

/// A list of names for a message. Only the first few are shown, and long names are cut.
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

/// A count with its noun: "1 column", "3 columns".
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
