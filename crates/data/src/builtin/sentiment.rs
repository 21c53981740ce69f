//! Opinions whose words alone do not determine the label.
//!
//! Seven sentences in ten come in pairs: the same words in another order, with the other label ("The plot was dull but
//! the music was great." and "The plot was great but the music was dull."). A model that only counts words is right on
//! half of these, so on 65 % of all sentences at best.

use super::draw::Draw;
use super::lists::{Cell, list};
use super::parts::{Sizes, hash};
use crate::{DataError, Splits};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The label of an opinion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    /// Against.
    Negative,
    /// In favour.
    Positive,
}

impl Label {
    /// The name of the label: `negative` or `positive`.
    pub fn name(self) -> &'static str {
        match self {
            Label::Negative => "negative",
            Label::Positive => "positive",
        }
    }
}

/// A sentence with an opinion.
#[derive(Clone, Debug, PartialEq)]
pub struct Opinion {
    /// The sentence.
    pub text: String,
    /// Whether it is in favour or against.
    pub label: Label,
    /// Strength of the opinion, from -1 to 1, with the sign of the label.
    pub value: f32,
}

impl Opinion {
    fn new(text: String, value: f32) -> Self {
        let value = (value * 100.0).round() / 100.0;
        Self { text, label: if value > 0.0 { Label::Positive } else { Label::Negative }, value }
    }
}

/// An adjective, or a verb with its base and past.
#[derive(Clone, Copy)]
struct Word {
    base: &'static str,
    /// The past of a verb; the same as `base` for an adjective.
    past: &'static str,
    /// From -1 (against) to 1 (in favour).
    value: f32,
}

/// What the losing half of a sentence does to its value.
#[derive(Clone, Copy)]
enum Weight {
    /// It is denied, so only the winner counts.
    Denied,
    /// It is granted, so it takes some of the strength away.
    Granted,
}

/// The words that decide the value of a plain sentence.
#[derive(Clone, Copy)]
enum ToldBy {
    Adjective,
    Verb,
    /// An adjective and a verb on the same side.
    Both,
}

