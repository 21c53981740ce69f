//! All mechanisms with their options by name, for programs that learn them at run time, such as a page with a slider per option.
//! The limits are those that answer at once; `regard show` allows more.

mod entries;

use std::collections::BTreeMap;

use regard_nn::ConfigError;
use serde::Serialize;
use serde_json::Value;

pub use self::entries::mechanisms;
use super::{ShowError, Shown};

/// Largest number of characters of an option that is a text.
const LONGEST_TEXT: usize = 200;
/// Largest number of numbers of an option that is a list.
const MOST_NUMBERS: usize = 12;

/// A mechanism with its options.
#[derive(Debug, Clone, Serialize)]
pub struct Mechanism {
    /// Name in `regard show`.
    pub name: &'static str,
    /// What the mechanism shows, in a sentence.
    pub about: &'static str,
    /// Formula of the mechanism.
    pub formula: &'static str,
    /// Options, in the order in which they are shown.
    pub options: Vec<Setting>,
    /// File of the mechanism in the repository.
    pub source: &'static str,
    #[serde(skip)]
    show: fn(&Given) -> Result<Shown, ShowError>,
}

/// An option of a mechanism.
#[derive(Debug, Clone, Serialize)]
pub struct Setting {
    /// Name of the option.
    pub name: &'static str,
    /// What the option is, in a few words.
    pub about: &'static str,
    /// What may be given.
    #[serde(flatten)]
    pub kind: Kind,
}

/// What may be given as an option.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[allow(missing_docs, reason = "a default and its limits")]
pub enum Kind {
    /// A whole number.
    #[serde(rename = "integer")]
    Whole { default: usize, least: usize, most: usize },
    /// A number.
    Number { default: f64, least: f64, most: f64 },
    /// Numbers.
    Numbers { default: Vec<f64>, least: f64, most: f64 },
    /// A text.
    Text { default: String },
    /// Words, separated by spaces.
    Words { default: String },
    /// One of some names.
    #[serde(rename = "text")]
    Choice { default: &'static str, values: Vec<&'static str> },
}

/// The options that were given, all of them checked and with their defaults.
#[derive(Debug, Clone)]
struct Given {
    values: BTreeMap<&'static str, Value>,
    seed: u64,
}

impl Given {
    fn whole(&self, name: &str) -> usize {
        self.values[name].as_u64().unwrap_or_default() as usize
    }

    fn number(&self, name: &str) -> f64 {
        self.values[name].as_f64().unwrap_or_default()
    }

    fn numbers(&self, name: &str) -> Vec<f64> {
        self.values[name].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    }

    fn text(&self, name: &str) -> &str {
        self.values[name].as_str().unwrap_or_default()
    }

    fn words(&self, name: &str) -> Vec<String> {
        self.text(name).split_whitespace().map(String::from).collect()
    }
}

impl Mechanism {
    /// Shows the mechanism with these options; those that are missing have their defaults.
    pub fn show(&self, options: &BTreeMap<String, Value>, seed: u64) -> Result<Shown, ShowError> {
        if let Some(unknown) = options.keys().find(|name| self.options.iter().all(|option| option.name != **name)) {
            let known: Vec<&str> = self.options.iter().map(|option| option.name).collect();
            return Err(ConfigError::new(unknown.as_str(), "an option", format!("one of {}", known.join(", "))).into());
        }
        let value = |option: &Setting| Ok((option.name, option.kind.checked(option.name, options.get(option.name))?));
        let values = self.options.iter().map(value).collect::<Result<_, ConfigError>>()?;
        (self.show)(&Given { values, seed })
    }
}

