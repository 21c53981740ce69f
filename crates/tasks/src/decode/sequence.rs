//! Sequences that a causal Transformer continues together, each with its own cache. They may join and leave between steps.

use burn::tensor::Tensor;
use regard_nn::layers::attention::cache::AttentionCache;
use regard_nn::models::language_model::LanguageModel;
use regard_nn::{NnError, Pass};

/// A sequence with its cache of keys and values; empty at first.
#[derive(Debug, Clone, Default)]
pub struct Sequence {
    /// One cache per block; none before the first token.
    caches: Vec<AttentionCache>,
    /// Latest tokens, at most as many as a window has; none without a window.
    recent: Vec<u32>,
}

impl Sequence {
    /// Adds new tokens and returns those to read: the new ones, or the last half of a window that is full, into a new cache.
    fn add(&mut self, new: &[u32], window: Option<usize>) -> Vec<u32> {
        let Some(window) = window else { return new.to_vec() };
        self.recent.extend(new);
        let seen = self.caches.first().map_or(0, AttentionCache::len);
        let back = match seen + new.len() > window {
            true => {
                self.caches.clear();
                // With half a window, a token is read twice on average.
                window.div_ceil(2)
            }
            false => new.len(),
        };
        let read = self.recent[self.recent.len().saturating_sub(back)..].to_vec();
        self.recent.drain(..self.recent.len().saturating_sub(window));
        read
    }
}

/// Appends new tokens, at least one, to each sequence and returns the logits of the tokens after them, `[sequences, vocab]` in
/// row-major order. With a `window` the model never sees more than that many tokens.
///
/// After an error the sequences are empty.
pub fn continued(
    model: &LanguageModel,
    sequences: &mut [&mut Sequence],
    new: &[&[u32]],
    window: Option<usize>,
    pass: &Pass,
) -> Result<Vec<f32>, NnError> {
    pass.check_cancelled()?;
    if sequences.len() != new.len() {
        return Err(NnError::input("new tokens", format!("for {} sequences", sequences.len()), new.len().to_string()));
    }
    new.iter().try_for_each(|tokens| check_tokens(tokens))?;
    let read: Vec<Vec<u32>> =
        sequences.iter_mut().zip(new).map(|(sequence, tokens)| sequence.add(tokens, window)).collect();
    let read: Vec<&[u32]> = read.iter().map(Vec::as_slice).collect();
    // The model wants the caches of a block together.
    let mut blocks = model.caches_apart(sequences.len());
    for (row, sequence) in sequences.iter_mut().enumerate() {
        let caches = std::mem::take(&mut sequence.caches);
        blocks.iter_mut().zip(caches).for_each(|(block, cache)| block[row].0 = cache);
    }
    let logits = model.logits_apart(&read, &mut blocks, pass)?;
    for block in blocks {
        for (sequence, (cache, _)) in sequences.iter_mut().zip(block) {
            sequence.caches.push(cache);
        }
    }
    last_logits(logits.unsqueeze_dim(1))
}

/// Returns an error if a token does not fit the integer type of tensors.
pub(super) fn check_tokens(tokens: &[u32]) -> Result<(), NnError> {
    match tokens.iter().find(|&&token| i32::try_from(token).is_err()) {
        Some(token) => Err(NnError::input("token", format!("below {}", i32::MAX), token.to_string())),
        None => Ok(()),
    }
}

/// Returns the logits after the last token: `[rows, tokens, vocab]` → `[rows, vocab]` in row-major order.
pub(super) fn last_logits(logits: Tensor<3>) -> Result<Vec<f32>, NnError> {
    let [_, tokens, _] = logits.dims();
    let last = if tokens == 1 { logits } else { logits.narrow(1, tokens - 1, 1) };
    let numbers = last.detach().into_data().try_into_vec_as::<f32>();
    numbers.map_err(|error| NnError::input("logits", "numbers", error.to_string()))
}
