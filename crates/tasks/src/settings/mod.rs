//! Resolution of configurations: the task's commented TOML file, overridden by what the task chooses for the data, overridden by
//! the user's file, overridden by single keys.

mod kinds;

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use self::kinds::KIND;
pub(crate) use self::kinds::Kinds;
use crate::auto::Choice;
use crate::error::{TaskError, path_text};

/// A configuration, and the given keys that it does not use.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved<C> {
    /// Configuration without the unused keys.
    pub config: C,
    /// Given keys that only other kinds of networks have.
    pub unused: Vec<Unused>,
    /// All given keys, down to those of inner tables.
    pub given: BTreeSet<String>,
    /// What was chosen for the data and why, as lines.
    pub chosen: Vec<String>,
}

/// A key of `[model]` that was given although the chosen kind of network does not have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unused {
    /// File, or `--set key=value`.
    pub place: String,
    /// Key with its section, such as `model.n_heads`.
    pub key: String,
    /// Message that names the kinds that have the key.
    pub problem: String,
}

impl From<Unused> for TaskError {
    fn from(Unused { place, problem, .. }: Unused) -> Self {
        Self::Settings { place, problem }
    }
}

impl<C> Resolved<C> {
    /// Returns the configuration, or an error if a given key is not used.
    pub fn all_used(self) -> Result<C, TaskError> {
        match self.unused.into_iter().next() {
            Some(unused) => Err(unused.into()),
            None => Ok(self.config),
        }
    }
}

/// Reads `defaults` and overrides them key by key with `file`, then with each `key=value` of `sets`, then with `flags`, given as
/// `(flag, key, value)`.
///
/// Returns an error for a key that the task does not know, and for a key of `[model]` that the chosen kind of network does not
/// have. The path to the data becomes absolute, because the configuration will be read from other folders.
pub fn resolve<C: Serialize + DeserializeOwned>(
    defaults: &str,
    file: Option<&Path>,
    sets: &[String],
    flags: &[(&str, &str, Option<Value>)],
) -> Result<C, TaskError> {
    resolve_loosely(defaults, &Choice::default(), file, sets, flags)?.all_used()
}

/// Does the same as [`resolve`], but drops and lists the keys that the chosen kind of network does not have. The settings of
/// `choice` come after the defaults and before what is given.
pub fn resolve_loosely<C: Serialize + DeserializeOwned>(
    defaults: &str,
    choice: &Choice,
    file: Option<&Path>,
    sets: &[String],
    flags: &[(&str, &str, Option<Value>)],
) -> Result<Resolved<C>, TaskError> {
    let mut table: Table = defaults.parse().expect("the default configuration is valid TOML");
    let given = given(file, &table, sets, flags)?;
    let keys: BTreeSet<String> = given.iter().flat_map(|one| leaves(&one.over, "")).collect();
    let is_free = |key: &str| !keys.iter().any(|given| is_under(given, key) || is_under(key, given));
    for (key, value) in choice.0.iter().flat_map(|reason| &reason.settings).filter(|(key, _)| is_free(key)) {
        put(&mut table, key, value.clone());
        if let ("train.steps", Some(Value::Table(train))) = (key.as_str(), table.get_mut("train")) {
            train.remove("epochs");
        }
    }
    leave_the_end_to(&given, &mut table);
    let kinds = Kinds::of::<C>();
    // The kind comes first wherever it is given, because the other keys depend on it.
    let (chosen, others): (Vec<GivenKey>, Vec<GivenKey>) = given.into_iter().partition(GivenKey::is_kind);
    for kind in chosen {
        kinds.choose::<C>(kind, &mut table)?;
    }
    kinds.keep_known(&mut table);
    let is_used = |key: &str| is_free(key) && at(&table, key).is_some();
    let chosen = choice.0.iter().map(|reason| reason.line(is_used)).collect();
    let mut unused = Vec::new();
    for one in others {
        match kinds.unused(&table, &one) {
            Some(found) => unused.push(found),
            None => kinds.lay::<C>(one, &mut table)?,
        }
    }
    make_absolute(&mut table)?;
    let config =
        read(&table).map_err(|Problem { path, message }| settings("configuration", format!("{path}: {message}")))?;
    Ok(Resolved { config, unused, given: keys, chosen })
}

