//! `icl spectrum`: eigenvalues of the Hessian and how many are zero, and those of the inputs beside the Marchenko–Pastur law.

use regard_figures::{Axis, Figure, LineStyle, Lines, Series};
use serde_json::json;

use super::{Shown, csv};
use crate::blocks::{Histogram, check_bins};
use crate::error::TheoryError;
use crate::fields::Fields;
use crate::prompt::{Task, check_prompts};
use crate::spectrum::{
    ZERO, expected_zero_fraction, hessian_spectrum, input_spectrum, marchenko_pastur, marchenko_pastur_edges,
    zero_fraction,
};

/// Settings of `icl spectrum`.
#[derive(Debug, Clone)]
pub struct ShowSpectrum {
    /// Distribution of the prompts.
    pub task: Task,
    /// Numbers of prompts, one spectrum each.
    pub p: Vec<u64>,
    /// Number of bins of a histogram.
    pub bins: usize,
    /// Seed of the prompts.
    pub seed: u64,
}

/// Number of prompts, share of zeros, expected share of zeros, and the eigenvalues.
type Spectrum = (u64, f64, Option<f64>, Vec<f64>);

/// Number of prompts whose inputs are decomposed.
const INPUTS: u64 = 100;

impl ShowSpectrum {
    /// Computes the spectra. `progress` is called with the current activity.
    pub fn show(&self, progress: &mut dyn FnMut(&str)) -> Result<Shown, TheoryError> {
        check_bins(self.bins)?;
        self.p.iter().try_for_each(|&p| check_prompts(p))?;
        let mut all = Vec::new();
        for &p in &self.p {
            progress(&format!("P = {p}"));
            let fields = Fields::draw(&self.task, p, 0.0, self.seed, &mut |_| {})?;
            let values = hessian_spectrum(&fields)?;
            // With c = 1 all inputs are equal and span one direction only: no share is expected.
            let expected = (self.task.c < 1.0).then(|| expected_zero_fraction(self.task.d, p));
            all.push((p, zero_fraction(&values), expected, values));
        }
        progress("inputs");
        let inputs = input_spectrum(&self.task, INPUTS, self.seed)?;
        let mut text = format!("Zero eigenvalues of the Hessian, (D + 1)² = {}\n\n", self.task.side().pow(2));
        text += &format!("{:>9} {:>12} {:>12} {:>12}\n", "P", "zeros", "expected", "largest");
        for (p, zeros, expected, values) in &all {
            let expected = expected.map_or("–".to_string(), |expected| format!("{expected:.4}"));
            text += &format!("{p:>9} {zeros:>12.4} {expected:>12} {:>12.4}\n", values[values.len() - 1]);
        }
        let ratio = self.task.d as f64 / self.task.n as f64;
        text += &format!(
            "\nEigenvalues of x xᵀ/N of {INPUTS} prompts: {:.3} to {:.3}",
            inputs[0],
            inputs[inputs.len() - 1]
        );
        if self.task.c == 0.0 {
            let edges = marchenko_pastur_edges(ratio);
            text += &format!("; Marchenko–Pastur law: {:.3} to {:.3}", edges.0, edges.1);
        }
        text += "\n";
        Ok(Shown {
            text,
            csv: csv(
                ["p", "eigenvalue"],
                all.iter().flat_map(|(p, _, _, values)| values.iter().map(|v| [p.to_string(), v.to_string()])),
            ),
            figure: self.figure(&all, &inputs, ratio),
            json: json!({
                "task": self.task,
                "hessian": all.iter().map(|(p, zeros, expected, values)| json!({
                    "p": p, "zero_fraction": zeros, "expected_zero_fraction": expected, "eigenvalues": values,
                })).collect::<Vec<_>>(),
                "inputs": inputs,
            }),
        })
    }

    fn figure(&self, all: &[Spectrum], inputs: &[f64], ratio: f64) -> Figure {
        let largest = all.iter().flat_map(|(_, _, _, values)| values).fold(10.0 * ZERO, |most, value| most.max(*value));
        // Bins have equal width in the logarithm. Zeros are in the panel beside it.
        let (low, high) = (ZERO.log10(), largest.log10());
        let mut hessian = Lines::new(Axis::log("eigenvalue"), Axis::linear("share of all").including(0.0));
        for (p, _, _, values) in all {
            let above: Vec<f64> = values.iter().filter(|value| **value >= ZERO).map(|value| value.log10()).collect();
            let histogram = Histogram::new(&above, low, high, self.bins);
            let share = above.len() as f64 / values.len() as f64 * (high - low) / self.bins as f64;
            let points = histogram.densities().map(|(x, density)| (10f64.powf(x), density * share)).collect::<Vec<_>>();
            hessian = hessian.series(Series::new(format!("P = {p}"), points));
        }
        let zeros = Lines::new(Axis::log("P"), Axis::linear("share of zeros").including(0.0).including(1.0))
            .series(Series::new("counted", all.iter().map(|one| (one.0 as f64, one.1))).style(LineStyle::MarkedLine))
            .series(
                Series::new("expected", all.iter().filter_map(|one| one.2.map(|zeros| (one.0 as f64, zeros))))
                    .style(LineStyle::Dashed),
            );
        let (low, high) = (0.0, inputs[inputs.len() - 1]);
        let histogram = Histogram::new(inputs, low, high, self.bins);
        let law = (0..400).map(|i| low + (high - low) * (f64::from(i) + 0.5) / 400.0);
        let mut inputs = Lines::new(Axis::linear("eigenvalue"), Axis::linear("density").including(0.0))
            .series(Series::new("x xᵀ/N", histogram.densities()).style(LineStyle::MarkedLine));
        // The law holds for independent inputs.
        if self.task.c == 0.0 {
            let law = law.map(|x| (x, marchenko_pastur(x, ratio)));
            inputs = inputs.series(Series::new("Marchenko–Pastur", law).style(LineStyle::Dashed));
        }
        Figure::new("Spectra of in-context learning")
            .note(format!("D = {}, N = {}; eigenvalues below 10⁻⁵ count as zero.", self.task.d, self.task.n))
            .panel("Hessian of the data", hessian)
            .panel("zero modes", zeros)
            .panel("inputs", inputs)
    }
}
