//! Variants of a comparison: keys of the configuration and the values that they take.

use serde::{Deserialize, Serialize};

use crate::error::TaskError;

/// A key and its values, as given by `--vary key=a,b,c`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vary {
    /// Key with its section, such as `model.position`.
    pub key: String,
    /// Values in the form that `--set` takes.
    pub values: Vec<String>,
}

/// A value for each varied key, as pairs of key and value in the order of the keys.
pub type Variant = Vec<(String, String)>;

impl Vary {
    /// Parses `key=a,b,c`. A comma inside brackets or quotes belongs to its value.
    pub fn parse(text: &str) -> Result<Self, TaskError> {
        let wrong =
            |problem: &str| TaskError::Settings { place: format!("--vary {text}"), problem: problem.to_string() };
        let (key, values) =
            text.split_once('=').ok_or_else(|| wrong("expected key=a,b,c, such as model.kind=lstm,gru"))?;
        let (key, values) = (key.trim().to_string(), pieces(values));
        if key == "seed" {
            return Err(wrong("use --seeds to vary the seed"));
        }
        if key.is_empty() || values.iter().any(String::is_empty) {
            return Err(wrong("expected key=a,b,c: a key or a value is empty"));
        }
        if let Some((place, twice)) = values.iter().enumerate().find(|(place, value)| values[..*place].contains(value))
        {
            return Err(wrong(&format!("value {}, {twice}, is given twice", place + 1)));
        }
        Ok(Self { key, values })
    }

    /// Returns whether the varied key is `key` or lies inside its table.
    pub(super) fn is_of(&self, key: &str) -> bool {
        self.key.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

fn pieces(text: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let (mut depth, mut quoted) = (0usize, false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            '{' | '[' if !quoted => depth += 1,
            '}' | ']' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        match pieces.last_mut() {
            Some(piece) if c != ',' || depth > 0 || quoted => piece.push(c),
            _ => pieces.push(String::new()),
        }
    }
    pieces.iter().map(|piece| piece.trim().to_string()).collect()
}

/// Returns every combination of values; the last key varies fastest.
pub fn combinations(vary: &[Vary]) -> Vec<Variant> {
    vary.iter().fold(vec![Vec::new()], |known: Vec<Variant>, Vary { key, values }| {
        let with = |variant: &Variant, value: &String| {
            let last = (key.clone(), value.clone());
            variant.iter().cloned().chain([last]).collect()
        };
        known.iter().flat_map(|variant| values.iter().map(move |value| with(variant, value))).collect()
    })
}

/// Returns a readable and unique folder name for each variant.
pub(super) fn folder_names(variants: &[Variant]) -> Vec<String> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._=-".contains(c) { c } else { '_' };
    let mut names: Vec<String> = Vec::with_capacity(variants.len());
    for variant in variants {
        let text: Vec<String> = variant.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let name: String = text.join("+").chars().map(|c| if c == '+' { c } else { plain(c) }).take(150).collect();
        let numbered = (1usize..).map(|number| if number == 1 { name.clone() } else { format!("{name}-{number}") });
        let free = numbered.into_iter().find(|name| !names.contains(name));
        names.push(free.expect("there is always a free number"));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_split_at_commas_outside_brackets() {
        let vary = Vary::parse("model.position=none, {kind=\"rope\", base=1e4},[1,2],\"a,b\"").unwrap();
        assert_eq!(vary.key, "model.position");
        assert_eq!(vary.values, ["none", "{kind=\"rope\", base=1e4}", "[1,2]", "\"a,b\""]);
        let problem = |text: &str| Vary::parse(text).unwrap_err().to_string();
        assert!(problem("model.kind").contains("key=a,b,c"));
        assert!(problem("model.kind=a,,b").contains("empty"));
        assert!(problem("model.kind=a,b,a").contains("twice"));
        assert!(problem("seed=1,2").contains("--seeds"));
    }

    #[test]
    fn combinations_are_complete_and_in_order() {
        let vary = ["a=1,2", "b=x,y"].map(|text| Vary::parse(text).unwrap());
        let texts: Vec<String> = combinations(&vary)
            .iter()
            .map(|variant| variant.iter().map(|(key, value)| format!("{key}{value}")).collect())
            .collect();
        assert_eq!(texts, ["a1bx", "a1by", "a2bx", "a2by"]);
        assert_eq!(combinations(&[]), [Variant::new()]);
    }

    #[test]
    fn folder_names_are_unique() {
        let variant = |value: &str| vec![("model.kind".to_string(), value.to_string())];
        let names = folder_names(&[variant("a b"), variant("a/b"), variant("../x")]);
        assert_eq!(names, ["model.kind=a_b", "model.kind=a_b-2", "model.kind=.._x"]);
    }
}
