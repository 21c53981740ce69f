//! Opinions whose words alone do not tell the label.
//!
//! Seven sentences in ten come in pairs: the same words in another order, with the other label ("The plot was dull but
//! the music was great." and "The plot was great but the music was dull."). Whoever only counts words is right on half
//! of these, so on 65 % of all at best.

use super::draw::Draw;
use super::parts::{Parts, Sizes, hash};
use std::collections::BTreeSet;

/// Which way an opinion goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    /// Against.
    Negative,
    /// In favour.
    Positive,
}

impl Label {
    /// The label as a word.
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
    /// Which way it goes.
    pub label: Label,
    /// How far: from -1 to 1, with the sign of the label.
    pub value: f32,
}

impl Opinion {
    fn new(text: String, value: f32) -> Self {
        let value = (value * 100.0).round() / 100.0;
        Self { text, label: if value > 0.0 { Label::Positive } else { Label::Negative }, value }
    }
}

type Word = (&'static str, f32);

// None begins with a vowel, so that "a" fits before each.
const GOOD: [Word; 10] = [
    ("good", 0.5),
    ("great", 0.8),
    ("brilliant", 1.0),
    ("clever", 0.6),
    ("charming", 0.7),
    ("funny", 0.6),
    ("moving", 0.7),
    ("lively", 0.5),
    ("fresh", 0.4),
    ("superb", 1.0),
];
const BAD: [Word; 10] = [
    ("bad", -0.5),
    ("dull", -0.6),
    ("terrible", -1.0),
    ("boring", -0.7),
    ("poor", -0.5),
    ("dreadful", -1.0),
    ("silly", -0.4),
    ("weak", -0.4),
    ("tedious", -0.7),
    ("clumsy", -0.6),
];
/// Base and past.
const LIKING: [(&str, &str, f32); 3] = [("love", "loved", 0.9), ("enjoy", "enjoyed", 0.6), ("admire", "admired", 0.7)];
const HATING: [(&str, &str, f32); 3] =
    [("hate", "hated", -0.9), ("dislike", "disliked", -0.6), ("despise", "despised", -0.8)];
const TOPICS: [&str; 12] =
    ["film", "plot", "acting", "music", "book", "story", "ending", "dialogue", "cast", "scenery", "show", "beginning"];

/// What the losing half of a sentence does to its value.
#[derive(Clone, Copy)]
enum Weight {
    /// It is denied, so only the winner counts.
    Denied,
    /// It is granted, so it takes some of the strength away.
    Granted,
}

/// `{W}` and `{L}` are the words that win and lose; swapping them turns the label and keeps the words.
const SWAPPED: [(&str, Weight); 12] = [
    ("The {a} was {L} but the {b} was {W}.", Weight::Granted),
    ("Although the {a} was {L}, the {b} was {W}.", Weight::Granted),
    ("The {b} was {W} although the {a} was {L}.", Weight::Granted),
    ("The {a} was not {L}, it was {W}.", Weight::Denied),
    ("I expected a {L} {a} and I got a {W} one.", Weight::Denied),
    ("No one could call the {a} {L}, everyone found it {W}.", Weight::Denied),
    ("The {a} is {W} and far from {L}.", Weight::Denied),
    ("The {a} is more {W} than {L}.", Weight::Granted),
    ("The {a} is {W} without being {L}.", Weight::Denied),
    ("People said the {a} was {L}, but I found it {W}.", Weight::Denied),
    ("It is not true that the {a} is {L}, it is {W}.", Weight::Denied),
    ("Some found the {a} {L}, yet the {b} is {W}.", Weight::Granted),
];

/// The same with verbs, present or past.
const SWAPPED_VERBS: [(&str, Weight); 3] = [
    ("I {L2} the {a} but I {W2} the {b}.", Weight::Granted),
    ("I do not {L1} this {a}, I {W1} it.", Weight::Denied),
    ("I {W2} the {b} even though I {L2} the {a}.", Weight::Granted),
];

/// One combination in this many is kept for the test.
const HELD_OUT: u64 = 8;

/// Opinions for `classify`: about 20,000 to learn from by [`Opinion::sizes`]. In the test
/// part every sentence has a combination of words that training never shows.
///
/// Parts are filled pair by pair, so a part may come out one sentence longer than asked for.
pub fn sentiment(sizes: Sizes, seed: u64) -> Parts<Opinion> {
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
    Parts { train, dev, test }
}

impl Opinion {
    /// How much of it a task takes by default.
    pub fn sizes() -> Sizes {
        Sizes { train: 20_000, dev: 1_000, test: 2_000 }
    }
}

/// Share of sentences whose words fit both labels.
const PAIRED_PERCENT: usize = 70;

#[derive(Default)]
struct Filling {
    /// Two by two.
    paired: Vec<Opinion>,
    plain: Vec<Opinion>,
}

impl Filling {
    fn full(&self, size: usize) -> bool {
        let paired = size * PAIRED_PERCENT / 100;
        self.paired.len() >= paired && self.plain.len() >= size - paired
    }

    /// Two parts with the same share of pairs, no pair torn apart, each in a drawn order.
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

fn value(winner: f32, loser: f32, weight: Weight) -> f32 {
    match weight {
        Weight::Denied => winner,
        Weight::Granted => 0.75 * winner + 0.25 * loser,
    }
}

fn topics(draw: &mut Draw) -> (&'static str, &'static str) {
    let first = draw.below(TOPICS.len());
    (TOPICS[first], TOPICS[(first + 1 + draw.below(TOPICS.len() - 1)) % TOPICS.len()])
}

/// The same words twice, first in favour and then against, and the combination they rest on.
fn pair(draw: &mut Draw) -> (Vec<Opinion>, String) {
    let (a, b) = topics(draw);
    let (good, bad) = (*draw.pick(&GOOD), *draw.pick(&BAD));
    let (like, hate) = (*draw.pick(&LIKING), *draw.pick(&HATING));
    let fill = |template: &str| template.replace("{a}", a).replace("{b}", b);
    match draw.below(10) {
        0 => {
            let (template, weight) = *draw.pick(&SWAPPED_VERBS);
            let say = |winner: (&str, &str, f32), loser: (&str, &str, f32)| {
                let text = fill(template).replace("{W1}", winner.0).replace("{L1}", loser.0);
                let text = text.replace("{W2}", winner.1).replace("{L2}", loser.1);
                Opinion::new(text, value(winner.2, loser.2, weight))
            };
            (vec![say(like, hate), say(hate, like)], ordered(a, like.0))
        }
        1 => {
            let text = fill("The {a} was {L} but I {W} the {b}.").replace("{L}", bad.0).replace("{W}", like.1);
            let favour = Opinion::new(text, value(like.2, bad.1, Weight::Granted));
            let text = fill("I {W} the {b} but the {a} was {L}.").replace("{L}", bad.0).replace("{W}", like.1);
            (vec![favour, Opinion::new(text, value(bad.1, like.2, Weight::Granted))], ordered(like.0, bad.0))
        }
        _ => {
            let (template, weight) = *draw.pick(&SWAPPED);
            let say = |winner: Word, loser: Word| {
                let text = fill(template).replace("{W}", winner.0).replace("{L}", loser.0);
                Opinion::new(text, value(winner.1, loser.1, weight))
            };
            (vec![say(good, bad), say(bad, good)], ordered(good.0, bad.0))
        }
    }
}

fn ordered(first: &str, second: &str) -> String {
    format!("{first} {second}")
}

/// One opinion that its words tell, though often by a "not".
fn plain(draw: &mut Draw) -> (Vec<Opinion>, String) {
    let (a, b) = topics(draw);
    let word = if draw.chance(50) { *draw.pick(&GOOD) } else { *draw.pick(&BAD) };
    let verb = if draw.chance(50) { *draw.pick(&LIKING) } else { *draw.pick(&HATING) };
    let (template, value, key) = match draw.below(9) {
        0 => ("The {a} was {w}.", word.1, word.0),
        1 => ("The {a} was not {w} at all.", -0.5 * word.1, word.0),
        2 => ("I {v} the {a} and the {b}.", verb.2, verb.0),
        3 => ("I did not {u} the {a} or the {b}.", -0.5 * verb.2, verb.0),
        4 => ("No one could call the {a} {w}.", -0.6 * word.1, word.0),
        5 => ("The {a} and the {b} were {w}.", word.1, word.0),
        6 => ("The {a} and the {b} were not {w}.", -0.5 * word.1, word.0),
        7 => ("I thought the {a} was {w} and I {v} it.", 0.0, word.0),
        _ => ("Everyone says that the {a} is {w}, like the {b}.", word.1, word.0),
    };
    let (verb, value) = if value == 0.0 {
        let same = if word.1 > 0.0 { LIKING } else { HATING };
        let verb = *draw.pick(&same);
        (verb, 0.5 * (word.1 + verb.2))
    } else {
        (verb, value)
    };
    let text = template.replace("{a}", a).replace("{b}", b).replace("{w}", word.0);
    let text = text.replace("{v}", verb.1).replace("{u}", verb.0);
    (vec![Opinion::new(text, value)], format!("{key} {a}"))
}
