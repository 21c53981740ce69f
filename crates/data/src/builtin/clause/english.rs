//! Clauses in English: auxiliaries, "do" and the word order of questions.

use super::super::Upos;
use super::super::english::English;
use super::super::lexicon::{Number, WORDS};
use super::super::phrase::Mood;
use super::super::pronoun::{Agreement, Person};
use super::{Clause, Degree, Modal, Object, Order, Polarity, Predicate, Recipient, Tense};

impl Clause {
    pub fn english(&self, order: Order, out: &mut English) {
        let who = self.subject.agreement();
        let (auxiliary, rest) = self.english_verbs(who, order);
        let negated = self.polarity == Polarity::Not;
        let mut subject = Some(&self.subject);
        if order == Order::Statement
            && let Some(subject) = subject.take()
        {
            subject.english(out);
        }
        match auxiliary {
            Some("can") if negated && order == Order::Statement => out.push("cannot", Upos::Aux),
            Some(auxiliary) => {
                out.push(auxiliary, Upos::Aux);
                if let Some(subject) = subject {
                    subject.english(out);
                }
                if negated {
                    out.push("not", Upos::Part);
                }
            }
            None => {}
        }
        if self.polarity == Polarity::Never {
            out.push("never", Upos::Adv);
        }
        if let Some((frequency, _)) = self.frequency {
            out.push(frequency, Upos::Adv);
        }
        for (word, tag) in rest {
            out.push(word, tag);
        }
        self.english_complements(self.mood(order), out);
    }

    /// The auxiliary, if there is one, and the verbs after it.
    fn english_verbs(&self, who: Agreement, order: Order) -> (Option<&'static str>, Vec<(&'static str, Upos)>) {
        let verb = self.verb();
        let infinitive = (verb.english[0], if self.is_copula() { Upos::Aux } else { Upos::Verb });
        let to = ("to", Upos::Part);
        let supported = self.polarity == Polarity::Not || order == Order::Question;
        let (governor, mut rest) = match (self.modal, self.tense) {
            (Some(Modal::Can), _) => return (Some("can"), vec![infinitive]),
            (Some(Modal::Must), _) => return (Some("must"), vec![infinitive]),
            (Some(Modal::Want), _) => (WORDS.verb("vouloir"), vec![to, infinitive]),
            (Some(Modal::Right), _) => {
                (WORDS.verb("avoir"), vec![("the", Upos::Det), ("right", Upos::Noun), to, infinitive])
            }
            (None, Tense::Future) => {
                return (Some(be(who, Tense::Present)), vec![("going", Upos::Verb), to, infinitive]);
            }
            (None, tense) if self.is_copula() => return (Some(be(who, tense)), vec![]),
            (None, _) => (verb, vec![]),
        };
        let third = who.person == Person::Third && who.number == Number::Singular;
        let past = self.tense == Tense::Past;
        let auxiliary = supported.then_some(if past {
            "did"
        } else if third {
            "does"
        } else {
            "do"
        });
        let form = match (supported, past, third) {
            (true, ..) => 0,
            (_, true, _) => 2,
            (_, _, third) => usize::from(third),
        };
        rest.insert(0, (governor.english[form], Upos::Verb));
        (auxiliary, rest)
    }

    fn english_complements(&self, mood: Mood, out: &mut English) {
        match &self.predicate {
            Predicate::Do { verb, object, recipient } => {
                if let Some((particle, tag)) = verb.particle {
                    out.push(particle, tag);
                }
                if let Recipient::Pronoun(pronoun) = recipient {
                    out.push(pronoun.object(), Upos::Pron);
                }
                match object {
                    Object::Pronoun(pronoun) => out.push(pronoun.object(), Upos::Pron),
                    Object::Phrase(phrase) => phrase.english(mood, out),
                    Object::None | Object::Fronted(..) => {}
                }
                match recipient {
                    Recipient::Name(name) => {
                        out.push("to", Upos::Adp);
                        out.push(name.text, Upos::Propn);
                    }
                    Recipient::Phrase(phrase) => {
                        out.push("to", Upos::Adp);
                        phrase.english(Mood::Affirmative, out);
                    }
                    Recipient::None | Recipient::Pronoun(_) => {}
                }
            }
            Predicate::Quality(adjective, degree) => {
                match degree {
                    Degree::Plain => {}
                    Degree::Very => out.push("very", Upos::Adv),
                    Degree::Too => out.push("too", Upos::Adv),
                }
                out.push(adjective.english, Upos::Adj);
            }
            Predicate::Profession(noun) => {
                out.push("a", Upos::Det);
                out.push(noun.english[0], Upos::Noun);
            }
            Predicate::There => {}
        }
        if let Some(manner) = self.manner {
            out.push(manner.english, Upos::Adv);
        }
        if let Some(place) = &self.place {
            place.english(out);
        }
        for (word, tag) in self.time.iter().flat_map(|time| &time.english) {
            out.push(word, *tag);
        }
    }
}

/// The form of the English "to be".
pub(in crate::builtin) fn be(who: Agreement, tense: Tense) -> &'static str {
    match (tense, who.number, who.person) {
        (Tense::Past, Number::Singular, Person::First | Person::Third) => "was",
        (Tense::Past, ..) => "were",
        (_, Number::Singular, Person::First) => "am",
        (_, Number::Singular, Person::Third) => "is",
        _ => "are",
    }
}
