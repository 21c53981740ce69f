//! The gradients of one update of the weights, from batches that threads share.

use burn::module::Module;
use regard_ops::ParameterGradients;

use super::share::share;
use crate::rows::device_of;
use crate::task::Loss;

/// Gradients and loss of the batches of one step: the means over all their targets.
#[derive(Debug, Default)]
pub struct StepGradients {
    gradients: Option<ParameterGradients>,
    /// Mean loss over all targets.
    pub loss: f64,
    /// Number of tokens or labels that the mean is taken over.
    pub targets: usize,
    /// Number of tokens that went through the model, without padding.
    pub tokens: usize,
}

impl StepGradients {
    /// Adds a batch that is cut into at most [`parts`](super::parts) parts. Each goes through the model and back on a thread of its own; their
    /// gradients are added in the order of the parts.
    pub fn add_parts<M: Module + Sync, P: Send, E: Send>(
        &mut self,
        model: &M,
        parts: Vec<P>,
        loss: impl Fn(usize, P, &M) -> Result<Loss, E> + Sync,
    ) -> Result<(), E> {
        let device = device_of(model);
        let passed = share(parts, |part, input| {
            // Each part has its own copy of the parameters, because all parts would share the lock of a single graph.
            let model = model.clone().fork(&device);
            Ok(Passed::new(loss(part, input, &model)?, &model))
        });
        passed.into_iter().try_for_each(|part| part.map(|part| self.add(part)))
    }

    /// Adds a batch that went through the model as a whole.
    pub fn add_batch(&mut self, loss: Loss, model: &impl Module) {
        self.add(Passed::new(loss, model));
    }

    /// Returns the gradients, `None` if nothing was added.
    pub fn into_gradients(self) -> Option<ParameterGradients> {
        self.gradients
    }

    fn add(&mut self, Passed { gradients, loss, targets, tokens }: Passed) {
        // The mean over all targets of the step, whatever the sizes of its batches.
        let all = (self.targets + targets).max(1) as f64;
        let (own, theirs) = (self.targets as f64 / all, targets as f64 / all);
        self.loss = self.loss * own + loss * theirs;
        match &mut self.gradients {
            None => self.gradients = Some(gradients),
            Some(sum) => sum.combine(own as f32, gradients, theirs as f32),
        }
        self.targets += targets;
        self.tokens += tokens;
    }
}

/// Examples that went through the model and back.
struct Passed {
    gradients: ParameterGradients,
    loss: f64,
    targets: usize,
    tokens: usize,
}

impl Passed {
    fn new(Loss { mean, targets, tokens }: Loss, model: &impl Module) -> Self {
        let gradients = ParameterGradients::new(model, mean.backward());
        Self { gradients, loss: f64::from(mean.into_scalar::<f32>()), targets, tokens }
    }
}
