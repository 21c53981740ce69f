//! Settings that follow the data when a checkpoint is trained further.

use crate::auto::{Asked, Choice, Facts, Reason, by_size, count};

/// What is trained, which decides the learning rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The network.
    Whole,
    /// Adapters.
    Lora,
    /// A linear layer on fixed vectors.
    Linear,
}

impl Way {
    /// Returns the way that goes with this rank of the adapters.
    pub fn of_rank(rank: usize) -> Self {
        if rank > 0 { Self::Lora } else { Self::Whole }
    }
}

/// Chooses how long and how fast to train on `examples`, which have `what` for a name. A pre-trained network learns in a few passes
/// and forgets at a high rate; adapters and a linear layer begin at zero and need a higher one.
pub(super) fn choose<C>(way: Way, facts: &Facts, what: &str, batch: usize, asked: &Asked<C>) -> Choice
where
    C: serde::Serialize + serde::de::DeserializeOwned,
{
    let examples = facts.examples.max(1) as f64;
    let batch = asked.count("train.batch_examples", batch).max(1);
    let (rate, passes) = match way {
        Way::Whole => (5e-5, by_size(examples, &[(200.0, 10.0), (1e4, 3.0), (1e6, 1.0)])),
        Way::Lora => (5e-4, by_size(examples, &[(200.0, 15.0), (1e4, 4.0), (1e6, 1.0)])),
        Way::Linear => (1e-2, by_size(examples, &[(200.0, 100.0), (1e4, 20.0), (1e6, 3.0)])),
    };
    let in_pass = (examples / batch as f64).ceil().max(1.0);
    let steps = asked
        .number("train.steps")
        .unwrap_or(in_pass * asked.number("train.epochs").unwrap_or(passes.round().max(1.0)));
    let passes = (steps / in_pass * 10.0).round() / 10.0;
    let between = (steps / 6.0).ceil().clamp(1.0, 2_000.0) as usize;
    let because = match way {
        Way::Whole => "the whole network",
        Way::Lora => "adapters",
        Way::Linear => "a linear layer on fixed vectors",
    };
    let length = Reason::new(format!("{} {what}, {passes} passes to train {because}", count(facts.examples)))
        .count("train.steps", steps as usize)
        .count("train.batch_examples", batch)
        .number("train.learning_rate", rate)
        .count("train.warmup", (steps / 10.0) as usize)
        .count("train.evaluate_every", between)
        .count("train.checkpoint_every", between);
    Choice(vec![length])
}
