//! Draws words, phrases and clauses at random. The rules that put them into words are elsewhere.

mod actions;
mod phrases;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Size of a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Full,
    /// Without time, place, manner or modal verb: a part of a longer sentence.
    Short,
}

/// A source of random choices, determined by its seed.
#[derive(Debug)]
pub(super) struct Draw {
    random: ChaCha8Rng,
}

impl Draw {
    pub fn new(seed: u64) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// Returns true with a probability of `percent` %.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100_u32) < percent
    }

    pub fn below(&mut self, count: usize) -> usize {
        self.random.random_range(0..count.max(1) as u64) as usize
    }

    /// Draws a number from `low` to below `high`.
    pub fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.random.random::<f32>()
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Draws a value with a probability proportional to its weight.
    pub fn weighted<T: Copy>(&mut self, items: &[(u32, T)]) -> T {
        let total: u32 = items.iter().map(|(weight, _)| weight).sum();
        let mut left = self.random.random_range(0..total.max(1));
        for (weight, item) in items {
            if left < *weight {
                return *item;
            }
            left -= weight;
        }
        items[items.len() - 1].1
    }
}
