//! An LSTM at work: its gates `Γ_f, Γ_u, Γ_o` over time, with weights set by hand so that every unit has one simple role, or with
//! random weights.
//!
//! Hidden and cell states come from our operation. The gates are recomputed in f64 from these states and the same weights, and
//! the resulting step is compared with that of the operation.

use regard_figures::{Axis, ColourScale, Figure, FigureError, Heatmap, Lines, Series, Table, ValueRange, number};
use regard_ops::{LstmState, LstmWeights, lstm};
use serde::Serialize;

use super::limits::check_range;
use super::matrix::{Matrix, largest};
use super::{ShowError, Shown, normals, random};

/// Origin of the weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Weights {
    /// Set by hand so that each unit has one role.
    #[default]
    ByHand,
    /// Standard normal, from the seed.
    Random,
}

/// Settings of the run.
#[derive(Debug, Clone, Copy)]
pub struct Lstm {
    /// Number of steps of the sequence.
    pub steps: usize,
    /// Origin of the weights.
    pub weights: Weights,
    /// The unit whose numbers are printed, from 1.
    pub unit: usize,
    /// Seed of the noise in the input and of random weights.
    pub seed: u64,
}

impl Default for Lstm {
    fn default() -> Self {
        Self { steps: 32, weights: Weights::ByHand, unit: 1, seed: 0 }
    }
}

const INPUTS: [&str; 4] = ["value", "write", "reset", "read"];
const UNITS: usize = 4;
/// Roles of the units with weights set by hand.
const MADE: [&str; UNITS] = ["1 latch", "2 latch, on demand", "3 trace", "4 counter"];
/// Size of a sum that fully opens or shuts a gate: `σ(±8)` is 0.9997 or 0.0003.
const FIRM: f64 = 8.0;
/// Size of a sum that opens a gate to four fifths or one fifth: `σ(±KEEP)` is 0.8 or 0.2.
const KEEP: f64 = 1.386_294_361_119_890_6;

/// The values of one unit at one step.
#[derive(Debug, Clone, Copy, Serialize)]
struct Step {
    /// Forget gate `Γ_f`: the share of the cell that is kept.
    forget: f64,
    /// Update gate `Γ_u`: the share of the candidate that is added.
    update: f64,
    /// Output gate `Γ_o`: the share of the cell that is shown.
    output: f64,
    /// Candidate `c̃`.
    candidate: f64,
    /// Cell state `c`, computed by the operation.
    cell: f64,
    /// Hidden state `a`, computed by the operation.
    hidden: f64,
}

/// Parameters in f64, with the gates in the order of the operation.
#[derive(Debug)]
struct Parameters {
    /// Input weights `[inputs, 4 · units]`.
    w_ih: Matrix,
    /// Recurrent weights `[units, 4 · units]`.
    w_hh: Matrix,
    /// Biases `[1, 4 · units]`.
    bias: Matrix,
}

impl Lstm {
    /// Computes gates, cell states and hidden states over time.
    pub fn show(&self) -> Result<Shown, ShowError> {
        check_range("steps", self.steps, 8..=200)?;
        check_range("unit", self.unit, 1..=UNITS)?;
        let (inputs, parameters) = (self.inputs(), self.parameters());
        let (units, difference) = run(&inputs, &parameters)?;
        let json = serde_json::json!({
            "steps": self.steps,
            "weights": match self.weights { Weights::ByHand => "by-hand", Weights::Random => "random" },
            "inputs": INPUTS.iter().enumerate()
                .map(|(j, name)| (name.to_string(), inputs.part(0..self.steps, j..j + 1).values.into()))
                .collect::<serde_json::Map<_, serde_json::Value>>(),
            "units": units.iter().zip(self.names())
                .map(|(steps, name)| serde_json::json!({ "name": name, "steps": steps })).collect::<Vec<_>>(),
            "largest_difference": difference,
        });
        let text = self.text(&inputs, &units, difference);
        Ok(Shown { text, json, figure: self.figure(&inputs, &units, difference)? })
    }

    fn names(&self) -> [&'static str; UNITS] {
        match self.weights {
            Weights::ByHand => MADE,
            Weights::Random => ["1", "2", "3", "4"],
        }
    }

