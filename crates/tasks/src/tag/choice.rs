//! Settings of a tagger that follow the data.

use regard_nn::models::tagger::TagOutput;

use super::Config;
use crate::auto::{Asked, Choice, Facts, Length, Reason, Work, by_size, count, rounded, share, significant};
use crate::metrics::is_bio;

/// Chooses the settings of a tagger by the number of training words.
pub(super) fn choose(facts: &Facts, asked: &Asked<Config>) -> Choice {
    let words = facts.words as f64;
    // A CRF has no label smoothing.
    let is_smoothed = asked.number("train.label_smoothing").is_some_and(|smoothing| smoothing > 0.0);
    let spans = is_bio(facts.labels.keys().map(String::as_str)) && !is_smoothed;
    let kind = asked.kind("lstm");
    let d_word = rounded(by_size(words, &[(3e3, 64.0), (2e5, 128.0), (1e7, 192.0)]), 8);
    let d_hidden = rounded(by_size(words, &[(3e3, 48.0), (2e5, 64.0)]), 8);
    let d_model = asked.width(by_size(words, &[(3e3, 128.0), (2e5, 256.0), (1e7, 320.0)]));
    let dropout = share(by_size(words, &[(2e5, 0.5), (5e6, 0.3), (5e7, 0.1)]));
    let batch = asked.count(
        "train.batch_tokens",
        rounded(by_size(words, &[(3e3, 96.0), (2e4, 256.0), (2e5, 768.0), (1e7, 2048.0)]), 32),
    );

    let about = format!("{} words in {} sentences, {}", count(facts.words), count(facts.examples), facts.news());
    let characters = format!("{{ kind = \"recurrent\", cell = \"lstm\", d_char = 48, d_hidden = {d_hidden} }}");
    let mut text = Reason::new(about)
        .count("words.d_word", d_word)
        // A word that occurs once has a vector, and word dropout trains the unknown one.
        .count("words.min_count", if words < 5e5 { 1 } else { 2 })
        .table("words.characters", &characters);
    if spans {
        text = text.set("tags.output", "crf");
    }

    let few = format!("{} tags{}", facts.labels.len(), if spans { " of spans, scored by F1" } else { "" });
    let model = Reason::new(few)
        .set("model.kind", kind.as_str())
        .count("model.d_model", d_model)
        .count("model.n_layers", if kind == "transformer" { 2 } else { 1 })
        .count("model.d_ff", 2 * d_model)
        .number("model.dropout", if kind == "transformer" { share(dropout / 2.0) } else { dropout })
        .number("model.word_dropout", share(by_size(words, &[(2e4, 0.4), (2e5, 0.2), (1e7, 0.05)])));

    let work = Work { batches: words / batch as f64, seconds: words / speed(d_word, d_hidden, d_model) };
    let passes = by_size(words, &[(3e3, 80.0), (2e4, 40.0), (2e5, 12.0), (1e7, 3.0)]);
    let length = Length::new(work, passes, 400.0, asked);
    let smoothing = if spans || asked.config.more.tags.output == TagOutput::Crf { 0.0 } else { 0.1 };
    let training = Reason::new(length.words()).count("train.batch_tokens", batch).number(
        "train.learning_rate",
        if kind == "transformer" { 1.5e-3 } else { significant(by_size(words, &[(2e5, 3e-3), (1e7, 1e-3)])) },
    );
    let training = length.settings(training, facts, 2_000).number("train.label_smoothing", smoothing);
    let choice = Choice(vec![text, model, training]);
    if asked.has("words.vectors") { choice.without(&["words.d_word"]) } else { choice }
}

/// Words per second of training on two cores: about 20,000 with the sizes of a treebank of 200,000 words.
fn speed(d_word: usize, d_hidden: usize, d_model: usize) -> f64 {
    let d_in = (d_word + 2 * d_hidden) as f64;
    let (hidden, d_model) = (d_hidden as f64, d_model as f64);
    let weights = 8.0 * hidden * (48.0 + hidden) * 4.0 + 4.0 * d_model * (d_in + d_model / 2.0);
    20_000.0 * 9e5 / (weights + 2e5)
}
