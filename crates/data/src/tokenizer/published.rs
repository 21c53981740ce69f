//! Tokenisers of published models: any `tokenizer.json` of the `tokenizers` library, with its normaliser, its pre-tokeniser, its
//! added tokens and the special tokens that it puts around a text.

use std::path::Path;

use tokenizers::DecoderWrapper;

use super::foreign::{self, guarded};
use super::{bytes, open_limited};
use crate::DataError;

/// A text encoded by a [`PublishedTokenizer`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishedText {
    /// Numbers of the tokens.
    pub ids: Vec<u32>,
    /// Type of each token: 1 in the second text of a pair, 0 elsewhere.
    pub types: Vec<u32>,
    /// Tokens in readable form.
    pub tokens: Vec<String>,
    /// First byte of each token in its text and the byte after its last; `(0, 0)` for tokens that are not in the text.
    pub offsets: Vec<(usize, usize)>,
    /// Whether each token was put around the text.
    pub is_special: Vec<bool>,
}

/// Which tokens a [`PublishedTokenizer`] puts around a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Around {
    /// The special tokens that the tokeniser's file asks for, such as `[CLS]` and `[SEP]`.
    Special,
    /// None.
    Nothing,
}

/// Tokeniser of a published model.
#[derive(Clone, Debug)]
pub struct PublishedTokenizer {
    inner: tokenizers::Tokenizer,
    truncation: Option<usize>,
    is_byte_level: bool,
    vocab: usize,
}

