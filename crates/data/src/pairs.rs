//! Sentence pairs: lines of `source<TAB>target`, JSON Lines with the keys `source` and `target`, or two files with one sentence
//! per line, such as `train.en` and `train.de`.

use crate::columns::Column;
use crate::error::{counted, excerpt};
use crate::file::{TextFile, first_line, is_jsonl, read_file};
use crate::folder::{Files, language};
use crate::split::load_splits;
use crate::{DataError, Loaded, Source, Splits, hash, jsonl};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A sentence and its translation, stored as ranges of a text that many pairs share: two strings per pair would take more
/// memory than the file.
#[derive(Clone)]
pub struct Pair {
    text: Arc<String>,
    source: Range<usize>,
    target: Range<usize>,
}

impl Pair {
    /// A pair with its own text.
    pub fn new(source: &str, target: &str) -> Self {
        let text = Arc::new(format!("{source}{target}"));
        Self { source: 0..source.len(), target: source.len()..text.len(), text }
    }

    /// The sentence to translate.
    pub fn source(&self) -> &str {
        &self.text[self.source.clone()]
    }

    /// The translation.
    pub fn target(&self) -> &str {
        &self.text[self.target.clone()]
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        (self.source(), self.target()) == (other.source(), other.target())
    }
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} → {:?}", self.source(), self.target())
    }
}

/// Collects pairs into one shared text.
#[derive(Default)]
struct Gathered {
    text: String,
    /// For each pair, the start of its source, the end of its source and the end of its target.
    places: Vec<[usize; 3]>,
}

impl Gathered {
    fn push(&mut self, source: &str, target: &str) {
        let start = self.text.len();
        self.text.push_str(source);
        let middle = self.text.len();
        self.text.push_str(target);
        self.places.push([start, middle, self.text.len()]);
    }

    fn pairs(self) -> Vec<Pair> {
        let text = Arc::new(self.text);
        let pair =
            |[start, middle, end]: [usize; 3]| Pair { text: text.clone(), source: start..middle, target: middle..end };
        self.places.into_iter().map(pair).collect()
    }
}

/// The columns, keys or languages of source and target. By default they are the first two columns, the keys `source` and
/// `target`, or the two languages in alphabetical order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairColumns {
    /// The column, key or language of the source.
    pub source: Option<Column>,
    /// The column, key or language of the target.
    pub target: Option<Column>,
}

/// Reads pairs: JSON Lines if the extension says so, otherwise tab-separated columns without quoting. Other columns, such as
/// the licence in Tatoeba, are ignored with a note. Blank lines are skipped.
///
/// # Errors
/// The errors of [`read_file`]; a line without a tab, with an empty source or target, or whose number of columns differs from the
/// first line's; a duplicate key.
pub fn read_pairs(path: &Path, columns: &PairColumns) -> Result<Loaded<Pair>, DataError> {
    let file = read_file(path)?;
    if is_jsonl(path) { from_jsonl(&file, columns) } else { from_columns(file, columns) }
}

/// Reads only the sources of a file whose first line has a tab. Returns `None` for any other file, which has one sentence per
/// line.
///
/// # Errors
/// The errors of [`read_file`]; a line whose number of columns differs from the first line's.
pub fn read_sources(path: &Path, columns: &PairColumns) -> Result<Option<Vec<String>>, DataError> {
    if is_jsonl(path) || !first_line(path)?.contains('\t') {
        return Ok(None);
    }
    let file = read_file(path)?;
    let width = width(&file)?;
    let [source, _] = places(&file, columns, width)?;
    let lines = file.lines().filter(|(_, line)| !line.trim().is_empty());
    let sources = lines.map(|(line, text)| Ok(fields(path, line, text, width)?[source].trim().to_string()));
    sources.collect::<Result<_, _>>().map(Some)
}

/// Reads a data set of pairs and splits it by the hash of the source, so that all translations of a source are in the same
/// part. A folder may have two files for each part, one per language.
///
/// # Errors
/// The errors of [`read_pairs`], or a data set that cannot be split.
pub fn load_pairs(source: &Source, columns: &PairColumns) -> Result<Splits<Pair>, DataError> {
    let files = Files::of_one_or_two(&source.path)?;
    let read = |files: &[PathBuf]| match files {
        [one, other] => from_two(one, other, columns),
        files => read_pairs(&files[0], columns),
    };
    load_splits(source, files, read, |pair| hash(pair.source().as_bytes()))
}

fn from_jsonl(file: &TextFile, columns: &PairColumns) -> Result<Loaded<Pair>, DataError> {
    let source = jsonl::key("data.source", &columns.source)?.unwrap_or("source");
    let target = jsonl::key("data.target", &columns.target)?.unwrap_or("target");
    let mut unused = jsonl::Unused::default();
    let mut gathered = Gathered::default();
    for record in jsonl::records(file) {
        let record = record?;
        unused.add(&record, &[source, target]);
        gathered.push(record.text(source)?, record.text(target)?);
    }
    Ok(Loaded { examples: gathered.pairs(), notes: unused.note(file.path()).into_iter().collect() })
}

