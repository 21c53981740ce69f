//! The grid form of the task as pictures: the picture and the map that come in, the wanted and the predicted result, and where
//! each head looks.

use regard_figures::{ColourScale, Figure, FigureError, Heatmap, ScaleBar, ValueRange};
use regard_inspect::{AttentionView, HeadMap, MapGroup};
use serde_json::{Value, json};

use super::Example;
use crate::error::TaskError;
use crate::task::Picture;

/// An example with the model's answer, and the shape of the grid.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    pub example: Example,
    pub answer: Vec<usize>,
    pub width: usize,
    pub colours: usize,
}

/// Largest side of a grid with texts in its cells; wrong cells of larger grids are hatched.
const WITH_TEXTS: usize = 40;
const SIDE: u32 = 240;

/// Where a head looks from the cells of the result.
struct Gaze {
    name: String,
    /// Weight on the cell that the map points to, for each cell.
    on_mapped: Vec<f32>,
    /// Cell of the picture with the largest weight, for each cell; `None` if a token of the map has as much, or several cells have.
    at_most: Vec<Option<usize>>,
}

impl Grid {
    /// Draws the example, and where the heads of `view` look.
    pub fn picture(&self, view: &AttentionView) -> Result<Picture, TaskError> {
        let gazes: Vec<Gaze> = view
            .groups
            .iter()
            .flat_map(|group| group.heads.iter().map(move |head| (group, head)))
            .map(|(group, head)| self.gaze(group, head))
            .collect();
        Ok(Picture { figure: self.figure(&gazes)?, data: self.data(&gazes) })
    }

    /// Returns whether the cells are too small for texts.
    fn is_large(&self) -> bool {
        self.width.max(self.example.places.len() / self.width) > WITH_TEXTS
    }

    fn wrong(&self) -> usize {
        self.answer.iter().zip(self.example.answer()).filter(|(got, want)| **got != *want).count()
    }

    fn gaze(&self, group: &MapGroup, head: &HeadMap) -> Gaze {
        let size = self.example.places.len();
        // Queries and keys are the cells of the picture, then those of the map, where the result is read.
        let row = |cell: usize| head.rows.get(size + cell).map_or(&[][..], Vec::as_slice);
        let on_mapped = self.example.places.iter().enumerate();
        let on_mapped = on_mapped.map(|(cell, &place)| row(cell).get(place).copied().unwrap_or(0.0)).collect();
        let at_most = (0..size).map(|cell| {
            let row = row(cell);
            let (key, most) = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
            let is_only = row.iter().filter(|weight| *weight == most).count() == 1;
            (key < size && is_only).then_some(key)
        });
        Gaze { name: group.head_name(head.head), on_mapped, at_most: at_most.collect() }
    }

    fn figure(&self, gazes: &[Gaze]) -> Result<Figure, FigureError> {
        let wanted = self.example.answer();
        let (size, wrong) = (wanted.len(), self.wrong());
        let title = match wrong {
            0 => "predicted: all cells right".to_string(),
            _ if self.is_large() => format!("predicted: {wrong} of {size} cells wrong, hatched"),
            _ => format!("predicted: {wrong} of {size} cells wrong, marked predicted≠wanted"),
        };
        let mut figure = Figure::new("A picture rearranged by a map")
            .panel("in: the picture", self.coloured(&self.example.values)?)
            .panel("in: the map of cells", self.map()?)
            .panel("out: wanted", self.coloured(&wanted)?)
            .panel(title, self.predicted(&wanted)?)
            .note("Cells are numbered row by row from 0. A cell of the result has the colour of the cell that the map names there.");
        let last = gazes.len().saturating_sub(1);
        for (index, gaze) in gazes.iter().enumerate() {
            let bar = if index == last { ScaleBar::Shown } else { ScaleBar::Hidden };
            let title = format!("{} finds the mapped cell: {} of {size}", gaze.name, self.found(gaze));
            figure.push(title, self.looks(gaze)?.scale_bar(bar));
        }
        if !gazes.is_empty() {
            let texts = match self.is_large() {
                true => "",
                false => {
                    " The number is the cell of the picture that the head looks at most; · if there is no such cell."
                }
            };
            let note = format!(
                "Panels of heads: the colour is the weight on the cell that the map names.{texts} A head finds a cell if it looks at it most."
            );
            figure = figure.columns(4).note(note);
        }
        Ok(figure)
    }

