//! Settings of a classifier of pictures that follow the data.

use super::Config;
use crate::auto::{Asked, Choice, Facts, Length, Reason, Work, by_size, count, rounded, share};

/// Chooses the settings of a classifier of pictures by their number and size.
pub(super) fn choose(facts: &Facts, asked: &Asked<Config>) -> Choice {
    let pictures = facts.examples as f64;
    let pixels = facts.pixels.max(1) as f64;
    // With fewer than millions of pictures convolutions learn faster than patches.
    let kind = asked.kind("cnn");
    let first = rounded(by_size(pictures, &[(500.0, 16.0), (1e4, 32.0)]), 8);
    let side = pixels.sqrt();

    let about = format!("{} pictures of {} values", count(facts.examples), count(facts.pixels));
    let data = Reason::new(about).count("data.shift", (side / 14.0).round() as usize);
    let what = format!("{} labels, {} pictures for each", facts.labels.len(), count(facts.per_label()));
    let dropout = share(by_size(pictures, &[(500.0, 0.3), (1e4, 0.1), (1e6, 0.0)]));
    let mut model = Reason::new(what).set("model.kind", kind.as_str()).number("model.dropout", dropout);
    model = match kind.as_str() {
        "cnn" | "attention_cnn" => {
            model.set("model.channels", vec![first as i64, 2 * first as i64, 4 * first as i64]).count("model.blocks", 1)
        }
        "vit" => model.set("model.stem", "convolutions").set("model.position", "rope").set("model.pooling", "mean"),
        _ => model,
    };

    let batch = asked.count(
        "train.batch_examples",
        rounded(by_size(pictures, &[(200.0, 16.0), (5e3, 32.0), (5e4, 64.0), (1e6, 128.0)]), 8),
    );
    // 1,100 pictures of 784 values per second on two cores with 32 channels.
    let seconds = pictures * pixels / 784.0 * (first as f64 / 32.0).powf(1.7) / 1_100.0;
    let work = Work { batches: pictures / batch as f64, seconds };
    let passes = by_size(pictures, &[(200.0, 80.0), (5e3, 30.0), (5e4, 8.0), (1e6, 1.0)]);
    let length = Length::new(work, passes, 400.0, asked);
    let training = Reason::new(length.words())
        .count("train.batch_examples", batch)
        .number("train.learning_rate", if kind == "vit" { 2e-3 } else { 3e-3 })
        .number("train.weight_decay", 0.05);
    Choice(vec![data, model, length.settings(training, facts, 2_000)])
}
