//! Word vectors from a file: the text format of word2vec, fastText and GloVe, plain or gzipped, and the binary format of
//! word2vec.
//!
//! A text has a word and its numbers on each line, and may begin with a line of two numbers: how many words, and how wide their
//! vectors. The binary format has that line always, then each word, a space and the numbers as 32-bit floats, little end first.

use crate::DataError;
use crate::error::excerpt;
use crate::file::{open_unpacked, unpack_error};
use std::collections::HashSet;
use std::io::{BufRead, Read};
use std::path::Path;

/// Largest width of a vector.
const WIDEST: usize = 100_000;
/// Largest number of bytes of a line or a word.
const LONGEST: u64 = 1 << 24;

/// Vectors of words, in the order of their file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WordVectors {
    /// The distinct words.
    pub words: Vec<String>,
    /// Number of features of a vector.
    pub width: usize,
    /// The vectors `[words, width]`.
    pub values: Vec<f32>,
    /// Number of vectors in the file, with those that were not kept.
    pub all: usize,
}

impl WordVectors {
    /// The vector of the word with this index.
    pub fn row(&self, index: usize) -> &[f32] {
        &self.values[index * self.width..][..self.width]
    }

    fn push(&mut self, word: &str, values: &[f32]) {
        self.words.push(word.to_string());
        self.values.extend(values);
    }
}

/// Reads the vectors of the words that `keep` accepts; it is asked with the word and the number of words kept so far. If a word
/// occurs twice, its first vector counts.
///
/// # Errors
/// A line with more or fewer numbers than the first, a number that is not finite, or a binary file that ends too early.
pub fn read_word_vectors(path: &Path, keep: &dyn Fn(&str, usize) -> bool) -> Result<WordVectors, DataError> {
    let mut reader = open_unpacked(path)?;
    let first = line(&mut reader, path)?;
    if first.is_empty() {
        return Err(DataError::Empty { path: path.to_path_buf(), expected: "words with their vectors" });
    }
    let header = header(&first);
    let mut start = Vec::new();
    match header {
        // The first bytes after a header tell text from binary.
        Some((_, width)) => {
            check_width(path, width)?;
            let all = 64 + 4 * width as u64;
            reader.by_ref().take(all).read_to_end(&mut start).map_err(|cause| unpack_error(path, &cause))?;
        }
        None => start.extend_from_slice(&first),
    }
    let is_binary = header.is_some() && !looks_like_text(&start);
    let mut rest = start.as_slice().chain(reader);
    let reading = Reading { path, keep, known: HashSet::new(), found: WordVectors::default() };
    match header {
        Some((count, width)) if is_binary => reading.binary(&mut rest, count, width),
        Some((_, width)) => reading.text(&mut rest, 2, Some(width)),
        None => reading.text(&mut rest, 1, None),
    }
}

/// The state of a reading.
struct Reading<'a> {
    path: &'a Path,
    keep: &'a dyn Fn(&str, usize) -> bool,
    known: HashSet<String>,
    found: WordVectors,
}

