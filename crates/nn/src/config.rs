//! What configurations share: checks of single fields, and choices that a file may give by name alone.

use regard_ops::Activation;
use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::error::ConfigError;

/// Refuses zero.
pub fn check_positive(field: &str, value: usize) -> Result<(), ConfigError> {
    if value > 0 { Ok(()) } else { Err(ConfigError::new(field, value, "a whole number, 1 or more")) }
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
