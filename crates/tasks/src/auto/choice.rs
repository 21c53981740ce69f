//! Chosen settings with their reasons, and what the user has set.

use std::collections::BTreeSet;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::settings::{Kinds, is_under};

/// The settings that a task chooses for its data.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Choice(pub Vec<Reason>);

/// A reason, and the settings that follow from it. A run prints it as a line.
#[derive(Debug, Clone, PartialEq)]
pub struct Reason {
    /// Reason in words, such as the size of the data.
    pub because: String,
    /// Settings by key, such as `model.d_model`.
    pub settings: Vec<(String, Value)>,
}

impl Choice {
    /// Leaves keys to what decides them instead, such as a model to start from.
    pub(crate) fn without(mut self, keys: &[&str]) -> Self {
        for reason in &mut self.0 {
            reason.settings.retain(|(key, _)| !keys.iter().any(|left| is_under(key, left)));
        }
        self
    }
}

impl Reason {
    /// Creates a reason without settings.
    pub fn new(because: impl Into<String>) -> Self {
        Self { because: because.into(), settings: Vec::new() }
    }

    /// Adds a setting.
    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.settings.push((key.to_string(), value.into()));
        self
    }

    /// Adds a setting given as TOML, such as a table.
    pub fn table(self, key: &str, text: &str) -> Self {
        let table: Table = format!("value = {text}").parse().expect("a rule writes valid TOML");
        self.set(key, table["value"].clone())
    }

    /// Adds a number with a fraction, rounded to what can be read.
    pub fn number(self, key: &str, value: f64) -> Self {
        self.set(key, (value * 1e9).round() / 1e9)
    }

    /// Adds a count.
    pub fn count(self, key: &str, value: usize) -> Self {
        self.set(key, i64::try_from(value).unwrap_or(i64::MAX))
    }

    /// Formats the reason with those of its settings that `is_used`.
    pub(crate) fn line(&self, is_used: impl Fn(&str) -> bool) -> String {
        let used = self.settings.iter().filter(|(key, _)| is_used(key));
        let used: Vec<String> = used.map(|(key, value)| format!("{key}={}", bare(value))).collect();
        match (self.settings.is_empty(), used.is_empty()) {
            (true, _) => format!("auto: {}", self.because),
            (false, true) => format!("auto: {}: all set by hand", self.because),
            (false, false) => format!("auto: {}: {}", self.because, used.join(", ")),
        }
    }
}

/// A value as `--set` takes it: names without quotes.
fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// What the user has set, for a rule to keep to.
#[derive(Debug)]
pub struct Asked<'a, C> {
    /// Configuration without a choice: the defaults and what the user has set.
    pub config: &'a C,
    json: serde_json::Value,
    given: &'a BTreeSet<String>,
}

impl<'a, C: Serialize + DeserializeOwned> Asked<'a, C> {
    /// Takes a configuration without a choice, and the keys in it that the user has set.
    pub(crate) fn new(config: &'a C, given: &'a BTreeSet<String>) -> Self {
        Self { config, json: serde_json::to_value(config).expect("plain values"), given }
    }

    /// Returns whether the user has set a key or a part of it.
    pub fn has(&self, key: &str) -> bool {
        self.given.iter().any(|given| is_under(given, key) || is_under(key, given))
    }

    /// Returns the number that the user has set for a key.
    pub fn number(&self, key: &str) -> Option<f64> {
        let value = key.split('.').fold(&self.json, |value, part| &value[part]);
        value.as_f64().filter(|_| self.has(key))
    }

    /// Returns the kind of network: the user's, or `wanted` unless the user has set a key that only other kinds have.
    pub fn kind(&self, wanted: &str) -> String {
        let own = self.json["model"]["kind"].as_str().unwrap_or_default();
        let kinds = Kinds::of::<C>();
        let mut keys = self.given.iter().filter_map(|key| key.strip_prefix("model."));
        let fits = keys.all(|key| kinds.has(wanted, key.split('.').next().unwrap_or(key)));
        if self.has("model.kind") || !fits { own.to_string() } else { wanted.to_string() }
    }

    /// Returns the count that the user has set for a key, or else `wanted`.
    pub fn count(&self, key: &str, wanted: usize) -> usize {
        self.number(key).map_or(wanted, |count| count as usize)
    }

    /// Returns the user's `d_model`, or else one near `wanted` that the user's number of heads divides, or that 8 divides.
    pub fn width(&self, wanted: f64) -> usize {
        if let Some(width) = self.number("model.d_model") {
            return (width as usize).clamp(1, 1 << 20);
        }
        let heads = self.number("model.n_heads").map_or(4, |heads| heads as usize).clamp(1, 1 << 16);
        // Rotary positions need an even width of each head.
        super::rounded(wanted, 2 * heads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_the_settings_that_are_used() {
        let reason = Reason::new("9 texts").set("a.kind", "bpe").count("a.size", 8).number("a.rate", 0.1 + 0.2);
        assert_eq!(reason.line(|_| true), "auto: 9 texts: a.kind=bpe, a.size=8, a.rate=0.3");
        assert_eq!(reason.line(|key| key == "a.size"), "auto: 9 texts: a.size=8");
        assert_eq!(reason.line(|_| false), "auto: 9 texts: all set by hand");
        assert_eq!(Reason::new("9 texts").line(|_| true), "auto: 9 texts");
        let table = Reason::new("b").table("a.b", "{ kind = \"x\", n = 2 }");
        assert_eq!(table.line(|_| true), "auto: b: a.b={ kind = \"x\", n = 2 }");
    }

    #[test]
    fn settings_that_something_else_decides_are_left_out() {
        let choice = Choice(vec![Reason::new("r").count("a.b", 1).count("a.b.c", 2).count("a.bc", 3)]);
        let keys: Vec<String> = choice.without(&["a.b"]).0[0].settings.iter().map(|(key, _)| key.clone()).collect();
        assert_eq!(keys, ["a.bc"]);
    }
}
