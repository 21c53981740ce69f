//! The arithmetic of attention models: slices and strides in, slices out.
//!
//! Each kernel is written once over [`pulp`]'s vectors and compiled for every instruction set ([`Isa`]), which is chosen at
//! run time. No kernel knows a tensor type. Sizes are checked before memory is touched; a [`KernelError`] says what is wrong.

pub mod activation;
pub mod adamw;
pub mod attention;
mod bf16;
mod buffer;
pub mod convolution;
pub mod cross_entropy;
pub mod ctc;
pub mod dropout;
pub mod embedding;
mod error;
mod few_rows;
pub mod graph_attention;
pub mod group_norm;
mod isa;
pub mod linear;
pub mod linear_attention;
mod linear_weight;
mod matmul;
pub mod norm;
mod parallel;
mod precision;
mod random;
pub mod recurrent;
pub mod rope;
mod scratch;
mod shared_slice;
pub mod softmax;
pub mod sparse_matmul;
#[cfg(test)]
mod test_support;
mod tile;
mod tiled_product;
pub mod trajectory;
mod vector;

pub use buffer::unwritten;
pub use error::KernelError;
pub use isa::{Isa, IsaUnavailable};
pub use linear_weight::{HalfMatrix, LinearWeight, TrainedWeight};
pub use matmul::{Matrix, Output, Threads, matmul};
pub use parallel::{PartGuard, is_crowded, team_threads};
pub use precision::Precision;
pub use random::mix;
