//! The configuration of a run: the sections that every task has and those that a task adds.

use std::fmt::Debug;
use std::path::Path;

use regard_data::{Column, Fold};
use regard_nn::ConfigError;
use regard_nn::config::check_positive;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::auto::Auto;
use crate::error::TaskError;
use crate::extended::Extended;
use crate::task::{Settings, Validate};
use crate::train::TrainConfig;

/// A section of a configuration, with a default for each of its keys.
pub trait Section: Serialize + DeserializeOwned + Default + Debug + Clone {}

impl<T: Serialize + DeserializeOwned + Default + Debug + Clone> Section for T {}

/// The `[data]` section of a task.
pub trait DataSection: Section {
    /// Returns the path of the examples; `None` for built-in data.
    fn path(&self) -> Option<&Path>;

    /// Returns a fingerprint of the data: of the content of the file or folder, or of the built-in data. A task that reads other
    /// data implements it itself.
    fn fingerprint(&self) -> Result<String, TaskError> {
        match self.path() {
            Some(path) => Ok(regard_data::fingerprint(path)?),
            None => Ok(format!("built-in {}", regard_data::builtin::fingerprint())),
        }
    }
}

/// Returns an error unless `max_length` is at least 1 and `longest` from 1 to `max_length`; both are keys of `[data]`.
pub fn check_lengths(max_length: usize, longest: Option<usize>) -> Result<(), ConfigError> {
    check_positive("data.max_length", max_length)?;
    match longest {
        Some(longest) if !(1..=max_length).contains(&longest) => {
            Err(ConfigError::new("data.longest", longest, format!("1 to data.max_length, {max_length}")))
        }
        _ => Ok(()),
    }
}

/// Returns an error if `[data]` has a fold or a column, given by key, although the data are built in.
pub fn check_built_in(fold: Option<Fold>, columns: &[(&str, &Option<Column>)]) -> Result<(), ConfigError> {
    if let Some(fold) = fold {
        return Err(ConfigError::new("data.fold", fold, "no fold: the built-in data have fixed splits"));
    }
    match columns.iter().find_map(|(key, column)| Some((key, column.as_ref()?))) {
        Some((key, column)) => Err(ConfigError::new(*key, column, "no column: the built-in data have none")),
        None => Ok(()),
    }
}

/// The configuration of a task with `Data` and `Model` as its `[data]` and `[model]` sections and `More` as further ones.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(from = "Extended<Shared<Data, Model>, More>")]
#[serde(bound(deserialize = "Data: Section, Model: Section, More: Section"))]
pub struct RunConfig<Data, Model, More = NoMore> {
    /// Seed of the initial weights, the order of examples and dropout.
    pub seed: u64,
    /// Whether settings that are not given follow the data.
    pub auto: Auto,
    /// The `[data]` section: where the examples come from.
    pub data: Data,
    /// The `[model]` section: the network.
    pub model: Model,
    /// The `[train]` section: how the network is trained.
    pub train: TrainConfig,
    /// Sections that only this task has, beside the others in the file.
    #[serde(flatten)]
    pub more: More,
}

/// The further sections of a task that has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoMore {}

/// The sections that every configuration has, in the form in which they are read.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Shared<Data, Model> {
    seed: u64,
    auto: Auto,
    data: Data,
    model: Model,
    train: TrainConfig,
}

impl<Data, Model, More> From<Extended<Shared<Data, Model>, More>> for RunConfig<Data, Model, More> {
    fn from(read: Extended<Shared<Data, Model>, More>) -> Self {
        let Extended { base: Shared { seed, auto, data, model, train }, more } = read;
        Self { seed, auto, data, model, train, more }
    }
}

impl<Data: DataSection, Model: Section, More: Section> Settings for RunConfig<Data, Model, More>
where
    Self: Validate,
{
    fn train(&self) -> &TrainConfig {
        &self.train
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn auto(&self) -> Auto {
        self.auto
    }

    fn data_path(&self) -> Option<&Path> {
        self.data.path()
    }

    fn fingerprint(&self) -> Result<String, TaskError> {
        self.data.fingerprint()
    }
}
