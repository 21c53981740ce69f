//! Forward and backward passes of a [`Network`] over groups of prompts.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::lanes::{Aligned, Vectors, lanes};
use super::network::{Merged, Mixing, Network, Output};
use crate::prompt::{Split, Task};

/// The data of a group of prompts, as a network uses them. A group has as many prompts as a register has lanes. The last group may have empty
/// lanes. Element `e` of the prompt in lane `l` is at `e · lanes + l`.
pub(super) struct Group {
    /// `M` for linear attention, the prompt's columns for softmax attention.
    content: Aligned,
    /// The query's column without the 0 in place of its label.
    query: Aligned,
    answer: Aligned,
    /// 1 in the lanes that hold a prompt, and 0 in the others.
    present: Aligned,
}

/// Buffers of a forward and a backward pass.
struct Scratch<V> {
    r: Vec<V>,
    c: Vec<V>,
    /// Output of attention plus the query's column, in a block.
    first: Vec<V>,
    hidden: Vec<V>,
    grad_first: Vec<V>,
    grad_c: Vec<V>,
    grad_weights: Vec<V>,
    grad_r: Vec<V>,
    /// Attention weights of softmax attention, which has one head.
    weights: Aligned,
}

impl Network {
    /// Draws the prompts with `indices` of `seed`, at most one for each lane.
    pub(super) fn group(&self, task: &Task, split: Split, seed: u64, indices: Range<u64>) -> Group {
        let (d, side, lanes) = (task.d, self.side, lanes());
        let mut group = Group {
            content: Aligned::zeros((self.kept_len(task) - side - 1) * lanes),
            query: Aligned::zeros(d * lanes),
            answer: Aligned::zeros(lanes),
            present: Aligned::zeros(lanes),
        };
        for (lane, index) in indices.enumerate() {
            let prompt = task.prompt(split, seed, index);
            (group.answer[lane], group.present[lane]) = (prompt.answer, 1.0);
            let labels = prompt.labels.iter().chain([&0.0]);
            let columns: Vec<f64> =
                prompt.inputs.chunks_exact(d).zip(labels).flat_map(|(x, y)| x.iter().chain([y]).copied()).collect();
            let content = match self.mixing {
                Mixing::Linear => second_moments(&columns, side, task.divisor()),
                Mixing::Softmax => columns,
            };
            let query = &prompt.inputs[task.n * d..];
            for (out, element) in group.content.chunks_exact_mut(lanes).zip(content) {
                out[lane] = element;
            }
            for (out, x) in group.query.chunks_exact_mut(lanes).zip(query) {
                out[lane] = *x;
            }
        }
        group
    }

    /// Returns `(ŷ − ỹ)²` of every prompt of a group.
    pub(super) fn squares(&self, merged: &[f64], group: &Group) -> Vec<f64> {
        let mut errors = Aligned::zeros(group.answer.len());
        let groups = std::slice::from_ref(group);
        Arch::new().dispatch(Passes { network: self, merged, groups, errors: &mut errors, gradient: &mut [] });
        let prompts = errors.iter().zip(group.present.iter()).filter(|(_, present)| **present > 0.0);
        prompts.map(|(error, _)| error * error).collect()
    }

    /// Returns the sum of `(ŷ − ỹ)²` over some groups and its gradient with respect to the merged parameters.
    pub(super) fn gradient(&self, merged: &[f64], groups: &[Group]) -> (f64, Vec<f64>) {
        let lanes = lanes();
        let (mut errors, mut gradient) =
            (Aligned::zeros(groups.len() * lanes), Aligned::zeros(self.merged_len() * lanes));
        Arch::new().dispatch(Passes { network: self, merged, groups, errors: &mut errors, gradient: &mut gradient });
        let squares = errors.iter().map(|error| error * error).sum();
        (squares, gradient.chunks_exact(lanes).map(|lanes| lanes.iter().sum()).collect())
    }

    #[inline(always)]
    fn forward<S: Simd>(
        &self,
        vectors: Vectors<S>,
        places: &Merged,
        merged: &[f64],
        group: &Group,
        scratch: &mut Scratch<S::f64s>,
    ) -> S::f64s {
        let (side, simd) = (self.side, vectors.0);
        let (content, query) = (S::as_simd_f64s(&group.content).0, S::as_simd_f64s(&group.query).0);
        let scores = merged[places.scores.clone()].chunks_exact(side * (side - 1));
        let heads = scratch.r.chunks_exact_mut(side).zip(scratch.c.chunks_exact_mut(side));
        for (scores, (r, c)) in scores.zip(heads) {
            vectors.times(scores, query, r);
            match self.mixing {
                Mixing::Linear => vectors.dot_rows(content, r, c),
                Mixing::Softmax => {
                    vectors.dot_rows(content, r, S::as_mut_simd_f64s(&mut scratch.weights).0);
                    vectors.softmax(&mut scratch.weights, self.scale);
                    vectors.mix(content, S::as_simd_f64s(&scratch.weights).0, c);
                }
            }
        }
        let values = &merged[places.values.clone()];
        let Output::Dense { .. } = self.output else { return vectors.weigh(values, &scratch.c) };
        vectors.times(values, &scratch.c, &mut scratch.first);
        for (sum, x) in scratch.first.iter_mut().zip(query) {
            *sum = simd.add_f64s(*sum, *x);
        }
        vectors.times(&merged[places.w1.clone()], &scratch.first, &mut scratch.hidden);
        for (hidden, bias) in scratch.hidden.iter_mut().zip(&merged[places.b1.clone()]) {
            *hidden = simd.max_f64s(simd.add_f64s(*hidden, simd.splat_f64s(*bias)), simd.splat_f64s(0.0));
        }
        let out = vectors.weigh(&merged[places.w2.clone()], &scratch.hidden);
        simd.add_f64s(simd.add_f64s(scratch.first[side - 1], out), simd.splat_f64s(merged[places.b2]))
    }

