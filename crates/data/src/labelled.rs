//! Texts with a label: CSV or TSV with a header, or JSON lines. The label is kept as it is written; the task reads it
//! as one class, several or a number.

use crate::error::{counted, excerpt};
use crate::file::{TextFile, format_of, is_jsonl, read_file};
use crate::{DataError, Source, Splits, jsonl, load_splits};
use serde_json::Value;
use std::path::Path;

/// A text and what is said about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Labelled {
    /// The text.
    pub text: String,
    /// A class, several parted by `|`, or a number.
    pub label: String,
    /// Where the label stood.
    pub column: LabelColumn,
    /// The line of its file, from 1; none of an example that is from no file.
    pub line: Option<usize>,
}

impl Labelled {
    /// An example from no file.
    pub fn new(text: impl Into<String>, label: impl Into<String>) -> Self {
        Self { text: text.into(), label: label.into(), column: LabelColumn::Label, line: None }
    }
}

/// The column or key that a label is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelColumn {
    /// `label`: usually one class.
    Label,
    /// `labels`: any number of classes.
    Labels,
    /// `value`: a number.
    Value,
}

impl LabelColumn {
    const ALL: [Self; 3] = [Self::Label, Self::Labels, Self::Value];

    /// As a file writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Labels => "labels",
            Self::Value => "value",
        }
    }
}

/// Reads labelled texts. The header has `text` and one of `label`, `labels`, `value`; other columns are left out.
/// In CSV a field may be quoted and so hold commas and line ends; in TSV a quote is a letter like any other.
/// In JSON lines the label is a string, a number or a list of strings. Only `labels` may be empty: no class applies.
///
/// # Errors
/// What [`read_file`] refuses; a header without these columns; a line with another number of columns than the header;
/// an empty field; a quote that is never closed.
pub fn read_labelled(path: &Path) -> Result<Vec<Labelled>, DataError> {
    let file = read_file(path)?;
    let examples = if is_jsonl(path) { from_jsonl(&file) } else { from_columns(&file) }?;
    if examples.is_empty() {
        return Err(DataError::Empty { path: path.to_path_buf(), expected: "labelled texts after the header" });
    }
    Ok(examples)
}

/// The parts of a data set of labelled texts, by the hash of the text.
///
/// # Errors
/// Those of [`read_labelled`] and [`load_splits`].
pub fn load_labelled(source: &Source) -> Result<Splits<Labelled>, DataError> {
    load_splits(&source.path, source.fold, read_labelled, |example| &example.text)
}

fn from_jsonl(file: &TextFile) -> Result<Vec<Labelled>, DataError> {
    jsonl::records(file)
        .map(|record| {
            let record = record?;
            let text = record.text("text")?.trim().to_string();
            let present: Vec<_> =
                LabelColumn::ALL.iter().filter_map(|&column| Some((column, record.get(column.name())?))).collect();
            let (column, value) = match present[..] {
                [one] => one,
                [] => return Err(record.error("one of the keys label, labels, value", record.keys())),
                _ => return Err(record.error("only one of the keys label, labels, value", record.keys())),
            };
            let wrong = || record.error("a string, a number or a list of strings", excerpt(&value.to_string()));
            let label = match value {
                Value::String(label) => label.trim().to_string(),
                Value::Number(number) => number.to_string(),
                Value::Array(labels) => joined(labels).ok_or_else(wrong)?,
                _ => return Err(wrong()),
            };
            if label.is_empty() && column != LabelColumn::Labels {
                return Err(record.error(format!("a {}", column.name()), "an empty one"));
            }
            Ok(Labelled { text, label, column, line: Some(record.line) })
        })
        .collect()
}

/// The labels of a list in one string; none with the sign that parts them.
fn joined(labels: &[Value]) -> Option<String> {
    let labels: Option<Vec<&str>> =
        labels.iter().map(|label| label.as_str().filter(|l| !l.contains('|') && !l.trim().is_empty())).collect();
    Some(labels?.join("|"))
}

