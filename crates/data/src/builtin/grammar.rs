//! Draws whole sentences: which kinds there are, and how often each is drawn.

use super::clause::{Clause, Modal, Object, Order, Polarity, Predicate, Recipient, Subject, Tense};
use super::draw::{Draw, Size};
use super::lexicon::class::*;
use super::lexicon::{Frame, Gender, Number, Past, Verb, WORDS};
use super::phrase::{Determiner, NounPhrase};
use super::pronoun::{Agreement, Pronoun};
use super::sentence::{Asked, Joint, Tree};

/// Allowed lengths of an English sentence, in words.
pub(super) const LENGTHS: std::ops::RangeInclusive<usize> = 3..=14;

/// The first sentences of every test part: "I saw a saw." and "Citizens have the right to right wrongs."
pub(super) fn showcase() -> [Tree; 2] {
    let phrase = |determiner, english, number| NounPhrase {
        determiner,
        adjectives: Vec::new(),
        noun: WORDS.noun(english),
        number,
    };
    let act = |subject, tense, modal, infinitive, phrase| {
        let (verb, object) = (WORDS.verb(infinitive), Object::Phrase(phrase));
        let predicate = Predicate::Do { verb, object, recipient: Recipient::None };
        let (polarity, frequency, manner, place, time) = (Polarity::Yes, None, None, None, None);
        Tree::Statement(Clause { subject, tense, polarity, modal, predicate, frequency, manner, place, time })
    };
    let citizens = phrase(Determiner::Kind, "citizen", Number::Plural);
    let wrongs = phrase(Determiner::Kind, "wrong", Number::Plural);
    let saw = phrase(Determiner::Indefinite, "saw", Number::Singular);
    [
        act(Subject::Pronoun(Pronoun::I), Tense::Past, None, "voir", saw),
        act(Subject::Phrase(citizens), Tense::Present, Some(Modal::Right), "redresser", wrongs),
    ]
}

#[derive(Clone, Copy)]
enum Kind {
    Statement,
    Whether,
    Wh,
    What,
    Who,
    WhereIs,
    Joined,
    Reference,
    That,
    Existence,
    Relative,
}

impl Draw {
    /// Draws a sentence.
    pub fn tree(&mut self) -> Tree {
        let kind = self.weighted(&[
            (48, Kind::Statement),
            (11, Kind::Whether),
            (5, Kind::Wh),
            (2, Kind::What),
            (3, Kind::Who),
            (2, Kind::WhereIs),
            (7, Kind::Joined),
            (7, Kind::Reference),
            (4, Kind::That),
            (5, Kind::Existence),
            (6, Kind::Relative),
        ]);
        match kind {
            Kind::Statement => Tree::Statement(self.clause(Size::Full)),
            Kind::Whether => Tree::Question(Asked::Whether, self.asked_clause()),
            Kind::Wh => self.wh_question(),
            Kind::What => self.what_question(),
            Kind::Who => Tree::Who(self.who_clause()),
            Kind::WhereIs => self.where_is(),
            Kind::Joined => self.joined(),
            Kind::Reference => self.reference(),
            Kind::That => self.that(),
            Kind::Existence => self.existence(),
            Kind::Relative => self.relative(),
        }
    }

    /// Draws a clause that can be asked about: no "must", and no adverb that would stand elsewhere in a question.
    fn asked_clause(&mut self) -> Clause {
        loop {
            let clause = self.clause(Size::Full);
            let asks_oneself = matches!(clause.subject, Subject::Pronoun(Pronoun::I));
            if !asks_oneself && clause.frequency.is_none() && clause.modal != Some(Modal::Must) {
                return Clause { polarity: Polarity::Yes, ..clause };
            }
        }
    }

