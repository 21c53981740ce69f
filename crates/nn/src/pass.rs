//! What a forward pass carries beside its tensors: whether it trains, its random numbers, what to look at, what to leave out,
//! and whether anyone still waits for it.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use regard_ops::Dropout;

use crate::ablation::Ablation;
use crate::capture::Capture;
use crate::error::NnError;
use crate::init::{LayerPath, mix, stream};

/// One forward pass through a model.
///
/// Random numbers are a function of the pass's seed and the layer's path, so that a step can be repeated bit by bit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pass<'a> {
    seed: Option<u64>,
    capture: Option<&'a Capture>,
    ablation: Option<&'a Ablation>,
    cancelled: Option<&'a AtomicBool>,
    first_sequence: usize,
}

impl<'a> Pass<'a> {
    /// Nothing is random, nothing is kept.
    pub fn inference() -> Self {
        Self::default()
    }

    /// Dropout and sampling are on, drawn from `seed`; take a new one each step.
    pub fn training(seed: u64) -> Self {
        Self { seed: Some(seed), ..Self::default() }
    }

    /// The same, keeping the attention weights that `capture` asks for.
    pub fn with_capture(self, capture: &'a Capture) -> Self {
        Self { capture: Some(capture), ..self }
    }

    /// The same keeping nothing, as for a search before what is to be looked at is known.
    pub fn without_capture(self) -> Self {
        Self { capture: None, ..self }
    }

    /// The same without the parts of the model that `ablation` names.
    pub fn with_ablation(self, ablation: &'a Ablation) -> Self {
        Self { ablation: Some(ablation), ..self }
    }

    /// The same, to be given up when `cancelled` becomes true: a search or a loop over batches looks at it between its steps.
    pub fn until(self, cancelled: &'a AtomicBool) -> Self {
        Self { cancelled: Some(cancelled), ..self }
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

    /// The same for a part of a batch that begins with its sequence `first`.
    pub(crate) fn beginning_with(self, first: usize) -> Self {
        Self { first_sequence: first, ..self }
    }

    /// The number that the first sequence has in the whole batch.
    pub(crate) fn first_sequence(&self) -> usize {
        self.first_sequence
    }

    /// Fails if nobody waits for the pass any more.
    pub fn go_on(&self) -> Result<(), NnError> {
        match self.cancelled {
            Some(cancelled) if cancelled.load(Ordering::Relaxed) => Err(NnError::Cancelled),
            _ => Ok(()),
        }
    }

    /// What is left out, if anything.
    pub fn ablation(&self) -> Option<&'a Ablation> {
        self.ablation
    }

    /// What to look at, if anything.
    pub fn capture(&self) -> Option<&'a Capture> {
        self.capture
    }
}