fn from_columns(file: &TextFile) -> Result<Vec<Labelled>, DataError> {
    let header_line = file.text().lines().find(|line| !line.is_empty()).unwrap_or_default();
    let tabs = match format_of(file.path()).as_str() {
        "tsv" => true,
        "csv" => false,
        _ => header_line.contains('\t'),
    };
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(if tabs { b'\t' } else { b',' })
        .quoting(!tabs)
        .from_reader(file.text().as_bytes());
    let header = reader.headers().map_err(|e| csv_error(file, &e))?.clone();
    let (text_at, label_at, column) = columns(file.path(), &header)?;
    let mut examples = Vec::new();
    let mut last_start = 0;
    for record in reader.records() {
        let record = record.map_err(|e| csv_error(file, &e))?;
        let position = record.position().cloned().unwrap_or_else(csv::Position::new);
        last_start = position.byte() as usize;
        let line = position.line() as usize;
        let (text, label) = (record[text_at].trim(), record[label_at].trim());
        if text.is_empty() {
            return Err(DataError::line(file.path(), line, "a text", "an empty field"));
        }
        if label.is_empty() && column != LabelColumn::Labels {
            return Err(DataError::line(file.path(), line, format!("a {}", column.name()), "an empty field"));
        }
        examples.push(Labelled { column, line: Some(line), ..Labelled::new(text, label) });
    }
    // The parser takes the end of the file for the end of an open quote, and all lines in between for one field.
    let last = file.text().get(last_start..).unwrap_or_default();
    if !tabs && last.trim().contains('\n') && last.matches('"').count() % 2 == 1 {
        let line = file.text()[..last_start].matches('\n').count() + 1;
        return Err(DataError::line(file.path(), line, "a closing quote", "none up to the end of the file"));
    }
    Ok(examples)
}

/// Where the text and the label stand, and what the label's column is called.
fn columns(path: &Path, header: &csv::StringRecord) -> Result<(usize, usize, LabelColumn), DataError> {
    let position = |name: &str| header.iter().position(|h| h.trim().eq_ignore_ascii_case(name));
    let labels: Vec<(usize, LabelColumn)> =
        LabelColumn::ALL.iter().filter_map(|&column| Some((position(column.name())?, column))).collect();
    let found = || excerpt(&header.iter().collect::<Vec<_>>().join(", "));
    match (position("text"), &labels[..]) {
        (Some(text), &[(label, column)]) => Ok((text, label, column)),
        (Some(_), [_, _, ..]) => {
            Err(DataError::line(path, 1, "only one of label, labels, value in the header", found()))
        }
        _ => Err(DataError::line(path, 1, "a header with text and one of label, labels, value", found())),
    }
}