    /// Adds the gradient of the merged parameters. `slope` is the gradient of the prediction, and `scratch` holds the forward pass.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the forward pass, the slope and the result")]
    fn backward<S: Simd>(
        &self,
        vectors: Vectors<S>,
        places: &Merged,
        merged: &[f64],
        group: &Group,
        slope: S::f64s,
        scratch: &mut Scratch<S::f64s>,
        gradient: &mut [S::f64s],
    ) {
        let (side, simd) = (self.side, vectors.0);
        let (content, query) = (S::as_simd_f64s(&group.content).0, S::as_simd_f64s(&group.query).0);
        let Scratch { weights, c, first, hidden, grad_first, grad_c, grad_weights, grad_r, .. } = scratch;
        let zero = simd.splat_f64s(0.0);
        if let Output::Dense { .. } = self.output {
            gradient[places.b2] = simd.add_f64s(gradient[places.b2], slope);
            grad_first.fill(zero);
            grad_first[side - 1] = slope;
            for (n, hidden) in hidden.iter_mut().enumerate() {
                let (w2, b1) = (places.w2.start + n, places.b1.start + n);
                gradient[w2] = simd.mul_add_e_f64s(slope, *hidden, gradient[w2]);
                let back = simd.mul_f64s(slope, simd.splat_f64s(merged[w2]));
                *hidden = simd.select_f64s(simd.less_than_f64s(zero, *hidden), back, zero);
                gradient[b1] = simd.add_f64s(gradient[b1], *hidden);
            }
            vectors.add_outer(&mut gradient[places.w1.clone()], hidden, first);
            vectors.add_transposed_times(&merged[places.w1.clone()], hidden, grad_first);
        }
        for (head, c) in c.chunks_exact(side).enumerate() {
            if let Output::Dense { .. } = self.output {
                vectors.add_outer(&mut gradient[places.values.clone()], grad_first, c);
                grad_c.fill(zero);
                vectors.add_transposed_times(&merged[places.values.clone()], grad_first, grad_c);
            } else {
                let row = places.values.start + head * side;
                for (at, (grad, c)) in (row..).zip(grad_c.iter_mut().zip(c)) {
                    gradient[at] = simd.mul_add_e_f64s(slope, *c, gradient[at]);
                    *grad = simd.mul_f64s(slope, simd.splat_f64s(merged[at]));
                }
            }
            match self.mixing {
                Mixing::Linear => vectors.dot_rows(content, grad_c, grad_r),
                Mixing::Softmax => {
                    let weights = S::as_simd_f64s(weights).0;
                    vectors.dot_rows(content, grad_c, grad_weights);
                    let (mean, scale) = (vectors.dot(grad_weights, weights), simd.splat_f64s(self.scale));
                    for (grad, weight) in grad_weights.iter_mut().zip(weights) {
                        *grad = simd.mul_f64s(simd.mul_f64s(*weight, scale), simd.sub_f64s(*grad, mean));
                    }
                    vectors.mix(content, grad_weights, grad_r);
                }
            }
            let scores = &mut gradient[places.scores.start + head * side * (side - 1)..][..side * (side - 1)];
            vectors.add_outer(scores, grad_r, query);
        }
    }
}

/// Returns `Σ x xᵀ / divisor` over the columns `x` of a prompt.
fn second_moments(columns: &[f64], side: usize, divisor: f64) -> Vec<f64> {
    let mut sums = vec![0.0; side * side];
    for x in columns.chunks_exact(side) {
        for (row, a) in sums.chunks_exact_mut(side).zip(x) {
            row.iter_mut().zip(x).for_each(|(sum, b)| *sum += a * b);
        }
    }
    sums.iter_mut().for_each(|sum| *sum /= divisor);
    sums
}

/// The passes of some groups.
struct Passes<'a> {
    network: &'a Network,
    merged: &'a [f64],
    groups: &'a [Group],
    /// Receives `ŷ − ỹ` of every prompt, and 0 for empty lanes.
    errors: &'a mut [f64],
    /// The gradient of the squared errors is added here, unless it is empty.
    gradient: &'a mut [f64],
}

