//! Reads the word lists of the sentences.

use super::super::lists::{Cell, List, list};
use super::class::PLACE;
use super::*;
use crate::DataError;
use std::sync::LazyLock;

/// The words of the built-in sentences.
pub(in crate::builtin) struct Words {
    pub nouns: Vec<Noun>,
    pub adjectives: Vec<Adjective>,
    pub verbs: Vec<Verb>,
    /// Verbs before a clause with "that".
    pub thinking: Vec<Verb>,
    /// Verbs that the grammar names.
    helpers: Vec<Verb>,
    pub names: Vec<Name>,
    pub lands: Vec<Land>,
    /// Adverbs before the English verb and after the French finite verb, in both languages.
    pub frequency: Vec<(&'static str, &'static str)>,
    /// Adverbs of manner. The first goes with every verb that takes one.
    pub manners: Vec<Manner>,
    pub times_present: Vec<Time>,
    pub times_past: Vec<Time>,
    pub times_future: Vec<Time>,
    /// Numbers from two, in both languages.
    pub numbers: Vec<(&'static str, &'static str)>,
    /// French words whose h is not mute: "le héros", "le hibou".
    pub aspirated: Vec<&'static str>,
}

pub(in crate::builtin) static WORDS: LazyLock<Words> =
    LazyLock::new(|| Words::read().unwrap_or_else(|error| panic!("{error}")));

impl Words {
    fn read() -> Result<Self, DataError> {
        let (verbs, small) = (list!("verbs.txt"), list!("small.txt"));
        let read_verbs = |section| {
            let groups = verbs.groups()?;
            verbs.read(section, VERB_COLUMNS, |cells| verb(cells, &groups))
        };
        let pairs =
            |section| small.read(section, ["english", "french"], |cells| Ok(cells.map(|cell| cell.text).into()));
        let times = |section| {
            small.read(section, ["english", "french"], |[english, french]| {
                let words = english.words().into_iter().map(|word| english.tagged(word));
                Ok(Time { english: words.collect::<Result<_, _>>()?, french: french.text })
            })
        };
        Ok(Self {
            nouns: nouns(&list!("nouns.txt"))?,
            adjectives: adjectives(&list!("adjectives.txt"))?,
            verbs: read_verbs("verbs")?,
            thinking: read_verbs("thinking")?,
            helpers: read_verbs("helpers")?,
            names: small.read("names", ["name", "gender"], |[name, gender]| {
                Ok(Name { text: name.text, gender: gender.choice(&GENDERS)? })
            })?,
            lands: small.read("lands", ["english", "french", "kind"], |[english, french, kind]| {
                let country = GENDERS.map(|(name, gender)| (name, LandKind::Country(gender)));
                let kinds = [("city", LandKind::City), country[0], country[1]];
                Ok(Land { english: english.text, french: french.text, kind: kind.choice(&kinds)? })
            })?,
            frequency: pairs("frequency")?,
            manners: small.read("manner", ["english", "french", "place"], |[english, french, place]| {
                let places = [("before", MannerPlace::BeforeParticiple), ("after", MannerPlace::AfterParticiple)];
                Ok(Manner { english: english.text, french: french.text, place: place.choice(&places)? })
            })?,
            times_present: times("present")?,
            times_past: times("past")?,
            times_future: times("future")?,
            numbers: pairs("numbers")?,
            aspirated: small.words("aspirated")?,
        })
    }

    /// The noun with this English singular.
    ///
    /// # Panics
    /// If there is none.
    pub fn noun(&self, english: &str) -> &Noun {
        let found = self.nouns.iter().find(|noun| noun.english[0] == english);
        found.unwrap_or_else(|| panic!("the grammar needs the noun {english:?} in nouns.txt"))
    }

