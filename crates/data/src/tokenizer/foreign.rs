//! Reads a `tokenizer.json` that anyone may have written.
//!
//! The `tokenizers` library panics on some files and applies some settings without a word. A file is checked here before
//! the library sees it, and the library reads it under a guard.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokenizers::{PaddingParams, TruncationParams};

use super::{SPECIALS, UNK, bytes};

/// Size of the largest file that is read: three times the largest vocabularies in use (a quarter of a million tokens).
pub(super) const MOST_BYTES: u64 = 100_000_000;
/// Parts of a decoder that give text for any tokens.
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

/// The tokeniser of a file's content. Settings of padding, truncation and special tokens around a text are dropped:
/// batches are made elsewhere, and every text is cut whole.
pub(super) fn read(content: &[u8]) -> Result<tokenizers::Tokenizer, Refused> {
    if content.len() as u64 > MOST_BYTES {
        return refused("a tokenizer.json of at most 100 MB", format!("{} bytes", content.len()));
    }
    let no_tokenizer = |error: String| Refused { expected: "a tokenizer.json", found: error };
    // The parser itself refuses values that are nested deeper than 128 levels.
    let mut file: Map<String, Value> =
        serde_json::from_slice(content).map_err(|error| no_tokenizer(error.to_string()))?;
    check(&file)?;
    for key in ["truncation", "padding", "post_processor"] {
        file.insert(key.to_string(), Value::Null);
    }
    // The library reads what was checked, not the file, which may have a key twice.
    let checked = serde_json::to_vec(&file).expect("plain values");
    match guarded(|| tokenizers::Tokenizer::from_bytes(&checked)) {
        Ok(read) => read.map_err(|error| no_tokenizer(error.to_string())),
        Err(panic) => Err(no_tokenizer(format!("one that breaks the tokenizers library: {panic}"))),
    }
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

/// A setting is dropped if it is one; what is none speaks of a damaged file.
fn check_setting<T: DeserializeOwned>(expected: &'static str, found: &Value) -> Result<(), Refused> {
    match serde_json::from_value::<Option<T>>(found.clone()) {
        Ok(_) => Ok(()),
        Err(error) => refused(expected, error.to_string()),
    }
}

/// Others than ours may fail on some tokens, and a prediction is too late to say so.
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
    // The same text would have other tokens each time.
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
    // Without an unknown token a character that has no number would vanish from the text.
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

/// A merge joins two tokens to a third. The library writes beyond its buffer, and panics, where it does not.
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
    /// Whether a panic of this thread is caught and told by its catcher.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// What `run` returns, or the message of its panic, which is not printed.
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