/// The words and sentences of `words/opinions.txt`, which explains the placeholders.
struct Words {
    good: Vec<Word>,
    bad: Vec<Word>,
    liking: Vec<Word>,
    hating: Vec<Word>,
    topics: Vec<&'static str>,
    /// Sentences with an adjective that wins and one that loses.
    adjectives: Vec<(Weight, &'static str)>,
    /// Sentences with a verb that wins and one that loses.
    verbs: Vec<(Weight, &'static str)>,
    /// Sentences whose words tell the label, with the sentence's value as a multiple of the word's.
    plain: Vec<(ToldBy, f32, &'static str)>,
}

static WORDS: LazyLock<Words> = LazyLock::new(|| Words::read().unwrap_or_else(|error| panic!("{error}")));

impl Words {
    fn read() -> Result<Self, DataError> {
        let list = list!("opinions.txt");
        let adjectives = |section| {
            let read = |[word, value]: [Cell; 2]| Ok(Word { base: word.text, past: word.text, value: value.number()? });
            list.read(section, ["adjective", "value"], read)
        };
        let verbs = |section| {
            list.read(section, ["verb", "value"], |[verb, value]| {
                let [base, past] = verb.forms()?;
                Ok(Word { base, past, value: value.number()? })
            })
        };
        let weights = [("denied", Weight::Denied), ("granted", Weight::Granted)];
        let swapped = |section| {
            list.read(section, ["loser", "sentence"], |[loser, text]| Ok((loser.choice(&weights)?, text.text)))
        };
        let told = [("adjective", ToldBy::Adjective), ("verb", ToldBy::Verb), ("both", ToldBy::Both)];
        Ok(Self {
            good: adjectives("good")?,
            bad: adjectives("bad")?,
            liking: verbs("liking")?,
            hating: verbs("hating")?,
            topics: list.words("topics")?,
            adjectives: swapped("adjectives")?,
            verbs: swapped("verbs")?,
            plain: list.read("plain", ["told by", "factor", "sentence"], |[by, factor, text]| {
                Ok((by.choice(&told)?, factor.number()?, text.text))
            })?,
        })
    }
}

/// One combination of words in this many is held out for the test part.
const HELD_OUT: u64 = 8;

/// Draws opinions for `classify`; [`Opinion::sizes`] has the default sizes. Every sentence of the test part has a combination
/// of words that training never shows.
///
/// Sentences are added in pairs, so a part may be one sentence longer than asked for.
pub fn sentiment(sizes: Sizes, seed: u64) -> Splits<Opinion> {
    let mut draw = Draw::new(seed ^ hash("sentiment"));
    let mut met = BTreeSet::new();
    let (mut seen, mut unseen) = (Filling::default(), Filling::default());
    let known = sizes.train + sizes.dev;
    let mut barren = 0;
    while (!seen.full(known) || !unseen.full(sizes.test)) && barren < 100_000 {
        barren += 1;
        let paired = draw.chance(50);
        let (opinions, key) = if paired { pair(&mut draw) } else { plain(&mut draw) };
        let held = hash(&key).is_multiple_of(HELD_OUT);
        let (part, size) = if held { (&mut unseen, sizes.test) } else { (&mut seen, known) };
        let room = if paired { &mut part.paired } else { &mut part.plain };
        let goal = if paired { size * PAIRED_PERCENT / 100 } else { size - size * PAIRED_PERCENT / 100 };
        if room.len() >= goal || !met.insert(hash(&opinions[0].text)) {
            continue;
        }
        met.extend(opinions.iter().map(|opinion| hash(&opinion.text)));
        room.extend(opinions);
        barren = 0;
    }
    let (train, dev) = seen.divided(sizes.train, sizes.dev, &mut draw);
    let (test, _) = unseen.divided(sizes.test, 0, &mut draw);
    Splits::new(train, dev, test)
}

impl Opinion {
    /// The default sizes of the parts.
    pub fn sizes() -> Sizes {
        Sizes { train: 20_000, dev: 1_000, test: 2_000 }
    }
}

/// Percentage of sentences that come in pairs, whose words fit both labels.
const PAIRED_PERCENT: usize = 70;

/// The sentences of a part while it is being filled.
#[derive(Default)]
struct Filling {
    /// Paired sentences, two by two.
    paired: Vec<Opinion>,
    plain: Vec<Opinion>,
}

impl Filling {
    fn full(&self, size: usize) -> bool {
        let paired = size * PAIRED_PERCENT / 100;
        self.paired.len() >= paired && self.plain.len() >= size - paired
    }

    /// Splits the sentences into two shuffled parts with the same share of pairs. The two of a pair stay together.
    fn divided(mut self, first: usize, second: usize, draw: &mut Draw) -> (Vec<Opinion>, Vec<Opinion>) {
        let share = |size: usize| (size * PAIRED_PERCENT / 100).next_multiple_of(2);
        let mut rest = self.paired.split_off(share(first).min(self.paired.len()));
        let plain = first.saturating_sub(self.paired.len()).min(self.plain.len());
        rest.extend(self.plain.split_off(plain));
        rest.truncate(if second == 0 { 0 } else { rest.len() });
        self.paired.append(&mut self.plain);
        shuffle(&mut self.paired, draw);
        shuffle(&mut rest, draw);
        (self.paired, rest)
    }
}

fn shuffle<T>(items: &mut [T], draw: &mut Draw) {
    for last in (1..items.len()).rev() {
        items.swap(last, draw.below(last + 1));
    }
}

fn topics(draw: &mut Draw) -> (&'static str, &'static str) {
    let topics = &WORDS.topics;
    let first = draw.below(topics.len());
    (topics[first], topics[(first + 1 + draw.below(topics.len() - 1)) % topics.len()])
}

/// Returns the same words twice, first in favour and then against, and the combination of words that the pair rests on.
fn pair(draw: &mut Draw) -> (Vec<Opinion>, String) {
    let (a, b) = topics(draw);
    let (good, bad) = (*draw.pick(&WORDS.good), *draw.pick(&WORDS.bad));
    let (like, hate) = (*draw.pick(&WORDS.liking), *draw.pick(&WORDS.hating));
    let say = |weight: Weight, template: &str, winner: Word, loser: Word| {
        let text = template.replace("{a}", a).replace("{b}", b);
        let text = text.replace("{W}", winner.base).replace("{W1}", winner.base).replace("{W2}", winner.past);
        let text = text.replace("{L}", loser.base).replace("{L1}", loser.base).replace("{L2}", loser.past);
        let value = match weight {
            Weight::Denied => winner.value,
            Weight::Granted => 0.75 * winner.value + 0.25 * loser.value,
        };
        Opinion::new(text, value)
    };
    match draw.below(10) {
        0 => {
            let (weight, template) = *draw.pick(&WORDS.verbs);
            let both = vec![say(weight, template, like, hate), say(weight, template, hate, like)];
            (both, format!("{a} {}", like.base))
        }
        1 => {
            let favour = say(Weight::Granted, "The {a} was {L} but I {W2} the {b}.", like, bad);
            let against = say(Weight::Granted, "I {L2} the {b} but the {a} was {W}.", bad, like);
            (vec![favour, against], format!("{} {}", like.base, bad.base))
        }
        _ => {
            let (weight, template) = *draw.pick(&WORDS.adjectives);
            let both = vec![say(weight, template, good, bad), say(weight, template, bad, good)];
            (both, format!("{} {}", good.base, bad.base))
        }
    }
}

/// Returns one opinion that its words tell, though often by a "not", and the combination of words that it rests on.
fn plain(draw: &mut Draw) -> (Vec<Opinion>, String) {
    let (a, b) = topics(draw);
    let word = *if draw.chance(50) { draw.pick(&WORDS.good) } else { draw.pick(&WORDS.bad) };
    let mut verb = *if draw.chance(50) { draw.pick(&WORDS.liking) } else { draw.pick(&WORDS.hating) };
    let (by, factor, template) = *draw.pick(&WORDS.plain);
    let (value, key) = match by {
        ToldBy::Adjective => (word.value, word.base),
        ToldBy::Verb => (verb.value, verb.base),
        ToldBy::Both => {
            verb = *draw.pick(if word.value > 0.0 { &WORDS.liking } else { &WORDS.hating });
            (0.5 * (word.value + verb.value), word.base)
        }
    };
    let text = template.replace("{a}", a).replace("{b}", b).replace("{w}", word.base);
    let text = text.replace("{v}", verb.past).replace("{u}", verb.base);
    (vec![Opinion::new(text, factor * value)], format!("{key} {a}"))
}
