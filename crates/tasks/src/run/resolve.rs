//! The configuration of a run: the task's defaults, what follows the data, files and flags.

use regard_ops::Precision;

use super::Request;
use crate::auto::{Asked, Auto, Choice, Facts};
use crate::error::{TaskError, path_text};
use crate::settings::{Resolved, resolve_loosely};
use crate::task::{Settings, Task};

/// Resolves the configuration of a new run. Given data decide what the user has not set, unless `auto` is off.
pub(super) fn chosen<T: Task>(request: &Request) -> Result<Resolved<T::Config>, TaskError> {
    let plain = plain::<T>(request)?;
    if !follows_data(&plain.config) {
        return Ok(plain);
    }
    // The data are read once more when the task starts. That takes a small part of a run, and a task that kept them would hold
    // them twice while it encodes them.
    let raw = T::raw(&plain.config).map_err(TaskError::in_file(plain.config.data_path()))?;
    let choice = raw.and_then(|splits| {
        let facts = Facts::of(&splits);
        drop(splits);
        T::choose(&facts, &Asked::new(&plain.config, &plain.given))
    });
    let found = resolved::<T>(request, &choice.unwrap_or_default())?;
    validate(&found.config)?;
    Ok(found)
}

/// Resolves the configuration of a request before anything is chosen. Sizes that the user has set may fit the chosen model, although
/// they do not fit the default one, so they are checked later.
pub(super) fn plain<T: Task>(request: &Request) -> Result<Resolved<T::Config>, TaskError> {
    let plain = resolved::<T>(request, &Choice::default())?;
    match validate(&plain.config) {
        Err(TaskError::Config(error)) if error.field.starts_with("model.") && follows_data(&plain.config) => Ok(plain),
        checked => checked.map(|()| plain),
    }
}

/// Returns whether settings that are not given follow the data.
pub(super) fn follows_data(config: &impl Settings) -> bool {
    config.auto() == Auto::On && config.data_path().is_some()
}

fn validate(config: &impl Settings) -> Result<(), TaskError> {
    config.train().validate()?;
    config.validate()
}

/// Resolves the configuration of a request without a look at its values.
fn resolved<T: Task>(request: &Request, choice: &Choice) -> Result<Resolved<T::Config>, TaskError> {
    let flags = [
        (
            "--data",
            "data.path",
            request.data.as_deref().map(|path| path_text(path).map(toml::Value::String)).transpose()?,
        ),
        ("--steps", "train.steps", request.steps.map(number).transpose()?),
        ("--seed", "seed", request.seed.map(number).transpose()?),
        ("--precision", "train.precision", request.precision.map(|precision| name(precision).into())),
    ];
    resolve_loosely(T::CONFIG, choice, request.config.as_deref(), &request.sets, &flags)
}

/// Converts the number given with a flag to TOML.
fn number(value: u64) -> Result<toml::Value, TaskError> {
    let number = i64::try_from(value).map_err(|_| TaskError::input("number", "at most 2⁶³ − 1", value.to_string()))?;
    Ok(toml::Value::Integer(number))
}

/// Returns the name of a precision in a configuration.
fn name(precision: Precision) -> &'static str {
    match precision {
        Precision::F32 => "f32",
        Precision::Bf16 => "bf16",
    }
}
