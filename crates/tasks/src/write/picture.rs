//! Handwriting as a picture: the window over the text at each point, and the density of the next point.

use regard_data::excerpt;
use regard_figures::{Figure, PenStroke, Strokes};
use regard_inspect::AttentionView;
use regard_nn::layers::density::StrokeMixture;
use serde_json::{Value, json};

use super::examples::{Learnt, POINT};
use crate::error::TaskError;
use crate::ink::Ink;
use crate::task::Picture;

/// Number of cells of the density along the longer side of the strokes.
const CELLS: f64 = 430.0;
/// Room around the strokes, in heights of a line.
const MARGIN: f64 = 0.15;
/// Number of deviations beyond which a Gaussian is not drawn.
const REACH: f64 = 3.5;

/// Handwriting and what the network made of it, to be drawn once the window is known.
pub(super) struct Sketch {
    pub(super) ink: Ink,
    /// Scaled movements, `[points, 3]`.
    pub(super) points: Vec<f32>,
    /// Raw outputs of the density of each point, `[points, 6K + 1]`.
    pub(super) raw: Vec<f32>,
    pub(super) density: StrokeMixture,
    pub(super) learnt: Learnt,
}

impl Sketch {
    /// Draws the handwriting, with the window of a view above it.
    pub(super) fn picture(&self, view: &AttentionView) -> Result<Picture, TaskError> {
        let Ink { text, strokes, .. } = &self.ink;
        let mut figure = Figure::new(match text.is_empty() {
            true => "Handwriting".to_string(),
            false => format!("{} by hand", excerpt(text)),
        });
        let window = view.groups.first().and_then(|group| group.heads.first());
        let mut steps = Value::Null;
        if let Some(head) = window.filter(|head| !head.rows.is_empty()) {
            let characters: Vec<String> = text.chars().map(|character| character.to_string()).collect();
            let by_character = (0..characters.len()).flat_map(|u| head.rows.iter().map(move |row| row.get(u)));
            let values: Vec<f32> = by_character.map(|weight| weight.copied().unwrap_or(0.0)).collect();
            let strongest: Vec<usize> = head.rows.iter().map(|row| strongest(row)).collect();
            let panel = Strokes::new(self.pieces(&strongest));
            steps = json!(strongest);
            figure.push(
                "weights of the characters at each point, and the strokes",
                panel.weights(characters, head.rows.len(), values)?,
            );
        }
        let (rows, columns, values, bounds) = self.densities();
        figure.push(
            "density of the next point, summed over all points",
            Strokes::new(self.pieces(&[])).density(rows, columns, values, bounds)?,
        );
        let figure = figure.columns(1).note(
            "Columns of the upper map are points in the order of writing; a line leads from the first point of a character to \
             its place in the strokes. Below, the colour is the square root of the density.",
        );
        Ok(Picture { figure, data: json!({ "text": text, "strokes": strokes, "characters": steps }) })
    }

    /// Returns the positions of all points, the first at the origin, in heights of a line.
    fn places(&self) -> Vec<[f64; 2]> {
        let mut places = vec![[0.0, 0.0]];
        for point in self.points.chunks_exact(POINT) {
            let [dx, dy] = self.learnt.restored([point[0], point[1], point[2]]).map(|x| x / self.learnt.unit);
            let [x, y] = places[places.len() - 1];
            places.push([x + dx, y + dy]);
        }
        places
    }

    /// Cuts the strokes where the strongest character changes. Without characters, all pieces have one colour.
    fn pieces(&self, strongest: &[usize]) -> Vec<PenStroke> {
        let places = self.places();
        let point = |index: usize| (places[index][0], places[index][1]);
        let colour = |step: usize| strongest.get(step).copied().unwrap_or(0);
        // Point `n + 1` is drawn from the density after step `n`; the first point belongs to the first character.
        let mut pieces = vec![PenStroke { points: vec![point(0)], colour: colour(0), step: 0 }];
        let mut is_up = false;
        for (step, move_) in self.points.chunks_exact(POINT).enumerate() {
            let last = pieces.len() - 1;
            if is_up {
                pieces.push(PenStroke { points: vec![point(step + 1)], colour: colour(step), step });
            } else if pieces[last].colour == colour(step) {
                pieces[last].points.push(point(step + 1));
            } else {
                pieces.push(PenStroke { points: vec![point(step), point(step + 1)], colour: colour(step), step });
            }
            is_up = move_[2] > 0.5;
        }
        pieces
    }

