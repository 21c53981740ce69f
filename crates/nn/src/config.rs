//! What configurations share: checks of single fields, choices that a file may give by name alone, and the nearest valid
//! name for one that is not.

use regard_ops::Activation;
use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::error::ConfigError;

/// Refuses zero.
pub fn check_positive(field: &str, value: usize) -> Result<(), ConfigError> {
    if value > 0 { Ok(()) } else { Err(ConfigError::new(field, value, "a whole number, 1 or more")) }
}

/// Refuses no layers, and more than anyone means: each costs memory and time before a size is known to be too large.
pub fn check_layers(field: &str, value: usize) -> Result<(), ConfigError> {
    const MOST: usize = 10_000;
    if (1..=MOST).contains(&value) { Ok(()) } else { Err(ConfigError::new(field, value, format!("from 1 to {MOST}"))) }
}

/// Refuses what is no probability of dropping something: `[0, 1)`.
pub fn check_dropout(field: &str, value: f32) -> Result<(), ConfigError> {
    if (0.0..1.0).contains(&value) { Ok(()) } else { Err(ConfigError::new(field, value, "a number from 0 to below 1")) }
}

/// Refuses what is not finite and above zero.
pub fn check_above_zero(field: &str, value: f32) -> Result<(), ConfigError> {
    let fits = value.is_finite() && value > 0.0;
    if fits { Ok(()) } else { Err(ConfigError::new(field, value, "a finite number above 0")) }
}

/// Refuses sizes whose product is more numbers than a parameter can have, 2⁴⁰ (4 TiB), in the name of `field`.
pub fn check_product(field: &str, sizes: &[usize]) -> Result<(), ConfigError> {
    let product = sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
    match product {
        Some(product) if product <= 1 << 40 => Ok(()),
        _ => {
            let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
            Err(ConfigError::new(field, sizes.join(" × "), "a product of at most 2⁴⁰ numbers"))
        }
    }
}

/// The name among `known` that `given` is most likely meant to be; none if all are too different.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// The least Jaro similarity of a suggestion; the tests have slips that reach it and names that do not.
    const LIKE: f64 = 0.75;
    let scored = known.into_iter().map(|name| (strsim::jaro(given, name), name)).filter(|(like, _)| *like >= LIKE);
    scored.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

/// The names that serde's `message` about an unknown field or variant says are expected.
pub fn expected_names(message: &str) -> impl Iterator<Item = &str> {
    let (_, expected) = message.split_once(", expected ").unwrap_or_default();
    expected.split('`').skip(1).step_by(2)
}

/// Adds the nearest valid name to serde's `message` about an unknown field or variant; any other message stays as it is.
///
/// `elsewhere` may know the name from another place than the one that the message is about, if nothing there is near.
pub fn name_the_nearest(message: &str, elsewhere: impl FnOnce(&str) -> Option<String>) -> String {
    let unknown = message.strip_prefix("unknown field `").or_else(|| message.strip_prefix("unknown variant `"));
    let meant = unknown
        .and_then(|rest| rest.split_once('`'))
        .and_then(|(given, _)| nearest(given, expected_names(message)).map(String::from).or_else(|| elsewhere(given)));
    match (meant, message.split_once(", expected ")) {
        (Some(name), Some((what, known))) => format!("{what}; did you mean `{name}`? Expected {known}"),
        (Some(name), None) => format!("{message}; did you mean `{name}`?"),
        (None, _) => message.to_string(),
    }
}

/// Reads an enum that is tagged by `kind`, also from the bare name of a kind: `position = "rope"` is
/// `position = { kind = "rope" }`. For `#[serde(deserialize_with = "name_or_table")]`.
pub fn name_or_table<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(NameOrTable(std::marker::PhantomData))
}

/// The settings of a kind that has none, so that any given is refused; serde itself would ignore them. For
/// `#[serde(deserialize_with = "no_settings")]` on the variant.
pub fn no_settings<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    Nothing::deserialize(deserializer).map(|Nothing {}| ())
}

struct NameOrTable<T>(std::marker::PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for NameOrTable<T> {
    type Value = T;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the name of a kind, or a table with `kind` and its settings")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<T, E> {
        T::deserialize(MapDeserializer::new(std::iter::once(("kind", name))))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// The names of [`Activation`] in configurations, for `#[serde(with = "ActivationName")]`.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Activation", rename_all = "snake_case")]
pub enum ActivationName {
    /// `relu`
    Relu,
    /// `gelu`
    Gelu,
    /// `gelu_tanh`
    GeluTanh,
    /// `silu`
    Silu,
    /// `tanh`
    Tanh,
    /// `sigmoid`
    Sigmoid,
}

impl ActivationName {
    /// The default of the published Transformer.
    pub fn relu() -> Activation {
        Activation::Relu
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_keyboard_finds_its_name() {
        let known = ["kind", "d_model", "n_layers", "n_heads", "kv_heads", "d_ff", "position", "learning_rate"];
        for (given, name) in [
            ("n_head", "n_heads"),
            ("heads", "n_heads"),
            ("dmodel", "d_model"),
            ("d_modle", "d_model"),
            ("layers", "n_layers"),
            ("learning-rate", "learning_rate"),
            ("pos", "position"),
        ] {
            assert_eq!(nearest(given, known), Some(name), "{given}");
        }
        for given in ["", "x", "temperature", "optimizer"] {
            assert_eq!(nearest(given, known), None, "{given}");
        }
    }

    #[test]
    fn messages_of_serde_get_a_suggestion() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Model {
            #[allow(dead_code, reason = "only its errors are looked at")]
            activation: Kind,
        }
        #[derive(Debug, Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Kind {
            Relu,
            Gelu,
        }
        let message = |text: &str| {
            let error = serde_json::from_str::<Model>(text).unwrap_err().to_string();
            name_the_nearest(&error, |name| (name == "steps").then(|| "train.steps".to_string()))
        };
        let field = message(r#"{"activatoin": "relu"}"#);
        assert!(
            field.starts_with("unknown field `activatoin`; did you mean `activation`? Expected `activation`"),
            "{field}"
        );
        assert!(message(r#"{"activation": "rellu"}"#).contains("did you mean `relu`? Expected `relu` or `gelu`"));
        assert!(message(r#"{"steps": 3}"#).contains("did you mean `train.steps`?"));
        assert!(!message(r#"{"activation": 3}"#).contains("did you mean"));
        assert!(!message(r#"{"size": 3}"#).contains("did you mean"));
        let _ = [Kind::Relu, Kind::Gelu];
    }
}