    /// Returns noise with a bit to write, read and reset, and then another one.
    fn inputs(&self) -> Matrix {
        let noise = normals(&mut random(self.seed), self.steps);
        let at = |eighths: usize| eighths * self.steps / 8;
        Matrix::from_fn(self.steps, INPUTS.len(), |t, input| {
            let is_at = |times: [usize; 2]| f64::from(u8::from(times.iter().any(|&eighths| at(eighths) == t)));
            match input {
                0 if t == at(1) => 1.0,
                0 if t == at(5) => -1.0,
                0 => 0.4 * f64::from(noise[t]),
                1 => is_at([1, 5]),
                2 => is_at([4, 4]),
                _ => is_at([3, 7]),
            }
        })
    }

    fn parameters(&self) -> Parameters {
        if self.weights == Weights::Random {
            let mut random = random(self.seed ^ 0x15_73);
            let mut normal = |rows: usize| {
                let values = normals(&mut random, rows * 4 * UNITS);
                Matrix::from_fn(rows, 4 * UNITS, |i, j| f64::from(values[i * 4 * UNITS + j]))
            };
            return Parameters { w_ih: normal(INPUTS.len()), w_hh: normal(UNITS), bias: normal(1) };
        }
        // Rows: value, write, reset, read, bias. Columns: units. No gate uses the previous state.
        const UPDATE: [[f64; UNITS]; 5] = [
            [0.0; UNITS],
            [2.0 * FIRM, 2.0 * FIRM, 0.0, 2.0 * FIRM],
            [0.0; UNITS],
            [0.0, 0.0, 0.0, 2.0 * FIRM],
            [-FIRM, -FIRM, -KEEP, -FIRM],
        ];
        const FORGET: [[f64; UNITS]; 5] = [
            [0.0; UNITS],
            [-2.0 * FIRM, -2.0 * FIRM, 0.0, 0.0],
            [-2.0 * FIRM, -2.0 * FIRM, 0.0, -2.0 * FIRM],
            [0.0; UNITS],
            [FIRM, FIRM, KEEP, FIRM],
        ];
        const CANDIDATE: [[f64; UNITS]; 5] =
            [[3.0, 3.0, 3.0, 0.0], [0.0; UNITS], [0.0; UNITS], [0.0; UNITS], [0.0, 0.0, 0.0, FIRM]];
        const OUTPUT: [[f64; UNITS]; 5] =
            [[0.0; UNITS], [0.0; UNITS], [0.0; UNITS], [0.0, 2.0 * FIRM, 0.0, 0.0], [FIRM, -FIRM, FIRM, FIRM]];
        let gates = [UPDATE, FORGET, CANDIDATE, OUTPUT];
        let entry = |row: usize, column: usize| gates[column / UNITS][row][column % UNITS];
        Parameters {
            w_ih: Matrix::from_fn(INPUTS.len(), 4 * UNITS, entry),
            w_hh: Matrix::from_fn(UNITS, 4 * UNITS, |_, _| 0.0),
            bias: Matrix::from_fn(1, 4 * UNITS, |_, column| entry(INPUTS.len(), column)),
        }
    }

    fn text(&self, inputs: &Matrix, units: &[Vec<Step>], difference: f64) -> String {
        let mut table =
            Table::new(["t", "value", "write", "reset", "read", "Γ_f", "Γ_u", "Γ_o", "c̃", "c", "a"].map(String::from));
        let digits = |v: f64| regard_figures::fixed(v, 3);
        for (t, step) in units[self.unit - 1].iter().enumerate() {
            let flags = (1..4).map(|j| number(inputs.at(t, j), 1));
            let Step { forget, update, output, candidate, cell, hidden } = *step;
            let numbers = [forget, update, output, candidate, cell, hidden].map(digits);
            table.push([t.to_string(), digits(inputs.at(t, 0))].into_iter().chain(flags).chain(numbers));
        }
        let what = match self.weights {
            Weights::ByHand => {
                "weights set by hand: unit 1 takes the value at `write` and keeps it until\n\
                 `reset`; unit 2 does too, but shows it only at `read`; unit 3 keeps 4/5 of its cell each step; unit 4 counts\n\
                 writes and reads until `reset`"
            }
            Weights::Random => "weights drawn at random",
        };
        format!(
            "An LSTM of {UNITS} units over {} steps, {what}.\n\n\
             c = Γ_f∘c + Γ_u∘c̃    a = Γ_o∘tanh(c)    unit {}:\n\n{}\n\
             largest difference between the operation and a step with these gates, over all units: {}\n",
            self.steps,
            self.names()[self.unit - 1],
            table.to_text(),
            number(difference, 3),
        )
    }

