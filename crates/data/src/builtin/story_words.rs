//! The words of the stories, in groups that belong together. They are read from `words/stories.txt`.

use super::lexicon::{Gender, WORDS};
use super::lists::{Cell, list};
use crate::DataError;
use std::sync::LazyLock;

/// The words of the stories.
pub(super) struct Stories {
    /// The words for him and her, and what such people do.
    pub people: Vec<([&'static str; 2], Vec<&'static str>)>,
    /// Country, capital, language and food.
    pub countries: Vec<[&'static str; 4]>,
    /// Base, third person and past of a verb, and what can follow it.
    pub actions: Vec<([&'static str; 3], Vec<&'static str>)>,
    /// Animal, cry, food and home.
    pub animals: Vec<[&'static str; 4]>,
    pub colours: Vec<&'static str>,
    /// Things that have a colour.
    pub painted: Vec<&'static str>,
    pub food: Vec<&'static str>,
    pub drinks: Vec<&'static str>,
    pub days: Vec<&'static str>,
    pub places: Vec<&'static str>,
    pub men: Vec<&'static str>,
    pub women: Vec<&'static str>,
}

pub(super) static STORIES: LazyLock<Stories> =
    LazyLock::new(|| Stories::read().unwrap_or_else(|error| panic!("{error}")));

impl Stories {
    fn read() -> Result<Self, DataError> {
        let list = list!("stories.txt");
        let texts = |cells: [Cell; 4]| Ok(cells.map(|cell| cell.text));
        let named = |gender| WORDS.names.iter().filter(|name| name.gender == gender).map(|name| name.text).collect();
        Ok(Self {
            people: list.read("people", ["pair", "deeds"], |[pair, deeds]| Ok((pair.forms()?, deeds.phrases())))?,
            countries: list.read("countries", ["country", "capital", "language", "food"], texts)?,
            actions: list.read("actions", ["verb", "rest"], |[verb, rest]| Ok((verb.forms()?, rest.phrases())))?,
            animals: list.read("animals", ["animal", "cry", "food", "home"], texts)?,
            colours: list.words("colours")?,
            painted: list.words("painted")?,
            food: list.words("food")?,
            drinks: list.words("drinks")?,
            days: list.words("days")?,
            places: list.words("places")?,
            men: named(Gender::Masculine),
            women: named(Gender::Feminine),
        })
    }
}
