//! JSON documents that detect changes: their last key, `sha256`, holds the hash of the text without that key.

use serde::Serialize;
use sha2::{Digest, Sha256};

/// Text between the value before `sha256` and the hash.
const KEY: &str = ",\n  \"sha256\": \"";
/// Text after the hash, which ends the document.
const END: &str = "\"\n}";

/// Computes the SHA-256 of bytes, in hexadecimal.
pub fn sha256(content: &[u8]) -> String {
    hexadecimal(Sha256::new_with_prefix(content))
}

/// Returns the hash of everything written to a hasher, in hexadecimal.
pub(crate) fn hexadecimal(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Serialises an object with at least one key and adds the hash.
pub(crate) fn sealed(value: &impl Serialize) -> String {
    let plain = serde_json::to_string_pretty(value).expect("plain values");
    let hash = sha256(plain.as_bytes());
    let open = plain.strip_suffix("\n}").expect("an object with a key");
    format!("{open}{KEY}{hash}{END}")
}

/// Removes the hash from a document; returns `None` if it is missing or does not match the text.
pub(crate) fn unsealed(text: &str) -> Option<String> {
    let (open, rest) = text.trim_end().rsplit_once(KEY)?;
    let plain = format!("{open}\n}}");
    (rest.strip_suffix(END)? == sha256(plain.as_bytes())).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_matches_the_standard() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), abc);
    }

    #[test]
    fn a_change_of_any_byte_is_detected() {
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
