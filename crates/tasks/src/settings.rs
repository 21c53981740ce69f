//! The configuration of a run: the task's commented TOML file, a file of the user's over it, single keys over both.

use std::path::Path;

use regard_nn::config::name_the_nearest;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::error::TaskError;

/// Reads `defaults`, lays `file` over it key by key, then each `key=value` of `sets`, then what flags with a key of their own
/// say, as `(flag, key, value)`.
///
/// A key that the task does not know is refused with those it knows. A path to data becomes absolute: the configuration will
/// be read from elsewhere.
pub fn resolve<C: DeserializeOwned>(
    defaults: &str,
    file: Option<&Path>,
    sets: &[String],
    flags: &[(&str, &str, Option<Value>)],
) -> Result<C, TaskError> {
    let mut table: Table = defaults.parse().expect("the task's own configuration");
    let mut layers: Vec<(String, Table)> = Vec::new();
    if let Some(path) = file {
        let place = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| settings(&place, error))?;
        let over = text.parse().map_err(|error: toml::de::Error| settings(&place, error))?;
        layers.push((place, over));
    }
    for set in sets {
        let place = format!("--set {set}");
        let Some((key, text)) = set.split_once('=') else {
            return Err(settings(&place, "expected key=value, such as train.steps=500"));
        };
        let over = nested(key.trim(), value(text.trim()), &place)?;
        layers.push((place, over));
    }
    for (flag, key, value) in flags {
        if let Some(value) = value {
            layers.push((flag.to_string(), nested(key, value.clone(), flag)?));
        }
    }
    leave_the_end_to(&layers, &mut table);
    for (place, over) in layers {
        lay::<C>(&mut table, over, &place)?;
    }
    if let Some(Value::String(path)) = table.get_mut("data").and_then(|data| data.get_mut("path")) {
        *path = Path::new(path).canonicalize().map_err(TaskError::io(&*path))?.display().to_string();
    }
    read(&table, "configuration")
}

/// Whoever says in steps or in epochs when a run ends does not mean the default end in the other measure as well.
fn leave_the_end_to(layers: &[(String, Table)], defaults: &mut Table) {
    let says =
        |key: &str| layers.iter().any(|(_, over)| over.get("train").is_some_and(|train| train.get(key).is_some()));
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

/// Reads a configuration as a model folder's `config.json` is read, from JSON: one reader to compile, and one set of messages.
fn read<C: DeserializeOwned>(table: &Table, place: &str) -> Result<C, TaskError> {
    let json = Value::Table(table.clone());
    let json = to_json(&json).map_err(|(key, problem)| settings(place, format!("{key}: {problem}")))?;
    serde_path_to_error::deserialize(&json).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner().to_string();
        let inner = name_the_nearest(inner.trim_end(), |key| in_another_section(key, table));
        if path == "." { settings(place, inner) } else { settings(place, format!("{path}: {inner}")) }
    })
}

/// The same value in JSON, or the key of a value that JSON does not have and what to write instead.
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

/// A key that `table` has in one of its sections, with the section before it.
fn in_another_section(key: &str, table: &Table) -> Option<String> {
    let section = table.iter().find(|(_, keys)| keys.as_table().is_some_and(|keys| keys.contains_key(key)));
    section.map(|(section, _)| format!("{section}.{key}"))
}

/// A value as TOML writes it; what is none is text: `rope` is `"rope"`.
fn value(text: &str) -> Value {
    let parsed: Result<Table, _> = format!("value = {text}").parse();
    match parsed {
        Ok(mut table) if table.len() == 1 => table.remove("value").unwrap_or_else(|| Value::String(text.to_string())),
        _ => Value::String(text.to_string()),
    }
}

/// `a.b.c = value` as nested tables.
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

/// What becomes of the settings of a table within a section whose `kind` changes.
#[derive(Clone, Copy, PartialEq)]
enum Others {
    /// They stay, as the size of a vocabulary does for another kind of tokeniser.
    Stay,
    /// They go, as the base of rotations does for positions of another kind.
    Go,
}

/// Lays `over` upon the table: others stay where the configuration can be read so, else they go.
fn lay<C: DeserializeOwned>(table: &mut Table, over: Table, place: &str) -> Result<(), TaskError> {
    let with = |others| {
        let mut laid = table.clone();
        lay_over(&mut laid, over.clone(), others);
        read::<C>(&laid, place).map(|_| laid)
    };
    *table = with(Others::Stay).or_else(|error| with(Others::Go).map_err(|_| error))?;
    Ok(())
}

/// Sections are merged key by key, and so are tables within them.
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

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Model {
        size: usize,
        name: String,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
    enum Place {
        Rope { base: f64 },
        Alibi {},
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Tokens {
        kind: String,
        vocab: usize,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Kinds {
        place: Place,
        tokens: Tokens,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nested {
        model: Kinds,
    }

    #[test]
    fn another_kind_keeps_the_settings_that_it_knows() {
        let defaults = "[model]\nplace = { kind = \"rope\", base = 10.0 }\ntokens = { kind = \"word\", vocab = 50 }\n";
        let sets = ["model.place.kind=alibi".to_string(), "model.tokens.kind=bpe".to_string()];
        let config: Nested = resolve(defaults, None, &sets, &[]).unwrap();
        assert_eq!(config.model.place, Place::Alibi {});
        assert_eq!(config.model.tokens, Tokens { kind: "bpe".into(), vocab: 50 });
        let sets = ["model.place.base=5.0".to_string()];
        let config: Nested = resolve(defaults, None, &sets, &[]).unwrap();
        assert_eq!(config.model.place, Place::Rope { base: 5.0 });
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Config {
        seed: u64,
        model: Model,
    }

    const DEFAULTS: &str = "seed = 1 # of all\n[model]\nsize = 4\nname = \"rope\"\n";

    fn set(sets: &[&str]) -> Result<Config, TaskError> {
        resolve(DEFAULTS, None, &sets.iter().map(|set| set.to_string()).collect::<Vec<_>>(), &[])
    }

    #[test]
    fn keys_lie_over_the_file_over_the_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        std::fs::write(&file, "seed = 2\n[model]\nsize = 5\n").unwrap();
        let flags = [("--seed", "seed", Some(Value::Integer(8))), ("--steps", "steps", None)];
        let sets = ["model.name=alibi".into(), "seed = 7".into()];
        let config: Config = resolve(DEFAULTS, Some(&file), &sets, &flags).unwrap();
        assert_eq!(config, Config { seed: 8, model: Model { size: 5, name: "alibi".into() } });
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct End {
        steps: Option<u64>,
        epochs: Option<u64>,
    }

    #[test]
    fn an_end_in_epochs_replaces_one_in_steps() {
        #[derive(Deserialize)]
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
