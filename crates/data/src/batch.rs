//! Batches of examples of similar length within a budget of padded tokens.

use crate::DataError;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// Largest size of a batch. Padding counts: the size is the longest example times the number of examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Number of tokens with padding. A single example that is longer is a batch of its own.
    pub tokens: usize,
    /// Number of examples.
    pub examples: usize,
}

impl Budget {
    /// Refuses a budget that allows no example.
    ///
    /// # Errors
    /// If a limit is zero.
    pub fn validate(&self) -> Result<(), DataError> {
        for (field, value) in [("tokens", self.tokens), ("examples", self.examples)] {
            if value == 0 {
                return Err(DataError::Setting { field, expected: "at least 1".into(), found: "0".into() });
            }
        }
        Ok(())
    }

    fn holds(&self, examples: usize, longest: usize) -> bool {
        examples <= self.examples && examples.saturating_mul(longest) <= self.tokens
    }
}

/// Number of batches in a pool whose examples are sorted by length: enough for little padding, few enough to mix lengths.
const POOL: usize = 100;

/// The batches of a training epoch, as indices into `lengths`. Each index occurs once, in an order given by `seed` and `epoch`.
pub fn batches(lengths: &[usize], budget: Budget, seed: u64, epoch: u64) -> Vec<Vec<usize>> {
    let mut rng = generator(seed, epoch);
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.shuffle(&mut rng);
    let mut batches = Vec::new();
    let mut rest = &order[..];
    while !rest.is_empty() {
        let (pool, after) = rest.split_at(pool_size(rest, lengths, budget));
        let mut pool = pool.to_vec();
        pool.sort_by_key(|&i| lengths[i]);
        cut(&pool, lengths, budget, &mut batches);
        rest = after;
    }
    batches.shuffle(&mut rng);
    batches
}

/// The batches of an evaluation, as indices into `lengths`. Each index occurs once, sorted by length.
pub fn in_order(lengths: &[usize], budget: Budget) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&i| lengths[i]);
    let mut batches = Vec::new();
    cut(&order, lengths, budget, &mut batches);
    batches
}

/// Rows padded to equal length, ready for a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Padded {
    /// The rows, concatenated.
    pub ids: Vec<i32>,
    /// `[batch, seq]`, where `seq` is the length of the longest row.
    pub shape: [usize; 2],
    /// The length of each row without padding.
    pub lengths: Vec<usize>,
}

/// Pads rows with `pad` to the length of the longest.
pub fn pad(rows: &[&[u32]], pad: u32) -> Padded {
    let lengths: Vec<usize> = rows.iter().map(|row| row.len()).collect();
    let seq = lengths.iter().copied().max().unwrap_or(0);
    let mut ids = Vec::with_capacity(rows.len() * seq);
    for row in rows {
        ids.extend(row.iter().map(|&id| id as i32));
        ids.resize(ids.len() + seq - row.len(), pad as i32);
    }
    Padded { ids, shape: [rows.len(), seq], lengths }
}

fn generator(seed: u64, epoch: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&epoch.to_le_bytes());
    ChaCha8Rng::from_seed(key)
}

/// The number of next examples that make a pool, at least 1.
fn pool_size(order: &[usize], lengths: &[usize], budget: Budget) -> usize {
    let most_tokens = budget.tokens.saturating_mul(POOL);
    let most = budget.examples.saturating_mul(POOL).clamp(1, order.len());
    let mut tokens = 0usize;
    let within = order[..most].iter().take_while(|&&i| {
        tokens = tokens.saturating_add(lengths[i]);
        tokens <= most_tokens
    });
    within.count().max(1)
}

