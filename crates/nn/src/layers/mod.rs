//! The layers, a file each.

pub mod density;
pub mod dropout;
pub mod embedding;
pub mod feed_forward;
pub mod linear;
pub mod norm;
pub mod position;
