//! Words and punctuation, such that a sentence comes back as it was written.
//!
//! A word has no white space, so that it is the same word everywhere; a mark of punctuation keeps the space before and
//! after it, if there is one. Between two words stands a space, between all other pieces nothing. An elision (`l'`)
//! clings to the next word and a contraction (`'t`) to the one before.

use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence;
use tokenizers::normalizers::replace::{Replace, ReplacePattern};
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{DecoderWrapper, SplitDelimiterBehavior};

/// Elision, contraction, word, punctuation; white space between words is what matches none. The look-arounds and
/// classes are those that both regular-expression engines of the library know.
const PIECE: &str = concat!(
    r"(?<![\p{Alphabetic}\p{N}\p{M}])(?:[CDJLMNSTcdjlmnst]|\p{Alphabetic}{0,6}[Qq][Uu])['’](?=\p{Alphabetic})",
    r"|(?<=[\p{Alphabetic}\p{M}])['’]\p{Alphabetic}[\p{Alphabetic}\p{N}\p{M}]*",
    r"|[\p{Alphabetic}\p{N}\p{M}]+",
    r"|\s?[^\s\p{Alphabetic}\p{N}\p{M}]\s?",
);

/// A code point that is no character, to mark where a word begins.
const MARK: &str = "\u{fdd0}";

/// What cuts a text.
pub(super) fn pre_tokenizer() -> tokenizers::Result<Split> {
    Split::new(SplitPattern::Regex(PIECE.into()), SplitDelimiterBehavior::Removed, true)
}

/// What puts it together: each word is marked, and a mark behind a word becomes a space.
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
