//! Settings that accompany a forward pass: training or inference, random numbers, capture, ablation, progress and
//! cancellation.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use regard_kernels::mix;
use regard_ops::{Dropout, Precision};

use crate::ablation::Ablation;
use crate::capture::Capture;
use crate::error::NnError;
use crate::init::{LayerPath, stream};
use crate::temperature::Temperature;

/// Settings of one forward pass through a model.
///
/// Random numbers depend only on the seed of the pass and the path of the layer, so that a step can be repeated bit for bit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pass<'a> {
    seed: Option<u64>,
    capture: Option<&'a Capture>,
    ablation: Option<&'a Ablation>,
    temperature: Option<Temperature>,
    cancelled: Option<&'a AtomicBool>,
    progress: Option<Teller<'a>>,
    first_sequence: usize,
    precision: Precision,
}

/// Callback for the progress of a loop over batches, called with the number done and the total.
#[derive(Clone, Copy)]
struct Teller<'a>(&'a (dyn Fn(usize, usize) + Sync));

impl fmt::Debug for Teller<'_> {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.write_str("Teller")
    }
}

impl<'a> Pass<'a> {
    /// Creates an inference pass: no dropout, no sampling, no capture.
    pub fn inference() -> Self {
        Self::default()
    }

    /// Creates a training pass with dropout and sampling drawn from `seed`. Use a new seed each step.
    pub fn training(seed: u64) -> Self {
        Self { seed: Some(seed), ..Self::default() }
    }

    /// Sets the capture, which collects attention weights or head outputs during the pass.
    pub fn with_capture(self, capture: &'a Capture) -> Self {
        Self { capture: Some(capture), ..self }
    }

    /// Removes the capture, for example during a search whose result decides what to capture.
    pub fn without_capture(self) -> Self {
        Self { capture: None, ..self }
    }

    /// Switches off the parts of the model that `ablation` names.
    pub fn with_ablation(self, ablation: &'a Ablation) -> Self {
        Self { ablation: Some(ablation), ..self }
    }

    /// Sets what the scores of every softmax attention are divided by. Attention without a softmax refuses it.
    pub fn with_temperature(self, temperature: Option<Temperature>) -> Self {
        Self { temperature, ..self }
    }

    /// Cancels the pass once `cancelled` becomes true. Searches and loops over batches check it between their steps.
    pub fn until(self, cancelled: &'a AtomicBool) -> Self {
        Self { cancelled: Some(cancelled), ..self }
    }

    /// Sets a callback for loops over batches; it receives the number of batches done and the total.
    pub fn with_progress(self, progress: &'a (dyn Fn(usize, usize) + Sync)) -> Self {
        Self { progress: Some(Teller(progress)), ..self }
    }

    /// Sets the precision in which the operands of large matrix products are multiplied; it is f32 otherwise. This concerns the linear
    /// layers of Transformer blocks, without the keys and values of another sequence, and the loss of the output layer.
    pub fn with_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// Derives a pass with its own random numbers for iteration `index` of the loop `what`. The name separates loops with
    /// equal indices: `at("batch", 1)` and `at("word", 1)` draw independently.
    pub fn at(self, what: &str, index: usize) -> Self {
        Self { seed: self.seed.map(|seed| mix(stream(seed, what), index as u64 + 1)), ..self }
    }

    /// Returns whether dropout and sampling are on.
    pub fn is_training(&self) -> bool {
        self.seed.is_some()
    }

    /// Returns the seed of a layer's random numbers, or `None` outside training.
    pub fn seed(&self, layer: &LayerPath) -> Option<u64> {
        self.seed.map(|seed| stream(seed, layer.as_str()))
    }

    /// Returns the random number generator of a layer, or `None` outside training.
    pub fn random(&self, layer: &LayerPath) -> Option<ChaCha8Rng> {
        self.seed(layer).map(ChaCha8Rng::seed_from_u64)
    }

    /// Returns the dropout of a layer, or `None` outside training or if `probability` is 0.
    pub fn dropout(&self, layer: &LayerPath, probability: f32) -> Option<Dropout> {
        let seed = self.seed(layer)?;
        (probability > 0.0).then_some(Dropout { probability, seed })
    }

    /// Derives a pass for a part of a batch that begins with sequence `first`.
    pub(crate) fn beginning_with(self, first: usize) -> Self {
        Self { first_sequence: first, ..self }
    }

    /// Returns the index of the first sequence in the whole batch.
    pub(crate) fn first_sequence(&self) -> usize {
        self.first_sequence
    }

    /// Fails with [`NnError::Cancelled`] if the pass was cancelled.
    pub fn check_cancelled(&self) -> Result<(), NnError> {
        match self.cancelled {
            Some(cancelled) if cancelled.load(Ordering::Relaxed) => Err(NnError::Cancelled),
            _ => Ok(()),
        }
    }

    /// Reports that `done` of `all` batches are done. Fails with [`NnError::Cancelled`] if the pass was cancelled.
    pub fn report(&self, done: usize, all: usize) -> Result<(), NnError> {
        if let Some(Teller(progress)) = self.progress {
            progress(done, all);
        }
        self.check_cancelled()
    }

    /// Returns the precision of large matrix products.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns the ablation of the pass, if any.
    pub fn ablation(&self) -> Option<&'a Ablation> {
        self.ablation
    }

    /// Returns the temperature of softmax attention, if it is not 1.
    pub fn temperature(&self) -> Option<Temperature> {
        self.temperature
    }

    /// Returns the capture of the pass, if any.
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

    /// Simulates a run with gradient accumulation and threads over a translator whose two embeddings are one layer.
    #[test]
    fn seeds_of_steps_batches_shares_words_and_layers_are_distinct() {
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
    fn progress_is_reported_until_the_pass_is_cancelled() {
        let told = std::sync::Mutex::new(Vec::new());
        let tell = |done, all| told.lock().unwrap().push((done, all));
        let cancelled = AtomicBool::new(false);
        let pass = Pass::inference().with_progress(&tell).until(&cancelled);
        pass.report(0, 2).unwrap();
        cancelled.store(true, Ordering::Relaxed);
        assert!(matches!(pass.report(1, 2), Err(NnError::Cancelled)));
        assert_eq!(*told.lock().unwrap(), [(0, 2), (1, 2)]);
        Pass::inference().report(1, 2).unwrap();
    }
}
