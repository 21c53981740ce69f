//! The networks that are trained on prompts. Only the query's column is computed, since the prediction is its last element.
//!
//! A head computes, with the prompt's columns `x_i` and the query's column `q`:
//!
//! ```text
//! r = Kᵀ Q q,   e_i = x_i·r,   a = e/(N+1) or softmax(e/√D),   c = Σ a_i x_i,   o = V c
//! ```
//!
//! The output is `O [o_1 … o_H]`. Linear attention needs only `M = Σ x_i x_iᵀ / (N + 1)` of the prompt: `c = M r`.
//!
//! Parameters are merged before they meet a prompt, once per step: `Kᵀ Q` into one matrix for every head, and `V` with the last row of
//! `O` into one row, because the other rows of `O` have no effect. The gradient of the merged parameters then gives that of the parameters.

use std::ops::Range;

use rand_distr::{Distribution, StandardNormal};

use super::factors::Factors;
use super::{HeadWidth, Model, Start, TrainOptions};
use crate::prompt::Task;
use crate::random::{Purpose, random};

/// The shape of a network, which determines where its parameters are in the flat list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Network {
    pub(super) side: usize,
    pub(super) heads: usize,
    /// Number of features of a head's queries and keys.
    keys: usize,
    /// Number of features of a head's values.
    values: usize,
    pub(super) mixing: Mixing,
    pub(super) output: Output,
    pub(super) scale: f64,
}

/// How attention weighs the columns of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mixing {
    Linear,
    Softmax,
}

/// The part of a network after its heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// Nothing: the output is that of the only head.
    Head,
    /// The outputs of all heads, joined and multiplied by `O`.
    Matrix,
    /// A residual connection around the only head, and a dense layer with a residual connection.
    Dense {
        /// Number of hidden features.
        hidden: usize,
    },
}

/// Places of the merged parameters in their flat list.
pub(super) struct Merged {
    /// `Kᵀ Q` of each head without its last column, which meets the 0 in the query's column, `[heads, D + 1, D]`.
    pub(super) scores: Range<usize>,
    /// The row that weighs `c` of each head, `[heads, D + 1]`, or `V` of a block, `[D + 1, D + 1]`.
    pub(super) values: Range<usize>,
    /// `W1` of the dense layer, `[hidden, D + 1]`.
    pub(super) w1: Range<usize>,
    /// `b1`, `[hidden]`.
    pub(super) b1: Range<usize>,
    /// The last row of `W2`, `[hidden]`.
    pub(super) w2: Range<usize>,
    /// The last element of `b2`.
    pub(super) b2: usize,
}

/// Places of the parameters in their flat list.
struct Places {
    /// `O`, `[D + 1, heads · values]`.
    output: Range<usize>,
    w1: Range<usize>,
    b1: Range<usize>,
    w2: Range<usize>,
    b2: Range<usize>,
}

/// Returns the next `len` places and moves `at` behind them.
fn next(at: &mut usize, len: usize) -> Range<usize> {
    *at += len;
    *at - len..*at
}

impl Network {
    pub(super) fn new(model: Model, task: &Task, options: &TrainOptions) -> Self {
        let side = task.side();
        let plain = Self {
            side,
            heads: 1,
            keys: options.width.unwrap_or(side),
            values: side,
            mixing: Mixing::Linear,
            output: Output::Head,
            scale: 1.0 / (task.d as f64).sqrt(),
        };
        match model {
            Model::Merged | Model::Separate | Model::Full => plain,
            Model::MultiHead => {
                let values = match options.head_width {
                    HeadWidth::Full => side,
                    HeadWidth::Split => side.div_ceil(options.heads),
                };
                let keys = options.width.unwrap_or(values);
                Self { heads: options.heads, keys, values, output: Output::Matrix, ..plain }
            }
            Model::Softmax => Self { mixing: Mixing::Softmax, ..plain },
            Model::Block => {
                Self { mixing: Mixing::Softmax, output: Output::Dense { hidden: options.expansion * side }, ..plain }
            }
        }
    }

    pub(super) fn hidden(&self) -> usize {
        if let Output::Dense { hidden } = self.output { hidden } else { 0 }
    }

    /// Returns the places of `Q`, `K` and `V` of a head.
    fn head(&self, head: usize) -> [Range<usize>; 3] {
        let mut at = head * (2 * self.keys + self.values) * self.side;
        [self.keys, self.keys, self.values].map(|rows| next(&mut at, rows * self.side))
    }

    fn places(&self) -> Places {
        let Self { side, heads, values, .. } = *self;
        let (mut at, hidden) = (heads * (2 * self.keys + values) * side, self.hidden());
        let output = next(&mut at, if self.output == Output::Matrix { side * heads * values } else { 0 });
        let [w1, b1, w2] = [hidden * side, hidden, hidden * side].map(|len| next(&mut at, len));
        let b2 = next(&mut at, if hidden > 0 { side } else { 0 });
        Places { output, w1, b1, w2, b2 }
    }

