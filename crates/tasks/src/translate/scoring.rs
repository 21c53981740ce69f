//! The scores of translations.

use super::encoded::Sentence;
use crate::metrics::bleu::bleu;
use crate::metrics::chrf::{ChrfOptions, chrf};
use crate::metrics::text::exact_match;
use crate::task::{Better, Evaluation, Sample};

/// Scores the translations that were found for sentences. `loss` is the mean loss of their references, if there are any, and
/// `longer` has the indices of sentences that are scored once more among themselves.
pub(crate) fn evaluation(sentences: &[&Sentence], found: &[String], loss: Option<f64>, longer: &[usize]) -> Evaluation {
    let references: Vec<Vec<String>> = sentences.iter().map(|sentence| sentence.references.clone()).collect();
    let mut scores: Vec<(&'static str, f64)> = loss.map(|loss| ("loss", loss)).into_iter().collect();
    if !sentences.is_empty() {
        scores.extend([
            ("bleu", bleu(found, &references).score),
            ("chrf", chrf(found, &references, ChrfOptions::default())),
            ("exact", exact_match(found, &references)),
        ]);
    }
    if !longer.is_empty() {
        let found: Vec<String> = longer.iter().map(|&at| found[at].clone()).collect();
        let references: Vec<Vec<String>> = longer.iter().map(|&at| references[at].clone()).collect();
        scores.extend([
            ("bleu_longer", bleu(&found, &references).score),
            ("exact_longer", exact_match(&found, &references)),
        ]);
    }
    Evaluation { examples: sentences.len(), ..Evaluation::new(scores, "chrf", Better::Higher) }
}

/// Returns at most `count` sentences with a reference each, spread over the split, since neighbours are often similar.
pub(crate) fn samples<'a>(sentences: &'a [Sentence], count: usize) -> impl Iterator<Item = Sample> + 'a {
    let step = (sentences.len() / count.max(1)).max(1);
    let sample = |sentence: &Sentence| Sample {
        given: sentence.source.as_str().into(),
        expected: sentence.references.first().cloned().unwrap_or_default(),
    };
    sentences.iter().step_by(step).take(count).map(sample)
}
