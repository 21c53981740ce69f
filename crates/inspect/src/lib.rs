//! Looking inside attention models.
//!
//! [`count`] says what a described model costs, parameters, floating-point operations and memory, without building it.
#![forbid(unsafe_code)]

pub mod count;
