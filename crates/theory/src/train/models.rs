//! The networks that are trained on prompts. Only the query's column is computed, since the prediction is its last element.
//!
//! A head computes, with the prompt's columns `x_i` and the query's column `q`:
//!
//! ```text
//! t = Q q,   r = Kᵀ t,   e_i = x_i·r,   a = e/(N+1) or softmax(e/√D),   c = Σ a_i x_i,   o = V c
//! ```
//!
//! The output is `O [o_1 … o_H]`. Linear attention needs only `M = Σ x_i x_iᵀ / (N + 1)` of the prompt: `c = M r`.

use rand_distr::{Distribution, StandardNormal};

use super::{Model, TrainOptions};
use crate::fields::dot;
use crate::prompt::{Prompt, Task};
use crate::random::{Purpose, random};

/// The shape of a network, which determines where its parameters are in the flat list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Network {
    side: usize,
    heads: usize,
    /// Number of features of a head.
    width: usize,
    mixing: Mixing,
    output: Output,
    /// Number of hidden features of the dense layer; 0 if there is none.
    hidden: usize,
    scale: f64,
}

/// How attention weighs the columns of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mixing {
    Linear,
    Softmax,
}

/// How the outputs of the heads are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    /// The output of the only head.
    Head,
    /// The outputs of all heads, joined and multiplied by `O`.
    Matrix,
}

/// The data of a prompt that a network needs.
pub(super) struct Kept {
    /// `M` for linear attention, the prompt's columns for softmax attention.
    content: Vec<f64>,
    query: Vec<f64>,
    answer: f64,
}

/// Intermediate results of the forward pass of one prompt, for the backward pass.
struct Pass {
    heads: Vec<Head>,
    joined: Vec<f64>,
    /// Output of attention, plus the query's column in a block.
    first: Vec<f64>,
    hidden: Vec<f64>,
    prediction: f64,
}

struct Head {
    t: Vec<f64>,
    weights: Vec<f64>,
    c: Vec<f64>,
}

impl Kept {
    pub(super) fn answer(&self) -> f64 {
        self.answer
    }
}

impl Network {
    pub(super) fn new(model: Model, task: &Task, options: &TrainOptions) -> Self {
        let side = task.side();
        let plain = Self {
            side,
            heads: 1,
            width: side,
            mixing: Mixing::Linear,
            output: Output::Head,
            hidden: 0,
            scale: 1.0 / (task.d as f64).sqrt(),
        };
        match model {
            Model::Merged | Model::Separate | Model::Full => plain,
            Model::MultiHead => {
                let width = side.div_ceil(options.heads);
                Self { heads: options.heads, width, output: Output::Matrix, ..plain }
            }
            Model::Softmax => Self { mixing: Mixing::Softmax, ..plain },
            Model::Block => Self { mixing: Mixing::Softmax, hidden: options.expansion * side, ..plain },
        }
    }

    /// Returns the number of elements of a projection of a head.
    fn matrix(&self) -> usize {
        self.width * self.side
    }

    /// Returns the offsets of `Q`, `K` and `V` of a head.
    fn head(&self, head: usize) -> [usize; 3] {
        [0, 1, 2].map(|part| (3 * head + part) * self.matrix())
    }

    /// Returns the offset of `O`.
    fn output(&self) -> usize {
        3 * self.heads * self.matrix()
    }

    /// Returns the offsets of `W1`, `b1`, `W2` and `b2` of the dense layer.
    fn dense(&self) -> [usize; 4] {
        let joined = match self.output {
            Output::Head => 0,
            Output::Matrix => self.side * self.heads * self.width,
        };
        let first = self.output() + joined;
        let (matrix, hidden) = (self.hidden * self.side, self.hidden);
        [first, first + matrix, first + matrix + hidden, first + 2 * matrix + hidden]
    }

    /// Returns the number of parameters.
    pub(super) fn len(&self) -> usize {
        self.dense()[3] + if self.hidden > 0 { self.side } else { 0 }
    }

