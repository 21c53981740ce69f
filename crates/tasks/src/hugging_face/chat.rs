//! Chat templates: how a folder of `transformers` writes a conversation as the text that its model reads.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::value::{Kwargs, Value as Item};
use minijinja::{Environment, ErrorKind, State};
use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Value, json};

use super::store::read_json;
use crate::error::TaskError;

/// Largest file of settings that is read, in bytes.
const MOST_BYTES: u64 = 10_000_000;
/// Number of instructions after which a template is taken to have no end.
const MOST_STEPS: u64 = 10_000_000;

/// The chat template of a folder.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChatTemplate {
    source: String,
    /// Special tokens by name, such as `bos_token`.
    tokens: BTreeMap<String, String>,
    path: PathBuf,
}

impl ChatTemplate {
    /// Reads `chat_template.jinja`, or the template in `tokenizer_config.json`.
    ///
    /// # Errors
    /// A folder without a template, or with a damaged file.
    pub fn read(folder: &Path) -> Result<Self, TaskError> {
        let (file, settings) = (folder.join("chat_template.jinja"), folder.join("tokenizer_config.json"));
        let json = if settings.is_file() { read_json(&settings, MOST_BYTES)? } else { Value::Null };
        let tokens = special_tokens(&json);
        if file.is_file() {
            let source = regard_data::read_text(&file)?;
            return Ok(Self { source, tokens, path: file });
        }
        let named = |all: &Vec<Value>| {
            let default = all.iter().find(|one| one["name"] == "default");
            default.and_then(|one| one["template"].as_str()).map(str::to_string)
        };
        let source = match &json["chat_template"] {
            Value::String(source) => Some(source.clone()),
            Value::Array(all) => named(all),
            _ => None,
        };
        match source {
            Some(source) => Ok(Self { source, tokens, path: settings }),
            None => {
                let problem = "has no chat template, in chat_template.jinja or tokenizer_config.json: its model was not made for \
                               conversations, and continues a plain prompt";
                Err(TaskError::folder(folder, problem))
            }
        }
    }

    /// Writes a conversation as text, up to where the model's answer begins.
    ///
    /// # Errors
    /// A template that is damaged or does not allow the conversation.
    pub fn render(&self, messages: &[Value]) -> Result<String, TaskError> {
        let refuse = |error: minijinja::Error| {
            let said = error.detail().map_or_else(|| error.kind().to_string(), str::to_string);
            let line = error.line().map(|line| format!(", line {line}")).unwrap_or_default();
            TaskError::folder(&self.path, format!("chat template{line}: {}", said.lines().next().unwrap_or_default()))
        };
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_fuel(Some(MOST_STEPS));
        // Methods of Python's strings, lists and dictionaries.
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_filter("tojson", to_json);
        environment.add_function("raise_exception", |said: String| -> Result<String, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, said))
        });
        environment.add_function("strftime_now", |format: String| date(&format, SystemTime::now()));
        let template = environment.template_from_str(&self.source).map_err(refuse)?;
        let mut context = json!({ "messages": messages, "add_generation_prompt": true });
        if let Some(context) = context.as_object_mut() {
            context.extend(self.tokens.iter().map(|(name, token)| (name.clone(), Value::from(token.as_str()))));
        }
        template.render(context).map_err(refuse)
    }
}

/// Reads a conversation: a JSON list of messages with `role` and `content`, or else a text as the message of a user, after a
/// message of the system if there is one.
pub(super) fn conversation(text: &str, system: Option<&str>) -> Result<Vec<Value>, TaskError> {
    let message = |role: &str, content: &str| json!({ "role": role, "content": content });
    let mut messages: Vec<Value> = system.map(|system| message("system", system)).into_iter().collect();
    let listed: Option<Vec<Value>> =
        if text.trim_start().starts_with('[') { serde_json::from_str(text).ok() } else { None };
    match listed {
        Some(all) if all.iter().all(|one| one["role"].is_string() && one["content"].is_string()) && !all.is_empty() => {
            messages.extend(all);
        }
        Some(all) if all.iter().any(Value::is_object) => {
            let expected = "messages with \"role\" and \"content\", both strings";
            return Err(TaskError::input("conversation", expected, regard_data::excerpt(text)));
        }
        _ => messages.push(message("user", text)),
    }
    Ok(messages)
}

/// Returns the special tokens that `tokenizer_config.json` names.
fn special_tokens(settings: &Value) -> BTreeMap<String, String> {
    let content = |value: &Value| value.as_str().or(value["content"].as_str()).map(str::to_string);
    let fields = settings.as_object().into_iter().flatten().filter(|(key, _)| key.ends_with("_token"));
    fields.filter_map(|(key, value)| Some((key.clone(), content(value)?))).collect()
}

