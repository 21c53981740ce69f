//! RNN, LSTM and GRU side by side: parameters, time of a training step, and accuracy on a task that needs memory: recall the
//! first symbol of a sequence after a number of irrelevant ones.

use std::time::Instant;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use regard_figures::{Axis, Figure, LineStyle, Lines, Series, Table};
use regard_nn::layers::linear::{Linear, LinearConfig};
use regard_nn::layers::recurrent::{Cell, Recurrent, RecurrentConfig};
use regard_nn::{Init, NnError, Pass};
use regard_ops::{AdamW, AdamWOptions, CrossEntropyOptions, Decay, cross_entropy};
use serde::Serialize;

use super::limits::check_range;
use super::{Progress, ShowError, Shown, random};

/// Number of symbols to remember. As many other symbols fill the delay.
const SYMBOLS: usize = 8;
const BATCH: usize = 32;
/// Number of steps between two points of the curves.
const EVERY: usize = 10;
const TESTED: usize = 512;

/// Settings of the comparison.
#[derive(Debug, Clone, Copy)]
pub struct Cells {
    /// Number of hidden units of each cell.
    pub d_hidden: usize,
    /// Number of symbols between the one to remember and the question.
    pub delay: usize,
    /// Number of training steps.
    pub steps: usize,
    /// Seed of weights and sequences.
    pub seed: u64,
}

impl Default for Cells {
    fn default() -> Self {
        Self { d_hidden: 32, delay: 20, steps: 400, seed: 0 }
    }
}

/// Results of one cell.
#[derive(Debug, Serialize)]
struct Row {
    cell: &'static str,
    /// Number of parameters of the recurrent layer.
    parameters: usize,
    /// Time of the fastest training step, in milliseconds.
    step_ms: f64,
    /// Share of new sequences with the right answer.
    accuracy: f64,
    /// `(step, mean loss of the steps since the last point)`.
    loss: Vec<(usize, f64)>,
}

#[derive(Module, Debug)]
struct Recaller {
    recurrent: Recurrent,
    output: Linear,
}

impl Recaller {
    /// Returns the logits of the first symbol, from the final state.
    fn forward(&self, x: Tensor<3>) -> Result<Tensor<2>, NnError> {
        let state = self.recurrent.forward(x, None, None, &Pass::inference())?.state;
        Ok(self.output.forward(state.top())?)
    }
}

impl Cells {
    /// Trains each cell on the same sequences.
    pub fn show(&self, progress: &mut dyn FnMut(Progress)) -> Result<Shown, ShowError> {
        check_range("d_hidden", self.d_hidden, 1..=512)?;
        check_range("delay", self.delay, 1..=500)?;
        check_range("steps", self.steps, 1..=20_000)?;
        let remembering = Cell::Lstm { forget_bias: 1.0 };
        let kinds =
            [("RNN", Cell::Rnn), ("LSTM", Cell::lstm()), ("LSTM, forget bias 1", remembering), ("GRU", Cell::gru())];
        let mut rows = Vec::with_capacity(kinds.len());
        for (done, (name, cell)) in kinds.into_iter().enumerate() {
            progress(Progress { done, total: kinds.len(), what: name.to_string() });
            rows.push(self.train(name, cell)?);
        }
        let table = self.table(&rows);
        let text = format!(
            "Recall the first of {SYMBOLS} symbols after {} others; {} steps of {BATCH} sequences, {} hidden units, accuracy on \
             {TESTED} new ones.\nGuessing gives {:.3}.\n\n{}",
            self.delay,
            self.steps,
            self.d_hidden,
            1.0 / SYMBOLS as f64,
            table.to_text()
        );
        let figure = self.figure(&rows, table);
        let json =
            serde_json::json!({ "delay": self.delay, "d_hidden": self.d_hidden, "steps": self.steps, "rows": rows });
        Ok(Shown { text, json, figure })
    }

