//! Inputs of models as callers give them: an argument of a command, a line of a file, a line of JSON or a part of a request.
//! Each task reads its own kind of input from them.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use regard_data::excerpt;
use serde_json::Value;

use crate::error::TaskError;

/// The kind of input that a model takes. In JSON a text is a string, and any other input is an object with the key of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// A text, such as a sentence or a prompt.
    Text,
    /// Lists of numbers, `{"numbers": [[…], […]]}`.
    Numbers,
    /// A sequence or a set of vectors, `{"vectors": [[…], …]}`.
    Vectors,
    /// A picture, `{"image": base64}`.
    Picture,
    /// A sound recording, `{"audio": base64}`.
    Sound,
    /// A node of the model's own graph, `{"node": id}`.
    Node,
    /// A drawing by hand, `{"strokes": [[[x, y], …], …]}`.
    Strokes,
}

impl InputKind {
    const ALL: [Self; 7] =
        [Self::Text, Self::Numbers, Self::Vectors, Self::Picture, Self::Sound, Self::Node, Self::Strokes];

    /// Returns the key of this kind in a JSON object.
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

/// Number of characters of a JSON value that people are shown.
const BRIEF: usize = 120;

/// An input that no task has read yet.
#[derive(Debug, Clone, PartialEq)]
pub enum Given {
    /// An argument or a line of a file: a text, or another kind of input in the task's notation.
    Text(String),
    /// A JSON value, from a line of a file or a part of a request.
    Json(Value),
}

impl Given {
    /// Parses JSON: an input, or an object with an input under `"input"`, as `regard predict --json` prints it.
    pub fn json(line: &str) -> Result<Self, TaskError> {
        let value = regard_data::read_json(line)
            .map_err(|error| TaskError::input("line", "JSON", format!("{}: {error}", excerpt(line))))?;
        match value {
            Value::Object(mut object) if object.contains_key("input") => {
                Ok(Self::Json(object.remove("input").unwrap_or_default()))
            }
            other => Ok(Self::Json(other)),
        }
    }

    /// Reads a line of a file. It may also be JSON if the task's inputs are not texts.
    pub fn line(text: &str, kind: InputKind) -> Result<Self, TaskError> {
        match kind != InputKind::Text && text.trim_start().starts_with(['{', '[']) {
            true => Self::json(text),
            false => Ok(Self::from(text)),
        }
    }

    /// Reads an argument of a command like a [`line`](Self::line), but refuses the name of a picture or sound file as a text.
    pub fn argument(text: &str, kind: InputKind) -> Result<Self, TaskError> {
        if kind == InputKind::Text
            && let Some(found) = file_kind(text)
        {
            return Err(is_not(kind, &format!("a file with {found}, {text}")));
        }
        Self::line(text, kind)
    }

    /// Returns the text, for a task whose inputs are texts.
    pub fn text(&self) -> Result<&str, TaskError> {
        match self {
            Self::Text(text) | Self::Json(Value::String(text)) => Ok(text),
            Self::Json(value) => match value.get(InputKind::Text.key()).and_then(Value::as_str) {
                Some(text) => Ok(text),
                None => Err(is_not(InputKind::Text, &named(value))),
            },
        }
    }

    /// Returns the text, for a task whose inputs are texts. In JSON it may also be under one of `keys`, those of the task's data.
    pub fn text_under(&self, keys: &[&str]) -> Result<&str, TaskError> {
        let Self::Json(value) = self else { return self.text() };
        let text = keys.iter().find_map(|key| value.get(key)?.as_str());
        text.map_or_else(|| self.text(), Ok)
    }

    /// Returns the JSON value under the key of `kind`, or `None` for a text, which the task then parses in its own notation.
    pub fn value(&self, kind: InputKind) -> Result<Option<&Value>, TaskError> {
        match self {
            Self::Text(_) | Self::Json(Value::String(_)) => Ok(None),
            Self::Json(value) => match value.get(kind.key()) {
                Some(value) => Ok(Some(value)),
                None => Err(is_not(kind, &named(value))),
            },
        }
    }

    /// Returns the input for people: a text in full, the beginning of a long JSON value.
    pub fn brief(&self) -> String {
        let text = self.to_string();
        match (self, text.char_indices().nth(BRIEF)) {
            (Self::Json(Value::Object(_) | Value::Array(_)), Some((end, _))) => format!("{}…", &text[..end]),
            _ => text,
        }
    }

    /// Converts the input to JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(text.as_str()),
            Self::Json(value) => value.clone(),
        }
    }
}

fn is_not(kind: InputKind, found: &str) -> TaskError {
    TaskError::input("input", format!("{kind}, which this model takes"), found)
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

/// Returns an error unless an input has 1 to `most` (`data.max_length`) of a `unit`, such as tokens.
pub(crate) fn check_length(input: &dyn fmt::Display, count: usize, most: usize, unit: &str) -> Result<(), TaskError> {
    if (1..=most).contains(&count) {
        return Ok(());
    }
    let expected = format!("1 to {most} {unit} (data.max_length of this model)");
    Err(TaskError::input(format!("input {}", excerpt(&input.to_string())), expected, count.to_string()))
}

/// Names the kind of a JSON value by its keys, or quotes the value if it has none of them.
fn named(value: &Value) -> String {
    let known = InputKind::ALL.into_iter().find(|kind| value.get(kind.key()).is_some());
    known.map_or_else(|| excerpt(&value.to_string()), |kind| kind.to_string())
}

/// Returns the kind of the file that an argument names, judged by its first bytes; `None` if it is no file or may be text.
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
    fn a_text_can_be_given_in_many_ways() {
        for given in [
            Given::from("a b"),
            Given::Json(json!("a b")),
            Given::Json(json!({"text": "a b"})),
            Given::json(r#"{"input": "a b", "output": "x"}"#).unwrap(),
            Given::json(r#""a b""#).unwrap(),
        ] {
            assert_eq!(given.text().unwrap(), "a b");
        }
    }

    #[test]
    fn a_text_may_be_under_a_key_of_the_task() {
        let given = Given::Json(json!({"source": "a b", "target": "x"}));
        assert_eq!(given.text_under(&["en", "source"]).unwrap(), "a b");
        assert!(given.text_under(&[]).is_err() && given.text_under(&["other"]).is_err());
        assert_eq!(Given::from("a").text_under(&["source"]).unwrap(), "a");
    }

    #[test]
    fn an_error_names_what_is_not_a_text() {
        let message = |given: Given| given.text().unwrap_err().to_string();
        assert!(message(Given::Json(json!({"image": "iVBO"}))).ends_with("got a picture"));
        assert!(message(Given::Json(json!([1, 2]))).contains("[1,2]"));
        assert!(Given::json("{").unwrap_err().to_string().contains("JSON"));
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("cat.png");
        std::fs::write(&file, b"\x89PNG\r\n\x1a\n").unwrap();
        let error = Given::argument(&file.display().to_string(), InputKind::Text).unwrap_err().to_string();
        assert!(error.contains("a file with a picture") && error.contains("cat.png"), "{error}");
        let long = message(Given::Json(json!({ "other": "x".repeat(10_000) })));
        assert!(long.len() < 200, "{long}");
    }
}