/// Writes a value as Python's `json.dumps` does, with `indent` if it is given.
fn to_json(_: &State, value: Item, options: Kwargs) -> Result<String, minijinja::Error> {
    let indent: Option<usize> = options.get("indent")?;
    let _: Option<bool> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    let mut out = Vec::new();
    let written = match indent {
        Some(indent) => {
            let spaces = vec![b' '; indent.min(80)];
            let formatter = serde_json::ser::PrettyFormatter::with_indent(&spaces);
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, formatter))
        }
        None => value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, Spaced)),
    };
    let wrong = |error: &dyn std::fmt::Display| minijinja::Error::new(ErrorKind::BadSerialization, error.to_string());
    written.map_err(|error| wrong(&error))?;
    String::from_utf8(out).map_err(|error| wrong(&error))
}

/// JSON with a blank after commas and colons.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Writes a time in UTC by some of the codes of `strftime`.
fn date(format: &str, now: SystemTime) -> Result<String, minijinja::Error> {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Years of March to February have their leap day at the end; 1970-01-01 is day 719,468 after 0000-03-01.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * shifted + 2) / 5 + 1, (shifted + 2) % 12);
    let year = era * 400 + year + u64::from(month < 2);
    let name = MONTHS[month as usize];
    let mut out = String::new();
    let mut codes = format.chars();
    while let Some(next) = codes.next() {
        if next != '%' {
            out.push(next);
            continue;
        }
        match codes.next() {
            Some('Y') => out.push_str(&year.to_string()),
            Some('m') => out.push_str(&format!("{:02}", month + 1)),
            Some('d') => out.push_str(&format!("{day:02}")),
            Some('B') => out.push_str(name),
            Some('b') => out.push_str(&name[..3]),
            Some('H') => out.push_str(&format!("{:02}", of_day / 3_600)),
            Some('M') => out.push_str(&format!("{:02}", of_day / 60 % 60)),
            Some('S') => out.push_str(&format!("{:02}", of_day % 60)),
            Some('%') => out.push('%'),
            other => {
                let code = other.map(String::from).unwrap_or_default();
                let said = format!("strftime_now: %{code} is not known, expected Y, m, d, B, b, H, M, S or %");
                return Err(minijinja::Error::new(ErrorKind::InvalidOperation, said));
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::hugging_face::tests::golden;

    #[test]
    fn conversations_are_written_as_transformers_writes_them() {
        let file: Value = serde_json::from_slice(&std::fs::read(golden("chat.json")).unwrap()).unwrap();
        let cases = file.as_array().unwrap();
        for case in cases {
            let text = |key: &str| case[key].as_str().unwrap().to_string();
            let template = ChatTemplate {
                source: text("template"),
                tokens: special_tokens(&case["settings"]),
                path: PathBuf::from("here"),
            };
            match template.render(case["messages"].as_array().unwrap()) {
                Ok(found) => assert_eq!(found, text("text"), "{}", case["name"]),
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.contains(case["error"].as_str().unwrap_or("no error")), "{}: {error}", case["name"]);
                    assert_eq!(error.lines().count(), 1, "{error}");
                }
            }
        }
        assert!(cases.len() >= 8);
    }

    #[test]
    fn templates_that_are_damaged_or_have_no_end_are_refused() {
        for (source, said) in [
            ("{% for a in messages %}", "line 1"),
            ("{{ messages[0].content.nothing() }}", "nothing"),
            ("{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}", "fuel"),
        ] {
            let template = ChatTemplate { source: source.to_string(), tokens: BTreeMap::new(), path: "here".into() };
            let error = template.render(&conversation("hi", None).unwrap()).unwrap_err().to_string();
            assert!(error.starts_with("here: chat template") && error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_text_is_the_message_of_a_user() {
        let roles = |text: &str, system| {
            let all = conversation(text, system).unwrap();
            all.iter().map(|one| one["role"].as_str().unwrap().to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(roles("hi", None), "user");
        assert_eq!(roles("[hi]", Some("be kind")), "system user");
        assert_eq!(
            roles(r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]"#, None),
            "user assistant"
        );
        assert!(conversation(r#"[{"role":"user"}]"#, None).is_err());
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds: u64| date("%d %b %Y %H:%M:%S %m %B %%", UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        assert_eq!(at(0), "01 Jan 1970 00:00:00 01 January %");
        assert_eq!(at(951_782_400 + 3_661), "29 Feb 2000 01:01:01 02 February %");
        assert_eq!(at(1_735_689_599), "31 Dec 2024 23:59:59 12 December %");
        assert!(date("%Q", UNIX_EPOCH).is_err());
    }
}
