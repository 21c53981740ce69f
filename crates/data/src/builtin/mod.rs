//! Built-in data, with which every task runs without any file. They depend only on a seed; the words are in `words/`.
//!
//! - [`english_french`]: pairs of sentences from a grammar of both languages, with agreement, word order, clitic
//!   pronouns, negation, elision and English homographs ("I saw a saw").
//! - [`tagged`]: the English sentences with their parts of speech.
//! - [`sentiment()`]: opinions whose words alone do not determine the label.
//! - [`digits()`]: pictures of digits from our own strokes, deformed.
//! - [`motions()`]: points on the way around a shape, in one of two directions.
//! - [`handwriting()`]: words as strokes of a pen, from our own letters, in many hands.
//! - [`text()`]: short stories for language models and word vectors.
//! - [`scenes()`]: pictures of a few shapes, with sentences that name them.
//! - [`citations()`]: a graph of papers that cite each other.
//! - [`spoken()`]: digits said by synthesised voices, one by one or in strings.

mod citations;
mod clause;
mod digits;
mod draw;
mod english;
mod french;
mod grammar;
mod letters;
mod lexicon;
mod lists;
mod motions;
mod parts;
mod phrase;
mod pronoun;
mod scenes;
mod sentence;
mod sentiment;
mod spoken;
mod story_words;
mod text;

#[cfg(test)]
mod tests;

pub use citations::{citations, citations_fingerprint};
pub use digits::{DIGITS, digit, digits, digits_fingerprint};
pub use letters::{LINES, handwriting, handwriting_fingerprint};
pub(crate) use letters::{draw_words, words};
pub use motions::{motions, motions_fingerprint};
pub use parts::Sizes;
pub use scenes::{SCENE_SIZE, Scene, SceneShape, scenes, scenes_fingerprint};
pub use sentiment::{Label, Opinion, sentiment};
pub use spoken::{SPOKEN, spoken, spoken_digit, spoken_fingerprint, spoken_string, spoken_strings};
pub use text::{analogies, related, text};

use crate::Splits;
use crate::hash::Fnv;
use std::fmt;
use std::sync::OnceLock;

/// A universal part of speech, as in Universal Dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Upos {
    Adj,
    Adp,
    Adv,
    Aux,
    Cconj,
    Det,
    Noun,
    Num,
    Part,
    Pron,
    Propn,
    Punct,
    Sconj,
    Verb,
}

impl Upos {
    #[rustfmt::skip]
    const NAMES: [(Self, &str); 14] = [
        (Self::Adj, "ADJ"), (Self::Adp, "ADP"), (Self::Adv, "ADV"), (Self::Aux, "AUX"), (Self::Cconj, "CCONJ"),
        (Self::Det, "DET"), (Self::Noun, "NOUN"), (Self::Num, "NUM"), (Self::Part, "PART"), (Self::Pron, "PRON"),
        (Self::Propn, "PROPN"), (Self::Punct, "PUNCT"), (Self::Sconj, "SCONJ"), (Self::Verb, "VERB"),
    ];

    /// The name in capitals, as in CoNLL-U.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }
}

impl fmt::Display for Upos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An English word or punctuation mark with its part of speech.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The word as written in the sentence.
    pub text: String,
    /// Part of speech of the word.
    pub tag: Upos,
}

/// A sentence in both languages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// The English words.
    pub english: Vec<Token>,
    /// The French translation.
    pub french: String,
}

impl Sentence {
    /// The English text. Punctuation and "'s" are joined to the previous word.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for token in &self.english {
            if !text.is_empty() && token.tag != Upos::Punct && token.text != "'s" {
                text.push(' ');
            }
            text.push_str(&token.text);
        }
        text
    }
}

/// A hash of the built-in data. It changes if a version of this crate writes other sentences, opinions or stories.
pub fn fingerprint() -> &'static str {
    static FINGERPRINT: OnceLock<String> = OnceLock::new();
    FINGERPRINT.get_or_init(|| {
        // Enough to use every rule and nearly every word, few enough to take no time.
        let sizes = Sizes { train: 3_000, dev: 100, test: 100 };
        let Splits { train, dev, test, .. } = english_french(sizes, 1);
        let mut state = Fnv::default();
        for sentence in [train, dev, test].iter().flatten() {
            sentence.english.iter().for_each(|token| state.write(format!("{}/{} ", token.text, token.tag).as_bytes()));
            state.write(sentence.french.as_bytes());
        }
        let Splits { train, dev, test, .. } = sentiment(sizes, 1);
        for Opinion { text, label, value } in [train, dev, test].iter().flatten() {
            state.write(format!("{text}/{}/{value}", label.name()).as_bytes());
        }
        state.write(text(1).as_bytes());
        analogies().iter().flatten().for_each(|word| state.write(word.as_bytes()));
        format!("{:016x}", state.0)
    })
}

/// Draws English sentences with their French translations. Every test sentence has a pair of words (adjective and noun,
/// verb and object, subject and verb) that no training sentence has; with the default sizes, every single word form of the
/// test is in training. The first two test sentences are "I saw a saw." and "Citizens have the right to right wrongs."
///
/// ```
/// use regard_data::builtin::{Sizes, english_french};
/// let parts = english_french(Sizes { train: 10, dev: 2, test: 2 }, 1);
/// assert_eq!((parts.train.len(), parts.dev.len(), parts.test.len()), (10, 2, 2));
/// println!("{} → {}", parts.train[0].text(), parts.train[0].french);
/// ```
pub fn english_french(sizes: Sizes, seed: u64) -> Splits<Sentence> {
    parts::divided(sizes, seed)
}

/// Draws the English sentences of [`english_french`] as words with parts of speech, with the same splits.
pub fn tagged(sizes: Sizes, seed: u64) -> Splits<Vec<Token>> {
    parts::divided(sizes, seed).map(|sentence| sentence.english)
}
