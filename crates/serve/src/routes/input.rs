//! Texts in requests: a string, a list of strings, the ids of tokens, or a list of lists of ids.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// A text, or the ids of its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextInput {
    /// A text.
    Text(String),
    /// The ids of tokens.
    Ids(Vec<u32>),
}

/// One or several texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextInputs(pub Vec<TextInput>);

/// An element of a list: a text, a token or a list of tokens.
enum Element {
    Text(String),
    Id(u32),
    Ids(Vec<u32>),
}

const EXPECTED: &str = "a string, a list of strings, a list of token ids, or a list of lists of token ids";

fn id<E: Error>(number: u64) -> Result<u32, E> {
    u32::try_from(number).map_err(|_| E::custom(format!("expected a token id, got {number}")))
}

struct ElementVisitor;

impl<'de> Visitor<'de> for ElementVisitor {
    type Value = Element;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a string, a token id or a list of token ids")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Element, E> {
        Ok(Element::Text(text.to_string()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Element, E> {
        id(number).map(Element::Id)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Element, A::Error> {
        let mut ids = Vec::new();
        while let Some(id) = all.next_element::<u32>()? {
            ids.push(id);
        }
        Ok(Element::Ids(ids))
    }
}

impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ElementVisitor)
    }
}

struct InputsVisitor;

impl<'de> Visitor<'de> for InputsVisitor {
    type Value = TextInputs;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<TextInputs, E> {
        Ok(TextInputs(vec![TextInput::Text(text.to_string())]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<TextInputs, A::Error> {
        let (mut inputs, mut ids) = (Vec::new(), Vec::new());
        while let Some(element) = all.next_element()? {
            match element {
                Element::Text(text) if ids.is_empty() => inputs.push(TextInput::Text(text)),
                Element::Ids(some) if ids.is_empty() => inputs.push(TextInput::Ids(some)),
                Element::Id(id) if inputs.is_empty() => ids.push(id),
                _ => return Err(A::Error::custom(format!("expected {EXPECTED}, got a mixture"))),
            }
        }
        if !ids.is_empty() {
            inputs.push(TextInput::Ids(ids));
        }
        Ok(TextInputs(inputs))
    }
}

impl<'de> Deserialize<'de> for TextInputs {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(InputsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_tokens_are_told_apart() {
        let read = |text: &str| serde_json::from_str::<TextInputs>(text).map(|found| found.0).ok();
        let (text, ids) = (|text: &str| TextInput::Text(text.into()), |ids: &[u32]| TextInput::Ids(ids.to_vec()));
        assert_eq!(read(r#""a""#), Some(vec![text("a")]));
        assert_eq!(read(r#"["a", "b"]"#), Some(vec![text("a"), text("b")]));
        assert_eq!(read("[1, 2]"), Some(vec![ids(&[1, 2])]));
        assert_eq!(read("[[1, 2], [3]]"), Some(vec![ids(&[1, 2]), ids(&[3])]));
        assert_eq!(read("[]"), Some(vec![]));
        for wrong in [
            "3",
            "null",
            "{}",
            "true",
            "[1, \"a\"]",
            "[\"a\", 1]",
            "[[1], 2]",
            "[1.5]",
            "[-1]",
            "[4294967296]",
            "[[\"a\"]]",
            "[null]",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
