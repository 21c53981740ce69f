//! Handwriting as movements of a pen: resampled, scaled, with the characters of the text.

use std::collections::BTreeSet;

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use regard_data::{Handwritten, Scaler, Stroke, excerpt};
use serde::{Deserialize, Serialize};

use crate::error::TaskError;

/// Number of features of a point: the movement in x and y, and 1 at the end of a stroke.
pub(super) const POINT: usize = 3;
/// Largest scaled movement, far beyond any pen: the network stays finite.
const FARTHEST: f32 = 1e4;

/// What is learnt from the training split before the network is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Learnt {
    /// Mean height of a line in the units of the data.
    pub(super) unit: f64,
    /// Scale of the movements, in heights of a line.
    pub(super) scaler: Scaler,
    /// The characters that the network knows, sorted.
    pub(super) alphabet: String,
    /// Mean number of points of an example.
    pub(super) points: f64,
    /// Mean number of points of a character.
    pub(super) per_character: f64,
}

/// An example as the network sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// The text.
    pub(super) text: String,
    /// Characters of the text.
    pub(super) ids: Vec<u32>,
    /// Scaled movements after the first point, `[points, 3]`.
    pub(super) points: Vec<f32>,
}

impl Example {
    /// Number of movements.
    pub(super) fn length(&self) -> usize {
        self.points.len() / POINT
    }
}

impl Learnt {
    /// Learns from the training split.
    pub(super) fn of(train: &[Handwritten], spacing: f32) -> Result<Self, TaskError> {
        let heights: Vec<f64> = train.iter().map(|example| height(&example.strokes)).filter(|h| *h > 0.0).collect();
        if heights.is_empty() {
            return Err(TaskError::input("training strokes", "strokes that have a height", "none"));
        }
        let unit = heights.iter().sum::<f64>() / heights.len() as f64;
        let moves: Vec<Vec<f32>> = train.iter().map(|example| movements(&example.strokes, unit, spacing)).collect();
        let pairs: Vec<Vec<f32>> = moves.iter().map(|moves| without_ends(moves)).collect();
        let scaler = Scaler::learn(2, pairs.iter().map(Vec::as_slice));
        let characters: BTreeSet<char> = train.iter().flat_map(|example| example.text.chars()).collect();
        let points: usize = moves.iter().map(|moves| moves.len() / POINT).sum();
        let length: usize = train.iter().map(|example| example.text.chars().count()).sum();
        Ok(Self {
            unit,
            scaler,
            alphabet: characters.into_iter().collect(),
            points: points as f64 / train.len().max(1) as f64,
            per_character: points as f64 / length.max(1) as f64,
        })
    }

    /// Returns whether the numbers of a file can be used.
    pub(super) fn is_consistent(&self) -> bool {
        let characters: Vec<char> = self.alphabet.chars().collect();
        let numbers = [self.unit, self.points, self.per_character];
        self.scaler.width() == 2
            && numbers.iter().all(|number| number.is_finite() && *number >= 0.0)
            && self.unit > 0.0
            && characters.is_sorted_by(|a, b| a < b)
    }

    /// Number of characters of the alphabet, at least 1.
    pub(super) fn characters(&self) -> usize {
        self.alphabet.chars().count().max(1)
    }

    /// Returns the ids of the characters of a text; `None` for a character that the network does not know.
    fn id(&self, character: char) -> Option<u32> {
        self.alphabet.chars().position(|known| known == character).map(|id| id as u32)
    }

    /// Encodes a text; refuses characters that were not in the training data.
    pub(super) fn ids(&self, text: &str) -> Result<Vec<u32>, TaskError> {
        let unknown: BTreeSet<char> = text.chars().filter(|character| self.id(*character).is_none()).collect();
        if !unknown.is_empty() {
            let expected = format!("characters of the training data, {}", excerpt(&self.alphabet));
            let found: String = unknown.into_iter().collect();
            return Err(TaskError::input(format!("text {}", excerpt(text)), expected, excerpt(&found)));
        }
        Ok(self.known(text))
    }

    /// Encodes the characters of a text that the network knows, and leaves the others out.
    pub(super) fn known(&self, text: &str) -> Vec<u32> {
        text.chars().filter_map(|character| self.id(character)).collect()
    }

    /// Turns strokes into scaled movements.
    pub(super) fn scaled(&self, strokes: &[Stroke], spacing: f32) -> Vec<f32> {
        let moves = movements(strokes, self.unit, spacing);
        let mut pairs = without_ends(&moves);
        self.scaler.apply(&mut pairs);
        let ends = moves.iter().skip(2).step_by(POINT);
        let limited = |x: f32| x.clamp(-FARTHEST, FARTHEST);
        pairs.chunks_exact(2).zip(ends).flat_map(|(pair, end)| [limited(pair[0]), limited(pair[1]), *end]).collect()
    }

    /// Turns scaled movements into those of the data's units.
    pub(super) fn restored(&self, point: [f32; POINT]) -> [f64; 2] {
        let mut pair = [point[0], point[1]];
        self.scaler.restore(&mut pair);
        pair.map(|x| f64::from(x) * self.unit)
    }
}

/// Adds noise to scaled movements.
pub(super) fn add_noise(points: &mut [f32], deviation: f32, random: &mut impl Rng) {
    for point in points.chunks_exact_mut(POINT) {
        for x in &mut point[..2] {
            let drawn: f32 = StandardNormal.sample(random);
            *x += deviation * drawn;
        }
    }
}

