//! English words beside French ones, with what the rules need to know of each. They are read from the lists in `words/`.
//!
//! A class is a bit; a noun carries the classes it belongs to and a verb or an adjective those it goes with, so that
//! people eat apples and not the reverse.

pub(super) mod class;
mod read;

pub(super) use read::WORDS;

use super::Upos;

/// Grammatical gender in French.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gender {
    Masculine,
    Feminine,
}

/// Grammatical number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Singular,
    Plural,
}

/// Whether a noun can be counted and has a plural of its own in English.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Countable,
    /// "some water": partitive in French.
    Mass,
    /// The English plural looks like the singular ("the fish"), so only the singular is used: each sentence has one
    /// translation.
    SingularOnly,
}

/// The English preposition for being at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Location {
    None,
    In,
    At,
    On,
}

/// A noun. Its forms are singular and plural.
#[derive(Debug)]
pub(super) struct Noun {
    pub english: [&'static str; 2],
    pub french: [&'static str; 2],
    pub gender: Gender,
    pub count: Count,
    pub location: Location,
    pub class: u64,
}

/// The side of the noun on which a French adjective stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    After,
}

/// Whether an adjective can follow "to be".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Anywhere,
    BesideNounOnly,
}

/// An adjective. Its French forms are masculine, feminine, masculine plural and feminine plural.
#[derive(Debug)]
pub(super) struct Adjective {
    pub english: &'static str,
    pub french: [&'static str; 4],
    /// The masculine singular before a vowel: "vieil", "bel", "nouvel".
    pub before_vowel: &'static str,
    pub side: Side,
    pub usage: Use,
    pub class: u64,
}

/// The French present tense.
#[derive(Debug)]
pub(super) enum Present {
    /// The stem of a regular verb in -er.
    Er(&'static str),
    /// The forms with je, tu, il, nous and ils.
    Forms([&'static str; 5]),
}

/// The French auxiliary of the compound past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Auxiliary {
    Avoir,
    Etre,
}

/// The French tense for an English past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Past {
    Compound(Auxiliary),
    /// The stem of the imperfect, for states: "j'avais", "je connaissais".
    Imperfect(&'static str),
}

/// The complements of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A direct object.
    Transitive,
    /// A direct object that may be a whole kind: "I like cats".
    OfKinds,
    /// A direct object and a recipient.
    Giving,
    /// None, or a manner or a place.
    Alone,
    /// A place to go to.
    Goal,
    /// A place to be at.
    Place,
    /// A city or a country to come from.
    Origin,
}

/// The adverbs of manner that sound natural with a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manners {
    None,
    Well,
    Any,
}

/// A verb. Its English forms are base, third person and past.
#[derive(Debug)]
pub(super) struct Verb {
    pub english: [&'static str; 3],
    /// A word that follows the English verb: "wait for", "come back".
    pub particle: Option<(&'static str, Upos)>,
    pub present: Present,
    pub infinitive: &'static str,
    pub participle: &'static str,
    pub past: Past,
    pub frame: Frame,
    pub manners: Manners,
    pub subjects: u64,
    pub objects: u64,
}

impl Verb {
    /// Whether base and past are spelt alike ("read"): without a third-person -s they look the same.
    pub fn past_looks_present(&self) -> bool {
        self.english[0] == self.english[2]
    }
}

/// A first name, the same in both languages.
#[derive(Debug)]
pub(super) struct Name {
    pub text: &'static str,
    pub gender: Gender,
}

/// A city or a country with its names in the two languages.
#[derive(Debug)]
pub(super) struct Land {
    pub english: &'static str,
    pub french: &'static str,
    pub kind: LandKind,
}

/// What decides the French preposition: "à Paris", "en Italie", "au Japon".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LandKind {
    City,
    Country(Gender),
}

/// The place of a French adverb of manner in a compound tense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MannerPlace {
    /// "il a bien dormi".
    BeforeParticiple,
    /// "il a couru lentement".
    AfterParticiple,
}

/// An adverb of manner.
#[derive(Debug)]
pub(super) struct Manner {
    pub english: &'static str,
    pub french: &'static str,
    pub place: MannerPlace,
}

/// Words that say when.
#[derive(Debug)]
pub(super) struct Time {
    pub english: Vec<(&'static str, Upos)>,
    pub french: &'static str,
}
