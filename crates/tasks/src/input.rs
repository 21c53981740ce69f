//! What a model is asked about, as callers give it: an argument of a command, a line of a file, a line of JSON, a part of a
//! request. Each task reads its own kind of input from it.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use regard_data::excerpt;
use serde_json::Value;

use crate::error::TaskError;

/// The kinds of input. In JSON a text is a string and everything else an object with the key of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// A sentence, a text, a prompt.
    Text,
    /// Lists of numbers: `{"numbers": [[…], […]]}`.
    Numbers,
    /// A sequence or a set of vectors: `{"vectors": [[…], …]}`.
    Vectors,
    /// A picture: `{"image": base64}`.
    Picture,
    /// A recording: `{"audio": base64}`.
    Sound,
    /// A node of the model's own graph: `{"node": id}`.
    Node,
    /// A drawing by hand: `{"strokes": [[[x, y], …], …]}`.
    Strokes,
}

impl InputKind {
    const ALL: [Self; 7] =
        [Self::Text, Self::Numbers, Self::Vectors, Self::Picture, Self::Sound, Self::Node, Self::Strokes];

    /// The key of its object.
    pub fn key(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Numbers => "numbers",
            Self::Vectors => "vectors",
            Self::Picture => "image",
            Self::Sound => "audio",
            Self::Node => "node",
            Self::Strokes => "strokes",
        }
    }
}

impl fmt::Display for InputKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "a text",
            Self::Numbers => "numbers",
            Self::Vectors => "vectors",
            Self::Picture => "a picture",
            Self::Sound => "a sound",
            Self::Node => "a node",
            Self::Strokes => "strokes",
        })
    }
}

/// An input before a task has read it.
#[derive(Debug, Clone, PartialEq)]
pub enum Given {
    /// An argument, or a line of a file: a text, or how the task writes its inputs as one.
    Text(String),
    /// A line of JSON, or a part of a request.
    Json(Value),
}

impl Given {
    /// A line of a file of JSON documents: an input, or an object that has one as `"input"`, as `predict --json` prints them.
    pub fn line(line: &str) -> Result<Self, TaskError> {
        let value = regard_data::read_json(line)
            .map_err(|error| TaskError::input("line", "JSON", format!("{}: {error}", excerpt(line))))?;
        match value {
            Value::Object(mut object) if object.contains_key("input") => {
                Ok(Self::Json(object.remove("input").unwrap_or_default()))
            }
            other => Ok(Self::Json(other)),
        }
    }

    /// An argument of a command, or a line of a file. A task that takes no texts also reads JSON from it.
    pub fn argument(text: &str, kind: InputKind) -> Result<Self, TaskError> {
        match kind != InputKind::Text && text.trim_start().starts_with(['{', '[']) {
            true => Self::line(text),
            false => Ok(Self::from(text)),
        }
    }

    /// The text of a task that takes texts.
    pub fn text(&self) -> Result<&str, TaskError> {
        match self {
            Self::Text(text) => match file_kind(text) {
                Some(kind) => Err(self.is_not(InputKind::Text, &format!("the file of {kind}, {text}"))),
                None => Ok(text),
            },
            Self::Json(Value::String(text)) => Ok(text),
            Self::Json(value) => match value.get(InputKind::Text.key()).and_then(Value::as_str) {
                Some(text) => Ok(text),
                None => Err(self.is_not(InputKind::Text, &named(value))),
            },
        }
    }

    /// The text of a task that takes texts, in JSON also under the keys of the task's own data.
    pub fn text_under(&self, keys: &[&str]) -> Result<&str, TaskError> {
        let Self::Json(value) = self else { return self.text() };
        let text = keys.iter().find_map(|key| value.get(key)?.as_str());
        text.map_or_else(|| self.text(), Ok)
    }

    /// What stands in JSON under the key of `kind`; nothing for a text, which the task reads as it writes its inputs.
    pub fn value(&self, kind: InputKind) -> Result<Option<&Value>, TaskError> {
        match self {
            Self::Text(_) | Self::Json(Value::String(_)) => Ok(None),
            Self::Json(value) => match value.get(kind.key()) {
                Some(value) => Ok(Some(value)),
                None => Err(self.is_not(kind, &named(value))),
            },
        }
    }

    /// The input as JSON has it.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(text.as_str()),
            Self::Json(value) => value.clone(),
        }
    }

    fn is_not(&self, kind: InputKind, found: &str) -> TaskError {
        TaskError::input("input", format!("{kind}, which this model takes"), found)
    }
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) | Self::Json(Value::String(text)) => f.write_str(text),
            Self::Json(value) => write!(f, "{value}"),
        }
    }
}

impl From<&str> for Given {
    fn from(text: &str) -> Self {
        Self::Text(text.to_string())
    }
}

impl From<String> for Given {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// What a JSON value is by its keys.
fn named(value: &Value) -> String {
    let known = InputKind::ALL.into_iter().find(|kind| value.get(kind.key()).is_some());
    known.map_or_else(|| excerpt(&value.to_string()), |kind| kind.to_string())
}

/// Whether an argument names a file of something that is no text, by how such files begin.
fn file_kind(argument: &str) -> Option<InputKind> {
    const LONGEST_PATH: usize = 4_096;
    let path = Path::new(argument);
    if argument.len() > LONGEST_PATH || !path.is_file() {
        return None;
    }
    let mut first = [0; 12];
    let read = File::open(path).and_then(|mut file| file.read(&mut first)).ok()?;
    match &first[..read] {
        [0x89, b'P', b'N', b'G', ..] | [0xFF, 0xD8, 0xFF, ..] | [b'G', b'I', b'F', b'8', ..] => {
            Some(InputKind::Picture)
        }
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E'] => Some(InputKind::Sound),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P'] => Some(InputKind::Picture),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_comes_in_many_ways() {
        for given in [
            Given::from("a b"),
            Given::Json(json!("a b")),
            Given::Json(json!({"text": "a b"})),
            Given::line(r#"{"input": "a b", "output": "x"}"#).unwrap(),
            Given::line(r#""a b""#).unwrap(),
        ] {
            assert_eq!(given.text().unwrap(), "a b");
        }
    }

    #[test]
    fn a_text_may_have_a_key_of_its_own() {
        let given = Given::Json(json!({"source": "a b", "target": "x"}));
        assert_eq!(given.text_under(&["en", "source"]).unwrap(), "a b");
        assert!(given.text_under(&[]).is_err() && given.text_under(&["other"]).is_err());
        assert_eq!(Given::from("a").text_under(&["source"]).unwrap(), "a");
    }

    #[test]
    fn what_is_no_text_is_named() {
        let message = |given: Given| given.text().unwrap_err().to_string();
        assert!(message(Given::Json(json!({"image": "iVBO"}))).ends_with("got a picture"));
        assert!(message(Given::Json(json!([1, 2]))).contains("[1,2]"));
        assert!(Given::line("{").unwrap_err().to_string().contains("JSON"));
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("cat.png");
        std::fs::write(&file, b"\x89PNG\r\n\x1a\n").unwrap();
        let error = message(Given::from(file.display().to_string()));
        assert!(error.contains("the file of a picture") && error.contains("cat.png"), "{error}");
        let long = message(Given::Json(json!({ "other": "x".repeat(10_000) })));
        assert!(long.len() < 200, "{long}");
    }
}
