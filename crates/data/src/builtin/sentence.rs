//! Whole sentences (statements, questions, joined clauses) and the pairs of words in each.

use super::clause::{Clause, Object, Order, Polarity, Predicate, Recipient, Subject, Tense, be, imperfect, present};
use super::english::English;
use super::french::French;
use super::lexicon::{Adjective, Gender, Number, Verb, WORDS};
use super::phrase::{Determiner, Ground, Mood, NounPhrase, Place};
use super::pronoun::{Agreement, Pronoun};
use super::{Sentence, Upos};

/// Two lexemes that belong together in a sentence.
pub(super) type Pair = (&'static str, &'static str);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A question to be answered with yes or no.
    Whether,
    Where,
    Why,
    When,
    /// A question about the object.
    What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joint {
    And,
    But,
    Because,
    When,
}

#[derive(Clone, Debug)]
pub(super) enum Tree {
    Statement(Clause),
    Question(Asked, Clause),
    /// A question whose subject is "who".
    Who(Clause),
    /// A question about the place of something: "Where is …?"
    WhereIs(Subject, Tense),
    Joined(Clause, Joint, Clause),
    /// "I think that …".
    That(Subject, &'static Verb, Clause),
    /// "There is …" or "Is there …?"
    Existence {
        order: Order,
        tense: Tense,
        polarity: Polarity,
        phrase: NounPhrase,
        place: Place,
    },
    /// A clause whose object is the subject or the object of a second, relative clause.
    Relative(Clause, Clause),
}

impl Tree {
    /// Writes the sentence in both languages.
    pub fn render(&self) -> Sentence {
        let (mut english, mut french) = (English::default(), French::default());
        let mark = match self {
            Tree::Question(..) | Tree::Who(_) | Tree::WhereIs(..) => "?",
            Tree::Existence { order: Order::Question, .. } => "?",
            _ => ".",
        };
        match self {
            Tree::Statement(clause) | Tree::Who(clause) => {
                clause.english(Order::Statement, &mut english);
                clause.french(Order::Statement, &mut french);
            }
            Tree::Question(asked, clause) => question(*asked, clause, &mut english, &mut french),
            Tree::WhereIs(subject, tense) => {
                let who = subject.agreement();
                english.push("where", Upos::Adv);
                english.push(be(who, *tense), Upos::Aux);
                subject.english(&mut english);
                french.push("où");
                french.push(if *tense == Tense::Past {
                    imperfect("ét", who)
                } else {
                    present(WORDS.verb("être"), who)
                });
                subject.french(&mut french);
            }
            Tree::Joined(first, joint, second) => joined(first, *joint, second, &mut english, &mut french),
            Tree::That(subject, verb, clause) => {
                let who = subject.agreement();
                subject.english(&mut english);
                english.push(verb.english[usize::from(who.column() == 2)], Upos::Verb);
                english.push("that", Upos::Sconj);
                clause.english(Order::Statement, &mut english);
                subject.french(&mut french);
                french.push(present(verb, who));
                french.push("que");
                clause.french(Order::Statement, &mut french);
            }
            Tree::Existence { order, tense, polarity, phrase, place } => {
                existence(*order, *tense, *polarity, phrase, &mut english, &mut french);
                place.english(&mut english);
                place.french(&mut french);
            }
            Tree::Relative(main, relative) => {
                main.english(Order::Statement, &mut english);
                main.french(Order::Statement, &mut french);
                if !matches!(relative.subject, Subject::Who(_)) {
                    english.push("that", Upos::Pron);
                    french.push("que");
                }
                relative.english(Order::Statement, &mut english);
                relative.french(Order::Statement, &mut french);
            }
        }
        Sentence { english: english.finish(mark), french: french.finish(mark) }
    }

