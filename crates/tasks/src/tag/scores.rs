//! Scores of tags, and the tables and figures that the report shows beside them.

use regard_data::Vocabulary;

use super::encoded::{Encoded, UNKNOWN};
use crate::error::TaskError;
use crate::metrics::tables::{confusion_figure, score_table};
use crate::metrics::{Confusion, is_bio, span_scores};
use crate::task::{Better, Evaluation};

/// The correct and the predicted tags of a split.
#[derive(Debug)]
pub(crate) struct Outcome<'a> {
    pub sentences: &'a [Encoded],
    /// Predicted tags of each sentence.
    pub found: Vec<Vec<usize>>,
    /// Mean negative log-likelihood of the correct tags, without those unseen in training.
    pub loss: Option<f64>,
}

/// Scores a split. `extra` are tags unseen in training; sentences of more than `longest` words are also scored separately.
pub(crate) fn evaluation(
    outcome: &Outcome,
    labels: &Vocabulary,
    extra: &[String],
    longest: Option<usize>,
) -> Result<Evaluation, TaskError> {
    let bio = is_bio(labels.names().iter().map(String::as_str));
    let main = if bio { "f1" } else { "accuracy" };
    if outcome.sentences.is_empty() {
        return Ok(Evaluation::new([], main, Better::Higher));
    }
    let names: Vec<&str> = labels.names().iter().chain(extra).map(String::as_str).collect();
    let all: Vec<usize> = (0..outcome.sentences.len()).collect();
    let confusion = confusion(outcome, &all, names.len());
    let mut scores: Vec<(&'static str, f64)> = vec![("accuracy", confusion.accuracy())];
    scores.extend(outcome.loss.map(|loss| ("loss", loss)));
    scores.extend(unknown_accuracy(outcome).map(|accuracy| ("accuracy_unknown", accuracy)));
    let mut contents = Vec::new();
    if bio {
        let spans = span_scores(&truth(outcome, &all, &names), &predicted(outcome, &all, &names));
        scores.extend([("precision", spans.all.precision), ("recall", spans.all.recall), ("f1", spans.all.f1)]);
        let rows = spans.kinds.iter().map(|(kind, score)| (kind.as_str(), *score));
        contents.push(score_table("span", rows));
    }
    let longer: Vec<usize> = match longest {
        Some(longest) => all.into_iter().filter(|&at| outcome.sentences[at].tokens.len() > longest).collect(),
        None => Vec::new(),
    };
    if !longer.is_empty() {
        scores.push(("accuracy_longer", self::confusion(outcome, &longer, names.len()).accuracy()));
        if bio {
            let spans = span_scores(&truth(outcome, &longer, &names), &predicted(outcome, &longer, &names));
            scores.push(("f1_longer", spans.all.f1));
        }
    }
    let report = confusion.report();
    contents.push(score_table("tag", names.iter().copied().zip(report.classes)));
    contents.push(confusion_figure("tags", &confusion, &names)?);
    let examples = outcome.sentences.len();
    Ok(Evaluation { examples, contents, ..Evaluation::new(scores, main, Better::Higher) })
}

fn confusion(outcome: &Outcome, which: &[usize], tags: usize) -> Confusion {
    let mut confusion = Confusion::new(tags);
    for &at in which {
        for (&right, &found) in outcome.sentences[at].tags.iter().zip(&outcome.found[at]) {
            confusion.add(right, found);
        }
    }
    confusion
}

fn truth<'n>(outcome: &Outcome, which: &[usize], names: &[&'n str]) -> Vec<Vec<&'n str>> {
    which.iter().map(|&at| outcome.sentences[at].tags.iter().map(|&tag| names[tag]).collect()).collect()
}

fn predicted<'n>(outcome: &Outcome, which: &[usize], names: &[&'n str]) -> Vec<Vec<&'n str>> {
    which.iter().map(|&at| outcome.found[at].iter().map(|&tag| names[tag]).collect()).collect()
}

/// Accuracy on unknown words, if there are any.
fn unknown_accuracy(outcome: &Outcome) -> Option<f64> {
    let (mut right, mut all) = (0u64, 0u64);
    for (sentence, found) in outcome.sentences.iter().zip(&outcome.found) {
        let words = sentence.words.iter().zip(sentence.tags.iter().zip(found));
        for (_, (tag, found)) in words.filter(|(word, _)| **word == UNKNOWN) {
            all += 1;
            right += u64::from(tag == found);
        }
    }
    (all > 0).then(|| right as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(tags: &[usize], words: &[u32]) -> Encoded {
        let tokens = tags.iter().map(|tag| format!("w{tag}")).collect();
        Encoded { tokens, words: words.to_vec(), tags: tags.to_vec(), pieces: None }
    }

    fn labels(names: &[&str]) -> Vocabulary {
        Vocabulary::from_names(names.iter().map(|name| name.to_string()).collect()).unwrap()
    }

    #[test]
    fn unknown_words_long_sentences_and_unseen_tags_are_scored_separately() {
        let sentences = [sentence(&[0, 1, 2], &[5, 1, 1]), sentence(&[0], &[7])];
        let outcome = Outcome { sentences: &sentences, found: vec![vec![0, 1, 0], vec![1]], loss: Some(0.5) };
        let found = evaluation(&outcome, &labels(&["DET", "NOUN"]), &["X".to_string()], Some(2)).unwrap();
        assert_eq!(found.scores["accuracy"], 0.5);
        assert_eq!(found.scores["accuracy_unknown"], 0.5, "of the two words numbered 1, one is right");
        assert!((found.scores["accuracy_longer"] - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!((found.scores["loss"], found.main, found.examples), (0.5, "accuracy", 2));
        assert!(!found.scores.contains_key("f1"));
        assert_eq!(found.contents.len(), 2);
    }

    #[test]
    fn an_empty_split_has_no_scores() {
        let outcome = Outcome { sentences: &[], found: Vec::new(), loss: None };
        let found = evaluation(&outcome, &labels(&["DET", "NOUN"]), &[], None).unwrap();
        assert!(found.scores.is_empty() && found.worth() == f64::NEG_INFINITY);
    }

    #[test]
    fn spans_are_scored_where_tags_mark_them() {
        let sentences = [sentence(&[0, 1, 2, 2], &[5, 5, 5, 5])];
        let names = labels(&["B-A", "I-A", "O"]);
        let outcome = Outcome { sentences: &sentences, found: vec![vec![0, 2, 2, 0]], loss: None };
        let found = evaluation(&outcome, &names, &[], Some(9)).unwrap();
        assert_eq!((found.main, found.scores["f1"], found.scores["recall"]), ("f1", 0.0, 0.0));
        assert_eq!(found.scores["accuracy"], 0.5);
        assert!(!found.scores.contains_key("accuracy_unknown") && !found.scores.contains_key("f1_longer"));
        let outcome = Outcome { sentences: &sentences, found: vec![vec![0, 1, 2, 0]], loss: None };
        let found = evaluation(&outcome, &names, &[], None).unwrap();
        assert_eq!((found.scores["precision"], found.scores["recall"]), (0.5, 1.0));
    }
}