    /// The first verb with this French infinitive.
    ///
    /// # Panics
    /// If there is none.
    pub fn verb(&self, infinitive: &str) -> &Verb {
        let found = self.helpers.iter().chain(&self.verbs).find(|verb| verb.infinitive == infinitive);
        found.unwrap_or_else(|| panic!("the grammar needs the verb {infinitive:?} in verbs.txt"))
    }
}

const GENDERS: [(&str, Gender); 2] = [("m", Gender::Masculine), ("f", Gender::Feminine)];

fn nouns(list: &List) -> Result<Vec<Noun>, DataError> {
    let locations = [("-", Location::None), ("in", Location::In), ("at", Location::At), ("on", Location::On)];
    list.read(
        "nouns",
        ["english", "gender", "french", "where", "classes"],
        |[english, gender, french, place, classes]| {
            let (english, french, count) = match (&english.words()[..], &french.words()[..]) {
                (&[english], &[french]) => ([english; 2], [french; 2], Count::Mass),
                (&[one, many], &[un, plusieurs]) if one == many => ([one, many], [un, plusieurs], Count::SingularOnly),
                (&[one, many], &[un, plusieurs]) => ([one, many], [un, plusieurs], Count::Countable),
                _ => return Err(french.error("one form or two, as many as in English,")),
            };
            let location = place.choice(&locations)?;
            let class = classes.classes(&[])? | if location == Location::None { 0 } else { PLACE };
            Ok(Noun { english, french, gender: gender.choice(&GENDERS)?, count, location, class })
        },
    )
}

fn adjectives(list: &List) -> Result<Vec<Adjective>, DataError> {
    let groups = list.groups()?;
    let columns = ["english", "french", "vowel", "side", "be", "classes"];
    list.read("adjectives", columns, |[english, french, vowel, side, be, classes]| {
        let french: [&str; 4] = french.forms()?;
        Ok(Adjective {
            english: english.text,
            french,
            before_vowel: if vowel.text == "-" { french[0] } else { vowel.text },
            side: side.choice(&[("before", Side::Before), ("after", Side::After)])?,
            usage: be.choice(&[("yes", Use::Anywhere), ("no", Use::BesideNounOnly)])?,
            class: classes.classes(&groups)?,
        })
    })
}

const VERB_COLUMNS: [&str; 9] =
    ["english", "infinitive", "present", "participle", "past", "takes", "manner", "subjects", "objects"];

fn verb(cells: [Cell; 9], groups: &[(&str, u64)]) -> Result<Verb, DataError> {
    let [english, infinitive, present, participle, past, takes, manner, subjects, objects] = cells;
    let (forms, particle) = match english.words()[..] {
        [base, third, past] => ([base, third, past], None),
        [base, third, past, particle] => ([base, third, past], Some(english.tagged(particle)?)),
        _ => return Err(english.error("base, third person, past, and perhaps word/TAG")),
    };
    let frames = [
        ("object", Frame::Transitive),
        ("kind", Frame::OfKinds),
        ("giving", Frame::Giving),
        ("nothing", Frame::Alone),
        ("goal", Frame::Goal),
        ("place", Frame::Place),
        ("origin", Frame::Origin),
    ];
    Ok(Verb {
        english: forms,
        particle,
        present: match present.text.strip_suffix('-') {
            Some(stem) => Present::Er(stem),
            None => Present::Forms(present.forms()?),
        },
        infinitive: infinitive.text,
        participle: participle.text,
        past: match (past.text, past.text.strip_suffix('-')) {
            ("avoir", _) => Past::Compound(Auxiliary::Avoir),
            ("être", _) => Past::Compound(Auxiliary::Etre),
            (_, Some(stem)) => Past::Imperfect(stem),
            _ => return Err(past.error("avoir, être, or a stem and a hyphen")),
        },
        frame: takes.choice(&frames)?,
        manners: manner.choice(&[("-", Manners::None), ("well", Manners::Well), ("any", Manners::Any)])?,
        subjects: subjects.classes(groups)?,
        objects: objects.classes(groups)?,
    })
}
