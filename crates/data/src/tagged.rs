//! Tagged sentences: CoNLL-U, or lines of `token<TAB>tag` with a blank line between sentences.

use crate::error::{counted, excerpt};
use crate::file::{TextFile, first_line, format_of, read_file};
use crate::folder::Files;
use crate::split::load_splits;
use crate::{DataError, Loaded, Source, Splits, hash};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A sentence and the tag of each of its words.
#[derive(Clone, Debug, PartialEq)]
pub struct Tagged {
    /// The words.
    pub tokens: Vec<String>,
    /// A tag for each word.
    pub tags: Vec<String>,
}

/// The CoNLL-U column that holds the tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TagColumn {
    /// Universal parts of speech, the fourth column.
    #[default]
    Upos,
    /// Language-specific tags, the fifth column.
    Xpos,
}

impl TagColumn {
    /// The index of the column, from 0.
    fn place(self) -> usize {
        match self {
            Self::Upos => 3,
            Self::Xpos => 4,
        }
    }
}

const CONLLU_COLUMNS: usize = 10;

/// Reads tagged sentences. A `.conllu` file or one whose first line has ten columns is CoNLL-U: comments, ranges of
/// multiword tokens (`1-2`) and empty nodes (`1.1`) are skipped. Any other file has two columns, and `column` is ignored.
///
/// # Errors
/// The errors of [`read_file`]; a line with a wrong number of columns or an empty column; a file without any tags.
pub fn read_tagged(path: &Path, column: TagColumn) -> Result<Vec<Tagged>, DataError> {
    let file = read_file(path)?;
    let sentences = if is_conllu(&file) {
        sentences(&file, |f, n, l| conllu(f, n, l, column))
    } else {
        sentences(&file, two_columns)
    }?;
    if sentences.is_empty() {
        return Err(DataError::Empty { path: path.to_path_buf(), expected: "tagged sentences" });
    }
    if sentences.iter().all(|s| s.tags.iter().all(|tag| tag == "_")) {
        return Err(DataError::line(path, 1, format!("tags in the column {column:?}"), "only _ in the whole file"));
    }
    Ok(sentences)
}

/// Reads a data set of tagged sentences and splits it by the hash of their words.
///
/// # Errors
/// The errors of [`read_tagged`], or a data set that cannot be split.
pub fn load_tagged(source: &Source, column: TagColumn) -> Result<Splits<Tagged>, DataError> {
    let by_words = |sentence: &Tagged| hash(sentence.tokens.join(" ").as_bytes());
    let read = |files: &[PathBuf]| Ok(Loaded { examples: read_tagged(&files[0], column)?, notes: Vec::new() });
    load_splits(source, Files::of_one(&source.path)?, read, by_words)
}

/// A file of tokenised sentences, tagged or not, that can be written with other tags.
#[derive(Clone, Debug, PartialEq)]
pub struct Untagged {
    sentences: Vec<Sentence>,
    /// Index of the tag column in CoNLL-U; `None` in other files, where it is the second.
    column: Option<usize>,
}

/// A sentence with its lines in the file.
#[derive(Clone, Debug, PartialEq)]
struct Sentence {
    tokens: Vec<String>,
    /// Each line, and whether it holds a word.
    lines: Vec<(String, bool)>,
}

impl Untagged {
    /// Reads CoNLL-U, lines of `token<TAB>tag`, or a `.tsv` file of tokens alone. Returns `None` for any other file, which is
    /// plain text.
    ///
    /// # Errors
    /// The errors of [`read_file`]; a line with a wrong number of columns.
    pub fn read(path: &Path, column: TagColumn) -> Result<Option<Self>, DataError> {
        let (first, format) = (first_line(path)?, format_of(path));
        let is_table = first.contains('\t') || format == "tsv";
        if !is_table && format != "conllu" && !first.starts_with('#') {
            return Ok(None);
        }
        let file = read_file(path)?;
        let column = match is_conllu(&file) {
            true => Some(column.place()),
            false if is_table => None,
            false => return Ok(None),
        };
        let mut sentences = Vec::new();
        let mut current = Sentence { tokens: Vec::new(), lines: Vec::new() };
        for (number, line) in file.lines().chain([(0, "")]) {
            if !line.trim().is_empty() {
                let word = match column {
                    Some(_) => conllu_columns(&file, number, line)?.map(|columns| columns[1]),
                    None => Some(line.split('\t').next().unwrap_or_default().trim()),
                };
                if word.is_some_and(str::is_empty) || column.is_none() && line.split('\t').count() > 2 {
                    return Err(DataError::line(path, number, "token<TAB>tag, or a token", excerpt(line)));
                }
                current.lines.push((line.to_string(), word.is_some()));
                current.tokens.extend(word.map(str::to_string));
            } else if !current.tokens.is_empty() {
                let next = Sentence { tokens: Vec::new(), lines: Vec::new() };
                sentences.push(std::mem::replace(&mut current, next));
            }
        }
        match sentences.is_empty() {
            true => Err(DataError::Empty { path: path.to_path_buf(), expected: "sentences" }),
            false => Ok(Some(Self { sentences, column })),
        }
    }

