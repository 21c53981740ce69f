//! Attention in its forms.

pub mod cache;
pub mod cross_attention;
pub mod graph;
pub mod multi_head;
pub mod self_attention;
