//! Draws noun phrases, subjects and places.

use super::super::clause::Subject;
use super::super::lexicon::class::*;
use super::super::lexicon::{Adjective, Count, Frame, Location, Noun, Number, Side, Verb, WORDS};
use super::super::phrase::{Determiner, Ground, NounPhrase, Place, Relation};
use super::super::pronoun::Pronoun;
use super::Draw;

impl Draw {
    pub fn noun(&mut self, class: u64) -> &'static Noun {
        let nouns: Vec<&'static Noun> = WORDS.nouns.iter().filter(|noun| noun.class & class != 0).collect();
        nouns[self.below(nouns.len())]
    }

    pub fn number(&mut self, noun: &Noun) -> Number {
        if noun.count == Count::Countable && self.chance(35) { Number::Plural } else { Number::Singular }
    }

    pub(super) fn owner(&mut self) -> Pronoun {
        *self.pick(&[Pronoun::I, Pronoun::You, Pronoun::He, Pronoun::She, Pronoun::We, Pronoun::They])
    }

    pub(super) fn determiner(&mut self, noun: &Noun, number: Number) -> Determiner {
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
            5 => Determiner::Number(self.below(WORDS.numbers.len())),
            6 => Determiner::Many,
            7 => Determiner::OfName(self.pick(&WORDS.names)),
            _ => Determiner::OfNoun(self.noun(PERSON)),
        }
    }

    pub(super) fn adjectives(
        &mut self,
        noun: &Noun,
        number: Number,
        determiner: Determiner,
    ) -> Vec<&'static Adjective> {
        if matches!(determiner, Determiner::Kind) || !self.chance(40) {
            return Vec::new();
        }
        let one_of_two = number == Number::Singular
            && matches!(determiner, Determiner::The | Determiner::My(_) | Determiner::OfName(_));
        let fits = |adjective: &&'static Adjective| {
            adjective.class & noun.class != 0
                && (adjective.class != PAIR || one_of_two)
                // "un vieux garçon" and "une vieille fille" are people who never married.
                && (adjective.english != "old" || noun.class & PERSON == 0 || noun.class & TRAINED == 0)
                && (noun.count != Count::Mass || adjective.class & (FOOD | DRINK | SERVED_HOT) != 0)
        };
        let fitting: Vec<&'static Adjective> = WORDS.adjectives.iter().filter(fits).collect();
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

    /// Draws a noun phrase that introduces something: with "a", "some", "many" or a number.
    pub fn introduced(&mut self, class: u64) -> NounPhrase {
        let noun = self.noun(class);
        let number = self.number(noun);
        let determiner = match number {
            Number::Plural if self.chance(40) => Determiner::Number(self.below(WORDS.numbers.len())),
            Number::Plural if self.chance(20) => Determiner::Many,
            _ => Determiner::Indefinite,
        };
        let adjectives = self.adjectives(noun, number, determiner);
        NounPhrase { determiner, adjectives, noun, number }
    }

    /// Draws a noun phrase in the singular with "the" or a possessive.
    pub(super) fn definite(&mut self, class: u64) -> NounPhrase {
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
            1 => Subject::Name(self.pick(&WORDS.names)),
            2 if people => {
                let first = self.below(WORDS.names.len());
                let second = (first + 1 + self.below(WORDS.names.len() - 1)) % WORDS.names.len();
                Subject::Names(&WORDS.names[first], &WORDS.names[second])
            }
            _ => Subject::Phrase(self.phrase(classes)),
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

    pub(super) fn verb_place(&mut self, verb: &Verb) -> Option<Place> {
        let there = |ground| Some(Place { relation: Relation::There, ground });
        match verb.frame {
            Frame::Goal => {
                let ground = if self.chance(30) {
                    Ground::Land(self.pick(&WORDS.lands))
                } else {
                    Ground::Phrase(self.definite(GOAL))
                };
                Some(Place { relation: Relation::To, ground })
            }
            Frame::Origin => Some(Place { relation: Relation::From, ground: Ground::Land(self.pick(&WORDS.lands)) }),
            Frame::Place if self.chance(40) => there(Ground::Land(self.pick(&WORDS.lands))),
            Frame::Place => loop {
                let phrase = self.definite(PLACE);
                if phrase.noun.location == Location::In || verb.infinitive != "habiter" {
                    return there(Ground::Phrase(phrase));
                }
            },
            Frame::Alone if verb.infinitive == "revenir" && self.chance(25) => {
                let horse = WORDS.noun("horse");
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
}
