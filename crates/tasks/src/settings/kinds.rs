//! Which keys `[model]` has: those of the chosen kind of network.

use std::collections::BTreeSet;

use regard_nn::config::{expected_names, name_the_nearest, nearest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::{GivenKey, Others, Problem, Unused, lay_over, read, settings};
use crate::error::TaskError;

/// The key of `[model]` that decides which others there are.
pub(super) const KIND: &str = "kind";

/// The kinds of networks that a task has, each with its keys of `[model]`.
pub(super) struct Kinds(Vec<(String, BTreeSet<String>)>);

impl Kinds {
    /// The kinds of the task whose configuration this is.
    pub fn of<C: Serialize + DeserializeOwned>() -> Self {
        // Serde names the kinds where one is asked for that does not exist.
        let message = keys_of::<C>(&Value::String("?".to_string())).err().map_or(String::new(), |error| error.message);
        let keys = |kind: &str| Some((kind.to_string(), keys_of::<C>(&Value::String(kind.to_string())).ok()?));
        Self(expected_names(&message).filter_map(keys).collect())
    }

    /// Makes a kind of network the one of the table.
    pub fn choose<C: Serialize + DeserializeOwned>(&self, kind: GivenKey, table: &mut Table) -> Result<(), TaskError> {
        if let Some((_, name)) = kind.of_model() {
            keys_of::<C>(name).map_err(|problem| self.refused(&kind, &problem, table))?;
        }
        lay_over(table, kind.over, Others::Stay);
        Ok(())
    }

    /// Lays a key upon the table: others stay where the configuration can be read so, else they go.
    pub fn lay<C: DeserializeOwned>(&self, one: GivenKey, table: &mut Table) -> Result<(), TaskError> {
        let with = |others| {
            let mut laid = table.clone();
            lay_over(&mut laid, one.over.clone(), others);
            read::<C>(&laid).map(|_| laid)
        };
        let laid = with(Others::Stay).or_else(|problem| with(Others::Go).map_err(|_| problem));
        *table = laid.map_err(|problem| self.refused(&one, &problem, table))?;
        Ok(())
    }

    /// The error, with the nearest valid name if there is one: here, in another section, or in another kind of network.
    fn refused(&self, one: &GivenKey, Problem { path, message }: &Problem, table: &Table) -> TaskError {
        let all = self.0.iter().flat_map(|(_, keys)| keys).map(String::as_str);
        let of_another_kind = |unknown: &str| {
            let (key, _) = one.of_model().filter(|(key, _)| *key == unknown)?;
            nearest(key, all).map(|name| format!("model.{name}"))
        };
        let elsewhere = |unknown: &str| in_another_section(unknown, table).or_else(|| of_another_kind(unknown));
        let message = name_the_nearest(message, elsewhere);
        // Within a table that is tagged by its kind, serde does not know where it is.
        let path = if path.starts_with(&one.key) { path } else { &one.key };
        settings(&one.place, format!("{path}: {message}"))
    }

    /// Drops the keys of `[model]` that its kind does not have.
    pub fn keep_known(&self, table: &mut Table) {
        let Some(keys) = self.keys(table) else { return };
        if let Some(Value::Table(model)) = table.get_mut("model") {
            model.retain(|key, _| keys.contains(key));
        }
    }

    /// The key as an unused one, if it is a key of other kinds than the table's.
    pub fn unused(&self, table: &Table, one: &GivenKey) -> Option<Unused> {
        let (key, _) = one.of_model()?;
        if self.keys(table)?.contains(key) {
            return None;
        }
        let having = self.0.iter().filter(|(_, keys)| keys.contains(key)).map(|(kind, _)| kind.as_str());
        let having = Some(having.collect::<Vec<_>>()).filter(|kinds| !kinds.is_empty())?.join(" or ");
        let problem = format!("model.kind={} has no {key}; model.kind={having} has it", chosen(table)?);
        Some(Unused { place: one.place.clone(), key: one.key.clone(), problem })
    }

    /// The keys of the table's kind.
    fn keys(&self, table: &Table) -> Option<&BTreeSet<String>> {
        let kind = chosen(table)?;
        self.0.iter().find(|(name, _)| name == kind).map(|(_, keys)| keys)
    }
}

/// The kind of network that the table has.
fn chosen(table: &Table) -> Option<&str> {
    table.get("model")?.get(KIND)?.as_str()
}

/// The keys of `[model]` for a kind of network, `kind` among them.
fn keys_of<C: Serialize + DeserializeOwned>(kind: &Value) -> Result<BTreeSet<String>, Problem> {
    let model = Table::from_iter([(KIND.to_string(), kind.clone())]);
    let config: C = read(&Table::from_iter([("model".to_string(), Value::Table(model))]))?;
    let config = serde_json::to_value(config).expect("plain values");
    Ok(config["model"].as_object().into_iter().flat_map(|keys| keys.keys().cloned()).collect())
}

/// A key that `table` has in one of its sections, with the section before it.
fn in_another_section(key: &str, table: &Table) -> Option<String> {
    let section = table.iter().find(|(_, keys)| keys.as_table().is_some_and(|keys| keys.contains_key(key)));
    section.map(|(section, _)| format!("{section}.{key}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::classify::Classify;
    use crate::settings::resolve;
    use crate::task::{Task, Validate};
    use crate::translate::Translate;

    /// The `[model]` section of a task, as it is written to a model folder.
    fn model<T: Task>(file: Option<&Path>, sets: &[&str]) -> Result<serde_json::Value, String> {
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        let config: T::Config = resolve(T::CONFIG, file, &sets, &[]).map_err(|error| error.to_string())?;
        config.validate().map_err(|error| error.to_string())?;
        Ok(serde_json::to_value(config).unwrap()["model"].clone())
    }

    #[test]
    fn a_model_has_the_keys_of_its_kind_alone() {
        let keys = |model: serde_json::Value| model.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
        let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<BTreeSet<_>>();
        let recurrent = ["kind", "d_model", "n_layers", "d_hidden", "dropout"];
        let translator = ["output_weights", "score", "attend", "selection"];
        let lstm = model::<Translate>(None, &["model.kind=lstm"]).unwrap();
        assert_eq!(keys(lstm), names(&[&recurrent[..], &translator].concat()));
        let gru = model::<Classify>(None, &["model.kind=gru"]).unwrap();
        assert_eq!(keys(gru), names(&[&recurrent[..], &["pooling", "word_dropout"]].concat()));
        let bag = model::<Classify>(None, &["model.kind=bag"]).unwrap();
        // Defaults that a kind shares with others are those of the file.
        assert_eq!((&bag["d_model"], &bag["d_ff"], &bag["pooling"]["kind"]), (&64.into(), &128.into(), &"mean".into()));
        assert_eq!(keys(bag), names(&["kind", "d_model", "n_layers", "d_ff", "pooling", "dropout", "word_dropout"]));
        let transformer = keys(model::<Translate>(None, &[]).unwrap());
        assert!(transformer.contains("memory") && !transformer.contains("score"), "{transformer:?}");
    }

    #[test]
    fn a_key_of_another_kind_is_refused_with_the_kinds_that_have_it() {
        let refused = |sets: &[&str]| model::<Translate>(None, sets).unwrap_err();
        let expected = "--set model.n_heads=8: model.kind=lstm has no n_heads; model.kind=transformer has it";
        assert_eq!(refused(&["model.kind=lstm", "model.n_heads=8"]), expected);
        assert_eq!(refused(&["model.n_heads=8", "model.kind=lstm"]), expected);
        let expected =
            "--set model.score=dot: model.kind=transformer has no score; model.kind=rnn or lstm or gru has it";
        assert_eq!(refused(&["model.score=dot"]), expected);
        // A key that no kind of the task has is unknown, wherever else it is known.
        let error = refused(&["model.kind=lstm", "model.pooling=mean"]);
        assert!(error.contains("model.pooling: unknown field `pooling`"), "{error}");
        let error = refused(&["model.kind=lstm", "model.atend=before"]);
        assert!(error.contains("did you mean `attend`?"), "{error}");
        let error = refused(&["model.selecton=soft"]);
        assert!(error.contains("did you mean `model.selection`?"), "{error}");
        let error = refused(&["model.kind=lsmt"]);
        assert!(error.contains("model.kind: unknown variant `lsmt`; did you mean `lstm`?"), "{error}");
        let error = refused(&["model.n_heads=many"]);
        assert!(error.contains("model.n_heads: invalid type"), "{error}");
    }

    #[test]
    fn the_kind_counts_wherever_it_is_given() {
        let orders = [["model.d_hidden=84", "model.kind=lstm"], ["model.kind=lstm", "model.d_hidden=84"]];
        let [one, other] = orders.map(|sets| model::<Translate>(None, &sets).unwrap());
        assert_eq!(one, other);
        assert_eq!((&one["kind"], &one["d_hidden"]), (&"lstm".into(), &84.into()));
        // The last kind counts, with the defaults that it has.
        let back = model::<Translate>(None, &["model.kind=lstm", "model.kind=transformer"]).unwrap();
        assert_eq!(back, model::<Translate>(None, &[]).unwrap());
    }

    #[test]
    fn a_file_is_refused_for_what_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        let with = |text: &str, sets: &[&str]| {
            std::fs::write(&file, text).unwrap();
            model::<Translate>(Some(&file), sets)
        };
        let error = with("[model]\nn_heads = 8\nkind = \"gru\"\n", &[]).unwrap_err();
        assert!(error.ends_with("c.toml: model.kind=gru has no n_heads; model.kind=transformer has it"), "{error}");
        let error = with("[model]\nn_heads = 8\n", &["model.kind=gru"]).unwrap_err();
        assert!(error.contains("c.toml") && error.contains("n_heads"), "{error}");
        let error = with("[model]\nn_layers = \"two\"\n", &[]).unwrap_err();
        assert!(error.contains("c.toml: model.n_layers: invalid type"), "{error}");
        // A copy of the defaults can be used for any kind.
        let lstm = model::<Translate>(None, &["model.kind=lstm"]).unwrap();
        assert_eq!(with(Translate::CONFIG, &["model.kind=lstm"]).unwrap(), lstm);
        let changed = Translate::CONFIG.replace("kind = \"transformer\"", "kind = \"lstm\"");
        assert_eq!(with(&changed, &[]).unwrap(), lstm);
        assert!(with("\"model.kind\" = \"lstm\"\n", &[]).unwrap_err().contains("unknown field"));
        assert!(with("[modle]\n", &[]).unwrap_err().contains("did you mean `model`?"));
    }
}
