//! The keys of `[model]`, which depend on the chosen kind of network.

use std::collections::BTreeSet;

use regard_nn::config::{expected_names, name_the_nearest, nearest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::{GivenKey, Others, Problem, Unused, lay_over, read, settings};
use crate::error::TaskError;

/// Key of `[model]` that decides which others there are.
pub(super) const KIND: &str = "kind";

/// The kinds of networks of a task, each with its keys of `[model]`.
pub(crate) struct Kinds(Vec<(String, BTreeSet<String>)>);

impl Kinds {
    /// Returns the kinds of the task whose configuration is `C`.
    pub fn of<C: Serialize + DeserializeOwned>() -> Self {
        // Serde lists the kinds in its error for one that does not exist.
        let message = keys_of::<C>(&Value::String("?".to_string())).err().map_or(String::new(), |error| error.message);
        let keys = |kind: &str| Some((kind.to_string(), keys_of::<C>(&Value::String(kind.to_string())).ok()?));
        Self(expected_names(&message).filter_map(keys).collect())
    }

    /// Returns whether a kind of network has a key of `[model]`; `kind` itself is in all of them.
    pub fn has(&self, kind: &str, key: &str) -> bool {
        self.0.iter().any(|(name, keys)| name == kind && keys.contains(key))
    }

    /// Sets the kind of network in the table.
    pub(super) fn choose<C: Serialize + DeserializeOwned>(
        &self,
        kind: GivenKey,
        table: &mut Table,
    ) -> Result<(), TaskError> {
        if let Some((_, name)) = kind.of_model() {
            keys_of::<C>(name).map_err(|problem| self.refused(&kind, &problem, table))?;
        }
        lay_over(table, kind.over, Others::Stay);
        Ok(())
    }

    /// Sets a key in the table. Other settings beside it stay if the configuration can be read that way; otherwise they go.
    pub(super) fn lay<C: DeserializeOwned>(&self, one: GivenKey, table: &mut Table) -> Result<(), TaskError> {
        let with = |others| {
            let mut laid = table.clone();
            lay_over(&mut laid, one.over.clone(), others);
            read::<C>(&laid).map(|_| laid)
        };
        let laid = with(Others::Stay).or_else(|problem| with(Others::Go).map_err(|_| problem));
        *table = laid.map_err(|problem| self.refused(&one, &problem, table))?;
        Ok(())
    }

    /// Returns the error for a refused key, with the nearest valid name here, in another section or in another kind of network.
    fn refused(&self, one: &GivenKey, Problem { path, message }: &Problem, table: &Table) -> TaskError {
        let all = self.0.iter().flat_map(|(_, keys)| keys).map(String::as_str);
        let of_another_kind = |unknown: &str| {
            let (key, _) = one.of_model().filter(|(key, _)| *key == unknown)?;
            nearest(key, all).map(|name| format!("model.{name}"))
        };
        let elsewhere = |unknown: &str| in_another_section(unknown, table).or_else(|| of_another_kind(unknown));
        let message = name_the_nearest(message, elsewhere);
        // Inside a table tagged by its kind, serde loses the path.
        let path = if path.starts_with(&one.key) { path } else { &one.key };
        settings(&one.place, format!("{path}: {message}"))
    }

    /// Removes the keys of `[model]` that its kind does not have.
    pub fn keep_known(&self, table: &mut Table) {
        let Some(keys) = self.keys(table) else { return };
        if let Some(Value::Table(model)) = table.get_mut("model") {
            model.retain(|key, _| keys.contains(key));
        }
    }

    /// Returns the key as unused if only kinds other than the table's have it.
    pub(super) fn unused(&self, table: &Table, one: &GivenKey) -> Option<Unused> {
        let (key, _) = one.of_model()?;
        if self.keys(table)?.contains(key) {
            return None;
        }
        let having = self.0.iter().filter(|(_, keys)| keys.contains(key)).map(|(kind, _)| kind.as_str());
        let having = Some(having.collect::<Vec<_>>()).filter(|kinds| !kinds.is_empty())?.join(" or ");
        let problem = format!("model.kind={} has no {key}; model.kind={having} has it", chosen(table)?);
        Some(Unused { place: one.place.clone(), key: one.key.clone(), problem })
    }

    /// Returns the keys of the table's kind.
    fn keys(&self, table: &Table) -> Option<&BTreeSet<String>> {
        let kind = chosen(table)?;
        self.0.iter().find(|(name, _)| name == kind).map(|(_, keys)| keys)
    }
}

/// Returns the kind of network in the table.
fn chosen(table: &Table) -> Option<&str> {
    table.get("model")?.get(KIND)?.as_str()
}

/// Returns the keys of `[model]` for a kind of network, including `kind`.
fn keys_of<C: Serialize + DeserializeOwned>(kind: &Value) -> Result<BTreeSet<String>, Problem> {
    let model = Table::from_iter([(KIND.to_string(), kind.clone())]);
    let config: C = read(&Table::from_iter([("model".to_string(), Value::Table(model))]))?;
    let config = serde_json::to_value(config).expect("plain values");
    Ok(config["model"].as_object().into_iter().flat_map(|keys| keys.keys().cloned()).collect())
}

/// Finds a key in any section of `table` and returns it with its section.
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

    /// Returns the `[model]` section of a task as it is written to a model folder.
    fn model<T: Task>(file: Option<&Path>, sets: &[&str]) -> Result<serde_json::Value, String> {
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        let config: T::Config = resolve(T::CONFIG, file, &sets, &[]).map_err(|error| error.to_string())?;
        config.validate().map_err(|error| error.to_string())?;
        Ok(serde_json::to_value(config).unwrap()["model"].clone())
    }

    #[test]
    fn a_model_has_only_the_keys_of_its_kind() {
        let keys = |model: serde_json::Value| model.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
        let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<BTreeSet<_>>();
        let recurrent = ["kind", "d_model", "n_layers", "d_hidden", "dropout"];
        let translator = ["output_weights", "score", "attend", "selection"];
        let lstm = model::<Translate>(None, &["model.kind=lstm"]).unwrap();
        assert_eq!(keys(lstm), names(&[&recurrent[..], &translator].concat()));
        let gru = model::<Classify>(None, &["model.kind=gru"]).unwrap();
        assert_eq!(keys(gru), names(&[&recurrent[..], &["pooling", "word_dropout"]].concat()));
        let bag = model::<Classify>(None, &["model.kind=bag"]).unwrap();
        // Defaults that a kind shares with others come from the file.
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
        // A key that no kind of this task has is unknown, even if other tasks have it.
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
    fn the_order_of_kind_and_other_keys_does_not_matter() {
        let orders = [["model.d_hidden=84", "model.kind=lstm"], ["model.kind=lstm", "model.d_hidden=84"]];
        let [one, other] = orders.map(|sets| model::<Translate>(None, &sets).unwrap());
        assert_eq!(one, other);
        assert_eq!((&one["kind"], &one["d_hidden"]), (&"lstm".into(), &84.into()));
        // The last kind wins, with its own defaults.
        let back = model::<Translate>(None, &["model.kind=lstm", "model.kind=transformer"]).unwrap();
        assert_eq!(back, model::<Translate>(None, &[]).unwrap());
    }

    #[test]
    fn only_changed_keys_of_a_file_can_be_refused() {
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
        // A copy of the defaults works for any kind.
        let lstm = model::<Translate>(None, &["model.kind=lstm"]).unwrap();
        assert_eq!(with(Translate::CONFIG, &["model.kind=lstm"]).unwrap(), lstm);
        let changed = Translate::CONFIG.replace("kind = \"transformer\"", "kind = \"lstm\"");
        assert_eq!(with(&changed, &[]).unwrap(), lstm);
        assert!(with("\"model.kind\" = \"lstm\"\n", &[]).unwrap_err().contains("unknown field"));
        assert!(with("[modle]\n", &[]).unwrap_err().contains("did you mean `model`?"));
    }
}
