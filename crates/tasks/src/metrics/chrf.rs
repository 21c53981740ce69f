//! chrF (Popović 2015): the F-score of character n-grams, precision and recall averaged over the orders; chrF++ (2017) adds
//! word n-grams.
//!
//! The details are sacrebleu's defaults: spaces are removed, case matters, and an order counts if both sides have an n-gram of
//! it. Of several references the one with the best score for the sentence counts. Counts are summed over the corpus first.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::is_space;

/// The n-grams that count, and the weight of recall.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChrfOptions {
    /// Largest length of character n-grams.
    pub char_order: usize,
    /// Largest length of word n-grams; 0 for none.
    pub word_order: usize,
    /// Weight of recall relative to precision.
    pub beta: f64,
}

impl Default for ChrfOptions {
    /// Returns the options of chrF2: characters up to 6, no words, β = 2.
    fn default() -> Self {
        Self { char_order: 6, word_order: 0, beta: 2.0 }
    }
}

impl ChrfOptions {
    /// Returns the options of chrF++: words up to 2 as well.
    pub fn plus_plus() -> Self {
        Self { word_order: 2, ..Self::default() }
    }
}

/// Computes the chrF of a corpus, 0 to 100. Sentences may have different numbers of references; one without any is left out.
///
/// # Panics
/// If `hypotheses` and `references` differ in length.
pub fn chrf(hypotheses: &[String], references: &[Vec<String>], options: ChrfOptions) -> f64 {
    assert_eq!(hypotheses.len(), references.len(), "one list of references per hypothesis");
    let mut sums = vec![Count::default(); options.char_order + options.word_order];
    for (hypothesis, references) in hypotheses.iter().zip(references) {
        for (sum, count) in sums.iter_mut().zip(best_counts(hypothesis, references, options)) {
            sum.hypothesis += count.hypothesis;
            sum.reference += count.reference;
            sum.both += count.both;
        }
    }
    f_score(&sums, options.beta)
}

/// Computes the chrF of one sentence, 0 to 100.
pub fn sentence_chrf(hypothesis: &str, references: &[String], options: ChrfOptions) -> f64 {
    f_score(&best_counts(hypothesis, references, options), options.beta)
}

/// Numbers of n-grams of one order.
#[derive(Clone, Copy, Default)]
struct Count {
    hypothesis: u64,
    reference: u64,
    both: u64,
}

fn best_counts(hypothesis: &str, references: &[String], options: ChrfOptions) -> Vec<Count> {
    let hypothesis = Pieces::new(hypothesis);
    let mut best: Option<(f64, Vec<Count>)> = None;
    for reference in references {
        let counts = hypothesis.counts(&Pieces::new(reference), options);
        let score = f_score(&counts, options.beta);
        if best.as_ref().is_none_or(|(so_far, _)| score > *so_far) {
            best = Some((score, counts));
        }
    }
    best.map(|(_, counts)| counts).unwrap_or_default()
}

struct Pieces<'a> {
    characters: Vec<char>,
    words: Vec<&'a str>,
}

impl<'a> Pieces<'a> {
    fn new(text: &'a str) -> Self {
        let words = text.split(is_space).filter(|word| !word.is_empty()).flat_map(apart).flatten().collect();
        Self { characters: text.chars().filter(|&c| !is_space(c)).collect(), words }
    }

    fn counts(&self, reference: &Self, options: ChrfOptions) -> Vec<Count> {
        let characters = (1..=options.char_order).map(|n| count(&self.characters, &reference.characters, n));
        characters.chain((1..=options.word_order).map(|n| count(&self.words, &reference.words, n))).collect()
    }
}

/// Splits one punctuation mark off a word: the last character, else the first. "(hi)" becomes "(hi" and ")", as in the author's
/// script.
fn apart(word: &str) -> [Option<&str>; 2] {
    let sign = |c: char| c.is_ascii_punctuation();
    let last = word.char_indices().next_back().filter(|&(at, c)| at > 0 && sign(c));
    let first = word.chars().next().filter(|&c| sign(c) && word.len() > c.len_utf8());
    let cut = last.map(|(at, _)| at).or(first.map(char::len_utf8));
    cut.map_or([Some(word), None], |at| [Some(&word[..at]), Some(&word[at..])])
}

fn count<T: Ord>(hypothesis: &[T], reference: &[T], order: usize) -> Count {
    let (ours, theirs) = (ngrams(hypothesis, order), ngrams(reference, order));
    let both = ours.iter().map(|(ngram, &count)| theirs.get(ngram).map_or(0, |&other| count.min(other))).sum();
    // If the reference is too short for the order, the n-grams of the hypothesis are not mistakes.
    let hypothesis = if theirs.is_empty() { 0 } else { ours.values().sum() };
    Count { hypothesis, reference: theirs.values().sum(), both }
}

fn ngrams<T: Ord>(pieces: &[T], order: usize) -> BTreeMap<&[T], u64> {
    let mut counts = BTreeMap::new();
    for ngram in pieces.windows(order) {
        *counts.entry(ngram).or_default() += 1;
    }
    counts
}

fn f_score(counts: &[Count], beta: f64) -> f64 {
    let (mut precision, mut recall, mut orders) = (0.0, 0.0, 0.0);
    for count in counts.iter().filter(|count| count.hypothesis > 0 && count.reference > 0) {
        precision += count.both as f64 / count.hypothesis as f64;
        recall += count.both as f64 / count.reference as f64;
        orders += 1.0;
    }
    if precision + recall == 0.0 {
        return 0.0;
    }
    let (precision, recall, factor) = (precision / orders, recall / orders, beta * beta);
    100.0 * (1.0 + factor) * precision * recall / (factor * precision + recall)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_punctuation_mark_is_split_off_a_word() {
        let words = Pieces::new("(hi) «Va» \"x y. - é! l'an").words;
        assert_eq!(words, ["(hi", ")", "«Va»", "\"", "x", "y", ".", "-", "é", "!", "l'an"]);
    }

    #[test]
    fn spaces_do_not_count_for_characters() {
        let references = ["ab\u{202f}c d".to_owned()];
        assert!((sentence_chrf("a bcd", &references, ChrfOptions::default()) - 100.0).abs() < 1e-9);
        assert!(sentence_chrf("a bcd", &references, ChrfOptions::plus_plus()) < 90.0);
    }

    #[test]
    fn empty_texts_score_zero() {
        assert_eq!(chrf(&[], &[], ChrfOptions::default()), 0.0);
        assert_eq!(sentence_chrf("abc", &[], ChrfOptions::default()), 0.0);
        assert_eq!(sentence_chrf("", &["abc".to_owned()], ChrfOptions::default()), 0.0);
    }

    proptest! {
        #[test]
        fn the_best_reference_counts(texts in prop::collection::vec("[a-c !]{0,20}", 3)) {
            let options = ChrfOptions::plus_plus();
            let both = sentence_chrf(&texts[0], &texts[1..], options);
            let each = texts[1..].iter().map(|text| sentence_chrf(&texts[0], std::slice::from_ref(text), options));
            prop_assert_eq!(both, each.fold(0.0, f64::max));
            prop_assert!((0.0..=100.0 + 1e-9).contains(&both));
        }
    }
}
