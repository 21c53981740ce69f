//! Settings of a translator that follow the data.

use super::Config;
use crate::auto::{Asked, Choice, Facts, Length, Reason, Work, by_size, count, rounded, seconds, share, significant};

/// Chooses the settings of a translator by the number of training pairs.
pub(super) fn choose(facts: &Facts, asked: &Asked<Config>) -> Choice {
    let pairs = facts.examples as f64;
    let kind = asked.kind("transformer");
    // Few pairs show a piece often enough only if there are few pieces.
    let vocab = rounded(by_size(pairs, &[(200.0, 500.0), (8e3, 2e3), (1.2e5, 4e3), (2e6, 6e3)]), 100);
    // With more pairs a run ends by time, and a wider model would see fewer of them.
    let d_model = asked.width(by_size(pairs, &[(500.0, 128.0), (8e3, 192.0)]));
    let dropout = share(by_size(pairs, &[(1e4, 0.3), (5e4, 0.1), (1.5e5, 0.0)]));
    let batch =
        asked.count("train.batch_tokens", rounded(by_size(pairs, &[(200.0, 256.0), (8e3, 768.0), (2e5, 1536.0)]), 128));

    let about = format!("{} pairs of {:.0} words, {}", count(facts.examples), facts.mean_words(), facts.news());
    let mut text = Reason::new(about).set("data.tokenizer.kind", "bpe");
    // The number of pieces says nothing about that of words or characters.
    if !asked.has("data.tokenizer.kind") {
        text = text.count("data.tokenizer.vocab", vocab);
    }

    // About four letters make a piece; ends of sentences count too.
    let letters = by_size(vocab as f64, &[(300.0, 2.0), (4e3, 3.8), (2e4, 4.6)]);
    let pieces = facts.characters.max(facts.answer_characters) as f64 / letters + pairs;
    let n_layers = asked.count("model.n_layers", 2);
    let model = Reason::new(format!("{} pieces of text", count(2 * pieces as usize)))
        .count("model.d_model", d_model)
        .count("model.n_layers", n_layers)
        .count("model.d_ff", 2 * d_model)
        .number("model.dropout", dropout);

    // A token of the source meets the encoder, one of the target the decoder and the output layer.
    let weights = n_layers as f64 * 20.0 * (d_model * d_model) as f64 + (d_model * vocab) as f64;
    // Padding fills a tenth of a batch.
    let work = Work { batches: 1.1 * pieces / batch as f64, seconds: seconds(2.2 * pieces, weights / 2.0) };
    let passes = by_size(pairs, &[(200.0, 150.0), (8e3, 45.0), (4e4, 16.0), (1.2e5, 6.0), (2e6, 1.0)]);
    let length = Length::new(work, passes, 800.0, asked);
    let rate = if kind == "transformer" { 0.3 / d_model as f64 } else { 2e-3 };
    let training = Reason::new(length.words())
        .count("train.batch_tokens", batch)
        .number("train.learning_rate", significant(rate))
        .number("train.label_smoothing", 0.1);
    let training = length.settings(training, facts, 200).count("decode.size", 4);
    Choice(vec![text, model, training])
}