impl Reading<'_> {
    fn text(mut self, reader: &mut impl BufRead, first: usize, width: Option<usize>) -> Result<WordVectors, DataError> {
        self.found.width = width.unwrap_or(0);
        let mut values = Vec::new();
        for number in first.. {
            let bytes = line(reader, self.path)?;
            if bytes.is_empty() {
                break;
            }
            let text = std::str::from_utf8(&bytes).map_err(|_| DataError::NotText {
                path: self.path.to_path_buf(),
                line: number,
                found: excerpt(&String::from_utf8_lossy(&bytes)),
            })?;
            let text = text.trim_end();
            if text.is_empty() {
                continue;
            }
            if self.found.width == 0 {
                self.found.width = text.split([' ', '\t']).count() - 1;
                let expected = "a word and its vector, separated by spaces";
                check_width(self.path, self.found.width)
                    .map_err(|_| DataError::line(self.path, number, expected, excerpt(text)))?;
            }
            let width = self.found.width;
            // A word may have spaces in it; its numbers do not.
            let mut parts: Vec<&str> = text.rsplitn(width + 1, [' ', '\t']).collect();
            let word = parts.pop().filter(|word| !word.is_empty() && parts.len() == width);
            let expected = || format!("a word and {width} numbers, as in the lines before");
            let word = word.ok_or_else(|| {
                let found = text.split([' ', '\t']).count() - 1;
                DataError::line(self.path, number, expected(), format!("{found} numbers"))
            })?;
            values.clear();
            for part in parts.iter().rev() {
                let value: f32 = part.parse().map_err(|_| {
                    DataError::line(self.path, number, expected(), format!("{} among them", excerpt(part)))
                })?;
                values.push(value);
            }
            // "1 2 3 4" among lines of three numbers: the word has swallowed a number.
            if let Some((_, last)) = word.rsplit_once([' ', '\t'])
                && last.parse::<f32>().is_ok()
                && word.split([' ', '\t']).skip(1).all(|part| part.parse::<f32>().is_ok())
            {
                let found = width + word.split([' ', '\t']).count() - 1;
                return Err(DataError::line(self.path, number, expected(), format!("{found} numbers")));
            }
            if let Some(value) = values.iter().find(|value| !value.is_finite()) {
                let found = format!("{value} in the vector of {}", excerpt(word));
                return Err(DataError::line(self.path, number, "finite numbers", found));
            }
            self.add(word, &values);
        }
        self.finish()
    }

    fn binary(mut self, reader: &mut impl BufRead, count: usize, width: usize) -> Result<WordVectors, DataError> {
        self.found.width = width;
        let fail =
            |expected: String, found: String| DataError::Format { path: self.path.to_path_buf(), expected, found };
        let (mut bytes, mut word, mut values) = (vec![0; 4 * width], Vec::new(), vec![0.0f32; width]);
        for number in 0..count {
            word.clear();
            let truncated =
                || fail(format!("{count} vectors, as its first line says"), format!("{number}: it ends too early"));
            let read = reader.by_ref().take(LONGEST).read_until(b' ', &mut word);
            read.map_err(|cause| unpack_error(self.path, &cause))?;
            if word.pop() != Some(b' ') || reader.read_exact(&mut bytes).is_err() {
                return Err(truncated());
            }
            for (value, four) in values.iter_mut().zip(bytes.chunks_exact(4)) {
                *value = f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
            }
            // Some programs write a line break after each vector.
            let word = String::from_utf8_lossy(word.trim_ascii_start()).into_owned();
            if let Some(value) = values.iter().find(|value| !value.is_finite()) {
                let found = format!("{value} in vector {}, of {}", number + 1, excerpt(&word));
                return Err(fail("finite numbers".to_string(), found));
            }
            self.add(&word, &values);
        }
        self.finish()
    }

    fn add(&mut self, word: &str, values: &[f32]) {
        self.found.all += 1;
        if (self.keep)(word, self.found.words.len()) && self.known.insert(word.to_string()) {
            self.found.push(word, values);
        }
    }

    fn finish(self) -> Result<WordVectors, DataError> {
        match self.found.all {
            0 => Err(DataError::Empty { path: self.path.to_path_buf(), expected: "words with their vectors" }),
            _ => Ok(self.found),
        }
    }
}

/// Reads a line with its end; empty at the end of the file.
fn line(reader: &mut impl BufRead, path: &Path) -> Result<Vec<u8>, DataError> {
    let mut line = Vec::new();
    let read = reader.by_ref().take(LONGEST).read_until(b'\n', &mut line);
    read.map_err(|cause| unpack_error(path, &cause))?;
    match line.len() as u64 == LONGEST {
        true => Err(DataError::Format {
            path: path.to_path_buf(),
            expected: "a word with its vector on each line, or word2vec's binary format".to_string(),
            found: format!("a line of more than {LONGEST} bytes"),
        }),
        false => Ok(line),
    }
}

/// The number of words and the width of their vectors, if a line has just these.
fn header(line: &[u8]) -> Option<(usize, usize)> {
    let mut parts = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let numbers = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next().is_none().then_some(numbers)
}

