//! Clauses in French: tenses, clitic pronouns, the places of "ne … pas" and of adverbs, and agreement.

use super::super::french::{French, participle};
use super::super::lexicon::{Auxiliary, MannerPlace, Past, Present, Verb, WORDS};
use super::super::phrase::{Mood, agreed};
use super::super::pronoun::Agreement;
use super::{Clause, Degree, Modal, Object, Order, Polarity, Predicate, Recipient, Tense};

impl Clause {
    pub fn french(&self, order: Order, out: &mut French) {
        let who = self.subject.agreement();
        let verb = self.verb();
        self.subject.french(out);
        if self.polarity != Polarity::Yes {
            out.push("ne");
        }
        let governor = match (self.modal, self.tense) {
            (Some(Modal::Can), _) => Some(WORDS.verb("pouvoir")),
            (Some(Modal::Must), _) => Some(WORDS.verb("devoir")),
            (Some(Modal::Want), _) => Some(WORDS.verb("vouloir")),
            (Some(Modal::Right), _) => Some(WORDS.verb("avoir")),
            // "I am going to see" is "je vais voir".
            (None, Tense::Future) => Some(WORDS.verb("aller")),
            (None, _) => None,
        };
        let compound = match (governor, self.tense, verb.past) {
            (None, Tense::Past, Past::Compound(auxiliary)) => Some(auxiliary),
            _ => None,
        };
        if governor.is_none() {
            self.clitic(out);
        }
        match (governor, compound, self.tense, verb.past) {
            (Some(governor), ..) => out.push(present(governor, who)),
            (_, Some(Auxiliary::Avoir), ..) => out.push(present(WORDS.verb("avoir"), who)),
            (_, Some(Auxiliary::Etre), ..) => out.push(present(WORDS.verb("être"), who)),
            (_, _, Tense::Past, Past::Imperfect(stem)) => out.push(imperfect(stem, who)),
            _ => out.push(present(verb, who)),
        }
        match self.polarity {
            Polarity::Yes => {}
            Polarity::Not => out.push("pas"),
            Polarity::Never => out.push("jamais"),
        }
        if let Some((_, frequency)) = self.frequency {
            out.push(*frequency);
        }
        let early = self.manner.filter(|manner| manner.place == MannerPlace::BeforeParticiple);
        if let Some(manner) = early {
            out.push(manner.french);
        }
        if governor.is_some() {
            if self.modal == Some(Modal::Right) {
                ["le", "droit", "de"].into_iter().for_each(|word| out.push(word));
            }
            self.clitic(out);
            out.push(verb.infinitive);
        } else if let Some(auxiliary) = compound {
            out.push(self.participle(auxiliary, who));
        }
        self.french_complements(self.mood(order), who, out);
    }

    /// Adds the pronoun before the verb.
    fn clitic(&self, out: &mut French) {
        let Predicate::Do { object, recipient, .. } = &self.predicate else { return };
        if let Object::Pronoun(pronoun) = object {
            out.push(pronoun.french_object());
        }
        if let Recipient::Pronoun(pronoun) = recipient {
            out.push(pronoun.french_recipient());
        }
    }

    /// The participle: with être it agrees with the subject, with avoir with an object that stands before it.
    fn participle(&self, auxiliary: Auxiliary, who: Agreement) -> String {
        let verb = self.verb();
        let object = match &self.predicate {
            Predicate::Do { object: Object::Pronoun(pronoun), .. } => {
                Some((pronoun.agreement().gender, pronoun.agreement().number))
            }
            Predicate::Do { object: Object::Fronted(gender, number), .. } => Some((*gender, *number)),
            _ => None,
        };
        match (auxiliary, object) {
            (Auxiliary::Etre, _) => participle(verb.participle, who.gender, who.number),
            (Auxiliary::Avoir, Some((gender, number))) => participle(verb.participle, gender, number),
            (Auxiliary::Avoir, None) => verb.participle.to_string(),
        }
    }

    fn french_complements(&self, mood: Mood, who: Agreement, out: &mut French) {
        match &self.predicate {
            Predicate::Do { object, recipient, .. } => {
                if let Object::Phrase(phrase) = object {
                    phrase.french(mood, out);
                }
                match recipient {
                    Recipient::Name(name) => {
                        out.push("à");
                        out.push(name.text);
                    }
                    Recipient::Phrase(phrase) => {
                        out.push("à");
                        phrase.french(Mood::Affirmative, out);
                    }
                    Recipient::None | Recipient::Pronoun(_) => {}
                }
            }
            Predicate::Quality(adjective, degree) => {
                match degree {
                    Degree::Plain => {}
                    Degree::Very => out.push("très"),
                    Degree::Too => out.push("trop"),
                }
                out.push(agreed(adjective, who.gender, who.number, None));
            }
            Predicate::Profession(noun) => out.push(noun.french[0]),
            Predicate::There => {}
        }
        if let Some(manner) = self.manner.filter(|manner| manner.place == MannerPlace::AfterParticiple) {
            out.push(manner.french);
        }
        if let Some(place) = &self.place {
            place.french(out);
        }
        if let Some(time) = self.time {
            out.push(time.french);
        }
    }
}

/// The French present tense of a verb.
pub(in crate::builtin) fn present(verb: &Verb, who: Agreement) -> String {
    match &verb.present {
        Present::Forms(forms) => forms[who.column()].to_string(),
        Present::Er(stem) => format!("{stem}{}", ["e", "es", "e", "ons", "ent"][who.column()]),
    }
}

/// The French imperfect of a stem.
pub(in crate::builtin) fn imperfect(stem: &str, who: Agreement) -> String {
    format!("{stem}{}", ["ais", "ais", "ait", "ions", "aient"][who.column()])
}
