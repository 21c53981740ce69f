//! Tokenisers: text to numbers and back, with pieces learnt from texts.
//!
//! The file is a `tokenizer.json` of the `tokenizers` library, so that other tools get the same numbers. Training is our
//! own, because its result must not depend on the order of a hash map; see [`train`].

mod byte_pairs;
mod bytes;
mod foreign;
mod published;
mod train;
mod words;

use crate::file::read_bytes;
use crate::{DataError, Vocabulary, lacks_spaces};
use serde::{Deserialize, Serialize};
use std::path::Path;

pub use self::published::{Around, PublishedText, PublishedTokenizer};
use tokenizers::{ModelWrapper, PreTokenizerWrapper};

/// Number of the padding token, which fills rows to equal length.
pub const PAD: u32 = 0;
/// Number of the unknown token, which replaces what is not in the vocabulary.
pub const UNK: u32 = 1;
/// Number of the token that starts a sequence.
pub const START: u32 = 2;
/// Number of the token that ends a sequence.
pub const END: u32 = 3;
/// Number of the mask token, which hides a token to be predicted.
pub const MASK: u32 = 4;
/// The special tokens in the order of their numbers.
pub const SPECIALS: [&str; 5] = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"];

/// The kind of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenizerKind {
    /// Frequent sequences of bytes, found by byte-pair encoding. Any text can be encoded and decoded without loss.
    Bpe,
    /// Words and punctuation marks. White space is not kept, except single spaces between words.
    Word,
    /// Characters.
    Char,
}

/// How a tokeniser treats capital letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Case {
    /// Capital letters are kept.
    #[default]
    Keep,
    /// All letters become lower case.
    Lower,
}

/// Configuration of a tokeniser. With `Option<TokenizerKind>` as the kind, `None` lets the texts choose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizerConfig<Kind = TokenizerKind> {
    /// The kind of tokens.
    pub kind: Kind,
    /// Largest number of tokens, including the special ones.
    pub vocab: usize,
    /// How to treat capital letters.
    #[serde(default)]
    pub case: Case,
    /// Smallest number of occurrences of a word in the vocabulary, for [`TokenizerKind::Word`] only.
    #[serde(default = "once")]
    pub min_count: usize,
}

fn once() -> usize {
    1
}

impl TokenizerConfig {
    /// Refuses a vocabulary that is too small for the tokens that every tokeniser of the kind has.
    ///
    /// # Errors
    /// If `vocab` is too small, or too large for 31-bit numbers.
    pub fn validate(&self) -> Result<(), DataError> {
        let least = SPECIALS.len() + if self.kind == TokenizerKind::Bpe { 256 } else { 1 };
        if !(least..=i32::MAX as usize).contains(&self.vocab) {
            let expected = format!("{least} to {} for {:?}", i32::MAX, self.kind);
            return Err(DataError::Setting { field: "vocab", expected, found: self.vocab.to_string() });
        }
        Ok(())
    }
}

impl TokenizerConfig<Option<TokenizerKind>> {
    /// Refuses a vocabulary that is too small for the tokens that every tokeniser of the kind has.
    ///
    /// # Errors
    /// The errors of [`TokenizerConfig::validate`].
    pub fn validate(&self) -> Result<(), DataError> {
        self.of_kind(self.kind.unwrap_or(TokenizerKind::Word)).validate()
    }

    /// Trains a tokeniser. Unless a kind was chosen, the tokens are words, or characters if the texts have no spaces between
    /// words; the kind is then set to that.
    ///
    /// # Errors
    /// The errors of [`Tokenizer::train`].
    pub fn train<'a>(&mut self, texts: impl Iterator<Item = &'a str> + Clone + Send) -> Result<Tokenizer, DataError> {
        let by_script = || if lacks_spaces(texts.clone()) { TokenizerKind::Char } else { TokenizerKind::Word };
        let kind = *self.kind.get_or_insert_with(by_script);
        Tokenizer::train(&self.of_kind(kind), texts)
    }

    fn of_kind(&self, kind: TokenizerKind) -> TokenizerConfig {
        TokenizerConfig { kind, vocab: self.vocab, case: self.case, min_count: self.min_count }
    }
}

/// An encoded text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The numbers of the tokens.
    pub ids: Vec<u32>,
    /// The tokens in readable form: `" saw"`, and `\xC3` for a byte that is not a character by itself.
    pub tokens: Vec<String>,
    /// The first byte of each token in the text and the byte after its last.
    pub offsets: Vec<(usize, usize)>,
}

/// Encodes text as numbers and decodes it again.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    kind: TokenizerKind,
    /// The tokens in readable form, by number.
    tokens: Vec<String>,
}

