//! Where a captioner looks while it writes, measured on built-in scenes and drawn over the picture.

use regard_figures::{Figure, FigureError, Pictures};
use regard_inspect::AttentionView;
use regard_nn::{AttentionKind, AttentionMap};
use serde_json::{Value, json};

use super::examples::{Described, NamedShape};
use crate::error::TaskError;
use crate::pictures::tile;
use crate::task::Picture;

/// Whether weights are shown as they are, or hard attention as the cell that it chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Focus {
    Soft,
    Hard,
}

/// Returns whether a layer attends to the picture.
pub(super) fn is_over_picture(kind: AttentionKind) -> bool {
    matches!(kind, AttentionKind::Cross | AttentionKind::Alignment)
}

impl Focus {
    /// Returns the mean weights over several heads, one row per token. In hard attention a row has a single 1.
    pub fn mean<'a>(self, heads: impl IntoIterator<Item = &'a Vec<Vec<f32>>>) -> Vec<Vec<f32>> {
        let mut mean: Vec<Vec<f32>> = Vec::new();
        let mut count = 0.0;
        for rows in heads {
            count += 1.0;
            mean.resize(mean.len().max(rows.len()), Vec::new());
            for (sum, row) in mean.iter_mut().zip(rows) {
                sum.resize(sum.len().max(row.len()), 0.0);
                sum.iter_mut().zip(row).for_each(|(sum, weight)| *sum += weight);
            }
        }
        for row in &mut mean {
            match self {
                Self::Soft => row.iter_mut().for_each(|weight| *weight /= count),
                Self::Hard => {
                    let chosen = most(row);
                    row.iter_mut().enumerate().for_each(|(at, weight)| *weight = f32::from(u8::from(at == chosen)));
                }
            }
        }
        mean
    }
}

/// Returns the index of the largest weight, the first of several.
fn most(row: &[f32]) -> usize {
    let larger = |best: usize, at: usize| if row[at] > row[best] { at } else { best };
    (0..row.len()).reduce(larger).unwrap_or(0)
}

/// Sum of the shares of attention on named shapes, and their number.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shares {
    sum: f64,
    count: usize,
}

impl Shares {
    /// Adds the shapes of a scene that `written` describes right: the share of the weights on the cells that the shape covers,
    /// at the token that names it.
    pub fn add(&mut self, scene: &Described, written: &[u32], maps: &[&AttentionMap], grid: [usize; 2], focus: Focus) {
        let is_right =
            |named: &&NamedShape| written.get(named.phrase.clone()) == named.sentence.get(named.phrase.clone());
        let rows = focus.mean(maps.iter().map(|map| &map.rows));
        for named in scene.shapes.iter().filter(is_right) {
            let Some(row) = rows.get(named.word) else { continue };
            self.sum += share(row, &named.shape.covers(grid[0], grid[1]));
            self.count += 1;
        }
    }

    /// Returns the mean share; `None` if no shape was described right.
    pub fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// Returns the share of the weights on covered cells.
fn share(row: &[f32], covered: &[bool]) -> f64 {
    let on = row.iter().zip(covered).filter(|(_, covered)| **covered);
    on.map(|(weight, _)| f64::from(*weight)).sum()
}

/// A described picture with the sentence that the model has written.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub picture: Described,
    /// Tokens of the sentence in readable form, with `</s>`.
    pub words: Vec<String>,
    pub caption: String,
    pub grid: [usize; 2],
    pub focus: Focus,
}

/// Width of a picture in the drawing.
const SIDE: u32 = 120;
const COLUMNS: usize = 8;

impl Written {
    /// Draws the picture once, and once more for each word with the attention laid over it.
    pub fn picture(&self, view: &AttentionView) -> Result<Picture, TaskError> {
        let groups = view.groups.iter().filter(|group| group.site.is_some_and(|site| is_over_picture(site.kind)));
        let maps: Vec<&Vec<Vec<f32>>> = groups.flat_map(|group| &group.heads).map(|head| &head.rows).collect();
        let rows = self.focus.mean(maps.iter().copied());
        Ok(Picture { figure: self.figure(&rows, maps.len())?, data: self.data(&rows) })
    }

    fn figure(&self, rows: &[Vec<f32>], heads: usize) -> Result<Figure, FigureError> {
        let image = &self.picture.image;
        let mut tiles = vec![tile(image)?.caption(&self.picture.name)];
        for (word, row) in self.words.iter().zip(rows).filter(|(_, row)| row.len() == self.grid[0] * self.grid[1]) {
            tiles.push(tile(image)?.caption(word.trim()).weights(self.grid[0], self.grid[1], row.clone())?);
        }
        let pictures = Pictures::new(tiles)?.columns(COLUMNS).side(SIDE);
        let what = match (self.focus, heads) {
            (Focus::Hard, _) => "The coloured cell is the one that the model chose for the word.".to_string(),
            (Focus::Soft, 1) => "The colour is the weight of a cell at the word, strongest at the largest.".to_string(),
            (Focus::Soft, _) => format!(
                "The colour is the mean weight of a cell at the word over {heads} heads, strongest at the largest."
            ),
        };
        let mut figure =
            Figure::new("Where the model looks for each word").panel(self.caption.as_str(), pictures).note(what);
        if let Some(reference) = self.picture.references.first().filter(|reference| **reference != self.caption) {
            figure = figure.note(format!("Expected: {reference}"));
        }
        Ok(figure)
    }

    fn data(&self, rows: &[Vec<f32>]) -> Value {
        let words: Vec<Value> = self
            .words
            .iter()
            .zip(rows)
            .map(|(word, row)| {
                let most = most(row);
                let cells: Vec<&[f32]> = row.chunks(self.grid[1]).collect();
                json!({ "word": word.trim(), "looks_most_at": [most / self.grid[1], most % self.grid[1]], "weights": cells })
            })
            .collect();
        let mut data = json!({ "caption": self.caption, "grid": self.grid, "words": words });
        if let Some(reference) = self.picture.references.first() {
            data["expected"] = reference.as_str().into();
        }
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hard_attention_is_the_chosen_cell() {
        let maps = [vec![vec![0.2, 0.5, 0.3], vec![0.6, 0.4, 0.0]], vec![vec![0.4, 0.1, 0.5], vec![0.2, 0.8, 0.0]]];
        let soft = Focus::Soft.mean(&maps);
        let close = |got: &[f32], want: &[f32]| got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-6);
        assert!(close(&soft[0], &[0.3, 0.3, 0.4]) && close(&soft[1], &[0.4, 0.6, 0.0]), "{soft:?}");
        assert_eq!(Focus::Hard.mean(&maps), [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]);
        assert!((share(&[0.25, 0.5, 0.25], &[true, false, true]) - 0.5).abs() < 1e-9);
    }
}
