//! A fixed set of names with numbers: labels, words or characters.

use crate::DataError;
use crate::error::excerpt;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Names and their numbers, which are their indices in a list. In JSON a vocabulary is that list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Vocabulary {
    names: Vec<String>,
    ids: HashMap<String, usize>,
}

impl Vocabulary {
    /// Builds a vocabulary of the specials, in their order, and of the items that occur at least `min_count` times, the most
    /// frequent first and those of equal count in alphabetical order.
    pub fn build<S: AsRef<str>>(items: impl IntoIterator<Item = S>, specials: &[&str], min_count: usize) -> Self {
        let mut counts = BTreeMap::<String, u64>::new();
        for item in items {
            match counts.get_mut(item.as_ref()) {
                Some(count) => *count += 1,
                None => drop(counts.insert(item.as_ref().to_string(), 1)),
            }
        }
        Self::from_counts(counts, specials, min_count)
    }

    /// Like [`Vocabulary::build`], for items that are already counted.
    pub fn from_counts(counts: BTreeMap<String, u64>, specials: &[&str], min_count: usize) -> Self {
        let mut kept: Vec<_> = counts
            .into_iter()
            .filter(|(name, count)| *count >= min_count as u64 && !specials.contains(&name.as_str()))
            .collect();
        // The map is sorted and the sort is stable, so equal counts stay in alphabetical order.
        kept.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let mut vocabulary = Self::default();
        for name in specials.iter().map(|s| s.to_string()).chain(kept.into_iter().map(|(name, _)| name)) {
            if !vocabulary.ids.contains_key(&name) {
                vocabulary.push(name);
            }
        }
        vocabulary
    }

    /// Builds a vocabulary of these names in this order.
    ///
    /// # Errors
    /// If a name occurs twice.
    pub fn from_names(names: Vec<String>) -> Result<Self, DataError> {
        let mut vocabulary = Self::default();
        for name in names {
            if vocabulary.ids.contains_key(&name) {
                return Err(DataError::Duplicate { found: excerpt(&name) });
            }
            vocabulary.push(name);
        }
        Ok(vocabulary)
    }

    /// The number of a name, if it is in the vocabulary.
    pub fn get(&self, name: &str) -> Option<usize> {
        self.ids.get(name).copied()
    }

    /// The name of a number.
    ///
    /// # Panics
    /// If `id` is not below [`Vocabulary::len`].
    pub fn name(&self, id: usize) -> &str {
        &self.names[id]
    }

    /// All names in the order of their numbers.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether the vocabulary is empty.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Keeps only the first `limit` names.
    pub(crate) fn truncate(&mut self, limit: usize) {
        for name in self.names.drain(limit.min(self.names.len())..) {
            self.ids.remove(&name);
        }
    }

    fn push(&mut self, name: String) {
        self.ids.insert(name.clone(), self.names.len());
        self.names.push(name);
    }
}

impl TryFrom<Vec<String>> for Vocabulary {
    type Error = DataError;

    fn try_from(names: Vec<String>) -> Result<Self, DataError> {
        Self::from_names(names)
    }
}

impl From<Vocabulary> for Vec<String> {
    fn from(vocabulary: Vocabulary) -> Self {
        vocabulary.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frequent_names_come_first_and_equals_by_text() {
        let items = ["b", "a", "c", "b", "<pad>", "d", "d"];
        let vocabulary = Vocabulary::build(items, &["<pad>", "<unk>"], 1);
        assert_eq!(vocabulary.names(), ["<pad>", "<unk>", "b", "d", "a", "c"]);
        assert_eq!((vocabulary.get("b"), vocabulary.get("x"), vocabulary.name(3)), (Some(2), None, "d"));
        assert_eq!(Vocabulary::build(items, &[], 2).names(), ["b", "d"]);
        assert!(Vocabulary::build(items, &[], 3).is_empty());
        let mut short = vocabulary.clone();
        short.truncate(3);
        assert_eq!((short.len(), short.get("d")), (3, None));
    }

    #[test]
    fn json_is_the_list_of_names() {
        let vocabulary = Vocabulary::build(["x", "y", "x"], &[], 1);
        let json = serde_json::to_string(&vocabulary).unwrap();
        assert_eq!(json, r#"["x","y"]"#);
        assert_eq!(serde_json::from_str::<Vocabulary>(&json).unwrap(), vocabulary);
        let error = serde_json::from_str::<Vocabulary>(r#"["x","x"]"#).unwrap_err().to_string();
        assert!(error.contains("expected distinct names, found \"x\" twice"), "{error}");
    }

    proptest! {
        #[test]
        fn numbers_and_names_are_inverse(items in prop::collection::vec("[a-d]{0,2}", 0..60), min in 1usize..4) {
            let vocabulary = Vocabulary::build(&items, &["<unk>"], min);
            for id in 0..vocabulary.len() {
                prop_assert_eq!(vocabulary.get(vocabulary.name(id)), Some(id));
            }
            for item in &items {
                let count = items.iter().filter(|i| *i == item).count();
                prop_assert_eq!(vocabulary.get(item).is_some(), count >= min);
            }
        }
    }
}
