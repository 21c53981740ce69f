//! Noun phrases (determiner, adjectives, noun, owner) and places, in English order and with French agreement.

use super::english::English;
use super::french::{French, starts_with_vowel};
use super::lexicon::{Adjective, Count, Gender, Land, LandKind, Location, Name, Noun, Number, Side, WORDS};
use super::{Upos, pronoun::Pronoun};

/// The mood of the clause around a phrase. It turns "some" into "any", and French "un" or "des" into "de" after "pas".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    Affirmative,
    Negative,
    Question,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Determiner {
    The,
    /// "a", or "some" with a plural or a mass noun.
    Indefinite,
    This,
    That,
    My(Pronoun),
    /// An index into the list of numbers.
    Number(usize),
    Many,
    /// A whole kind, without a determiner in English: "I like cats".
    Kind,
    OfName(&'static Name),
    OfNoun(&'static Noun),
}

#[derive(Clone, Debug)]
pub(super) struct NounPhrase {
    pub determiner: Determiner,
    pub adjectives: Vec<&'static Adjective>,
    pub noun: &'static Noun,
    pub number: Number,
}

impl NounPhrase {
    fn form<'a>(&self, forms: &[&'a str; 2]) -> &'a str {
        forms[usize::from(self.number == Number::Plural)]
    }

    pub fn english(&self, mood: Mood, out: &mut English) {
        let plural = self.number == Number::Plural;
        let uncounted = plural || self.noun.count == Count::Mass;
        match self.determiner {
            Determiner::The => out.push("the", Upos::Det),
            Determiner::Indefinite if uncounted => {
                out.push(if mood == Mood::Affirmative { "some" } else { "any" }, Upos::Det);
            }
            Determiner::Indefinite => {
                let next = self.adjectives.first().map_or(self.noun.english[0], |adjective| adjective.english);
                out.push(if next.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }, Upos::Det);
            }
            Determiner::This => out.push(if plural { "these" } else { "this" }, Upos::Det),
            Determiner::That => out.push(if plural { "those" } else { "that" }, Upos::Det),
            Determiner::My(owner) => out.push(owner.possessive(), Upos::Pron),
            Determiner::Number(index) => out.push(WORDS.numbers[index].0, Upos::Num),
            Determiner::Many => out.push("many", Upos::Adj),
            Determiner::Kind => {}
            Determiner::OfName(name) => {
                out.push(name.text, Upos::Propn);
                out.push("'s", Upos::Part);
            }
            Determiner::OfNoun(owner) => {
                out.push("the", Upos::Det);
                out.push(owner.english[0], Upos::Noun);
                out.push("'s", Upos::Part);
            }
        }
        for adjective in &self.adjectives {
            out.push(adjective.english, Upos::Adj);
        }
        out.push(self.form(&self.noun.english), Upos::Noun);
    }

    pub fn french(&self, mood: Mood, out: &mut French) {
        let noun = self.form(&self.noun.french);
        let (before, after): (Vec<&Adjective>, Vec<&Adjective>) =
            self.adjectives.iter().copied().partition(|adjective| adjective.side == Side::Before);
        let mut words: Vec<&str> = vec![noun];
        for adjective in before.iter().rev() {
            words.insert(0, agreed(adjective, self.noun.gender, self.number, Some(words[0])));
        }
        self.french_determiner(mood, words[0], !before.is_empty(), out);
        for word in words {
            out.push(word);
        }
        for adjective in after {
            out.push(agreed(adjective, self.noun.gender, self.number, None));
        }
        match self.determiner {
            Determiner::OfName(name) => {
                out.push("de");
                out.push(name.text);
            }
            Determiner::OfNoun(owner) => {
                out.push("de");
                out.article(definite(owner.gender, Number::Singular));
                out.push(owner.french[0]);
            }
            _ => {}
        }
    }

    fn french_determiner(&self, mood: Mood, next: &str, adjective_first: bool, out: &mut French) {
        let (gender, number) = (self.noun.gender, self.number);
        match (self.determiner, number) {
            (Determiner::Indefinite, _) if mood == Mood::Negative => out.push("de"),
            (Determiner::Indefinite, _) if self.noun.count == Count::Mass => {
                out.push("de");
                out.article(definite(gender, number));
            }
            (Determiner::Indefinite, Number::Singular) => {
                out.push(if gender == Gender::Masculine { "un" } else { "une" });
            }
            // "de vieux livres", but "des livres rouges".
            (Determiner::Indefinite, Number::Plural) => out.push(if adjective_first { "de" } else { "des" }),
            (Determiner::This | Determiner::That, Number::Plural) => out.push("ces"),
            (Determiner::This | Determiner::That, Number::Singular) => out.push(match gender {
                Gender::Feminine => "cette",
                Gender::Masculine if starts_with_vowel(next) => "cet",
                Gender::Masculine => "ce",
            }),
            (Determiner::My(owner), _) => out.push(owner.french_possessive(gender, number, next)),
            (Determiner::Number(index), _) => out.push(WORDS.numbers[index].1),
            (Determiner::Many, _) => {
                out.push("beaucoup");
                out.push("de");
            }
            (Determiner::The | Determiner::Kind | Determiner::OfName(_) | Determiner::OfNoun(_), _) => {
                out.article(definite(gender, number));
            }
        }
    }
}

