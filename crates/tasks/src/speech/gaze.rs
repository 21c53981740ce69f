//! Where a network listens: its attention laid over the picture of a sound, time from left to right and frequency upwards.

use regard_figures::{Axis, Bars, Colour, Figure, FigureError, Pictures, Tile};
use regard_inspect::{AttentionView, MapGroup};
use regard_nn::AttentionKind;
use serde_json::{Value, json};

use super::examples::Goal;
use super::{BLANK, Sounding, Speech};
use crate::decode::ctc::best_labels;
use crate::error::TaskError;
use crate::task::Picture;

/// Width of a sound in the drawing.
const WIDTH: u32 = 300;
/// Largest number of labels whose probabilities are drawn.
const LABELS_SHOWN: usize = 10;
/// Largest number of written characters whose attention is drawn.
const CHARACTERS_SHOWN: usize = 24;

/// A recording with the model's answer.
#[derive(Debug, Clone)]
pub(super) struct Heard {
    /// Brightness of frames and bands, `[bands, frames]`, the highest band first.
    spectrum: Vec<u8>,
    bands: usize,
    frames: usize,
    vectors: usize,
    /// Seconds from a vector to the next.
    step: f64,
    /// Probability of each label, for a network that predicts labels.
    probabilities: Vec<(String, f32)>,
    /// Characters with the vector at which each is written, for a network that transcribes.
    characters: Vec<(String, usize)>,
}

impl Heard {
    pub fn new(task: &Speech, input: &Sounding, output: &[f32]) -> Self {
        let features = task.ear.features(&input.samples);
        let bands = task.ear.bands();
        let frames = features.len() / bands;
        let (low, high) = features.iter().fold((f32::MAX, f32::MIN), |(low, high), &x| (low.min(x), high.max(x)));
        let brightness = |x: f32| (255.0 * (x - low) / (high - low).max(f32::MIN_POSITIVE)) as u8;
        let cell = |at: usize| brightness(features[at % frames * bands + (bands - 1 - at / frames)]);
        let (mut probabilities, mut characters) = (Vec::new(), Vec::new());
        match &task.goal {
            Goal::Label(answers) => {
                let names = answers.labels().map_or(&[][..], regard_data::Vocabulary::names);
                probabilities.extend(names.iter().cloned().zip(output.iter().copied()));
            }
            Goal::Text(_) => {
                let labels = best_labels(output, task.goal.outputs());
                for (at, &label) in labels.iter().enumerate() {
                    if label != BLANK && (at == 0 || labels[at - 1] != label) {
                        characters.push((task.text(&[label]), at));
                    }
                }
            }
        }
        Self {
            spectrum: (0..bands * frames).map(cell).collect(),
            bands,
            frames,
            vectors: task.ear.vectors(frames),
            step: task.ear.seconds(),
            probabilities,
            characters,
        }
    }

    /// Names the vectors by their times.
    pub fn times(&self) -> Vec<String> {
        (0..self.vectors).map(|at| self.time(at)).collect()
    }

    fn time(&self, at: usize) -> String {
        format!("{:.2} s", at as f64 * self.step)
    }

    /// Draws the sound, the answer, and where the maps of `view` listen.
    pub fn picture(&self, view: &AttentionView) -> Result<Picture, TaskError> {
        let seconds = self.vectors as f64 * self.step;
        let name = format!("the sound, {seconds:.2} s, low to high frequencies");
        let mut figure = Figure::new(view.title.as_str()).panel(name, self.tiles([self.tile()?])?);
        if !self.probabilities.is_empty() {
            figure.push("probabilities", self.bars()?);
        }
        let mut listed = Vec::new();
        for group in &view.groups {
            let Some(site) = group.site else { continue };
            match self.characters.is_empty() || site.kind == AttentionKind::Pooling {
                true => {
                    let rows: Vec<(String, Vec<f32>)> =
                        group.heads.iter().map(|head| (group.head_name(head.head), mean(&head.rows))).collect();
                    figure.push(group.name.as_str(), self.overlaid(&rows)?);
                    listed.extend(rows);
                }
                false => {
                    let rows = self.at_characters(group);
                    figure.push(format!("{}, mean of the heads", group.name), self.overlaid(&rows)?);
                    listed.extend(rows);
                }
            }
        }
        figure = match (view.groups.is_empty(), self.characters.is_empty()) {
            (true, _) => figure,
            (false, true) => {
                figure.note("The colour is the mean weight of a moment over all moments that look, by head.")
            }
            (false, false) => figure.note(
                "For each character, the colour is the weight of a moment as seen from the one at which it is written.",
            ),
        };
        Ok(Picture { figure: figure.columns(1), data: self.data(&listed) })
    }

    /// The weights of the moments at which characters are written, mean over the heads of a layer.
    fn at_characters(&self, group: &MapGroup) -> Vec<(String, Vec<f32>)> {
        let written = self.characters.iter().take(CHARACTERS_SHOWN);
        let row = |(name, at): &(String, usize)| {
            let rows: Vec<Vec<f32>> = group.heads.iter().filter_map(|head| head.rows.get(*at).cloned()).collect();
            (format!("{name} at {}", self.time(*at)), mean(&rows))
        };
        written.map(row).collect()
    }

    fn tile(&self) -> Result<Tile, FigureError> {
        let pixels = self.spectrum.iter().map(|&grey| Colour(grey, grey, grey)).collect();
        Tile::new(self.bands, self.frames, pixels)
    }

    fn overlaid(&self, rows: &[(String, Vec<f32>)]) -> Result<Pictures, FigureError> {
        let fits = rows.iter().filter(|(_, weights)| weights.len() == self.vectors);
        let tiles = fits.map(|(name, weights)| self.tile()?.caption(name).weights(1, self.vectors, weights.clone()));
        self.tiles(tiles.collect::<Result<Vec<_>, _>>()?)
    }

    fn tiles(&self, tiles: impl IntoIterator<Item = Tile>) -> Result<Pictures, FigureError> {
        Ok(Pictures::new(tiles)?.columns(4).side(WIDTH))
    }

    fn bars(&self) -> Result<Bars, FigureError> {
        let mut sorted = self.probabilities.clone();
        sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
        sorted.truncate(LABELS_SHOWN);
        let names = sorted.iter().map(|(name, _)| name.as_str());
        let axis = Axis::linear("probability").including(0.0).including(1.0);
        Bars::new(axis, names).series("", sorted.iter().map(|(_, probability)| f64::from(*probability)))
    }

    fn data(&self, rows: &[(String, Vec<f32>)]) -> Value {
        let probabilities: serde_json::Map<String, Value> =
            self.probabilities.iter().map(|(name, probability)| (name.clone(), json!(probability))).collect();
        let characters: Vec<Value> = self
            .characters
            .iter()
            .map(|(name, at)| json!({ "character": name, "seconds": *at as f64 * self.step }))
            .collect();
        let rows: Vec<Value> = rows.iter().map(|(name, weights)| json!({ "name": name, "weights": weights })).collect();
        let mut data = json!({ "seconds_per_weight": self.step, "attention": rows });
        match self.probabilities.is_empty() {
            true => data["characters"] = characters.into(),
            false => data["probabilities"] = probabilities.into(),
        }
        data
    }
}

fn mean(rows: &[Vec<f32>]) -> Vec<f32> {
    let mut mean = vec![0.0; rows.first().map_or(0, Vec::len)];
    for row in rows {
        mean.iter_mut().zip(row).for_each(|(sum, weight)| *sum += weight / rows.len() as f32);
    }
    mean
}
