//! Attention in its many kinds, a file each.

mod check;
pub mod context;
pub mod gaussian_window;
pub mod image;
pub mod linear_attention;
pub mod score;
pub mod score_function;
