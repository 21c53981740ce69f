//! Settings of pre-training that follow the data.

use super::Config;
use crate::auto::{Asked, Choice, Facts, Length, Reason, Work, by_size, count, rounded, seconds, share, significant};

/// Chooses the settings of a masked language model by the number of words.
pub(super) fn choose(facts: &Facts, asked: &Asked<Config>) -> Choice {
    let words = facts.words as f64;
    let vocab = rounded(by_size(words, &[(2e6, 2e3), (5e7, 8e3)]), 100);
    let letters = by_size(vocab as f64, &[(300.0, 2.0), (4e3, 3.8), (2e4, 4.6)]);
    let pieces = facts.characters as f64 / letters + facts.examples as f64;
    let d_model = asked.width(by_size(words, &[(1e4, 96.0), (2e5, 128.0), (1e7, 192.0)]));
    let n_layers = asked.count("model.n_layers", 2);

    let about = format!("{} words in {} lines", count(facts.words), count(facts.examples));
    let text = Reason::new(about).count("data.tokenizer.vocab", vocab);
    let model = Reason::new(format!("{} pieces of text", count(pieces as usize)))
        .count("model.d_model", d_model)
        .count("model.n_layers", n_layers)
        .count("model.d_ff", 4 * d_model)
        .number("model.dropout", share(by_size(words, &[(1e4, 0.1), (2e5, 0.0)])));

    let batch = asked.count("train.batch_tokens", rounded(by_size(words, &[(1e4, 1024.0), (2e5, 4096.0)]), 256));
    let weights = n_layers as f64 * 12.0 * (d_model * d_model) as f64 + 0.15 * (d_model * vocab) as f64;
    let passes = by_size(words, &[(1e4, 150.0), (2e5, 60.0), (1e7, 4.0)]);
    let length = Length::new(
        Work { batches: 1.1 * pieces / batch as f64, seconds: seconds(1.1 * pieces, weights) },
        passes,
        700.0,
        asked,
    );
    let training = Reason::new(length.words())
        .count("train.batch_tokens", batch)
        .number("train.learning_rate", significant(by_size(d_model as f64, &[(128.0, 3e-3), (256.0, 1.5e-3)])));
    Choice(vec![text, model, length.settings(training, facts, 2_000)])
}