    fn figure(&self, inputs: &Matrix, units: &[Vec<Step>], difference: f64) -> Result<Figure, ShowError> {
        let over_time = |names: &[&str], of: &dyn Fn(usize, usize) -> f64| -> Result<Heatmap, FigureError> {
            let values = Matrix::from_fn(names.len(), self.steps, |row, t| of(t, row));
            Ok(values.heatmap()?.row_labels(names.to_vec()).axes("", "step").side(560))
        };
        let gate = |of: fn(&Step) -> f64| {
            let unit = ColourScale::sequential(ValueRange::Fixed { low: 0.0, high: 1.0 });
            over_time(&self.names(), &|t, row| of(&units[row][t])).map(|map| map.scale(unit))
        };
        let signed = |names: &[&str], of: &dyn Fn(usize, usize) -> f64| {
            over_time(names, of).map(|map| map.scale(ColourScale::diverging(ValueRange::Data)))
        };
        let line = |name: &str, unit: usize, of: fn(&Step) -> f64| {
            Series::new(name, units[unit].iter().enumerate().map(move |(t, step)| (t as f64, of(step))))
        };
        let unit = self.unit - 1;
        let of_unit = Lines::new(Axis::linear("step"), Axis::linear(""))
            .series(line("Γ_f keep", unit, |s| s.forget))
            .series(line("Γ_u write", unit, |s| s.update))
            .series(line("Γ_o show", unit, |s| s.output))
            .series(line("c", unit, |s| s.cell))
            .series(line("a", unit, |s| s.hidden));
        let mut shown = Lines::new(Axis::linear("step"), Axis::linear("a"));
        for (unit, name) in self.names().iter().enumerate() {
            shown = shown.series(line(name, unit, |s| s.hidden));
        }
        let said = match self.weights {
            Weights::ByHand => {
                "Weights set by hand. Unit 1 takes the value at `write` and keeps it until `reset`, whatever noise comes between; unit 2 does the same but shows it only at `read`: the cell remembers, the output gate is shut. Unit 3 keeps four fifths of its cell at each step: a fading trace. Unit 4 counts writes and reads until `reset`."
            }
            Weights::Random => {
                "Random weights: the gates are rarely fully open or shut, and no unit has a single role. Compare with the weights set by hand."
            }
        };
        Ok(Figure::new("An LSTM's gates over time")
            .panel("input", signed(&INPUTS, &|t, row| inputs.at(t, row))?)
            .panel("Γ_f: how much of the cell is kept", gate(|s| s.forget)?)
            .panel("c: the cell", signed(&self.names(), &|t, row| units[row][t].cell)?)
            .panel("Γ_u: how much of the candidate is written", gate(|s| s.update)?)
            .panel("a = Γ_o∘tanh(c): what is shown", signed(&self.names(), &|t, row| units[row][t].hidden)?)
            .panel("Γ_o: how much of the cell is shown", gate(|s| s.output)?)
            .panel(format!("unit {}", self.names()[unit]), of_unit)
            .panel("hidden states of all units", shown)
            .columns(2)
            .note(said)
            .note(format!(
                "c = Γ_f∘c + Γ_u∘c̃, a = Γ_o∘tanh(c). States come from the operation; the gates, recomputed from them in f64, give the same states up to {}.",
                number(difference, 2)
            )))
    }
}

