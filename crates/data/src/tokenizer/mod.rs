//! Text to numbers and back, by pieces that are learnt from the text.
//!
//! The file is a `tokenizer.json` of the `tokenizers` library, with which other tools get the same numbers. Training is
//! our own, for its results must not depend on the order of a hash map; see [`train`].

mod byte_pairs;
mod bytes;
mod foreign;
mod train;
mod words;

use crate::file::read_bytes;
use crate::{DataError, Vocabulary, lacks_spaces};
use serde::{Deserialize, Serialize};
use std::path::Path;
use tokenizers::{ModelWrapper, PreTokenizerWrapper};

/// Fills rows up to equal length.
pub const PAD: u32 = 0;
/// Stands for what is not in the vocabulary.
pub const UNK: u32 = 1;
/// Begins a sequence.
pub const START: u32 = 2;
/// Ends a sequence.
pub const END: u32 = 3;
/// Hides a token that is to be guessed.
pub const MASK: u32 = 4;
/// The special tokens in the order of their numbers.
pub const SPECIALS: [&str; 5] = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"];

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenizerKind {
    /// A frequent sequence of bytes, found by byte-pair encoding; any text goes there and back unchanged.
    Bpe,
    /// A word or a mark of punctuation; white space that is not a single space between words is not kept.
    Word,
    /// A character.
    Char,
}

/// Whether capitals are told from small letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Case {
    /// They are.
    #[default]
    Keep,
    /// All become small.
    Lower,
}

/// How to make a tokeniser. With `Option<TokenizerKind>` for a kind, the texts choose where nobody has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizerConfig<Kind = TokenizerKind> {
    /// What a token is.
    pub kind: Kind,
    /// The most tokens there may be, the special ones included.
    pub vocab: usize,
    /// What becomes of capitals.
    #[serde(default)]
    pub case: Case,
    /// How often a word must occur to be one, for [`TokenizerKind::Word`] only.
    #[serde(default = "once")]
    pub min_count: usize,
}

fn once() -> usize {
    1
}

impl TokenizerConfig {
    /// Refuses a vocabulary that cannot hold what every tokeniser of the kind has.
    ///
    /// # Errors
    /// If `vocab` is too small or too large for numbers of 31 bits.
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
    /// Refuses a vocabulary that cannot hold what every tokeniser of the kind has.
    ///
    /// # Errors
    /// Those of [`TokenizerConfig::validate`].
    pub fn validate(&self) -> Result<(), DataError> {
        self.of_kind(self.kind.unwrap_or(TokenizerKind::Word)).validate()
    }

    /// Learns the tokens of texts: words, or characters where the texts have no spaces between words, unless a kind was chosen.
    /// The kind is kept.
    ///
    /// # Errors
    /// Those of [`Tokenizer::train`].
    pub fn train<'a>(&mut self, texts: impl Iterator<Item = &'a str> + Clone + Send) -> Result<Tokenizer, DataError> {
        let by_script = || if lacks_spaces(texts.clone()) { TokenizerKind::Char } else { TokenizerKind::Word };
        let kind = *self.kind.get_or_insert_with(by_script);
        Tokenizer::train(&self.of_kind(kind), texts)
    }

    fn of_kind(&self, kind: TokenizerKind) -> TokenizerConfig {
        TokenizerConfig { kind, vocab: self.vocab, case: self.case, min_count: self.min_count }
    }
}

/// A text in pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The numbers of the pieces.
    pub ids: Vec<u32>,
    /// The pieces as a person reads them: `" saw"`, and `\xC3` for a byte that is no character by itself.
    pub tokens: Vec<String>,
    /// From which byte to which byte of the text each comes.
    pub offsets: Vec<(usize, usize)>,
}

/// Text to numbers and back.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    kind: TokenizerKind,
    /// The tokens as a person reads them, by number.
    tokens: Vec<String>,
}

