//! `icl fields`: distributions of the elements of features, fields and couplings, and how they change with `N`.

use regard_figures::{Axis, Figure, LineStyle, Lines, Series};
use serde_json::json;

use super::{Shown, csv};
use crate::blocks::{Block, Histogram, check_bins, divergences, feature_elements, pooled};
use crate::error::TheoryError;
use crate::fields::Origin;
use crate::prompt::{Features, Scratch, Task};
use crate::statistics::mean_and_deviation;

/// Settings of `icl fields`.
#[derive(Debug, Clone)]
pub struct ShowFields {
    /// Distribution of the prompts.
    pub task: Task,
    /// Number of prompts in a set.
    pub p: u64,
    /// Numbers of additional examples at which to compute the divergence from `N` examples.
    pub more: Vec<usize>,
    /// Number of bins of a histogram.
    pub bins: usize,
    /// Number of sets of prompts whose elements are pooled.
    pub repeats: usize,
    /// Seed of the first set.
    pub seed: u64,
}

/// The distribution of a block's elements, from prompts and from the closed expressions.
struct Distribution {
    block: Block,
    count: usize,
    mean: f64,
    deviation: f64,
    simulated: Histogram,
    closed: Histogram,
}

/// Largest number of prompts whose features are counted.
const LOOKED_AT: u64 = 200;

impl ShowFields {
    /// Draws prompts in full and by the closed expressions, and compares them. `progress` is called with the current activity.
    pub fn show(&self, progress: &mut dyn FnMut(&str)) -> Result<Shown, TheoryError> {
        check_bins(self.bins)?;
        let longest = self.more.iter().max().map_or(self.task.n, |more| self.task.n.saturating_add(*more));
        Task { n: longest, ..self.task }.validate()?;
        progress("drawing prompts");
        let drawn = pooled(&self.task, Origin::Prompts, (self.p, self.repeats), self.seed)?;
        progress("sampling the closed expressions");
        let closed = pooled(&self.task, Origin::Closed, (self.p, self.repeats), self.seed)?;
        let mut all = Vec::new();
        for block in [Block::A, Block::B] {
            all.push(self.distribution(
                block,
                &self.features(block, Origin::Prompts),
                &self.features(block, Origin::Closed),
            ));
        }
        for (block, (drawn, closed)) in Block::AVERAGED.into_iter().zip(drawn.iter().zip(&closed)) {
            all.push(self.distribution(block, drawn, closed));
        }
        let mut hear = |done: usize| progress(&format!("divergence {done} of {}", self.more.len()));
        let moved =
            divergences(&self.task, &drawn, (self.p, self.repeats), &self.more, self.bins, self.seed, &mut hear)?;
        Ok(Shown {
            text: self.text(&all, &moved),
            json: json!({
                "task": self.task,
                "p": self.p,
                "repeats": self.repeats,
                "bins": self.bins,
                "blocks": all.iter().map(|one| json!({
                    "block": one.block, "elements": one.count, "mean": one.mean, "deviation": one.deviation,
                    "simulated": one.simulated, "closed": one.closed,
                })).collect::<Vec<_>>(),
                "divergences": moved.iter().map(|(more, [c, d, e, f, g])| {
                    json!({ "more": more, "C": c, "D": d, "E": e, "F": f, "G": g })
                }).collect::<Vec<_>>(),
            }),
            csv: csv(
                ["more", "C", "D", "E", "F", "G"],
                moved.iter().map(|(more, [c, d, e, f, g])| {
                    [more.to_string(), c.to_string(), d.to_string(), e.to_string(), f.to_string(), g.to_string()]
                }),
            ),
            figure: self.figure(&all, &moved),
        })
    }

    fn features(&self, block: Block, origin: Origin) -> Vec<f64> {
        let (mut scratch, mut features) = (Scratch::default(), Features::empty());
        let mut all = Vec::new();
        for index in 0..self.p.min(LOOKED_AT) {
            origin.features(&self.task, self.seed, index, &mut scratch, &mut features);
            all.extend(feature_elements(&features, block));
        }
        all
    }

    fn distribution(&self, block: Block, simulated: &[f64], closed: &[f64]) -> Distribution {
        let count = simulated.len();
        let (mean, deviation) = mean_and_deviation(simulated);
        // Outliers are cut off: they would squeeze all other elements into one bin.
        let (low, high) = (mean - 4.0 * deviation, mean + 4.0 * deviation);
        let (low, high) = if deviation > 0.0 { (low, high) } else { (mean - 1.0, mean + 1.0) };
        let histogram = |values: &[f64]| Histogram::new(values, low, high, self.bins);
        Distribution { block, count, mean, deviation, simulated: histogram(simulated), closed: histogram(closed) }
    }

    fn text(&self, all: &[Distribution], moved: &[(usize, [f64; 5])]) -> String {
        let mut text = format!("{:>5} {:>9} {:>12} {:>12}\n", "block", "elements", "mean", "deviation");
        for one in all {
            text += &format!(
                "{:>5} {:>9} {:>12.3e} {:>12.3e}\n",
                format!("{:?}", one.block),
                one.count,
                one.mean,
                one.deviation
            );
        }
        text += &format!("\nKL[P_N‖P_N+ΔN], N = {}, {} bins\n{:>6}", self.task.n, self.bins, "ΔN");
        for block in Block::AVERAGED {
            text += &format!(" {:>9}", format!("{block:?}"));
        }
        text += "\n";
        for (more, row) in moved {
            text += &format!("{more:>6}");
            row.iter().for_each(|value| text += &format!(" {value:>9.4}"));
            text += "\n";
        }
        text
    }

    fn figure(&self, all: &[Distribution], moved: &[(usize, [f64; 5])]) -> Figure {
        let mut figure = Figure::new("Features, fields and couplings of in-context learning")
            .note(format!(
                "D = {}, N = {}, P = {}, {} sets: simulated prompt by prompt, and by closed expressions. ΔN = 0 is the noise floor.",
                self.task.d, self.task.n, self.p, self.repeats
            ))
            .columns(4);
        for one in all {
            let lines = Lines::new(Axis::linear("element"), Axis::linear("density").including(0.0))
                .series(Series::new("simulated", one.simulated.densities()))
                .series(Series::new("closed", one.closed.densities()).style(LineStyle::Dashed));
            figure.push(format!("block {:?}", one.block), lines);
        }
        let mut lines = Lines::new(Axis::linear("ΔN"), Axis::linear("KL[P_N‖P_N+ΔN]").including(0.0));
        for (at, block) in Block::AVERAGED.into_iter().enumerate() {
            let points = moved.iter().map(|(more, row)| (*more as f64, row[at]));
            lines = lines.series(Series::new(format!("{block:?}"), points).style(LineStyle::MarkedLine));
        }
        figure.push("change with N", lines);
        figure
    }
}
