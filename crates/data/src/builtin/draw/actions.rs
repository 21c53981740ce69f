//! Draws clauses about actions and about being.

use super::super::clause::{Clause, Degree, Modal, Object, Polarity, Predicate, Recipient, Subject, Tense};
use super::super::lexicon::class::*;
use super::super::lexicon::{Count, Frame, Gender, MannerPlace, Manners, Name, Number, Past, Time, Use, Verb, WORDS};
use super::super::phrase::{Determiner, NounPhrase};
use super::super::pronoun::{Person, Pronoun};
use super::{Draw, Size};

impl Draw {
    fn tense(&mut self) -> Tense {
        self.weighted(&[(42, Tense::Present), (42, Tense::Past), (16, Tense::Future)])
    }

    fn polarity(&mut self) -> Polarity {
        self.weighted(&[(76, Polarity::Yes), (20, Polarity::Not), (4, Polarity::Never)])
    }

    pub fn time(&mut self, tense: Tense) -> &'static Time {
        match tense {
            Tense::Present => self.pick(&WORDS.times_present),
            Tense::Past => self.pick(&WORDS.times_past),
            Tense::Future => self.pick(&WORDS.times_future),
        }
    }

    pub fn verb(&mut self) -> &'static Verb {
        if self.chance(3) { WORDS.verb("avoir") } else { self.pick(&WORDS.verbs) }
    }

    /// A pronoun that is not of the subject's own person, which would need "myself".
    fn other(&mut self, subject: &Subject) -> Pronoun {
        loop {
            let pronoun = self.owner();
            let same = subject.agreement().person == pronoun.agreement().person;
            if !same || pronoun.agreement().person == Person::Third {
                return pronoun;
            }
        }
    }

    fn object(&mut self, verb: &Verb, subject: &Subject) -> Object {
        if verb.objects & PERSON != 0 && self.chance(30) {
            return Object::Pronoun(self.other(subject));
        }
        let mut phrase = self.phrase(verb.objects);
        if verb.frame == Frame::OfKinds {
            // People like this cat, the cat or cats, but hardly "a cat".
            let vague = matches!(phrase.determiner, Determiner::Indefinite | Determiner::Many | Determiner::Number(_));
            if vague || self.chance(30) {
                let number = if phrase.noun.count == Count::Countable { Number::Plural } else { Number::Singular };
                let determiner =
                    if phrase.noun.count == Count::SingularOnly { Determiner::The } else { Determiner::Kind };
                phrase = NounPhrase { determiner, adjectives: Vec::new(), noun: phrase.noun, number };
            }
        }
        Object::Phrase(phrase)
    }

    fn recipient(&mut self, subject: &Subject) -> Recipient {
        match self.weighted(&[(50, 0), (20, 1), (30, 2)]) {
            0 => Recipient::Pronoun(self.other(subject)),
            1 => loop {
                let name = self.pick(&WORDS.names);
                let same = |other: &Name| other.text == name.text;
                if !matches!(subject, Subject::Name(other) if same(other))
                    && !matches!(subject, Subject::Names(first, second) if same(first) || same(second))
                {
                    return Recipient::Name(name);
                }
            },
            _ => Recipient::Phrase(self.definite(PERSON)),
        }
    }

    /// Draws a clause: a verb and a subject that fits it, or a clause with "to be".
    pub fn clause(&mut self, size: Size) -> Clause {
        if self.chance(18) {
            return self.being();
        }
        let verb = self.verb();
        let subject = self.subject(verb.subjects);
        self.action(verb, subject, size)
    }

    pub fn action(&mut self, verb: &'static Verb, mut subject: Subject, size: Size) -> Clause {
        let full = size == Size::Full;
        let state = matches!(verb.past, Past::Imperfect(_));
        let modal_fits =
            !state && (verb.frame != Frame::OfKinds || verb.objects == WRONG) && verb.subjects & PERSON != 0;
        let modals = [(6, Modal::Can), (4, Modal::Must), (4, Modal::Want), (3, Modal::Right)];
        let modal = (full && modal_fits && self.chance(18)).then(|| self.weighted(&modals));
        let mut tense = if modal.is_some() { Tense::Present } else { self.tense() };
        let mut polarity = self.polarity();
        if modal.is_some() && polarity == Polarity::Never {
            polarity = Polarity::Not;
        }
        // States have no future here and no "never": "je ne connaissais jamais" is not French.
        if state && tense == Tense::Future {
            tense = Tense::Present;
        }
        if state && polarity == Polarity::Never {
            polarity = Polarity::Not;
        }
        if verb.past_looks_present() && tense == Tense::Past && polarity != Polarity::Not {
            let agreement = subject.agreement();
            if agreement.number == Number::Plural || agreement.person != Person::Third {
                tense = Tense::Present;
            }
        }
        // A whole kind does things in the present: "birds fly", "citizens have the right to …".
        if let Subject::Phrase(phrase) = &mut subject
            && phrase.number == Number::Plural
            && tense == Tense::Present
            && matches!(phrase.determiner, Determiner::Indefinite | Determiner::Many)
        {
            phrase.determiner = Determiner::Kind;
            phrase.adjectives.clear();
        }
        let (object, recipient) = match verb.frame {
            Frame::Transitive | Frame::OfKinds => (self.object(verb, &subject), Recipient::None),
            Frame::Giving => {
                let object = Object::Phrase(self.phrase(verb.objects));
                (object, self.recipient(&subject))
            }
            _ => (Object::None, Recipient::None),
        };
        let simple = full && modal.is_none() && tense != Tense::Future;
        let frequency =
            (simple && !state && verb.frame != Frame::Origin && polarity == Polarity::Yes && self.chance(12))
                .then(|| self.pick(&WORDS.frequency));
        let manner = match verb.manners {
            Manners::None => None,
            _ if !full || frequency.is_some() || !self.chance(35) => None,
            Manners::Well => Some(&WORDS.manners[0]),
            Manners::Any => Some(self.pick(&WORDS.manners)),
        };
        // "il va bien dormir" can also mean "he will indeed sleep".
        let manner = manner.filter(|manner| simple || manner.place == MannerPlace::AfterParticiple);
        let needs_place = matches!(verb.frame, Frame::Goal | Frame::Place | Frame::Origin);
        let place = if needs_place || (full && manner.is_none()) { self.verb_place(verb) } else { None };
        let timed = full && !state && frequency.is_none() && polarity != Polarity::Never && self.chance(24);
        let time = timed.then(|| self.time(if modal.is_some() { Tense::Future } else { tense }));
        let predicate = Predicate::Do { verb, object, recipient };
        Clause { subject, tense, polarity, modal, predicate, frequency, manner, place, time }
    }

    /// Draws a clause with "to be": a quality, a profession or a place.
    pub fn being(&mut self) -> Clause {
        let tense = self.weighted(&[(60, Tense::Present), (32, Tense::Past), (8, Tense::Future)]);
        let polarity = self.polarity();
        let mut place = None;
        let (subject, predicate) = match self.weighted(&[(60, 0), (10, 1), (30, 2)]) {
            0 => self.quality(),
            1 => {
                let subject = loop {
                    let subject = self.subject(PERSON);
                    let agreement = subject.agreement();
                    let named = !matches!(&subject, Subject::Phrase(phrase) if phrase.noun.class & PROFESSION != 0);
                    if agreement.gender == Gender::Masculine && agreement.number == Number::Singular && named {
                        break subject;
                    }
                };
                (subject, Predicate::Profession(self.noun(PROFESSION)))
            }
            _ => {
                let class = *self.pick(&[PERSON, PERSON, ANIMAL, PORTABLE, PORTABLE]);
                let subject = self.subject(class);
                place = Some(self.place(class));
                (subject, Predicate::There)
            }
        };
        let frequency = (polarity == Polarity::Yes && tense != Tense::Future && self.chance(6))
            .then(|| self.pick(&WORDS.frequency));
        let timed =
            !matches!(predicate, Predicate::Profession(_)) && frequency.is_none() && polarity != Polarity::Never;
        let time = (timed && self.chance(12)).then(|| self.time(tense));
        Clause { subject, tense, polarity, modal: None, predicate, frequency, manner: None, place, time }
    }

    /// Draws a subject and an adjective that suits it.
    fn quality(&mut self) -> (Subject, Predicate) {
        let free: Vec<_> = WORDS.adjectives.iter().filter(|adjective| adjective.usage == Use::Anywhere).collect();
        let adjective = *self.pick(&free);
        let mut subject = loop {
            let subject = self.subject(adjective.class);
            // Bread and water have no size or age.
            let edible = adjective.class & (FOOD | DRINK | SERVED_HOT) != 0;
            match &subject {
                Subject::Phrase(phrase) if phrase.noun.count == Count::Mass && !edible => {}
                _ => break subject,
            }
        };
        if let Subject::Phrase(phrase) = &mut subject {
            phrase.adjectives.clear();
            if matches!(phrase.determiner, Determiner::Indefinite | Determiner::Many) {
                phrase.determiner = Determiner::The;
            }
        }
        let degree = self.weighted(&[(60, Degree::Plain), (28, Degree::Very), (12, Degree::Too)]);
        let degree = if matches!(adjective.english, "broken" | "empty" | "orange") { Degree::Plain } else { degree };
        (subject, Predicate::Quality(adjective, degree))
    }
}
