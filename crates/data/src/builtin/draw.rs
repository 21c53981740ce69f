//! Drawing sentences: which words and constructions, and how often. The rules that say them are elsewhere.

use super::clause::{Clause, Degree, Modal, Object, Polarity, Predicate, Recipient, Subject, Tense};
use super::lexicon::adjectives::ADJECTIVES;
use super::lexicon::class::*;
use super::lexicon::closed::{FREQUENCY, LANDS, MANNERS, MannerPlace, NAMES, NUMBERS};
use super::lexicon::closed::{TIMES_FUTURE, TIMES_PAST, TIMES_PRESENT, Time};
use super::lexicon::nouns::NOUNS;
use super::lexicon::verbs::{HAVE, VERBS};
use super::lexicon::{Adjective, Count, Frame, Gender, Location, Manners, Noun, Number, Past, Side, Use, Verb};
use super::phrase::{Determiner, Ground, NounPhrase, Place, Relation};
use super::pronoun::{Person, Pronoun};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How much a clause says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Full,
    /// No time, place, manner or modal: a part of a longer sentence.
    Short,
}

/// A source of choices, a function of its seed.
#[derive(Debug)]
pub(super) struct Draw {
    random: ChaCha8Rng,
}

impl Draw {
    pub fn new(seed: u64) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// True `percent` times in a hundred.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100_u32) < percent
    }

    pub fn below(&mut self, count: usize) -> usize {
        self.random.random_range(0..count.max(1) as u64) as usize
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// A value by its weight.
    pub fn weighted<T: Copy>(&mut self, items: &[(u32, T)]) -> T {
        let total: u32 = items.iter().map(|(weight, _)| weight).sum();
        let mut left = self.random.random_range(0..total.max(1));
        for (weight, item) in items {
            if left < *weight {
                return *item;
            }
            left -= weight;
        }
        items[items.len() - 1].1
    }

    pub fn noun(&mut self, class: u64) -> &'static Noun {
        let nouns: Vec<&'static Noun> = NOUNS.iter().filter(|noun| noun.class & class != 0).collect();
        nouns[self.below(nouns.len())]
    }

    pub fn number(&mut self, noun: &Noun) -> Number {
        if noun.count == Count::Countable && self.chance(35) { Number::Plural } else { Number::Singular }
    }

    fn owner(&mut self) -> Pronoun {
        *self.pick(&[Pronoun::I, Pronoun::You, Pronoun::He, Pronoun::She, Pronoun::We, Pronoun::They])
    }

    fn determiner(&mut self, noun: &Noun, number: Number) -> Determiner {
        let plural = number == Number::Plural;
        let owned = if noun.class & NOBODYS == 0 { 1 } else { 0 };
        let things = if noun.class & (PERSON | PLACE) == 0 { owned } else { 0 };
        let choice = self.weighted(&[
            (34, 0),
            (28, 1),
            (6, 2),
            (4, 3),
            (18 * owned, 4),
            (if plural { 8 } else { 0 }, 5),
            (if plural { 5 } else { 0 }, 6),
            (6 * owned, 7),
            (4 * things, 8),
        ]);
        match choice {
            0 => Determiner::The,
            1 => Determiner::Indefinite,
            2 => Determiner::This,
            3 => Determiner::That,
            4 => Determiner::My(self.owner()),
            5 => Determiner::Number(self.below(NUMBERS.len())),
            6 => Determiner::Many,
            7 => Determiner::OfName(self.pick(NAMES)),
            _ => Determiner::OfNoun(self.noun(PERSON)),
        }
    }

    fn adjectives(&mut self, noun: &Noun, number: Number, determiner: Determiner) -> Vec<&'static Adjective> {
        if matches!(determiner, Determiner::Kind) || !self.chance(40) {
            return Vec::new();
        }
        let one_of_two = number == Number::Singular
            && matches!(determiner, Determiner::The | Determiner::My(_) | Determiner::OfName(_));
        let fits = |adjective: &&'static Adjective| {
            adjective.class & noun.class != 0
                && (adjective.class != PAIR || one_of_two)
                && (noun.count != Count::Mass || adjective.class & (FOOD | DRINK | SERVED_HOT) != 0)
        };
        let fitting: Vec<&'static Adjective> = ADJECTIVES.iter().filter(fits).collect();
        if fitting.is_empty() {
            return Vec::new();
        }
        let first = *self.pick(&fitting);
        let second: Vec<_> = fitting.into_iter().filter(|adjective| adjective.side == Side::After).collect();
        if first.side == Side::Before && !second.is_empty() && self.chance(15) {
            return vec![first, *self.pick(&second)];
        }
        vec![first]
    }

    pub fn phrase(&mut self, class: u64) -> NounPhrase {
        let noun = self.noun(class);
        self.phrase_of(noun)
    }

    pub fn phrase_of(&mut self, noun: &'static Noun) -> NounPhrase {
        let number = self.number(noun);
        let determiner = self.determiner(noun, number);
        let adjectives = self.adjectives(noun, number, determiner);
        NounPhrase { determiner, adjectives, noun, number }
    }

    /// With an article that introduces it: a, some, a number.
    pub fn introduced(&mut self, class: u64) -> NounPhrase {
        let noun = self.noun(class);
        let number = self.number(noun);
        let determiner = match number {
            Number::Plural if self.chance(40) => Determiner::Number(self.below(NUMBERS.len())),
            Number::Plural if self.chance(20) => Determiner::Many,
            _ => Determiner::Indefinite,
        };
        let adjectives = self.adjectives(noun, number, determiner);
        NounPhrase { determiner, adjectives, noun, number }
    }

    /// With "the" or a possessive, in the singular.
    fn definite(&mut self, class: u64) -> NounPhrase {
        let noun = self.noun(class);
        let owned = noun.class & NOBODYS == 0 && self.chance(25);
        let determiner = if owned { Determiner::My(self.owner()) } else { Determiner::The };
        let adjectives = if self.chance(25) { self.adjectives(noun, Number::Singular, determiner) } else { Vec::new() };
        NounPhrase { determiner, adjectives, noun, number: Number::Singular }
    }

    pub fn subject(&mut self, classes: u64) -> Subject {
        let people = classes & PERSON != 0;
        match self.weighted(&[(if people { 50 } else { 0 }, 0), (if people { 18 } else { 0 }, 1), (4, 2), (30, 3)]) {
            0 => Subject::Pronoun(self.owner()),
            1 => Subject::Name(self.pick(NAMES)),
            2 if people => {
                let first = self.below(NAMES.len());
                let second = (first + 1 + self.below(NAMES.len() - 1)) % NAMES.len();
                Subject::Names(&NAMES[first], &NAMES[second])
            }
            _ => Subject::Phrase(self.phrase(classes)),
        }
    }

    fn tense(&mut self) -> Tense {
        self.weighted(&[(42, Tense::Present), (42, Tense::Past), (16, Tense::Future)])
    }

    fn polarity(&mut self) -> Polarity {
        self.weighted(&[(76, Polarity::Yes), (20, Polarity::Not), (4, Polarity::Never)])
    }

    pub fn time(&mut self, tense: Tense) -> &'static Time {
        match tense {
            Tense::Present => self.pick(TIMES_PRESENT),
            Tense::Past => self.pick(TIMES_PAST),
            Tense::Future => self.pick(TIMES_FUTURE),
        }
    }

    pub fn verb(&mut self) -> &'static Verb {
        if self.chance(3) { &HAVE } else { self.pick(VERBS) }
    }

    /// A pronoun other than the subject's own person, which would need "myself".
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
            // One likes this cat, the cat or cats, but hardly "a cat".
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
            1 => Recipient::Name(self.pick(NAMES)),
            _ => Recipient::Phrase(self.definite(PERSON)),
        }
    }

    pub fn place(&mut self, subject_class: u64) -> Place {
        let relation = if subject_class & PORTABLE != 0 {
            self.weighted(&[(3, Relation::On), (3, Relation::Under), (3, Relation::In), (2, Relation::There)])
        } else {
            self.weighted(&[
                (6, Relation::There),
                (1, Relation::Under),
                (2, Relation::Behind),
                (2, Relation::Near),
                (2, Relation::InFrontOf),
            ])
        };
        let class = match relation {
            Relation::On => SURFACE,
            Relation::Under => SHELTER,
            Relation::In => CONTAINER,
            Relation::Behind | Relation::Near | Relation::InFrontOf => LANDMARK,
            _ => PLACE,
        };
        Place { relation, ground: Ground::Phrase(self.definite(class)) }
    }

    fn verb_place(&mut self, verb: &Verb) -> Option<Place> {
        let there = |ground| Some(Place { relation: Relation::There, ground });
        match verb.frame {
            Frame::Goal => {
                let ground =
                    if self.chance(30) { Ground::Land(self.pick(LANDS)) } else { Ground::Phrase(self.definite(GOAL)) };
                Some(Place { relation: Relation::To, ground })
            }
            Frame::Origin => Some(Place { relation: Relation::From, ground: Ground::Land(self.pick(LANDS)) }),
            Frame::Place if self.chance(40) => there(Ground::Land(self.pick(LANDS))),
            Frame::Place => loop {
                let phrase = self.definite(PLACE);
                if phrase.noun.location == Location::In || verb.infinitive != "habiter" {
                    return there(Ground::Phrase(phrase));
                }
            },
            Frame::Alone if verb.infinitive == "revenir" && self.chance(25) => {
                let horse = self.noun_named("horse");
                let determiner = *self.pick(&[Determiner::The, Determiner::Indefinite]);
                let adjectives = self.adjectives(horse, Number::Singular, determiner);
                let phrase = NounPhrase { determiner, adjectives, noun: horse, number: Number::Singular };
                Some(Place { relation: Relation::OnTheBackOf, ground: Ground::Phrase(phrase) })
            }
            Frame::Alone if verb.infinitive == "revenir" && self.chance(30) => {
                Some(Place { relation: Relation::To, ground: Ground::Phrase(self.definite(GOAL)) })
            }
            Frame::Alone if !matches!(verb.infinitive, "partir" | "nager" | "revenir") && self.chance(35) => {
                there(Ground::Phrase(self.definite(PLACE)))
            }
            _ => None,
        }
    }

    fn noun_named(&self, english: &str) -> &'static Noun {
        NOUNS.iter().find(|noun| noun.english[0] == english).unwrap_or(&NOUNS[0])
    }

    /// What is done, by a verb drawn for a subject still to come.
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
        let modal_fits = !matches!(verb.past, Past::Imperfect(_))
            && (verb.frame != Frame::OfKinds || verb.objects == WRONG)
            && verb.subjects & PERSON != 0;
        let modals = [(6, Modal::Can), (4, Modal::Must), (4, Modal::Want), (3, Modal::Right)];
        let modal = (full && modal_fits && self.chance(18)).then(|| self.weighted(&modals));
        let mut tense = if modal.is_some() { Tense::Present } else { self.tense() };
        let mut polarity = self.polarity();
        if modal.is_some() && polarity == Polarity::Never {
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
        let frequency = (simple && polarity == Polarity::Yes && self.chance(12)).then(|| self.pick(FREQUENCY));
        let manner = match verb.manners {
            Manners::None => None,
            _ if !full || frequency.is_some() || !self.chance(35) => None,
            Manners::Well => Some(&MANNERS[0]),
            Manners::Any => Some(self.pick(MANNERS)),
        };
        // "il va bien dormir" says something else than it seems.
        let manner = manner.filter(|manner| simple || manner.place == MannerPlace::AfterParticiple);
        let needs_place = matches!(verb.frame, Frame::Goal | Frame::Place | Frame::Origin);
        let place = if needs_place || (full && manner.is_none()) { self.verb_place(verb) } else { None };
        let timed = full && frequency.is_none() && polarity != Polarity::Never && self.chance(24);
        let time = timed.then(|| self.time(if modal.is_some() { Tense::Future } else { tense }));
        let predicate = Predicate::Do { verb, object, recipient };
        Clause { subject, tense, polarity, modal, predicate, frequency, manner, place, time }
    }

    /// A clause with "to be": a quality, a profession, a place.
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
        let frequency =
            (polarity == Polarity::Yes && tense != Tense::Future && self.chance(6)).then(|| self.pick(FREQUENCY));
        let timed =
            !matches!(predicate, Predicate::Profession(_)) && frequency.is_none() && polarity != Polarity::Never;
        let time = (timed && self.chance(12)).then(|| self.time(tense));
        Clause { subject, tense, polarity, modal: None, predicate, frequency, manner: None, place, time }
    }

    /// A subject and an adjective that suits it.
    fn quality(&mut self) -> (Subject, Predicate) {
        let free: Vec<_> = ADJECTIVES.iter().filter(|adjective| adjective.usage == Use::Anywhere).collect();
        let adjective = *self.pick(&free);
        let mut subject = loop {
            let subject = self.subject(adjective.class);
            // Sizes and ages of bread or water make no sense.
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
