//! Properties that the built-in data guarantee.

mod golden;

use super::draw::Draw;
use super::lexicon::WORDS;
use super::parts::{hash, is_held_out, rendered};
use super::*;
use std::collections::{BTreeMap, BTreeSet};

fn default_parts() -> Splits<Sentence> {
    english_french(Sizes::default(), 1)
}

fn english_words(sentences: &[Sentence]) -> BTreeSet<&str> {
    sentences.iter().flat_map(|sentence| sentence.english.iter().map(|token| token.text.as_str())).collect()
}

fn french_words(sentences: &[Sentence]) -> BTreeSet<&str> {
    sentences.iter().flat_map(|sentence| sentence.french.split([' ', '\'', '.', ',', '?'])).collect()
}

#[test]
fn there_are_100_000_sources_with_one_target_each() {
    let mut draw = Draw::new(7);
    let mut targets: BTreeMap<String, String> = BTreeMap::new();
    for _ in 0..400_000 {
        let Some(sentence) = rendered(&draw.tree()) else { continue };
        let text = sentence.text();
        if let Some(target) = targets.get(&text) {
            assert_eq!(target, &sentence.french, "{text}");
        } else {
            targets.insert(text, sentence.french);
        }
    }
    assert!(targets.len() >= 100_000, "{}", targets.len());
}

#[test]
fn parts_have_their_sizes_and_share_no_source() {
    let parts = default_parts();
    assert_eq!((parts.train.len(), parts.dev.len(), parts.test.len()), (80_000, 1_000, 2_000));
    let all = [&parts.train, &parts.dev, &parts.test];
    let texts: BTreeSet<String> = all.into_iter().flatten().map(Sentence::text).collect();
    assert_eq!(texts.len(), 83_000);
}

