//! Sentence pairs: `source<TAB>target` a line, or JSON lines `{"source", "target"}`.

use crate::error::excerpt;
use crate::file::{is_jsonl, read_file};
use crate::{DataError, Source, Splits, jsonl, load_splits};
use std::path::Path;

/// A sentence and its translation.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// What is given.
    pub source: String,
    /// What is wanted.
    pub target: String,
}

/// Reads pairs, as JSON lines if the extension says so, else as tab-separated columns without quoting. Columns after the
/// second, such as the licence of Tatoeba, are left out, and so are blank lines.
///
/// # Errors
/// What [`read_file`] refuses; a line without a tab or with nothing on one side of it.
pub fn read_pairs(path: &Path) -> Result<Vec<Pair>, DataError> {
    let file = read_file(path)?;
    if is_jsonl(path) {
        return jsonl::records(&file)
            .map(|record| {
                let record = record?;
                Ok(Pair { source: record.text("source")?, target: record.text("target")? })
            })
            .collect();
    }
    file.lines()
        .filter(|(_, text)| !text.trim().is_empty())
        .map(|(line, text)| {
            let expected = "source<TAB>target";
            let mut columns = text.split('\t');
            let (source, target) = match (columns.next(), columns.next()) {
                (Some(source), Some(target)) => (source.trim(), target.trim()),
                _ => return Err(DataError::line(path, line, expected, format!("no tab in {}", excerpt(text)))),
            };
            if source.is_empty() || target.is_empty() {
                return Err(DataError::line(path, line, expected, format!("an empty column in {}", excerpt(text))));
            }
            Ok(Pair { source: source.to_string(), target: target.to_string() })
        })
        .collect()
}

/// The parts of a data set of pairs; all translations of a source fall on the same side.
///
/// # Errors
/// Those of [`read_pairs`] and [`load_splits`].
pub fn load_pairs(source: &Source) -> Result<Splits<Pair>, DataError> {
    load_splits(&source.path, source.fold, read_pairs, |pair| &pair.source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{gzip, write};
    use tempfile::tempdir;

    fn pair(source: &str, target: &str) -> Pair {
        Pair { source: source.into(), target: target.into() }
    }

    #[test]
    fn tabs_part_the_columns_and_quotes_are_letters() {
        let dir = tempdir().unwrap();
        let text = "Hi.\tSalut !\tCC-BY 2.0\n\n\"Go\tVa \"là\"\r\n";
        let expected = [pair("Hi.", "Salut !"), pair("\"Go", "Va \"là\"")];
        assert_eq!(read_pairs(&write(&dir, "a.tsv", text.as_bytes())).unwrap(), expected);
        assert_eq!(read_pairs(&write(&dir, "a.txt.gz", &gzip(text.as_bytes()))).unwrap(), expected);
    }

    #[test]
    fn json_lines_carry_the_same() {
        let dir = tempdir().unwrap();
        let text = "{\"source\": \"Hi.\", \"target\": \"Salut\\t!\", \"id\": 3}\n\n";
        let read = read_pairs(&write(&dir, "a.jsonl.gz", &gzip(text.as_bytes()))).unwrap();
        assert_eq!(read, [pair("Hi.", "Salut\t!")]);
    }

    #[test]
    fn a_bad_line_is_named() {
        let dir = tempdir().unwrap();
        for (name, text, message) in [
            ("a.tsv", "a\tb\nno tab here\n", "line 2: expected source<TAB>target, found no tab in \"no tab here\""),
            ("a.tsv", "a\tb\n\nc\t \n", "line 3: expected source<TAB>target, found an empty column"),
            ("a.jsonl", "{\"source\": \"a\"}", "line 1: expected the key \"target\", found only \"source\""),
            ("a.jsonl", "{\"source\": 1, \"target\": \"b\"}", "expected text under \"source\", found \"1\""),
            (
                "a.jsonl",
                "{\"source\": \"a\", \"target\": \"b\"}\n[1]\n",
                "line 2: expected a JSON object, found \"[1]\"",
            ),
            ("a.jsonl", "{\"source\": \"a\"", "line 1: expected a JSON object"),
        ] {
            let error = read_pairs(&write(&dir, name, text.as_bytes())).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
