//! From texts to a tokeniser. The library cuts the texts; the pieces are counted and chosen here, for by its source the
//! library's trainer can queue a pair of equal count twice, and a hash map then decides which goes first.

use super::{Case, SPECIALS, TokenizerConfig, TokenizerKind, UNK, bounded, byte_pairs, bytes, words};
use crate::DataError;
use std::collections::{BTreeMap, HashMap};
use tokenizers::decoders::fuse::Fuse;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::normalizers::utils::Lowercase;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{
    AddedToken, DecoderWrapper, ModelWrapper, NormalizedString, Normalizer, NormalizerWrapper, OffsetReferential,
    OffsetType, PreTokenizedString, PreTokenizer, PreTokenizerWrapper,
};

/// Trains a tokeniser of a checked configuration.
pub(super) fn train<'a>(
    config: &TokenizerConfig,
    texts: impl Iterator<Item = &'a str>,
) -> Result<tokenizers::Tokenizer, DataError> {
    let fail = |e: tokenizers::Error| DataError::Train { why: e.to_string() };
    let cutter = Cutter::new(config).map_err(fail)?;
    let counts = cutter.count(&texts.collect::<Vec<_>>()).map_err(fail)?;
    if counts.is_empty() {
        return Err(DataError::Train { why: "there is nothing in the texts".into() });
    }
    assemble(config, cutter, counts).map_err(fail)
}

/// Puts the parts together.
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
        // Byte-pair encoding without merges is an encoding by characters.
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

/// What turns a text into the pieces that are counted.
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

    /// How often each piece occurs, counted on all threads: sums do not depend on who adds first.
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

/// Cuts as GPT-2 does, without a space before the first word and with offsets that tell the whole of a piece.
fn byte_level() -> ByteLevel {
    ByteLevel::new(false, false, true)
}