    /// The words of each sentence.
    pub fn sentences(&self) -> impl Iterator<Item = &[String]> {
        self.sentences.iter().map(|sentence| sentence.tokens.as_slice())
    }

    /// Writes a sentence as in the file, but with these tags, and a blank line after it. A missing tag is written as `_`.
    ///
    /// # Panics
    /// If `sentence` is out of range.
    pub fn written<S: AsRef<str>>(&self, sentence: usize, tags: &[S]) -> String {
        let mut tags = tags.iter().map(AsRef::as_ref);
        let mut text = String::new();
        for (line, is_word) in &self.sentences[sentence].lines {
            let mut columns: Vec<&str> = line.split('\t').collect();
            if *is_word {
                let at = self.column.unwrap_or(1);
                columns.resize(columns.len().max(at + 1), "_");
                columns[at] = tags.next().unwrap_or("_");
            }
            text += &columns.join("\t");
            text.push('\n');
        }
        text.push('\n');
        text
    }
}

fn is_conllu(file: &TextFile) -> bool {
    let first = file.lines().map(|(_, line)| line).find(|line| !line.trim().is_empty() && !line.starts_with('#'));
    format_of(file.path()) == "conllu" || first.is_some_and(|line| line.split('\t').count() == CONLLU_COLUMNS)
}

/// Collects the words between blank lines. `word` returns the token and tag of a line, or `None` if the line has no word.
fn sentences(
    file: &TextFile,
    word: impl Fn(&TextFile, usize, &str) -> Result<Option<(String, String)>, DataError>,
) -> Result<Vec<Tagged>, DataError> {
    let mut sentences = Vec::new();
    let mut current = Tagged { tokens: Vec::new(), tags: Vec::new() };
    for (number, line) in file.lines().chain([(0, "")]) {
        if !line.trim().is_empty() {
            if let Some((token, tag)) = word(file, number, line)? {
                current.tokens.push(token);
                current.tags.push(tag);
            }
        } else if !current.tokens.is_empty() {
            let next = Tagged { tokens: Vec::new(), tags: Vec::new() };
            sentences.push(std::mem::replace(&mut current, next));
        }
    }
    Ok(sentences)
}

fn conllu(
    file: &TextFile,
    number: usize,
    line: &str,
    column: TagColumn,
) -> Result<Option<(String, String)>, DataError> {
    let Some(columns) = conllu_columns(file, number, line)? else { return Ok(None) };
    let (word, tag) = (columns[1], columns[column.place()]);
    if word.is_empty() || tag.is_empty() {
        let found = format!("an empty column in {}", excerpt(line));
        return Err(DataError::line(file.path(), number, "a word and its tag", found));
    }
    Ok(Some((word.to_string(), tag.to_string())))
}

/// The columns of a line, or `None` if it is a comment, a range of words or an empty node.
fn conllu_columns<'a>(file: &TextFile, number: usize, line: &'a str) -> Result<Option<Vec<&'a str>>, DataError> {
    if line.starts_with('#') {
        return Ok(None);
    }
    let columns: Vec<&str> = line.split('\t').collect();
    let fail = |expected: &str, found: String| Err(DataError::line(file.path(), number, expected, found));
    if columns.len() != CONLLU_COLUMNS {
        return fail("10 columns of CoNLL-U", format!("{} in {}", counted(columns.len(), "column"), excerpt(line)));
    }
    let id = columns[0];
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(id) {
        return match id.split_once(['-', '.']) {
            Some((left, right)) if is_number(left) && is_number(right) => Ok(None),
            _ => fail("a word number, such as 1, 1-2 or 1.1, in the first column", excerpt(id)),
        };
    }
    Ok(Some(columns))
}

