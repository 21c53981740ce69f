//! Labelled texts: CSV or TSV with a header, or JSON Lines. The label is kept as written; the task reads it as one
//! class, several classes or a number.

use crate::columns::{Column, Row, Rows, Separator};
use crate::error::excerpt;
use crate::file::{TextFile, first_line, format_of, is_jsonl, read_file};
use crate::folder::Files;
use crate::header::{Places, check_width, is_header, is_numbered, no_header, numbered, place, places};
use crate::split::load_splits;
use crate::{DataError, Loaded, Source, Splits, hash, jsonl};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// A text and its label.
#[derive(Clone, Debug, PartialEq)]
pub struct Labelled {
    /// The text.
    pub text: String,
    /// A class, several classes separated by `|`, or a number.
    pub label: String,
    /// The column that the label was read from.
    pub column: LabelColumn,
    /// The line in the file, from 1; none if the example is not from a file.
    pub line: Option<usize>,
}

impl Labelled {
    /// An example that is not from a file.
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
    pub(crate) const ALL: [Self; 3] = [Self::Label, Self::Labels, Self::Value];

    /// The name of the column in a header or of the key in JSON Lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Labels => "labels",
            Self::Value => "value",
        }
    }
}

/// The columns or keys that texts and labels are read from. By default they are `text` and one of `label`, `labels`
/// and `value`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelledColumns {
    /// The column of the text.
    pub text: Option<Column>,
    /// The column of the label.
    pub label: Option<Column>,
}

/// Reads labelled texts. The header names the [`columns`](LabelledColumns); other columns are ignored with a note. If the
/// columns are given by number, the file has no header. In CSV a field may be quoted and then hold commas and line ends; in
/// TSV a quote is an ordinary character. In JSON Lines the label is a string, a number or a list of strings. Only `labels`
/// may be empty, which means that no class applies.
///
/// # Errors
/// The errors of [`read_file`]; a header that lacks one of these columns or has it twice; a line whose number of columns differs
/// from the header's; an empty field; a stray quote; a duplicate key.
pub fn read_labelled(path: &Path, columns: &LabelledColumns) -> Result<Loaded<Labelled>, DataError> {
    let file = read_file(path)?;
    let loaded = if is_jsonl(path) { from_jsonl(&file, columns) } else { from_columns(&file, columns) }?;
    if loaded.examples.is_empty() {
        return Err(DataError::Empty { path: path.to_path_buf(), expected: "labelled texts after the header" });
    }
    Ok(loaded)
}

/// Reads only the texts of a CSV or TSV file, labelled or not, as inputs for a model. Returns `None` for JSON Lines and for
/// plain text, whose first line is not a header.
///
/// # Errors
/// The errors of [`read_labelled`], except errors about labels.
pub fn read_texts(path: &Path, columns: &LabelledColumns) -> Result<Option<Vec<String>>, DataError> {
    let is_table = matches!(format_of(path).as_str(), "csv" | "tsv");
    if is_jsonl(path) || !is_table && !is_header(&first_line(path)?) {
        return Ok(None);
    }
    let file = read_file(path)?;
    let separator = Separator::of(&file);
    let mut rows = Rows::of(&file, separator);
    let Some(first) = &rows.first()? else { return Ok(Some(Vec::new())) };
    let width = first.fields.len();
    let text_at = match &columns.text {
        Some(Column::Number(number)) => numbered(path, first, "data.text", *number)?,
        column => {
            let name = column.as_ref().and_then(Column::name).unwrap_or("text");
            // A model may have been trained on columns with other names.
            let Some(at) = place(path, first, name)?.or(place(path, first, "text")?) else {
                return Err(no_header(path, first, format!("a header with {name}")));
            };
            rows.next();
            at
        }
    };
    let text = |row: Result<Row, DataError>| {
        let row = row?;
        check_width(path, &row, width, separator)?;
        Ok(row.fields[text_at].trim().to_string())
    };
    rows.map(text).collect::<Result<_, _>>().map(Some)
}

/// Reads a data set of labelled texts and splits it by the hash of the text.
///
/// # Errors
/// The errors of [`read_labelled`], or a data set that cannot be split.
pub fn load_labelled(source: &Source, columns: &LabelledColumns) -> Result<Splits<Labelled>, DataError> {
    let files = Files::of_one(&source.path)?;
    load_splits(source, files, |files| read_labelled(&files[0], columns), |example| hash(example.text.as_bytes()))
}