    /// Draws initial weights: normal with variance `1/(3 fan_in)`, as in PyTorch's dense layer, and biases 0.
    pub(super) fn first_weights(&self, seed: u64) -> Vec<f64> {
        let mut random = random(Purpose::Weights, seed, 0);
        let mut weights = vec![0.0; self.len()];
        let mut fill = |from: usize, count: usize, fan_in: usize| {
            for weight in &mut weights[from..from + count] {
                let normal: f64 = StandardNormal.sample(&mut random);
                *weight = normal / (3.0 * fan_in as f64).sqrt();
            }
        };
        fill(0, self.output(), self.side);
        let [first, _, second, _] = self.dense();
        fill(self.output(), first - self.output(), self.heads * self.width);
        fill(first, self.hidden * self.side, self.side);
        fill(second, self.hidden * self.side, self.hidden.max(1));
        weights
    }

    /// Returns the number of values that [`Self::keep`] stores for a prompt.
    pub(super) fn kept_len(&self, task: &Task) -> usize {
        let content = match self.mixing {
            Mixing::Linear => self.side,
            Mixing::Softmax => task.n + 1,
        };
        (content + 1) * self.side + 1
    }

    pub(super) fn keep(&self, task: &Task, prompt: &Prompt) -> Kept {
        let (d, side) = (task.d, self.side);
        let labels = prompt.labels.iter().copied().chain([0.0]);
        let columns: Vec<f64> =
            prompt.inputs.chunks_exact(d).zip(labels).flat_map(|(x, y)| x.iter().copied().chain([y])).collect();
        let query = columns[columns.len() - side..].to_vec();
        let content = match self.mixing {
            Mixing::Softmax => columns,
            Mixing::Linear => {
                let mut sums = vec![0.0; side * side];
                for x in columns.chunks_exact(side) {
                    for (row, a) in sums.chunks_exact_mut(side).zip(x) {
                        row.iter_mut().zip(x).for_each(|(sum, b)| *sum += a * b);
                    }
                }
                sums.iter_mut().for_each(|sum| *sum /= task.divisor());
                sums
            }
        };
        Kept { content, query, answer: prompt.answer }
    }

    /// Returns the prediction for a prompt.
    pub(super) fn predict(&self, weights: &[f64], prompt: &Kept) -> f64 {
        self.forward(weights, prompt).prediction
    }

    fn forward(&self, weights: &[f64], prompt: &Kept) -> Pass {
        let Self { side, heads, width, .. } = *self;
        let mut all = Vec::with_capacity(heads);
        let mut joined = vec![0.0; heads * width];
        for head in 0..heads {
            let [q, k, v] = self.head(head).map(|at| &weights[at..at + self.matrix()]);
            let t = times(q, &prompt.query);
            let r = transposed_times(k, &t, side);
            let (mixture, c) = match self.mixing {
                Mixing::Linear => (Vec::new(), times(&prompt.content, &r)),
                Mixing::Softmax => {
                    let mixture = softmax(prompt.content.chunks_exact(side).map(|x| self.scale * dot(x, &r)));
                    let c = transposed_times(&prompt.content, &mixture, side);
                    (mixture, c)
                }
            };
            joined[head * width..(head + 1) * width].copy_from_slice(&times(v, &c));
            all.push(Head { t, weights: mixture, c });
        }
        let mut first = match self.output {
            Output::Head => joined.clone(),
            Output::Matrix => times(&weights[self.output()..self.dense()[0]], &joined),
        };
        if self.hidden == 0 {
            let prediction = first[side - 1];
            return Pass { heads: all, joined, first, hidden: Vec::new(), prediction };
        }
        first.iter_mut().zip(&prompt.query).for_each(|(sum, x)| *sum += x);
        let [w1, b1, w2, b2] = self.dense();
        let mut hidden = times(&weights[w1..b1], &first);
        hidden.iter_mut().zip(&weights[b1..w2]).for_each(|(x, bias)| *x = (*x + bias).max(0.0));
        let last_row = &weights[w2 + (side - 1) * self.hidden..w2 + side * self.hidden];
        let prediction = first[side - 1] + dot(last_row, &hidden) + weights[b2 + side - 1];
        Pass { heads: all, joined, first, hidden, prediction }
    }

