//! Vectors as a picture: their features over the steps, the path they take, the forecast, and where attention looks.

use regard_figures::{Axis, Figure, LineStyle, Lines, Series};
use regard_inspect::AttentionView;
use regard_nn::AttentionKind;
use serde_json::{Value, json};

use super::VectorTask;
use super::examples::Goal;
use super::forecast::{Forecast, MOST_DRAWN};
use crate::error::TaskError;
use crate::task::Picture;

/// An input with its answer, to be drawn once the attention is known.
pub(super) struct Sketch {
    window: Vec<f32>,
    width: usize,
    answer: String,
    forecast: Option<(Forecast, Vec<f32>)>,
}

/// Share of the largest weight from which a point of a path is marked.
const MARKED: f32 = 0.5;

impl VectorTask {
    /// Returns what is to be drawn of an input and the output of the network for it.
    pub(super) fn sketch(&self, window: &[f32], output: &[f32]) -> Sketch {
        let forecast = match &self.goal {
            Goal::Given(..) => None,
            Goal::Next(forecast) => {
                let found = forecast.restored(output.to_vec(), &window[window.len() - self.width()..]);
                Some((forecast.clone(), found))
            }
        };
        let answer = self.prediction(window, output).output;
        Sketch { window: window.to_vec(), width: self.width(), answer, forecast }
    }
}

impl Sketch {
    /// Draws the vectors, and where the heads of a view look.
    pub fn picture(&self, view: &AttentionView) -> Result<Picture, TaskError> {
        let mut figure = match &self.forecast {
            Some((forecast, found)) => forecast.figure(&self.window, self.width, found, None),
            None => Figure::new("Vectors").panel("features", self.features()),
        };
        let weights = self.pooled(view);
        if self.forecast.is_none() && (2..=3).contains(&self.width) {
            figure.push("path of features 1 and 2", self.path(weights.as_deref()));
        }
        for group in &view.groups {
            let axis = Axis::linear("mean weight from all queries");
            let mut lines = Lines::new(Axis::linear("step"), axis);
            for head in group.heads.iter().take(MOST_DRAWN) {
                lines = lines.series(Series::new(group.head_name(head.head), numbered(&mean(&head.rows))));
            }
            figure.push(group.name.clone(), lines);
        }
        Ok(Picture { figure: figure.columns(2), data: self.data(weights) })
    }

    fn vectors(&self) -> impl Iterator<Item = &[f32]> {
        self.window.chunks_exact(self.width)
    }

    fn features(&self) -> Lines {
        let lines = Lines::new(Axis::linear("step"), Axis::linear("value"));
        (0..self.width.min(MOST_DRAWN)).fold(lines, |lines, feature| {
            let values: Vec<f32> = self.vectors().map(|vector| vector[feature]).collect();
            lines.series(Series::new(format!("feature {}", feature + 1), numbered(&values)))
        })
    }

    /// Draws the first two features as a path, its first point and those that pooling looks at most.
    fn path(&self, weights: Option<&[f32]>) -> Lines {
        let points: Vec<(f64, f64)> = self.vectors().map(|v| (f64::from(v[0]), f64::from(v[1]))).collect();
        let first = points.first().copied();
        let mut lines = Lines::new(Axis::linear("feature 1"), Axis::linear("feature 2"))
            .series(Series::new("path", points.clone()))
            .series(Series::new("first", first).style(LineStyle::Markers));
        if let Some(weights) = weights {
            let most = weights.iter().copied().fold(0.0, f32::max);
            let marked = points.iter().zip(weights).filter(|(_, weight)| **weight >= MARKED * most).map(|(at, _)| *at);
            lines = lines.series(Series::new("weight ≥ half of the largest", marked).style(LineStyle::Markers));
        }
        lines
    }

    /// Returns the weight of each vector in the pooling, if attention pools them.
    fn pooled(&self, view: &AttentionView) -> Option<Vec<f32>> {
        let pools = |kind: AttentionKind| kind == AttentionKind::Pooling;
        let group = view.groups.iter().find(|group| group.site.is_some_and(|site| pools(site.kind)))?;
        Some(mean(&group.heads.first()?.rows))
    }

    fn data(&self, weights: Option<Vec<f32>>) -> Value {
        let vectors: Value = self.vectors().map(|vector| json!(vector)).collect();
        json!({ "vectors": vectors, "answer": self.answer, "pooling": weights })
    }
}

/// Returns the mean of the rows.
fn mean(rows: &[Vec<f32>]) -> Vec<f32> {
    let keys = rows.iter().map(Vec::len).max().unwrap_or(0);
    let column = |key: usize| rows.iter().filter_map(|row| row.get(key)).sum::<f32>() / rows.len().max(1) as f32;
    (0..keys).map(column).collect()
}

/// Returns points with the steps, counted from 1, as `x`.
fn numbered(values: &[f32]) -> Vec<(f64, f64)> {
    values.iter().enumerate().map(|(step, &value)| (step as f64 + 1.0, f64::from(value))).collect()
}
