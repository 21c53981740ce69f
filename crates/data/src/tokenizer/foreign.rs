//! Reads a `tokenizer.json` from an untrusted source.
//!
//! The `tokenizers` library panics on some files and silently applies some settings. Files are therefore checked before the
//! library sees them, and panics of the library are caught.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokenizers::{PaddingParams, TruncationParams};

use super::{SPECIALS, UNK, bytes};

/// Largest size of a file, in bytes: three times that of the largest vocabularies in use (a quarter of a million tokens).
pub(super) const MOST_BYTES: u64 = 100_000_000;
/// Largest number of a token, plus one: ids in tensors are 32-bit integers.
const MOST_TOKENS: u64 = 1 << 31;
/// Decoders that return text for any tokens.
const DECODERS: [&str; 3] = ["ByteLevel", "Fuse", "Replace"];

/// Why a file is refused.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) expected: &'static str,
    pub(super) found: String,
}

fn refused<T>(expected: &'static str, found: impl Into<String>) -> Result<T, Refused> {
    Err(Refused { expected, found: found.into() })
}

/// Reads a tokeniser from the content of a file. Settings of padding, truncation and special tokens around a text are
/// ignored: batches are made elsewhere, and texts are never truncated.
pub(super) fn read(content: &[u8]) -> Result<tokenizers::Tokenizer, Refused> {
    let mut file = parsed(content)?;
    check(&file)?;
    for key in ["truncation", "padding", "post_processor"] {
        file.insert(key.to_string(), Value::Null);
    }
    built(&file)
}

/// Parses the content of a file.
fn parsed(content: &[u8]) -> Result<Map<String, Value>, Refused> {
    if content.len() as u64 > MOST_BYTES {
        return refused("a tokenizer.json of at most 100 MB", format!("{} bytes", content.len()));
    }
    // The parser refuses values nested deeper than 128 levels.
    serde_json::from_slice(content).map_err(|error| no_tokenizer(error.to_string()))
}

/// Gives the checked values to the library: not the file itself, which may have duplicate keys.
fn built(file: &Map<String, Value>) -> Result<tokenizers::Tokenizer, Refused> {
    let checked = serde_json::to_vec(file).expect("JSON values can be written");
    match guarded(|| tokenizers::Tokenizer::from_bytes(&checked)) {
        Ok(read) => read.map_err(|error| no_tokenizer(error.to_string())),
        Err(panic) => Err(no_tokenizer(format!("a file that makes the tokenizers library panic: {panic}"))),
    }
}

fn no_tokenizer(error: String) -> Refused {
    Refused { expected: "a tokenizer.json", found: error.replace('\n', " ") }
}

/// Reads the tokeniser of a published model, with any parts that the library knows, and the length of its truncation. Settings
/// of padding and truncation have no effect on what it encodes.
pub(super) fn read_published(content: &[u8]) -> Result<(tokenizers::Tokenizer, Option<usize>), Refused> {
    let mut file = parsed(content)?;
    let part = |key: &str| file.get(key).unwrap_or(&Value::Null);
    check_setting::<PaddingParams>("settings of padding, or null", part("padding"))?;
    check_setting::<TruncationParams>("settings of truncation, or null", part("truncation"))?;
    let truncation = part("truncation")["max_length"].as_u64().and_then(|length| usize::try_from(length).ok());
    let model = part("model");
    if !matches!(&model["dropout"], Value::Null) && model["dropout"].as_f64() != Some(0.0) {
        return refused("a model without dropout of merges", model["dropout"].to_string());
    }
    let mut numbers = model["vocab"].as_object().into_iter().flat_map(Map::values);
    if let Some(number) = numbers.find(|number| number.as_u64().is_none_or(|id| id >= MOST_TOKENS)) {
        return refused("tokens with numbers below 2³¹", number.to_string());
    }
    for key in ["truncation", "padding"] {
        file.insert(key.to_string(), Value::Null);
    }
    Ok((built(&file)?, truncation))
}

fn check(file: &Map<String, Value>) -> Result<(), Refused> {
    let part = |key: &str| file.get(key).unwrap_or(&Value::Null);
    match part("normalizer") {
        Value::Null => {}
        normalizer if normalizer["type"] == "Lowercase" => {}
        other => return refused("no normaliser but Lowercase", other["type"].to_string()),
    }
    check_setting::<TruncationParams>("settings of truncation, or null", part("truncation"))?;
    check_setting::<PaddingParams>("settings of padding, or null", part("padding"))?;
    check_decoder(part("decoder"))?;
    check_model(part("model"), part("pre_tokenizer"))
}