impl Tokenizer {
    /// Learns the pieces of the texts: the same texts in any order give the same tokeniser.
    ///
    /// # Errors
    /// A configuration that cannot be, or texts without anything in them.
    pub fn train<'a>(config: &TokenizerConfig, texts: impl Iterator<Item = &'a str> + Send) -> Result<Self, DataError> {
        config.validate()?;
        let inner = train::train(config, texts)?;
        Ok(Self::finish(inner, config.kind))
    }

    /// Reads a `tokenizer.json` that [`Tokenizer::to_json`] wrote.
    ///
    /// # Errors
    /// A file that is missing, damaged or of another kind.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        // A file of any size would be read whole before it could be refused.
        let size = std::fs::metadata(path).map_or(0, |file| file.len());
        if size > foreign::MOST_BYTES {
            let (path, found) = (path.to_path_buf(), format!("{size} bytes"));
            return Err(DataError::Tokenizer { path, expected: "a tokenizer.json of at most 100 MB", found });
        }
        Self::from_json(&read_bytes(path)?, path)
    }

    /// The content of a `tokenizer.json` that was read from `path`. Its settings of padding and truncation are dropped.
    ///
    /// # Errors
    /// Content that is damaged, too large or of another kind.
    pub fn from_json(content: &[u8], path: &Path) -> Result<Self, DataError> {
        let fail = |expected, found| DataError::Tokenizer { path: path.to_path_buf(), expected, found };
        let inner = foreign::read(content).map_err(|refused| fail(refused.expected, refused.found))?;
        let kind = match (inner.get_model(), inner.get_pre_tokenizer()) {
            (ModelWrapper::BPE(_), Some(PreTokenizerWrapper::ByteLevel(_))) => TokenizerKind::Bpe,
            (ModelWrapper::BPE(model), None) if model.unk_token.is_some() => TokenizerKind::Char,
            (ModelWrapper::WordLevel(_), Some(PreTokenizerWrapper::Split(_))) => TokenizerKind::Word,
            _ => return Err(fail("a byte-pair, word or character tokeniser of this program", "another".into())),
        };
        let tokenizer = Self::finish(inner, kind);
        for (id, special) in (0u32..).zip(SPECIALS) {
            if tokenizer.inner.id_to_token(id).as_deref() != Some(special) {
                let found = format!("{:?} as number {id}", tokenizer.inner.id_to_token(id).unwrap_or_default());
                return Err(fail("<pad>, <unk>, <s>, </s>, <mask> as numbers 0 to 4", found));
            }
        }
        match (0..tokenizer.vocab() as u32).find(|&id| tokenizer.inner.id_to_token(id).is_none()) {
            Some(id) => Err(fail("numbers without a gap", format!("no token of number {id}"))),
            None => Ok(tokenizer),
        }
    }

    /// The text of a `tokenizer.json`.
    pub fn to_json(&self) -> String {
        self.inner.to_string(true).expect("a tokeniser is plain data")
    }

    /// What a token is.
    pub fn kind(&self) -> TokenizerKind {
        self.kind
    }

    /// Cuts a text into pieces, adding neither start nor end. A special token that is written out in the text is text.
    pub fn encode(&self, text: &str) -> Encoded {
        let encoding = self.inner.encode(text, false).expect("a checked tokeniser takes any text");
        self.encoded(&encoding)
    }

    /// Many texts at once, on all threads.
    pub fn encode_batch(&self, texts: &[&str]) -> Vec<Encoded> {
        let encodings = self.inner.encode_batch(texts.to_vec(), false).expect("a checked tokeniser takes any text");
        encodings.iter().map(|encoding| self.encoded(encoding)).collect()
    }

    /// Only the numbers, which takes less time and memory for a long text.
    pub fn ids(&self, text: &str) -> Vec<u32> {
        let encoding = self.inner.encode_fast(text, false).expect("a checked tokeniser takes any text");
        encoding.get_ids().to_vec()
    }

    /// The text of numbers, without the special tokens; numbers outside the vocabulary are left out too.
    pub fn decode(&self, ids: &[u32]) -> String {
        self.inner.decode(ids, true).expect("a checked tokeniser gives text for any numbers")
    }

    /// How many tokens there are.
    pub fn vocab(&self) -> usize {
        self.tokens.len()
    }

    /// A token as a person reads it.
    pub fn token(&self, id: u32) -> Option<String> {
        self.tokens.get(id as usize).cloned()
    }

    /// The number of a token as a person reads it.
    pub fn id(&self, token: &str) -> Option<u32> {
        if self.kind != TokenizerKind::Bpe || SPECIALS.contains(&token) {
            return self.inner.token_to_id(token);
        }
        self.inner.token_to_id(&bytes::hide(bytes::parse(token)))
    }

    /// All tokens as a person reads them, in the order of their numbers.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    fn finish(mut inner: tokenizers::Tokenizer, kind: TokenizerKind) -> Self {
        // What a user writes is never a control token.
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

/// The special tokens and the most frequent of the others.
fn bounded(counts: std::collections::BTreeMap<String, u64>, vocab: usize, min_count: usize) -> Vocabulary {
    let mut vocabulary = Vocabulary::from_counts(counts, &SPECIALS, min_count);
    vocabulary.truncate(vocab);
    vocabulary
}

#[cfg(test)]
mod tests;