fn from_columns(file: TextFile, columns: &PairColumns) -> Result<Loaded<Pair>, DataError> {
    let path = file.path().to_path_buf();
    let width = width(&file)?;
    let [source, target] = places(&file, columns, width)?;
    let text = Arc::new(file.into_text());
    // A growing vector would need up to twice the memory.
    let mut examples = Vec::with_capacity(text.lines().count());
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let fields = fields(&path, at + 1, line, width)?;
        let place = |column: usize| {
            let field = fields[column].trim();
            let start = field.as_ptr() as usize - text.as_ptr() as usize;
            start..start + field.len()
        };
        let (source, target) = (place(source), place(target));
        if source.is_empty() || target.is_empty() {
            let found = format!("an empty column in {}", excerpt(line));
            return Err(DataError::line(&path, at + 1, "source<TAB>target", found));
        }
        examples.push(Pair { text: text.clone(), source, target });
    }
    let note = || {
        let used = [source.min(target) + 1, source.max(target) + 1];
        format!("{}: uses columns {} and {} of {width}", path.display(), used[0], used[1])
    };
    let notes = if width > 2 { vec![note()] } else { Vec::new() };
    Ok(Loaded { examples, notes })
}

/// The number of columns in the first line that is not blank; refuses a single column.
fn width(file: &TextFile) -> Result<usize, DataError> {
    let (line, text) = file.lines().find(|(_, text)| !text.trim().is_empty()).unwrap_or_default();
    Ok(fields(file.path(), line, text, text.split('\t').count())?.len())
}

/// Splits a line into its `width` fields.
fn fields<'a>(path: &Path, line: usize, text: &'a str, width: usize) -> Result<Vec<&'a str>, DataError> {
    let fields: Vec<&str> = text.split('\t').collect();
    if fields.len() == 1 {
        return Err(DataError::line(path, line, "source<TAB>target", format!("no tab in {}", excerpt(text))));
    }
    if fields.len() != width {
        let expected = format!("{} as in the first line", counted(width, "column"));
        let found = format!("{} in {}", fields.len(), excerpt(text));
        return Err(DataError::line(path, line, expected, found));
    }
    Ok(fields)
}

/// The indices of the source and target columns.
fn places(file: &TextFile, columns: &PairColumns, width: usize) -> Result<[usize; 2], DataError> {
    let settings = [("data.source", &columns.source, 1), ("data.target", &columns.target, 2)];
    let [source, target] = settings.map(|(field, column, default)| match column {
        Some(Column::Name(name)) => {
            let expected =
                format!("a column's number, 1 to {width}, for {}, which has no header", file.path().display());
            Err(DataError::Setting { field, expected, found: format!("{name:?}") })
        }
        Some(Column::Number(number)) if *number > width => {
            let expected = format!("a column's number, 1 to {width}");
            Err(DataError::Setting { field, expected, found: number.to_string() })
        }
        Some(Column::Number(number)) => Ok(number - 1),
        None => Ok(default - 1),
    });
    match (source?, target?) {
        (source, target) if source == target => {
            let expected = "two different columns".into();
            Err(DataError::Setting { field: "data.source and data.target", expected, found: (source + 1).to_string() })
        }
        (source, target) => Ok([source, target]),
    }
}

