//! Reader of the word lists in `words/`: sections with one entry a line, whose columns are separated by two or more
//! spaces or by a tab. The lists are compiled in.

use super::Upos;
use super::lexicon::class;
use crate::DataError;
use crate::error::{excerpt, listed};
use std::path::Path;

/// A word list of `words/`, compiled in.
macro_rules! list {
    ($file:literal) => {
        $crate::builtin::lists::List::new(
            concat!("crates/data/words/", $file),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/words/", $file)),
        )
    };
}
pub(super) use list;

/// A word list.
pub(super) struct List {
    file: &'static str,
    /// Section, line number from 1 and text of each entry.
    entries: Vec<(&'static str, usize, &'static str)>,
}

impl List {
    pub fn new(file: &'static str, text: &'static str) -> Self {
        let (mut section, mut entries) = ("", Vec::new());
        for (line, text) in (1..).zip(text.lines().map(str::trim)) {
            if let Some(name) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name;
            } else if !text.is_empty() && !text.starts_with('#') {
                entries.push((section, line, text));
            }
        }
        Self { file, entries }
    }

    /// Reads the entries of a section; `entry` makes one of its columns.
    pub fn read<T, const N: usize>(
        &self,
        section: &str,
        columns: [&'static str; N],
        entry: impl Fn([Cell; N]) -> Result<T, DataError>,
    ) -> Result<Vec<T>, DataError> {
        let path = Path::new(self.file);
        let read = |&(_, line, text): &(&str, usize, &'static str)| {
            let cells =
                text.split('\t').flat_map(|part| part.split("  ")).map(str::trim).filter(|cell| !cell.is_empty());
            let cells: Vec<&'static str> = cells.collect();
            let count = cells.len();
            let Ok(cells) = <[&str; N]>::try_from(cells) else {
                let expected = format!("{N} columns ({}), two spaces apart", columns.join(", "));
                return Err(DataError::line(path, line, expected, format!("{count} in {}", excerpt(text))));
            };
            entry(std::array::from_fn(|at| Cell { file: self.file, line, column: columns[at], text: cells[at] }))
        };
        let entries: Vec<T> =
            self.entries.iter().filter(|entry| entry.0 == section).map(read).collect::<Result<_, _>>()?;
        match entries.is_empty() {
            true => Err(DataError::line(path, 1, format!("entries under [{section}]"), "none")),
            false => Ok(entries),
        }
    }

    /// Reads a section of single words, any number a line.
    pub fn words(&self, section: &str) -> Result<Vec<&'static str>, DataError> {
        Ok(self.read(section, ["words"], |[words]| Ok(words.words()))?.concat())
    }

    /// Reads the section `groups`: names for classes that often go together.
    pub fn groups(&self) -> Result<Vec<(&'static str, u64)>, DataError> {
        self.read("groups", ["name", "classes"], |[name, classes]| Ok((name.text, classes.classes(&[])?)))
    }
}

/// A column of an entry.
#[derive(Clone, Copy)]
pub(super) struct Cell {
    file: &'static str,
    line: usize,
    column: &'static str,
    pub text: &'static str,
}

impl Cell {
    pub fn error(&self, expected: &str) -> DataError {
        DataError::line(Path::new(self.file), self.line, format!("{expected} as {}", self.column), excerpt(self.text))
    }

    pub fn words(&self) -> Vec<&'static str> {
        self.text.split(' ').collect()
    }

    /// Exactly `N` words.
    pub fn forms<const N: usize>(&self) -> Result<[&'static str; N], DataError> {
        self.words().try_into().map_err(|_| self.error(&format!("{N} words")))
    }

    /// Phrases between commas.
    pub fn phrases(&self) -> Vec<&'static str> {
        self.text.split(',').map(str::trim).collect()
    }

    pub fn number(&self) -> Result<f32, DataError> {
        self.text.parse().map_err(|_| self.error("a number"))
    }

    /// The value of a name.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, DataError> {
        let names = || listed(&choices.iter().map(|choice| choice.0).collect::<Vec<_>>());
        let found = choices.iter().find(|choice| choice.0 == self.text);
        found.map(|choice| choice.1).ok_or_else(|| self.error(&format!("one of {}", names())))
    }

    /// Classes of nouns by name, or `-` for none.
    pub fn classes(&self, groups: &[(&str, u64)]) -> Result<u64, DataError> {
        let mut bits = 0;
        for name in self.words().into_iter().filter(|name| *name != "-") {
            let all = groups.iter().copied().chain(class::ALL.iter().copied());
            let found = all.clone().find(|(class, _)| class.eq_ignore_ascii_case(name));
            bits |= found.ok_or_else(|| Cell { text: name, ..*self }.error("names that nouns.txt explains"))?.1;
        }
        Ok(bits)
    }

    /// One of the words, written `word/TAG`, with its part of speech.
    pub fn tagged(&self, word: &'static str) -> Result<(&'static str, Upos), DataError> {
        let tag = |name: &str| Upos::NAMES.into_iter().find(|tag| tag.1 == name);
        let found = word.split_once('/').and_then(|(word, name)| Some((word, tag(name)?.0)));
        found.ok_or_else(|| self.error("word/TAG, such as last/ADJ,"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_entry_is_named_with_file_line_and_column() {
        let list = List::new("words/a.txt", "# comment\n[a]\nman men\tm  person animal\n\n[b]\nx  2\n");
        let read = |section: &str| {
            list.read(section, ["english", "gender", "classes"], |[english, gender, classes]| {
                Ok((english.forms::<2>()?, gender.choice(&[("m", 'm'), ("f", 'f')])?, classes.classes(&[])?))
            })
        };
        assert_eq!(read("a").unwrap(), [(["man", "men"], 'm', class::PERSON | class::ANIMAL)]);
        let message =
            "words/a.txt, line 6: expected 3 columns (english, gender, classes), two spaces apart, found 2 in \"x  2\"";
        assert_eq!(read("b").unwrap_err().to_string(), message);
        assert_eq!(read("c").unwrap_err().to_string(), "words/a.txt, line 1: expected entries under [c], found none");
        let cell = |text| Cell { file: "words/a.txt", line: 3, column: "word", text };
        for (error, message) in [
            (cell("a b").forms::<3>().err(), "expected 3 words as word, found \"a b\""),
            (cell("n").choice(&[("m", 0), ("f", 1)]).err(), "expected one of m, f as word, found \"n\""),
            (cell("person persons").classes(&[]).err(), "names that nouns.txt explains as word, found \"persons\""),
            (
                cell("at/ADP night").tagged("night").err(),
                "expected word/TAG, such as last/ADJ, as word, found \"at/ADP night\"",
            ),
            (cell("much").number().err(), "expected a number as word, found \"much\""),
        ] {
            let error = error.unwrap().to_string();
            assert!(error.starts_with("words/a.txt, line 3: expected ") && error.contains(message), "{error}");
        }
    }
}