impl Tokenizer {
    /// Trains a tokeniser. The same texts in any order give the same tokeniser.
    ///
    /// # Errors
    /// An invalid configuration, or empty texts.
    pub fn train<'a>(config: &TokenizerConfig, texts: impl Iterator<Item = &'a str> + Send) -> Result<Self, DataError> {
        config.validate()?;
        let inner = train::train(config, texts)?;
        Ok(Self::finish(inner, config.kind))
    }

    /// Returns a word tokeniser with these words as further tokens.
    ///
    /// # Errors
    /// A tokeniser of another kind.
    pub fn with_words<'a>(&self, words: impl Iterator<Item = &'a str>) -> Result<Self, DataError> {
        let inner = train::with_words(&self.inner, words)?;
        Ok(Self::finish(inner, self.kind))
    }

    /// Reads a `tokenizer.json` that [`Tokenizer::to_json`] wrote.
    ///
    /// # Errors
    /// A file that is missing, damaged or not supported.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        Self::from_json(&open_limited(path)?, path)
    }

    /// Reads the content of a `tokenizer.json`; `path` is for error messages. Settings of padding and truncation are ignored.
    ///
    /// # Errors
    /// Content that is damaged, too large or not supported.
    pub fn from_json(content: &[u8], path: &Path) -> Result<Self, DataError> {
        let fail = |expected, found| DataError::Tokenizer { path: path.to_path_buf(), expected, found };
        let inner = foreign::read(content).map_err(|refused| fail(refused.expected, refused.found))?;
        let kind = match (inner.get_model(), inner.get_pre_tokenizer()) {
            (ModelWrapper::BPE(_), Some(PreTokenizerWrapper::ByteLevel(_))) => TokenizerKind::Bpe,
            (ModelWrapper::BPE(model), None) if model.unk_token.is_some() => TokenizerKind::Char,
            (ModelWrapper::WordLevel(_), Some(PreTokenizerWrapper::Split(_))) => TokenizerKind::Word,
            _ => {
                return Err(fail(
                    "a byte-pair, word or character tokeniser written by this program",
                    "another kind".into(),
                ));
            }
        };
        let tokenizer = Self::finish(inner, kind);
        for (id, special) in (0u32..).zip(SPECIALS) {
            if tokenizer.inner.id_to_token(id).as_deref() != Some(special) {
                let found = format!("{:?} as number {id}", tokenizer.inner.id_to_token(id).unwrap_or_default());
                return Err(fail("<pad>, <unk>, <s>, </s>, <mask> as numbers 0 to 4", found));
            }
        }
        match (0..tokenizer.vocab() as u32).find(|&id| tokenizer.inner.id_to_token(id).is_none()) {
            Some(id) => Err(fail("numbers without a gap", format!("no token with number {id}"))),
            None => Ok(tokenizer),
        }
    }

    /// The content of a `tokenizer.json`.
    pub fn to_json(&self) -> String {
        self.inner.to_string(true).expect("a tokeniser can be written as JSON")
    }

    /// The kind of tokens.
    pub fn kind(&self) -> TokenizerKind {
        self.kind
    }

    /// Encodes a text without start and end tokens. A special token written in the text, such as `<s>`, is ordinary text.
    pub fn encode(&self, text: &str) -> Encoded {
        let encoding = self.inner.encode(text, false).expect("a checked tokeniser encodes any text");
        self.encoded(&encoding)
    }

    /// Encodes many texts on all threads.
    pub fn encode_batch(&self, texts: &[&str]) -> Vec<Encoded> {
        let encodings = self.inner.encode_batch(texts.to_vec(), false).expect("a checked tokeniser encodes any text");
        encodings.iter().map(|encoding| self.encoded(encoding)).collect()
    }

    /// Returns only the numbers of a text, which takes less time and memory than [`Tokenizer::encode`].
    pub fn ids(&self, text: &str) -> Vec<u32> {
        let encoding = self.inner.encode_fast(text, false).expect("a checked tokeniser encodes any text");
        encoding.get_ids().to_vec()
    }

    /// Decodes numbers to text. Special tokens and numbers outside the vocabulary are skipped.
    pub fn decode(&self, ids: &[u32]) -> String {
        self.inner.decode(ids, true).expect("a checked tokeniser decodes any numbers")
    }

    /// Number of tokens, including the special ones.
    pub fn vocab(&self) -> usize {
        self.tokens.len()
    }

    /// The token with a number, in readable form.
    pub fn token(&self, id: u32) -> Option<String> {
        self.tokens.get(id as usize).cloned()
    }

    /// The number of a token in readable form.
    pub fn id(&self, token: &str) -> Option<u32> {
        if self.kind != TokenizerKind::Bpe || SPECIALS.contains(&token) {
            return self.inner.token_to_id(token);
        }
        self.inner.token_to_id(&bytes::hide(bytes::parse(token)))
    }

    /// All tokens in readable form, in the order of their numbers.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    fn finish(mut inner: tokenizers::Tokenizer, kind: TokenizerKind) -> Self {
        // Text of a user never encodes to a special token.
        inner.set_encode_special_tokens(true);
        let readable = |id: u32| {
            let token = inner.id_to_token(id).unwrap_or_default();
            match kind {
                TokenizerKind::Bpe if id as usize >= SPECIALS.len() => bytes::show(&bytes::reveal(&token)),
                _ => token,
            }
        };
        let tokens = (0..inner.get_vocab_size(true) as u32).map(readable).collect();
        Self { inner, kind, tokens }
    }

    fn encoded(&self, encoding: &tokenizers::Encoding) -> Encoded {
        let ids = encoding.get_ids().to_vec();
        let tokens = ids.iter().map(|&id| self.tokens[id as usize].clone()).collect();
        Encoded { ids, tokens, offsets: encoding.get_offsets().to_vec() }
    }
}

/// Reads a `tokenizer.json`. Its size is checked first: a huge file must not be read into memory only to be refused.
fn open_limited(path: &Path) -> Result<Vec<u8>, DataError> {
    let size = std::fs::metadata(path).map_or(0, |file| file.len());
    if size > foreign::MOST_BYTES {
        let (path, found) = (path.to_path_buf(), format!("{size} bytes"));
        return Err(DataError::Tokenizer { path, expected: "a tokenizer.json of at most 100 MB", found });
    }
    read_bytes(path)
}

/// A vocabulary of the special tokens and the most frequent others, at most `vocab` in all.
fn bounded(counts: std::collections::BTreeMap<String, u64>, vocab: usize, min_count: usize) -> Vocabulary {
    let mut vocabulary = Vocabulary::from_counts(counts, &SPECIALS, min_count);
    vocabulary.truncate(vocab);
    vocabulary
}

#[cfg(test)]
mod tests;
