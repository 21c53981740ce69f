//! The gradients of one update of the weights, from batches that threads share.

use burn::module::Module;
use regard_ops::ParameterGradients;

use super::ordered_sum::{Block, OrderedSum, Sum};
use super::share::share;
use crate::rows::device_of;
use crate::task::Loss;

/// Gradients and loss of the batches of one step: the means over all their targets.
#[derive(Debug, Default)]
pub struct StepGradients(Option<Passed<ParameterGradients>>);

impl StepGradients {
    /// Adds a batch that is cut into at most [`parts`](super::parts) parts. Each goes through the model and back on a thread of its own; their
    /// gradients are added in an order that depends only on the number of parts.
    pub fn add_parts<M: Module + Sync, P: Send, E: Send>(
        &mut self,
        model: &M,
        parts: Vec<P>,
        loss: impl Fn(usize, P, &M) -> Result<Loss, E> + Sync,
    ) -> Result<(), E> {
        let sum = passed(model, 0, parts, loss)?;
        extend(&mut self.0, sum.total());
        Ok(())
    }

    /// Adds a batch that went through the model as a whole.
    pub fn add_batch(&mut self, loss: Loss, model: &impl Module) {
        extend(&mut self.0, Some(Passed::new(loss, model)));
    }

    /// Returns the mean loss over all targets.
    pub fn loss(&self) -> f64 {
        self.0.as_ref().map_or(0.0, |sum| sum.means.loss)
    }

    /// Returns the sum over the batches, `None` if nothing was added.
    pub(super) fn into_sum(self) -> Option<Passed<ParameterGradients>> {
        self.0
    }

    /// Returns the gradients, `None` if nothing was added.
    pub fn into_gradients(self) -> Option<ParameterGradients> {
        self.0.map(|sum| sum.gradients)
    }
}

/// Adds `later`, if there is any, to a sum that may have no terms yet.
pub(super) fn extend<S: Sum>(sum: &mut Option<S>, later: Option<S>) {
    match (sum.as_mut(), later) {
        (Some(sum), Some(later)) => sum.add(later),
        (None, later) => *sum = later,
        (Some(_), None) => {}
    }
}

/// Takes parts of a batch through the model and back, each on a thread of its own. `first` is the index of the first part.
pub(super) fn passed<M: Module + Sync, P: Send, E: Send>(
    model: &M,
    first: usize,
    parts: Vec<P>,
    loss: impl Fn(usize, P, &M) -> Result<Loss, E> + Sync,
) -> Result<OrderedSum<Passed<ParameterGradients>>, E> {
    let device = device_of(model);
    let passed = share(parts, |part, input| {
        // Each part has its own copy of the parameters, because all parts would share the lock of a single graph.
        let model = model.clone().fork(&device);
        Ok(Passed::new(loss(first + part, input, &model)?, &model))
    });
    let mut sum = OrderedSum::default();
    for (part, passed) in passed.into_iter().enumerate() {
        sum.push(Block { first: first + part, count: 1, sum: passed? });
    }
    Ok(sum)
}

/// The mean loss of some examples, and the numbers that weigh it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Means {
    /// Mean loss over all targets.
    pub loss: f64,
    /// Number of tokens or labels that the mean is taken over.
    pub targets: usize,
    /// Number of tokens that went through the model, without padding.
    pub tokens: usize,
}

impl Means {
    /// Adds the means over other examples. Returns the weights of both in the mean over all targets.
    fn add(&mut self, later: Self) -> [f32; 2] {
        let all = (self.targets + later.targets).max(1) as f64;
        let (own, theirs) = (self.targets as f64 / all, later.targets as f64 / all);
        self.loss = self.loss * own + later.loss * theirs;
        self.targets += later.targets;
        self.tokens += later.tokens;
        [own as f32, theirs as f32]
    }
}

/// Gradients that can be averaged.
pub(super) trait Gradients {
    /// Computes `self ← self · own + other · theirs`.
    fn combine(&mut self, own: f32, other: Self, theirs: f32);
}

impl Gradients for ParameterGradients {
    fn combine(&mut self, own: f32, other: Self, theirs: f32) {
        ParameterGradients::combine(self, own, other, theirs);
    }
}

/// Examples that went through the model and back: the means of loss and gradients over their targets.
#[derive(Debug)]
pub(super) struct Passed<G> {
    pub means: Means,
    pub gradients: G,
}

impl<G: Gradients> Sum for Passed<G> {
    fn add(&mut self, later: Self) {
        let [own, theirs] = self.means.add(later.means);
        self.gradients.combine(own, later.gradients, theirs);
    }
}

impl Passed<ParameterGradients> {
    fn new(Loss { mean, targets, tokens }: Loss, model: &impl Module) -> Self {
        let gradients = ParameterGradients::new(model, mean.backward());
        Self { means: Means { loss: f64::from(mean.into_scalar::<f32>()), targets, tokens }, gradients }
    }
}