/// Whether the bytes after a header, which may be cut at their end, are words and numbers as text.
fn looks_like_text(bytes: &[u8]) -> bool {
    let (line, is_whole) = match bytes.iter().position(|&byte| byte == b'\n') {
        Some(end) => (&bytes[..end], true),
        None => (bytes, false),
    };
    let text = match std::str::from_utf8(line) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&line[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    let is_number = |part: &str| part.parse::<f32>().is_ok();
    text.chars().all(|c| !c.is_control() || c == '\t' || c == '\r')
        && (!is_whole || text.split_whitespace().next_back().is_some_and(is_number))
}

fn check_width(path: &Path, width: usize) -> Result<(), DataError> {
    match (1..=WIDEST).contains(&width) {
        true => Ok(()),
        false => Err(DataError::Format {
            path: path.to_path_buf(),
            expected: format!("vectors of 1 to {WIDEST} numbers"),
            found: width.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(bytes: &[u8]) -> Result<WordVectors, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let name = file.path().display().to_string();
        read_word_vectors(file.path(), &|_, _| true).map_err(|error| error.to_string().replace(&name, "F"))
    }

    fn binary(vectors: &[(&str, [f32; 3])], end: &str) -> Vec<u8> {
        let mut bytes = format!("{} 3\n", vectors.len()).into_bytes();
        for (word, values) in vectors {
            bytes.extend(format!("{word} ").bytes());
            values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
            bytes.extend(end.bytes());
        }
        bytes
    }

    const NUMBERS: [f32; 3] = [0.1, -2.5e-7, 3.0];

    #[test]
    fn all_formats_give_the_same_bits() {
        let expected = WordVectors {
            words: vec!["eau".into(), "été".into()],
            width: 3,
            values: [NUMBERS, [1.0, 0.0, -1.0]].concat(),
            all: 2,
        };
        let lines = "eau 0.1 -2.5e-7 3\nété 1 0 -1\n";
        let all = [("eau", NUMBERS), ("été", [1.0, 0.0, -1.0])];
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(lines.as_bytes()).unwrap();
        for bytes in [
            lines.as_bytes().to_vec(),
            format!("2 3\n{lines}").into_bytes(),
            "2 3\r\neau 0.1 -2.5e-7 3 \r\nété 1 0 -1 \r\n".as_bytes().to_vec(),
            binary(&all, "\n"),
            binary(&all, ""),
            packed.finish().unwrap(),
        ] {
            assert_eq!(read(&bytes).unwrap(), expected);
        }
    }

    #[test]
    fn words_with_spaces_and_words_that_are_numbers_are_read() {
        let found = read(b"a 1 2\n. . 3 4\n1999 5 6\na 7 8\n").unwrap();
        assert_eq!(found.words, ["a", ". .", "1999"]);
        assert_eq!((found.row(1), found.row(0), found.all), (&[3.0, 4.0][..], &[1.0, 2.0][..], 4));
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (bytes, expected) in [
            (&b"a 1 2\nb 1\n"[..], "F, line 2: expected a word and 2 numbers, as in the lines before, found 1 numbers"),
            (b"a 1 2\nb 1 2 3\n", "F, line 2: expected a word and 2 numbers, as in the lines before, found 3 numbers"),
            (
                b"2 2\na 1 2\nb 1 x\n",
                "line 3: expected a word and 2 numbers, as in the lines before, found \"x\" among them",
            ),
            (b"a 1 2\nb nan 2\n", "F, line 2: expected finite numbers, found NaN in the vector of \"b\""),
            (b"a 1 inf\n", "line 1: expected finite numbers, found inf in the vector of \"a\""),
            (b"a\n", "F, line 1: expected a word and its vector, separated by spaces"),
            (b"", "found nothing: the file is empty"),
            (b"3 0\na\n", "expected vectors of 1 to 100000 numbers, found 0"),
            (b"3 9999999999\na 1\n", "expected vectors of 1 to 100000 numbers, found 9999999999"),
        ] {
            let error = read(bytes).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let whole = binary(&[("a", NUMBERS), ("b", NUMBERS)], "\n");
        for end in [whole.len() - 2, whole.len() - 14, whole.len() - 15] {
            let error = read(&whole[..end]).unwrap_err();
            assert!(
                error.contains("expected 2 vectors, as its first line says, found 1: it ends too early"),
                "{error}"
            );
        }
        let error = read(&binary(&[("a", [1.0, f32::NAN, 0.0])], "\n")).unwrap_err();
        assert!(error.contains("expected finite numbers, found NaN in vector 1, of \"a\""), "{error}");
    }

    #[test]
    fn only_wanted_words_are_kept() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "a 1\nb 2\nc 3\nd 4\n").unwrap();
        let found = read_word_vectors(file.path(), &|word, kept| kept < 1 || word == "d").unwrap();
        assert_eq!((found.words, found.values, found.all), (vec!["a".to_string(), "d".into()], vec![1.0, 4.0], 4));
    }
}