/// Refuses an invalid setting, which means that the file is damaged. A valid one is ignored.
fn check_setting<T: DeserializeOwned>(expected: &'static str, found: &Value) -> Result<(), Refused> {
    match serde_json::from_value::<Option<T>>(found.clone()) {
        Ok(_) => Ok(()),
        Err(error) => refused(expected, error.to_string()),
    }
}

/// Refuses decoders that fail on some tokens: during a prediction it would be too late.
fn check_decoder(decoder: &Value) -> Result<(), Refused> {
    let kind = decoder["type"].as_str().unwrap_or_default();
    match (decoder, &decoder["decoders"]) {
        (Value::Null, _) => Ok(()),
        (_, Value::Array(parts)) if kind == "Sequence" => parts.iter().try_for_each(check_decoder),
        (Value::Object(_), _) if DECODERS.contains(&kind) => Ok(()),
        (Value::Object(_), _) => refused("a decoder made of ByteLevel, Fuse and Replace", decoder["type"].to_string()),
        _ => refused("a tokenizer.json", format!("{decoder} as its decoder")),
    }
}

fn check_model(model: &Value, pre_tokenizer: &Value) -> Result<(), Refused> {
    let Value::Object(vocab) = &model["vocab"] else {
        return refused("a tokenizer.json", "a model without a vocabulary of tokens and their numbers");
    };
    for key in ["continuing_subword_prefix", "end_of_word_suffix"] {
        if !matches!(&model[key], Value::Null) && model[key] != "" {
            return refused("a model without marks inside or at the end of words", format!("{key} {}", model[key]));
        }
    }
    // With dropout, a text would have different tokens each time.
    if !matches!(&model["dropout"], Value::Null) && model["dropout"].as_f64() != Some(0.0) {
        return refused("a model without dropout of merges", model["dropout"].to_string());
    }
    let is_word_level = model["type"] == "WordLevel";
    match &model["unk_token"] {
        Value::Null if !is_word_level => {}
        Value::Null if vocab.contains_key(SPECIALS[UNK as usize]) => {}
        Value::String(unknown) if vocab.contains_key(unknown) => {}
        other => return refused("an unknown token that is in the vocabulary", other.to_string()),
    }
    // Without an unknown token, a character that is not in the vocabulary would vanish from the text.
    if pre_tokenizer["type"] == "ByteLevel"
        && let Some(missing) =
            bytes::alphabet().into_iter().find(|&byte| !vocab.contains_key(byte.encode_utf8(&mut [0; 4]) as &str))
    {
        return refused("a token for each of the 256 bytes", format!("none for {missing:?}"));
    }
    match &model["merges"] {
        Value::Array(merges) => merges.iter().try_for_each(|merge| check_merge(merge, vocab)),
        Value::Null if is_word_level => Ok(()),
        _ => refused("a tokenizer.json", "a model without a list of merges"),
    }
}

/// Checks that a merge joins two tokens to a third one. Otherwise the library indexes beyond its buffer and panics.
fn check_merge(merge: &Value, vocab: &Map<String, Value>) -> Result<(), Refused> {
    let both = match merge {
        Value::String(line) => line.split_once(' ').filter(|(_, right)| !right.contains(' ')),
        Value::Array(pair) => match pair.as_slice() {
            [Value::String(left), Value::String(right)] => Some((left.as_str(), right.as_str())),
            _ => None,
        },
        _ => None,
    };
    match both {
        Some((left, right))
            if [left, right, &format!("{left}{right}")].iter().all(|token| vocab.contains_key(*token)) =>
        {
            Ok(())
        }
        _ => refused("merges of two tokens to a third, all in the vocabulary", merge.to_string()),
    }
}

thread_local! {
    /// Whether panics of this thread are caught by [`guarded`], which reports them.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Returns the result of `run`, or the message of its panic, which is not printed.
pub(super) fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !IS_GUARDED.get() {
                print(info);
            }
        }));
    });
    IS_GUARDED.set(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    IS_GUARDED.set(false);
    result.map_err(|panic| message(panic.as_ref()))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").replace('\n', " ")
}
