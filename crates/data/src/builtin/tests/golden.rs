//! Hand-written pairs of `golden.txt`, and what the word lists promise.

use crate::DataError;
use crate::builtin::clause::{Clause, Degree, Modal, Object, Order, Polarity, Predicate, Recipient, Subject, Tense};
use crate::builtin::lexicon::{Adjective, Frame, Gender, Name, Noun, Number, Time, WORDS};
use crate::builtin::lists::List;
use crate::builtin::phrase::{Determiner, Ground, NounPhrase, Place, Relation};
use crate::builtin::pronoun::{Agreement, Pronoun};
use crate::builtin::sentence::{Asked, Joint, Tree};

fn noun(word: &str) -> (&'static Noun, Number) {
    let found = |form: usize| WORDS.nouns.iter().find(|noun| noun.english[form] == word);
    match (found(0), found(1)) {
        (Some(noun), _) => (noun, Number::Singular),
        (None, Some(noun)) => (noun, Number::Plural),
        _ => panic!("no noun {word}"),
    }
}

fn adjective(word: &str) -> Option<&'static Adjective> {
    WORDS.adjectives.iter().find(|adjective| adjective.english == word)
}

fn name(word: &str) -> Option<&'static Name> {
    WORDS.names.iter().find(|name| name.text == word)
}

fn pronoun(word: &str) -> Option<Pronoun> {
    Some(match word {
        "I" | "me" | "my" => Pronoun::I,
        "you" | "your" => Pronoun::You,
        "he" | "him" | "his" => Pronoun::He,
        "she" | "her" => Pronoun::She,
        "we" | "us" | "our" => Pronoun::We,
        "they" | "them" | "their" => Pronoun::They,
        _ => return None,
    })
}

/// "the small red car", "Anna 's book", "the king 's horse", "cats".
fn phrase(text: &str) -> NounPhrase {
    if let Some((owner, rest)) = text.split_once(" 's ") {
        let rest = phrase(&format!("the {rest}"));
        let of_noun = || Determiner::OfNoun(noun(owner.trim_start_matches("the ")).0);
        let determiner = name(owner).map_or_else(of_noun, Determiner::OfName);
        return NounPhrase { determiner, ..rest };
    }
    let words: Vec<&str> = text.split(' ').collect();
    let (last, before) = words.split_last().expect("a noun");
    let (noun, number) = noun(last);
    let Some((first, adjectives)) = before.split_first() else {
        return NounPhrase { determiner: Determiner::Kind, adjectives: vec![], noun, number };
    };
    let determiner = match *first {
        "the" => Determiner::The,
        "a" | "an" | "some" | "any" => Determiner::Indefinite,
        "this" | "these" => Determiner::This,
        "that" | "those" => Determiner::That,
        "many" => Determiner::Many,
        other => match (pronoun(other), WORDS.numbers.iter().position(|number| number.0 == other)) {
            (Some(owner), _) => Determiner::My(owner),
            (_, Some(index)) => Determiner::Number(index),
            _ => panic!("no determiner {other}"),
        },
    };
    let known = |word: &&str| adjective(word).unwrap_or_else(|| panic!("no adjective {word}"));
    NounPhrase { determiner, adjectives: adjectives.iter().map(known).collect(), noun, number }
}

fn subject(text: &str) -> Subject {
    if text == "who" {
        return Subject::Who(Agreement::third(Gender::Masculine, Number::Singular));
    }
    if let Some(pronoun) = pronoun(text) {
        return Subject::Pronoun(pronoun);
    }
    if let Some((first, second)) = text.split_once(" and ") {
        return Subject::Names(name(first).expect("a name"), name(second).expect("a name"));
    }
    name(text).map_or_else(|| Subject::Phrase(phrase(text)), Subject::Name)
}

fn object(text: &str) -> Object {
    match (text.split_once('='), pronoun(text)) {
        (Some((by, word)), _) => match (by, noun(word)) {
            ("it", (noun, number)) => Object::Pronoun(Pronoun::Named(noun.gender, number)),
            (_, (noun, number)) => Object::Fronted(noun.gender, number),
        },
        (_, Some(pronoun)) => Object::Pronoun(pronoun),
        _ if text.is_empty() => Object::None,
        _ => Object::Phrase(phrase(text)),
    }
}

/// What follows "be": nothing, a quality with its degree, or a profession.
fn being(text: &str) -> Predicate {
    let (degree, word) = match text.split_once(' ') {
        Some(("very", word)) => (Degree::Very, word),
        Some(("too", word)) => (Degree::Too, word),
        Some((other, _)) => panic!("no degree {other}"),
        None => (Degree::Plain, text),
    };
    match adjective(word) {
        _ if text.is_empty() => Predicate::There,
        Some(adjective) => Predicate::Quality(adjective, degree),
        None => Predicate::Profession(noun(word).0),
    }
}

