//! Handwriting that a model has written: strokes, and how they are drawn as SVG, as an animated page and in a terminal.

mod page;
mod terminal;

use regard_data::Handwritten;
use serde::Serialize;

pub use page::{to_html, to_svg};
pub use terminal::to_text;

/// A line to write by hand.
#[derive(Debug, Clone, PartialEq)]
pub struct PenRequest {
    /// The text; empty for a model that writes without one.
    pub text: String,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// How lines are written by hand.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PenOptions {
    /// Bias towards likely movements, 0 or more; that of the model's configuration by default.
    pub bias: Option<f32>,
    /// Handwriting in whose hand the model goes on.
    pub prime: Option<Handwritten>,
    /// Number of points of a line without a text.
    pub points: Option<usize>,
}

/// A line that a model has written.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Ink {
    /// The text.
    pub text: String,
    /// Strokes in the units of the training data, with `y` downwards.
    pub strokes: Vec<Vec<[f64; 2]>>,
    /// For each point the index of the character that the window looked at most.
    pub characters: Vec<Vec<usize>>,
    /// Whether the model came to the end of the text by itself.
    #[serde(rename = "finished")]
    pub is_finished: bool,
}

impl Ink {
    /// Describes the line in a few words.
    pub fn summary(&self) -> String {
        let points: usize = self.strokes.iter().map(Vec::len).sum();
        let strokes = self.strokes.len();
        let end = if self.is_finished { "" } else { ", not finished" };
        format!("{strokes} stroke{}, {points} points{end}", if strokes == 1 { "" } else { "s" })
    }

    /// Returns the corners of the smallest rectangle around the strokes: left, top, right, bottom.
    pub fn bounds(&self) -> [f64; 4] {
        let points = || self.strokes.iter().flatten();
        if points().next().is_none() {
            return [0.0; 4];
        }
        let of = |axis: usize| points().map(move |point| point[axis]);
        [
            of(0).fold(f64::MAX, f64::min),
            of(1).fold(f64::MAX, f64::min),
            of(0).fold(f64::MIN, f64::max),
            of(1).fold(f64::MIN, f64::max),
        ]
    }
}