fn two_columns(file: &TextFile, number: usize, line: &str) -> Result<Option<(String, String)>, DataError> {
    let columns: Vec<&str> = line.split('\t').collect();
    match columns[..] {
        [token, tag] if !token.trim().is_empty() && !tag.trim().is_empty() => {
            Ok(Some((token.trim().to_string(), tag.trim().to_string())))
        }
        [_, _] => {
            Err(DataError::line(file.path(), number, "token<TAB>tag", format!("an empty column in {}", excerpt(line))))
        }
        _ => {
            let found = format!("{} in {}", counted(columns.len(), "column"), excerpt(line));
            Err(DataError::line(file.path(), number, "token<TAB>tag", found))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{gzip, write};
    use tempfile::tempdir;

    const CONLLU: &str = "# text = vámonos al mar\n\
        1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_\n\
        1\tvamos\tir\tVERB\tvm\t_\t0\troot\t_\t_\n\
        2\tnos\tnosotros\tPRON\tpp\t_\t1\tobj\t_\t_\n\
        2.1\tx\tx\tX\tx\t_\t_\t_\t_\t_\n\
        \n\n\
        1\t#\t#\tSYM\t_\t_\t0\troot\t_\t_\n";

    fn tagged(words: &[(&str, &str)]) -> Tagged {
        Tagged {
            tokens: words.iter().map(|w| w.0.to_string()).collect(),
            tags: words.iter().map(|w| w.1.to_string()).collect(),
        }
    }

    #[test]
    fn conllu_by_name_and_by_its_columns() {
        let dir = tempdir().unwrap();
        let upos = [tagged(&[("vamos", "VERB"), ("nos", "PRON")]), tagged(&[("#", "SYM")])];
        for name in ["a.conllu", "a.txt", "a.conllu.gz"] {
            let content = if name.ends_with("gz") { gzip(CONLLU.as_bytes()) } else { CONLLU.as_bytes().to_vec() };
            assert_eq!(read_tagged(&write(&dir, name, &content), TagColumn::Upos).unwrap(), upos);
        }
        let xpos = read_tagged(&write(&dir, "a.conllu", CONLLU.as_bytes()), TagColumn::Xpos).unwrap();
        assert_eq!(xpos[0].tags, ["vm", "pp"]);
    }

    #[test]
    fn two_columns_where_a_hash_is_a_word() {
        let dir = tempdir().unwrap();
        let path = write(&dir, "a.tsv", b"I\tPRON\r\nsaw\tVERB\n\n \n#\tSYM\n");
        let expected = [tagged(&[("I", "PRON"), ("saw", "VERB")]), tagged(&[("#", "SYM")])];
        assert_eq!(read_tagged(&path, TagColumn::Upos).unwrap(), expected);
    }

    #[test]
    fn a_bad_line_is_named() {
        let dir = tempdir().unwrap();
        let row = "1\ta\ta\tNOUN\t_\t_\t0\troot\t_\t_\n";
        for (name, text, column, message) in [
            ("a.tsv", "I\tPRON\nsaw\n", TagColumn::Upos, "line 2: expected token<TAB>tag, found 1 column in \"saw\""),
            ("a.tsv", "I\tPRON\nsaw\tVERB\tx\n", TagColumn::Upos, "line 2: expected token<TAB>tag, found 3 columns"),
            ("a.tsv", "I\t\n", TagColumn::Upos, "line 1: expected token<TAB>tag, found an empty column"),
            ("a.conllu", &format!("{row}2\tb\n"), TagColumn::Upos, "line 2: expected 10 columns of CoNLL-U, found 2"),
            ("a.conllu", &row.replace('1', "one"), TagColumn::Upos, "line 1: expected a word number"),
            ("a.conllu", &row.replace("NOUN", ""), TagColumn::Upos, "line 1: expected a word and its tag"),
            ("a.conllu", row, TagColumn::Xpos, "expected tags in the column Xpos, found only _"),
            ("a.conllu", "# nothing else\n", TagColumn::Upos, "expected tagged sentences, found nothing"),
        ] {
            let error = read_tagged(&write(&dir, name, text.as_bytes()), column).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn a_file_is_written_with_other_tags() {
        let dir = tempdir().unwrap();
        let read = |name: &str, text: &str| Untagged::read(&write(&dir, name, text.as_bytes()), TagColumn::Xpos);
        let conllu = read("a.conllu", CONLLU).unwrap().unwrap();
        assert_eq!(conllu.sentences().collect::<Vec<_>>(), [&["vamos", "nos"][..], &["#"]]);
        let first = conllu.written(0, &["A", "B"]);
        let expected = CONLLU.replace("\tvm\t", "\tA\t").replace("\tpp\t", "\tB\t");
        assert_eq!(first, expected.split_inclusive("\n\n").next().unwrap());
        for text in ["I\tPRON\nsaw\t_\n\nit\tX\n", "I\nsaw\n\nit\n"] {
            let words = read("a.tsv", text).unwrap().unwrap();
            assert_eq!(words.written(0, &["P", "V"]) + &words.written(1, &[""; 0]), "I\tP\nsaw\tV\n\nit\t_\n\n");
        }
        assert_eq!(read("a.txt", "I saw it.\n").unwrap(), None);
        assert!(read("a.tsv", "a\tb\tc\n").is_err());
    }
}
