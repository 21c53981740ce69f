//! Trains a tokeniser. The library cuts the texts; the pieces are counted and chosen here, because the library's trainer
//! (by its source) can queue a pair of equal count twice, so that the order of a hash map decides which is merged first.

use super::{Case, SPECIALS, TokenizerConfig, TokenizerKind, UNK, bounded, byte_pairs, bytes, words};
use crate::DataError;
use std::collections::{BTreeMap, HashMap};
use tokenizers::decoders::fuse::Fuse;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::normalizers::utils::Lowercase;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{
    AddedToken, DecoderWrapper, Model, ModelWrapper, NormalizedString, Normalizer, NormalizerWrapper,
    OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, PreTokenizerWrapper,
};

/// Trains a tokeniser with a validated configuration.
pub(super) fn train<'a>(
    config: &TokenizerConfig,
    texts: impl Iterator<Item = &'a str>,
) -> Result<tokenizers::Tokenizer, DataError> {
    let fail = |e: tokenizers::Error| DataError::Train { why: e.to_string() };
    let cutter = Cutter::new(config).map_err(fail)?;
    let counts = cutter.count(&texts.collect::<Vec<_>>()).map_err(fail)?;
    if counts.is_empty() {
        return Err(DataError::Train { why: "the texts are empty".into() });
    }
    assemble(config, cutter, counts).map_err(fail)
}

/// Builds the tokeniser from the counted pieces.
fn assemble(
    config: &TokenizerConfig,
    cutter: Cutter,
    counts: BTreeMap<String, u64>,
) -> tokenizers::Result<tokenizers::Tokenizer> {
    let unk = SPECIALS[UNK as usize].to_string();
    let numbered = |pieces: &[String]| pieces.iter().cloned().zip(0..).collect::<Vocab>();
    let (model, decoder): (ModelWrapper, DecoderWrapper) = match config.kind {
        TokenizerKind::Bpe => {
            let alphabet = bytes::alphabet().map(String::from);
            let first = SPECIALS.map(String::from).into_iter().chain(alphabet).collect();
            let learnt = byte_pairs::learn(&counts, first, config.vocab);
            let model = BPE::builder().vocab_and_merges(numbered(&learnt.pieces), learnt.merges).build()?;
            (model.into(), byte_level().into())
        }
        TokenizerKind::Word => {
            let pieces = bounded(counts, config.vocab, config.min_count);
            (
                WordLevel::builder().vocab(numbered(pieces.names())).unk_token(unk).build()?.into(),
                words::decoder()?.into(),
            )
        }
        // Byte-pair encoding without merges encodes single characters.
        TokenizerKind::Char => {
            let pieces = bounded(counts, config.vocab, 1);
            let builder = BPE::builder().vocab_and_merges(numbered(pieces.names()), Vec::new());
            (builder.unk_token(unk).build()?.into(), Fuse::default().into())
        }
    };
    let mut tokenizer = tokenizers::Tokenizer::new(model);
    tokenizer.with_normalizer(cutter.normalizer)?;
    tokenizer.with_pre_tokenizer(cutter.pre_tokenizer);
    tokenizer.with_decoder(Some(decoder));
    tokenizer.add_special_tokens(SPECIALS.map(|special| AddedToken::from(special, true)))?;
    Ok(tokenizer)
}

/// Adds words to a word tokeniser.
pub(super) fn with_words<'a>(
    tokenizer: &tokenizers::Tokenizer,
    words: impl Iterator<Item = &'a str>,
) -> Result<tokenizers::Tokenizer, DataError> {
    let fail = |e: tokenizers::Error| DataError::Train { why: e.to_string() };
    let ModelWrapper::WordLevel(model) = tokenizer.get_model() else {
        return Err(DataError::Train { why: "words can be added to a word tokeniser only".into() });
    };
    let mut vocab = model.get_vocab();
    for word in words {
        let next = vocab.len() as u32;
        vocab.entry(word.to_string()).or_insert(next);
    }
    let unk = SPECIALS[UNK as usize].to_string();
    let vocab = vocab.into_iter().collect();
    let mut extended = tokenizer.clone();
    extended.with_model(WordLevel::builder().vocab(vocab).unk_token(unk).build().map_err(fail)?);
    Ok(extended)
}

/// Cuts a text into the pieces that are counted.
struct Cutter {
    kind: TokenizerKind,
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
}

impl Cutter {
    fn new(config: &TokenizerConfig) -> tokenizers::Result<Self> {
        Ok(Self {
            kind: config.kind,
            normalizer: match config.case {
                Case::Keep => None,
                Case::Lower => Some(Lowercase.into()),
            },
            pre_tokenizer: match config.kind {
                TokenizerKind::Bpe => Some(byte_level().into()),
                TokenizerKind::Word => Some(words::pre_tokenizer()?.into()),
                TokenizerKind::Char => None,
            },
        })
    }

    /// Counts each piece on all threads. Sums do not depend on the order of the threads.
    fn count(&self, texts: &[&str]) -> tokenizers::Result<BTreeMap<String, u64>> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let share = texts.len().div_ceil(threads).max(1);
        let parts: Vec<_> = std::thread::scope(|scope| {
            let workers: Vec<_> = texts.chunks(share).map(|part| scope.spawn(move || self.count_part(part))).collect();
            workers.into_iter().map(|worker| worker.join().expect("counting does not panic")).collect()
        });
        let mut total = BTreeMap::new();
        for part in parts {
            for (piece, count) in part? {
                *total.entry(piece).or_default() += count;
            }
        }
        Ok(total)
    }

    fn count_part(&self, texts: &[&str]) -> tokenizers::Result<HashMap<String, u64>> {
        let mut counts = HashMap::new();
        let mut add = |piece: &str| match counts.get_mut(piece) {
            Some(count) => *count += 1,
            None => drop(counts.insert(piece.to_string(), 1)),
        };
        for text in texts {
            let mut text = NormalizedString::from(*text);
            if let Some(normalizer) = &self.normalizer {
                normalizer.normalize(&mut text)?;
            }
            match &self.pre_tokenizer {
                Some(pre_tokenizer) => {
                    let mut pieces = PreTokenizedString::from(text);
                    pre_tokenizer.pre_tokenize(&mut pieces)?;
                    let pieces = pieces.get_splits(OffsetReferential::Original, OffsetType::Byte);
                    pieces.iter().for_each(|(piece, _, _)| add(piece));
                }
                None => {
                    debug_assert_eq!(self.kind, TokenizerKind::Char);
                    text.get().chars().for_each(|c| add(c.encode_utf8(&mut [0; 4])));
                }
            }
        }
        Ok(counts)
    }
}

/// Cuts like GPT-2, without a space before the first word and with offsets that include the space before a word.
fn byte_level() -> ByteLevel {
    ByteLevel::new(false, false, true)
}
