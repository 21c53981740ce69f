//! Errors that end a command, and those among them that mean wrong use.

use anyhow::Error;
use regard_tasks::TaskError;

use crate::signal::Stopped;

/// The command was used wrongly. Its exit code is 2, as it is in clap.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct WrongUse(Error);

/// The command failed with this exit code, and rank 0 says why.
#[derive(Debug, thiserror::Error)]
#[error("rank 0 says why this command failed")]
pub struct Said(pub u8);

/// Returns the exit code of a command that failed.
pub fn exit_code(error: &Error) -> u8 {
    let said = error.downcast_ref().map(|Said(code)| *code);
    let stopped = error.downcast_ref().map(|Stopped(code)| *code);
    said.or(stopped).unwrap_or(if error.is::<WrongUse>() { 2 } else { 1 })
}

/// Marks an error as wrong use.
pub fn wrong_use(error: impl Into<Error>) -> Error {
    WrongUse(error.into()).into()
}

/// Marks an error of a task as wrong use if it is.
pub fn failure(error: impl Into<TaskError>) -> Error {
    let error = error.into();
    if error.is_wrong_use() { wrong_use(error) } else { error.into() }
}
