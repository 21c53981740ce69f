//! Characters of several writers in UNIPEN.
//!
//! A writer is named by `.WRITER_ID`, or by the second word of a `.COMMENT` in a segment whose first word is the segment's label,
//! as in the pen digits of the UCI collection. In UNIPEN `y` grows upwards.

use super::Stroke;
use super::convert::{Characters, Content, Recordings};
use super::glyphs::{Glyph, Variety};
use crate::file::{TextFile, read_file};
use crate::folder::Files;
use crate::vectors::unipen;
use crate::{DataError, Splits, Target, Vectors};
use std::collections::BTreeMap;
use std::path::Path;

/// A real hand needs few further changes.
const VARIETY: Variety = Variety { slant: 0.0, size: 0.06, bend: 0.008, gap: [0.15, 0.4] };
/// One writer in this many is held out for dev, and another for test if there is no file for it.
const HELD_OUT: usize = 10;

/// Reads a file, or a folder with a file for each part.
pub(super) fn read(path: &Path) -> Result<Recordings, DataError> {
    let (train, dev, test) = match Files::of_one(path)? {
        Files::One(file) => (writers(&file)?, Vec::new(), Vec::new()),
        Files::Parts { train, dev, test } => {
            let all = |files: &[std::path::PathBuf]| -> Result<Vec<Characters>, DataError> {
                Ok(files.iter().map(|file| writers(file)).collect::<Result<Vec<_>, _>>()?.concat())
            };
            (all(&train)?, all(&dev)?, all(&test)?)
        }
    };
    let hands = held_out(train, dev, test);
    Ok(Recordings { hands, variety: VARIETY, content: Content::Strings { least: 3, most: 6 } })
}

/// Completes the parts with writers of train.
pub(super) fn held_out(
    train: Vec<Characters>,
    mut dev: Vec<Characters>,
    mut test: Vec<Characters>,
) -> Splits<Characters> {
    let (needs_dev, needs_test) = (dev.is_empty(), test.is_empty());
    let mut kept = Vec::new();
    for (index, writer) in train.into_iter().enumerate() {
        match index % HELD_OUT {
            1 if needs_dev => dev.push(writer),
            2 if needs_test => test.push(writer),
            _ => kept.push(writer),
        }
    }
    Splits::new(kept, dev, test)
}

/// Reads the characters of each writer of a file.
fn writers(path: &Path) -> Result<Vec<Characters>, DataError> {
    let file = read_file(path)?;
    let segments = unipen::read(&file)?.examples;
    let names = names(&file);
    let mut writers: BTreeMap<String, Vec<(char, Vec<Stroke>)>> = BTreeMap::new();
    for (index, segment) in segments.into_iter().enumerate() {
        let Some(Target::Label(label)) = &segment.target else { continue };
        let mut characters = label.chars();
        // Words and unreadable segments are left out.
        let (Some(character), None) = (characters.next(), characters.next()) else { continue };
        let writer = names.get(index).cloned().unwrap_or_default();
        writers.entry(writer).or_default().push((character, strokes(&segment)));
    }
    Ok(writers.into_values().map(fitted).collect())
}

/// Returns the writer of each segment; empty where the file does not say.
fn names(file: &TextFile) -> Vec<String> {
    let (mut names, mut label, mut current): (Vec<String>, String, String) = Default::default();
    for (_, line) in file.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some(".WRITER_ID"), Some(writer), _) => current = writer.to_string(),
            (Some(keyword), ..) if keyword.starts_with(".SEGMENT") => {
                label = line.split('"').nth(1).unwrap_or_default().to_string();
                names.push(current.clone());
            }
            (Some(".COMMENT"), Some(first), Some(writer)) if first == label => {
                if let Some(name) = names.last_mut() {
                    *name = writer.to_string();
                }
            }
            _ => {}
        }
    }
    names
}

/// Returns the strokes of a segment, with `y` downwards.
fn strokes(segment: &Vectors) -> Vec<Stroke> {
    let mut strokes = vec![Stroke::new()];
    for point in segment.features.chunks_exact(segment.width) {
        let last = strokes.len() - 1;
        strokes[last].push([point[0], -point[1]]);
        if point[2] > 0.5 {
            strokes.push(Stroke::new());
        }
    }
    strokes.retain(|stroke| !stroke.is_empty());
    strokes
}

/// Brings the characters of a writer to a line: all stand on it, and their mean height is 1.
fn fitted(characters: Vec<(char, Vec<Stroke>)>) -> Characters {
    let ends = |strokes: &[Stroke]| {
        let ys = || strokes.iter().flatten().map(|point| point[1]);
        (ys().fold(f32::MAX, f32::min), ys().fold(f32::MIN, f32::max))
    };
    let heights = characters.iter().map(|(_, strokes)| ends(strokes)).map(|(top, bottom)| f64::from(bottom - top));
    let mean = heights.sum::<f64>() / characters.len().max(1) as f64;
    let scale = if mean > 0.0 { (1.0 / mean) as f32 } else { 1.0 };
    let mut fitted = Characters::new();
    for (character, mut strokes) in characters {
        let (_, bottom) = ends(&strokes);
        for point in strokes.iter_mut().flatten() {
            *point = [point[0] * scale, 1.0 + (point[1] - bottom) * scale];
        }
        fitted.entry(character).or_default().push(Glyph::fitted(strokes));
    }
    fitted
}
