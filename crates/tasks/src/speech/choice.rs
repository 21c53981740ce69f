//! Settings of a listener that follow the data.

use super::Config;
use super::config::Aim;
use crate::auto::{Asked, Choice, Facts, Length, Reason, Work, by_size, count, rounded, seconds, share};

/// Chooses the settings of a listener by the length of all recordings.
pub(super) fn choose(facts: &Facts, asked: &Asked<Config>) -> Choice {
    let (recordings, sound) = (facts.examples as f64, facts.seconds);
    let is_text = asked.config.data.target == Aim::Text;
    let d_model = asked.width(by_size(sound, &[(1e3, 96.0), (1e5, 192.0)]));
    let n_layers = asked.count("model.n_layers", by_size(sound, &[(1e3, 3.0), (1e5, 4.0)]).round() as usize);

    let about = format!("{} recordings of {:.1} seconds", count(facts.examples), sound / recordings.max(1.0));
    // Many recordings show by themselves what does not matter.
    let strength = by_size(sound, &[(1e3, 1.0), (1e5, 0.5)]);
    let data = Reason::new(about)
        .number("data.augment.noise", share(0.2 * strength))
        .number("data.augment.speed", share(0.1 * strength))
        .number("data.augment.pitch", share(0.1 * strength));
    let what = match is_text {
        true => format!("{} letters to write", count(facts.answer_characters)),
        false => format!("{} labels, {} recordings for each", facts.labels.len(), count(facts.per_label())),
    };
    let model = Reason::new(what)
        .count("model.d_model", d_model)
        .count("model.n_layers", n_layers)
        .count("model.d_ff", rounded(2.67 * d_model as f64, 32))
        .number("model.dropout", share(by_size(sound, &[(1e3, 0.1), (1e5, 0.05)])));

    let mel = &asked.config.data;
    let vectors = 1000.0 * sound / (mel.hop * mel.stride as f64).max(1e-3);
    let batch = asked.count("train.batch_examples", 32);
    let weights = n_layers as f64 * 9.3 * (d_model * d_model) as f64;
    let work = Work { batches: recordings / batch as f64, seconds: seconds(vectors, 2.0 * weights) + 2e-3 * sound };
    // Recordings are changed at random each time, so that many passes do no harm.
    let passes = by_size(sound, &[(50.0, 250.0), (1e3, 50.0), (4e4, 4.0)]);
    let length = Length::new(work, passes, 500.0, asked);
    let training = Reason::new(length.words()).count("train.batch_examples", batch);
    Choice(vec![data, model, length.settings(training, facts, 2_000)])
}