/// Returns the height of strokes.
fn height(strokes: &[Stroke]) -> f64 {
    let ys = || strokes.iter().flatten().map(|point| f64::from(point[1]));
    ys().fold(f64::MIN, f64::max) - ys().fold(f64::MAX, f64::min)
}

/// Returns the movements between points at equal distances, in units of the line, `[points, 3]`. The first point has none.
fn movements(strokes: &[Stroke], unit: f64, spacing: f32) -> Vec<f32> {
    let mut moves = Vec::new();
    let mut last: Option<[f64; 2]> = None;
    for stroke in strokes {
        let points = resampled(stroke, unit, f64::from(spacing));
        for (index, point) in points.iter().enumerate() {
            if let Some(before) = last {
                let end = if index + 1 == points.len() { 1.0 } else { 0.0 };
                // Finite coordinates may be further apart than the largest number.
                let moved = |axis: usize| (point[axis] - before[axis]).clamp(f32::MIN.into(), f32::MAX.into()) as f32;
                moves.extend([moved(0), moved(1), end]);
            }
            last = Some(*point);
        }
    }
    moves
}

fn without_ends(moves: &[f32]) -> Vec<f32> {
    moves.chunks_exact(POINT).flat_map(|point| [point[0], point[1]]).collect()
}

/// Returns points about `spacing` apart along a stroke, in units of the line; its ends are kept.
fn resampled(stroke: &[[f32; 2]], unit: f64, spacing: f64) -> Vec<[f64; 2]> {
    /// Largest number of points of a stroke.
    const MOST: f64 = 100_000.0;
    let points: Vec<[f64; 2]> = stroke.iter().map(|point| point.map(|x| f64::from(x) / unit)).collect();
    let mut way = vec![0.0];
    for ends in points.windows(2) {
        let step = (ends[1][0] - ends[0][0]).hypot(ends[1][1] - ends[0][1]);
        way.push(way[way.len() - 1] + step);
    }
    let whole = way[way.len() - 1];
    if whole <= 0.0 || !whole.is_finite() {
        return points.first().copied().into_iter().collect();
    }
    let pieces = (whole / spacing).round().clamp(1.0, MOST) as usize;
    let mut right = 1;
    let at = |piece: usize| whole * piece as f64 / pieces as f64;
    (0..=pieces)
        .map(|piece| {
            while right + 1 < points.len() && way[right] < at(piece) {
                right += 1;
            }
            let ([ax, ay], [bx, by]) = (points[right - 1], points[right]);
            let gap = way[right] - way[right - 1];
            let part = if gap > 0.0 { ((at(piece) - way[right - 1]) / gap).clamp(0.0, 1.0) } else { 1.0 };
            [ax + (bx - ax) * part, ay + (by - ay) * part]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(strokes: Vec<Stroke>) -> Handwritten {
        Handwritten { text: "ab".to_string(), strokes }
    }

    #[test]
    fn strokes_become_movements_at_equal_distances() {
        let strokes = vec![vec![[0.0, 0.0], [0.0, 4.0]], vec![[2.0, 4.0]], vec![[4.0, 4.0], [4.0, 4.0]]];
        let moves = movements(&strokes, 2.0, 0.5);
        let expected =
            [[0.0, 0.5, 0.0], [0.0, 0.5, 0.0], [0.0, 0.5, 0.0], [0.0, 0.5, 1.0], [1.0, 0.0, 1.0], [1.0, 0.0, 1.0]];
        assert_eq!(moves, expected.concat());
        assert!(movements(&[vec![[1.0, 1.0]]], 1.0, 0.1).is_empty(), "a dot does not move");
        let apart = movements(&[vec![[f32::MAX, 0.0]], vec![[f32::MIN, 0.0]]], 1e-3, 0.1);
        assert_eq!(apart, [f32::MIN, 0.0, 1.0]);
        let huge = movements(&[vec![[f32::MAX, 0.0], [f32::MIN, 0.0], [0.0, 0.0]]], 1e-3, 0.1);
        assert!(huge.len() < 400_000, "{}", huge.len());
    }

    #[test]
    fn scaling_is_undone() {
        let train = [written(vec![vec![[0.0, 0.0], [3.0, 10.0], [7.0, 2.0]], vec![[9.0, 3.0], [9.5, 4.0]]])];
        let learnt = Learnt::of(&train, 0.1).unwrap();
        assert_eq!((learnt.unit, learnt.alphabet.as_str()), (10.0, "ab"));
        assert!(learnt.is_consistent());
        let scaled = learnt.scaled(&train[0].strokes, 0.1);
        let mut place = [0.0, 0.0];
        for point in scaled.chunks_exact(POINT) {
            let [dx, dy] = learnt.restored([point[0], point[1], point[2]]);
            place = [place[0] + dx, place[1] + dy];
        }
        assert!((place[0] - 9.5).abs() < 1e-3 && (place[1] - 4.0).abs() < 1e-3, "{place:?}");
        assert_eq!(learnt.ids("ba").unwrap(), [1, 0]);
        let refused = learnt.ids("abyx").unwrap_err().to_string();
        assert!(refused.contains("\"xy\"") && refused.contains("\"ab\""), "{refused}");
        assert!(Learnt::of(&[written(vec![vec![[0.0, 1.0], [5.0, 1.0]]])], 0.1).is_err(), "no height");
    }
}
