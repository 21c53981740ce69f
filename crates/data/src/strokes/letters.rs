//! Drawings of single letters as Omniglot has them: `characterNN/…_DD.txt` for letter `NN` of drawer `DD`, with lines `x,y,time`
//! between `START` and `BREAK`. `y` grows upwards.
//!
//! Each drawing fills a square of its own, so a letter is brought to the height that it has in a line.

use super::Stroke;
use super::convert::{Characters, Content, Recordings};
use super::glyphs::{Glyph, Variety};
use super::pen_digits::held_out;
use crate::DataError;
use crate::archive::{Member, is_archive, read_archive};
use crate::error::excerpt;
use crate::file::{read_bytes, read_error};
use std::collections::BTreeMap;
use std::path::Path;

const VARIETY: Variety = Variety { slant: 0.1, size: 0.08, bend: 0.015, gap: [0.12, 0.22] };

/// Whether a folder has drawings: folders `character01` and so on, in itself or in one folder of it.
pub(super) fn is_folder(path: &Path) -> bool {
    members(path).is_ok_and(|members| members.iter().any(|member| place(&member.name).is_some()))
}

/// Reads the drawings of an archive or a folder.
pub(super) fn read_drawings(path: &Path) -> Result<Recordings, DataError> {
    let members = match is_archive(path) && path.is_file() {
        true => read_archive(path, |name| place(name).is_some())?,
        false => members(path)?,
    };
    let mut drawers: BTreeMap<String, Characters> = BTreeMap::new();
    for member in &members {
        let Some((letter, drawer)) = place(&member.name) else { continue };
        if let Some(glyph) = drawing(path, member, letter)? {
            drawers.entry(drawer).or_default().entry(letter).or_default().push(glyph);
        }
    }
    let hands = held_out(drawers.into_values().collect(), Vec::new(), Vec::new());
    Ok(Recordings { hands, variety: VARIETY, content: Content::Words })
}

/// Reads the letter and the drawer from a name such as `Latin/character03/0685_07.txt`.
fn place(name: &str) -> Option<(char, String)> {
    let mut parts = name.rsplit('/');
    let (file, folder) = (parts.next()?, parts.next()?);
    let number: u8 = folder.strip_prefix("character")?.parse().ok()?;
    let letter = (1..=26).contains(&number).then(|| char::from(b'a' + number - 1))?;
    let (_, drawer) = file.strip_suffix(".txt")?.rsplit_once('_')?;
    Some((letter, drawer.to_string()))
}

/// Reads the files of folders in a folder, at most three levels deep.
fn members(path: &Path) -> Result<Vec<Member>, DataError> {
    let mut found = Vec::new();
    let mut open = vec![(path.to_path_buf(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = open.pop() {
        let fail = |cause| read_error(&folder, cause);
        for entry in std::fs::read_dir(&folder).map_err(fail)? {
            let entry = entry.map_err(fail)?.path();
            let Some(name) = entry.file_name().and_then(|name| name.to_str()) else { continue };
            let name = format!("{prefix}{name}");
            if entry.is_dir() && depth < 2 {
                open.push((entry.clone(), format!("{name}/"), depth + 1));
            } else if entry.is_file() && place(&name).is_some() {
                found.push(Member { bytes: read_bytes(&entry)?, name });
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Reads a drawing and brings it to its place in a line; `None` if it has no points.
fn drawing(path: &Path, member: &Member, letter: char) -> Result<Option<Glyph>, DataError> {
    let text = String::from_utf8_lossy(&member.bytes);
    let mut strokes = vec![Stroke::new()];
    for (number, line) in text.lines().enumerate() {
        match line.trim() {
            "START" | "" => {}
            "BREAK" => strokes.push(Stroke::new()),
            point => {
                let mut numbers = point.split(',').map(|number| number.trim().parse::<f32>().ok());
                let (x, y) = (numbers.next().flatten(), numbers.next().flatten());
                let Some((x, y)) = x.zip(y).filter(|(x, y)| x.is_finite() && y.is_finite()) else {
                    let place = path.join(&member.name);
                    return Err(DataError::line(&place, number + 1, "a point: x,y,time", excerpt(point)));
                };
                let last = strokes.len() - 1;
                strokes[last].push([x, -y]);
            }
        }
    }
    strokes.retain(|stroke| !stroke.is_empty());
    let ys = || strokes.iter().flatten().map(|point| point[1]);
    let (top, bottom) = (ys().fold(f32::MAX, f32::min), ys().fold(f32::MIN, f32::max));
    if strokes.is_empty() {
        return Ok(None);
    }
    let [first, last] = extent(letter);
    let scale = if bottom > top { (last - first) / (bottom - top) } else { 1.0 };
    for point in strokes.iter_mut().flatten() {
        *point = [point[0] * scale, first + (point[1] - top) * scale];
    }
    Ok(Some(Glyph::fitted(strokes)))
}

/// Returns where a small letter begins and ends between the top of the line, 0, and its bottom, 1.
fn extent(letter: char) -> [f32; 2] {
    match letter {
        'b' | 'd' | 'f' | 'h' | 'k' | 'l' => [0.0, 1.0],
        'g' | 'p' | 'q' | 'y' => [0.45, 1.4],
        'i' => [0.2, 1.0],
        'j' => [0.2, 1.4],
        't' => [0.15, 1.0],
        _ => [0.45, 1.0],
    }
}
