//! Clauses: who does what, when and whether. [`english`] and [`french`] put them into words.

mod english;
mod french;

pub(super) use english::be;
pub(super) use french::{imperfect, present};

use super::Upos;
use super::english::English;
use super::french::French;
use super::lexicon::{Adjective, Gender, Manner, Name, Noun, Number, Time, Verb, WORDS};
use super::phrase::{Mood, NounPhrase, Place};
use super::pronoun::{Agreement, Pronoun};

#[derive(Clone, Debug)]
pub(super) enum Subject {
    Pronoun(Pronoun),
    Name(&'static Name),
    Names(&'static Name, &'static Name),
    Phrase(NounPhrase),
    /// "who" in a question or a relative clause; the verb agrees with what it stands for.
    Who(Agreement),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tense {
    Present,
    Past,
    Future,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Polarity {
    Yes,
    Not,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Modal {
    Can,
    Must,
    Want,
    /// "to have the right to".
    Right,
}

#[derive(Clone, Debug)]
pub(super) enum Object {
    None,
    Pronoun(Pronoun),
    Phrase(NounPhrase),
    /// An object before the clause: "the watch *that* I bought". The participle agrees with it.
    Fronted(Gender, Number),
}

#[derive(Clone, Debug)]
pub(super) enum Recipient {
    None,
    Pronoun(Pronoun),
    Name(&'static Name),
    Phrase(NounPhrase),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Degree {
    Plain,
    Very,
    Too,
}

#[derive(Clone, Debug)]
pub(super) enum Predicate {
    Do {
        verb: &'static Verb,
        object: Object,
        recipient: Recipient,
    },
    Quality(&'static Adjective, Degree),
    /// "is a doctor": French leaves the article out.
    Profession(&'static Noun),
    /// To be at the clause's place.
    There,
}

#[derive(Clone, Debug)]
pub(super) struct Clause {
    pub subject: Subject,
    pub tense: Tense,
    pub polarity: Polarity,
    pub modal: Option<Modal>,
    pub predicate: Predicate,
    pub frequency: Option<&'static (&'static str, &'static str)>,
    pub manner: Option<&'static Manner>,
    pub place: Option<Place>,
    pub time: Option<&'static Time>,
}

/// The word order of an English clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Statement,
    /// The auxiliary stands before the subject.
    Question,
}

impl Subject {
    pub fn agreement(&self) -> Agreement {
        match self {
            Subject::Pronoun(pronoun) => pronoun.agreement(),
            Subject::Name(name) => Agreement::third(name.gender, Number::Singular),
            Subject::Names(first, second) => {
                let feminine = first.gender == Gender::Feminine && second.gender == Gender::Feminine;
                Agreement::third(if feminine { Gender::Feminine } else { Gender::Masculine }, Number::Plural)
            }
            Subject::Phrase(phrase) => Agreement::third(phrase.noun.gender, phrase.number),
            Subject::Who(agreement) => *agreement,
        }
    }

    pub fn english(&self, out: &mut English) {
        match self {
            Subject::Pronoun(pronoun) => out.push(pronoun.subject(), Upos::Pron),
            Subject::Name(name) => out.push(name.text, Upos::Propn),
            Subject::Names(first, second) => {
                out.push(first.text, Upos::Propn);
                out.push("and", Upos::Cconj);
                out.push(second.text, Upos::Propn);
            }
            Subject::Phrase(phrase) => phrase.english(Mood::Affirmative, out),
            Subject::Who(_) => out.push("who", Upos::Pron),
        }
    }

    pub fn french(&self, out: &mut French) {
        match self {
            Subject::Pronoun(pronoun) => out.push(pronoun.french_subject()),
            Subject::Name(name) => out.push(name.text),
            Subject::Names(first, second) => {
                [first.text, "et", second.text].into_iter().for_each(|word| out.push(word))
            }
            Subject::Phrase(phrase) => phrase.french(Mood::Affirmative, out),
            Subject::Who(_) => out.push("qui"),
        }
    }
}

impl Clause {
    fn is_copula(&self) -> bool {
        !matches!(self.predicate, Predicate::Do { .. })
    }

    fn verb(&self) -> &'static Verb {
        match self.predicate {
            Predicate::Do { verb, .. } => verb,
            _ => WORDS.verb("être"),
        }
    }

    fn mood(&self, order: Order) -> Mood {
        match (self.polarity, order) {
            (Polarity::Yes, Order::Statement) => Mood::Affirmative,
            (Polarity::Yes, Order::Question) => Mood::Question,
            _ => Mood::Negative,
        }
    }
}
