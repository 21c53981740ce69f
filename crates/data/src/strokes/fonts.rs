//! Single-line SVG fonts: the `d` of each `<glyph>` is the path of a pen, not an outline. `y` grows upwards from the line.

use super::Stroke;
use super::convert::{Characters, Content, Recordings};
use super::glyphs::{Glyph, Variety};
use crate::error::excerpt;
use crate::file::read_file;
use crate::{DataError, Splits};
use std::path::{Path, PathBuf};

const VARIETY: Variety = Variety { slant: 0.12, size: 0.08, bend: 0.02, gap: [0.0, 0.06] };
/// Number of straight pieces of a curve.
const PIECES: usize = 8;

/// Reads fonts; each is a hand, and the same hands write all parts.
pub(super) fn read(files: &[PathBuf]) -> Result<Recordings, DataError> {
    let hands = files.iter().map(|file| font(file)).collect::<Result<Vec<Characters>, _>>()?;
    let hands = Splits::new(hands.clone(), hands.clone(), hands);
    Ok(Recordings { hands, variety: VARIETY, content: Content::Words })
}

fn font(path: &Path) -> Result<Characters, DataError> {
    let file = read_file(path)?;
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(file.text(), options)
        .map_err(|error| DataError::format(path, "an SVG font", excerpt(&error.to_string())))?;
    let number =
        |text: Option<&str>| text.and_then(|text| text.parse::<f32>().ok()).filter(|number| number.is_finite());
    let fallback = document.descendants().find(|node| node.has_tag_name("font"));
    let fallback = number(fallback.and_then(|font| font.attribute("horiz-adv-x"))).unwrap_or(0.0);
    let mut glyphs: Vec<(char, Vec<Stroke>, f32)> = Vec::new();
    for node in document.descendants().filter(|node| node.tag_name().name() == "glyph") {
        let mut unicode = node.attribute("unicode").unwrap_or_default().chars();
        // Ligatures and glyphs without a character are left out.
        let (Some(character), None) = (unicode.next(), unicode.next()) else { continue };
        let strokes = path_strokes(node.attribute("d").unwrap_or_default()).map_err(|found| {
            let expected = format!("a path of M, L, C and Z for the glyph {character:?}");
            DataError::format(path, expected, excerpt(&found))
        })?;
        glyphs.push((character, strokes, number(node.attribute("horiz-adv-x")).unwrap_or(fallback)));
    }
    // The highest point of a small letter is the top of the line.
    let small = glyphs.iter().filter(|(character, ..)| character.is_ascii_lowercase());
    let top = small.flat_map(|(_, strokes, _)| strokes.iter().flatten()).map(|point| point[1]).fold(0.0f32, f32::max);
    if top <= 0.0 || !(1.0 / top).is_finite() {
        return Err(DataError::format(path, "an SVG font with small letters", "none"));
    }
    let scale = 1.0 / top;
    let mut characters = Characters::new();
    for (character, mut strokes, advance) in glyphs {
        for point in strokes.iter_mut().flatten() {
            *point = [point[0] * scale, 1.0 - point[1] * scale];
        }
        let is_space = character.is_whitespace();
        if !strokes.is_empty() || is_space {
            characters.entry(character).or_default().push(Glyph { strokes, width: advance * scale });
        }
    }
    Ok(characters)
}

/// Reads the strokes of a path with absolute commands. Returns what cannot be read.
fn path_strokes(path: &str) -> Result<Vec<Stroke>, String> {
    let spaced: String = path
        .chars()
        .flat_map(|c| if c.is_ascii_alphabetic() && c != 'e' { vec![' ', c, ' '] } else { vec![c] })
        .collect();
    let mut words = spaced.split([' ', ',', '\n', '\t', '\r']).filter(|word| !word.is_empty()).peekable();
    let mut strokes: Vec<Stroke> = Vec::new();
    let mut command = ' ';
    while let Some(&word) = words.peek() {
        if word.len() == 1 && word.chars().all(|c| c.is_ascii_alphabetic()) {
            command = word.chars().next().unwrap_or(' ');
            words.next();
            if command == 'Z' || command == 'z' {
                if let Some(stroke) = strokes.last_mut() {
                    let first = stroke[0];
                    stroke.push(first);
                }
                continue;
            }
        }
        let mut point = || -> Result<[f32; 2], String> {
            let mut number = || {
                let word = words.next().unwrap_or("the end of the path");
                word.parse::<f32>().ok().filter(|number| number.is_finite()).ok_or_else(|| word.to_string())
            };
            Ok([number()?, number()?])
        };
        match (command, strokes.last_mut()) {
            ('M', _) => {
                strokes.push(vec![point()?]);
                command = 'L';
            }
            ('L', Some(stroke)) => stroke.push(point()?),
            ('C', Some(stroke)) => {
                let (start, a, b, end) = (stroke[stroke.len() - 1], point()?, point()?, point()?);
                stroke.extend((1..=PIECES).map(|piece| {
                    let t = piece as f32 / PIECES as f32;
                    let s = 1.0 - t;
                    let weights = [s * s * s, 3.0 * s * s * t, 3.0 * s * t * t, t * t * t];
                    let axis = |i: usize| [start, a, b, end].iter().zip(weights).map(|(p, w)| p[i] * w).sum();
                    [axis(0), axis(1)]
                }));
            }
            _ => return Err(word.to_string()),
        }
    }
    Ok(strokes)
}
