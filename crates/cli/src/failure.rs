//! Errors that end a command, and those among them that mean wrong use.

use anyhow::Error;
use regard_tasks::TaskError;

/// The command was used wrongly. Its exit code is 2, as it is in clap.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct WrongUse(Error);

/// Marks an error as wrong use.
pub fn wrong_use(error: impl Into<Error>) -> Error {
    WrongUse(error.into()).into()
}

/// Marks an error of a task as wrong use if it is.
pub fn failure(error: impl Into<TaskError>) -> Error {
    let error = error.into();
    if error.is_wrong_use() { wrong_use(error) } else { error.into() }
}