    /// The pairs of lexemes in the sentence: subject and verb, verb and object, adjective and noun.
    pub fn combinations(&self) -> Vec<Pair> {
        let mut pairs = Vec::new();
        match self {
            Tree::Statement(clause) | Tree::Who(clause) | Tree::Question(_, clause) => clause_pairs(clause, &mut pairs),
            Tree::WhereIs(subject, _) => subject_pairs(subject, &mut pairs),
            Tree::Joined(first, _, second) | Tree::Relative(first, second) => {
                clause_pairs(first, &mut pairs);
                clause_pairs(second, &mut pairs);
                reference_pairs(first, second, &mut pairs);
            }
            Tree::That(subject, _, clause) => {
                subject_pairs(subject, &mut pairs);
                clause_pairs(clause, &mut pairs);
            }
            Tree::Existence { phrase, place, .. } => {
                phrase_pairs(phrase, &mut pairs);
                place_pairs(place, &mut pairs);
            }
        }
        pairs
    }
}

fn question(asked: Asked, clause: &Clause, english: &mut English, french: &mut French) {
    let word = match asked {
        Asked::Whether => None,
        Asked::Where => Some(("where", "où", Upos::Adv)),
        Asked::Why => Some(("why", "pourquoi", Upos::Adv)),
        Asked::When => Some(("when", "quand", Upos::Adv)),
        Asked::What => Some(("what", "que", Upos::Pron)),
    };
    if let Some((ours, theirs, tag)) = word {
        english.push(ours, tag);
        french.push(theirs);
    }
    clause.english(Order::Question, english);
    french.push("est-ce");
    french.push("que");
    clause.french(Order::Question, french);
}

fn joined(first: &Clause, joint: Joint, second: &Clause, english: &mut English, french: &mut French) {
    first.english(Order::Statement, english);
    first.french(Order::Statement, french);
    match joint {
        Joint::And | Joint::But => {
            english.push(",", Upos::Punct);
            english.push(if joint == Joint::And { "and" } else { "but" }, Upos::Cconj);
            french.push(",");
            french.push(if joint == Joint::And { "et" } else { "mais" });
        }
        Joint::Because => {
            english.push("because", Upos::Sconj);
            french.push("parce");
            french.push("que");
        }
        Joint::When => {
            english.push("when", Upos::Sconj);
            french.push("quand");
        }
    }
    second.english(Order::Statement, english);
    second.french(Order::Statement, french);
}

fn existence(
    order: Order,
    tense: Tense,
    polarity: Polarity,
    phrase: &NounPhrase,
    english: &mut English,
    french: &mut French,
) {
    let who = Agreement::third(phrase.noun.gender, phrase.number);
    let one = Agreement::third(Gender::Masculine, Number::Singular);
    let negative = polarity != Polarity::Yes;
    if order == Order::Question {
        english.push(be(who, tense), Upos::Verb);
        english.push("there", Upos::Pron);
        french.push("est-ce");
        french.push("que");
    } else {
        english.push("there", Upos::Pron);
        english.push(be(who, tense), Upos::Verb);
    }
    french.push("il");
    if negative {
        french.push("ne");
    }
    french.push("y");
    french.push(if tense == Tense::Past { imperfect("av", one) } else { present(WORDS.verb("avoir"), one) });
    if negative {
        french.push("pas");
        english.push("no", Upos::Det);
        NounPhrase { determiner: Determiner::Kind, ..phrase.clone() }.english(Mood::Negative, english);
        phrase.french(Mood::Negative, french);
    } else {
        let mood = if order == Order::Question { Mood::Question } else { Mood::Affirmative };
        phrase.english(mood, english);
        phrase.french(mood, french);
    }
}

/// Smallest number of nouns that a verb or adjective goes with for its pairs to be held out. With fewer, a word could lose
/// most of its partners.
const ENOUGH: usize = 6;

fn nouns_of(class: u64) -> usize {
    WORDS.nouns.iter().filter(|noun| noun.class & class != 0).count()
}

fn quality_pair(adjective: &'static Adjective, noun: &'static str, pairs: &mut Vec<Pair>) {
    if nouns_of(adjective.class) >= ENOUGH {
        pairs.push((adjective.english, noun));
    }
}

/// Adds subject and verb. Verbs are named by their French infinitive, which tells homographs apart.
fn action_pair(subject: &'static str, verb: &'static Verb, pairs: &mut Vec<Pair>) {
    if nouns_of(verb.subjects) >= ENOUGH {
        pairs.push((subject, verb.infinitive));
    }
}

fn object_pair(verb: &'static Verb, noun: &'static str, pairs: &mut Vec<Pair>) {
    if nouns_of(verb.objects) >= ENOUGH {
        pairs.push((verb.infinitive, noun));
    }
}

fn phrase_pairs(phrase: &NounPhrase, pairs: &mut Vec<Pair>) {
    for adjective in &phrase.adjectives {
        quality_pair(adjective, phrase.noun.english[0], pairs);
    }
}

fn place_pairs(place: &Place, pairs: &mut Vec<Pair>) {
    if let Ground::Phrase(phrase) = &place.ground {
        phrase_pairs(phrase, pairs);
    }
}

/// The name of a subject in a pair. Pronouns have none, because every form of a verb must occur in training.
fn head(subject: &Subject) -> Option<&'static str> {
    match subject {
        Subject::Name(name) => Some(name.text),
        Subject::Phrase(phrase) => Some(phrase.noun.english[0]),
        Subject::Pronoun(_) | Subject::Names(..) | Subject::Who(_) => None,
    }
}

fn subject_pairs(subject: &Subject, pairs: &mut Vec<Pair>) {
    if let Subject::Phrase(phrase) = subject {
        phrase_pairs(phrase, pairs);
    }
}

fn clause_pairs(clause: &Clause, pairs: &mut Vec<Pair>) {
    subject_pairs(&clause.subject, pairs);
    let subject = head(&clause.subject);
    match &clause.predicate {
        Predicate::Do { verb, object, recipient } => {
            if let Some(subject) = subject {
                action_pair(subject, verb, pairs);
            }
            if let Object::Phrase(phrase) = object {
                phrase_pairs(phrase, pairs);
                object_pair(verb, phrase.noun.english[0], pairs);
            }
            if let Recipient::Phrase(phrase) = recipient {
                phrase_pairs(phrase, pairs);
            }
        }
        Predicate::Quality(adjective, _) => {
            if let Some(subject) = subject {
                quality_pair(adjective, subject, pairs);
            }
        }
        Predicate::Profession(_) | Predicate::There => {}
    }
    if let Some(place) = &clause.place {
        place_pairs(place, pairs);
    }
}

/// Adds pairs across two clauses: "who", "that" or "it" in the second stands for a noun of the first.
fn reference_pairs(first: &Clause, second: &Clause, pairs: &mut Vec<Pair>) {
    let named = match &first.predicate {
        Predicate::Do { object: Object::Phrase(phrase), .. } => Some(phrase.noun.english[0]),
        _ => head(&first.subject),
    };
    let (Some(named), Predicate::Do { verb, object, .. }) = (named, &second.predicate) else { return };
    if matches!(object, Object::Fronted(..) | Object::Pronoun(Pronoun::Named(..))) {
        object_pair(verb, named, pairs);
    }
    if matches!(second.subject, Subject::Who(_)) {
        action_pair(named, verb, pairs);
    }
}
