//! The cost of a described model, in closed form: nothing of the model is built.
//!
//! **Parameters** are all learned numbers; sinusoids, RoPE's fixed angles and ALiBi's slopes are none.
//!
//! **FLOPs** are those of the matrix products, a multiply-add being 2: linear layers, recurrent layers, the two products
//! of attention over the pairs of tokens that see each other (`seq (seq + 1)/2` of a causal sequence, exactly those
//! inside a window), the output layer over all tokens. A training step is three times the forward pass: one product for
//! the output, one for the gradient of the input, one for that of the weights. Left out: everything element by element
//! (norms, activations, softmax, biases, residual sums, dropout, rotations, look-ups), the scores that the fused
//! attention makes again in its backward pass, the optimiser. Padding counts as tokens.
//!
//! **Memory** is in bytes, of f32 numbers:
//! - `weights`, `gradients`; `optimiser`: the two moments of AdamW.
//! - `activations`: what the graph keeps for the backward pass between forward and backward, as our operations do. A
//!   linear layer keeps its input, and the values before its activation; a gate its two factors; a norm its input and
//!   one or two numbers a token; attention q, k, v, its output and the log-sum-exp of each query; RoPE with angles
//!   that learn q, k and v once more; ALiBi its distances; the
//!   output layer with its loss the gradient of its input (that of its matrix is counted in `gradients`); an embedding
//!   its 8-byte ids, a loss its targets. Dropout and residual sums keep nothing. Not here: buffers that live within one
//!   operation, and the nodes of the graph, some kilobytes a layer.
//! - `activations_dense`: the same with an attention that keeps the weights of every head whole, `queries · keys`
//!   numbers, in place of the log-sum-exp.
//! - `training`: weights, gradients, optimiser and activations together.
//! - `logits`: all of them at once, which training here never holds; inference that asks for all does.
//! - `kv_cache`: keys and values of `seq` tokens (of a translator: of the target's tokens, and those of the source) for
//!   decoding. Our cache grows by doubling, so it can take up to twice that of the target.

mod description;
mod error;
mod extra;
mod hugging_face;
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
pub use hugging_face::from_hugging_face;
pub use part::{Figures, Part};
pub use preset::{PRESETS, Preset, preset};
pub use recurrent::{RecurrentBias, RecurrentModel};
pub use report::{Count, Flops, Memory};
pub use stored::{HEADER_LIMIT, Stored, shards};
pub use transformer::seen_pairs;

/// Counts a description.
pub fn count(description: &Description) -> Result<Count, CountError> {
    description.validate()?;
    let too_large = || CountError::TooLarge;
    let draft = description.draft();
    let part = draft.finish().ok_or_else(too_large)?;
    for (i, extra) in description.extra.iter().enumerate() {
        if part.parts.iter().filter(|part| part.name == extra.name).count() > 1 {
            let why = format!("there is another part called {:?}; choose another name", extra.name);
            return Err(CountError::field(format!("extra[{i}].name"), why));
        }
    }
    Count::new(part, description.logits().get()).ok_or_else(too_large)
}