impl Kind {
    /// Returns the given value if it is allowed, or the default if there is none.
    fn checked(&self, name: &str, given: Option<&Value>) -> Result<Value, ConfigError> {
        let Some(given) = given else { return Ok(self.default()) };
        let short: String = given.to_string().chars().take(60).collect();
        let wrong = |allowed: String| Err(ConfigError::new(name, &short, allowed));
        let within = |value: f64, least: f64, most: f64| (least..=most).contains(&value);
        let fits = match self {
            Self::Whole { least, most, .. } => match given.as_u64() {
                Some(number) if (*least as u64..=*most as u64).contains(&number) => true,
                _ => return wrong(format!("a whole number from {least} to {most}")),
            },
            Self::Number { least, most, .. } => match given.as_f64() {
                Some(number) if within(number, *least, *most) => true,
                _ => return wrong(format!("a number from {least} to {most}")),
            },
            Self::Numbers { .. } if given.is_string() => {
                let text = given.as_str().unwrap_or_default();
                let all: Option<Vec<f64>> = text.split(',').map(|one| one.trim().parse().ok()).collect();
                match all {
                    Some(all) if text.len() <= LONGEST_TEXT => return self.checked(name, Some(&Value::from(all))),
                    _ => return wrong("numbers, separated by commas".to_string()),
                }
            }
            Self::Numbers { least, most, .. } => given.as_array().is_some_and(|all| {
                let is_number = |one: &Value| one.as_f64().is_some_and(|number| within(number, *least, *most));
                all.len() <= MOST_NUMBERS && all.iter().all(is_number)
            }),
            Self::Words { .. } if given.is_array() => {
                let all: Option<Vec<&str>> = given.as_array().into_iter().flatten().map(Value::as_str).collect();
                let text = all.unwrap_or_default().join(" ");
                if text.is_empty() || text.chars().count() > LONGEST_TEXT {
                    return wrong(format!("words of at most {LONGEST_TEXT} characters together"));
                }
                return Ok(Value::from(text));
            }
            Self::Text { .. } | Self::Words { .. } => {
                given.as_str().is_some_and(|text| text.chars().count() <= LONGEST_TEXT)
            }
            Self::Choice { values, .. } => given.as_str().is_some_and(|text| values.contains(&text)),
        };
        match (fits, self) {
            (true, _) => Ok(given.clone()),
            (false, Self::Numbers { least, most, .. }) => {
                wrong(format!("at most {MOST_NUMBERS} numbers from {least} to {most}"))
            }
            (false, Self::Choice { values, .. }) => wrong(format!("one of {}", values.join(", "))),
            (false, _) => wrong(format!("a text of at most {LONGEST_TEXT} characters")),
        }
    }

    fn default(&self) -> Value {
        match self {
            Self::Whole { default, .. } => Value::from(*default),
            Self::Number { default, .. } => Value::from(*default),
            Self::Numbers { default, .. } => Value::from(default.clone()),
            Self::Text { default } | Self::Words { default } => Value::from(default.as_str()),
            Self::Choice { default, .. } => Value::from(*default),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    fn given(options: Value) -> BTreeMap<String, Value> {
        serde_json::from_value(options).unwrap()
    }

    #[test]
    fn every_mechanism_shows_something_and_names_its_source() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for mechanism in mechanisms() {
            let shown =
                mechanism.show(&BTreeMap::new(), 1).unwrap_or_else(|error| panic!("{}: {error}", mechanism.name));
            assert!(!shown.text.is_empty() && shown.json.is_object(), "{}", mechanism.name);
            assert!(shown.figure.to_svg().starts_with("<svg"), "{}", mechanism.name);
            assert!(root.join(mechanism.source).is_file(), "{}", mechanism.source);
            assert!(mechanism.options.iter().all(|option| !option.about.is_empty()), "{}", mechanism.name);
        }
    }

    #[test]
    fn options_at_their_limits_are_computed_or_refused() {
        for mechanism in mechanisms() {
            for at_most in [false, true] {
                let extreme = |option: &Setting| match &option.kind {
                    Kind::Whole { least, most, .. } => Some(json!(if at_most { *most } else { *least })),
                    Kind::Number { least, most, .. } => Some(json!(if at_most { *most } else { *least })),
                    _ => None,
                };
                let options =
                    mechanism.options.iter().filter_map(|option| Some((option.name.to_string(), extreme(option)?)));
                // Two options may exclude each other; then the message says so.
                match mechanism.show(&options.collect(), 0) {
                    Ok(_) | Err(ShowError::Config(_)) => {}
                    Err(error) => panic!("{}: {error}", mechanism.name),
                }
            }
        }
    }

    #[test]
    fn wrong_options_are_refused_by_name() {
        let all = mechanisms();
        let softmax = all.iter().find(|mechanism| mechanism.name == "softmax").unwrap();
        for wrong in [
            json!({ "other": 1 }),
            json!({ "temperature": "hot" }),
            json!({ "temperature": 1e9 }),
            json!({ "temperature": null }),
            json!({ "scores": "1,x" }),
            json!({ "scores": "1,1e999" }),
            json!({ "scores": [1, "a"] }),
            json!({ "scores": [[1]] }),
            json!({ "scores": vec![1; 1_000] }),
            json!({ "scores": [1] }),
        ] {
            let name = wrong.as_object().unwrap().keys().next().unwrap().clone();
            let error = softmax.show(&given(wrong), 0).unwrap_err().to_string();
            assert!(error.starts_with(&name), "{error}");
        }
        let found = softmax.show(&given(json!({ "scores": [3, 1], "temperature": 2 })), 0).unwrap();
        assert_eq!(found.json["scores"], json!([3.0, 1.0]));
        let written = softmax.show(&given(json!({ "scores": "3, 1", "temperature": 2 })), 0).unwrap();
        assert_eq!(written.json, found.json);
    }
}
