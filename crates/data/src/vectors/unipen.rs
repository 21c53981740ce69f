//! Pen trajectories in UNIPEN: each `.SEGMENT` has a label in quotes, and the strokes of the segment follow it. A stroke is
//! the points between `.PEN_DOWN` and the next keyword. Other keywords and their text are skipped.

use super::{Target, Vectors, finite};
use crate::error::excerpt;
use crate::file::TextFile;
use crate::{DataError, Loaded};

/// Features of a point: x, y, and 1 at the last point of a stroke.
const WIDTH: usize = 3;

pub(crate) fn read(file: &TextFile) -> Result<Loaded<Vectors>, DataError> {
    let fail =
        |line: usize, expected: &str, found: &str| Err(DataError::line(file.path(), line, expected, excerpt(found)));
    let mut examples: Vec<Vectors> = Vec::new();
    let mut is_down = false;
    for (line, text) in file.lines() {
        let text = text.trim();
        if let Some(keyword) = text.strip_prefix('.') {
            let is_new = keyword.starts_with("SEGMENT");
            if let Some(example) = examples.last_mut() {
                end_stroke(example);
                if is_new && example.features.is_empty() {
                    return fail(line, "the strokes of the segment before", text);
                }
            }
            is_down = keyword == "PEN_DOWN";
            if is_down && examples.is_empty() {
                return fail(line, "a .SEGMENT with a label before the first stroke", text);
            }
            if is_new {
                let quoted = text.split_once('"').and_then(|(_, rest)| rest.split_once('"')).map(|(label, _)| label);
                let Some(label) = quoted.map(str::trim).filter(|label| !label.is_empty()) else {
                    return fail(line, "a .SEGMENT with a label in quotes", text);
                };
                let target = Some(Target::Label(label.to_string()));
                examples.push(Vectors { features: Vec::new(), width: WIDTH, target, split: None, line: Some(line) });
            }
        } else if is_down && !text.is_empty() {
            let numbers: Option<Vec<f32>> =
                text.split_whitespace().map(|word| word.parse().ok().and_then(finite)).collect();
            match (numbers.as_deref(), examples.last_mut()) {
                (Some(&[x, y]), Some(example)) => example.features.extend([x, y, 0.0]),
                _ => return fail(line, "a point: two numbers", text),
            }
        }
    }
    if let Some(example) = examples.last_mut() {
        end_stroke(example);
        if example.features.is_empty() {
            return fail(example.line.unwrap_or(1), "strokes after the segment", "the end of the file");
        }
    }
    Ok(Loaded { examples, notes: Vec::new() })
}

/// Marks the last point as the end of a stroke.
fn end_stroke(example: &mut Vectors) {
    if let Some(end) = example.features.last_mut() {
        *end = 1.0;
    }
}