    /// Adds the gradient of `factor · (ŷ − ỹ)²` to `gradient` and returns the squared error.
    pub(super) fn add_gradient(&self, weights: &[f64], prompt: &Kept, factor: f64, gradient: &mut [f64]) -> f64 {
        let Self { side, heads, width, .. } = *self;
        let pass = self.forward(weights, prompt);
        let error = pass.prediction - prompt.answer;
        let slope = 2.0 * factor * error;
        let mut grad_first = vec![0.0; side];
        grad_first[side - 1] = slope;
        if self.hidden > 0 {
            let [w1, b1, w2, b2] = self.dense();
            let row = w2 + (side - 1) * self.hidden..w2 + side * self.hidden;
            gradient[b2 + side - 1] += slope;
            let mut grad_hidden = vec![0.0; self.hidden];
            for (n, at) in row.enumerate() {
                gradient[at] += slope * pass.hidden[n];
                grad_hidden[n] = if pass.hidden[n] > 0.0 { slope * weights[at] } else { 0.0 };
            }
            add_outer(&mut gradient[w1..b1], &grad_hidden, &pass.first);
            gradient[b1..w2].iter_mut().zip(&grad_hidden).for_each(|(sum, x)| *sum += x);
            let back = transposed_times(&weights[w1..b1], &grad_hidden, side);
            grad_first.iter_mut().zip(&back).for_each(|(sum, x)| *sum += x);
        }
        let grad_joined = match self.output {
            Output::Head => grad_first,
            Output::Matrix => {
                let (from, to) = (self.output(), self.dense()[0]);
                add_outer(&mut gradient[from..to], &grad_first, &pass.joined);
                transposed_times(&weights[from..to], &grad_first, heads * width)
            }
        };
        for (head, Head { t, weights: mixture, c }) in pass.heads.iter().enumerate() {
            let [q, k, v] = self.head(head);
            let matrix = self.matrix();
            let grad_out = &grad_joined[head * width..(head + 1) * width];
            add_outer(&mut gradient[v..v + matrix], grad_out, c);
            let grad_c = transposed_times(&weights[v..v + matrix], grad_out, side);
            let grad_r = match self.mixing {
                Mixing::Linear => times(&prompt.content, &grad_c),
                Mixing::Softmax => {
                    let grads: Vec<f64> = prompt.content.chunks_exact(side).map(|x| dot(x, &grad_c)).collect();
                    let mean = dot(&grads, mixture);
                    let grads: Vec<f64> =
                        mixture.iter().zip(&grads).map(|(a, grad)| self.scale * a * (grad - mean)).collect();
                    transposed_times(&prompt.content, &grads, side)
                }
            };
            add_outer(&mut gradient[k..k + matrix], t, &grad_r);
            let grad_t = times(&weights[k..k + matrix], &grad_r);
            add_outer(&mut gradient[q..q + matrix], &grad_t, &prompt.query);
        }
        error * error
    }
}

/// Multiplies a row-major matrix by a vector.
fn times(matrix: &[f64], x: &[f64]) -> Vec<f64> {
    matrix.chunks_exact(x.len()).map(|row| dot(row, x)).collect()
}

/// Multiplies the transpose of a row-major matrix with `columns` columns by a vector.
fn transposed_times(matrix: &[f64], x: &[f64], columns: usize) -> Vec<f64> {
    let mut out = vec![0.0; columns];
    for (row, x) in matrix.chunks_exact(columns).zip(x) {
        out.iter_mut().zip(row).for_each(|(sum, element)| *sum += x * element);
    }
    out
}

/// Computes `matrix += a bᵀ`.
fn add_outer(matrix: &mut [f64], a: &[f64], b: &[f64]) {
    for (row, a) in matrix.chunks_exact_mut(b.len()).zip(a) {
        row.iter_mut().zip(b).for_each(|(sum, b)| *sum += a * b);
    }
}

