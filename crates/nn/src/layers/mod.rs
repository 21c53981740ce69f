//! Neural network layers, one per file.

pub mod adapter;
pub mod attention;
pub mod block;
pub mod characters;
pub mod convolution;
pub mod crf;
pub mod density;
pub mod dropout;
pub mod embedding;
pub mod feed_forward;
pub mod graph_convolution;
pub mod group_norm;
pub mod intra_attention;
pub mod linear;
pub mod mlp;
pub mod node_features;
pub mod norm;
pub mod pooling;
pub mod position;
pub mod recurrent;
pub mod word_dropout;
