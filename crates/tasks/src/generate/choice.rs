//! Settings of a language model that follow the data.

use super::Config;
use crate::auto::{Asked, Choice, Facts, Length, Reason, Work, by_size, count, rounded, seconds, share, significant};

/// Number of characters from which on a text is cut into pieces of several characters.
const LARGE: f64 = 2e7;

/// Chooses the settings of a language model by the number of characters.
pub(super) fn choose(facts: &Facts, asked: &Asked<Config>) -> Choice {
    let characters = (facts.characters + facts.examples) as f64;
    let line = characters / facts.examples.max(1) as f64;
    let is_large = characters >= LARGE && facts.is_spaced;
    let vocab = rounded(by_size(characters, &[(LARGE, 4e3), (1e9, 1.6e4)]), 1000);
    let tokens = if is_large { characters / 4.0 } else { characters };
    let d_model = asked.width(by_size(characters, &[(1e4, 64.0), (1e5, 128.0), (1e6, 160.0), (1e8, 192.0)]));
    let n_layers =
        asked.count("model.n_layers", by_size(tokens, &[(1e4, 2.0), (1e5, 3.0), (1e6, 4.0)]).round() as usize);
    let dropout = share(by_size(tokens, &[(1e4, 0.3), (1e5, 0.2), (1e6, 0.1), (1e7, 0.0)]));
    // A model looks back over a few lines, and further in prose than in lists of names.
    let block = asked.count("data.block", rounded((6.0 * line).clamp(48.0, 128.0).min(tokens / 40.0), 16));
    let batch = asked.count(
        "train.batch_tokens",
        rounded(by_size(tokens, &[(1e4, 512.0), (1e6, 2048.0), (1e8, 4096.0)]), 128).max(block),
    );

    let about = format!("{} characters in {} lines", count(characters as usize), count(facts.examples));
    let mut text = Reason::new(about).count("data.block", block);
    if is_large {
        text = text.set("data.tokenizer.kind", "bpe").count("data.tokenizer.vocab", vocab);
    }
    let model = Reason::new(format!("{} tokens to learn from", count(tokens as usize)))
        .count("model.d_model", d_model)
        .count("model.n_layers", n_layers)
        .count("model.d_ff", 4 * d_model)
        .number("model.dropout", dropout);

    let output = d_model * if is_large { vocab } else { 100 };
    let weights = n_layers as f64 * 12.0 * (d_model * d_model) as f64 + output as f64;
    let work = Work { batches: tokens / batch as f64, seconds: seconds(tokens, weights) };
    let passes = by_size(tokens, &[(1e4, 40.0), (1e5, 30.0), (1e6, 12.0), (1e7, 1.0)]);
    let length = Length::new(work, passes, 500.0, asked);
    let training = Reason::new(length.words())
        .count("train.batch_tokens", batch)
        .count("train.batch_examples", (batch / block).max(1))
        .number(
            "train.learning_rate",
            significant(by_size(d_model as f64, &[(64.0, 3e-3), (128.0, 2e-3), (256.0, 1e-3)])),
        )
        // A text that is read many times is learnt by heart unless the weights are kept small.
        .number("train.weight_decay", significant(by_size(tokens, &[(1e5, 0.3), (1e6, 0.1), (1e7, 0.01)])));
    Choice(vec![text, model, length.settings(training, facts, 200)])
}