    fn train(&self, name: &'static str, cell: Cell) -> Result<Row, ShowError> {
        let device = Device::flex().autodiff();
        let init = Init::new(self.seed, &device);
        let recurrent = RecurrentConfig::new(cell, 2 * SYMBOLS + 1, self.d_hidden).init(&init.enter("recurrent"))?;
        let parameters = recurrent.num_params();
        let output = LinearConfig::new(self.d_hidden, SYMBOLS).init(&init.enter("output"))?;
        let mut model = Recaller { recurrent, output };
        let options =
            AdamWOptions { learning_rate: 5e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0, l2: 0.0 };
        let mut optimiser = AdamW::new(options, Some(1.0), Decay::All);
        let mut sequences = random(self.seed);
        let (mut shortest, mut sum, mut loss) = (f64::INFINITY, 0.0, Vec::new());
        for step in 1..=self.steps {
            let (x, targets) = self.sequences(&mut sequences, BATCH, &device);
            let start = Instant::now();
            let mean = cross_entropy(model.forward(x)?, targets, CrossEntropyOptions::default())?;
            let gradients = mean.clone().backward();
            model = optimiser.step(model, gradients)?.0;
            shortest = shortest.min(start.elapsed().as_secs_f64());
            sum += f64::from(mean.into_scalar::<f32>());
            if step % EVERY == 0 {
                loss.push((step, sum / EVERY as f64));
                sum = 0.0;
            }
        }
        let (x, targets) = self.sequences(&mut random(!self.seed), TESTED, &device);
        let answers: Vec<i64> = model.forward(x)?.argmax(1).into_data().iter().collect();
        let right =
            targets.into_data().iter::<i64>().zip(&answers).filter(|(target, answer)| target == *answer).count();
        Ok(Row { cell: name, parameters, step_ms: shortest * 1e3, accuracy: right as f64 / TESTED as f64, loss })
    }

    /// Returns one-hot sequences, with the symbol first and the question last, and the symbols as targets.
    fn sequences(&self, random: &mut ChaCha8Rng, batch: usize, device: &Device) -> (Tensor<3>, Tensor<1, Int>) {
        let (seq, width) = (self.delay + 2, 2 * SYMBOLS + 1);
        let mut x = vec![0.0f32; batch * seq * width];
        let mut targets = Vec::with_capacity(batch);
        for sequence in x.chunks_exact_mut(seq * width) {
            let symbol = random.random_range(0..SYMBOLS);
            targets.push(symbol as i32);
            sequence[symbol] = 1.0;
            for step in sequence[width..(seq - 1) * width].chunks_exact_mut(width) {
                step[SYMBOLS + random.random_range(0..SYMBOLS)] = 1.0;
            }
            sequence[seq * width - 1] = 1.0;
        }
        let x = Tensor::from_data(TensorData::new(x, [batch, seq, width]), device);
        (x, Tensor::from_data(TensorData::new(targets, [batch]), device))
    }

    fn table(&self, rows: &[Row]) -> Table {
        let mut table = Table::new(["cell", "parameters", "step, ms", "accuracy"]);
        for row in rows {
            let (ms, accuracy) = (format!("{:.3}", row.step_ms), format!("{:.3}", row.accuracy));
            table.push([row.cell.to_string(), row.parameters.to_string(), ms, accuracy]);
        }
        table
    }

    fn figure(&self, rows: &[Row], table: Table) -> Figure {
        let mut curves = Lines::new(Axis::linear("step"), Axis::linear("loss, nats").including(0.0));
        for row in rows {
            let points: Vec<_> = row.loss.iter().map(|&(step, loss)| (step as f64, loss)).collect();
            curves = curves.series(Series::new(row.cell, points));
        }
        let chance = (SYMBOLS as f64).ln();
        let points = vec![(0.0, chance), (self.steps as f64, chance)];
        curves = curves.series(Series::new("guessing", points).style(LineStyle::Dashed));
        Figure::new("RNN, LSTM and GRU on a task that needs memory")
            .panel("Training loss", curves)
            .panel("After training", table)
            .note(format!("The task is to recall the first of {SYMBOLS} symbols after {} irrelevant ones.", self.delay))
            .note("A forget gate that starts half open halves the cell state at every step; a bias of 1 opens it, so gradients reach further back.")
            .note("Time is that of the fastest step (forward, backward and update); accuracy is over new sequences.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(cells: Cells) -> Vec<serde_json::Value> {
        cells.show(&mut |_| {}).unwrap().json["rows"].as_array().unwrap().clone()
    }

    #[test]
    fn gates_remember_over_a_delay() {
        let rows = rows(Cells { delay: 8, ..Cells::default() });
        for row in &rows[2..] {
            assert!(row["accuracy"].as_f64().unwrap() > 0.95, "{row}");
        }
        // d_in 17, 32 units: (17 + 32) · 32 weights per gate, and one bias, two for the GRU.
        let parameters: Vec<u64> = rows.iter().map(|row| row["parameters"].as_u64().unwrap()).collect();
        let lstm = 4 * (49 * 32 + 32);
        assert_eq!(parameters, [49 * 32 + 32, lstm, lstm, 3 * (49 * 32 + 2 * 32)]);
    }

    #[test]
    fn the_same_seed_gives_the_same_score() {
        let run = || rows(Cells { delay: 2, steps: 20, ..Cells::default() }).into_iter().map(|row| row["loss"].clone());
        assert!(run().eq(run()));
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        let error = Cells { delay: 0, ..Cells::default() }.show(&mut |_| {}).unwrap_err().to_string();
        assert_eq!(error, "delay = 0: expected a whole number from 1 to 500");
    }
}
