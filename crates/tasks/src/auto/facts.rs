//! Facts about the data of a run, by which settings are chosen.

use std::collections::{BTreeMap, HashMap};

use regard_data::{Splits, lacks_spaces};

use super::explained::explained;
use crate::survey::{RawExample, RawInput};

/// The size and the kind of a data set. All counts are of the training split unless their name says otherwise.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Facts {
    /// Number of examples, or of lines of plain text.
    pub examples: usize,
    /// Number of examples of the dev split.
    pub dev: usize,
    /// Number of words of the inputs.
    pub words: usize,
    /// Number of characters of the inputs.
    pub characters: usize,
    /// Number of distinct words of the inputs.
    pub distinct: usize,
    /// Number of words that the inputs have once.
    pub once: usize,
    /// Number of words of the answers, if they are texts.
    pub answer_words: usize,
    /// Number of characters of the answers, if they are texts.
    pub answer_characters: usize,
    /// Whether spaces separate the words.
    pub is_spaced: bool,
    /// Number of vectors of the inputs, or of frames of sounds.
    pub vectors: usize,
    /// Share of the variance of the inputs' mean vectors that their labels explain; `None` without labels.
    pub placed: Option<f64>,
    /// Share of the variance of the inputs' sizes, their largest deviations from the mean, that their labels explain.
    pub sized: Option<f64>,
    /// Number of pixels of a picture, all channels together.
    pub pixels: usize,
    /// Number of seconds of sound.
    pub seconds: f64,
    /// Number of nodes of a graph.
    pub nodes: usize,
    /// Number of edges of a graph.
    pub edges: usize,
    /// Number of examples, or of words, with each label.
    pub labels: BTreeMap<String, usize>,
}

impl Facts {
    /// Counts the examples of a data set.
    pub(crate) fn of(splits: &Splits<RawExample>) -> Self {
        let mut facts = Self { examples: splits.train.len(), dev: splits.dev.len(), ..Self::default() };
        let mut words: HashMap<String, usize> = HashMap::new();
        for RawExample { input, answer, labels } in &splits.train {
            match input {
                RawInput::Text(text) => {
                    facts.characters += text.chars().count();
                    for word in text.split_whitespace() {
                        facts.words += 1;
                        *words.entry(bare(word)).or_default() += 1;
                    }
                }
                RawInput::Vectors { length, .. } => facts.vectors += length,
                RawInput::Picture { pixels, .. } => facts.pixels = facts.pixels.max(*pixels),
                RawInput::Sound { seconds, .. } => facts.seconds += seconds,
                RawInput::Node { graph, .. } => (facts.nodes, facts.edges) = *graph,
            }
            if labels.is_empty() {
                facts.answer_words += answer.split_whitespace().count();
                facts.answer_characters += answer.chars().count();
            }
            for label in labels {
                *facts.labels.entry(label.clone()).or_default() += 1;
            }
        }
        facts.distinct = words.len();
        facts.once = words.values().filter(|count| **count == 1).count();
        let texts = splits.train.iter().filter_map(|example| match &example.input {
            RawInput::Text(text) => Some(text.as_str()),
            _ => None,
        });
        facts.is_spaced = !lacks_spaces(texts);
        let vectors = || {
            splits.train.iter().filter_map(|example| match (&example.input, &example.labels[..]) {
                (RawInput::Vectors { mean, size, .. }, [label]) => Some((label.as_str(), &mean[..], size)),
                _ => None,
            })
        };
        facts.placed = explained(vectors().map(|(label, mean, _)| (label, mean)));
        facts.sized = explained(vectors().map(|(label, _, size)| (label, std::slice::from_ref(size))));
        facts
    }

    /// Probability that the next word of such a text is new, as Good and Turing estimate it: the share of words that occur once.
    pub fn new_words(&self) -> f64 {
        self.once as f64 / self.words.max(1) as f64
    }

    /// Mean number of words of an input.
    pub fn mean_words(&self) -> f64 {
        self.words as f64 / self.examples.max(1) as f64
    }

    /// Mean number of examples, or of words, for each label, rounded.
    pub fn per_label(&self) -> usize {
        self.labels.values().sum::<usize>().div_ceil(self.labels.len().max(1))
    }

    /// Says how many words of new text will be unknown: `6 % of the words of new text will be unknown`.
    pub(crate) fn news(&self) -> String {
        let percent = 100.0 * self.new_words();
        let share = if percent < 1.0 { "less than 1".to_string() } else { format!("{percent:.0}") };
        format!("{share} % of the words of new text will be unknown")
    }
}

/// A word in lower case without the punctuation around it, or all of it if it is punctuation.
fn bare(word: &str) -> String {
    let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
    if bare.is_empty() { word.to_string() } else { bare.to_lowercase() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_labels_are_counted() {
        let example = |text: &str, answer: &str, labels: &[&str]| RawExample {
            input: RawInput::Text(text.to_string()),
            answer: answer.to_string(),
            labels: labels.iter().map(|label| label.to_string()).collect(),
        };
        let train = vec![example("The cat, the dog.", "x", &["x"]), example("a DOG", "y", &["y"])];
        let facts = Facts::of(&Splits::new(train, vec![example("b", "x", &["x"])], Vec::new()));
        assert_eq!((facts.examples, facts.dev, facts.words, facts.distinct, facts.once), (2, 1, 6, 4, 2));
        assert_eq!((facts.labels.len(), facts.answer_words, facts.is_spaced), (2, 0, true));
        assert_eq!((facts.new_words(), facts.mean_words(), facts.per_label()), (2.0 / 6.0, 3.0, 1));
        let facts = Facts::of(&Splits::new(vec![example("one two", "un deux", &[])], Vec::new(), Vec::new()));
        assert_eq!((facts.answer_words, facts.answer_characters, facts.labels.len()), (2, 7, 0));
    }

    #[test]
    fn labels_explain_where_vectors_lie_and_how_large_they_are() {
        let example = |mean: f32, size: f32, label: &str| RawExample {
            input: RawInput::Vectors { shown: String::new(), hash: 0, length: 9, mean: vec![mean], size },
            answer: label.to_string(),
            labels: vec![label.to_string()],
        };
        let train =
            vec![example(1.0, 1.0, "x"), example(2.0, 1.0, "x"), example(1.0, 3.0, "y"), example(2.0, 3.0, "y")];
        let facts = Facts::of(&Splits::new(train, Vec::new(), Vec::new()));
        assert_eq!((facts.placed, facts.sized, facts.vectors), (Some(0.0), Some(1.0), 36));
    }

    #[test]
    fn no_examples_give_finite_numbers() {
        let facts = Facts::of(&Splits::new(Vec::new(), Vec::new(), Vec::new()));
        assert!([facts.new_words(), facts.mean_words()].iter().all(|value| value.is_finite()));
    }
}
