//! Training, development and test parts, with combinations that training never shows.

use super::draw::Draw;
use super::grammar::{LENGTHS, showcase};
use super::sentence::{Pair, Tree};
use super::{Sentence, Upos};
use std::collections::BTreeSet;

/// How many sentences each part has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Sentences to learn from.
    pub train: usize,
    /// Sentences to choose by, of the same kind as those to learn from.
    pub dev: usize,
    /// Sentences with a held-out combination.
    pub test: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { train: 80_000, dev: 1_000, test: 2_000 }
    }
}

/// Data in three parts, no sentence in two of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts<T> {
    /// To learn from.
    pub train: Vec<T>,
    /// To choose by: new sentences, known combinations.
    pub dev: Vec<T>,
    /// To report on: every sentence has a combination of words that training never shows.
    pub test: Vec<T>,
}

impl<T> Parts<T> {
    /// The same parts with every example changed.
    pub fn map<U>(self, change: impl Fn(T) -> U) -> Parts<U> {
        let all = |examples: Vec<T>| examples.into_iter().map(&change).collect();
        Parts { train: all(self.train), dev: all(self.dev), test: all(self.test) }
    }
}

/// One pair in this many is held out.
const HELD_OUT: u64 = 12;

/// Whether a pair of lexemes is kept for the test part; a function of the words alone, so every seed keeps the same.
pub(super) fn is_held_out(pair: Pair) -> bool {
    // What homographs are shown by must be read, not remembered.
    [("voir", "saw"), ("citizen", "redresser")].contains(&pair)
        || hash(&format!("{} {}", pair.0, pair.1)).is_multiple_of(HELD_OUT)
}

/// FNV-1a, with its high bits folded in since the low ones alone are weak.
pub(super) fn hash(text: &str) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    state ^ (state >> 32)
}

/// Draws sentences until every part is full. `sizes` beyond what the grammar can say would never end, so draws that
/// bring nothing new are counted and the parts left short after a long run of them.
pub(super) fn divided(sizes: Sizes, seed: u64) -> Parts<Sentence> {
    let mut draw = Draw::new(seed);
    let mut met = BTreeSet::new();
    let (mut seen, mut unseen) = (Vec::new(), Vec::new());
    let known = sizes.train + sizes.dev;
    for sentence in showcase().iter().take(sizes.test).filter_map(rendered) {
        met.insert(hash(&sentence.text()));
        unseen.push(sentence);
    }
    let mut barren = 0;
    while (seen.len() < known || unseen.len() < sizes.test) && barren < 100_000 {
        barren += 1;
        let tree = draw.tree();
        let held = tree.combinations().into_iter().any(is_held_out);
        if (held && unseen.len() >= sizes.test) || (!held && seen.len() >= known) {
            continue;
        }
        let Some(sentence) = rendered(&tree) else { continue };
        if !met.insert(hash(&sentence.text())) {
            continue;
        }
        barren = 0;
        if held { unseen.push(sentence) } else { seen.push(sentence) }
    }
    let dev = seen.split_off(sizes.train.min(seen.len()));
    Parts { train: seen, dev, test: unseen }
}

/// A sentence of a length that is wanted.
pub(super) fn rendered(tree: &Tree) -> Option<Sentence> {
    let sentence = tree.render();
    let words = sentence.english.iter().filter(|token| token.tag != Upos::Punct).count();
    LENGTHS.contains(&words).then_some(sentence)
}