fn softmax(scores: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut weights: Vec<f64> = scores.collect();
    let most = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    weights.iter_mut().for_each(|weight| *weight = (*weight - most).exp());
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= sum);
    weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::Split;

    type Matrix = Vec<Vec<f64>>;

    fn product(a: &Matrix, b: &Matrix) -> Matrix {
        let element = |row: &[f64], j: usize| row.iter().zip(b).map(|(a, b)| a * b[j]).sum();
        a.iter().map(|row| (0..b[0].len()).map(|j| element(row, j)).collect()).collect()
    }

    fn transposed(a: &Matrix) -> Matrix {
        (0..a[0].len()).map(|j| a.iter().map(|row| row[j]).collect()).collect()
    }

    fn sum(a: &Matrix, b: &Matrix) -> Matrix {
        a.iter().zip(b).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a + b).collect()).collect()
    }

    /// Predicts by the formulas of the models, with whole matrices: all columns of the prompt's matrix `x` are computed.
    fn by_the_formula(model: Model, x: &Matrix, weights: &[f64], options: &TrainOptions) -> f64 {
        let (side, columns) = (x.len(), x[0].len());
        let mut rest = weights;
        let mut take = |rows: usize, columns: usize| -> Matrix {
            let (first, after) = rest.split_at(rows * columns);
            rest = after;
            first.chunks_exact(columns).map(<[f64]>::to_vec).collect()
        };
        let (heads, width) = match model {
            Model::MultiHead => (options.heads, side.div_ceil(options.heads)),
            _ => (1, side),
        };
        let mut joined = Matrix::new();
        for _ in 0..heads {
            let [q, k, v] = [0; 3].map(|_| product(&take(width, side), x));
            // scores[i][j]: score of query j and key i.
            let mut scores = product(&transposed(&k), &q);
            for j in 0..columns {
                let column: Vec<f64> = scores.iter().map(|row| row[j] / ((side - 1) as f64).sqrt()).collect();
                let all: f64 = column.iter().map(|score| score.exp()).sum();
                for (row, score) in scores.iter_mut().zip(&column) {
                    row[j] = match model {
                        Model::Softmax | Model::Block => score.exp() / all,
                        _ => row[j] / columns as f64,
                    };
                }
            }
            joined.extend(product(&v, &scores));
        }
        let attended = if model == Model::MultiHead { product(&take(side, heads * width), &joined) } else { joined };
        if model != Model::Block {
            return attended[side - 1][columns - 1];
        }
        let hidden = options.expansion * side;
        let repeated = |bias: Matrix| -> Matrix { bias.iter().map(|b| vec![b[0]; columns]).collect() };
        let z1 = sum(&attended, x);
        let (w1, b1, w2, b2) = (take(hidden, side), take(hidden, 1), take(side, hidden), take(side, 1));
        let mut inner = sum(&product(&w1, &z1), &repeated(b1));
        inner.iter_mut().flatten().for_each(|x| *x = x.max(0.0));
        let z3 = sum(&product(&w2, &inner), &repeated(b2));
        sum(&z1, &z3)[side - 1][columns - 1]
    }

    #[test]
    fn predictions_are_those_of_the_formulas() {
        let task = Task::new(3, 5);
        let options = TrainOptions { heads: 2, expansion: 2, ..TrainOptions::default() };
        for model in [Model::Full, Model::MultiHead, Model::Softmax, Model::Block] {
            let network = Network::new(model, &task, &options);
            let mut weights = network.first_weights(3);
            weights.iter_mut().enumerate().for_each(|(i, weight)| *weight += 0.1 * (i as f64).sin());
            for index in 0..4 {
                let prompt = task.prompt(Split::Train, 5, index);
                let mut x = transposed(&prompt.inputs.chunks_exact(3).map(<[f64]>::to_vec).collect());
                x.push(prompt.labels.iter().copied().chain([0.0]).collect());
                let found = network.predict(&weights, &network.keep(&task, &prompt));
                let want = by_the_formula(model, &x, &weights, &options);
                assert!((found - want).abs() < 1e-12 * (1.0 + want.abs()), "{model:?}: {found} and {want}");
            }
        }
    }

    #[test]
    fn gradients_are_the_slopes_of_the_error() {
        let task = Task { noise: 0.3, ..Task::new(3, 5) };
        let options = TrainOptions { heads: 2, expansion: 2, ..TrainOptions::default() };
        for model in [Model::Full, Model::MultiHead, Model::Softmax, Model::Block] {
            let network = Network::new(model, &task, &options);
            let mut weights = network.first_weights(3);
            let prompt = network.keep(&task, &task.prompt(Split::Train, 5, 0));
            let mut gradient = vec![0.0; network.len()];
            network.add_gradient(&weights, &prompt, 0.7, &mut gradient);
            let loss = |weights: &[f64]| 0.7 * (network.predict(weights, &prompt) - prompt.answer).powi(2);
            for at in 0..weights.len() {
                let old = weights[at];
                let step = 1e-5;
                weights[at] = old + step;
                let up = loss(&weights);
                weights[at] = old - step;
                let slope = (up - loss(&weights)) / (2.0 * step);
                weights[at] = old;
                let far = (slope - gradient[at]).abs();
                assert!(far < 1e-6 * (1.0 + slope.abs()), "{model:?} {at}: {} and {slope}", gradient[at]);
            }
        }
    }
}
