//! Settings of word vectors that follow the data.

use super::Config;
use crate::auto::{Asked, Choice, Facts, Length, Reason, Work, by_size, count, rounded};

/// Chooses the settings of word vectors by the number of words.
pub(super) fn choose(facts: &Facts, asked: &Asked<Config>) -> Choice {
    let words = facts.words as f64;
    let d_model = rounded(by_size(words, &[(1e4, 32.0), (1e6, 64.0), (1e8, 200.0)]), 8);
    let batch = asked.count("train.batch_tokens", rounded(by_size(words, &[(1e4, 512.0), (1e7, 4096.0)]), 128));

    let about = format!("{} words, {} of them distinct", count(facts.words), count(facts.distinct));
    let text = Reason::new(about).count("train.batch_tokens", batch);
    let model = Reason::new(format!("{} words occur once", count(facts.once)))
        .count("model.d_model", d_model)
        .count("model.negatives", if words < 1e7 { 5 } else { 3 });
    // A quarter of the words are too rare to have a vector, or so frequent that they are left out at random.
    let work = Work { batches: 0.75 * words / batch as f64, seconds: words / (64.0 / d_model as f64 * 60_000.0) };
    let passes = by_size(words, &[(1e4, 40.0), (4e4, 20.0), (2e5, 10.0), (1e8, 2.0)]);
    let length = Length::new(work, passes, 200.0, asked);
    // The last weights are kept: the dev loss says little about the vectors, so the run does not stop by it either.
    let mut training = length.settings(Reason::new(length.words()), facts, 2_000);
    training.settings.retain(|(key, _)| key != "train.patience");
    Choice(vec![text, model, training])
}
