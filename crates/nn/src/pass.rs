//! What a forward pass carries beside its tensors: whether it trains, its random numbers, and what to look at.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use regard_ops::Dropout;

use crate::capture::Capture;
use crate::init::{LayerPath, mix, stream};

/// One forward pass through a model.
///
/// Random numbers are a function of the pass's seed and the layer's path, so that a step can be repeated bit by bit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pass<'a> {
    seed: Option<u64>,
    capture: Option<&'a Capture>,
}

impl<'a> Pass<'a> {
    /// Nothing is random, nothing is kept.
    pub fn inference() -> Self {
        Self::default()
    }

    /// Dropout and sampling are on, drawn from `seed`; take a new one each step.
    pub fn training(seed: u64) -> Self {
        Self { seed: Some(seed), capture: None }
    }

    /// The same, keeping the attention weights that `capture` asks for.
    pub fn with_capture(self, capture: &'a Capture) -> Self {
        Self { capture: Some(capture), ..self }
    }

    /// The same for step `step` of a loop that uses a layer many times: other random numbers.
    pub fn at(self, step: usize) -> Self {
        Self { seed: self.seed.map(|seed| mix(seed, step as u64 + 1)), ..self }
    }

    /// Whether dropout and sampling are on.
    pub fn is_training(&self) -> bool {
        self.seed.is_some()
    }

    /// The seed of a layer's random numbers; none outside training.
    pub fn seed(&self, layer: &LayerPath) -> Option<u64> {
        self.seed.map(|seed| stream(seed, layer.as_str()))
    }

    /// The random numbers of a layer; none outside training.
    pub fn random(&self, layer: &LayerPath) -> Option<ChaCha8Rng> {
        self.seed(layer).map(ChaCha8Rng::seed_from_u64)
    }

    /// The dropout of a layer, if there is any in this pass.
    pub fn dropout(&self, layer: &LayerPath, probability: f32) -> Option<Dropout> {
        let seed = self.seed(layer)?;
        (probability > 0.0).then_some(Dropout { probability, seed })
    }

    /// What to look at, if anything.
    pub fn capture(&self) -> Option<&'a Capture> {
        self.capture
    }
}