    fn wh_question(&mut self) -> Tree {
        loop {
            let mut clause = Clause { time: None, ..self.asked_clause() };
            let Predicate::Do { verb, object, .. } = &mut clause.predicate else { continue };
            // "Any" would sound odd after a question word.
            if let Object::Phrase(phrase) = object
                && matches!(phrase.determiner, Determiner::Indefinite)
            {
                phrase.determiner = Determiner::The;
            }
            let state = matches!(verb.past, Past::Imperfect(_));
            let placed = matches!(verb.frame, Frame::Goal | Frame::Place);
            let origin = verb.frame == Frame::Origin;
            return match self.below(3) {
                0 if !origin && (placed || !state) && clause.modal.is_none() => {
                    Tree::Question(Asked::Where, Clause { place: None, ..clause })
                }
                1 if clause.tense != Tense::Present && !placed && !state => Tree::Question(Asked::When, clause),
                2 => {
                    let polarity = if self.chance(30) { Polarity::Not } else { Polarity::Yes };
                    Tree::Question(Asked::Why, Clause { polarity, ..clause })
                }
                _ => continue,
            };
        }
    }

    fn what_question(&mut self) -> Tree {
        loop {
            let mut clause = self.asked_clause();
            if let Predicate::Do { verb, object, .. } = &mut clause.predicate
                && verb.frame == Frame::Transitive
                && verb.objects & (GOODS | PORTABLE | FOOD | DRINK) != 0
            {
                *object = Object::Fronted(Gender::Masculine, Number::Singular);
                return Tree::Question(Asked::What, clause);
            }
        }
    }

    fn who_clause(&mut self) -> Clause {
        let verb = self.personal_verb();
        let subject = Subject::Who(Agreement::third(Gender::Masculine, Number::Singular));
        let clause = self.action(verb, subject, Size::Full);
        // Few people ask "who never …" or "who cannot …".
        Clause { polarity: Polarity::Yes, ..clause }
    }

