//! The configuration of `speech`.

use std::path::{Path, PathBuf};

use regard_data::{Fold, HeldRecordings, Indices, MelConfig, builtin, fingerprint_recordings};
use regard_nn::ConfigError;
use regard_nn::config::check_positive;
use serde::{Deserialize, Serialize};

use super::augment::Augment;
use crate::decode::ctc::MOST_PREFIXES;
use crate::error::TaskError;
use crate::run_config::{DataSection, RunConfig, check_built_in};
use crate::task::Validate;
pub use crate::vectors::config::ModelConfig;

/// What is predicted from a recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aim {
    /// One label for the whole recording.
    #[default]
    Label,
    /// The text that is spoken, letter by letter.
    Text,
}

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// Folder or archive of WAV files, or manifest; built-in spoken digits if absent.
    pub path: Option<PathBuf>,
    /// Fold `k/n` that is the test split of recordings without splits.
    pub fold: Option<Fold>,
    /// What is predicted.
    pub target: Aim,
    /// Indices in the names of the test recordings.
    pub test_index: Option<Indices>,
    /// Speaker in the names of the test recordings.
    pub test_speaker: Option<String>,
    /// Indices in the names of the dev recordings.
    pub dev_index: Option<Indices>,
    /// Speaker in the names of the dev recordings.
    pub dev_speaker: Option<String>,
    /// Samples per second that recordings are brought to.
    pub rate: u32,
    /// Length of a window in milliseconds.
    pub window: f64,
    /// Time from a window to the next in milliseconds.
    pub hop: f64,
    /// Number of mel bands.
    pub bands: usize,
    /// Lowest frequency in hertz.
    pub low: f64,
    /// Highest frequency in hertz; half of the rate by default.
    pub high: Option<f64>,
    /// Smallest power that a logarithm is taken of.
    pub floor: f32,
    /// Number of frames that the network sees as one vector.
    pub stack: usize,
    /// Number of frames from a vector to the next: subsampling.
    pub stride: usize,
    /// Random changes of training recordings.
    pub augment: Augment,
    /// Longest recording in seconds: longer ones are left out of training and refused in prediction.
    pub max_seconds: f64,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            path: None,
            fold: None,
            target: Aim::Label,
            test_index: None,
            test_speaker: None,
            dev_index: None,
            dev_speaker: None,
            rate: 8_000,
            window: 25.0,
            hop: 10.0,
            bands: 40,
            low: 0.0,
            high: None,
            floor: 1e-10,
            stack: 4,
            stride: 2,
            augment: Augment::default(),
            max_seconds: 60.0,
        }
    }
}

impl DataConfig {
    /// Returns how features are computed.
    pub(super) fn mel(&self) -> MelConfig {
        let &Self { rate, window, hop, bands, low, high, floor, .. } = self;
        MelConfig { rate, window, hop, bands, low, high: high.unwrap_or(f64::from(rate) / 2.0), floor }
    }

    /// Returns what is held out by name.
    pub(super) fn held(&self) -> HeldRecordings {
        HeldRecordings {
            test_index: self.test_index,
            test_speaker: self.test_speaker.clone(),
            dev_index: self.dev_index,
            dev_speaker: self.dev_speaker.clone(),
        }
    }

    /// Returns the number of vectors of the longest recording.
    pub(super) fn longest(&self) -> usize {
        let samples = self.max_seconds * f64::from(self.rate);
        ((samples / self.mel().hop_samples() as f64 / self.stride as f64).ceil() as usize).max(1)
    }

    fn validate(&self) -> Result<(), ConfigError> {
        let within = |field: &str, value: f64, low: f64, high: f64| match (low..=high).contains(&value) {
            true => Ok(()),
            false => Err(ConfigError::new(field, value, format!("from {low} to {high}"))),
        };
        within("rate", f64::from(self.rate), 1_000.0, 96_000.0)?;
        within("window", self.window, 1.0, 1_000.0)?;
        within("hop", self.hop, 1.0, 1_000.0)?;
        within("bands", self.bands as f64, 1.0, 512.0)?;
        within("stack", self.stack as f64, 1.0, 256.0)?;
        within("stride", self.stride as f64, 1.0, 256.0)?;
        within("max_seconds", self.max_seconds, 0.1, 3_600.0)?;
        let (low, high) = (self.low, self.mel().high);
        if !(low >= 0.0 && low < high && high <= f64::from(self.rate) / 2.0) {
            let allowed = format!("0 ≤ low < high ≤ {}, half of data.rate", self.rate / 2);
            return Err(ConfigError::new("low and high", format!("{low} and {high}"), allowed));
        }
        if !(self.floor > 0.0 && self.floor <= 1.0) {
            return Err(ConfigError::new("floor", self.floor, "above 0 and at most 1"));
        }
        if self.hop > self.window {
            let allowed = format!("at most data.window, {}: every sample is to be heard", self.window);
            return Err(ConfigError::new("hop", self.hop, allowed));
        }
        if self.stride > self.stack {
            let allowed = format!("at most data.stack, {}: every frame is to be heard", self.stack);
            return Err(ConfigError::new("stride", self.stride, allowed));
        }
        self.augment.validate().map_err(|error| error.within("augment"))?;
        if self.path.is_none()
            && let Some((field, value)) = self.held().given()
        {
            let field = field.trim_start_matches("data.");
            return Err(ConfigError::new(field, value, "nothing: the built-in recordings have fixed splits"));
        }
        Ok(())
    }
}

impl DataSection for DataConfig {
    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn fingerprint(&self) -> Result<String, TaskError> {
        match &self.path {
            Some(path) => Ok(fingerprint_recordings(path)?),
            None => Ok(format!("built-in {}", builtin::spoken_fingerprint())),
        }
    }
}

/// Search for the most probable text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Search {
    /// Number of prefixes kept at each frame; with 1, the most probable label of each frame is taken.
    pub size: usize,
}

impl Default for Search {
    fn default() -> Self {
        Self { size: 1 }
    }
}

/// Sections that only this task has.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Decoding {
    /// Search for the most probable text.
    pub decode: Search,
}

/// The configuration of `speech`.
pub type Config = RunConfig<DataConfig, ModelConfig, Decoding>;

impl Validate for Config {
    fn validate(&self) -> Result<(), TaskError> {
        self.data.validate().map_err(|error| error.within("data"))?;
        check_positive("train.batch_tokens", self.train.batch_tokens)?;
        if self.data.path.is_none() {
            check_built_in(self.data.fold, &[])?;
        }
        let size = self.more.decode.size;
        if !(1..=MOST_PREFIXES).contains(&size) {
            return Err(
                ConfigError::new("decode.size", size, format!("a whole number from 1 to {MOST_PREFIXES}")).into()
            );
        }
        let smoothing = self.train.label_smoothing;
        if self.data.target == Aim::Text && smoothing != 0.0 {
            return Err(ConfigError::new("train.label_smoothing", smoothing, "0 when data.target is text").into());
        }
        Ok(self.model.validate().map_err(|error| error.within("model"))?)
    }
}
