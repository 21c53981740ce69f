//! Questions to word vectors: nearest words, the similarity of two words, sums of words, and analogies with known answers.

use burn::tensor::{Device, Tensor, TensorData};
use rayon::prelude::*;
use regard_data::{Case, DataError, excerpt, read_file};
use regard_nn::models::word_vectors::neighbours;
use serde::{Deserialize, Serialize};
use std::path::Path;

use super::lexicon::{Lexicon, plain, words};
use crate::error::TaskError;

/// Number of nearest words in an answer.
pub(super) const SHOWN: usize = 10;
/// Maximum number of scores held in memory at once while analogies are answered.
const TOGETHER: usize = 1 << 22;

/// The vectors of all words: `values` holds one row of `width` numbers per word.
#[derive(Debug)]
pub(super) struct Table {
    pub values: Vec<f32>,
    pub width: usize,
}

/// A question, with words given by their indices.
#[derive(Debug, PartialEq)]
pub(super) enum Question {
    /// `king`: the nearest words.
    Near(usize),
    /// `king queen`: the similarity of two words.
    Pair(usize, usize),
    /// `paris - france + italy` or `france paris italy`: the words nearest to the sum.
    Sum(Vec<(Sign, usize)>),
}

/// Whether a word is added or subtracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Plus,
    Minus,
}

/// Analogies of one kind, each `a b c d`: `a` is to `b` as `c` is to `d`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    pub name: String,
    pub questions: Vec<[String; 4]>,
}

impl Question {
    /// Parses a question.
    pub fn parse(text: &str, case: Case, lexicon: &Lexicon) -> Result<Self, TaskError> {
        let line = plain(text, case);
        let known = |word: &str| known(word, lexicon, text);
        let wrong = || {
            let expected = "a word, two words, three (\"france paris italy\") or a sum (\"paris - france + italy\")";
            TaskError::input(
                format!("input {}", excerpt(text)),
                expected,
                if line.trim().is_empty() { "nothing" } else { "another form" },
            )
        };
        if !line.contains(['+', '-', '−']) {
            let ids = words(&line).map(known).collect::<Result<Vec<usize>, _>>()?;
            return match ids[..] {
                [word] => Ok(Self::Near(word)),
                [one, other] => Ok(Self::Pair(one, other)),
                [a, b, c] => Ok(Self::Sum(vec![(Sign::Plus, b), (Sign::Minus, a), (Sign::Plus, c)])),
                _ => Err(wrong()),
            };
        }
        let mut terms = Vec::new();
        let mut rest = line.trim();
        let mut sign = Some(Sign::Plus);
        while !rest.is_empty() {
            let first = rest.chars().next().unwrap_or_default();
            let found = match first {
                '+' => Some(Sign::Plus),
                '-' | '−' => Some(Sign::Minus),
                _ => None,
            };
            if let Some(found) = found {
                // Only the first word may have a sign in addition to its implicit plus.
                if sign.is_some() && !terms.is_empty() {
                    return Err(wrong());
                }
                (sign, rest) = (Some(found), rest[first.len_utf8()..].trim_start());
                continue;
            }
            let end = rest.find(['+', '-', '−']).unwrap_or(rest.len());
            let mut inside = words(&rest[..end]);
            match (sign.take(), inside.next(), inside.next()) {
                (Some(sign), Some(word), None) => terms.push((sign, known(word)?)),
                _ => return Err(wrong()),
            }
            rest = rest[end..].trim_start();
        }
        match sign.is_none() && !terms.is_empty() {
            true => Ok(Self::Sum(terms)),
            false => Err(wrong()),
        }
    }
}

/// Index of a word of the question `text`. The error for an unknown word suggests known words of similar spelling.
pub(super) fn known(word: &str, lexicon: &Lexicon, text: &str) -> Result<usize, TaskError> {
    lexicon.words.get(word).ok_or_else(|| {
        let close = lexicon.close_spellings(word, 5);
        let hint = match close.is_empty() {
            true => String::new(),
            false => format!("; did you mean {}?", close.join(", ")),
        };
        let got = format!("{}, which is not one of its {} words{hint}", excerpt(word), lexicon.words.len());
        TaskError::input(format!("input {}", excerpt(text)), "words of the training text", got)
    })
}

impl Table {
    /// The vector of a word.
    pub fn row(&self, word: usize) -> &[f32] {
        &self.values[word * self.width..(word + 1) * self.width]
    }

    /// The vector of a word scaled to length 1; a zero vector stays zero.
    pub fn unit(&self, word: usize) -> Vec<f32> {
        let row = self.row(word);
        let norm = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
        row.iter().map(|&x| (f64::from(x) / norm) as f32).collect()
    }

    /// The words nearest to `word`, with their cosines.
    pub fn near(&self, word: usize, count: usize) -> Vec<(usize, f32)> {
        neighbours(&self.values, self.row(word), count, &[word])
    }

    /// The cosine similarity of two words.
    pub fn cosine(&self, one: usize, other: usize) -> f32 {
        self.unit(one).iter().zip(self.unit(other)).map(|(a, b)| a * b).sum()
    }

    /// The words nearest to a sum of unit vectors, without the words of the sum (3CosAdd).
    pub fn sum(&self, terms: &[(Sign, usize)], count: usize) -> Vec<(usize, f32)> {
        let except: Vec<usize> = terms.iter().map(|(_, word)| *word).collect();
        neighbours(&self.values, &self.query(terms), count, &except)
    }

