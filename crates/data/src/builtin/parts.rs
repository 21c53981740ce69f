//! Splits built-in data into parts; the test part has combinations of words that training never shows.

use super::draw::Draw;
use super::grammar::{LENGTHS, showcase};
use super::sentence::{Pair, Tree};
use super::{Sentence, Upos};
use crate::Splits;
use crate::hash::Fnv;
use std::collections::BTreeSet;

/// Number of examples in each part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Examples to train on.
    pub train: usize,
    /// Sentences to make choices by: new ones with known combinations of words.
    pub dev: usize,
    /// Sentences to report scores on: each has a combination of words that training never shows.
    pub test: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { train: 80_000, dev: 1_000, test: 2_000 }
    }
}

/// One pair of words in this many is held out.
const HELD_OUT: u64 = 12;

/// Whether a pair of lexemes is held out for the test part. It depends on the words alone, so every seed holds out the same.
pub(super) fn is_held_out(pair: Pair) -> bool {
    // The sentences that show homographs must not be learnt by heart.
    [("voir", "saw"), ("citizen", "redresser")].contains(&pair)
        || hash(&format!("{} {}", pair.0, pair.1)).is_multiple_of(HELD_OUT)
}

/// FNV-1a with its high bits folded into the low ones, which alone are weak.
pub(super) fn hash(text: &str) -> u64 {
    let mut state = Fnv::default();
    state.write(text.as_bytes());
    state.0 ^ (state.0 >> 32)
}

/// Draws sentences until every part is full. If `sizes` exceeds what the grammar can say, the parts stay short: drawing ends
/// after a long run without a new sentence.
pub(super) fn divided(sizes: Sizes, seed: u64) -> Splits<Sentence> {
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
    Splits::new(seen, dev, unseen)
}

/// The sentence of a tree, if it has an allowed length.
pub(super) fn rendered(tree: &Tree) -> Option<Sentence> {
    let sentence = tree.render();
    let words = sentence.english.iter().filter(|token| token.tag != Upos::Punct).count();
    LENGTHS.contains(&words).then_some(sentence)
}
