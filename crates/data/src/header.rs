//! Finds the text and label columns by the header or by number.

use crate::DataError;
use crate::columns::{Column, Row, Separator};
use crate::error::{counted, excerpt, listed};
use crate::labelled::{LabelColumn, LabelledColumns};
use std::path::Path;

/// The columns of the text and the label.
pub(crate) struct Places {
    /// Index of the text column.
    pub(crate) text: usize,
    /// Index of the label column.
    pub(crate) label: usize,
    pub(crate) column: LabelColumn,
    /// Number of fields in every row.
    pub(crate) width: usize,
}

pub(crate) fn check_width(path: &Path, row: &Row, width: usize, separator: Separator) -> Result<(), DataError> {
    if row.fields.len() == width {
        return Ok(());
    }
    let quoted = separator == Separator::Tab && row.raw.contains('"');
    let hint = if quoted { "; quotes have no meaning in a file with tabs: use .csv for quoted fields" } else { "" };
    let expected = format!("{} as in the first line", counted(width, "column"));
    Err(DataError::line(path, row.line, expected, format!("{}{hint}", counted(row.fields.len(), "column"))))
}

pub(crate) fn is_numbered(columns: &LabelledColumns) -> bool {
    [&columns.text, &columns.label].iter().any(|column| matches!(column, Some(Column::Number(_))))
}

/// Whether a line is the header of labelled texts.
pub(crate) fn is_header(line: &str) -> bool {
    let fields: Vec<&str> = line.split([',', ';', '\t']).map(|field| field.trim().trim_matches('"')).collect();
    let has = |name: &str| fields.iter().any(|field| is_named(field, name));
    has("text") && LabelColumn::ALL.iter().any(|column| has(column.name()))
}

pub(crate) fn is_named(field: &str, name: &str) -> bool {
    field.trim().eq_ignore_ascii_case(name)
}

/// The index of a column in the header, by name. A name that occurs twice is refused.
pub(crate) fn place(path: &Path, header: &Row, name: &str) -> Result<Option<usize>, DataError> {
    let mut places = (0..header.fields.len()).filter(|&at| is_named(&header.fields[at], name));
    match (places.next(), places.next()) {
        (Some(_), Some(second)) => {
            let found = format!("another as column {}", second + 1);
            Err(DataError::line(path, header.line, format!("one column {name} in the header"), found))
        }
        (first, _) => Ok(first),
    }
}

/// The index of a column by its number, from 1.
pub(crate) fn numbered(path: &Path, first: &Row, field: &str, number: usize) -> Result<usize, DataError> {
    match number <= first.fields.len() {
        true => Ok(number - 1),
        false => {
            let found = counted(first.fields.len(), "column");
            Err(DataError::line(path, first.line, format!("a column {number} ({field})"), found))
        }
    }
}

pub(crate) fn no_header(path: &Path, header: &Row, expected: String) -> DataError {
    let found = excerpt(&header.fields.iter().map(|field| field.trim()).collect::<Vec<_>>().join(", "));
    let hint = "choose other columns with --set data.text=… --set data.label=…, by number if the file has no header";
    DataError::line(path, header.line, expected, format!("{found}; {hint}"))
}

/// Finds the text and label columns by the settings and the first row. Also returns a note about unused columns.
pub(crate) fn places(path: &Path, first: &Row, columns: &LabelledColumns) -> Result<(Places, Vec<String>), DataError> {
    let width = first.fields.len();
    let name = |column: &Option<Column>| column.as_ref().and_then(Column::name).map(str::to_string);
    let (text, label, column) = match (&columns.text, &columns.label) {
        (Some(Column::Number(text)), Some(Column::Number(label))) => {
            let (text, label) =
                (numbered(path, first, "data.text", *text)?, numbered(path, first, "data.label", *label)?);
            if is_named(&first.fields[text], "text") {
                let found = "a header; name its columns instead of numbering them";
                return Err(DataError::line(path, first.line, "an example, in a file without a header", found));
            }
            (text, label, LabelColumn::Label)
        }
        (Some(Column::Number(_)), _) | (_, Some(Column::Number(_))) => {
            let expected = "both numbers, in a file without a header, or both names".into();
            let shown = |column: &Option<Column>| column.as_ref().map_or("nothing".into(), ToString::to_string);
            let found = format!("{} and {}", shown(&columns.text), shown(&columns.label));
            return Err(DataError::Setting { field: "data.text and data.label", expected, found });
        }
        (text, label) => {
            let text_name = name(text).unwrap_or_else(|| "text".to_string());
            let mut labels = Vec::new();
            match name(label) {
                Some(label) => labels.extend(place(path, first, &label)?.map(|at| (at, LabelColumn::Label))),
                None => {
                    for column in LabelColumn::ALL {
                        labels.extend(place(path, first, column.name())?.map(|at| (at, column)));
                    }
                }
            }
            let label_name = name(label).unwrap_or_else(|| "one of label, labels, value".to_string());
            match (place(path, first, &text_name)?, &labels[..]) {
                (Some(text), &[(label, column)]) => (text, label, column),
                (Some(_), [_, _, ..]) => {
                    let found = excerpt(&first.fields.join(", "));
                    let expected = "only one of label, labels, value in the header, or --set data.label=NAME";
                    return Err(DataError::line(path, first.line, expected, found));
                }
                _ => {
                    let expected = format!("a header with {text_name} and {label_name}");
                    return Err(no_header(path, first, expected));
                }
            }
        }
    };
    let rest: Vec<String> = (0..width)
        .filter(|at| ![text, label].contains(at))
        .map(|at| match is_numbered(columns) {
            true => (at + 1).to_string(),
            false => first.fields[at].trim().to_string(),
        })
        .collect();
    let note = || format!("{}: unused columns: {}", path.display(), listed(&rest));
    let notes = if rest.is_empty() { Vec::new() } else { vec![note()] };
    Ok((Places { text, label, column, width }, notes))
}
