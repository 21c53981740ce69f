//! Bodies of `multipart/form-data`, as `curl -F image=@digit.png` and forms of web pages send them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use serde_json::{Map, Value, json};

use crate::error::ApiError;

/// Where a route has its inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inputs {
    /// Under `inputs`, a list.
    Many,
    /// Under `input`.
    One,
}

/// Returns the boundary between the parts of a form, if a content type is that of a form.
pub fn boundary(content_type: &str) -> Option<Result<&str, ApiError>> {
    let (kind, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let found = parameter(parameters, "boundary").filter(|found| (1..=70).contains(&found.len()));
    Some(found.ok_or_else(|| broken("expected multipart/form-data with a boundary of 1 to 70 characters")))
}

/// Converts a form to the JSON document that says the same. Parts named `text` are inputs as they are, parts named `image` and
/// `audio` are files, and all others are fields of the document.
pub fn document(body: &[u8], boundary: &str, inputs: Inputs) -> Result<Value, ApiError> {
    let (mut fields, mut given) = (Map::new(), Vec::new());
    for (name, content) in parts(body, boundary)? {
        let text = || std::str::from_utf8(content).map_err(|_| broken(format!("the part {name:?} is no UTF-8")));
        match name {
            "image" | "audio" => given.push(json!({ name: STANDARD.encode(content) })),
            "text" => given.push(Value::from(text()?)),
            _ if fields.contains_key(name) => return Err(broken(format!("the part {name:?} is there twice"))),
            _ => drop(fields.insert(name.to_string(), Value::from(text()?))),
        }
    }
    match inputs {
        Inputs::Many => drop(fields.insert("inputs".to_string(), Value::from(given))),
        Inputs::One if given.len() == 1 => drop(fields.insert("input".to_string(), given.remove(0))),
        Inputs::One => return Err(broken(format!("expected one part text, image or audio, got {}", given.len()))),
    }
    Ok(Value::Object(fields))
}

/// Returns the parts of a form by name.
fn parts<'a>(body: &'a [u8], boundary: &str) -> Result<Vec<(&'a str, &'a [u8])>, ApiError> {
    let ended_early = || broken("the form ended before its last boundary");
    let line = [b"\r\n--", boundary.as_bytes()].concat();
    // Nothing stands before the first boundary but its line's end, which may be missing.
    let first = body.strip_prefix(&line[2..]).or_else(|| body.strip_prefix(&line[..]));
    let mut rest = first.ok_or_else(|| broken("expected a form that begins with its boundary"))?;
    let mut found = Vec::new();
    loop {
        if rest.starts_with(b"--") {
            return Ok(found);
        }
        rest = rest.strip_prefix(b"\r\n").ok_or_else(ended_early)?;
        let head = position(rest, b"\r\n\r\n").ok_or_else(ended_early)?;
        let (head, content) = (&rest[..head], &rest[head + 4..]);
        let end = position(content, &line).ok_or_else(ended_early)?;
        let name = name(head).ok_or_else(|| broken("expected a Content-Disposition with a name in every part"))?;
        found.push((name, &content[..end]));
        rest = &content[end + line.len()..];
    }
}

/// Returns the name of a part with a head.
fn name(head: &[u8]) -> Option<&str> {
    let lines = std::str::from_utf8(head).ok()?.split("\r\n");
    let fields = lines.filter_map(|line| line.split_once(':'));
    let (_, disposition) = fields.into_iter().find(|(field, _)| field.eq_ignore_ascii_case("content-disposition"))?;
    parameter(disposition, "name")
}

/// Returns a parameter of a field, `form-data; name="image"`.
fn parameter<'a>(field: &'a str, name: &str) -> Option<&'a str> {
    let mut is_quoted = false;
    let ends = |letter| {
        is_quoted ^= letter == '"';
        letter == ';' && !is_quoted
    };
    let mut all = field.split(ends).filter_map(|one| one.trim().split_once('='));
    let (_, value) = all.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
    Some(value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value))
}

fn position(all: &[u8], wanted: &[u8]) -> Option<usize> {
    all.windows(wanted.len()).position(|window| window == wanted)
}

fn broken(message: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "broken_form", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &str = "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ndigits\r\n--x\r\n\
        content-disposition: form-data; filename=\"/etc/a; name=b.png\"; name=\"image\"\r\nContent-Type: image/png\r\n\r\n\
        \r\n-\r\n--\r\n--x\r\nContent-Disposition: form-data; name=text\r\n\r\na\r\n--x--\r\n";

    #[test]
    fn a_form_is_the_document_that_says_the_same() {
        let found = document(FORM.as_bytes(), "x", Inputs::Many).unwrap();
        let image = STANDARD.encode("\r\n-\r\n--");
        assert_eq!(found, json!({ "model": "digits", "inputs": [{ "image": image }, "a"] }));
        document(FORM.as_bytes(), "x", Inputs::One).unwrap_err();
        let one = "--x\r\ncontent-disposition: form-data; name=\"text\"\r\n\r\na\r\n--x--";
        assert_eq!(document(one.as_bytes(), "x", Inputs::One).unwrap(), json!({ "input": "a" }));
    }

    #[test]
    fn a_broken_form_is_refused_at_every_length() {
        let whole = FORM.trim_end();
        for length in 0..whole.len() {
            document(&whole.as_bytes()[..length], "x", Inputs::Many).unwrap_err();
        }
        let twice = "--x\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\na\r\n".repeat(2) + "--x--";
        let unnamed = "--x\r\ncontent-disposition: form-data\r\n\r\na\r\n--x--";
        for wrong in [&twice, unnamed, "--y--", "", "--x\r\n\r\n--x--"] {
            document(wrong.as_bytes(), "x", Inputs::Many).unwrap_err();
        }
    }

    #[test]
    fn the_boundary_is_read_from_the_content_type() {
        let read = |text| boundary(text).map(Result::ok);
        assert_eq!(read("multipart/form-data; boundary=\"a b\""), Some(Some("a b")));
        assert_eq!(read("Multipart/Form-Data;charset=utf-8; boundary=x"), Some(Some("x")));
        assert_eq!(read("multipart/form-data"), Some(None));
        assert_eq!(read("application/json"), None);
    }
}
