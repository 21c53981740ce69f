//! Random numbers: a stream of its own for every purpose, seed and index, so that nothing depends on the order of drawing.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// What random numbers are for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    Train,
    Test,
    Closed,
    Weights,
    Chain,
    Fitted,
}

/// Stream `index` of a seed.
pub(crate) fn random(purpose: Purpose, seed: u64, index: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8] = purpose as u8;
    let mut random = ChaCha8Rng::from_seed(key);
    random.set_stream(index);
    random
}