fn from_jsonl(file: &TextFile, columns: &LabelledColumns) -> Result<Loaded<Labelled>, DataError> {
    let text_key = jsonl::key("data.text", &columns.text)?.unwrap_or("text");
    let label_key = jsonl::key("data.label", &columns.label)?;
    let mut unused = jsonl::Unused::default();
    let mut examples = Vec::new();
    for record in jsonl::records(file) {
        let record = record?;
        let text = record.text(text_key)?.trim().to_string();
        let (column, name, value) = match label_key {
            Some(key) => match record.get(key) {
                Some(value) => (LabelColumn::Label, key, value),
                None => return Err(record.error(format!("the key {key:?}"), record.keys())),
            },
            None => {
                let present = LabelColumn::ALL.iter().filter_map(|&c| Some((c, c.name(), record.get(c.name())?)));
                match present.collect::<Vec<_>>()[..] {
                    [one] => one,
                    [] => return Err(record.error("one of the keys label, labels, value", record.keys())),
                    _ => return Err(record.error("only one of the keys label, labels, value", record.keys())),
                }
            }
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
        unused.add(&record, &[text_key, name]);
        examples.push(Labelled { text, label, column, line: Some(record.line) });
    }
    Ok(Loaded { examples, notes: unused.note(file.path()).into_iter().collect() })
}

/// Joins a list of labels with `|`. Returns `None` if one is blank, contains `|` or is not a string.
fn joined(labels: &[Value]) -> Option<String> {
    let labels: Option<Vec<&str>> =
        labels.iter().map(|label| label.as_str().filter(|l| !l.contains('|') && !l.trim().is_empty())).collect();
    Some(labels?.join("|"))
}

fn from_columns(file: &TextFile, columns: &LabelledColumns) -> Result<Loaded<Labelled>, DataError> {
    let (path, separator) = (file.path(), Separator::of(file));
    let mut rows = Rows::of(file, separator);
    let Some(first) = &rows.first()? else { return Ok(Loaded::default()) };
    let (places, notes) = places(path, first, columns)?;
    if !is_numbered(columns) {
        rows.next();
    }
    let mut examples = Vec::new();
    // Rows that span several lines, with the index of their example.
    let mut long: Vec<(usize, &str)> = Vec::new();
    for row in rows {
        let row = row?;
        check_width(path, &row, places.width, separator)?;
        let (text, label) = (row.fields[places.text].trim(), row.fields[places.label].trim());
        if text.is_empty() {
            return Err(DataError::line(path, row.line, "a text", "an empty field"));
        }
        if label.is_empty() && places.column != LabelColumn::Labels {
            return Err(DataError::line(path, row.line, format!("a {}", places.column.name()), "an empty field"));
        }
        if row.raw.contains('\n') {
            long.push((examples.len(), row.raw));
        }
        examples.push(Labelled { column: places.column, line: Some(row.line), ..Labelled::new(text, label) });
    }
    check_long(path, &places, separator, &examples, &long)?;
    Ok(Loaded { examples, notes })
}

/// Refuses a row that spans several lines if each line is a row by itself with a label that other rows have: two stray
/// quotes have then joined them into one field.
fn check_long(
    path: &Path,
    places: &Places,
    separator: Separator,
    examples: &[Labelled],
    long: &[(usize, &str)],
) -> Result<(), DataError> {
    let is_long: BTreeSet<usize> = long.iter().map(|(at, _)| *at).collect();
    let short = examples.iter().enumerate().filter(|(at, _)| !is_long.contains(at));
    let labels: BTreeSet<&str> =
        if long.is_empty() { BTreeSet::new() } else { short.map(|(_, e)| &*e.label).collect() };
    for (at, raw) in long {
        let is_number = examples[*at].label.parse::<f64>().is_ok();
        let is_row = |line: &str| {
            let fields: Vec<&str> = line.split(separator.sign()).collect();
            let label = fields.get(places.label).map_or("", |field| field.trim().trim_matches('"').trim());
            fields.len() == places.width && (labels.contains(label) || is_number && label.parse::<f64>().is_ok())
        };
        let lines: Vec<&str> = raw.lines().filter(|line| !line.trim().is_empty()).collect();
        if lines.len() > 1 && lines.iter().all(|line| is_row(line)) {
            let found = format!("{} lines up to the next quote that are rows by themselves", lines.len());
            let line = examples[*at].line.unwrap_or(1);
            return Err(DataError::line(path, line, "a closing quote on the same line", found));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{gzip, write};
    use tempfile::tempdir;

    fn whole(name: &str, text: &str) -> Result<Vec<Labelled>, DataError> {
        let dir = tempdir().unwrap();
        let content = if name.ends_with(".gz") { gzip(text.as_bytes()) } else { text.as_bytes().to_vec() };
        Ok(read_labelled(&write(&dir, name, &content), &LabelledColumns::default())?.examples)
    }

    /// Reads with other columns, by name or by number.
    fn read_by(name: &str, text: &str, columns: [&str; 2]) -> Result<Loaded<Labelled>, DataError> {
        let dir = tempdir().unwrap();
        let [text_column, label] = columns.map(|column| match column.parse() {
            Ok(number) => Some(Column::Number(number)),
            Err(_) => (!column.is_empty()).then(|| Column::Name(column.into())),
        });
        read_labelled(&write(&dir, name, text.as_bytes()), &LabelledColumns { text: text_column, label })
    }

    fn read(name: &str, text: &str) -> Result<Vec<(String, String)>, DataError> {
        Ok(whole(name, text)?.into_iter().map(|example| (example.text, example.label)).collect())
    }

    fn labelled(text: &str, label: &str) -> (String, String) {
        (text.into(), label.into())
    }

    #[test]
    fn an_example_holds_its_line_and_column() {
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
    fn a_quote_in_tsv_is_an_ordinary_character() {
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
    fn two_stray_quotes_do_not_swallow_rows() {
        let rows: String = (0..134).map(|n| format!("text {n},{}\n", ["pos", "neg"][n % 2])).collect();
        let swallowed = format!("text,label\nfirst,pos\n\"oops,neg\n{rows}the end\",pos\nlast,neg\n");
        let error = read("a.csv", &swallowed).unwrap_err().to_string();
        assert!(error.contains("line 3: expected a closing quote on the same line, found 136 lines"), "{error}");
        let turned = "value,text\n1,\"oops\n2,b\n3.5,c\"\n";
        assert!(read("a.csv", turned).unwrap_err().to_string().contains("line 2: expected a closing quote"));
        // A text whose lines happen to contain commas.
        let verse = "text,label\n\"so, what\nnow, then\",pos\nb,neg\n";
        assert_eq!(read("a.csv", verse).unwrap()[0], labelled("so, what\nnow, then", "pos"));
    }

    #[test]
    fn columns_by_name_and_by_number() {
        let pair = |loaded: Loaded<Labelled>| {
            loaded.examples.into_iter().map(|e| labelled(&e.text, &e.label)).collect::<Vec<_>>()
        };
        let expected = [labelled("good", "5"), labelled("bad", "1")];
        let named = read_by("a.csv", "Stars,review,id\n5,good,x\n1,bad,y\n", ["review", "stars"]).unwrap();
        assert!(named.notes[0].ends_with("a.csv: unused columns: id"), "{:?}", named.notes);
        assert_eq!(pair(named), expected);
        let numbered = read_by("a.tsv", "5\tx\tgood\n1\ty\tbad\n", ["3", "1"]).unwrap();
        assert!(numbered.notes[0].ends_with("columns: 2"), "{:?}", numbered.notes);
        assert_eq!(pair(numbered), expected);
        let json = "{\"review\": \"good\", \"stars\": 5, \"id\": 1}\n{\"review\": \"bad\", \"stars\": 1}\n";
        let keyed = read_by("a.jsonl", json, ["review", "stars"]).unwrap();
        assert!(keyed.notes[0].ends_with("unused keys: id"), "{:?}", keyed.notes);
        assert_eq!(pair(keyed), expected);
        for (name, text, columns, message) in [
            ("a.csv", "text,label\na,b\n", ["review", ""], "line 1: expected a header with review and one of label"),
            ("a.csv", "good,5\nbad,1\n", ["", ""], "by number if the file has no header"),
            ("a.csv", "good,5\n", ["1", ""], "expected both numbers"),
            ("a.csv", "good,5\n", ["1", "3"], "line 1: expected a column 3 (data.label), found 2 columns"),
            ("a.csv", "text,label\ngood,5\n", ["1", "2"], "found a header; name its columns"),
            ("a.jsonl", "{\"text\": \"a\"}", ["1", "2"], "data.text: expected the name of a key"),
        ] {
            let error = read_by(name, text, columns).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn texts_are_read_with_or_without_labels() {
        let dir = tempdir().unwrap();
        let read =
            |name: &str, text: &str| read_texts(&write(&dir, name, text.as_bytes()), &LabelledColumns::default());
        for (name, text) in [
            ("a.csv", "id,text\n1,\"a, b\"\n2,c\n"),
            ("a.tsv", "text\n\na, b\nc\n"),
            ("a.txt", "text;label\na, b;x\nc;y\n"),
        ] {
            assert_eq!(read(name, text).unwrap().unwrap(), ["a, b", "c"], "{name}");
        }
        for (name, text) in [("a.txt", "plain text, nothing else\n"), ("a.jsonl", "{}"), ("a.txt", "\"open\n")] {
            assert_eq!(read(name, text).unwrap(), None, "{name}");
        }
        assert!(read("a.csv", "texts\na\n").is_err());
    }

    #[test]
    fn a_bad_line_is_named() {
        for (name, text, message) in [
            ("a.csv", "texts,label\na,b\n", "line 1: expected a header with text and one of label, labels, value"),
            ("a.csv", "text,label,value\na,b,1\n", "line 1: expected only one of label"),
            ("a.csv", "text,label\na,b\nc\n", "line 3: expected 2 columns as in the first line, found 1 column"),
            (
                "a.csv",
                "text,label\n\"a\nb\",x\nc,d,e\n",
                "line 4: expected 2 columns as in the first line, found 3 columns",
            ),
            ("a.csv", "text,label\na,b\n ,c\n", "line 3: expected a text, found an empty field"),
            ("a.csv", "text,label\na,\n", "line 2: expected a label, found an empty field"),
            ("a.csv", "label,text\na,b\nc,\"open\nd,e\n", "line 3: expected a closing quote"),
            (
                "a.csv",
                "text,label,text\na,b,c\n",
                "line 1: expected one column text in the header, found another as column 3",
            ),
            ("a.tsv", "text\tlabel\n\"a\nb\"\tc\n", "use .csv for quoted fields"),
            ("a.jsonl", "{\"text\": \"a\", \"text\": \"b\", \"label\": \"c\"}", "the key \"text\" comes twice"),
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
