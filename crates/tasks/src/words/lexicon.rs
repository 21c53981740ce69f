//! Splitting of text into words and passages, and the vocabulary of words that have vectors.

use std::collections::{BTreeMap, HashMap};

use regard_data::{Case, Vocabulary, lacks_spaces};
use serde::{Deserialize, Serialize};

use crate::error::TaskError;

/// Maximum words of a passage. Longer ones are split, so that batches mix distant places of a long text.
const LONGEST: usize = 256;

/// The words that have vectors, the most frequent first, and the number of times each occurs in training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lexicon {
    pub words: Vocabulary,
    pub counts: Vec<u64>,
}

/// A text as passages of known words; unknown words are left out, as in the paper. Windows do not cross passages.
#[derive(Debug, Default)]
pub struct Part {
    ids: Vec<u32>,
    /// End of each passage in `ids`.
    ends: Vec<usize>,
}

impl Lexicon {
    /// Collects the words that occur at least `min_count` times, but at most the `most` most frequent ones.
    pub fn of(text: &str, min_count: usize, most: usize) -> Result<Self, TaskError> {
        let mut counts: HashMap<&str, u64> = HashMap::new();
        let mut all = 0u64;
        for word in words(text) {
            *counts.entry(word).or_default() += 1;
            all += 1;
        }
        let distinct = counts.len();
        let sorted: BTreeMap<String, u64> = counts.iter().map(|(word, count)| (word.to_string(), *count)).collect();
        let mut names: Vec<String> = Vocabulary::from_counts(sorted, &[], min_count).into();
        names.truncate(most);
        if names.len() < 2 {
            let expected = format!("at least 2 words that occur {min_count} times or more (data.min_count)");
            let cut = if lacks_spaces([text]) {
                "; the text has no spaces between words: split it into words first"
            } else {
                ""
            };
            let got = format!("{} in a text of {all} words, {distinct} of them distinct{cut}", names.len());
            return Err(TaskError::input("training text", expected, got));
        }
        let counts = names.iter().map(|name| counts.get(name.as_str()).copied().unwrap_or_default()).collect();
        Ok(Self { words: Vocabulary::from_names(names)?, counts })
    }

    /// Encodes a text. Empty lines separate passages; in a text without empty lines, each line is a passage.
    pub fn part(&self, text: &str) -> Part {
        let empty = |line: &str| line.trim().is_empty();
        let by_line = !text.trim().lines().any(empty);
        let mut part = Part::default();
        for line in text.lines() {
            if by_line || empty(line) {
                part.end();
            }
            for id in words(line).filter_map(|word| self.words.get(word)) {
                part.push(id as u32);
            }
        }
        part.end();
        part
    }

    /// Known words of similar spelling, the most similar first.
    pub fn close_spellings(&self, word: &str, most: usize) -> Vec<&str> {
        let limit = (word.chars().count() / 3).clamp(1, 2);
        let names = self.words.names().iter();
        let far = names.filter_map(|name| Some((distance(name, word)?, name.as_str())));
        let mut found: Vec<(usize, &str)> = far.filter(|(far, _)| *far <= limit).collect();
        // The sort is stable, so the more frequent of two equally similar words stays first.
        found.sort_by_key(|(far, _)| *far);
        found.into_iter().take(most).map(|(_, name)| name).collect()
    }
}

impl Part {
    /// Number of passages.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The words of a passage.
    pub fn passage(&self, index: usize) -> &[u32] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.ids[start..self.ends[index]]
    }

    /// Number of words of all passages.
    pub fn words(&self) -> usize {
        self.ends.last().copied().unwrap_or_default()
    }

    fn start(&self) -> usize {
        self.ends.last().copied().unwrap_or_default()
    }

    fn push(&mut self, id: u32) {
        self.ids.push(id);
        if self.ids.len() - self.start() == LONGEST {
            self.end();
        }
    }

    /// Ends a passage, and drops it if it has only one word, which has no neighbours.
    fn end(&mut self) {
        match self.ids.len() - self.start() {
            0 | 1 => self.ids.truncate(self.start()),
            _ => self.ends.push(self.ids.len()),
        }
    }
}