    /// Returns in how many cells a head looks most at the cell that the map names.
    fn found(&self, gaze: &Gaze) -> usize {
        gaze.at_most.iter().zip(&self.example.places).filter(|(most, place)| **most == Some(**place)).count()
    }

    fn heatmap(&self, values: Vec<f32>, texts: Vec<String>) -> Result<Heatmap, FigureError> {
        Ok(Heatmap::new(values.len() / self.width, self.width, values)?.cell_texts(texts).side(SIDE))
    }

    fn coloured(&self, cells: &[usize]) -> Result<Heatmap, FigureError> {
        let texts = cells.iter().map(usize::to_string).collect();
        let map = self.heatmap(cells.iter().map(|&cell| cell as f32).collect(), texts)?;
        Ok(map.scale(self.colours()).scale_bar(ScaleBar::Hidden))
    }

    fn predicted(&self, wanted: &[usize]) -> Result<Heatmap, FigureError> {
        let is_hatched = self.is_large();
        let cells = || self.answer.iter().zip(wanted);
        let values =
            cells().map(|(got, want)| if is_hatched && got != want { f32::NAN } else { *got as f32 }).collect();
        let texts = cells().map(|(got, want)| if got == want { got.to_string() } else { format!("{got}≠{want}") });
        let map = self.heatmap(values, texts.collect())?.scale(self.colours()).absent("wrong");
        Ok(map.scale_bar(ScaleBar::Hidden))
    }

    fn map(&self) -> Result<Heatmap, FigureError> {
        let places = &self.example.places;
        let values = places.iter().map(|&place| place as f32).collect();
        let map = self.heatmap(values, places.iter().map(usize::to_string).collect())?;
        let last = places.len().saturating_sub(1) as f32;
        // The range is twice as wide as the numbers, so that all cells are pale: they are places, not colours.
        let scale = ColourScale::sequential(ValueRange::Fixed { low: 0.0, high: 2.0 * last });
        Ok(map.scale(scale).scale_bar(ScaleBar::Hidden))
    }

    fn looks(&self, gaze: &Gaze) -> Result<Heatmap, FigureError> {
        let texts = gaze.at_most.iter().map(|most| most.map_or("·".to_string(), |cell| cell.to_string()));
        let map = self.heatmap(gaze.on_mapped.clone(), texts.collect())?;
        Ok(map.scale(ColourScale::sequential(ValueRange::Fixed { low: 0.0, high: 1.0 })))
    }

    fn colours(&self) -> ColourScale {
        let high = self.colours.saturating_sub(1) as f32;
        ColourScale::viridis(ValueRange::Fixed { low: 0.0, high })
    }

    fn data(&self, gazes: &[Gaze]) -> Value {
        let wanted = self.example.answer();
        let heads: Vec<Value> = gazes
            .iter()
            .map(|gaze| {
                let mean = gaze.on_mapped.iter().map(|&weight| f64::from(weight)).sum::<f64>() / wanted.len() as f64;
                let most: Vec<&[Option<usize>]> = gaze.at_most.chunks(self.width).collect();
                json!({ "name": gaze.name, "weight_on_mapped": mean, "looks_most_at": most, "found": self.found(gaze) })
            })
            .collect();
        json!({
            "picture": rows(&self.example.values, self.width), "map": rows(&self.example.places, self.width),
            "wanted": rows(&wanted, self.width), "predicted": rows(&self.answer, self.width),
            "cells": wanted.len(), "wrong": self.wrong(), "heads": heads,
        })
    }
}

/// Splits numbers into rows of a grid.
pub(super) fn rows(cells: &[usize], width: usize) -> Vec<&[usize]> {
    cells.chunks(width.max(1)).collect()
}

/// Reads numbers in a list, or in a list of rows of equal length `width`.
pub(super) fn flat(value: &Value, width: usize) -> Option<Vec<usize>> {
    if let Ok(numbers) = serde_json::from_value(value.clone()) {
        return Some(numbers);
    }
    let rows: Vec<Vec<usize>> = serde_json::from_value(value.clone()).ok()?;
    rows.iter().all(|row| row.len() == width).then(|| rows.concat())
}