/// Reads pairs from the same lines of two files, given in the order of their names.
fn from_two(one: &Path, other: &Path, columns: &PairColumns) -> Result<Loaded<Pair>, DataError> {
    let [first, second] = [one, other].map(|path| language(path).unwrap_or_default());
    let named = |column: &Option<Column>, field| match column {
        None => Ok(None),
        Some(Column::Name(name)) if *name == first => Ok(Some(true)),
        Some(Column::Name(name)) if *name == second => Ok(Some(false)),
        Some(column) => {
            let expected = format!("{first} or {second}, the languages of the files");
            Err(DataError::Setting { field, expected, found: format!("{:?}", column.to_string()) })
        }
    };
    let from_first = match (named(&columns.source, "data.source")?, named(&columns.target, "data.target")?) {
        (Some(source), Some(target)) if source == target => {
            let expected = "another language than data.source".into();
            let found = if source { first } else { second };
            return Err(DataError::Setting { field: "data.target", expected, found });
        }
        (Some(source), _) => source,
        (None, Some(target)) => !target,
        (None, None) => true,
    };
    let (source_file, target_file) = if from_first { (one, other) } else { (other, one) };
    let (sources, targets) = (read_file(source_file)?, read_file(target_file)?);
    let [lines, others] = [&sources, &targets].map(|file| file.lines().count());
    if lines != others {
        let expected = format!("{lines} lines, as {} has", source_file.display());
        return Err(DataError::line(target_file, others, expected, others.to_string()));
    }
    let (mut gathered, mut empty) = (Gathered::default(), 0);
    for ((_, source), (_, target)) in sources.lines().zip(targets.lines()) {
        match (source.trim(), target.trim()) {
            ("", "") => {}
            ("", _) | (_, "") => empty += 1,
            (source, target) => gathered.push(source, target),
        }
    }
    let mut notes = Vec::new();
    if columns == &PairColumns::default() {
        notes.push(format!("translates {first} to {second}; --set data.source={second} reverses it"));
    }
    if empty > 0 {
        let path = source_file.display();
        notes.push(format!("{path}: skipped {empty} of {lines} lines, which are empty here or in the other language"));
    }
    Ok(Loaded { examples: gathered.pairs(), notes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{gzip, write};
    use tempfile::tempdir;

    fn read(path: &Path) -> Result<Vec<Pair>, DataError> {
        Ok(read_pairs(path, &PairColumns::default())?.examples)
    }

    fn pair(source: &str, target: &str) -> Pair {
        Pair::new(source, target)
    }

    #[test]
    fn tabs_separate_columns_and_quotes_are_ordinary_characters() {
        let dir = tempdir().unwrap();
        let text = "Hi.\tSalut !\tCC-BY 2.0\n\n\"Go\tVa \"là\"\tx\r\n";
        let expected = [pair("Hi.", "Salut !"), pair("\"Go", "Va \"là\"")];
        assert_eq!(read(&write(&dir, "a.tsv", text.as_bytes())).unwrap(), expected);
        assert_eq!(read(&write(&dir, "a.txt.gz", &gzip(text.as_bytes()))).unwrap(), expected);
    }

    #[test]
    fn json_lines_are_read() {
        let dir = tempdir().unwrap();
        let text = "{\"source\": \"Hi.\", \"target\": \"Salut\\t!\", \"id\": 3}\n\n";
        let found = read(&write(&dir, "a.jsonl.gz", &gzip(text.as_bytes()))).unwrap();
        assert_eq!(found, [pair("Hi.", "Salut\t!")]);
    }

    #[test]
    fn a_bad_line_is_named() {
        let dir = tempdir().unwrap();
        for (name, text, message) in [
            ("a.tsv", "a\tb\nno tab here\n", "line 2: expected source<TAB>target, found no tab in \"no tab here\""),
            ("a.tsv", "a\tb\nc\td\te\n", "line 2: expected 2 columns as in the first line, found 3 in"),
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
            let error = read(&write(&dir, name, text.as_bytes())).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn columns_and_keys_can_be_named() {
        let dir = tempdir().unwrap();
        let by = |source: Column, target: Column| PairColumns { source: Some(source), target: Some(target) };
        let turned = by(Column::Number(3), Column::Number(1));
        let path = write(&dir, "a.tsv", b"a\tx\tb\n");
        let read = read_pairs(&path, &turned).unwrap();
        assert_eq!(read.examples, [pair("b", "a")]);
        assert!(read.notes[0].ends_with("a.tsv: uses columns 1 and 3 of 3"), "{:?}", read.notes);
        assert_eq!(read_sources(&path, &turned).unwrap().unwrap(), ["b"]);
        assert_eq!(read_sources(&write(&dir, "a.txt", b"no tab\n"), &turned).unwrap(), None);
        let named = by(Column::Name("en".into()), Column::Name("de".into()));
        let json = write(&dir, "a.jsonl", b"{\"en\": \"a\", \"de\": \"b\"}\n");
        assert_eq!(read_pairs(&json, &named).unwrap().examples, [pair("a", "b")]);
        for (path, columns) in [(&path, &named), (&json, &turned), (&path, &by(Column::Number(1), Column::Number(4)))] {
            let error = read_pairs(path, columns).unwrap_err();
            assert!(matches!(error, DataError::Setting { .. }), "{error}");
        }
    }

    #[test]
    fn two_files_of_two_languages_are_one_set() {
        let dir = tempdir().unwrap();
        let source = Source { path: dir.path().to_path_buf(), fold: None };
        write(&dir, "train.en", b"one\n\ntwo\nthree\n");
        write(&dir, "train.de", b"eins\n\nzwei\n\n");
        write(&dir, "val.en.gz", &gzip(b"four\n"));
        write(&dir, "val.de", b"vier\n");
        write(&dir, "test.en", b"five\n");
        write(&dir, "test.de", "fünf\n".as_bytes());
        let splits = load_pairs(&source, &PairColumns::default()).unwrap();
        assert_eq!(splits.train, [pair("eins", "one"), pair("zwei", "two")]);
        assert_eq!((&splits.dev[..], &splits.test[..]), (&[pair("vier", "four")][..], &[pair("fünf", "five")][..]));
        assert!(splits.notes.iter().any(|note| note.contains("translates de to en; --set data.source=en")));
        assert!(splits.notes.iter().any(|note| note.contains("skipped 1 of 4 lines")), "{:?}", splits.notes);
        let english = PairColumns { source: Some(Column::Name("en".into())), target: None };
        assert_eq!(load_pairs(&source, &english).unwrap().test, [pair("five", "fünf")]);
        let french = PairColumns { source: Some(Column::Name("fr".into())), target: None };
        let error = load_pairs(&source, &french).unwrap_err().to_string();
        assert!(error.contains("data.source: expected de or en"), "{error}");
        write(&dir, "test.de", b"a\nb\n");
        let error = load_pairs(&source, &PairColumns::default()).unwrap_err().to_string();
        assert!(error.contains("test.en, line 1: expected 2 lines, as"), "{error}");
    }
}