    pub(super) fn merged(&self) -> Merged {
        let Self { side, heads, .. } = *self;
        let (mut at, hidden) = (0, self.hidden());
        let rows = if hidden > 0 { side } else { heads };
        let [scores, values, w1, b1, w2] =
            [heads * side * (side - 1), rows * side, hidden * side, hidden, hidden].map(|len| next(&mut at, len));
        Merged { scores, values, w1, b1, w2, b2: at }
    }

    /// Returns the number of parameters.
    pub(super) fn len(&self) -> usize {
        self.places().b2.end
    }

    /// Returns the number of merged parameters.
    pub(super) fn merged_len(&self) -> usize {
        self.merged().b2 + 1
    }

    /// Draws initial weights; biases are 0.
    pub(super) fn first_weights(&self, start: Start, seed: u64) -> Vec<f64> {
        let mut random = random(Purpose::Weights, seed, 0);
        let mut weights = vec![0.0; self.len()];
        let mut fill = |places: Range<usize>, fan_in: usize| {
            for weight in &mut weights[places] {
                let normal: f64 = StandardNormal.sample(&mut random);
                *weight = normal / (start.divisor() * fan_in as f64).sqrt();
            }
        };
        let Places { output, w1, w2, .. } = self.places();
        fill(0..output.start, self.side);
        fill(output, self.heads * self.values);
        fill(w1, self.side);
        fill(w2, self.hidden().max(1));
        weights
    }

    /// Returns the number of values that a [`Group`](super::passes::Group) stores for a prompt.
    pub(super) fn kept_len(&self, task: &Task) -> usize {
        let content = match self.mixing {
            Mixing::Linear => self.side,
            Mixing::Softmax => task.n + 1,
        };
        (content + 1) * self.side + 1
    }

    /// Merges the parameters.
    pub(super) fn merge(&self, parameters: &[f64]) -> Vec<f64> {
        let Self { side, heads, values, .. } = *self;
        let (merged, places) = (self.merged(), self.places());
        let mut out = vec![0.0; self.merged_len()];
        for head in 0..heads {
            let [q, k, v] = self.head(head).map(|places| &parameters[places]);
            let scores = &mut out[merged.scores.clone()][head * side * (side - 1)..][..side * (side - 1)];
            Factors { side }.product(k, q, scores);
            let out = &mut out[merged.values.clone()];
            match self.output {
                Output::Head => out.copy_from_slice(&v[(side - 1) * side..]),
                Output::Dense { .. } => out.copy_from_slice(v),
                Output::Matrix => {
                    let row = &parameters[places.output.clone()][(side - 1) * heads * values..][head * values..];
                    for (row, v) in row.iter().zip(v.chunks_exact(side)) {
                        out[head * side..].iter_mut().zip(v).for_each(|(sum, v)| *sum += row * v);
                    }
                }
            }
        }
        if let Output::Dense { hidden } = self.output {
            out[merged.w1].copy_from_slice(&parameters[places.w1]);
            out[merged.b1].copy_from_slice(&parameters[places.b1]);
            out[merged.w2].copy_from_slice(&parameters[places.w2][(side - 1) * hidden..]);
            out[merged.b2] = parameters[places.b2][side - 1];
        }
        out
    }

    /// Returns the gradient of the parameters, given that of the merged parameters.
    pub(super) fn unmerge(&self, parameters: &[f64], merged_gradient: &[f64]) -> Vec<f64> {
        let Self { side, heads, values, .. } = *self;
        let (merged, places) = (self.merged(), self.places());
        let mut out = vec![0.0; self.len()];
        for head in 0..heads {
            let [q, k, v] = self.head(head);
            let slope = &merged_gradient[merged.scores.clone()][head * side * (side - 1)..][..side * (side - 1)];
            let grads = &mut out[q.start..k.end];
            let (grad_q, grad_k) = grads.split_at_mut(q.len());
            Factors { side }.add_gradient(&parameters[k], &parameters[q], slope, grad_k, grad_q);
            let slope = &merged_gradient[merged.values.clone()];
            match self.output {
                Output::Head => out[v][(side - 1) * side..].copy_from_slice(slope),
                Output::Dense { .. } => out[v].copy_from_slice(slope),
                Output::Matrix => {
                    let row = places.output.start + (side - 1) * heads * values + head * values;
                    let slope = &slope[head * side..][..side];
                    for value in 0..values {
                        let v = v.start + value * side;
                        for (feature, slope) in slope.iter().enumerate() {
                            out[row + value] += slope * parameters[v + feature];
                            out[v + feature] = slope * parameters[row + value];
                        }
                    }
                }
            }
        }
        if let Output::Dense { hidden } = self.output {
            out[places.w1].copy_from_slice(&merged_gradient[merged.w1]);
            out[places.b1].copy_from_slice(&merged_gradient[merged.b1]);
            out[places.w2][(side - 1) * hidden..].copy_from_slice(&merged_gradient[merged.w2]);
            out[places.b2][side - 1] = merged_gradient[merged.b2];
        }
        out
    }
}
