//! Metrics of all tasks, each defined as in the tool that is usually used to report it.
//!
//! | metric | module | reference |
//! |---|---|---|
//! | BLEU, chrF, chrF++ | [`bleu`](mod@bleu), [`chrf`](mod@chrf) | sacrebleu's defaults |
//! | accuracy, precision, recall, F1 of classes | [`classes`] | scikit-learn, `zero_division=0` |
//! | the same for several labels per example | [`label_sets`](mod@label_sets) | scikit-learn |
//! | errors and correlation of numbers | [`regression`](mod@regression) | scikit-learn |
//! | F1 of spans in BIO tags | [`spans`] | conlleval |
//! | character error rate | [`edits`] | the formula |
//! | perplexity, bits per character, exact matches | [`text`] | the formulas |
//!
//! BLEU and chrF are in percent, as usual; all other scores are fractions of 1. This module uses no tensors and no files.
//! Functions of two lists panic if their lengths differ, which is a mistake of the caller and never of a user.

pub mod bleu;
pub mod chrf;
pub mod classes;
pub mod edits;
pub mod label_sets;
pub mod regression;
pub mod score;
pub mod spans;
pub mod tables;
pub mod text;

#[cfg(test)]
mod golden;

pub use bleu::{Bleu, bleu, sentence_bleu};
pub use chrf::{ChrfOptions, chrf, sentence_chrf};
pub use classes::{ClassReport, Confusion};
pub use edits::character_error_rate;
pub use label_sets::{LabelSetScores, label_sets};
pub use regression::{Regression, regression};
pub use score::Score;
pub use spans::{Span, SpanScores, is_bio, span_scores};
pub use text::{TextLoss, exact_match};

/// Returns whether Python's `split`, which sacrebleu uses, splits at this character: white space or one of four separators.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}
