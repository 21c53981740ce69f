//! Two structs whose keys share one table.
//!
//! Serde's `flatten` does this too, but cannot be combined with `deny_unknown_fields`.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A table with the keys of `Base` and those of `More`. A key that neither has is an error.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Extended<Base, More> {
    /// Keys that are shared with other tables.
    #[serde(flatten)]
    pub base: Base,
    /// Keys that only this table has.
    #[serde(flatten)]
    pub more: More,
}

impl<'de, Base, More> Deserialize<'de> for Extended<Base, More>
where
    Base: Deserialize<'de> + Serialize + Default,
    More: DeserializeOwned + Serialize + Default,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Sides(PhantomData))
    }
}

struct Sides<Base, More>(PhantomData<(Base, More)>);

impl<'de, Base, More> Visitor<'de> for Sides<Base, More>
where
    Base: Deserialize<'de> + Serialize + Default,
    More: DeserializeOwned + Serialize + Default,
{
    type Value = Extended<Base, More>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let mut kept = Map::new();
        let sieve = Sieve { map, base: keys::<Base>(), more: keys::<More>(), kept: &mut kept };
        let base = Base::deserialize(MapAccessDeserializer::new(sieve))?;
        let more = serde_json::from_value(Value::Object(kept)).map_err(A::Error::custom)?;
        Ok(Extended { base, more })
    }
}

/// Returns the default values of a struct by key; only the keys are used.
fn keys<T: Serialize + Default>() -> Map<String, Value> {
    match serde_json::to_value(T::default()) {
        Ok(Value::Object(keys)) => keys,
        _ => Map::new(),
    }
}

/// Passes the entries of `base` on as they come, so that an error keeps its path, and sets those of `more` aside in `kept`.
struct Sieve<'a, A> {
    map: A,
    base: Map<String, Value>,
    more: Map<String, Value>,
    kept: &'a mut Map<String, Value>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Sieve<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.map.next_key::<String>()? {
            if self.more.contains_key(&key) {
                let value = self.map.next_value()?;
                self.kept.insert(key, value);
            } else if self.base.contains_key(&key) {
                return seed.deserialize(key.into_deserializer()).map(Some);
            } else {
                return Err(self.unknown(&key));
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

impl<'de, A: MapAccess<'de>> Sieve<'_, A> {
    /// Returns the error for an unknown key, worded as serde's own.
    fn unknown(&self, key: &str) -> A::Error {
        let known: Vec<String> = self.base.keys().chain(self.more.keys()).map(|key| format!("`{key}`")).collect();
        A::Error::custom(format!("unknown field `{key}`, expected one of {}", known.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Sizes {
        width: usize,
        depth: Option<usize>,
    }

    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Colours {
        colour: String,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    enum Shape {
        Box(Extended<Sizes, Colours>),
    }

    fn read(value: Value) -> Result<Shape, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn both_structs_are_read_from_one_table_and_written_to_one() {
        let shape = read(json!({ "colour": "red", "kind": "box", "width": 3 })).unwrap();
        let expected = Extended { base: Sizes { width: 3, depth: None }, more: Colours { colour: "red".into() } };
        assert_eq!(shape, Shape::Box(expected));
        let written = json!({ "kind": "box", "width": 3, "depth": null, "colour": "red" });
        assert_eq!(serde_json::to_value(shape).unwrap(), written);
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_keys_of_both() {
        let error = read(json!({ "kind": "box", "colours": "red" })).unwrap_err();
        assert!(error.starts_with("unknown field `colours`, expected one of "), "{error}");
        assert!(["`width`", "`depth`", "`colour`"].iter().all(|key| error.contains(key)), "{error}");
        assert!(read(json!({ "kind": "box", "colour": 3 })).unwrap_err().contains("expected a string"));
    }

    #[test]
    fn an_error_of_the_base_keeps_its_path() {
        let wrong = json!({ "colour": "red", "width": "wide" });
        let error = serde_path_to_error::deserialize::<_, Extended<Sizes, Colours>>(wrong).unwrap_err();
        assert_eq!(error.path().to_string(), "width");
    }
}
