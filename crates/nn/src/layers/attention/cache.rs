//! Cache for decoding: with it, a new token costs one row of attention, or one step of a running state.

use burn::tensor::{Int, Tensor};

use super::linear_heads::LinearAttentionState;
use crate::error::NnError;

/// Cache of one attention layer: the keys and values of the tokens so far, or the running state of linear attention. Keys
/// and values grow by doubling, so that a token is copied a constant number of times on average; a state does not grow.
#[derive(Debug, Clone, Default)]
pub struct AttentionCache {
    past: Past,
    len: usize,
}

#[derive(Debug, Clone, Default)]
#[allow(clippy::large_enum_variant, reason = "one value per layer and sequence")]
enum Past {
    /// No tokens so far.
    #[default]
    Nothing,
    /// Keys and values, `[batch, kv_heads, capacity, d_head]` each, of which the first `len` tokens are in use.
    KeysValues(Tensor<4>, Tensor<4>),
    /// The running state.
    State(LinearAttentionState),
}

/// The caches that the tokens of a pass continue.
#[derive(Debug)]
pub enum Cached<'a> {
    /// One cache for a batch of sequences of equal length.
    Together(&'a mut AttentionCache),
    /// One cache per sequence, with its number of new tokens; the new tokens of all sequences form a batch of one.
    Apart(&'a mut [(AttentionCache, usize)]),
}

impl AttentionCache {
    /// Creates an empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of cached tokens.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends keys and values and returns all that are cached. No gradient flows through them.
    ///
    /// # Shapes
    /// `[batch, kv_heads, new, d_head]` → `[batch, kv_heads, len, d_head]` each.
    pub fn append(&mut self, keys: Tensor<4>, values: Tensor<4>) -> Result<(Tensor<4>, Tensor<4>), NnError> {
        let [batch, heads, new, d_head] = keys.dims();
        if keys.dims().contains(&0) || values.dims()[..3] != keys.dims()[..3] {
            let expected = format!("[{batch}, {heads}, {new}, width] for both, each 1 or more");
            return Err(NnError::input("keys and values", expected, format!("{:?}, {:?}", keys.dims(), values.dims())));
        }
        if let Past::State(_) = &self.past {
            return Err(NnError::input("cache", "one of softmax attention", "one of linear attention"));
        }
        if let Past::KeysValues(old, _) = &self.past
            && (old.dims()[..2] != [batch, heads] || old.dims()[3] != d_head)
        {
            let [batch, heads, _, d_head] = old.dims();
            let expected = format!("[{batch}, {heads}, new, {d_head}] as in the cache");
            return Err(NnError::input("keys", expected, format!("{:?}", keys.dims())));
        }
        let len = self.len + new;
        let (old_keys, old_values) = match std::mem::take(&mut self.past) {
            Past::KeysValues(keys, values) => (Some(keys), Some(values)),
            Past::Nothing | Past::State(_) => (None, None),
        };
        let keys = self.put(old_keys, keys);
        let values = self.put(old_values, values);
        let seen = (keys.clone().narrow(2, 0, len), values.clone().narrow(2, 0, len));
        self.past = Past::KeysValues(keys, values);
        self.len = len;
        Ok(seen)
    }

    /// Forgets the tokens after the first `len`, so that others can follow there. A running state cannot go back.
    pub fn truncate(&mut self, len: usize) -> Result<(), NnError> {
        match &self.past {
            _ if len >= self.len => {}
            Past::State(_) => {
                let expected = format!("{} or more, as a running state cannot forget single tokens", self.len);
                return Err(NnError::input("length of the cache", expected, len.to_string()));
            }
            Past::Nothing | Past::KeysValues(..) => self.len = len,
        }
        Ok(())
    }

    /// Computes outputs from the running state so far and keeps the state that `step` returns with them. No gradient flows
    /// through it.
    pub(super) fn advance(
        &mut self,
        step: impl FnOnce(Option<LinearAttentionState>) -> Result<(Tensor<4>, LinearAttentionState), NnError>,
    ) -> Result<Tensor<4>, NnError> {
        let state = match &self.past {
            Past::Nothing => None,
            Past::State(state) => Some(state.clone()),
            Past::KeysValues(..) => {
                return Err(NnError::input("cache", "one of linear attention", "one of softmax attention"));
            }
        };
        let (mixed, state) = step(state)?;
        self.len = state.count;
        self.past = Past::State(state.map(Tensor::detach));
        Ok(mixed)
    }

    /// Keeps the sequences `rows` of the batch, in this order, as beam search does with its surviving hypotheses.
    ///
    /// # Shapes
    /// `rows` `[new batch]`, each less than the current batch size.
    pub fn select(&mut self, rows: Tensor<1, Int>) {
        let select = |x: Tensor<4>| x.select(0, rows.clone());
        self.past = match std::mem::take(&mut self.past) {
            Past::Nothing => Past::Nothing,
            Past::KeysValues(keys, values) => Past::KeysValues(select(keys), select(values)),
            Past::State(state) => Past::State(state.map(select)),
        };
    }

    /// Writes `new` after the first `len` tokens of `memory`, which is enlarged if necessary.
    fn put(&self, memory: Option<Tensor<4>>, new: Tensor<4>) -> Tensor<4> {
        let (start, [batch, heads, count, width]) = (self.len, new.dims());
        let fits = |memory: &Tensor<4>| start + count <= memory.dims()[2];
        let target = match memory {
            Some(memory) if fits(&memory) => memory,
            memory => {
                let capacity = (start + count).next_power_of_two();
                let larger = Tensor::zeros([batch, heads, capacity, width], (&new.device(), new.dtype()));
                match memory {
                    Some(old) if start > 0 => {
                        larger.slice_assign([0..batch, 0..heads, 0..start, 0..width], old.narrow(2, 0, start))
                    }
                    _ => larger,
                }
            }
        };
        target.slice_assign([0..batch, 0..heads, start..start + count, 0..width], new.detach())
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution};
    use regard_ops::{AttentionOptions, Mask};

    use super::*;
    use crate::layers::attention::multi_head::{MultiHeadConfig, Weighing};
    use crate::layers::attention::self_attention::SelfAttention;
    use crate::layers::position::Places;
    use crate::{Init, Pass};

    /// Returns the number of elements that the cache of a layer holds after some tokens.
    fn held(weighing: Weighing, tokens: usize) -> usize {
        let config = MultiHeadConfig { weighing, kv_heads: Some(2), ..MultiHeadConfig::new(16, 4) };
        let device = Device::flex();
        let layer = SelfAttention::new(&config, &Init::new(1, &device)).unwrap();
        let options = AttentionOptions { mask: Mask::Causal, ..AttentionOptions::default() };
        let mut cache = AttentionCache::new();
        for _ in 0..tokens {
            let x = Tensor::random([3, 1, 16], Distribution::Default, &device);
            let cached = Some(Cached::Together(&mut cache));
            layer.forward_onto(x, None, cached, &options, &Places::default(), &Pass::inference()).unwrap();
        }
        assert_eq!(cache.len(), tokens);
        let size = |x: &Tensor<4>| x.shape().num_elements();
        match &cache.past {
            Past::Nothing => 0,
            Past::KeysValues(keys, values) => size(keys) + size(values),
            Past::State(LinearAttentionState { products, keys, values, .. }) => {
                size(products) + size(keys) + size(values)
            }
        }
    }

    #[test]
    fn keys_and_values_grow_with_the_tokens_and_a_running_state_does_not() {
        assert_eq!(
            [1, 8, 64].map(|tokens| held(Weighing::Softmax, tokens)),
            [1, 8, 64].map(|tokens| tokens * 3 * 2 * 8)
        );
        assert_eq!([1, 8, 64].map(|tokens| held(Weighing::Linear, tokens)), [3 * 2 * (4 * 4 + 4 + 4); 3]);
    }

    #[test]
    fn tokens_after_a_truncated_cache_are_those_that_follow_it() {
        let device = Device::flex();
        let random = |len| Tensor::<4>::random([2, 3, len, 4], Distribution::Default, &device);
        let (kept, forgotten, next) = (random(5), random(2), random(1));
        let mut cache = AttentionCache::new();
        cache.append(kept.clone(), kept.clone()).unwrap();
        cache.append(forgotten.clone(), forgotten).unwrap();
        cache.truncate(9).unwrap();
        assert_eq!(cache.len(), 7);
        cache.truncate(5).unwrap();
        let (keys, _) = cache.append(next.clone(), next.clone()).unwrap();
        keys.into_data().assert_eq(&Tensor::cat(vec![kept, next], 2).into_data(), true);
    }
}
