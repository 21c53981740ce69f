//! What a forward pass carries beside its tensors: whether it trains, its random numbers, what to look at, what to leave out,
//! and whether anyone still waits for it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use regard_kernels::mix;
use regard_ops::Dropout;

use crate::ablation::Ablation;
use crate::capture::Capture;
use crate::error::NnError;
use crate::init::{LayerPath, stream};

/// One forward pass through a model.
///
/// Random numbers are a function of the pass's seed and the layer's path, so that a step can be repeated bit by bit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pass<'a> {
    seed: Option<u64>,
    capture: Option<&'a Capture>,
    ablation: Option<&'a Ablation>,
    cancelled: Option<&'a AtomicBool>,
    progress: Option<Teller<'a>>,
    first_sequence: usize,
}

/// Hears how far a loop over batches is.
#[derive(Clone, Copy)]
struct Teller<'a>(&'a (dyn Fn(usize, usize) + Sync));

impl fmt::Debug for Teller<'_> {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.write_str("Teller")
    }
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

    /// The same; a loop over batches tells `progress` how many are done, and of how many.
    pub fn telling(self, progress: &'a (dyn Fn(usize, usize) + Sync)) -> Self {
        Self { progress: Some(Teller(progress)), ..self }
    }

    /// The same for the `index`th time that `what` happens in this pass, with other random numbers. The name keeps loops apart
    /// that count the same indices: `at("batch", 1)` and `at("word", 1)` have nothing in common.
    pub fn at(self, what: &str, index: usize) -> Self {
        Self { seed: self.seed.map(|seed| mix(stream(seed, what), index as u64 + 1)), ..self }
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

    /// Tells that `done` of `all` batches are done, and fails if nobody waits for the others any more.
    pub fn reached(&self, done: usize, all: usize) -> Result<(), NnError> {
        if let Some(Teller(progress)) = self.progress {
            progress(done, all);
        }
        self.go_on()
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use burn::tensor::Device;

    use super::*;
    use crate::init::Init;

    /// A run with accumulation and threads, over a translator whose two embeddings are one layer.
    #[test]
    fn random_numbers_of_steps_batches_shares_words_and_layers_never_coincide() {
        let init = Init::new(1, &Device::flex());
        let layers =
            [init.enter("embedding").path(), init.enter("encoder").enter(0).path(), init.enter("decoder").path()];
        let (mut seeds, mut count) = (HashSet::new(), 0);
        for step in 0..20 {
            for batch in 0..4 {
                for share in 0..4 {
                    let pass = Pass::training(1).at("step", step).at("batch", batch).at("share", share);
                    let words = (0..5).map(|word| pass.at("word", word));
                    for pass in [pass, pass.at("target", 0)].into_iter().chain(words) {
                        seeds.extend(layers.iter().map(|layer| pass.seed(layer).unwrap()));
                        count += layers.len();
                    }
                }
            }
        }
        assert_eq!(seeds.len(), count);
    }

    #[test]
    fn progress_is_told_until_nobody_waits() {
        let told = std::sync::Mutex::new(Vec::new());
        let tell = |done, all| told.lock().unwrap().push((done, all));
        let cancelled = AtomicBool::new(false);
        let pass = Pass::inference().telling(&tell).until(&cancelled);
        pass.reached(0, 2).unwrap();
        cancelled.store(true, Ordering::Relaxed);
        assert!(matches!(pass.reached(1, 2), Err(NnError::Cancelled)));
        assert_eq!(*told.lock().unwrap(), [(0, 2), (1, 2)]);
        Pass::inference().reached(1, 2).unwrap();
    }
}
