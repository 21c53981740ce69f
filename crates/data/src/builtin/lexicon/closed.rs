//! The small closed classes: names, cities and countries, adverbs, times.

use super::super::Upos;
use super::Gender;
use Gender::{Feminine as F, Masculine as M};

/// A first name, the same in both languages.
#[derive(Debug)]
pub(in crate::builtin) struct Name {
    pub text: &'static str,
    pub gender: Gender,
}

const fn name(text: &'static str, gender: Gender) -> Name {
    Name { text, gender }
}

/// Names; some begin with a vowel, for elision.
pub(in crate::builtin) static NAMES: &[Name] = &[
    name("Anna", F),
    name("Marie", F),
    name("Emma", F),
    name("Alice", F),
    name("Sophie", F),
    name("Paul", M),
    name("Louis", M),
    name("Marc", M),
    name("Thomas", M),
    name("Antoine", M),
];

/// A city or a country with its names in the two languages.
#[derive(Debug)]
pub(in crate::builtin) struct Land {
    pub english: &'static str,
    pub french: &'static str,
    pub kind: LandKind,
}

/// What decides the French preposition: "à Paris", "en Italie", "au Japon".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::builtin) enum LandKind {
    City,
    Country(Gender),
}

const fn land(english: &'static str, french: &'static str, kind: LandKind) -> Land {
    Land { english, french, kind }
}

/// Cities and countries.
pub(in crate::builtin) static LANDS: &[Land] = &[
    land("Paris", "Paris", LandKind::City),
    land("Rome", "Rome", LandKind::City),
    land("London", "Londres", LandKind::City),
    land("France", "France", LandKind::Country(F)),
    land("Italy", "Italie", LandKind::Country(F)),
    land("England", "Angleterre", LandKind::Country(F)),
    land("Japan", "Japon", LandKind::Country(M)),
    land("Canada", "Canada", LandKind::Country(M)),
];

/// Adverbs before the English verb, after the French finite verb.
pub(in crate::builtin) static FREQUENCY: &[(&str, &str)] =
    &[("often", "souvent"), ("always", "toujours"), ("rarely", "rarement")];

/// Where a French adverb of manner stands in a compound tense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::builtin) enum MannerPlace {
    /// "il a bien dormi".
    BeforeParticiple,
    /// "il a couru lentement".
    AfterParticiple,
}

/// An adverb of manner.
#[derive(Debug)]
pub(in crate::builtin) struct Manner {
    pub english: &'static str,
    pub french: &'static str,
    pub place: MannerPlace,
}

/// Adverbs of manner; the first goes with every verb that takes one.
pub(in crate::builtin) static MANNERS: &[Manner] = &[
    Manner { english: "well", french: "bien", place: MannerPlace::BeforeParticiple },
    Manner { english: "slowly", french: "lentement", place: MannerPlace::AfterParticiple },
    Manner { english: "quickly", french: "rapidement", place: MannerPlace::AfterParticiple },
];

/// Words of time, with the tense they go with.
#[derive(Debug)]
pub(in crate::builtin) struct Time {
    pub english: &'static [(&'static str, Upos)],
    pub french: &'static str,
}

const fn time(english: &'static [(&'static str, Upos)], french: &'static str) -> Time {
    Time { english, french }
}

use Upos::{Adj, Adp, Adv, Det, Noun};

/// With the present.
pub(in crate::builtin) static TIMES_PRESENT: &[Time] = &[
    time(&[("every", Det), ("day", Noun)], "tous les jours"),
    time(&[("every", Det), ("evening", Noun)], "tous les soirs"),
    time(&[("today", Noun)], "aujourd'hui"),
    time(&[("now", Adv)], "maintenant"),
    time(&[("at", Adp), ("night", Noun)], "la nuit"),
];

/// With the past.
pub(in crate::builtin) static TIMES_PAST: &[Time] = &[
    time(&[("yesterday", Noun)], "hier"),
    time(&[("last", Adj), ("week", Noun)], "la semaine dernière"),
    time(&[("last", Adj), ("night", Noun)], "hier soir"),
    time(&[("this", Det), ("morning", Noun)], "ce matin"),
];

/// With the future.
pub(in crate::builtin) static TIMES_FUTURE: &[Time] = &[
    time(&[("tomorrow", Noun)], "demain"),
    time(&[("next", Adj), ("week", Noun)], "la semaine prochaine"),
    time(&[("this", Det), ("evening", Noun)], "ce soir"),
];

/// Numbers from two.
pub(in crate::builtin) static NUMBERS: &[(&str, &str)] =
    &[("two", "deux"), ("three", "trois"), ("four", "quatre"), ("five", "cinq")];
