//! Sound recordings with a label or a text: WAV files in folders and archives.
//!
//! Layouts, in a folder or in a tar archive:
//! - files named `{label}_{speaker}_{index}.wav`, such as `7_anna_0.wav`;
//! - a folder per label, `yes/1.wav`;
//! - either of them in `train`, `dev` (or `val`) and `test`;
//! - a manifest of lines `path<TAB>label` (or text), in a folder only: a file by itself, or `train.tsv`, `dev.tsv` and `test.tsv`.

mod fft;
mod join;
mod layout;
mod mel;
mod resample;
#[cfg(test)]
mod tests;
mod wav;

use crate::archive::{member_of, read_member};
use crate::error::listed;
use crate::file::read_bytes;
use crate::hash::Fnv;
use crate::split::{complete, finish, split_given, split_one};
use crate::{DataError, Loaded, Source, Split, Splits};
pub use join::{JOINED, joined};
use layout::{Layout, Part};
pub use layout::{fingerprint_recordings, recording_names};
pub use mel::{LogMel, MelConfig, Voice};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
pub use wav::{decode_wav, encode_wav, is_wav};

/// A sound of one channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Sound {
    /// Samples per second.
    pub rate: u32,
    /// The samples; full scale is from −1 to 1.
    pub samples: Vec<f32>,
}

impl Sound {
    /// Length of the sound in seconds.
    pub fn seconds(&self) -> f64 {
        self.samples.len() as f64 / f64::from(self.rate)
    }

    /// The sound with another number of samples per second. Frequencies that the new rate cannot hold are cut.
    pub fn at_rate(self, rate: u32) -> Self {
        match rate == self.rate {
            true => self,
            false => Self { samples: resample::resample(&self.samples, self.rate, rate), rate },
        }
    }

    /// Hash of the rate and the samples.
    pub fn hash(&self) -> u64 {
        let mut state = Fnv::default();
        state.write(&self.rate.to_le_bytes());
        self.samples.iter().for_each(|sample| state.write(&sample.to_le_bytes()));
        state.finish()
    }
}

/// A sound and what is said in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// The sound at the rate of its data set.
    pub sound: Sound,
    /// The label or the text.
    pub answer: String,
    /// The speaker in the name `{label}_{speaker}_{index}.wav`.
    pub speaker: Option<String>,
    /// The index in the name.
    pub index: Option<u32>,
    /// Where the sound comes from, as [`read_sound`] takes it: a file, or an archive and a name, `sounds.tar.xz#7_anna_0.wav`.
    pub name: String,
    /// Hash of the sound as the file has it. It chooses the split, which therefore does not depend on the rate.
    pub hash: u64,
}

/// A range of indices, both ends included: `0-4`, or `3` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "NumberOrText", into = "String")]
pub struct Indices {
    first: u32,
    last: u32,
}

impl Indices {
    /// Indices from `first` to `last`.
    ///
    /// # Errors
    /// If the last is below the first.
    pub fn new(first: u32, last: u32) -> Result<Self, DataError> {
        match first <= last {
            true => Ok(Self { first, last }),
            false => Err(Self::error(&format!("{first}-{last}"))),
        }
    }

    /// Whether the range has this index.
    pub fn contains(self, index: u32) -> bool {
        (self.first..=self.last).contains(&index)
    }

    fn error(found: &str) -> DataError {
        let expected = "a range of indices such as 0-4, or one index".to_string();
        DataError::Setting { field: "index", expected, found: format!("{found:?}") }
    }
}

impl fmt::Display for Indices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

impl From<Indices> for String {
    fn from(indices: Indices) -> Self {
        indices.to_string()
    }
}

/// A range as a file may have it.
#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(u32),
    Text(String),
}

impl TryFrom<NumberOrText> for Indices {
    type Error = DataError;

    fn try_from(given: NumberOrText) -> Result<Self, DataError> {
        let text = match given {
            NumberOrText::Number(index) => return Self::new(index, index),
            NumberOrText::Text(text) => text,
        };
        let (first, last) = text.split_once('-').unwrap_or((&text, &text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) => Self::new(first, last),
            _ => Err(Self::error(&text)),
        }
    }
}

/// The recordings that are dev or test, by the index or the speaker in their names. What is not given is chosen by a hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldRecordings {
    /// Indices of the test split.
    pub test_index: Option<Indices>,
    /// Speaker of the test split.
    pub test_speaker: Option<String>,
    /// Indices of the dev split.
    pub dev_index: Option<Indices>,
    /// Speaker of the dev split.
    pub dev_speaker: Option<String>,
}

