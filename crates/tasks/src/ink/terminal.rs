//! Handwriting in a terminal, as dots of Braille characters.

use super::Ink;

/// Largest number of characters of a line.
const WIDTH: usize = 100;
/// Number of dots of the height of a line.
const HEIGHT: f64 = 22.0;
/// Dots of a Braille character, by row and column, as bits of its code.
const DOTS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

/// Draws a line with 2 × 4 dots for each character.
pub fn to_text(line: &Ink) -> String {
    let [left, top, right, bottom] = line.bounds();
    let (width, height) = (right - left, bottom - top);
    let widest = (2 * WIDTH - 1) as f64;
    let by_height = if height > 0.0 { HEIGHT / height } else { widest };
    let scale = if width * by_height > widest { widest / width } else { by_height };
    if !scale.is_finite() {
        return String::new();
    }
    let (columns, rows) = ((width * scale) as usize / 2 + 1, (height * scale) as usize / 4 + 1);
    let mut cells = vec![vec![0u32; columns]; rows.min(1_000)];
    let mut dot = |x: f64, y: f64| {
        let (x, y) = (x.round() as usize, y.round() as usize);
        if let Some(cell) = cells.get_mut(y / 4).and_then(|row| row.get_mut(x / 2)) {
            *cell |= DOTS[y % 4][x % 2];
        }
    };
    for stroke in &line.strokes {
        let place = |point: &[f64; 2]| ((point[0] - left) * scale, (point[1] - top) * scale);
        if let [point] = stroke.as_slice() {
            let (x, y) = place(point);
            dot(x, y);
        }
        for ends in stroke.windows(2) {
            let ((ax, ay), (bx, by)) = (place(&ends[0]), place(&ends[1]));
            let steps = ((bx - ax).hypot(by - ay) * 2.0).ceil().clamp(1.0, 10_000.0);
            for step in 0..=steps as usize {
                let part = step as f64 / steps;
                dot(ax + (bx - ax) * part, ay + (by - ay) * part);
            }
        }
    }
    let character = |cell: &u32| char::from_u32(0x2800 + cell).unwrap_or(' ');
    let row = |row: &Vec<u32>| row.iter().map(character).collect::<String>().trim_end_matches('\u{2800}').to_string();
    cells.iter().map(|cells| row(cells) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strokes_become_dots() {
        let line = Ink { strokes: vec![vec![[0.0, 0.0], [0.0, 10.0]]], ..Ink::default() };
        let text = to_text(&line);
        assert_eq!(text.lines().count(), 6, "{text}");
        assert!(text.lines().take(5).all(|line| line == "\u{2847}"), "{text}");
        for strokes in [vec![], vec![vec![[1.0, 1.0]]], vec![vec![[1e38, 0.0], [-1e38, 1e38]]]] {
            to_text(&Ink { strokes, ..Ink::default() });
        }
    }
}