/// Returns whether `key` is `other` or a key inside it.
pub(crate) fn is_under(key: &str, other: &str) -> bool {
    key.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the keys of all values in a table that are not tables themselves.
fn leaves(table: &Table, before: &str) -> Vec<String> {
    let inner = |(key, value): (&String, &Value)| match value {
        Value::Table(table) if !table.is_empty() => leaves(table, &format!("{before}{key}.")),
        _ => vec![format!("{before}{key}")],
    };
    table.iter().flat_map(inner).collect()
}

/// Returns the value of a key.
fn at<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    match key.split_once('.') {
        Some((section, rest)) => at(table.get(section)?.as_table()?, rest),
        None => table.get(key),
    }
}

/// Sets a key; missing tables on the way to it are created.
fn put(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        Some((section, rest)) => {
            let inner = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                put(inner, rest, value);
            }
        }
        None => {
            table.insert(key.to_string(), value);
        }
    }
}

/// Makes the path to the data absolute; returns an error for a pipe, which cannot be read again.
fn make_absolute(table: &mut Table) -> Result<(), TaskError> {
    if let Some(Value::String(path)) = table.get_mut("data").and_then(|data| data.get_mut("path")) {
        regard_data::check_rereadable(Path::new(path))?;
        *path = path_text(&Path::new(path).canonicalize().map_err(TaskError::io(&*path))?)?;
    }
    Ok(())
}

/// A key that the user has given.
#[derive(Debug)]
struct GivenKey {
    /// File, or `--set key=value`.
    place: String,
    /// Key with its section.
    key: String,
    /// Value, nested in the tables of the key.
    over: Table,
}

/// Returns all keys of the file, of `sets` and of `flags`, in this order. A file with all keys of the default `[model]` is taken
/// for an edited copy of it: unchanged keys are left out, because nobody has set them, and because the defaults have keys of
/// several kinds of networks. The end of the training is given by `steps` and `epochs` together.
fn given(
    file: Option<&Path>,
    defaults: &Table,
    sets: &[String],
    flags: &[(&str, &str, Option<Value>)],
) -> Result<Vec<GivenKey>, TaskError> {
    let mut all = Vec::new();
    if let Some(path) = file {
        let place = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| settings(&place, error))?;
        let over: Table = text.parse().map_err(|error: toml::de::Error| settings(&place, error))?;
        let keys = |table: &Table| table.get("model").and_then(Value::as_table).cloned().unwrap_or_default();
        let own = keys(&over);
        let is_copy = keys(defaults).keys().all(|key| own.contains_key(key));
        let repeats = |one: &GivenKey| {
            let is_end = matches!(one.key.as_str(), "train.steps" | "train.epochs");
            is_copy && !is_end && at(&one.over, &one.key) == at(defaults, &one.key)
        };
        all.extend(single_keys(over, &place).into_iter().filter(|one| !repeats(one)));
    }
    for set in sets {
        let place = format!("--set {set}");
        let Some((key, text)) = set.split_once('=') else {
            return Err(settings(&place, "expected key=value, such as train.steps=500"));
        };
        all.extend(single_keys(nested(key.trim(), value(text.trim()), &place)?, &place));
    }
    for (flag, key, value) in flags {
        if let Some(value) = value {
            all.extend(single_keys(nested(key, value.clone(), flag)?, flag));
        }
    }
    Ok(all)
}

/// Returns the value that a file or, before it, `sets` give a key.
pub(crate) fn given_value(file: Option<&Path>, sets: &[String], key: &str) -> Result<Option<Value>, TaskError> {
    let given = given(file, &Table::new(), sets, &[])?;
    Ok(given.iter().rev().find_map(|one| at(&one.over, key)).cloned())
}

/// Splits sections into single keys. A section without keys is kept as it is.
fn single_keys(sections: Table, place: &str) -> Vec<GivenKey> {
    let one = |key: String, section: String, value: Value| GivenKey {
        place: place.to_string(),
        key,
        over: Table::from_iter([(section, value)]),
    };
    let mut all = Vec::new();
    for (section, value) in sections {
        match value {
            Value::Table(keys) if !keys.is_empty() => all.extend(keys.into_iter().map(|(key, value)| {
                let path = format!("{section}.{key}");
                one(path, section.clone(), Value::Table(Table::from_iter([(key, value)])))
            })),
            value => all.push(one(section.clone(), section, value)),
        }
    }
    all
}