    fn query(&self, terms: &[(Sign, usize)]) -> Vec<f32> {
        let mut query = vec![0.0; self.width];
        for &(sign, word) in terms {
            for (sum, x) in query.iter_mut().zip(self.unit(word)) {
                match sign {
                    Sign::Plus => *sum += x,
                    Sign::Minus => *sum -= x,
                }
            }
        }
        query
    }

    /// Whether the answer to each analogy is its fourth word.
    pub fn answers(&self, questions: &[[usize; 4]], device: &Device) -> Vec<bool> {
        let vocab = self.values.len() / self.width;
        let units: Vec<f32> = (0..vocab).into_par_iter().flat_map_iter(|word| self.unit(word)).collect();
        let units = Tensor::<2>::from_data(TensorData::new(units, [vocab, self.width]), device).transpose();
        let mut right = Vec::with_capacity(questions.len());
        for some in questions.chunks((TOGETHER / vocab).max(1)) {
            let terms = |&[a, b, c, _]: &[usize; 4]| [(Sign::Plus, b), (Sign::Minus, a), (Sign::Plus, c)];
            let queries: Vec<f32> = some.iter().flat_map(|question| self.query(&terms(question))).collect();
            let queries = Tensor::<2>::from_data(TensorData::new(queries, [some.len(), self.width]), device);
            let scores: Vec<f32> = queries.matmul(units.clone()).into_data().iter::<f32>().collect();
            let best = scores.par_chunks_exact(vocab).zip(some).map(|(scores, &[a, b, c, d])| {
                let others = scores.iter().enumerate().filter(|(word, _)| ![a, b, c].contains(word));
                let best = others.fold(None, |best: Option<(usize, f32)>, (word, &score)| match best {
                    Some((_, most)) if score <= most => best,
                    _ => Some((word, score)),
                });
                best.is_some_and(|(word, _)| word == d)
            });
            right.extend(best.collect::<Vec<bool>>());
        }
        right
    }
}

/// Reads analogies from a file: four words per line, with a line `: name` before each kind.
pub(super) fn read_analogies(path: &Path) -> Result<Vec<Section>, TaskError> {
    let file = read_file(path)?;
    let mut sections: Vec<Section> = Vec::new();
    for (number, line) in file.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix(':') {
            sections.push(Section { name: name.trim().to_string(), questions: Vec::new() });
            continue;
        }
        let found: Vec<&str> = line.split_whitespace().collect();
        let question = match found[..] {
            [] => continue,
            [a, b, c, d] => [a, b, c, d].map(str::to_string),
            _ => {
                let (expected, found) = ("four words or `: name`".to_string(), format!("{} words", found.len()));
                return Err(DataError::Line { path: path.to_path_buf(), line: number, expected, found }.into());
            }
        };
        if sections.is_empty() {
            sections.push(Section { name: String::new(), questions: Vec::new() });
        }
        if let Some(section) = sections.last_mut() {
            section.questions.push(question);
        }
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lexicon() -> Lexicon {
        Lexicon::of("france paris italy rome king queen", 1, 100).unwrap()
    }

    #[test]
    fn questions_are_parsed() {
        let lexicon = lexicon();
        let id = |word: &str| lexicon.words.get(word).unwrap();
        let parse = |text: &str| Question::parse(text, Case::Lower, &lexicon);
        assert_eq!(parse(" King ").unwrap(), Question::Near(id("king")));
        assert_eq!(parse("king, queen").unwrap(), Question::Pair(id("king"), id("queen")));
        let sum =
            Question::Sum(vec![(Sign::Plus, id("paris")), (Sign::Minus, id("france")), (Sign::Plus, id("italy"))]);
        for text in ["france paris italy", "Paris - France + Italy", "paris−france+italy", "+ paris - france + italy"]
        {
            assert_eq!(parse(text).unwrap(), sum, "{text}");
        }
        for text in ["", "  ", "...", "king queen paris rome", "king +", "king + - queen", "king queen + rome", "+"] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains("paris - france + italy"), "{text}: {error}");
        }
        let error = parse("pairs").unwrap_err().to_string();
        assert!(error.contains("\"pairs\"") && error.contains("6 words; did you mean paris?"), "{error}");
        assert!(!parse("zzz").unwrap_err().to_string().contains("did you mean"));
    }

    #[test]
    fn sums_and_analogies_agree() {
        // In two dimensions: a capital is its country plus a step upwards.
        let values = vec![1.0, 0.0, 1.0, 1.0, -1.0, 0.1, -0.9, 1.2, 0.0, -2.0, 0.0, 0.0];
        let table = Table { values, width: 2 };
        let [a, b, c, d] = [0, 1, 2, 3];
        assert_eq!(table.sum(&[(Sign::Plus, b), (Sign::Minus, a), (Sign::Plus, c)], 1)[0].0, d);
        assert_eq!(table.answers(&[[a, b, c, d], [a, b, c, 4]], &Device::flex()), [true, false]);
        assert!((table.cosine(0, 1) - 0.5f32.sqrt()).abs() < 1e-6);
        assert_eq!(table.near(0, 1)[0].0, 1);
        assert_eq!(table.unit(5), [0.0, 0.0]);
    }

    #[test]
    fn files_of_analogies_have_sections() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.txt");
        std::fs::write(&path, ": capitals\nAthens Greece Oslo Norway\n\n: family\nboy girl king queen\n").unwrap();
        let sections = read_analogies(&path).unwrap();
        let names: Vec<&str> = sections.iter().map(|section| section.name.as_str()).collect();
        assert_eq!((names, sections[1].questions[0][3].as_str()), (vec!["capitals", "family"], "queen"));
        std::fs::write(&path, "boy girl king queen\nboy girl king\n").unwrap();
        let error = read_analogies(&path).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("3 words"), "{error}");
    }
}
