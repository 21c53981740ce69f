//! Helpers for configurations: checks of single fields, enums that a file may give by name alone, and suggestions for
//! misspelt names.

use regard_ops::{Activation, Precision};
use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::error::ConfigError;

/// Returns an error if `value` is zero.
pub fn check_positive(field: &str, value: usize) -> Result<(), ConfigError> {
    if value > 0 { Ok(()) } else { Err(ConfigError::new(field, value, "a whole number, 1 or more")) }
}

/// Returns an error unless `value` is from 1 to 10,000: each layer costs memory and time before a size is known to be too large.
pub fn check_layers(field: &str, value: usize) -> Result<(), ConfigError> {
    const MOST: usize = 10_000;
    if (1..=MOST).contains(&value) { Ok(()) } else { Err(ConfigError::new(field, value, format!("from 1 to {MOST}"))) }
}

/// Returns an error unless `value` is a dropout probability, in `[0, 1)`.
pub fn check_dropout(field: &str, value: f32) -> Result<(), ConfigError> {
    if (0.0..1.0).contains(&value) { Ok(()) } else { Err(ConfigError::new(field, value, "a number from 0 to below 1")) }
}

/// Returns an error unless `value` is finite and above zero.
pub fn check_above_zero(field: &str, value: f32) -> Result<(), ConfigError> {
    let fits = value.is_finite() && value > 0.0;
    if fits { Ok(()) } else { Err(ConfigError::new(field, value, "a finite number above 0")) }
}

/// Returns an error for `field` if the product of `sizes` exceeds 2⁴⁰ numbers (4 TiB), the limit for one parameter.
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

/// Returns the name in `known` that is most similar to `given`, or `None` if all are too different.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Lowest Jaro similarity of a suggestion; the tests have typing errors that reach it and names that do not.
    const LIKE: f64 = 0.75;
    let scored = known.into_iter().map(|name| (strsim::jaro(given, name), name)).filter(|(like, _)| *like >= LIKE);
    scored.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

/// Returns the names that serde's `message` about an unknown field or variant lists as expected.
pub fn expected_names(message: &str) -> impl Iterator<Item = &str> {
    let (_, expected) = message.split_once(", expected ").unwrap_or_default();
    expected.split('`').skip(1).step_by(2)
}

/// Adds the most similar valid name to serde's `message` about an unknown field or variant; returns other messages unchanged.
///
/// If none of the expected names is similar, `elsewhere` is asked for a place in another table where the name is valid.
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

/// Deserialises an enum tagged by `kind`, also from a bare name: `position = "rope"` means `position = { kind = "rope" }`.
/// For `#[serde(deserialize_with = "name_or_table")]`.
pub fn name_or_table<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(NameOrTable(std::marker::PhantomData))
}

/// Deserialises a unit variant and rejects any settings given with it, which serde would ignore. For
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

/// Names of the [`Precision`]s in configurations, for `#[serde(with = "PrecisionName")]`.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Precision", rename_all = "snake_case")]
pub enum PrecisionName {
    /// `f32`
    F32,
    /// `bf16`
    Bf16,
}

/// Names of the [`Activation`]s in configurations, for `#[serde(with = "ActivationName")]`.
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
    /// `elu`
    Elu,
}

impl ActivationName {
    /// Returns [`Activation::Relu`], the activation of the original Transformer, as a serde default.
    pub fn relu() -> Activation {
        Activation::Relu
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_find_the_nearest_name() {
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
    fn serde_messages_get_a_suggestion() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Model {
            #[allow(dead_code, reason = "only deserialisation errors are checked")]
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
