//! Settings that follow the data when a checkpoint is trained further.

use std::path::Path;

use regard_inspect::count::Architecture;
use regard_nn::layers::feed_forward::Gate;
use regard_nn::models::transformer::TransformerConfig;

use crate::auto::{Asked, Choice, Facts, Length, Reason, by_size, count, seconds};
use crate::hugging_face::load::{describe, settings};

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

/// What a pass over the data costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load<'a> {
    /// Folder of the network.
    pub from: Option<&'a Path>,
    /// Tokens of all examples; `None` if every example has as many as the network reads, as pictures have.
    pub tokens: Option<f64>,
}

impl<'a> Load<'a> {
    /// Returns the load of texts. About four letters make a token, and two tokens stand around a text.
    pub fn of_texts(from: Option<&'a Path>, facts: &Facts) -> Self {
        let letters = facts.characters + facts.answer_characters;
        Self { from, tokens: Some(letters as f64 / 4.0 + 2.0 * facts.examples as f64) }
    }

    /// Returns the seconds that two cores train the whole network in a pass; `None` if the folder cannot be read, which the run
    /// reports itself.
    fn seconds(&self, examples: f64) -> Option<f64> {
        let described = describe(&settings(self.from?).ok()??).ok()?;
        let block = |config: &TransformerConfig, attentions: usize| {
            let matrices = if config.gate == Gate::None { 2 } else { 3 };
            (config.d_model * (4 * attentions * config.d_model + matrices * config.d_ff)) as f64
        };
        let output = |config: &TransformerConfig| (config.d_model * config.vocab) as f64;
        let weights = match &described.architecture {
            Architecture::Encoder(config) => config.n_layers as f64 * block(config, 1),
            Architecture::Decoder(config) => config.n_layers as f64 * block(config, 1) + output(config),
            // A token of the source meets the encoder, one of the target the decoder and the output layer.
            Architecture::EncoderDecoder(config) => {
                let decoder = config.n_decoder_layers.unwrap_or(config.n_layers) as f64 * block(config, 2);
                (config.n_layers as f64 * block(config, 1) + decoder + output(config)) / 2.0
            }
            _ => return None,
        };
        Some(seconds(self.tokens.unwrap_or(examples * described.sizes.seq as f64), weights))
    }
}

/// Chooses how long and how fast to train on `examples`, which have `what` for a name. A pre-trained network learns in a few passes
/// and forgets at a high rate; adapters and a linear layer begin at zero and need a higher one.
pub(super) fn choose<C>(way: Way, load: Load, facts: &Facts, (what, batch): (&str, usize), asked: &Asked<C>) -> Choice
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
    // Of three products with a matrix, adapters need none for its gradient; fixed vectors are computed once.
    let (because, share) = match way {
        Way::Whole => ("the whole network", passes),
        Way::Lora => ("adapters", passes * 2.0 / 3.0),
        Way::Linear => ("a linear layer on fixed vectors", 1.0 / 3.0),
    };
    let because = format!("{} {what} to train {because}", count(facts.examples));
    let because = match load.seconds(examples) {
        Some(seconds) => {
            let length = Length { steps: steps as u64, passes, minutes: share * seconds / 60.0 };
            format!("{because}, {}", length.words())
        }
        None => format!("{because}, {passes} passes"),
    };
    let length = Reason::new(because)
        .count("train.steps", steps as usize)
        .count("train.batch_examples", batch)
        .number("train.learning_rate", rate)
        .count("train.warmup", (steps / 10.0) as usize)
        .count("train.evaluate_every", between)
        .count("train.checkpoint_every", between);
    Choice(vec![length])
}
