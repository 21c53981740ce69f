//! Documents that say whether they were changed: JSON with a last key `sha256`, the hash of the text without that key.

use serde::Serialize;
use sha2::{Digest, Sha256};

/// The key `sha256` with the characters between the value before it and its own.
const KEY: &str = ",\n  \"sha256\": \"";
/// The end of the document, after the value of `sha256`.
const END: &str = "\"\n}";

/// The SHA-256 of bytes, in hexadecimal.
pub fn sha256(content: &[u8]) -> String {
    hexadecimal(Sha256::new_with_prefix(content))
}

/// The hash of all that a hasher has seen.
pub(crate) fn hexadecimal(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The document of a value with at least one key, with its hash.
pub(crate) fn sealed(value: &impl Serialize) -> String {
    let plain = serde_json::to_string_pretty(value).expect("plain values");
    let hash = sha256(plain.as_bytes());
    let open = plain.strip_suffix("\n}").expect("an object with a key");
    format!("{open}{KEY}{hash}{END}")
}

/// The document without its hash; nothing if that is missing or is not the one of this text.
pub(crate) fn unsealed(text: &str) -> Option<String> {
    let (open, rest) = text.trim_end().rsplit_once(KEY)?;
    let plain = format!("{open}\n}}");
    (rest.strip_suffix(END)? == sha256(plain.as_bytes())).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_standard() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), abc);
    }

    #[test]
    fn a_change_of_any_letter_is_seen() {
        let text = sealed(&serde_json::json!({ "heads": 4, "note": "a, b\n  \"sha256\": \"x\"" }));
        let plain = unsealed(&text).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&plain).unwrap()["heads"], 4);
        assert!(serde_json::from_str::<serde_json::Value>(&text).unwrap()["sha256"].is_string());
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            assert_eq!(unsealed(&String::from_utf8(changed).unwrap()), None, "{at}");
        }
        assert_eq!(unsealed("{}"), None);
    }
}
