//! Parameters, operations and memory of a described model, in closed form and without building the model.
//!
//! **Parameters** are all learned numbers. Sinusoids, RoPE's fixed angles and ALiBi's slopes are not learned.
//!
//! **FLOPs** are those of the matrix products, with 2 for a multiply-add: linear layers, recurrent layers, the two products of
//! attention over the pairs of tokens that see each other (`seq (seq + 1)/2` in a causal sequence, exactly those inside a
//! window), and the output layer over all tokens. Linear attention has two products instead, of keys with values into a state
//! and of queries with the state; our causal kernel also multiplies the pairs within a chunk of 64 tokens, which is not
//! counted. A training step costs three forward passes: one product for the output, one for
//! the gradient of the input, one for that of the weights. Not counted: elementwise work (norms, activations, softmax, biases,
//! residual sums, dropout, rotations, look-ups), the scores that fused attention recomputes in its backward pass, and the
//! optimiser. Padding counts as tokens.
//!
//! **Memory** is in bytes, for f32 numbers:
//! - `weights`, `gradients`; `optimiser`: the two moments of AdamW.
//! - `activations`: what our operations keep between the forward and the backward pass. A linear layer keeps its input, and the
//!   values before its activation; a gate its two factors; a norm its input and one or two numbers per token; attention q, k, v,
//!   its output and the log-sum-exp of each query (linear attention its denominator); RoPE with learned angles q, k and v once more; ALiBi its distances; the output
//!   layer with its loss the gradient of its input (that of its matrix is counted in `gradients`); an embedding its 8-byte ids, a
//!   loss its targets. Dropout and residual sums keep nothing. A convolution keeps its input, group norm its input and two numbers per
//!   group and image, and a ReLU after it its output. Graph attention keeps the projected nodes, their scores and the log-sum-exp;
//!   the product of sparse features with a matrix the features. Not counted: buffers that live within one operation, and the nodes
//!   of the graph, some kilobytes per layer.
//! - `activations_dense`: the same for an attention that keeps the weights of every head, `queries · keys` numbers, instead of
//!   the log-sum-exp. Linear attention has no weights to keep.
//! - `training`: the sum of weights, gradients, optimiser and activations.
//! - `logits`: all logits at once. Training never holds them; inference does if it asks for all.
//! - `kv_cache`: keys and values of `seq` tokens for decoding (in an encoder-decoder, those of target and source tokens). Our
//!   cache grows by doubling, so the target's part can take up to twice as much. Linear attention keeps its running state, for
//!   any `seq`: `d_head (d_head + 2)` numbers for each key head.

mod description;
mod error;
mod extra;
mod graph;
mod image;
mod part;
mod preset;
mod quantity;
mod recurrent;
mod report;
mod stored;
mod transformer;

pub use description::{Architecture, Description, Input, Sizes};
pub use error::CountError;
pub use extra::{Extra, ExtraKind, Rows};
pub use graph::GraphModel;
pub use part::{Figures, Part};
pub use preset::{PRESETS, Preset, preset};
pub use recurrent::{RecurrentBias, RecurrentModel};
pub use report::{Count, Flops, Memory};
pub use stored::{HEADER_LIMIT, Stored, shards};
pub use transformer::seen_pairs;

/// Counts parameters, operations and memory of a description.
pub fn count(description: &Description) -> Result<Count, CountError> {
    description.validate()?;
    let too_large = || CountError::TooLarge;
    let draft = description.draft();
    let part = draft.finish().ok_or_else(too_large)?;
    for (i, extra) in description.extra.iter().enumerate() {
        if part.parts.iter().filter(|part| part.name == extra.name).count() > 1 {
            let why = format!("another part is also called {:?}; choose another name", extra.name);
            return Err(CountError::field(format!("extra[{i}].name"), why));
        }
    }
    Count::new(part, description.logits().get()).ok_or_else(too_large)
}