/// Reads a clause as `golden.txt` describes it.
fn clause(text: &str) -> Clause {
    let mut items = text.split(", ");
    let subject = subject(items.next().expect("a subject"));
    let tense = match items.next() {
        Some("past") => Tense::Past,
        Some("future") => Tense::Future,
        Some("present") => Tense::Present,
        other => panic!("no tense {other:?}"),
    };
    let (polarity, predicate) = (Polarity::Yes, Predicate::There);
    let (modal, frequency, manner, place, time) = (None, None, None, None, None);
    let mut clause = Clause { subject, tense, polarity, modal, predicate, frequency, manner, place, time };
    for item in items {
        let (first, rest) = item.split_once(' ').unwrap_or((item, ""));
        let relation = match first {
            "there" => Some(Relation::There),
            "to" => Some(Relation::To),
            "from" => Some(Relation::From),
            "in" => Some(Relation::In),
            "on" => Some(Relation::On),
            "under" => Some(Relation::Under),
            "behind" => Some(Relation::Behind),
            "near" => Some(Relation::Near),
            "back-of" => Some(Relation::OnTheBackOf),
            _ => None,
        };
        let frequency = WORDS.frequency.iter().find(|frequency| frequency.0 == item);
        let manner = WORDS.manners.iter().find(|manner| manner.english == item);
        let said = |time: &Time| time.english.iter().map(|word| word.0).collect::<Vec<_>>().join(" ");
        let mut times = WORDS.times_present.iter().chain(&WORDS.times_past).chain(&WORDS.times_future);
        let time = times.find(|time| said(time) == item);
        match (first, relation, &mut clause.predicate) {
            ("not", ..) => clause.polarity = Polarity::Not,
            ("never", ..) => clause.polarity = Polarity::Never,
            ("can", ..) => clause.modal = Some(Modal::Can),
            ("must", ..) => clause.modal = Some(Modal::Must),
            ("want", ..) => clause.modal = Some(Modal::Want),
            ("right", ..) => clause.modal = Some(Modal::Right),
            ("be", ..) => clause.predicate = being(rest),
            ("whom", _, Predicate::Do { recipient, .. }) => {
                *recipient = match (pronoun(rest), name(rest)) {
                    (Some(pronoun), _) => Recipient::Pronoun(pronoun),
                    (_, Some(name)) => Recipient::Name(name),
                    _ => Recipient::Phrase(phrase(rest)),
                };
            }
            (_, Some(relation), _) => {
                let land = WORDS.lands.iter().find(|land| land.english == rest);
                let ground = land.map_or_else(|| Ground::Phrase(phrase(rest)), Ground::Land);
                clause.place = Some(Place { relation, ground });
            }
            _ if frequency.is_some() => clause.frequency = frequency,
            _ if manner.is_some() => clause.manner = manner,
            _ if time.is_some() => clause.time = time,
            _ => {
                let (verb, object) = (WORDS.verb(first), object(rest));
                clause.predicate = Predicate::Do { verb, object, recipient: Recipient::None };
            }
        }
    }
    clause
}

/// Reads a sentence as `golden.txt` describes it.
fn tree(kind: &str, text: &str) -> Tree {
    let (first, second) = text.split_once('|').map_or((text, ""), |(first, second)| (first.trim(), second.trim()));
    if kind == "that" {
        let (who, verb) = first.rsplit_once(' ').expect("who thinks");
        let verb = WORDS.thinking.iter().find(|thinking| thinking.english[0] == verb).expect("a verb of thinking");
        return Tree::That(subject(who), verb, clause(second));
    }
    let first = clause(first);
    match kind {
        "statement" => Tree::Statement(first),
        "whether" => Tree::Question(Asked::Whether, first),
        "where" => Tree::Question(Asked::Where, first),
        "why" => Tree::Question(Asked::Why, first),
        "what" => Tree::Question(Asked::What, first),
        "who" => Tree::Who(first),
        "where is" => Tree::WhereIs(first.subject, first.tense),
        "and" => Tree::Joined(first, Joint::And, clause(second)),
        "but" => Tree::Joined(first, Joint::But, clause(second)),
        "because" => Tree::Joined(first, Joint::Because, clause(second)),
        "relative" => Tree::Relative(first, clause(second)),
        "there is" | "is there" => {
            let Clause { subject: Subject::Phrase(phrase), tense, polarity, place: Some(place), .. } = first else {
                panic!("expected something and a place, found {text}");
            };
            let order = if kind == "is there" { Order::Question } else { Order::Statement };
            Tree::Existence { order, tense, polarity, phrase, place }
        }
        other => panic!("no kind of sentence {other}"),
    }
}

#[test]
fn hand_written_pairs_are_said_as_written() -> Result<(), DataError> {
    let list = List::new("golden.txt", include_str!("golden.txt"));
    let columns = ["kind", "clause", "english", "french"];
    let cases = list.read("sentences", columns, |cells| Ok(cells.map(|cell| cell.text)))?;
    assert!(cases.len() >= 60);
    for [kind, clause, english, french] in cases {
        let sentence = tree(kind, clause).render();
        assert_eq!((sentence.text().as_str(), sentence.french.as_str()), (english, french));
    }
    Ok(())
}

#[test]
fn lists_hold_no_noun_twice_and_every_verb_finds_its_nouns() {
    for (index, noun) in WORDS.nouns.iter().enumerate() {
        assert!(
            WORDS.nouns[..index].iter().all(|other| other.english[0] != noun.english[0]),
            "{} twice",
            noun.english[0]
        );
    }
    for verb in &WORDS.verbs {
        let takes = matches!(verb.frame, Frame::Transitive | Frame::OfKinds | Frame::Giving);
        assert_eq!(takes, WORDS.nouns.iter().any(|noun| noun.class & verb.objects != 0), "{}", verb.infinitive);
        assert!(WORDS.nouns.iter().any(|noun| noun.class & verb.subjects != 0), "{}", verb.infinitive);
    }
    for adjective in &WORDS.adjectives {
        assert!(WORDS.nouns.iter().any(|noun| noun.class & adjective.class != 0), "{}", adjective.english);
    }
}