impl HeldRecordings {
    /// The name of the first setting that is given, and its value.
    pub fn given(&self) -> Option<(&'static str, String)> {
        let index = |indices: &Option<Indices>| indices.map(|indices| indices.to_string());
        [
            ("data.test_index", index(&self.test_index)),
            ("data.test_speaker", self.test_speaker.clone()),
            ("data.dev_index", index(&self.dev_index)),
            ("data.dev_speaker", self.dev_speaker.clone()),
        ]
        .into_iter()
        .find_map(|(field, value)| Some((field, value?)))
    }

    /// The split of a recording; test comes before dev.
    fn split(&self, Recording { speaker, index, .. }: &Recording) -> Split {
        let is_held = |indices: Option<Indices>, name: &Option<String>| {
            let by_index = indices.zip(*index).is_some_and(|(indices, index)| indices.contains(index));
            by_index || (name.is_some() && name == speaker)
        };
        if is_held(self.test_index, &self.test_speaker) {
            Split::Test
        } else if is_held(self.dev_index, &self.dev_speaker) {
            Split::Dev
        } else {
            Split::Train
        }
    }

    /// Refuses a setting that holds out nothing.
    fn check(&self, recordings: &[Recording]) -> Result<(), DataError> {
        let speakers: BTreeSet<&str> = recordings.iter().filter_map(|one| one.speaker.as_deref()).collect();
        for (field, name) in [("data.test_speaker", &self.test_speaker), ("data.dev_speaker", &self.dev_speaker)] {
            let Some(name) = name else { continue };
            if !speakers.contains(name.as_str()) {
                let names: Vec<&str> = speakers.into_iter().collect();
                let expected = format!("a speaker in names {{label}}_{{speaker}}_{{index}}.wav: {}", listed(&names));
                return Err(DataError::Setting { field, expected, found: format!("{name:?}") });
            }
        }
        for (field, indices) in [("data.test_index", self.test_index), ("data.dev_index", self.dev_index)] {
            let Some(indices) = indices else { continue };
            if !recordings.iter().filter_map(|one| one.index).any(|index| indices.contains(index)) {
                let expected = "indices in names {label}_{speaker}_{index}.wav".to_string();
                return Err(DataError::Setting { field, expected, found: format!("{indices}, which none has") });
            }
        }
        Ok(())
    }
}

/// Reads a WAV file, or one of an archive: `sounds.tar.xz#one/1.wav`.
///
/// # Errors
/// The errors of [`decode_wav`]; a file that cannot be read.
pub fn read_sound(path: &Path) -> Result<Sound, DataError> {
    let bytes = match member_of(path) {
        Some((archive, member)) => read_member(&archive, &member)?,
        None => read_bytes(path)?,
    };
    decode_wav(&bytes, path)
}

/// Reads one part of a data set, all of it, at this number of samples per second; by default each sound has its own.
///
/// # Errors
/// The errors of [`load_recordings`]; a data set of several parts.
pub fn read_recordings(path: &Path, rate: Option<u32>) -> Result<Loaded<Recording>, DataError> {
    match layout::find(path)? {
        Layout::One(part) => part.read(rate),
        Layout::Parts { .. } => {
            let expected = "one part of a data set: a manifest, a folder or an archive of WAV files".to_string();
            Err(DataError::Folder { path: path.to_path_buf(), expected, found: "several parts".into() })
        }
    }
}

/// Reads a data set of recordings at this number of samples per second. One part alone is split as `held` says, and else by
/// the hash of the sounds.
///
/// # Errors
/// Files and folders of another layout, a WAV file that cannot be read, a manifest with a wrong line, a part without
/// examples, and settings that do not fit the data.
pub fn load_recordings(source: &Source, rate: u32, held: &HeldRecordings) -> Result<Splits<Recording>, DataError> {
    let Source { path, fold } = source;
    let key = |recording: &Recording| recording.hash;
    match layout::find(path)? {
        Layout::One(part) => {
            let loaded = part.read(Some(rate))?;
            match (held.given(), fold) {
                (None, _) => finish(path, split_one(loaded, *fold, key)),
                (Some((field, found)), Some(_)) => {
                    let expected = "nothing together with data.fold".to_string();
                    Err(DataError::Setting { field, expected, found })
                }
                (Some(_), None) => {
                    held.check(&loaded.examples)?;
                    split_given(path, loaded, |recording| held.split(recording), key)
                }
            }
        }
        Layout::Parts { train, dev, test } => {
            if let Some(fold) = fold {
                return Err(fold.of_parts(path));
            }
            if let Some((field, found)) = held.given() {
                let expected = "nothing: the data have parts of their own".to_string();
                return Err(DataError::Setting { field, expected, found });
            }
            let read = |part: Option<Part>| part.map(|part| part.read(Some(rate))).transpose();
            finish(path, complete(train.read(Some(rate))?, [read(dev)?, read(test)?], key, "part"))
        }
    }
}
