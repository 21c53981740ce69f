//! Personal pronouns and grammatical agreement.

use super::french::starts_with_vowel;
use super::lexicon::{Gender, Number};

/// Grammatical person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Person {
    First,
    Second,
    Third,
}

/// What a verb, a participle or an adjective agrees with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreement {
    pub person: Person,
    pub number: Number,
    pub gender: Gender,
}

impl Agreement {
    pub fn third(gender: Gender, number: Number) -> Self {
        Self { person: Person::Third, number, gender }
    }

    /// The index of a French verb form: je, tu, il, nous, ils ("you" is always one friend here).
    pub fn column(self) -> usize {
        match (self.number, self.person) {
            (Number::Singular, Person::First) => 0,
            (Number::Singular, Person::Second) => 1,
            (Number::Singular, Person::Third) => 2,
            (Number::Plural, Person::First | Person::Second) => 3,
            (Number::Plural, Person::Third) => 4,
        }
    }
}

/// A personal pronoun. English does not show the gender of I, you, we and they; French then takes the masculine, unless
/// the pronoun stands for a noun of the same sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pronoun {
    I,
    You,
    He,
    She,
    We,
    They,
    /// "it" or "them" for a noun named before, with its gender and number.
    Named(Gender, Number),
}

impl Pronoun {
    pub fn agreement(self) -> Agreement {
        let (person, number, gender) = match self {
            Pronoun::I => (Person::First, Number::Singular, Gender::Masculine),
            Pronoun::You => (Person::Second, Number::Singular, Gender::Masculine),
            Pronoun::He => (Person::Third, Number::Singular, Gender::Masculine),
            Pronoun::She => (Person::Third, Number::Singular, Gender::Feminine),
            Pronoun::We => (Person::First, Number::Plural, Gender::Masculine),
            Pronoun::They => (Person::Third, Number::Plural, Gender::Masculine),
            Pronoun::Named(gender, number) => (Person::Third, number, gender),
        };
        Agreement { person, number, gender }
    }

    /// The English subject, object and possessive.
    fn english(self) -> [&'static str; 3] {
        match self {
            Pronoun::I => ["I", "me", "my"],
            Pronoun::You => ["you", "you", "your"],
            Pronoun::He => ["he", "him", "his"],
            Pronoun::She => ["she", "her", "her"],
            Pronoun::We => ["we", "us", "our"],
            Pronoun::Named(_, Number::Singular) => ["it", "it", "its"],
            Pronoun::They | Pronoun::Named(_, Number::Plural) => ["they", "them", "their"],
        }
    }

    pub fn subject(self) -> &'static str {
        self.english()[0]
    }

    pub fn object(self) -> &'static str {
        self.english()[1]
    }

    pub fn possessive(self) -> &'static str {
        self.english()[2]
    }

    pub fn french_subject(self) -> &'static str {
        match (self.agreement().column(), self.agreement().gender) {
            (0, _) => "je",
            (1, _) => "tu",
            (3, _) => "nous",
            (2, Gender::Masculine) => "il",
            (2, Gender::Feminine) => "elle",
            (_, Gender::Masculine) => "ils",
            (_, Gender::Feminine) => "elles",
        }
    }

    /// The direct object, which stands before the verb.
    pub fn french_object(self) -> &'static str {
        match (self.agreement().column(), self.agreement().gender) {
            (0, _) => "me",
            (1, _) => "te",
            (3, _) => "nous",
            (2, Gender::Masculine) => "le",
            (2, Gender::Feminine) => "la",
            _ => "les",
        }
    }

    /// The indirect object, which stands before the verb.
    pub fn french_recipient(self) -> &'static str {
        match self.agreement().column() {
            0 => "me",
            1 => "te",
            2 => "lui",
            3 => "nous",
            _ => "leur",
        }
    }

    pub fn french_possessive(self, gender: Gender, number: Number, next: &str) -> &'static str {
        let forms = match self.agreement().column() {
            0 => ["mon", "ma", "mes"],
            1 => ["ton", "ta", "tes"],
            2 => ["son", "sa", "ses"],
            3 => ["notre", "notre", "nos"],
            _ => ["leur", "leur", "leurs"],
        };
        match (number, gender) {
            (Number::Plural, _) => forms[2],
            // "mon école": before a vowel the masculine form is used.
            (_, Gender::Feminine) if !starts_with_vowel(next) => forms[1],
            _ => forms[0],
        }
    }
}
