//! Key-value cache for decoding: with it, a new token costs one row of attention.

use burn::tensor::{Int, Tensor};

use crate::error::NnError;

/// Cache of the keys and values of one attention layer. Its memory grows by doubling, so that a token is copied a
/// constant number of times on average.
#[derive(Debug, Clone, Default)]
pub struct KeyValueCache {
    /// Keys and values, `[batch, kv_heads, capacity, d_head]` each, of which the first `len` tokens are in use.
    memory: Option<(Tensor<4>, Tensor<4>)>,
    len: usize,
}

/// The caches that the tokens of a pass continue.
#[derive(Debug)]
pub enum Cached<'a> {
    /// One cache for a batch of sequences of equal length.
    Together(&'a mut KeyValueCache),
    /// One cache per sequence, with its number of new tokens; the new tokens of all sequences form a batch of one.
    Apart(&'a mut [(KeyValueCache, usize)]),
}

impl KeyValueCache {
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
        if let Some((old, _)) = &self.memory
            && (old.dims()[..2] != [batch, heads] || old.dims()[3] != d_head)
        {
            let [batch, heads, _, d_head] = old.dims();
            let expected = format!("[{batch}, {heads}, new, {d_head}] as in the cache");
            return Err(NnError::input("keys", expected, format!("{:?}", keys.dims())));
        }
        let len = self.len + new;
        let (old_keys, old_values) = self.memory.take().unzip();
        let keys = self.put(old_keys, keys);
        let values = self.put(old_values, values);
        let seen = (keys.clone().narrow(2, 0, len), values.clone().narrow(2, 0, len));
        self.memory = Some((keys, values));
        self.len = len;
        Ok(seen)
    }

    /// Keeps the sequences `rows` of the batch, in this order, as beam search does with its surviving hypotheses.
    ///
    /// # Shapes
    /// `rows` `[new batch]`, each less than the current batch size.
    pub fn select(&mut self, rows: Tensor<1, Int>) {
        self.memory = self.memory.take().map(|(k, v)| (k.select(0, rows.clone()), v.select(0, rows)));
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
