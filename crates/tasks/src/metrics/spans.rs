//! F1 of spans in BIO tags: `B-X` begins a span of kind X, `I-X` continues it, anything else is outside.
//!
//! Like CoNLL's script `conlleval`, this starts a span at an `I-X` that does not continue one of kind X.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::score::Score;

/// The span of tokens `start..end`, and its kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span<'a> {
    /// Index of the first token.
    pub start: usize,
    /// Index after the last token.
    pub end: usize,
    /// Kind of the span, the text after `B-` or `I-`.
    pub kind: &'a str,
}

/// Scores of spans, which are correct if both ends and the kind are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpanScores {
    /// Scores over all kinds (micro average).
    pub all: Score,
    /// Scores by kind, for all kinds that are predicted or true.
    pub kinds: BTreeMap<String, Score>,
}

/// Scores the spans in sentences of tags.
///
/// # Panics
/// If the numbers of sentences differ, or the numbers of tags in a sentence.
pub fn span_scores<S: AsRef<str>>(truth: &[Vec<S>], predicted: &[Vec<S>]) -> SpanScores {
    assert_eq!(truth.len(), predicted.len(), "one prediction per sentence");
    let mut counts: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    for (truth, predicted) in truth.iter().zip(predicted) {
        assert_eq!(truth.len(), predicted.len(), "one tag per token");
        let truth: BTreeSet<Span> = spans(truth).into_iter().collect();
        let predicted: BTreeSet<Span> = spans(predicted).into_iter().collect();
        for span in truth.intersection(&predicted) {
            counts.entry(span.kind).or_default()[0] += 1;
        }
        for span in &predicted {
            counts.entry(span.kind).or_default()[1] += 1;
        }
        for span in &truth {
            counts.entry(span.kind).or_default()[2] += 1;
        }
    }
    let sum = |which: usize| counts.values().map(|count| count[which]).sum::<u64>();
    let score = |&[correct, predicted, support]: &[u64; 3]| Score::new(correct, predicted, support);
    SpanScores {
        all: Score::new(sum(0), sum(1), sum(2)),
        kinds: counts.iter().map(|(&kind, count)| (kind.to_owned(), score(count))).collect(),
    }
}

/// Returns the spans of a sentence in order.
pub fn spans<S: AsRef<str>>(tags: &[S]) -> Vec<Span<'_>> {
    let mut spans: Vec<Span> = Vec::new();
    let mut inside = None;
    for (at, tag) in tags.iter().enumerate() {
        let part = part(tag.as_ref());
        match (part, spans.last_mut()) {
            (Some((Part::Next, kind)), Some(last)) if inside == Some(kind) => last.end = at + 1,
            (Some((_, kind)), _) => spans.push(Span { start: at, end: at + 1, kind }),
            (None, _) => {}
        }
        inside = part.map(|(_, kind)| kind);
    }
    spans
}

/// Returns whether a set of tags is in BIO format: each is `O`, `B-X` or `I-X`, and not all are `O`.
pub fn is_bio<'a>(tags: impl IntoIterator<Item = &'a str>) -> bool {
    let mut marks = false;
    for tag in tags {
        if part(tag).is_some() {
            marks = true;
        } else if tag != "O" {
            return false;
        }
    }
    marks
}

#[derive(Clone, Copy)]
enum Part {
    First,
    Next,
}

fn part(tag: &str) -> Option<(Part, &str)> {
    let first = tag.strip_prefix("B-").map(|kind| (Part::First, kind));
    first.or_else(|| tag.strip_prefix("I-").map(|kind| (Part::Next, kind)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found<'a>(tags: &'a [&str]) -> Vec<(usize, usize, &'a str)> {
        spans(tags).into_iter().map(|span| (span.start, span.end, span.kind)).collect()
    }

    #[test]
    fn an_inside_tag_may_begin_a_span() {
        assert_eq!(found(&["O", "I-A", "I-A", "I-B", "B-B", "I-B"]), [(1, 3, "A"), (3, 4, "B"), (4, 6, "B")]);
        assert_eq!(found(&["B-A", "O", "I-A"]), [(0, 1, "A"), (2, 3, "A")]);
        assert_eq!(found(&["B-x-y", "I-x-y", "X"]), [(0, 2, "x-y")]);
        assert_eq!(found(&[]), []);
    }

    #[test]
    fn a_span_is_correct_only_as_a_whole() {
        let scores = span_scores(&[vec!["B-A", "I-A", "B-B"]], &[vec!["B-A", "O", "B-B"]]);
        assert_eq!((scores.all.precision, scores.all.recall), (0.5, 0.5));
        assert_eq!((scores.kinds["A"].f1, scores.kinds["B"].f1), (0.0, 1.0));
    }

    #[test]
    fn parts_of_speech_are_not_bio() {
        assert!(is_bio(["O", "B-PER", "I-PER"]));
        assert!(!is_bio(["NOUN", "B-PER"]));
        assert!(!is_bio(["O"]));
    }

    proptest! {
        #[test]
        fn written_out_and_read_back(lengths in prop::collection::vec((0..3usize, 0..3usize), 0..10)) {
            let (mut tags, mut expected) = (Vec::new(), Vec::new());
            for (outside, length) in lengths {
                tags.extend(vec!["O"; outside]);
                if length > 0 {
                    expected.push((tags.len(), tags.len() + length, "A"));
                    tags.push("B-A");
                    tags.extend(vec!["I-A"; length - 1]);
                }
            }
            prop_assert_eq!(found(&tags), expected);
        }
    }
}
