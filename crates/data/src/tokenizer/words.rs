//! Cuts text into words and punctuation, such that decoding restores the sentence.
//!
//! A word has no white space, so that it is the same token everywhere; a punctuation mark keeps the space before and after
//! it, if there is one. Decoding puts a space between two words and nothing between other pieces. An elision (`l'`) is
//! joined to the next word and a contraction (`'t`) to the previous one.

use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence;
use tokenizers::normalizers::replace::{Replace, ReplacePattern};
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{DecoderWrapper, SplitDelimiterBehavior};

/// Pattern of an elision, a contraction, a word or a punctuation mark; only white space between words does not match. Both
/// regular-expression engines of the library support these look-arounds and classes.
const PIECE: &str = concat!(
    r"(?<![\p{Alphabetic}\p{N}\p{M}])(?:[CDJLMNSTcdjlmnst]|\p{Alphabetic}{0,6}[Qq][Uu])['’](?=\p{Alphabetic})",
    r"|(?<=[\p{Alphabetic}\p{M}])['’]\p{Alphabetic}[\p{Alphabetic}\p{N}\p{M}]*",
    r"|[\p{Alphabetic}\p{N}\p{M}]+",
    r"|\s?[^\s\p{Alphabetic}\p{N}\p{M}]\s?",
);

/// A code point that is not a character; marks the start of a word.
const MARK: &str = "\u{fdd0}";

/// Cuts a text into pieces.
pub(super) fn pre_tokenizer() -> tokenizers::Result<Split> {
    Split::new(SplitPattern::Regex(PIECE.into()), SplitDelimiterBehavior::Removed, true)
}

/// Joins the pieces: each word gets a mark, and a mark after another word becomes a space.
pub(super) fn decoder() -> tokenizers::Result<Sequence> {
    let replace = |pattern: String, content: &str| -> tokenizers::Result<DecoderWrapper> {
        Ok(Replace::new(ReplacePattern::Regex(pattern), content)?.into())
    };
    Ok(Sequence::new(vec![
        replace(r"^(?=[\p{Alphabetic}\p{N}\p{M}])".into(), MARK)?,
        Fuse::default().into(),
        replace(format!(r"(?<=[\p{{Alphabetic}}\p{{N}}\p{{M}}]){MARK}"), " ")?,
        replace(MARK.into(), "")?,
    ]))
}
