//! Settings of a classifier that follow the data.

use super::Config;
use crate::answers::TargetKind;
use crate::auto::{Asked, Choice, Facts, Length, Reason, Work, by_size, count, rounded, seconds, share};

/// Chooses the settings of a classifier by the number of training texts.
pub(super) fn choose(facts: &Facts, asked: &Asked<Config>) -> Choice {
    let texts = facts.examples as f64;
    // Text without spaces is read character by character.
    let words = if facts.is_spaced { facts.words } else { facts.characters } as f64;
    // Few texts do not teach the order of words; a bag of words learns more from them.
    let kind = asked.kind(if texts < 1_500.0 { "bag" } else { "lstm" });
    let d_model = asked.width(by_size(texts, &[(500.0, 64.0), (1e4, 128.0), (1e6, 192.0)]));
    let dropout = share(by_size(texts, &[(1e4, 0.5), (1e5, 0.3), (1e6, 0.1)]));
    let vocab = rounded(by_size(words, &[(1e4, 2e4), (1e7, 4e4)]), 1000);

    let about = match facts.is_spaced {
        true => format!("{} texts of {:.0} words, {}", count(facts.examples), facts.mean_words(), facts.news()),
        false => format!("{} texts of {:.0} characters", count(facts.examples), words / texts.max(1.0)),
    };
    let text = Reason::new(about).count("data.tokenizer.min_count", 1).count("data.tokenizer.vocab", vocab);
    let labels = match asked.config.data.target {
        TargetKind::Value => "numbers to predict".to_string(),
        _ => format!("{} labels, {} texts for each", facts.labels.len(), count(facts.per_label())),
    };
    let model = Reason::new(labels)
        .set("model.kind", kind.as_str())
        .count("model.d_model", d_model)
        .count("model.n_layers", 1)
        .count("model.d_ff", d_model)
        .number("model.dropout", if kind == "transformer" { share(0.7 * dropout) } else { dropout })
        .number("model.word_dropout", share(by_size(texts, &[(1e4, 0.2), (1e5, 0.1), (1e6, 0.0)])));

    let batch =
        asked.count("train.batch_examples", rounded(by_size(texts, &[(200.0, 8.0), (1e4, 48.0), (1e6, 128.0)]), 4));
    let weights = (if kind == "bag" { 1.0 } else { 8.0 }) * (d_model * d_model) as f64;
    let work = Work { batches: texts / batch as f64, seconds: seconds(1.3 * words, 2.0 * weights) };
    let passes = by_size(texts, &[(200.0, 40.0), (1e4, 10.0), (1e5, 5.0), (1e6, 2.0)]);
    let length = Length::new(work, passes, 300.0, asked);
    let smoothing = if asked.config.data.target == TargetKind::Value { 0.0 } else { 0.1 };
    let rate = match kind.as_str() {
        "bag" => 3e-3,
        "transformer" => 1e-3,
        _ => 2e-3,
    };
    let training = Reason::new(length.words())
        .count("train.batch_examples", batch)
        .count("train.batch_tokens", 4096)
        .number("train.learning_rate", rate)
        .number("train.label_smoothing", smoothing);
    let choice = Choice(vec![text, model, length.settings(training, facts, 2_000)]);
    match (asked.has("model.from"), asked.has("words.vectors")) {
        // The pre-trained model has its own tokeniser and sizes, and forgets what it knows at a high rate.
        (true, _) => {
            choice.without(&["data.tokenizer", "model.d_model", "model.n_layers", "model.d_ff", "model.word_dropout"])
        }
        (false, true) => choice.without(&["model.d_model"]),
        (false, false) => choice,
    }
}
