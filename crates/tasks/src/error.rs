//! The error type of this crate.

use std::path::{Path, PathBuf};

use regard_data::DataError;
use regard_figures::FigureError;
use regard_inspect::InspectError;
use regard_inspect::show::ShowError;
use regard_nn::{ConfigError, NnError};
use regard_ops::OpError;
use regard_system::{RankFailed, SaveError};

/// The reason why a run cannot start or continue, or a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The data cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A value of the configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration cannot be read.
    #[error("{place}: {problem}")]
    Settings {
        /// File, or `--set key=value`.
        place: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// A layer refused its input.
    #[error(transparent)]
    Nn(NnError),
    /// An operation refused its input.
    #[error(transparent)]
    Op(#[from] OpError),
    /// A figure could not be drawn.
    #[error(transparent)]
    Figure(#[from] FigureError),
    /// Attention maps could not be shown.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// A file could not be written.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// Another process of the run failed.
    #[error(transparent)]
    Rank(#[from] RankFailed),
    /// A model folder or one of its files cannot be used.
    #[error("{path}: {problem}", path = path.display())]
    Folder {
        /// Path of the file or folder.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The operating system failed to read or write.
    #[error("{path}: {cause}", path = path.display())]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        cause: std::io::Error,
    },
    /// Training has diverged: the gradients are no longer finite.
    #[error("step {step}: the gradients have not been finite for {count} steps in a row; lower train.learning_rate")]
    Diverged {
        /// Last step made.
        step: u64,
        /// Number of steps in a row without finite gradients.
        count: u32,
    },
    /// An input or the data do not suit the task or its model.
    #[error("{what}: expected {expected}, got {got}")]
    Input {
        /// Name of the value that does not fit.
        what: String,
        /// What was expected.
        expected: String,
        /// What was found.
        got: String,
    },
    /// The task does not support the operation.
    #[error("{task} cannot {what}")]
    Unsupported {
        /// Name of the task.
        task: &'static str,
        /// The operation, and what to do instead.
        what: String,
    },
}

impl From<NnError> for TaskError {
    fn from(error: NnError) -> Self {
        match error {
            NnError::Config(error) => Self::Config(error),
            NnError::Op(error) => Self::Op(error),
            other => Self::Nn(other),
        }
    }
}

impl From<ShowError> for TaskError {
    fn from(error: ShowError) -> Self {
        match error {
            ShowError::Config(error) => Self::Config(error),
            ShowError::Layer(error) => error.into(),
            ShowError::Op(error) => Self::Op(error),
            ShowError::Figure(error) => Self::Figure(error),
        }
    }
}

/// Converts a path to text for a configuration; returns an error if it is not UTF-8.
pub(crate) fn path_text(path: &Path) -> Result<String, TaskError> {
    let refused = || TaskError::input("path", "a path in UTF-8", path.display().to_string());
    path.to_str().map(str::to_string).ok_or_else(refused)
}

impl TaskError {
    /// Creates the error for a file or folder that cannot be used.
    pub fn folder(path: impl AsRef<Path>, problem: impl Into<String>) -> Self {
        Self::Folder { path: path.as_ref().to_path_buf(), problem: problem.into() }
    }

    /// Creates the error for a value that does not fit.
    pub fn input(what: impl Into<String>, expected: impl Into<String>, got: impl Into<String>) -> Self {
        Self::Input { what: what.into(), expected: expected.into(), got: got.into() }
    }

    /// Names line `line` of a file as the place of a wrong input; leaves other errors as they are.
    pub fn at_line(self, line: usize) -> Self {
        match self {
            Self::Input { expected, got, .. } => Self::Input { what: format!("line {line}"), expected, got },
            other => other,
        }
    }

    /// Returns a function for `map_err` that adds the path of the data to an error about an input.
    pub fn in_file(path: Option<&Path>) -> impl Fn(Self) -> Self {
        move |error| match (error, path) {
            (Self::Input { what, expected, got }, Some(path)) => {
                Self::Input { what: format!("{}, {what}", path.display()), expected, got }
            }
            (error, _) => error,
        }
    }

    /// Returns a function for `map_err` that adds `path` to an error of the operating system.
    pub fn io(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        move |cause| Self::Io { path: path.as_ref().to_path_buf(), cause }
    }

    /// Returns whether a command was used wrongly, as opposed to having failed.
    pub fn is_wrong_use(&self) -> bool {
        matches!(
            self,
            Self::Config(_)
                | Self::Settings { .. }
                | Self::Unsupported { .. }
                | Self::Data(DataError::Setting { .. })
                | Self::Figure(FigureError::Extension { .. })
                | Self::Inspect(InspectError::Extension { .. })
        )
    }
}
