//! The layers, a file each.

pub mod attention;
pub mod dropout;
pub mod embedding;
pub mod feed_forward;
pub mod linear;
pub mod norm;
