//! Writing: the network's own points are read back until the window has passed the text.

use burn::tensor::{Tensor, TensorData};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use regard_nn::Pass;
use regard_nn::models::handwriting::Handwriting;

use super::WriteTask;
use super::examples::POINT;
use super::picture::strongest;
use crate::error::TaskError;
use crate::ink::Ink;
use crate::rows::device_of;

/// Largest number of lines that are written at once.
const TOGETHER: usize = 32;
/// Number of times as many points as usual after which a line ends, even if the window has not passed the text.
const PATIENCE: f64 = 3.0;
/// Largest number of points of a line.
const MOST_POINTS: f64 = 20_000.0;

/// A line to write.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wish {
    pub(super) text: String,
    /// Characters of the text; empty for a network that reads none.
    pub(super) ids: Vec<u32>,
    pub(super) seed: u64,
}

/// Handwriting to go on from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Beginning {
    /// Characters of its text, and of a space after it if the network knows one.
    pub(super) ids: Vec<u32>,
    /// Scaled movements, `[points, 3]`.
    pub(super) points: Vec<f32>,
}

/// How lines are written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Manner {
    pub(super) bias: f32,
    pub(super) beginning: Option<Beginning>,
    /// Number of points of a line without a text; the usual number by default.
    pub(super) points: Option<usize>,
}

/// What the pen did.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Trace {
    /// Scaled movements, `[points, 3]`.
    pub(super) points: Vec<f32>,
    /// Index of the character with the largest weight at each point, counted in the text of the wish.
    pub(super) characters: Vec<usize>,
    /// Whether the window has passed the text, or a line without a text has its number of points.
    pub(super) is_finished: bool,
}

impl Trace {
    /// Returns the trace of points that were not written by the model.
    pub(super) fn given(points: Vec<f32>) -> Self {
        Self { characters: vec![0; points.len() / POINT], points, is_finished: true }
    }
}

impl WriteTask {
    /// Writes lines. A line depends on its own seed and not on the others.
    pub(super) fn traces(
        &self,
        model: &Handwriting,
        wishes: &[Wish],
        manner: &Manner,
        pass: &Pass,
    ) -> Result<Vec<Trace>, TaskError> {
        let mut traces = Vec::with_capacity(wishes.len());
        for wishes in wishes.chunks(TOGETHER) {
            traces.extend(self.traces_together(model, wishes, manner, pass)?);
        }
        Ok(traces)
    }

    fn traces_together(
        &self,
        model: &Handwriting,
        wishes: &[Wish],
        manner: &Manner,
        pass: &Pass,
    ) -> Result<Vec<Trace>, TaskError> {
        let (device, batch) = (device_of(model), wishes.len());
        let begun: &[f32] = manner.beginning.as_ref().map_or(&[], |beginning| &beginning.points);
        let first = manner.beginning.as_ref().map_or(0, |beginning| beginning.ids.len());
        let text = |wish: &Wish| {
            let begun = manner.beginning.iter().flat_map(|beginning| &beginning.ids);
            begun.chain(&wish.ids).copied().collect::<Vec<u32>>()
        };
        let texts = match self.config.model.reads_text() {
            true => Some(model.texts(wishes.iter().map(text).collect(), &device)?),
            false => None,
        };
        let most: Vec<usize> = wishes.iter().map(|wish| self.most_points(wish, manner)).collect();
        let mut random: Vec<_> = wishes.iter().map(|wish| ChaCha8Rng::seed_from_u64(wish.seed)).collect();
        let mut traces = vec![Trace::default(); batch];
        let mut live = vec![true; batch];
        let mut state = model.start(batch);
        let mut point = vec![0.0; batch * POINT];
        for step in 0.. {
            pass.check_cancelled()?;
            let read = Tensor::from_data(TensorData::new(point.clone(), [batch, POINT]), &device);
            let found = model.step(read, texts.as_ref(), &mut state, pass)?;
            if let Some(next) = begun.chunks_exact(POINT).nth(step) {
                point = next.repeat(batch);
                continue;
            }
            let ends = found.window.as_ref().map(|window| window.finished());
            let weights: Vec<f32> = match &found.window {
                Some(window) => window.weights.clone().into_data().iter().collect(),
                None => Vec::new(),
            };
            let places = weights.len() / batch;
            for row in 0..batch {
                let trace = &mut traces[row];
                let count = trace.points.len() / POINT;
                if live[row] && (ends.as_ref().is_some_and(|ends| ends[row]) || count >= most[row]) {
                    trace.is_finished = count < most[row] || texts.is_none();
                    live[row] = false;
                }
                if !live[row] {
                    continue;
                }
                let raw = found.raw.clone().narrow(0, row, 1);
                let drawn = model.output.density().sample(raw, manner.bias, &mut random[row])?;
                let drawn: Vec<f32> = drawn.into_data().iter().collect();
                trace.points.extend(&drawn);
                trace.characters.push(strongest(&weights[row * places..][..places]).saturating_sub(first));
                point[row * POINT..][..POINT].copy_from_slice(&drawn);
            }
            if !live.contains(&true) {
                break;
            }
        }
        Ok(traces)
    }

    /// Returns the number of points after which a line ends in any case.
    fn most_points(&self, wish: &Wish, manner: &Manner) -> usize {
        let points = match (self.config.model.reads_text(), manner.points) {
            (true, _) => PATIENCE * self.learnt.per_character * (wish.ids.len() + 2) as f64 + 20.0,
            (false, Some(points)) => points as f64,
            (false, None) => self.learnt.points,
        };
        points.clamp(1.0, MOST_POINTS) as usize
    }

    /// Turns a trace into strokes in the units of the data. The pen starts at the origin, or lifted after handwriting that it
    /// went on from.
    pub(super) fn ink(&self, text: &str, trace: &Trace, is_begun: bool) -> Ink {
        let mut ink = Ink { text: text.to_string(), is_finished: trace.is_finished, ..Ink::default() };
        let (mut stroke, mut characters): (Vec<[f64; 2]>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut place = [0.0, 0.0];
        if !is_begun {
            stroke.push([0.0, 0.0]);
            characters.push(trace.characters.first().copied().unwrap_or(0));
        }
        let all = trace.points.chunks_exact(POINT).zip(&trace.characters);
        for (point, &character) in all {
            let [dx, dy] = self.learnt.restored([point[0], point[1], point[2]]);
            place = [place[0] + dx, place[1] + dy];
            stroke.push(place.map(|x| rounded(x, self.learnt.unit)));
            characters.push(character);
            if point[2] > 0.5 {
                ink.strokes.push(std::mem::take(&mut stroke));
                ink.characters.push(std::mem::take(&mut characters));
            }
        }
        if !stroke.is_empty() {
            ink.strokes.push(stroke);
            ink.characters.push(characters);
        }
        ink
    }
}

/// Rounds a coordinate to a thousandth of the height of a line, rounded down to a power of ten.
fn rounded(x: f64, unit: f64) -> f64 {
    let digits = 10f64.powi(3 - unit.log10().floor() as i32);
    let rounded = (x * digits).round() / digits;
    if rounded.is_finite() { rounded } else { x }
}