fn definite(gender: Gender, number: Number) -> &'static str {
    match (gender, number) {
        (_, Number::Plural) => "les",
        (Gender::Masculine, _) => "le",
        (Gender::Feminine, _) => "la",
    }
}

/// The form of an adjective that agrees with its noun. `next` is the next word, if the adjective stands before its noun.
pub(super) fn agreed(adjective: &Adjective, gender: Gender, number: Number, next: Option<&str>) -> &'static str {
    match (gender, number) {
        (Gender::Masculine, Number::Singular) if next.is_some_and(starts_with_vowel) => adjective.before_vowel,
        (Gender::Masculine, Number::Singular) => adjective.french[0],
        (Gender::Feminine, Number::Singular) => adjective.french[1],
        (Gender::Masculine, Number::Plural) => adjective.french[2],
        (Gender::Feminine, Number::Plural) => adjective.french[3],
    }
}

/// The relation of something to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// At the place, by the noun's own preposition: in the park, at the station, on the beach.
    There,
    To,
    From,
    In,
    On,
    Under,
    Behind,
    Near,
    InFrontOf,
    OnTheBackOf,
}

#[derive(Clone, Debug)]
pub(super) enum Ground {
    Phrase(NounPhrase),
    Land(&'static Land),
}

#[derive(Clone, Debug)]
pub(super) struct Place {
    pub relation: Relation,
    pub ground: Ground,
}

impl Place {
    /// The preposition of [`Relation::There`], in English and in French.
    fn own_preposition(&self) -> (&'static str, &'static str) {
        match &self.ground {
            Ground::Phrase(phrase) => match phrase.noun.location {
                Location::At => ("at", "à"),
                Location::On => ("on", "sur"),
                Location::In | Location::None => ("in", "dans"),
            },
            Ground::Land(_) => ("in", "à"),
        }
    }

    pub fn english(&self, out: &mut English) {
        let words: &[&str] = match self.relation {
            Relation::There => &[self.own_preposition().0],
            Relation::To => &["to"],
            Relation::From => &["from"],
            Relation::In => &["in"],
            Relation::On => &["on"],
            Relation::Under => &["under"],
            Relation::Behind => &["behind"],
            Relation::Near => &["near"],
            Relation::InFrontOf => &["in", "front", "of"],
            Relation::OnTheBackOf => &["on", "the", "back", "of"],
        };
        for word in words {
            let tag = match *word {
                "the" => Upos::Det,
                "front" | "back" => Upos::Noun,
                _ => Upos::Adp,
            };
            out.push(word, tag);
        }
        match &self.ground {
            Ground::Phrase(phrase) => phrase.english(Mood::Affirmative, out),
            Ground::Land(land) => out.push(land.english, Upos::Propn),
        }
    }

    pub fn french(&self, out: &mut French) {
        let words: &[&str] = match self.relation {
            Relation::There => &[self.own_preposition().1],
            Relation::To => &["à"],
            Relation::From => &["de"],
            Relation::In => &["dans"],
            Relation::On => &["sur"],
            Relation::Under => &["sous"],
            Relation::Behind => &["derrière"],
            Relation::Near => &["près", "de"],
            Relation::InFrontOf => &["devant"],
            Relation::OnTheBackOf => &["sur", "le", "dos", "de"],
        };
        let feminine = matches!(&self.ground, Ground::Land(land) if land.kind == LandKind::Country(Gender::Feminine));
        match words {
            ["à"] if feminine => out.push("en"),
            words => words.iter().for_each(|word| out.push(*word)),
        }
        match &self.ground {
            Ground::Phrase(phrase) => phrase.french(Mood::Affirmative, out),
            Ground::Land(land) => {
                if land.kind == LandKind::Country(Gender::Masculine) {
                    out.article("le");
                }
                out.push(land.french);
            }
        }
    }
}
