//! The gradients of the batches of a step, divided among ranks and threads.

use regard_nn::Pass;
use regard_ops::ParameterGradients;
use regard_system::Ranks;
use serde_json::Value;

use super::observer::Stop;
use super::rank_gradients::RankGradients;
use super::share::parts;
use super::step_gradients::{Passed, StepGradients, passed};
use crate::error::TaskError;
use crate::task::Task;

/// The gradients of the batches of one step of a task.
pub(super) struct BatchSum<'a, T: Task> {
    task: &'a T,
    train: &'a T::Part,
    ranks: &'a Ranks,
    sum: Sum,
}

enum Sum {
    Alone(StepGradients),
    Shared(Box<RankGradients>),
}

impl<'a, T: Task> BatchSum<'a, T> {
    /// Prepares the sum for a model.
    pub fn new(task: &'a T, train: &'a T::Part, ranks: &'a Ranks, model: &T::Model) -> Self {
        let sum = match ranks.is_alone() {
            true => Sum::Alone(StepGradients::default()),
            false => Sum::Shared(Box::new(RankGradients::new(ranks, model))),
        };
        Self { task, train, ranks, sum }
    }

    /// Adds the gradients of a batch, `memory` being the task's state between steps. Returns whether any rank is asked to stop.
    pub fn add(
        &mut self,
        batch: &[usize],
        model: &T::Model,
        memory: &mut Value,
        pass: &Pass,
        stop: &Stop,
    ) -> Result<bool, TaskError> {
        let (task, train) = (self.task, self.train);
        let all = self.ranks.size() * parts();
        let pieces = batch.chunks(batch.len().div_ceil(all).max(1));
        let loss = |part, examples: &[usize], model: &T::Model| {
            task.loss(train, examples, model, &mut Value::Null, &pass.at("share", part))
        };
        match &mut self.sum {
            Sum::Alone(sum) if all == 1 || !task.is_divisible() => {
                sum.add_batch(task.loss(train, batch, model, memory, pass)?, model);
            }
            Sum::Alone(sum) => sum.add_parts(model, pieces.collect(), loss)?,
            Sum::Shared(sum) => {
                let first = self.ranks.rank() * parts();
                let own = pieces.skip(first).take(parts()).collect();
                return sum.add(passed(model, first, own, loss)?, stop.is_asked());
            }
        }
        Ok(stop.is_asked())
    }

    /// Returns the means over all targets, on all ranks; `None` without a batch.
    pub fn into_sum(self) -> Option<Passed<ParameterGradients>> {
        match self.sum {
            Sum::Alone(sum) => sum.into_sum(),
            Sum::Shared(sum) => sum.into_sum(),
        }
    }
}
