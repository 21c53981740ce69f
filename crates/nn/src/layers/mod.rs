//! The layers, a file each.

pub mod attention;
pub mod block;
pub mod density;
pub mod dropout;
pub mod embedding;
pub mod feed_forward;
pub mod intra_attention;
pub mod linear;
pub mod mlp;
pub mod norm;
pub mod position;
pub mod recurrent;
