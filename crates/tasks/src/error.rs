//! What a task refuses, and what went wrong with its files.

use std::path::{Path, PathBuf};

use regard_data::DataError;
use regard_figures::FigureError;
use regard_inspect::InspectError;
use regard_nn::{ConfigError, NnError};
use regard_ops::OpError;
use regard_system::SaveError;

/// A run that cannot start or go on, or a model that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The data cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A value of the configuration makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration cannot be read.
    #[error("{place}: {problem}")]
    Settings {
        /// The file, or `--set key=value`.
        place: String,
        /// What is wrong.
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
    /// A model folder is not as it should be.
    #[error("{path}: {problem}", path = path.display())]
    Folder {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The system refused to read or write.
    #[error("{path}: {cause}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The loss is no number any more.
    #[error("step {step}: the gradients have not been finite for {count} steps; lower train.learning_rate")]
    Diverged {
        /// The last step.
        step: u64,
        /// Steps in a row.
        count: u32,
    },
    /// The data do not suit the task.
    #[error("{what}: expected {expected}, got {got}")]
    Input {
        /// What is meant.
        what: String,
        /// What would fit.
        expected: String,
        /// What came.
        got: String,
    },
    /// The task cannot do this.
    #[error("{task} cannot {what}")]
    Unsupported {
        /// The task.
        task: &'static str,
        /// What was asked for, and what to do instead.
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

/// A path as a configuration holds it.
pub(crate) fn path_text(path: &Path) -> Result<String, TaskError> {
    let refused = || TaskError::input("path", "a name in UTF-8", path.display().to_string());
    path.to_str().map(str::to_string).ok_or_else(refused)
}

impl TaskError {
    /// A folder that is not as it should be.
    pub fn folder(path: impl AsRef<Path>, problem: impl Into<String>) -> Self {
        Self::Folder { path: path.as_ref().to_path_buf(), problem: problem.into() }
    }

    /// Something that does not fit.
    pub fn input(what: impl Into<String>, expected: impl Into<String>, got: impl Into<String>) -> Self {
        Self::Input { what: what.into(), expected: expected.into(), got: got.into() }
    }

    /// The same of an input that stands in a line of a file.
    pub fn at_line(self, line: usize) -> Self {
        match self {
            Self::Input { expected, got, .. } => Self::Input { what: format!("line {line}"), expected, got },
            other => other,
        }
    }

    /// For `map_err` on what is made of the examples in `path`, which a message then begins with.
    pub fn in_file(path: Option<&Path>) -> impl Fn(Self) -> Self {
        move |error| match (error, path) {
            (Self::Input { what, expected, got }, Some(path)) => {
                Self::Input { what: format!("{}, {what}", path.display()), expected, got }
            }
            (error, _) => error,
        }
    }

    /// For `map_err` on what the system does with `path`.
    pub fn io(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        move |cause| Self::Io { path: path.as_ref().to_path_buf(), cause }
    }

    /// Whether the command was wrongly used, rather than having failed.
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
