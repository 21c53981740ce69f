//! The HTTP server: models of `regard train` and checkpoints of `transformers` behind routes that clients already speak.
//!
//! A request is read and checked by its route, waits in the queue of its model, and is answered by the model's worker in a batch
//! with others. The error type changes at each boundary: `TaskError` of a model becomes a `WorkError` of its worker, and that an
//! `ApiError` for the client.
#![forbid(unsafe_code)]

mod body;
mod connections;
mod error;
mod guard;
mod limits;
mod log;
mod metrics;
mod models;
mod multipart;
mod packed;
mod page;
mod queue;
mod routes;
mod rows;
mod runs;
mod server;
mod summary;
mod views;
mod worker;

pub use limits::Limits;
pub use log::LogFormat;
pub use models::ModelFolder;
pub use runs::Runs;
pub use server::{Control, Options, ServeError, Server};
