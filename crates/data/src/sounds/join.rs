//! Strings of spoken labels, joined from recordings of single ones.

use super::{Indices, Recording, Sound};
use crate::builtin::Sizes;
use crate::{DataError, Split, Splits};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// Number of strings in each part.
pub const JOINED: Sizes = Sizes { train: 3_000, dev: 300, test: 500 };
/// Number of labels in a string.
const LABELS: std::ops::RangeInclusive<usize> = 3..=7;
/// Longest silence between two labels, in seconds.
const LONGEST_PAUSE: f64 = 0.3;

/// Joins recordings named `{label}_{speaker}_{index}.wav` to strings of 3 to 7 labels of one speaker, with pauses of up to
/// 300 ms. Test strings are made of the recordings with index 0 to 4, dev of 5 to 9 and train of the rest, so that no
/// recording is in two parts. Each string is at the rate of its recordings, and its name is a number.
///
/// # Errors
/// A part without recordings, and recordings of different rates.
pub fn joined(recordings: &[Recording], sizes: Sizes, seed: u64) -> Result<Splits<Recording>, DataError> {
    let part = |split: Split, count: usize| -> Result<Vec<Recording>, DataError> {
        let (test, dev) = (Indices { first: 0, last: 4 }, Indices { first: 5, last: 9 });
        let mut by_speaker = BTreeMap::<&str, Vec<&Recording>>::new();
        for recording in recordings {
            let (Some(speaker), Some(index)) = (&recording.speaker, recording.index) else { continue };
            let is_own = match split {
                Split::Test => test.contains(index),
                Split::Dev => dev.contains(index),
                Split::Train => index > 9,
            };
            if is_own {
                by_speaker.entry(speaker).or_default().push(recording);
            }
        }
        let speakers: Vec<Vec<&Recording>> = by_speaker.into_values().collect();
        if speakers.is_empty() {
            let expected = "recordings named {label}_{speaker}_{index}.wav with indices 0-4, 5-9 and above".to_string();
            return Err(DataError::Setting { field: "recordings", expected, found: format!("none for {split}") });
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(split as u64);
        (0..count).map(|at| string(&speakers[random.random_range(0..speakers.len())], at, &mut random)).collect()
    };
    Ok(Splits::new(part(Split::Train, sizes.train)?, part(Split::Dev, sizes.dev)?, part(Split::Test, sizes.test)?))
}

/// One string of a speaker.
fn string(recordings: &[&Recording], at: usize, random: &mut ChaCha8Rng) -> Result<Recording, DataError> {
    let rate = recordings[0].sound.rate;
    let mut samples = Vec::new();
    let mut labels = Vec::new();
    for place in 0..random.random_range(LABELS) {
        if place > 0 {
            let pause = random.random_range(0.0..=LONGEST_PAUSE) * f64::from(rate);
            samples.resize(samples.len() + pause as usize, 0.0);
        }
        let one = recordings[random.random_range(0..recordings.len())];
        if one.sound.rate != rate {
            let found = format!("{} and {rate} samples per second", one.sound.rate);
            return Err(DataError::Setting { field: "recordings", expected: "one rate".into(), found });
        }
        samples.extend(&one.sound.samples);
        labels.push(one.answer.as_str());
    }
    // Labels of one character, such as digits, need no space between them.
    let is_short = labels.iter().all(|label| label.chars().count() == 1);
    let sound = Sound { rate, samples };
    let (hash, speaker) = (sound.hash(), recordings[0].speaker.clone());
    Ok(Recording {
        sound,
        answer: labels.join(if is_short { "" } else { " " }),
        speaker,
        index: None,
        name: at.to_string(),
        hash,
    })
}
