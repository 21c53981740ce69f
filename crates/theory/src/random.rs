//! Random number streams. Every purpose, seed and index has its own, so no result depends on the order of drawing.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Purpose of a random number stream.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    Train,
    Test,
    Closed,
    Weights,
    Chain,
    Fitted,
    Products,
}

/// Returns the random number generator for `purpose`, `seed` and stream `index`.
pub(crate) fn random(purpose: Purpose, seed: u64, index: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8] = purpose as u8;
    let mut random = ChaCha8Rng::from_seed(key);
    random.set_stream(index);
    random
}
