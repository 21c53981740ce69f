//! Byte-level tokens, which write each byte as a printable character, as GPT-2 does (Radford et al. 2019): a printable byte
//! stands for itself, and the others are written as the characters from U+0100 on.

use std::fmt::Write;

/// The character for each byte.
pub(super) fn alphabet() -> [char; 256] {
    let prints = |byte: u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut next = 0x100;
    std::array::from_fn(|byte| {
        let code = if prints(byte as u32) {
            byte as u32
        } else {
            next += 1;
            next - 1
        };
        char::from_u32(code).expect("the alphabet ends at U+0143")
    })
}

/// Writes bytes with the characters of [`alphabet`].
pub(super) fn hide(bytes: Vec<u8>) -> String {
    let alphabet = alphabet();
    bytes.into_iter().map(|byte| alphabet[byte as usize]).collect()
}

/// The bytes of a token. Characters outside the alphabet are kept as UTF-8.
pub(super) fn reveal(token: &str) -> Vec<u8> {
    let alphabet = alphabet();
    let mut bytes = Vec::with_capacity(token.len());
    for character in token.chars() {
        match alphabet.iter().position(|&c| c == character) {
            Some(byte) => bytes.push(byte as u8),
            None => bytes.extend(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

/// Shows bytes to people: as text if they are UTF-8, otherwise as `\x` and two digits.
pub(super) fn show(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02X}");
        }
    }
    text
}

/// The inverse of [`show`]. `\x` and two digits are a byte only if it is not ASCII.
pub(super) fn parse(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let escaped = rest.strip_prefix("\\x").and_then(|r| r.get(..2)).and_then(|d| u8::from_str_radix(d, 16).ok());
        match escaped {
            Some(byte) if byte >= 0x80 => {
                bytes.push(byte);
                rest = &rest[4..];
            }
            _ => {
                bytes.extend_from_slice(&rest.as_bytes()[..first.len_utf8()]);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_alphabet_is_that_of_the_library() {
        let ours: std::collections::BTreeSet<char> = alphabet().into_iter().collect();
        let theirs = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet();
        assert_eq!(ours, theirs.into_iter().collect());
        assert_eq!(hide(b" saw\n".to_vec()), "ĠsawĊ");
        assert_eq!(show(&reveal("Ġsaw")), " saw");
        assert_eq!(show(b"a\xc3"), "a\\xC3");
    }

    proptest! {
        #[test]
        fn bytes_are_restored(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            prop_assert_eq!(reveal(&hide(bytes.clone())), bytes);
        }

        #[test]
        fn shown_bytes_are_parsed(bytes in prop::collection::vec(prop_oneof![0x80u8..=0xff, 0x20u8..0x5b], 0..20)) {
            prop_assert_eq!(parse(&show(&bytes)), bytes);
        }
    }
}