    /// Sums the densities of the next point of all steps over a grid: rows, columns, roots of the sums, and the bounds.
    fn densities(&self) -> (usize, usize, Vec<f32>, [f64; 4]) {
        let places = self.places();
        let of = |axis: usize| places.iter().map(move |place| place[axis]);
        let [left, top] = [0, 1].map(|axis| of(axis).fold(f64::MAX, f64::min) - MARGIN);
        let [right, bottom] = [0, 1].map(|axis| of(axis).fold(f64::MIN, f64::max) + MARGIN);
        let cell = (right - left).max(bottom - top) / CELLS;
        let size = |length: f64| ((length / cell).ceil().max(1.0) as usize).min(4_000);
        let (columns, rows) = (size(right - left), size(bottom - top));
        let mut sums = vec![0.0f64; rows * columns];
        let k = self.density.components;
        for (row, place) in self.raw.chunks_exact(self.density.outputs()).zip(&places) {
            let part = |n: usize, component: usize| f64::from(row[1 + n * k + component]);
            let largest = (0..k).map(|component| part(0, component)).fold(f64::MIN, f64::max);
            let total: f64 = (0..k).map(|component| (part(0, component) - largest).exp()).sum();
            for component in 0..k {
                let weight = (part(0, component) - largest).exp() / total;
                let centre = [part(1, component), part(2, component)].map(|x| x as f32);
                let [dx, dy] = self.learnt.restored([centre[0], centre[1], 0.0]).map(|x| x / self.learnt.unit);
                let scale = self.learnt.scaler.deviation();
                // A Gaussian narrower than a cell would fall between cells.
                let deviation = [3, 4].map(|n| part(n, component).clamp(-16.0, 80.0).exp());
                let deviation = [(deviation[0] * scale[0]).max(cell), (deviation[1] * scale[1]).max(cell)];
                let correlation = part(5, component).tanh().clamp(-0.99, 0.99);
                let centre = [place[0] + dx, place[1] + dy];
                let range = |axis: usize, least: f64, count: usize| {
                    let at = |x: f64| ((x - least) / cell).clamp(0.0, count as f64) as usize;
                    at(centre[axis] - REACH * deviation[axis])..at(centre[axis] + REACH * deviation[axis] + cell)
                };
                let rest = 1.0 - correlation * correlation;
                let height = weight / (std::f64::consts::TAU * deviation[0] * deviation[1] * rest.sqrt());
                if !height.is_finite() || weight < 1e-4 {
                    continue;
                }
                for y in range(1, top, rows) {
                    for x in range(0, left, columns) {
                        let u = (left + (x as f64 + 0.5) * cell - centre[0]) / deviation[0];
                        let v = (top + (y as f64 + 0.5) * cell - centre[1]) / deviation[1];
                        let exponent = (u * u + v * v - 2.0 * correlation * u * v) / (2.0 * rest);
                        sums[y * columns + x] += height * (-exponent).exp();
                    }
                }
            }
        }
        // The largest hundredth is cut off, so that one sharp movement does not pale all others.
        let mut sorted: Vec<f64> = sums.iter().copied().filter(|sum| *sum > 0.0).collect();
        sorted.sort_by(f64::total_cmp);
        let most = sorted.get(sorted.len().saturating_sub(sorted.len() / 100 + 1)).copied().unwrap_or(1.0);
        let roots = sums.iter().map(|sum| sum.min(most).sqrt() as f32).collect();
        (rows, columns, roots, [left, top, left + columns as f64 * cell, top + rows as f64 * cell])
    }
}

/// Returns the index of the largest weight, the first of equal ones.
pub(super) fn strongest(weights: &[f32]) -> usize {
    let mut best = 0;
    for (index, weight) in weights.iter().enumerate() {
        if *weight > weights[best] {
            best = index;
        }
    }
    best
}
