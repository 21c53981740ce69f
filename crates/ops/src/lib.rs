//! Fused differentiable operations for Burn tensors.
//!
//! On the Flex CPU backend they run the kernels of `regard-kernels` with hand-written backward passes; on any other
//! backend the fallback in plain Burn operations. Shapes, element types and options are checked into an [`OpError`]
//! first.
#![forbid(unsafe_code)]

mod attention;
mod error;
mod fused;
mod linear;

pub use attention::{
    AttentionOptions, Distance, Dropout, Mask, SparseRows, attention, attention_fallback, attention_packed,
    attention_weights,
};
pub use error::OpError;
pub use linear::{linear, linear_fallback};
pub use regard_kernels::activation::Activation;