impl PublishedTokenizer {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// A file that is missing, damaged or too large, or that the library refuses.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        Self::from_json(&open_limited(path)?, path)
    }

    /// Reads the content of a `tokenizer.json`; `path` is for error messages. Padding is ignored, and truncation is only
    /// [reported](Self::truncation).
    ///
    /// # Errors
    /// Content that is damaged or too large, or that the library refuses.
    pub fn from_json(content: &[u8], path: &Path) -> Result<Self, DataError> {
        let read = foreign::read_published(content).map_err(|refused| DataError::Tokenizer {
            path: path.to_path_buf(),
            expected: refused.expected,
            found: refused.found,
        });
        let (inner, truncation) = read?;
        let is_byte_level = matches!(inner.get_decoder(), Some(DecoderWrapper::ByteLevel(_)));
        let vocab = inner.get_vocab(true).into_values().max().map_or(0, |last| last as usize + 1);
        Ok(Self { inner, truncation, is_byte_level, vocab })
    }

    /// Returns the largest number of tokens of a text according to the file's settings of truncation.
    pub fn truncation(&self) -> Option<usize> {
        self.truncation
    }

    /// Returns the largest number of a token plus one.
    pub fn vocab(&self) -> usize {
        self.vocab
    }

    /// Encodes a text.
    ///
    /// # Errors
    /// A text that the library cannot encode, for example because its file has no unknown token.
    pub fn encode(&self, text: &str, around: Around) -> Result<PublishedText, DataError> {
        self.run("encode", || self.inner.encode(text, around == Around::Special)).map(|encoding| self.text(&encoding))
    }

    /// Encodes a text so that it has at most `most` tokens, those around it included: tokens at its end are left out.
    ///
    /// # Errors
    /// The errors of [`encode`](Self::encode).
    pub fn encode_within(&self, text: &str, most: usize) -> Result<PublishedText, DataError> {
        let alone = self.run("encode", || self.inner.encode(text, false))?;
        let around = self.run("encode", || {
            use tokenizers::PostProcessor;
            Ok(self.inner.get_post_processor().map_or(0, |processor| processor.added_tokens(false)))
        })?;
        let mut cut = alone;
        let room = most.saturating_sub(around);
        let encoding = self.run("encode", || {
            if cut.len() > room {
                cut.truncate(room, 0, tokenizers::TruncationDirection::Right);
            }
            self.inner.post_process(cut, None, true)
        })?;
        Ok(self.text(&encoding))
    }

    /// Decodes numbers to text without special tokens.
    ///
    /// # Errors
    /// Numbers that the library cannot decode.
    pub fn decode(&self, ids: &[u32]) -> Result<String, DataError> {
        self.run("decode", || self.inner.decode(ids, true))
    }

    /// Returns the token with a number, in readable form.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id).map(|token| self.readable(&token))
    }

    /// Returns the number of a token, written as in the file.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    fn readable(&self, token: &str) -> String {
        if self.is_byte_level && !self.is_added(token) {
            return bytes::show(&bytes::reveal(token));
        }
        token.replace('\u{2581}', " ")
    }

    fn is_added(&self, token: &str) -> bool {
        let id = self.inner.token_to_id(token);
        id.is_some_and(|id| self.inner.get_added_vocabulary().get_added_tokens_decoder().contains_key(&id))
    }

    fn text(&self, encoding: &tokenizers::Encoding) -> PublishedText {
        PublishedText {
            ids: encoding.get_ids().to_vec(),
            types: encoding.get_type_ids().to_vec(),
            tokens: encoding.get_tokens().iter().map(|token| self.readable(token)).collect(),
            offsets: encoding.get_offsets().to_vec(),
            is_special: encoding.get_special_tokens_mask().iter().map(|&mask| mask == 1).collect(),
        }
    }

    /// Calls the library, which may panic on some texts if its file is odd.
    fn run<T>(&self, what: &'static str, call: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, DataError> {
        let found = guarded(call).and_then(|result| result.map_err(|error| error.to_string()));
        found.map_err(|why| DataError::Setting {
            field: "tokenizer",
            expected: format!("a tokenizer.json that can {what} any text"),
            found: why.replace('\n', " "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden(name: &str) -> PublishedTokenizer {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/hugging_face");
        PublishedTokenizer::open(&folder.join(name).join("tokenizer.json")).unwrap()
    }

    #[test]
    fn word_pieces_have_special_tokens_around_them() {
        let tokenizer = golden("sentences");
        let text = tokenizer.encode("The cats SAT!", Around::Special).unwrap();
        assert_eq!(text.tokens, ["[CLS]", "the", "cat", "##s", "sat", "!", "[SEP]"]);
        assert_eq!(text.is_special, [true, false, false, false, false, false, true]);
        assert_eq!(text.offsets[2..4], [(4, 7), (7, 8)]);
        assert_eq!(tokenizer.encode("the cat", Around::Nothing).unwrap().tokens, ["the", "cat"]);
        assert_eq!(tokenizer.decode(&text.ids).unwrap(), "the cats sat!");
        assert_eq!((tokenizer.truncation(), tokenizer.vocab()), (Some(8), 31));
    }

    #[test]
    fn padding_and_truncation_of_the_file_are_not_applied() {
        let tokenizer = golden("sentences");
        let text = tokenizer.encode("a cat", Around::Special).unwrap();
        assert_eq!(text.ids.len(), 4, "no padding to 8");
        let long = "the cat sat on a mat in the park";
        assert_eq!(tokenizer.encode(long, Around::Special).unwrap().ids.len(), 11, "no truncation to 8");
        let cut = tokenizer.encode_within(long, 5).unwrap();
        assert_eq!(cut.tokens, ["[CLS]", "the", "cat", "sat", "[SEP]"]);
        assert_eq!(tokenizer.encode_within(long, 1).unwrap().tokens, ["[CLS]", "[SEP]"]);
    }

    #[test]
    fn bytes_are_readable() {
        let tokenizer = golden("gpt2");
        let text = tokenizer.encode("the cat é", Around::Special).unwrap();
        assert_eq!(text.tokens, ["th", "e", " ca", "t", " ", "\\xC3", "\\xA9"]);
        assert_eq!(tokenizer.decode(&text.ids).unwrap(), "the cat é");
        assert_eq!(tokenizer.token(0).as_deref(), Some("<|endoftext|>"));
    }

    #[test]
    fn files_that_lie_are_refused_in_one_line() {
        let nested = format!("{}1{}", "[".repeat(500), "]".repeat(500));
        let deep = format!(r#"{{"version": "1.0", "normalizer": {nested}, "model": {{"type": "BPE"}}}}"#);
        for (content, said) in [
            (b"\xff\xfe{}".to_vec(), "expected value"),
            (deep.into_bytes(), "recursion"),
            (b"[]".to_vec(), "expected"),
            (br#"{"model": {"type": "BPE", "vocab": {}, "merges": [], "dropout": 0.5}}"#.to_vec(), "0.5"),
            (br#"{"model": {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 7}}"#.to_vec(), "UnkId"),
            (br#"{"model": {"type": "WordPiece", "vocab": [1]}}"#.to_vec(), "tokenizer.json"),
            (
                br#"{"model": {"type": "WordPiece", "vocab": {"a": 4294967295}, "unk_token": "a"}}"#.to_vec(),
                "4294967295",
            ),
        ] {
            let error = PublishedTokenizer::from_json(&content, Path::new("tokenizer.json")).unwrap_err().to_string();
            assert!(error.contains(said) && error.lines().count() == 1, "{error}");
        }
    }
}
