//! How good an output is: the scores of every task, each defined as the tool by which it is usually reported.
//!
//! | what | file | as |
//! |---|---|---|
//! | BLEU, chrF, chrF++ | [`bleu`](mod@bleu), [`chrf`](mod@chrf) | sacrebleu's defaults |
//! | accuracy, precision, recall, F1 of classes | [`classes`] | scikit-learn, `zero_division=0` |
//! | the same for several labels an example | [`label_sets`](mod@label_sets) | scikit-learn |
//! | errors and correlation of numbers | [`regression`](mod@regression) | scikit-learn |
//! | F1 of spans in BIO tags | [`spans`] | conlleval |
//! | perplexity, bits a character, exact sentences | [`text`] | the formulas |
//!
//! BLEU and chrF are percent, as everyone reads them; all else is a fraction of 1. Nothing here knows a tensor or a file.
//! Functions over two lists panic where one is longer: that is a mistake of the caller, never of a user.

pub mod bleu;
pub mod chrf;
pub mod classes;
pub mod label_sets;
pub mod regression;
pub mod score;
pub mod spans;
pub mod text;

#[cfg(test)]
mod golden;

pub use bleu::{Bleu, bleu, sentence_bleu};
pub use chrf::{ChrfOptions, chrf, sentence_chrf};
pub use classes::{ClassReport, Confusion};
pub use label_sets::{LabelSetScores, label_sets};
pub use regression::{Regression, regression};
pub use score::Score;
pub use spans::{Span, SpanScores, is_bio, span_scores};
pub use text::{TextLoss, exact_match};

/// Whether Python's `split` cuts here, which is what sacrebleu does: white space and four separators.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}