    fn personal_verb(&mut self) -> &'static Verb {
        loop {
            let verb = self.verb();
            if verb.subjects & PERSON != 0 {
                return verb;
            }
        }
    }

    fn where_is(&mut self) -> Tree {
        loop {
            let subject = self.subject(PERSON | ANIMAL | PORTABLE | VEHICLE);
            let known = match &subject {
                Subject::Phrase(phrase) => !matches!(phrase.determiner, Determiner::Indefinite | Determiner::Many),
                // A pronoun would need inversion in French.
                Subject::Pronoun(_) => false,
                _ => true,
            };
            if known {
                let tense = if self.chance(30) { Tense::Past } else { Tense::Present };
                return Tree::WhereIs(subject, tense);
            }
        }
    }

    /// Draws a short clause without "they" or "them", which could stand for a noun of another clause.
    fn independent(&mut self) -> Clause {
        loop {
            let clause = self.clause(Size::Short);
            let they = matches!(clause.subject, Subject::Pronoun(Pronoun::They));
            let them = matches!(
                clause.predicate,
                Predicate::Do { object: Object::Pronoun(Pronoun::They), .. }
                    | Predicate::Do { recipient: Recipient::Pronoun(Pronoun::They), .. }
            );
            if !they && !them {
                return clause;
            }
        }
    }

    fn joined(&mut self) -> Tree {
        let joint = self.weighted(&[(3, Joint::And), (2, Joint::But), (3, Joint::Because), (3, Joint::When)]);
        loop {
            let first = self.clause(Size::Short);
            let second = self.independent();
            let timed = first.time.is_some() || second.time.is_some();
            let same = first.tense == second.tense && first.tense != Tense::Future;
            let asserted = second.polarity == Polarity::Yes && first.polarity == Polarity::Yes;
            if !timed && (joint != Joint::When || (same && asserted)) {
                return Tree::Joined(first, joint, second);
            }
        }
    }

    /// Draws two clauses: the first names something, the second calls it "it" or "them". French needs its gender.
    fn reference(&mut self) -> Tree {
        let joint = *self.pick(&[Joint::And, Joint::But]);
        loop {
            let phrase = self.phrase(GOODS | PORTABLE | OPENED | PLANT);
            let named = Pronoun::Named(phrase.noun.gender, phrase.number);
            let verb = *self.pick(&self.verbs_for(phrase.noun.class));
            let (first, subject) = if self.chance(40) {
                let mut first = self.being();
                if !matches!(first.predicate, Predicate::Quality(..)) || first.time.is_some() {
                    continue;
                }
                let Subject::Phrase(seen) = &first.subject else { continue };
                if seen.noun.class & verb.objects == 0 || seen.noun.class & PERSON != 0 {
                    continue;
                }
                let named = Pronoun::Named(seen.noun.gender, seen.number);
                first.polarity = Polarity::Yes;
                let subject = self.speaker();
                let second = self.with_object(verb, subject, Object::Pronoun(named));
                return Tree::Joined(first, joint, second);
            } else {
                let other = *self.pick(&self.verbs_for(phrase.noun.class));
                if other.infinitive == verb.infinitive {
                    continue;
                }
                let subject = self.subject(PERSON);
                let again = again(&subject);
                let mut first = self.with_object(other, subject, Object::Phrase(phrase));
                first.polarity = Polarity::Yes;
                (first, again)
            };
            let second = self.with_object(verb, subject, Object::Pronoun(named));
            return Tree::Joined(first, joint, second);
        }
    }

    fn speaker(&mut self) -> Subject {
        Subject::Pronoun(*self.pick(&[Pronoun::I, Pronoun::You, Pronoun::He, Pronoun::She, Pronoun::We]))
    }

    /// Transitive verbs that take an object of this class.
    fn verbs_for(&self, class: u64) -> Vec<&'static Verb> {
        let takes = |verb: &&'static Verb| verb.frame == Frame::Transitive && verb.objects & class != 0;
        WORDS.verbs.iter().filter(takes).collect()
    }

    fn with_object(&mut self, verb: &'static Verb, subject: Subject, thing: Object) -> Clause {
        let mut clause = self.action(verb, subject, Size::Short);
        if let Predicate::Do { object, .. } = &mut clause.predicate {
            *object = thing;
        }
        clause
    }

    fn that(&mut self) -> Tree {
        let subject = self.subject(PERSON);
        let verb = self.pick(&WORDS.thinking);
        Tree::That(subject, verb, self.independent())
    }

    fn existence(&mut self) -> Tree {
        let class = *self.pick(&[PERSON, ANIMAL, PORTABLE, PORTABLE, FOOD | DRINK]);
        let mut phrase = self.introduced(class);
        let place = self.place(if class & (FOOD | DRINK) != 0 { PORTABLE } else { class });
        let tense = if self.chance(40) { Tense::Past } else { Tense::Present };
        let (order, polarity) = match self.below(4) {
            0 => (Order::Question, Polarity::Yes),
            1 => (Order::Statement, Polarity::Not),
            _ => (Order::Statement, Polarity::Yes),
        };
        if polarity == Polarity::Not {
            phrase.determiner = Determiner::Indefinite;
        }
        Tree::Existence { order, tense, polarity, phrase, place }
    }

    fn relative(&mut self) -> Tree {
        loop {
            let people = self.chance(45);
            let class = if people { PERSON } else { GOODS | PORTABLE | PLANT | OPENED };
            let verb = *self.pick(&self.verbs_for(class));
            let phrase = self.phrase(verb.objects & class);
            let (gender, number) = (phrase.noun.gender, phrase.number);
            let noun_class = phrase.noun.class;
            if phrase.noun.class & class == 0 || !introduces(&phrase) {
                continue;
            }
            let subject = self.subject(PERSON);
            let main = Clause { polarity: Polarity::Yes, ..self.with_object(verb, subject, Object::Phrase(phrase)) };
            let relative = if people {
                let verb = self.personal_verb();
                self.action(verb, Subject::Who(Agreement::third(gender, number)), Size::Short)
            } else {
                let verb = *self.pick(&self.verbs_for(noun_class));
                let subject = self.subject(PERSON);
                self.with_object(verb, subject, Object::Fronted(gender, number))
            };
            return Tree::Relative(main, relative);
        }
    }
}

/// Whether a relative clause can follow: not if a possessive or an owner already tells which one is meant.
fn introduces(phrase: &NounPhrase) -> bool {
    matches!(phrase.determiner, Determiner::The | Determiner::Indefinite | Determiner::Number(_))
}

/// The pronoun for a subject in the next clause.
fn again(subject: &Subject) -> Subject {
    let agreement = subject.agreement();
    match subject {
        Subject::Pronoun(pronoun) => Subject::Pronoun(*pronoun),
        _ => Subject::Pronoun(match (agreement.number, agreement.gender) {
            (Number::Singular, Gender::Masculine) => Pronoun::He,
            (Number::Singular, Gender::Feminine) => Pronoun::She,
            (Number::Plural, gender) => Pronoun::Named(gender, Number::Plural),
        }),
    }
}
