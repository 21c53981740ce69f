//! `icl landscape`: the energy around the ground state, for several numbers of prompts.

use regard_figures::{ColourScale, Figure, Heatmap, ValueRange, number};
use serde_json::json;

use super::{Shown, csv};
use crate::error::TheoryError;
use crate::fields::Fields;
use crate::landscape::{Landscape, landscape};
use crate::prompt::{Task, check_prompts};

/// Settings of `icl landscape`.
#[derive(Debug, Clone)]
pub struct ShowLandscape {
    /// Distribution of the prompts.
    pub task: Task,
    /// Numbers of prompts, one panel each.
    pub p: Vec<u64>,
    /// Regularisation `λ`.
    pub lambda: f64,
    /// Largest distance from the ground state along each axis.
    pub reach: f64,
    /// Number of grid points along a side.
    pub points: usize,
    /// Seed of the prompts.
    pub seed: u64,
}

impl ShowLandscape {
    /// Computes the energy around each ground state. `progress` is called with the current activity.
    pub fn show(&self, progress: &mut dyn FnMut(&str)) -> Result<Shown, TheoryError> {
        self.p.iter().try_for_each(|&p| check_prompts(p))?;
        let mut all: Vec<(u64, Landscape)> = Vec::new();
        for &p in &self.p {
            progress(&format!("P = {p}"));
            let fields = Fields::draw(&self.task, p, self.lambda, self.seed, &mut |_| {})?;
            all.push((p, landscape(&fields, &self.task, self.reach, self.points)?));
        }
        let most = all.iter().flat_map(|(_, one)| one.energy.iter().flatten()).fold(0.0f64, |most, e| most.max(*e));
        let mut text = format!(
            "Energy around the ground state: half the second derivative along the identity and along the softest direction.\n\n\
             {:>9} {:>12} {:>12} {:>24}\n",
            "P", "identity", "softest", "unlimited prompts at"
        );
        for (p, one) in &all {
            let place = one.unlimited.map_or("–".to_string(), |[x, y]| format!("{x:.3}, {y:.3}"));
            text += &format!("{p:>9} {:>12.3e} {:>12.3e} {place:>24}\n", one.stiffness[0], one.stiffness[1]);
        }
        let mut figure = Figure::new("The energy of W around its ground state").columns(2).note(format!(
            "D = {}, N = {}, λ = {}; a valley for P below D(D + 1) = {}, a bowl above.",
            self.task.d,
            self.task.n,
            self.lambda,
            self.task.d * self.task.side()
        ));
        for (p, one) in &all {
            // Rows of a heat map run downwards, the axis upwards.
            let cells = one.energy.iter().rev().flatten().map(|energy| *energy as f32).collect();
            let labels = |places: &[f64]| places.iter().map(|place| number(*place, 3)).collect::<Vec<_>>();
            let up: Vec<String> = labels(&one.y).into_iter().rev().collect();
            let map = Heatmap::new(one.y.len(), one.x.len(), cells)?
                .row_labels(up)
                .column_labels(labels(&one.x))
                .axes("δW along the softest direction", "δW along the identity I/√D")
                .scale(ColourScale::viridis(ValueRange::Fixed { low: 0.0, high: most as f32 }));
            figure.push(format!("P = {p}"), map);
        }
        let rows = all.iter().flat_map(|(p, one)| {
            one.y.iter().zip(&one.energy).flat_map(move |(y, row)| {
                one.x
                    .iter()
                    .zip(row)
                    .map(move |(x, energy)| [p.to_string(), x.to_string(), y.to_string(), energy.to_string()])
            })
        });
        Ok(Shown {
            text,
            csv: csv(["p", "identity", "softest", "energy"], rows),
            json: json!({
                "task": self.task,
                "lambda": self.lambda,
                "landscapes": all.iter().map(|(p, one)| json!({ "p": p, "landscape": one })).collect::<Vec<_>>(),
            }),
            figure,
        })
    }
}