/// Cuts examples in ascending order of length into batches.
fn cut(order: &[usize], lengths: &[usize], budget: Budget, batches: &mut Vec<Vec<usize>>) {
    let mut batch = Vec::new();
    for &i in order {
        if !batch.is_empty() && !budget.holds(batch.len() + 1, lengths[i]) {
            batches.push(std::mem::take(&mut batch));
        }
        batch.push(i);
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(batches: &[Vec<usize>], lengths: &[usize], budget: Budget) -> Result<(), TestCaseError> {
        let mut seen: Vec<usize> = batches.concat();
        seen.sort();
        prop_assert_eq!(seen, (0..lengths.len()).collect::<Vec<_>>());
        for batch in batches {
            let longest = batch.iter().map(|&i| lengths[i]).max().unwrap();
            prop_assert!(batch.len() <= budget.examples.max(1));
            prop_assert!(batch.len() == 1 || batch.len() * longest <= budget.tokens);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn every_example_once_and_within_the_budget(
            lengths in prop::collection::vec(0usize..60, 0..400),
            tokens in 0usize..200,
            examples in 0usize..20,
            seed: u64,
            epoch in 0u64..5,
        ) {
            let budget = Budget { tokens, examples };
            let shuffled = batches(&lengths, budget, seed, epoch);
            check(&shuffled, &lengths, budget)?;
            prop_assert_eq!(&shuffled, &batches(&lengths, budget, seed, epoch));
            let sorted = in_order(&lengths, budget);
            check(&sorted, &lengths, budget)?;
            let visited: Vec<usize> = sorted.concat().into_iter().map(|i| lengths[i]).collect();
            prop_assert!(visited.is_sorted());
        }

        #[test]
        fn padding_keeps_the_rows(rows in prop::collection::vec(prop::collection::vec(1u32..9, 0..7), 0..6)) {
            let slices: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
            let padded = pad(&slices, 0);
            prop_assert_eq!(padded.ids.len(), padded.shape[0] * padded.shape[1]);
            for (i, row) in rows.iter().enumerate() {
                let got = &padded.ids[i * padded.shape[1]..][..padded.shape[1]];
                prop_assert!(got[..row.len()].iter().zip(row).all(|(a, b)| *a == *b as i32));
                prop_assert!(got[row.len()..].iter().all(|&id| id == 0));
                prop_assert_eq!(padded.lengths[i], row.len());
            }
        }
    }

    #[test]
    fn epochs_and_seeds_differ() {
        let lengths: Vec<usize> = (0..500).map(|i| i % 30 + 1).collect();
        let budget = Budget { tokens: 100, examples: 50 };
        let first = batches(&lengths, budget, 1, 0);
        assert_ne!(first, batches(&lengths, budget, 1, 1));
        assert_ne!(first, batches(&lengths, budget, 2, 0));
        // Seed and epoch are not interchangeable.
        assert_ne!(batches(&lengths, budget, 0, 1), batches(&lengths, budget, 1, 0));
    }

    #[test]
    fn little_of_a_batch_is_padding() {
        let lengths: Vec<usize> =
            (0..20_000).map(|i| crate::hash(&[i as u8, (i >> 8) as u8]) as usize % 40 + 1).collect();
        let budget = Budget { tokens: 2000, examples: 1000 };
        let all = batches(&lengths, budget, 7, 0);
        let padded: usize = all.iter().map(|b| b.len() * b.iter().map(|&i| lengths[i]).max().unwrap()).sum();
        let real: usize = lengths.iter().sum();
        assert!((padded as f64) < 1.03 * real as f64, "{padded} for {real}");
        // Long and short batches are mixed: the first tenth is not all of one kind.
        let firsts: Vec<usize> = all.iter().take(all.len() / 10).map(|b| lengths[b[0]]).collect();
        assert!(firsts.iter().any(|&l| l < 15) && firsts.iter().any(|&l| l > 25));
    }

    #[test]
    fn an_empty_budget_is_refused() {
        assert!(Budget { tokens: 1, examples: 1 }.validate().is_ok());
        let error = Budget { tokens: 0, examples: 1 }.validate().unwrap_err().to_string();
        assert_eq!(error, "tokens: expected at least 1, found 0");
        assert!(Budget { tokens: 1, examples: 0 }.validate().is_err());
    }
}