/// Returns every step of every unit, and the largest difference between the states of the operation and those of the gates.
fn run(inputs: &Matrix, parameters: &Parameters) -> Result<(Vec<Vec<Step>>, f64), ShowError> {
    let Parameters { w_ih, w_hh, bias } = parameters;
    let weights =
        LstmWeights { w_ih: w_ih.tensor(), w_hh: w_hh.tensor(), bias: bias.tensor::<2>().reshape([4 * UNITS]) };
    let whole = Matrix::of(lstm(inputs.tensor(), weights.clone(), None)?.hidden);

    let mut units = vec![Vec::new(); UNITS];
    let mut differences = Vec::new();
    let mut state: Option<LstmState> = None;
    let mut before = (Matrix::from_fn(1, UNITS, |_, _| 0.0), Matrix::from_fn(1, UNITS, |_, _| 0.0));
    for t in 0..inputs.rows {
        // Only single steps return the cell state of each step.
        let input = inputs.part(t..t + 1, 0..inputs.columns);
        let next = lstm(input.tensor(), weights.clone(), state.take())?.state;
        let (hidden, cell) = (Matrix::of(next.hidden.clone()), Matrix::of(next.cell.clone()));
        let sums = input.times(w_ih).plus(&before.0.times(w_hh)).plus(bias);
        for (unit, steps) in units.iter_mut().enumerate() {
            let sum = |gate: usize| sums.at(0, gate * UNITS + unit);
            let [update, forget, output] = [0, 1, 3].map(|gate| 1.0 / (1.0 + (-sum(gate)).exp()));
            let step = Step {
                forget,
                update,
                output,
                candidate: sum(2).tanh(),
                cell: cell.at(0, unit),
                hidden: whole.at(t, unit),
            };
            let by_gates = step.forget * before.1.at(0, unit) + step.update * step.candidate;
            let shown = output * by_gates.tanh();
            differences.extend([by_gates - step.cell, shown - step.hidden, step.hidden - hidden.at(0, unit)]);
            steps.push(step);
        }
        before = (hidden, cell);
        state = Some(next);
    }
    Ok((units, largest(&differences)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(lstm: Lstm) -> serde_json::Value {
        lstm.show().unwrap().json
    }

    #[test]
    fn the_gates_give_the_operations_states() {
        for weights in [Weights::ByHand, Weights::Random] {
            for (steps, seed) in [(8, 1), (32, 0), (200, 2)] {
                let json = shown(Lstm { steps, weights, seed, ..Lstm::default() });
                // One step in f32: sums of some tens have rounding errors of about 10⁻⁶, times the gates' slope of at most ¼.
                let difference = json["largest_difference"].as_f64().unwrap();
                assert!(difference < 3e-6, "{weights:?} {steps}: {difference}");
            }
        }
    }

    #[test]
    fn units_set_by_hand_do_what_their_names_say() {
        let json = shown(Lstm::default());
        let of = |unit: usize, t: usize, field: &str| json["units"][unit]["steps"][t][field].as_f64().unwrap();
        // A bit is written at 4 and reset at 16, another one written at 20; reads are at 12 and 28.
        let bit = 3f64.tanh();
        assert!((4..16).all(|t| (of(0, t, "cell") - bit).abs() < 0.01), "kept");
        assert!((16..20).all(|t| of(0, t, "cell").abs() < 0.01), "forgotten");
        assert!((20..32).all(|t| (of(0, t, "cell") + bit).abs() < 0.01), "the other bit");
        for t in 0..32 {
            let expected = if [12, 28].contains(&t) { of(1, t, "cell").tanh() } else { 0.0 };
            assert!((of(1, t, "hidden") - expected).abs() < 1e-3, "on demand at {t}");
            assert!((of(2, t, "forget") - 0.8).abs() < 1e-6 && (of(2, t, "update") - 0.2).abs() < 1e-6);
            let count = [(4, 0.0), (12, 1.0), (16, 2.0), (20, 0.0), (28, 1.0), (32, 2.0)]
                .iter()
                .find(|(until, _)| t < *until)
                .unwrap()
                .1;
            assert!((of(3, t, "cell") - count).abs() < 0.02, "count at {t}");
        }
    }

    #[test]
    fn options_are_checked() {
        let error = Lstm { steps: 7, ..Lstm::default() }.show().unwrap_err().to_string();
        assert_eq!(error, "steps = 7: expected a whole number from 8 to 200");
        assert!(Lstm { unit: 5, ..Lstm::default() }.show().unwrap_err().to_string().starts_with("unit = 5"));
    }
}
