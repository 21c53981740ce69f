//! Rows of CSV and TSV, and references to columns.
//!
//! In CSV a field may be quoted and then hold separators, line ends and doubled quotes; a quote inside an unquoted field is
//! an ordinary character. A closing quote must be followed by a separator or a line end: otherwise the quote is a stray one,
//! and everything up to the next quote would become one field. In TSV a quote is an ordinary character.

use crate::DataError;
use crate::error::excerpt;
use crate::file::{TextFile, format_of};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// A column: its name in the header or its key in JSON Lines, or its number in a file without a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// The name in the header, or the key.
    Name(String),
    /// The number, from 1.
    Number(usize),
}

impl Column {
    /// The name, unless the column is given by number.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Number(_) => None,
        }
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

impl Serialize for Column {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Name(name) => serializer.serialize_str(name),
            Self::Number(number) => serializer.serialize_u64(*number as u64),
        }
    }
}

impl<'de> Deserialize<'de> for Column {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrNumber;
        impl Visitor<'_> for NameOrNumber {
            type Value = Column;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a column, or its number from 1")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Column, E> {
                match name.trim() {
                    "" => Err(E::invalid_value(de::Unexpected::Str(name), &self)),
                    name => Ok(Column::Name(name.to_string())),
                }
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Column, E> {
                match usize::try_from(number) {
                    Ok(number) if number > 0 => Ok(Column::Number(number)),
                    _ => Err(E::invalid_value(de::Unexpected::Unsigned(number), &self)),
                }
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Column, E> {
                let wrong = || E::invalid_value(de::Unexpected::Signed(number), &self);
                u64::try_from(number).map_err(|_| wrong()).and_then(|number| self.visit_u64(number))
            }
        }
        deserializer.deserialize_any(NameOrNumber)
    }
}

/// The character between two fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separator {
    Comma,
    /// Written by spreadsheets where the comma is the decimal separator.
    Semicolon,
    Tab,
}

impl Separator {
    /// Chooses the separator by the file's extension and first line.
    pub(crate) fn of(file: &TextFile) -> Self {
        let first = file.text().lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        match format_of(file.path()).as_str() {
            "tsv" => Self::Tab,
            "csv" if first.contains(';') && !first.contains(',') => Self::Semicolon,
            "csv" => Self::Comma,
            _ if first.contains('\t') => Self::Tab,
            _ if first.contains(';') && !first.contains(',') => Self::Semicolon,
            _ => Self::Comma,
        }
    }

    pub(crate) fn sign(self) -> char {
        match self {
            Self::Comma => ',',
            Self::Semicolon => ';',
            Self::Tab => '\t',
        }
    }

    fn quotes(self) -> bool {
        self != Self::Tab
    }
}

/// A row of a file.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    /// The first line of the row, from 1.
    pub(crate) line: usize,
    pub(crate) fields: Vec<Cow<'a, str>>,
    /// The row as written in the file.
    pub(crate) raw: &'a str,
}

/// Iterator over the rows of a file. Blank lines are skipped; the first error ends the iteration.
#[derive(Clone)]
pub(crate) struct Rows<'a> {
    file: &'a TextFile,
    separator: Separator,
    /// Offset of the next byte.
    at: usize,
    /// Number of the next line, from 1.
    line: usize,
}

impl<'a> Rows<'a> {
    pub(crate) fn of(file: &'a TextFile, separator: Separator) -> Self {
        Self { file, separator, at: 0, line: 1 }
    }

