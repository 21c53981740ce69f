//! `icl fields`: distributions of the elements of features, fields and couplings, and how they change with `N`.

use regard_figures::{Axis, Figure, LineStyle, Lines, Series};
use serde::Serialize;
use serde_json::json;

use super::{Shown, csv, optional};
use crate::blocks::{
    Block, Change, Histogram, check_bins, divergence, divergences, feature_elements, pooled, published_divergences,
    published_products,
};
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
    /// How to measure the change of a block.
    pub counting: Counting,
    /// Number of sets of prompts whose elements are pooled.
    pub repeats: usize,
    /// Seed of the first set.
    pub seed: u64,
}

/// How `icl fields` measures the change of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Counting {
    /// From the pooled elements of all sets of prompts, in nats, by [`divergences`].
    Pooled,
    /// From single sets of prompts, in bits, by [`published_divergences`].
    Published,
}

/// The distribution of a block's elements, from prompts and from the closed expressions.
struct Distribution {
    block: Block,
    count: usize,
    mean: f64,
    deviation: f64,
    simulated: Histogram,
    closed: Histogram,
    approximation: Option<Approximation>,
}

/// The published approximation of a block of couplings.
#[derive(Serialize)]
struct Approximation {
    deviation: f64,
    /// Kullback–Leibler divergence of the simulated elements from the approximation, in nats.
    divergence: f64,
    histogram: Histogram,
}

