//! Scaled dot-product attention, forward and backward, in memory linear in the sequence.
//!
//! ```text
//! s_ij = scale · q_i·k_j + bias_ij + distance(j − i)       for the keys j that query i may see
//! p_ij = exp(s_ij − L_i),  L_i = log Σ_j exp s_ij
//! o_i  = Σ_j drop(p_ij) v_j
//! ```
//! Only `o` and `L` are stored; the backward pass computes `p` again block by block (Dao 2022). Blocks that no query may
//! see are skipped. A query that may see no key has `o_i = 0`, `L_i = −∞` and passes no gradient. A NaN in a query, key or
//! value makes the rows that see it NaN. A NaN in a hidden key or value may also reach queries that share a register tile
//! with one that sees it (0 · NaN), so padding should be filled with zeros.
//!
//! All stored memory is linear in the sequence, except the gradient of a bias, which is dense in queries × keys.
//!
//! The position of query `i` is `i + keys − queries`: the last query stands at the last key, as when decoding with a
//! cache. Causal masks, windows and distances count from there.

mod backward;
mod backward_tiles;
mod distance;
mod forward;
mod operands;
mod options;
#[cfg(test)]
mod reference;
mod rows;
mod scores;
#[cfg(test)]
mod tests;
mod view;
mod weights;

pub use backward::{AttentionGradients, attention_backward};
pub use distance::{alibi_distances, alibi_slopes, relative_distances, relative_distances_backward};
pub use forward::attention_forward;
pub use options::{AttentionOptions, AttentionShape, Band, BooleanMask, Dropout, SparseRows};
pub use scores::dropout_decisions;
pub use view::{View, ViewMut};
pub use weights::attention_weights;
