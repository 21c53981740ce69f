//! BLEU (Papineni 2002): `BP · exp(¼ Σₙ log pₙ)`, with `pₙ` the clipped precision of n-grams and `BP = exp(1 − r/c)` if the
//! length `c` of the hypotheses is below the length `r` of the references, else 1.
//!
//! The details are sacrebleu's defaults: its tokeniser `13a`, case-sensitive, exponential smoothing (the k-th order without a
//! match counts `2⁻ᵏ` matches). Of several references the length nearest to the hypothesis counts, the shorter one if tied.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::is_space;

const ORDER: usize = 4;
// sacrebleu's value for the logarithm of 0; its exponential is 0 whatever the other orders are.
const LOG_ZERO: f64 = -9_999_999_999.0;

/// A BLEU score and its components.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bleu {
    /// BLEU score, from 0 to 100.
    pub score: f64,
    /// Smoothed precisions of 1-grams to 4-grams, in percent.
    pub precisions: [f64; 4],
    /// Brevity penalty; 1 if the hypotheses are at least as long as the references.
    pub brevity_penalty: f64,
    /// Number of tokens of the hypotheses.
    pub hypothesis_len: usize,
    /// Number of tokens of the references, for each sentence those of the reference nearest in length.
    pub reference_len: usize,
}

/// Computes the BLEU of a corpus. Sentences may have different numbers of references; one without any matches nothing.
///
/// # Panics
/// If `hypotheses` and `references` differ in length.
pub fn bleu(hypotheses: &[String], references: &[Vec<String>]) -> Bleu {
    assert_eq!(hypotheses.len(), references.len(), "one list of references per hypothesis");
    let mut counts = Counts::default();
    for (hypothesis, references) in hypotheses.iter().zip(references) {
        counts.add(hypothesis, references);
    }
    counts.bleu(Orders::All)
}

/// Computes the BLEU of one sentence, over the orders for which it is long enough.
pub fn sentence_bleu(hypothesis: &str, references: &[String]) -> Bleu {
    let mut counts = Counts::default();
    counts.add(hypothesis, references);
    counts.bleu(Orders::Effective)
}

/// The orders that the mean is taken over.
#[derive(Clone, Copy, PartialEq)]
enum Orders {
    All,
    /// Only orders for which the hypothesis has an n-gram.
    Effective,
}

#[derive(Default)]
struct Counts {
    correct: [u64; ORDER],
    total: [u64; ORDER],
    hypothesis_len: usize,
    reference_len: usize,
}

impl Counts {
    fn add(&mut self, hypothesis: &str, references: &[String]) {
        let hypothesis = tokens(hypothesis);
        let references: Vec<Vec<String>> = references.iter().map(|reference| tokens(reference)).collect();
        let away = |length: usize| (length.abs_diff(hypothesis.len()), length);
        self.hypothesis_len += hypothesis.len();
        self.reference_len += references.iter().map(Vec::len).min_by_key(|&length| away(length)).unwrap_or(0);
        for order in 1..=ORDER {
            let mut most: BTreeMap<&[String], u64> = BTreeMap::new();
            for reference in &references {
                for (ngram, count) in ngrams(reference, order) {
                    let most = most.entry(ngram).or_default();
                    *most = count.max(*most);
                }
            }
            for (ngram, count) in ngrams(&hypothesis, order) {
                self.total[order - 1] += count;
                self.correct[order - 1] += most.get(ngram).map_or(0, |&most| count.min(most));
            }
        }
    }

    fn bleu(&self, orders: Orders) -> Bleu {
        let (c, r) = (self.hypothesis_len as f64, self.reference_len as f64);
        let brevity_penalty = if self.hypothesis_len >= self.reference_len {
            1.0
        } else if self.hypothesis_len == 0 {
            0.0
        } else {
            (1.0 - r / c).exp()
        };
        let mut precisions = [0.0; ORDER];
        let mut score = 0.0;
        if self.correct.iter().any(|&correct| correct > 0) {
            let possible = self.total.iter().take_while(|&&total| total > 0).count();
            let mut smoothing = 1.0;
            for (n, precision) in precisions.iter_mut().enumerate().take(possible) {
                let total = self.total[n] as f64;
                *precision = if self.correct[n] > 0 {
                    100.0 * self.correct[n] as f64 / total
                } else {
                    smoothing *= 2.0;
                    100.0 / (smoothing * total)
                };
            }
            let counted = if orders == Orders::Effective { possible } else { ORDER };
            let log = |p: &f64| if *p == 0.0 { LOG_ZERO } else { p.ln() };
            let logs: f64 = precisions[..counted].iter().map(log).sum();
            score = brevity_penalty * (logs / counted as f64).exp();
        }
        let (hypothesis_len, reference_len) = (self.hypothesis_len, self.reference_len);
        Bleu { score, precisions, brevity_penalty, hypothesis_len, reference_len }
    }
}