/// Largest number of elements that are drawn by a published approximation.
const MOST_PRODUCTS: usize = 1_000_000;

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
            let [simulated, closed] = [Origin::Prompts, Origin::Closed].map(|origin| self.features(block, origin));
            all.push(self.distribution(block, &simulated, &closed, None)?);
        }
        for (block, (simulated, closed)) in Block::AVERAGED.into_iter().zip(drawn.iter().zip(&closed)) {
            let products = published_products(block, &drawn, simulated.len().min(MOST_PRODUCTS), self.seed);
            all.push(self.distribution(block, simulated, closed, products)?);
        }
        let mut hear = |done: usize| progress(&format!("divergence {done} of {}", self.more.len()));
        let sets = (self.p, self.repeats);
        let moved = match self.counting {
            Counting::Pooled => divergences(&self.task, &drawn, sets, &self.more, self.bins, self.seed, &mut hear)?,
            Counting::Published => published_divergences(&self.task, sets, &self.more, self.seed, &mut hear)?,
        };
        Ok(Shown {
            text: self.text(&all, &moved),
            json: json!({
                "task": self.task,
                "p": self.p,
                "repeats": self.repeats,
                "bins": self.bins,
                "counting": self.counting,
                "blocks": all.iter().map(|one| json!({
                    "block": one.block, "elements": one.count, "mean": one.mean, "deviation": one.deviation,
                    "simulated": one.simulated, "closed": one.closed, "published_approximation": one.approximation,
                })).collect::<Vec<_>>(),
                "divergences": moved.iter().map(|Change { more, divergence: [c, d, e, f, g], deviation }| {
                    json!({ "more": more, "C": c, "D": d, "E": e, "F": f, "G": g, "std": deviation })
                }).collect::<Vec<_>>(),
            }),
            csv: csv(
                ["more", "C", "D", "E", "F", "G", "C_std", "D_std", "E_std", "F_std", "G_std"],
                moved.iter().map(|Change { more, divergence, deviation }| {
                    let deviations = deviation.map_or([None; 5], |deviation| deviation.map(Some));
                    let numbers = divergence.map(Some).into_iter().chain(deviations).map(optional);
                    let cells: Vec<String> = [more.to_string()].into_iter().chain(numbers).collect();
                    <[String; 11]>::try_from(cells).expect("five blocks have ten numbers")
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

    fn distribution(
        &self,
        block: Block,
        simulated: &[f64],
        closed: &[f64],
        products: Option<Vec<f64>>,
    ) -> Result<Distribution, TheoryError> {
        let count = simulated.len();
        let (mean, deviation) = mean_and_deviation(simulated);
        // Outliers are cut off: they would squeeze all other elements into one bin.
        let (low, high) = (mean - 4.0 * deviation, mean + 4.0 * deviation);
        let (low, high) = if deviation > 0.0 { (low, high) } else { (mean - 1.0, mean + 1.0) };
        let histogram = |values: &[f64]| Histogram::new(values, low, high, self.bins);
        let approximation = products
            .map(|products| -> Result<Approximation, TheoryError> {
                let (_, deviation) = mean_and_deviation(&products);
                let divergence = divergence(simulated, &products, self.bins)?;
                Ok(Approximation { deviation, divergence, histogram: histogram(&products) })
            })
            .transpose()?;
        let (simulated, closed) = (histogram(simulated), histogram(closed));
        Ok(Distribution { block, count, mean, deviation, simulated, closed, approximation })
    }

    fn text(&self, all: &[Distribution], moved: &[Change]) -> String {
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
        text += "\nPublished approximation of the couplings by products of fields: E = C₁C₂, F = C₁D₁, G = D₁D₂\n";
        text +=
            &format!("{:>5} {:>12} {:>18} {:>22}\n", "block", "deviation", "of the simulated", "KL from it, in nats");
        for one in all {
            if let Some(approximation) = &one.approximation {
                let share = match one.deviation > 0.0 {
                    true => format!("{:.3} times", approximation.deviation / one.deviation),
                    false => "–".to_string(),
                };
                let Approximation { deviation, divergence, .. } = approximation;
                let block = format!("{:?}", one.block);
                text += &format!("{block:>5} {deviation:>12.3e} {share:>18} {divergence:>22.2}\n");
            }
        }
        let (n, bins, repeats) = (self.task.n, self.bins, self.repeats);
        text += &match self.counting {
            Counting::Pooled => format!("\nKL[P_N‖P_N+ΔN] in nats, N = {n}, {bins} bins, {repeats} sets pooled\n"),
            Counting::Published => {
                format!(
                    "\nKL[P_N‖P_N+ΔN] in bits, as published, N = {n}, {bins} bins, mean ± deviation of {repeats} pairs of sets\n"
                )
            }
        };
        let width = if moved.iter().any(|change| change.deviation.is_some()) { 15 } else { 9 };
        text += &format!("{:>6}", "ΔN");
        for block in Block::AVERAGED {
            text += &format!(" {:>width$}", format!("{block:?}"));
        }
        text += "\n";
        for Change { more, divergence, deviation } in moved {
            text += &format!("{more:>6}");
            for (at, value) in divergence.iter().enumerate() {
                let cell = match deviation {
                    Some(deviation) => format!("{value:.4} ± {:.4}", deviation[at]),
                    None => format!("{value:.4}"),
                };
                text += &format!(" {cell:>width$}");
            }
            text += "\n";
        }
        text
    }

    fn figure(&self, all: &[Distribution], moved: &[Change]) -> Figure {
        let mut figure = Figure::new("Features, fields and couplings of in-context learning")
            .note(format!(
                "D = {}, N = {}, P = {}, {} sets: simulated prompt by prompt, and by closed expressions. ΔN = 0 is the noise floor.",
                self.task.d, self.task.n, self.p, self.repeats
            ))
            .columns(4);
        for one in all {
            let Distribution { block, simulated, closed, approximation, .. } = one;
            // The products are much narrower than the simulated elements: on a linear axis only they would be seen.
            let density = match approximation {
                Some(_) => Axis::log("density"),
                None => Axis::linear("density").including(0.0),
            };
            let is_drawn = |&(_, density): &(f64, f64)| approximation.is_none() || density > 0.0;
            let mut lines = Lines::new(Axis::linear("element"), density)
                .series(Series::new("simulated", simulated.densities().filter(is_drawn)))
                .series(Series::new("closed", closed.densities().filter(is_drawn)).style(LineStyle::Dashed));
            if let Some(approximation) = approximation {
                let points = approximation.histogram.densities().filter(is_drawn);
                lines = lines.series(Series::new("published approximation", points));
            }
            figure.push(format!("block {block:?}"), lines);
        }
        let unit = match self.counting {
            Counting::Pooled => "nats",
            Counting::Published => "bits",
        };
        let mut lines =
            Lines::new(Axis::linear("ΔN"), Axis::linear(format!("KL[P_N‖P_N+ΔN] in {unit}")).including(0.0));
        for (at, block) in Block::AVERAGED.into_iter().enumerate() {
            let mut series = Series::new(
                format!("{block:?}"),
                moved.iter().map(|change| (change.more as f64, change.divergence[at])),
            );
            let deviations: Option<Vec<f64>> = moved.iter().map(|change| change.deviation.map(|all| all[at])).collect();
            if let Some(deviations) = deviations {
                series = series.deviations(deviations);
            }
            lines = lines.series(series.style(LineStyle::MarkedLine));
        }
        figure.push("change with N", lines);
        figure
    }
}