#[test]
fn every_word_of_dev_and_test_is_met_in_training() {
    let parts = default_parts();
    let (english, french) = (english_words(&parts.train), french_words(&parts.train));
    for part in [&parts.dev, &parts.test] {
        let unknown: Vec<_> = english_words(part).difference(&english).copied().collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        let unknown: Vec<_> = french_words(part).difference(&french).copied().collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}

/// By the text itself, not by the rule that divides: a held-out adjective never stands before its noun, a held-out verb
/// never has its object, in any form.
#[test]
fn training_never_shows_a_held_out_combination() {
    let parts = default_parts();
    let forms: BTreeMap<&str, &str> =
        WORDS.nouns.iter().flat_map(|noun| noun.english.map(|form| (form, noun.english[0]))).collect();
    let neighbours = |sentences: &[Sentence]| -> BTreeSet<(String, String)> {
        let mut pairs = BTreeSet::new();
        for sentence in sentences {
            for two in sentence.english.windows(2) {
                if two[0].tag == Upos::Adj && two[1].tag == Upos::Noun {
                    let noun = forms.get(two[1].text.as_str()).copied().unwrap_or(&two[1].text);
                    pairs.insert((two[0].text.clone(), noun.to_string()));
                }
            }
        }
        pairs
    };
    let (train, test) = (neighbours(&parts.train), neighbours(&parts.test));
    let mut held = 0;
    for adjective in &WORDS.adjectives {
        for noun in &WORDS.nouns {
            let pair = (adjective.english, noun.english[0]);
            let fitting = WORDS.nouns.iter().filter(|noun| noun.class & adjective.class != 0).count();
            if fitting < 6 || !is_held_out(pair) {
                continue;
            }
            let pair = (pair.0.to_string(), pair.1.to_string());
            assert!(!train.contains(&pair), "{pair:?}");
            held += usize::from(test.contains(&pair));
        }
    }
    assert!(held >= 30, "only {held} held-out pairs of adjective and noun in the test part");
    assert_eq!(parts.test[0].text(), "I saw a saw.");
    assert_eq!(parts.test[1].french, "Les citoyens ont le droit de redresser les torts.");
    let saw = |sentence: &&Sentence| {
        let has = |tag| sentence.english.iter().any(|token| token.text == "saw" && token.tag == tag);
        has(Upos::Verb) && has(Upos::Noun) && sentence.text().contains("saw a saw")
    };
    assert_eq!(parts.train.iter().filter(saw).count(), 0);
}

#[test]
fn homographs_are_in_every_part() {
    let parts = tagged(Sizes::default(), 1);
    let tags_of = |part: &[Vec<Token>], word: &str| -> BTreeSet<Upos> {
        part.iter().flatten().filter(|token| token.text == word).map(|token| token.tag).collect()
    };
    let words = ["saw", "book", "watch", "train", "water", "plant", "play", "light", "left", "can", "right", "back"];
    for (word, least) in words.into_iter().map(|word| (word, 2)).chain([("light", 3), ("right", 3)]) {
        assert!(tags_of(&parts.train, word).len() >= least, "{word} in training");
    }
    for part in [&parts.dev, &parts.test] {
        let ambiguous = words.iter().filter(|word| tags_of(part, word).len() >= 2).count();
        assert!(ambiguous >= 8, "{ambiguous}");
    }
}

#[test]
fn tags_follow_the_words() {
    assert!(Upos::NAMES.into_iter().enumerate().all(|(index, (tag, _))| tag as usize == index));
    let parts = english_french(Sizes { train: 2_000, dev: 0, test: 0 }, 3);
    for sentence in &parts.train {
        let (last, rest) = sentence.english.split_last().expect("words");
        assert!(last.tag == Upos::Punct && [".", "?"].contains(&last.text.as_str()));
        assert!((3..=14).contains(&rest.iter().filter(|token| token.tag != Upos::Punct).count()));
        assert!(sentence.text().starts_with(char::is_uppercase) && sentence.french.starts_with(char::is_uppercase));
        // A verb, or an auxiliary that serves as the verb.
        assert!(rest.iter().any(|token| matches!(token.tag, Upos::Verb | Upos::Aux)), "{}", sentence.text());
    }
}

/// Checks for sequences of letters that no French sentence may contain.
#[test]
fn french_joins_its_words() {
    let parts = english_french(Sizes { train: 30_000, dev: 0, test: 5_000 }, 5);
    let vowels = ["a", "e", "é", "i", "î", "o", "œ", "u", "hom", "his", "hôp", "hôt", "hab"];
    for sentence in parts.train.iter().chain(&parts.test) {
        let french = format!(" {}", sentence.french.to_lowercase());
        for word in ["je", "ne", "de", "que", "me", "te", "ma", "ta", "sa", "ce"] {
            for vowel in vowels {
                assert!(!french.contains(&format!(" {word} {vowel}")), "{french}");
            }
        }
        for wrong in [
            " à le ",
            " à les ",
            " près de les ",
            " dos de le ",
            "l'héros",
            "l'hibou",
            " un une",
            "  ",
            " ne pas ",
            "vieux homme ",
        ] {
            assert!(!french.contains(wrong), "{french}");
        }
    }
}

#[test]
fn sentiment_cannot_be_told_by_counting_words() {
    let parts = sentiment(Opinion::sizes(), 1);
    assert_eq!((parts.train.len(), parts.dev.len(), parts.test.len()), (20_000, 1_000, 2_000));
    for part in [&parts.train, &parts.dev, &parts.test] {
        let mut bags: BTreeMap<Vec<String>, [usize; 2]> = BTreeMap::new();
        for opinion in part {
            let text = opinion.text.to_lowercase();
            let mut bag: Vec<String> = text.split([' ', ',', '.']).map(str::to_string).collect();
            bag.sort();
            bags.entry(bag).or_default()[opinion.label as usize] += 1;
            assert_eq!(opinion.value > 0.0, opinion.label == Label::Positive);
            assert!(!opinion.text.contains('{'), "{}", opinion.text);
            assert!(opinion.value.abs() <= 1.0 && opinion.value != 0.0);
        }
        let best: usize = bags.values().map(|counts| counts[0].max(counts[1])).sum();
        let accuracy = best as f64 / part.len() as f64;
        assert!((0.6..=0.66).contains(&accuracy), "{accuracy}");
        let positive = part.iter().filter(|opinion| opinion.label == Label::Positive).count() as f64;
        assert!((positive / part.len() as f64 - 0.5).abs() < 0.03);
    }
    let words = |opinions: &[Opinion]| -> BTreeSet<String> {
        opinions.iter().flat_map(|opinion| opinion.text.split(' ').map(str::to_string)).collect()
    };
    let unknown: Vec<_> = words(&parts.test).difference(&words(&parts.train)).cloned().collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let train: BTreeSet<&str> = parts.train.iter().map(|opinion| opinion.text.as_str()).collect();
    assert!(parts.test.iter().chain(&parts.dev).all(|opinion| !train.contains(opinion.text.as_str())));
}

#[test]
fn stories_hold_every_word_that_is_asked_for() {
    let text = text(1);
    assert!((300_000..302_000).contains(&text.len()), "{}", text.len());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for word in text.split(|letter: char| !letter.is_alphabetic()) {
        *counts.entry(word).or_default() += 1;
    }
    let asked = analogies().into_iter().flatten().chain(related().into_iter().flat_map(|(_, words)| words));
    for word in asked {
        assert!(counts.get(word).is_some_and(|count| *count >= 20), "{word}: {:?}", counts.get(word));
    }
    let analogies = analogies();
    assert!(analogies.contains(&["man", "woman", "king", "queen"]));
    assert!(analogies.contains(&["Paris", "France", "Rome", "Italy"]));
    assert!(analogies.contains(&["walk", "walked", "play", "played"]));
    assert!(!text.contains('{') && !text.contains("  "));
}

/// A change of these hashes changes every published result on the built-in data.
#[test]
fn output_is_the_same_on_every_machine() {
    let parts = default_parts();
    let pairs: String = [&parts.train, &parts.dev, &parts.test]
        .into_iter()
        .flatten()
        .map(|sentence| format!("{}\t{}\n", sentence.text(), sentence.french))
        .collect();
    let opinions: String = sentiment(Opinion::sizes(), 1)
        .test
        .iter()
        .map(|opinion| format!("{}\t{}\n", opinion.text, opinion.value))
        .collect();
    let found = [hash(&pairs), hash(&opinions), hash(&text(1))];
    assert_eq!(found, [11_039_454_681_480_766_972, 1_775_213_793_899_014_269, 17_660_996_184_040_210_117]);
    assert_ne!(text(1), text(2));
}
