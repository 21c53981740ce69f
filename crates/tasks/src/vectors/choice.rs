//! Settings of a model of vectors that follow the data.

use super::Config;
use super::config::Aim;
use crate::auto::{Asked, Choice, Facts, Length, Reason, Work, by_size, count, rounded, seconds, share};

/// Number of vectors from which on an example has a shape that remains without its place and size.
const LONG: f64 = 8.0;
/// Share of the variance of the places of examples, or of their sizes, that labels explain if they tell something about the label.
/// Pen digits have 0.11 and 0.17.
const TELLING: f64 = 0.25;

/// Chooses the settings of a model of vectors by the number of examples, or of vectors to forecast.
pub(super) fn choose(facts: &Facts, asked: &Asked<Config>) -> Choice {
    let is_forecast = asked.config.data.target == Aim::Next;
    let examples = if is_forecast { facts.vectors } else { facts.examples } as f64;
    let length = facts.vectors as f64 / facts.examples.max(1) as f64;
    let d_model = asked.width(by_size(examples, &[(200.0, 32.0), (5e3, 64.0), (1e6, 128.0)]));
    let n_layers = asked.count("model.n_layers", by_size(examples, &[(500.0, 2.0), (5e3, 3.0)]).round() as usize);

    let about = format!("{} examples of {length:.0} vectors", count(facts.examples));
    let noise = share(by_size(examples, &[(200.0, 0.05), (1e4, 0.02), (1e6, 0.0)]));
    let mut data = Reason::new(about).number("data.augment.noise", noise);
    if !is_forecast {
        data = data.set("data.differences", true);
    }
    // What says little about the label is chance, such as where on a tablet someone writes, and how large.
    let is_chance =
        |explained: Option<f64>| !is_forecast && length >= LONG && explained.is_some_and(|share| share < TELLING);
    if is_chance(facts.placed) {
        data = data.set("data.normalise", if is_chance(facts.sized) { "size" } else { "mean" });
    }
    let what = match facts.labels.len() {
        0 => "numbers to predict".to_string(),
        labels => format!("{labels} labels, {} examples for each", count(facts.per_label())),
    };
    let model = Reason::new(what)
        .count("model.d_model", d_model)
        .count("model.n_layers", n_layers)
        .count("model.d_ff", 2 * d_model)
        .number("model.dropout", share(by_size(examples, &[(200.0, 0.2), (5e3, 0.1), (1e6, 0.0)])));

    let batch =
        asked.count("train.batch_examples", rounded(by_size(examples, &[(200.0, 8.0), (5e3, 32.0), (1e6, 128.0)]), 4));
    let seen = if is_forecast { asked.config.data.window as f64 } else { length };
    let tokens = examples * seen;
    let weights = n_layers as f64 * 8.0 * (d_model * d_model) as f64;
    let work = Work { batches: examples / batch as f64, seconds: seconds(tokens, 2.0 * weights) };
    let passes = by_size(examples, &[(200.0, 100.0), (5e3, 30.0), (1e5, 6.0), (1e6, 1.0)]);
    let length = Length::new(work, passes, 600.0, asked);
    let training = Reason::new(length.words())
        .count("train.batch_examples", batch)
        .number("train.label_smoothing", if facts.labels.is_empty() { 0.0 } else { 0.1 });
    Choice(vec![data, model, length.settings(training, facts, 2_000)])
}
