//! One module a task: data, model, loss, metric, prediction; and the trainer that all of them share.
#![forbid(unsafe_code)]

pub mod decode;