impl WithSimd for Passes<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { network, merged, groups, errors, gradient } = self;
        let (side, heads, places) = (network.side, network.heads, network.merged());
        let columns = match network.mixing {
            Mixing::Linear => 0,
            Mixing::Softmax => groups.first().map_or(0, |group| group.content.len() / (side * S::F64_LANES)),
        };
        let zeros = |len: usize| vec![simd.splat_f64s(0.0); len];
        let mut scratch = Scratch {
            r: zeros(heads * side),
            c: zeros(heads * side),
            first: zeros(side),
            hidden: zeros(network.hidden()),
            grad_first: zeros(side),
            grad_c: zeros(side),
            grad_weights: zeros(columns),
            grad_r: zeros(side),
            weights: Aligned::zeros(columns * S::F64_LANES),
        };
        let gradient = S::as_mut_simd_f64s(gradient).0;
        for (group, out) in groups.iter().zip(S::as_mut_simd_f64s(errors).0) {
            let prediction = network.forward(Vectors(simd), &places, merged, group, &mut scratch);
            let [answer, present] = [&group.answer, &group.present].map(|lanes| S::as_simd_f64s(lanes).0[0]);
            *out = simd.mul_f64s(simd.sub_f64s(prediction, answer), present);
            if !gradient.is_empty() {
                let slope = simd.add_f64s(*out, *out);
                network.backward(Vectors(simd), &places, merged, group, slope, &mut scratch, gradient);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HeadWidth, Model, Start, TrainOptions};
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
        let (heads, values) = match (model, options.head_width) {
            (Model::MultiHead, HeadWidth::Split) => (options.heads, side.div_ceil(options.heads)),
            (Model::MultiHead, HeadWidth::Full) => (options.heads, side),
            _ => (1, side),
        };
        let keys = options.width.unwrap_or(values);
        let mut joined = Matrix::new();
        for _ in 0..heads {
            let [q, k, v] = [keys, keys, values].map(|rows| product(&take(rows, side), x));
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
        let attended = if model == Model::MultiHead { product(&take(side, heads * values), &joined) } else { joined };
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

    /// The options to test: a head of full width and a narrow one, and a separate width of queries and keys.
    fn options() -> [TrainOptions; 3] {
        let full = TrainOptions { heads: 2, expansion: 2, ..TrainOptions::default() };
        [full, TrainOptions { head_width: HeadWidth::Split, ..full }, TrainOptions { width: Some(3), ..full }]
    }

    /// All networks with each of the options.
    fn networks(task: &Task) -> Vec<(Model, TrainOptions, Network)> {
        let models = [Model::Full, Model::MultiHead, Model::Softmax, Model::Block];
        let all = models.into_iter().flat_map(|model| options().map(|options| (model, options)));
        all.map(|(model, options)| (model, options, Network::new(model, task, &options))).collect()
    }

    #[test]
    fn predictions_are_those_of_the_formulas() {
        let task = Task::new(3, 5);
        for (model, options, network) in networks(&task) {
            let mut weights = network.first_weights(Start::Dense, 3);
            weights.iter_mut().enumerate().for_each(|(i, weight)| *weight += 0.1 * (i as f64).sin());
            let count = lanes().min(4) as u64;
            let group = network.group(&task, Split::Train, 5, 2..2 + count);
            let found: Vec<f64> = network.squares(&network.merge(&weights), &group);
            assert_eq!(found.len() as u64, count);
            for (found, index) in found.into_iter().zip(2..) {
                let prompt = task.prompt(Split::Train, 5, index);
                let mut x = transposed(&prompt.inputs.chunks_exact(3).map(<[f64]>::to_vec).collect());
                x.push(prompt.labels.iter().copied().chain([0.0]).collect());
                let want = (by_the_formula(model, &x, &weights, &options) - prompt.answer).powi(2);
                assert!((found - want).abs() < 1e-12 * (1.0 + want.abs()), "{model:?}: {found} and {want}");
            }
        }
    }

    #[test]
    fn gradients_are_the_slopes_of_the_error() {
        let task = Task { noise: 0.3, ..Task::new(3, 5) };
        for (model, _, network) in networks(&task) {
            let mut weights = network.first_weights(Start::Published, 3);
            // Two groups, the second of which may have empty lanes.
            let lanes = lanes() as u64;
            let groups =
                [0..lanes, lanes..lanes + lanes.min(3)].map(|indices| network.group(&task, Split::Train, 5, indices));
            let (sum, gradient) = network.gradient(&network.merge(&weights), &groups);
            let gradient = network.unmerge(&weights, &gradient);
            let loss = |weights: &[f64]| -> f64 {
                let merged = network.merge(weights);
                groups.iter().flat_map(|group| network.squares(&merged, group)).sum()
            };
            assert!((loss(&weights) - sum).abs() < 1e-12 * sum);
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