fn ngrams(tokens: &[String], order: usize) -> BTreeMap<&[String], u64> {
    let mut counts = BTreeMap::new();
    for ngram in tokens.windows(order) {
        *counts.entry(ngram).or_default() += 1;
    }
    counts
}

/// Tokenises like the NIST script `mteval-v13a`: four rewriting passes in this order, each from left to right and without
/// rewriting its own output.
fn tokens(text: &str) -> Vec<String> {
    let mut text = text.trim_end_matches(is_space).replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
    // In this order: `&amp;lt;` becomes `<`.
    for (entity, character) in [("&quot;", "\""), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")] {
        text = text.replace(entity, character);
    }
    let mut spaced = String::with_capacity(2 * text.len() + 2);
    for c in format!(" {text} ").chars() {
        if matches!(c, '{'..='~' | '['..='`' | ' '..='&' | '('..='+' | ':'..='@' | '/') {
            spaced.extend([' ', c, ' ']);
        } else {
            spaced.push(c);
        }
    }
    let point = |c: char| matches!(c, '.' | ',');
    let digit = |c: char| c.is_ascii_digit();
    let apart = rewrite(&spaced, |a, b| !digit(a) && point(b), |a, b, out| out.extend([a, ' ', b, ' ']));
    let apart = rewrite(&apart, |a, b| point(a) && !digit(b), |a, b, out| out.extend([' ', a, ' ', b]));
    let apart = rewrite(&apart, |a, b| digit(a) && b == '-', |a, b, out| out.extend([a, ' ', b, ' ']));
    apart.split(is_space).filter(|token| !token.is_empty()).map(str::to_owned).collect()
}

/// Replaces every pair of neighbouring characters for which `is` holds; pairs do not overlap.
fn rewrite(text: &str, is: impl Fn(char, char) -> bool, write: impl Fn(char, char, &mut String)) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    let mut rest = text.chars().peekable();
    while let Some(a) = rest.next() {
        match rest.next_if(|&b| is(a, b)) {
            Some(b) => write(a, b, &mut out),
            None => out.push(a),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn numbers_stay_whole_and_punctuation_is_split_off() {
        let expected = ["\"", "1,234.5", "-", "6", "\"", ",", "l'an", "(", "ok", ")", "."];
        assert_eq!(tokens("&quot;1,234.5-6\", l'an (ok).\n"), expected);
        assert_eq!(tokens("a...b"), ["a", ".", ".", ".", "b"]);
        assert_eq!(tokens("well-known 3.14."), ["well-known", "3.14", "."]);
    }

    #[test]
    fn empty_texts_score_zero() {
        assert_eq!(bleu(&[], &[]).score, 0.0);
        assert_eq!(bleu(&strings(&["a b c d"]), &[vec![]]).score, 0.0);
        let empty = bleu(&strings(&[""]), &[strings(&["a b c d"])]);
        assert_eq!((empty.score, empty.brevity_penalty, empty.reference_len), (0.0, 0.0, 4));
    }

    #[test]
    fn a_short_sentence_scores_as_a_sentence_but_not_as_a_corpus() {
        let (hypothesis, references) = ("Va !", strings(&["Va !"]));
        assert!((sentence_bleu(hypothesis, &references).score - 100.0).abs() < 1e-9);
        assert_eq!(bleu(&strings(&[hypothesis]), &[references]).score, 0.0);
    }

    proptest! {
        #[test]
        fn scores_are_within_bounds_and_full_for_identical_texts(texts in prop::collection::vec("[a-c ,.19-]{0,30}", 1..6)) {
            let shifted: Vec<Vec<String>> =
                (0..texts.len()).map(|i| vec![texts[(i + 1) % texts.len()].clone()]).collect();
            let score = bleu(&texts, &shifted).score;
            prop_assert!((0.0..=100.0 + 1e-9).contains(&score));
            let own: Vec<Vec<String>> = texts.iter().map(|text| vec![text.clone()]).collect();
            let score = bleu(&texts, &own);
            prop_assert!(score.precisions[3] == 0.0 || (score.score - 100.0).abs() < 1e-9);
        }

        #[test]
        fn another_reference_never_lowers_the_precision(
            texts in prop::collection::vec("[a-c ]{0,30}", 3),
        ) {
            let one = sentence_bleu(&texts[0], &texts[1..2]).precisions[0];
            let two = sentence_bleu(&texts[0], &texts[1..]).precisions[0];
            prop_assert!(two >= one);
        }
    }
}
