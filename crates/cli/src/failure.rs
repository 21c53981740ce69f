//! Errors of tasks as the binary reports them.

use regard_tasks::{Kind, TaskError};

/// An error from `regard-tasks`.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Failure(pub TaskError);

/// Returns the task called `name`.
pub fn task_named(name: &str) -> Result<&'static dyn Kind, Failure> {
    regard_tasks::kind(name).ok_or_else(|| {
        let known: Vec<&str> = regard_tasks::kinds().iter().map(|kind| kind.name()).collect();
        let problem = format!("expected one of {}", known.join(", "));
        Failure(TaskError::Settings { place: format!("task {name}"), problem })
    })
}
