//! Attention layers, one kind per file.

pub mod cache;
mod check;
pub mod context;
pub mod cross_attention;
pub mod gaussian_window;
pub mod graph;
pub mod image;
pub mod linear_attention;
mod linear_heads;
pub mod multi_head;
pub mod score;
pub mod score_function;
pub mod self_attention;