fn csv_error(file: &TextFile, error: &csv::Error) -> DataError {
    let line = error.position().map_or(1, |p| p.line() as usize);
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            let expected = format!("{} as in the header", counted(*expected_len as usize, "column"));
            DataError::line(file.path(), line, expected, counted(*len as usize, "column"))
        }
        _ => DataError::line(file.path(), line, "columns", error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{gzip, write};
    use tempfile::tempdir;

    fn whole(name: &str, text: &str) -> Result<Vec<Labelled>, DataError> {
        let dir = tempdir().unwrap();
        let content = if name.ends_with(".gz") { gzip(text.as_bytes()) } else { text.as_bytes().to_vec() };
        read_labelled(&write(&dir, name, &content))
    }

    fn read(name: &str, text: &str) -> Result<Vec<(String, String)>, DataError> {
        Ok(whole(name, text)?.into_iter().map(|example| (example.text, example.label)).collect())
    }

    fn labelled(text: &str, label: &str) -> (String, String) {
        (text.into(), label.into())
    }

    #[test]
    fn an_example_knows_its_line_and_column() {
        let places = |name: &str, text: &str| -> Vec<_> {
            whole(name, text).unwrap().into_iter().map(|example| (example.line, example.column)).collect()
        };
        let value = LabelColumn::Value;
        assert_eq!(places("a.csv", "VALUE,text\n1,\"a\nb\"\n2,c\n"), [(Some(2), value), (Some(4), value)]);
        let lines = "\n{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \"b\", \"labels\": []}\n";
        assert_eq!(places("a.jsonl", lines), [(Some(2), LabelColumn::Label), (Some(3), LabelColumn::Labels)]);
    }

    #[test]
    fn csv_with_quotes_and_columns_in_any_order() {
        let text = "id,Label,text\n1,pos,\"good, \"\"very\"\"\ngood\"\n2,neg,bad\n";
        let expected = [labelled("good, \"very\"\ngood", "pos"), labelled("bad", "neg")];
        assert_eq!(read("a.csv", text).unwrap(), expected);
        assert_eq!(read("a.csv.gz", text).unwrap(), expected);
        assert_eq!(read("a.txt", text).unwrap(), expected);
    }

    #[test]
    fn a_quote_in_tsv_is_a_letter() {
        let text = "text\tvalue\n\"open, only\t0.5\nplain\t-1\n";
        let expected = [labelled("\"open, only", "0.5"), labelled("plain", "-1")];
        assert_eq!(read("a.tsv", text).unwrap(), expected);
        assert_eq!(read("a.txt.gz", text).unwrap(), expected);
    }

    #[test]
    fn json_lines_with_each_kind_of_label() {
        let text = "{\"text\": \" a \", \"label\": \"pos\"}\n{\"text\": \"b\", \"value\": 1.5}\n\
                    {\"text\": \"c\", \"labels\": [\"x\", \"y\"]}\n{\"text\": \"d\", \"labels\": []}\n";
        let expected = [labelled("a", "pos"), labelled("b", "1.5"), labelled("c", "x|y"), labelled("d", "")];
        assert_eq!(read("a.jsonl", text).unwrap(), expected);
    }

    #[test]
    fn a_bad_line_is_named() {
        for (name, text, message) in [
            ("a.csv", "texts,label\na,b\n", "line 1: expected a header with text and one of label, labels, value"),
            ("a.csv", "text,label,value\na,b,1\n", "line 1: expected only one of label"),
            ("a.csv", "text,label\na,b\nc\n", "line 3: expected 2 columns as in the header, found 1 column"),
            (
                "a.csv",
                "text,label\n\"a\nb\",x\nc,d,e\n",
                "line 4: expected 2 columns as in the header, found 3 columns",
            ),
            ("a.csv", "text,label\na,b\n ,c\n", "line 3: expected a text, found an empty field"),
            ("a.csv", "text,label\na,\n", "line 2: expected a label, found an empty field"),
            ("a.csv", "label,text\na,b\nc,\"open\nd,e\n", "line 3: expected a closing quote"),
            ("a.csv", "text,label\n", "expected labelled texts after the header, found nothing"),
            (
                "a.jsonl",
                "{\"text\": \"a\"}",
                "line 1: expected one of the keys label, labels, value, found only \"text\"",
            ),
            ("a.jsonl", "{\"label\": \"a\"}", "line 1: expected the key \"text\""),
            (
                "a.jsonl",
                "{\"text\": \"a\", \"label\": true}",
                "line 1: expected a string, a number or a list of strings",
            ),
            ("a.jsonl", "{\"text\": \"a\", \"labels\": [\"x|y\"]}", "line 1: expected a string, a number or a list"),
            ("a.jsonl", "{\"text\": \"a\", \"label\": \"\"}", "line 1: expected a label, found an empty one"),
        ] {
            let error = read(name, text).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        assert_eq!(read("a.csv", "text,labels\na,\n").unwrap(), [labelled("a", "")]);
    }
}
