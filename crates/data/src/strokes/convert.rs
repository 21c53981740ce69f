//! Recordings of single characters and stroke fonts, turned into handwritten lines.

use super::glyphs::{Glyph, Hand, Variety};
use super::{Handwritten, fonts, letters, pen_digits};
use crate::archive::is_archive;
use crate::builtin::{Sizes, draw_words, words};
use crate::error::listed;
use crate::file::{format_of, read_error};
use crate::{DataError, Split, Splits};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Number of lines that are put together for each part.
const LINES: Sizes = Sizes { train: 4_000, dev: 300, test: 400 };

/// The characters of one hand, each written once or several times.
pub(super) type Characters = BTreeMap<char, Vec<Glyph>>;

/// The hands of each part, and how lines are put together from their characters.
pub(super) struct Recordings {
    pub(super) hands: Splits<Characters>,
    pub(super) variety: Variety,
    pub(super) content: Content,
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// One or two words.
    Words,
    /// A string of any characters of the hand.
    Strings {
        /// Least number of characters.
        least: usize,
        /// Largest number of characters.
        most: usize,
    },
}

/// Converts recordings to handwritten lines: UNIPEN files of single characters (a file, or a folder with a file for each part),
/// single-line SVG fonts (a file or a folder of them), or the drawings of letters of Omniglot (an archive or a folder). A line
/// has the characters of one hand, side by side, with small random changes that depend on the seed.
///
/// # Errors
/// A path with none of these, and recordings that cannot be read.
pub fn convert_strokes(path: &Path, seed: u64) -> Result<Splits<Handwritten>, DataError> {
    let Recordings { hands, variety, content } = read(path)?;
    let words = words();
    let part = |split: Split, count: usize| -> Vec<Handwritten> {
        (0..count).filter_map(|index| line(split, index, seed, hands.get(split), variety, content, &words)).collect()
    };
    let lines =
        Splits::new(part(Split::Train, LINES.train), part(Split::Dev, LINES.dev), part(Split::Test, LINES.test));
    match Split::ALL.into_iter().find(|&split| lines.get(split).is_empty()) {
        Some(split) => {
            let expected = format!("characters for lines of {split}");
            Err(DataError::format(path, expected, "none; at least three hands are needed"))
        }
        None => Ok(lines),
    }
}

/// Finds out what a path has and reads it.
fn read(path: &Path) -> Result<Recordings, DataError> {
    if !path.exists() {
        return Err(DataError::Missing { path: path.to_path_buf() });
    }
    if !path.is_dir() {
        return match format_of(path).as_str() {
            "svg" => fonts::read(&[path.to_path_buf()]),
            "unipen" => pen_digits::read(path),
            _ if is_archive(path) => letters::read_drawings(path),
            other => Err(unknown(path, format!("a .{other} file"))),
        };
    }
    let files = files_of(path)?;
    let with = |format: &str| files.iter().filter(|file| format_of(file) == format).cloned().collect::<Vec<_>>();
    let (svg, unipen) = (with("svg"), with("unipen"));
    match files.iter().find(|file| is_archive(file)) {
        _ if !svg.is_empty() => fonts::read(&svg),
        _ if !unipen.is_empty() => pen_digits::read(path),
        Some(archive) => letters::read_drawings(archive),
        None if letters::is_folder(path) => letters::read_drawings(path),
        None => {
            let names: Vec<String> =
                files.iter().filter_map(|file| file.file_name()?.to_str().map(String::from)).collect();
            Err(unknown(path, listed(&names)))
        }
    }
}

fn unknown(path: &Path, found: String) -> DataError {
    let expected = "UNIPEN files (.unipen), single-line fonts (.svg) or an archive of drawings (.tar.xz)";
    DataError::format(path, expected, found)
}

/// Returns the files of a folder, sorted by name.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    let fail = |cause| read_error(path, cause);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(fail)? {
        let file = entry.map_err(fail)?.path();
        if file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Writes a line of a part in one of its hands; `None` without hands.
fn line(
    split: Split,
    index: usize,
    seed: u64,
    hands: &[Characters],
    variety: Variety,
    content: Content,
    words: &[String],
) -> Option<Handwritten> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(((split as u64) << 32) + index as u64);
    let characters = hands.get(index % hands.len().max(1))?;
    let text: String = match content {
        Content::Words => draw_words(words, 2, &mut random),
        Content::Strings { least, most } => {
            let all: Vec<char> = characters.keys().copied().collect();
            let count = random.random_range(least..=most);
            (0..count).map(|_| all[random.random_range(0..all.len())]).collect()
        }
    };
    let space = Glyph { strokes: Vec::new(), width: 0.25 };
    let mut written = String::new();
    let mut glyphs: Vec<&Glyph> = Vec::new();
    for character in text.chars() {
        match characters.get(&character) {
            Some(ways) => glyphs.push(&ways[random.random_range(0..ways.len())]),
            None if character == ' ' => glyphs.push(&space),
            // A hand may lack a letter.
            None => continue,
        }
        written.push(character);
    }
    let written = written.trim().to_string();
    let line = Hand::draw(variety, &mut random).write(&written, glyphs, &mut random);
    let is_finite = line.strokes.iter().flatten().flatten().all(|x| x.is_finite());
    (!line.strokes.is_empty() && is_finite).then_some(line)
}