impl GivenKey {
    /// Returns the key without its section, and the value, if the section is `[model]`.
    fn of_model(&self) -> Option<(&str, &Value)> {
        let (key, value) = self.over.get("model")?.as_table()?.iter().next()?;
        Some((key, value))
    }

    fn is_kind(&self) -> bool {
        self.of_model().is_some_and(|(key, _)| key == KIND)
    }
}

/// Setting `steps` replaces the default `epochs`, and the other way round.
fn leave_the_end_to(given: &[GivenKey], defaults: &mut Table) {
    let says = |key: &str| given.iter().any(|one| one.key.strip_prefix("train.") == Some(key));
    if let Some(Value::Table(train)) = defaults.get_mut("train") {
        for (said, other) in [("steps", "epochs"), ("epochs", "steps")] {
            if says(said) && !says(other) {
                train.remove(other);
            }
        }
    }
}

fn settings(place: &str, problem: impl std::fmt::Display) -> TaskError {
    TaskError::Settings { place: place.to_string(), problem: problem.to_string().trim_end().to_string() }
}

/// The reason why a table is not a valid configuration.
#[derive(Debug)]
struct Problem {
    /// Path of the wrong key, as far as it is known.
    path: String,
    message: String,
}

/// Reads a configuration by way of JSON, like the `config.json` of a model folder: one reader to compile, one set of messages.
fn read<C: DeserializeOwned>(table: &Table) -> Result<C, Problem> {
    let json = to_json(&Value::Table(table.clone()))
        .map_err(|(path, message)| Problem { path, message: message.to_string() })?;
    serde_path_to_error::deserialize(&json).map_err(|error| {
        let path = error.path().to_string();
        Problem { path, message: error.into_inner().to_string().trim_end().to_string() }
    })
}

/// Converts a value to JSON. The error is the key of a value that JSON does not have, and what was expected.
fn to_json(value: &Value) -> Result<serde_json::Value, (String, &'static str)> {
    Ok(match value {
        Value::String(text) => text.as_str().into(),
        Value::Integer(number) => (*number).into(),
        Value::Boolean(truth) => (*truth).into(),
        Value::Float(number) if number.is_finite() => (*number).into(),
        Value::Float(_) => return Err((String::new(), "expected a finite number")),
        Value::Datetime(_) => {
            return Err((String::new(), "expected a text, a number or a table; put a date in quotes"));
        }
        Value::Array(values) => values.iter().map(to_json).collect::<Result<_, _>>()?,
        Value::Table(table) => {
            let entry = |(key, value): (&String, &Value)| match to_json(value) {
                Ok(json) => Ok((key.clone(), json)),
                Err((below, problem)) if below.is_empty() => Err((key.clone(), problem)),
                Err((below, problem)) => Err((format!("{key}.{below}"), problem)),
            };
            table.iter().map(entry).collect::<Result<_, _>>()?
        }
    })
}

/// Parses a value as TOML; anything else is taken as a string: `rope` is `"rope"`.
fn value(text: &str) -> Value {
    let parsed: Result<Table, _> = format!("value = {text}").parse();
    match parsed {
        Ok(mut table) if table.len() == 1 => table.remove("value").unwrap_or_else(|| Value::String(text.to_string())),
        _ => Value::String(text.to_string()),
    }
}

/// Returns `a.b.c = value` as nested tables.
fn nested(key: &str, value: Value, place: &str) -> Result<Table, TaskError> {
    let mut value = value;
    for part in key.rsplit('.') {
        if part.is_empty() {
            return Err(settings(place, "a part of the key is empty"));
        }
        value = Value::Table(Table::from_iter([(part.to_string(), value)]));
    }
    match value {
        Value::Table(table) => Ok(table),
        _ => Err(settings(place, "expected key=value")),
    }
}

/// What happens to the other settings of a table whose `kind` changes.
#[derive(Clone, Copy, PartialEq)]
enum Others {
    /// The other settings stay, like the size of the vocabulary when the kind of tokeniser changes.
    Stay,
    /// The other settings are removed, like the base of rotary positions when the kind of positions changes.
    Go,
}

/// Merges sections key by key, and also the tables inside them.
fn lay_over(table: &mut Table, over: Table, others: Others) {
    for (key, new) in over {
        match (table.get_mut(&key), new) {
            (Some(Value::Table(old)), Value::Table(new)) => {
                for (key, new) in new {
                    let merged = within(old.get(&key), new, others);
                    old.insert(key, merged);
                }
            }
            (_, new) => {
                table.insert(key, new);
            }
        }
    }
}