    /// The next row, which is not consumed.
    pub(crate) fn first(&self) -> Result<Option<Row<'a>>, DataError> {
        self.clone().next().transpose()
    }

    /// Reads a quoted field, whose opening quote is the next byte. It may span several lines.
    fn quoted(&mut self) -> Result<Cow<'a, str>, DataError> {
        let (text, opened) = (self.file.text(), self.line);
        let fail = |expected: &str, found: String| DataError::line(self.file.path(), opened, expected, found);
        let start = self.at + 1;
        let mut end = start;
        loop {
            let Some(quote) = text[end..].find('"') else {
                let expected = "a closing quote for the field that begins with a quote";
                return Err(fail(expected, "none up to the end of the file".into()));
            };
            end += quote;
            if !text[end + 1..].starts_with('"') {
                break;
            }
            end += 2;
        }
        let field = &text[start..end];
        let closed = opened + field.matches('\n').count();
        let after = text[end + 1..].chars().next();
        if after.is_some_and(|c| c != '\n' && c != self.separator.sign()) {
            let rest = text[end + 1..].lines().next().unwrap_or_default();
            let place = if closed == opened { String::new() } else { format!(" on line {closed}") };
            let found =
                format!("{}{place}; double the quotes inside a quoted field, or remove a stray one", excerpt(rest));
            return Err(fail("a separator or the end of the line after a closing quote", found));
        }
        (self.at, self.line) = (end + 1, closed);
        Ok(if field.contains('"') { Cow::Owned(field.replace("\"\"", "\"")) } else { Cow::Borrowed(field) })
    }

    fn row(&mut self) -> Result<Row<'a>, DataError> {
        let text = self.file.text();
        let (line, start) = (self.line, self.at);
        let mut fields = Vec::new();
        loop {
            if self.separator.quotes() && text[self.at..].starts_with('"') {
                fields.push(self.quoted()?);
            } else {
                let end = text[self.at..].find([self.separator.sign(), '\n']).map_or(text.len(), |at| self.at + at);
                fields.push(Cow::Borrowed(&text[self.at..end]));
                self.at = end;
            }
            // A field is followed by a separator, a line end or the end of the file.
            let ended = !text[self.at..].starts_with(self.separator.sign());
            let raw = &text[start..self.at];
            self.at = (self.at + 1).min(text.len());
            if ended {
                self.line += 1;
                return Ok(Row { line, fields, raw });
            }
        }
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Result<Row<'a>, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.file.text();
        while self.at < text.len() {
            let end = text[self.at..].find('\n').map_or(text.len(), |at| self.at + at);
            if !text[self.at..end].trim().is_empty() {
                let row = self.row();
                if row.is_err() {
                    self.at = text.len();
                }
                return Some(row);
            }
            (self.at, self.line) = (end + 1, self.line + 1);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::read_file;
    use crate::testing::write;
    use proptest::prelude::*;
    use tempfile::tempdir;

    fn rows(name: &str, text: &str) -> Result<Vec<(usize, Vec<String>)>, DataError> {
        let dir = tempdir().unwrap();
        let file = read_file(&write(&dir, name, text.as_bytes()))?;
        let owned = |row: Row| (row.line, row.fields.iter().map(ToString::to_string).collect());
        Rows::of(&file, Separator::of(&file)).map(|row| row.map(owned)).collect()
    }

    #[test]
    fn fields_and_lines() {
        let read = rows("a.csv", "a,\"b,\"\"c\"\"\nd\"\n\n5\" disk,\"\"\n,x").unwrap();
        let expected = [(1, ["a", "b,\"c\"\nd"]), (4, ["5\" disk", ""]), (5, ["", "x"])];
        assert_eq!(read, expected.map(|(line, fields)| (line, fields.map(String::from).to_vec())));
        assert_eq!(rows("a.txt", "a;b\n\"x;y\";z\n").unwrap()[1].1, ["x;y", "z"]);
        assert_eq!(rows("a.tsv", "\"a\tb\"\n").unwrap()[0].1, ["\"a", "b\""]);
    }

    #[test]
    fn a_stray_quote_is_named_with_the_line_that_opens_it() {
        for (text, line, found) in [
            ("a,b\nc,\"d\ne,f\n", 2, "none up to the end of the file"),
            ("a,b\n\"c\" d,e\n", 2, "\" d,e\""),
            ("a,b\n\"c,d\ne,f\ng,\"h\"\n", 2, "\"h\\\"\" on line 4"),
        ] {
            let error = rows("a.csv", text).unwrap_err().to_string();
            assert!(error.contains(&format!("line {line}: expected")) && error.contains(found), "{error}");
        }
    }

    #[test]
    fn columns_are_names_or_numbers() {
        let read = |json: &str| serde_json::from_str::<Column>(json);
        assert_eq!(read("2").unwrap(), Column::Number(2));
        assert_eq!(read("\"review\"").unwrap(), Column::Name("review".into()));
        for wrong in ["0", "-1", "1.5", "\"\"", "true"] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains("the name of a column, or its number from 1"), "{error}");
        }
        assert_eq!(serde_json::to_string(&[Column::Number(2), Column::Name("a".into())]).unwrap(), "[2,\"a\"]");
    }

    proptest! {
        #[test]
        fn quoted_fields_are_restored(fields in prop::collection::vec("[a,\"\n\t ]{0,6}", 1..4)) {
            let quoted: Vec<String> = fields.iter().map(|f| format!("\"{}\"", f.replace('"', "\"\""))).collect();
            let read = rows("a.csv", &format!("x,\n{}\n", quoted.join(","))).unwrap();
            prop_assert_eq!(&read[1].1, &fields);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[a,\"\n;]{1,40}") {
            let _ = rows("a.csv", &text);
        }
    }
}
