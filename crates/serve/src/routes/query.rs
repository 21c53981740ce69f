//! The query of a path, `?model=NAME&since=3`.

use crate::error::ApiError;

/// Reads the query of a path. Each of its fields must be among `known`, and there at most once.
pub fn read<const N: usize>(query: Option<&str>, known: [&'static str; N]) -> Result<[Option<String>; N], ApiError> {
    let mut found = [const { None }; N];
    for field in query.unwrap_or_default().split('&').filter(|field| !field.is_empty()) {
        let (name, value) = field.split_once('=').unwrap_or((field, ""));
        let at = known.iter().position(|known| *known == name).filter(|&at| found[at].is_none());
        let (Some(at), Some(value)) = (at, decoded(value)) else {
            let said = format!("expected {} once, got {}", known.join(" or "), regard_data::excerpt(field));
            return Err(ApiError::invalid("query", said));
        };
        found[at] = Some(value);
    }
    Ok(found)
}

/// Decodes `%20` and `+`; `None` if the result is no UTF-8 or a `%` has no two digits.
pub fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut found = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        found.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(found).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded_and_unknown_ones_refused() {
        let read = |query| read(Some(query), ["model", "since"]).ok();
        assert_eq!(read("model=a%2Fb+c&since=3"), Some([Some("a/b c".into()), Some("3".into())]));
        assert_eq!(read(""), Some([None, None]));
        for wrong in ["other=1", "model=%", "model=%zz", "model=%ff", "model=a&model=b", "=", "model"] {
            assert_eq!(read(wrong).is_none(), wrong != "model", "{wrong}");
        }
    }
}