fn within(old: Option<&Value>, new: Value, others: Others) -> Value {
    match (old, new) {
        (Some(Value::Table(old)), Value::Table(new)) if others == Others::Stay || !new.contains_key("kind") => {
            let mut merged = old.clone();
            merged.extend(new);
            Value::Table(merged)
        }
        (Some(Value::String(kind)), Value::Table(mut new)) if !new.contains_key("kind") => {
            new.insert("kind".to_string(), Value::String(kind.clone()));
            Value::Table(new)
        }
        (_, new) => new,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Model {
        size: usize,
        name: String,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
    enum Place {
        Rope { base: f64 },
        Alibi {},
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Tokens {
        kind: String,
        vocab: usize,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Kinds {
        place: Place,
        tokens: Tokens,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nested {
        model: Kinds,
    }

    #[test]
    fn a_new_kind_keeps_the_settings_that_it_has() {
        let defaults = "[model]\nplace = { kind = \"rope\", base = 10.0 }\ntokens = { kind = \"word\", vocab = 50 }\n";
        let sets = ["model.place.kind=alibi".to_string(), "model.tokens.kind=bpe".to_string()];
        let config: Nested = resolve(defaults, None, &sets, &[]).unwrap();
        assert_eq!(config.model.place, Place::Alibi {});
        assert_eq!(config.model.tokens, Tokens { kind: "bpe".into(), vocab: 50 });
        let sets = ["model.place.base=5.0".to_string()];
        let config: Nested = resolve(defaults, None, &sets, &[]).unwrap();
        assert_eq!(config.model.place, Place::Rope { base: 5.0 });
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Config {
        seed: u64,
        model: Model,
    }

    const DEFAULTS: &str = "seed = 1 # a comment\n[model]\nsize = 4\nname = \"rope\"\n";

    fn set(sets: &[&str]) -> Result<Config, TaskError> {
        resolve(DEFAULTS, None, &sets.iter().map(|set| set.to_string()).collect::<Vec<_>>(), &[])
    }

    #[test]
    fn keys_override_the_file_and_the_file_the_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        std::fs::write(&file, "seed = 2\n[model]\nsize = 5\n").unwrap();
        let flags = [("--seed", "seed", Some(Value::Integer(8))), ("--steps", "steps", None)];
        let sets = ["model.name=alibi".into(), "seed = 7".into()];
        let config: Config = resolve(DEFAULTS, Some(&file), &sets, &flags).unwrap();
        assert_eq!(config, Config { seed: 8, model: Model { size: 5, name: "alibi".into() } });
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct End {
        steps: Option<u64>,
        epochs: Option<u64>,
    }

    #[test]
    fn epochs_replace_the_default_steps() {
        #[derive(Serialize, Deserialize)]
        struct Training {
            train: End,
        }
        let end = |sets: &[&str], flag: Option<i64>| {
            let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
            let flags = [("--steps", "train.steps", flag.map(Value::Integer))];
            let Training { train: End { steps, epochs } } =
                resolve("[train]\nsteps = 100\n", None, &sets, &flags).unwrap();
            (steps, epochs)
        };
        assert_eq!(end(&[], None), (Some(100), None));
        assert_eq!(end(&["train.epochs=3"], None), (None, Some(3)));
        assert_eq!(end(&["train.epochs=3"], Some(7)), (Some(7), Some(3)));
        assert_eq!(end(&["train.epochs=3", "train.steps=9"], None), (Some(9), Some(3)));
    }

    #[test]
    fn wrong_keys_and_values_are_named() {
        let message = |sets: &[&str]| set(sets).unwrap_err().to_string();
        assert!(message(&["model.sise=4"]).contains("sise"), "{}", message(&["model.sise=4"]));
        assert!(message(&["model.sise=4"]).contains("did you mean `size`?"));
        assert!(message(&["name=rope"]).contains("did you mean `model.name`?"));
        assert!(message(&["model.size=big"]).contains("model.size"));
        assert!(message(&["model.size"]).contains("key=value"));
        assert!(message(&["model..size=3"]).contains("empty"));
        assert!(message(&["model.size=nan"]).contains("model.size: expected a finite number"));
        assert!(message(&["model.name=2026-11-17"]).contains("model.name: expected a text"));
    }
}
