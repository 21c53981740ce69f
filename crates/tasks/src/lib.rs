//! One module a task: data, model, loss, metric, prediction; and the trainer that all of them share.
#![forbid(unsafe_code)]

mod error;
pub mod folder;
pub mod settings;
pub mod task;
pub mod train;
pub mod weights;

pub use error::TaskError;