/// Normalises a text for looking up its words: one kind of apostrophe, and lower case unless `case` keeps capitals.
pub(super) fn plain(text: &str, case: Case) -> String {
    let text = text.replace('’', "'");
    match case {
        Case::Keep => text,
        Case::Lower => text.to_lowercase(),
    }
}

/// Splits a text into words: runs of letters, digits and combining marks, with apostrophes inside.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let part = |c: char| c.is_alphanumeric() || c == '\'' || ('\u{300}'..='\u{36f}').contains(&c);
    text.split(move |c: char| !part(c)).map(|word| word.trim_matches('\'')).filter(|word| !word.is_empty())
}

/// Edit distance: letters to change, insert, delete or swap with the next one; `None` if the lengths differ by more than 2.
fn distance(a: &str, b: &str) -> Option<usize> {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > 2 {
        return None;
    }
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let changed = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = changed.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        (before, last) = (last, row);
    }
    last.last().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_runs_of_letters() {
        let text = plain("Don’t stop, l'été — 'quoted' x2!", Case::Lower);
        assert_eq!(words(&text).collect::<Vec<_>>(), ["don't", "stop", "l'été", "quoted", "x2"]);
        assert_eq!(words("… -- '").count(), 0);
    }

    #[test]
    fn text_without_spaces_must_be_split_first() {
        let refused = |text: &str| Lexicon::of(text, 5, 10).unwrap_err().to_string();
        assert!(refused("这部电影很好，我非常喜欢。").contains("split it into words first"));
        assert!(!refused("a film").contains("split"));
    }

    #[test]
    fn frequent_words_come_first_and_rare_ones_are_left_out() {
        let lexicon = Lexicon::of("b a b c a b", 2, 10).unwrap();
        assert_eq!((lexicon.words.names(), &lexicon.counts[..]), (&["b".to_string(), "a".into()][..], &[3, 2][..]));
        assert_eq!(Lexicon::of("b a b c a b c", 2, 2).unwrap().words.len(), 2);
        let error = Lexicon::of("a b c a", 2, 10).unwrap_err().to_string();
        assert!(error.contains("data.min_count") && error.contains("3 of them distinct"), "{error}");
    }

    #[test]
    fn passages_end_at_empty_lines_or_at_each_line() {
        let lexicon = Lexicon::of("a b c", 1, 10).unwrap();
        let passages = |text: &str| {
            let part = lexicon.part(text);
            (0..part.len()).map(|index| part.passage(index).to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(passages("a b\nc\n\n\nb x\nc a\n"), [vec![0, 1, 2], vec![1, 2, 0]]);
        assert_eq!(passages("a b\nc\nb x c\n"), [vec![0, 1], vec![1, 2]]);
        assert_eq!(passages(&"a b ".repeat(LONGEST)).iter().map(Vec::len).collect::<Vec<_>>(), [LONGEST, LONGEST]);
        assert!(passages("x y\n\nz").is_empty());
    }

    #[test]
    fn close_spellings_are_found() {
        let lexicon = Lexicon::of("king kind queen kin walked walk a", 1, 10).unwrap();
        assert_eq!(distance("kign", "king"), Some(1));
        assert_eq!(distance("king", "kings"), Some(1));
        assert_eq!(distance("abc", "xyz"), Some(3));
        assert_eq!(distance("", "abc"), None);
        assert_eq!(lexicon.close_spellings("kign", 3), ["kin", "king"]);
        assert_eq!(lexicon.close_spellings("walkde", 3), ["walked", "walk"]);
        assert!(lexicon.close_spellings("zebra", 3).is_empty());
    }
}
