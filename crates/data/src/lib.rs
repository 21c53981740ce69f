//! Data for the tasks: readers of text formats, splits, tokenisers, batches, and data that are built in.
#![forbid(unsafe_code)]

pub mod builtin;
