//! Words written by hand: a single-stroke alphabet of our own, in hands that differ in slant, size, width and spacing. No letter
//! is written twice in the same way.

mod shapes;

use super::{Sizes, text};
use crate::hash::Fnv;
use crate::strokes::glyphs::{Glyph, Hand, Variety};
use crate::{Handwritten, Split, Splits};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;

use shapes::glyph;

/// Number of lines in each part of the built-in handwriting.
pub const LINES: Sizes = Sizes { train: 3_000, dev: 200, test: 300 };

/// Number of words of a line, at most.
const MOST_WORDS: usize = 2;
const VARIETY: Variety = Variety { slant: 0.3, size: 0.12, bend: 0.035, gap: [0.12, 0.26] };
/// Share of words that are random letters, so that rare letters and pairs are seen, too.
const RANDOM_WORDS: f64 = 0.35;

/// Writes lines of one or two words.
///
/// ```
/// use regard_data::builtin::{Sizes, handwriting};
/// let parts = handwriting(Sizes { train: 10, dev: 2, test: 2 }, 1);
/// assert!(!parts.train[0].text.is_empty() && !parts.train[0].strokes.is_empty());
/// ```
pub fn handwriting(sizes: Sizes, seed: u64) -> Splits<Handwritten> {
    let words = words();
    let part = |split: Split, count: usize| (0..count).map(|index| line(split, index, seed, &words)).collect();
    Splits::new(part(Split::Train, sizes.train), part(Split::Dev, sizes.dev), part(Split::Test, sizes.test))
}

/// A hash of the built-in handwriting. It changes if a version of this crate writes other lines.
pub fn handwriting_fingerprint() -> String {
    let mut state = Fnv::default();
    for example in handwriting(Sizes { train: 100, dev: 1, test: 1 }, 1).train {
        state.write(&example.hash().to_le_bytes());
    }
    format!("{:016x}", state.0)
}

fn line(split: Split, index: usize, seed: u64, words: &[String]) -> Handwritten {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(((split as u64) << 32) + index as u64);
    let line = draw_words(words, MOST_WORDS, &mut random);
    let glyphs: Vec<Glyph> = line.chars().filter_map(glyph).collect();
    Hand::draw(VARIETY, &mut random).write(&line, &glyphs, &mut random)
}

/// Returns the words of small letters in the built-in stories.
pub(crate) fn words() -> Vec<String> {
    let text = text(1);
    let is_word = |word: &&str| (2..=8).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let words: BTreeSet<&str> = text.split_whitespace().filter(is_word).collect();
    words.into_iter().map(str::to_string).collect()
}

/// Draws a line of 1 to `most` words; some of them are random letters.
pub(crate) fn draw_words(words: &[String], most: usize, random: &mut ChaCha8Rng) -> String {
    let word = |random: &mut ChaCha8Rng| match random.random_bool(RANDOM_WORDS) {
        true => {
            let length = random.random_range(2..=6);
            (0..length).map(|_| char::from(random.random_range(b'a'..=b'z'))).collect()
        }
        false => words[random.random_range(0..words.len())].clone(),
    };
    let count = random.random_range(1..=most);
    (0..count).map(|_| word(random)).collect::<Vec<String>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_depend_on_the_seed_alone() {
        let few = handwriting(Sizes { train: 5, dev: 3, test: 1 }, 7);
        let more = handwriting(Sizes { train: 50, dev: 3, test: 9 }, 7);
        assert_eq!((&few.train[..], &few.dev, &few.test[0]), (&more.train[..5], &more.dev, &more.test[0]));
        assert_ne!(few.train, handwriting(Sizes { train: 5, dev: 3, test: 1 }, 8).train);
    }

    #[test]
    fn every_letter_is_written_within_its_line() {
        for letter in 'a'..='z' {
            let Glyph { strokes, width } = glyph(letter).unwrap();
            assert!(!strokes.is_empty() && (0.0..0.8).contains(&width), "{letter}: {width}");
            for [x, y] in strokes.iter().flatten() {
                assert!((-0.05..0.8).contains(x) && (-0.05..=1.45).contains(y), "{letter}: {x}, {y}");
            }
        }
        assert_eq!(glyph('A'), None);
        let parts = handwriting(Sizes { train: 400, dev: 0, test: 0 }, 1);
        let used: BTreeSet<char> = parts.train.iter().flat_map(|line| line.text.chars()).collect();
        assert_eq!(used.len(), 27, "{used:?}");
    }

    #[test]
    fn published_lines_do_not_change() {
        assert_eq!(handwriting_fingerprint(), "4f1171641c4700dd");
    }
}
