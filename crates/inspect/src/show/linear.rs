//! Linear attention: with a feature map `φ` in place of the softmax, `(φ(Q) φ(K)ᵀ) V = φ(Q) (φ(K)ᵀ V)`. The right side never builds
//! the matrix of weights, so its cost grows with the length of the sequence and not with its square.

use regard_figures::{Axis, ColourScale, Figure, FigureError, Heatmap, Lines, Series, ValueRange, number};
use regard_ops::{
    AttentionOptions, Direction, FeatureMap, LinearAttentionOptions, Normalization, attention_weights, linear_attention,
};
use serde_json::json;

use super::limits::check_range;
use super::matrix::Matrix;
use super::{ShowError, Shown, normals, random};

/// Settings of the comparison.
#[derive(Debug, Clone, Copy)]
pub struct Linear {
    /// Number of tokens.
    pub tokens: usize,
    /// Number of features of a query, a key and a value.
    pub d: usize,
    /// Seed of queries, keys and values.
    pub seed: u64,
}

impl Default for Linear {
    fn default() -> Self {
        Self { tokens: 8, d: 4, seed: 0 }
    }
}

/// The two orders of the product, and what the operation gives.
struct Orders {
    /// `φ(Q) φ(K)ᵀ`, each row divided by its sum.
    weights: Matrix,
    softmax: Matrix,
    weights_first: Matrix,
    state_first: Matrix,
    operation: Matrix,
}

impl Linear {
    /// Computes both orders and compares them with the operation.
    pub fn show(&self) -> Result<Shown, ShowError> {
        let Self { tokens, d, .. } = *self;
        check_range("tokens", tokens, 2..=64)?;
        check_range("d", d, 1..=32)?;
        let orders = self.orders()?;
        let difference = orders.weights_first.largest_difference(&orders.state_first);
        let operation = orders.operation.largest_difference(&orders.state_first);
        let [quadratic, linear] = products(tokens, d);
        let text = format!(
            "Linear attention of {tokens} tokens with d = {d} and φ(x) = elu(x) + 1.\n\n\
             Weights first, (φ(Q) φ(K)ᵀ) V: {quadratic} multiplications.\n\
             State first, φ(Q) (φ(K)ᵀ V): {linear} multiplications.\n\
             The two differ by at most {}, and from the operation by {}: rounding.\n\
             At 10,000 tokens they take {} and {} multiplications.\n",
            number(difference, 2),
            number(operation, 2),
            products(10_000, d)[0],
            products(10_000, d)[1],
        );
        let json = json!({
            "tokens": tokens, "d": d, "weights": orders.weights.json(), "softmax": orders.softmax.json(),
            "output": orders.operation.json(), "difference_of_orders": difference, "largest_difference": operation,
            "multiplications": { "weights_first": quadratic, "state_first": linear },
        });
        Ok(Shown { text, json, figure: self.figure(&orders)? })
    }

    fn orders(&self) -> Result<Orders, ShowError> {
        let Self { tokens, d, seed } = *self;
        let mut random = random(seed);
        let [q, k, v] = std::array::from_fn(|_| Matrix::new(tokens, d, normals(&mut random, tokens * d)));
        let features = |x: &Matrix| x.map(|_, _, value| if value > 0.0 { value + 1.0 } else { value.exp() });
        let (queries, keys) = (features(&q), features(&k));
        let products = queries.times(&keys.transposed());
        let sum = |row: usize| products.row(row).iter().sum::<f64>();
        let weights = products.map(|row, _, value| value / sum(row));
        let mixed = queries.times(&keys.transposed().times(&v));
        let options = LinearAttentionOptions {
            feature_map: FeatureMap::EluPlusOne,
            normalization: Normalization::Sum,
            direction: Direction::Bidirectional,
        };
        let operation = linear_attention(q.tensor(), k.tensor(), v.tensor(), None, options)?;
        let softmax = attention_weights(q.tensor(), k.tensor(), &AttentionOptions::default(), (0, 0), 0..tokens)?;
        Ok(Orders {
            weights_first: weights.times(&v),
            state_first: mixed.map(|row, _, value| value / sum(row)),
            weights,
            softmax: Matrix::of(softmax),
            operation: Matrix::of(operation),
        })
    }

    fn figure(&self, orders: &Orders) -> Result<Figure, FigureError> {
        let square = |matrix: &Matrix| -> Result<Heatmap, FigureError> {
            let scale = ColourScale::sequential(ValueRange::Fixed { low: 0.0, high: 1.0 });
            Ok(matrix.heatmap()?.scale(scale).axes("query", "key"))
        };
        let lengths: Vec<usize> = (4..=16).map(|power| 1 << power).collect();
        let cost = |at: usize| lengths.iter().map(|&n| (n as f64, products(n, self.d)[at] as f64)).collect::<Vec<_>>();
        let costs = Lines::new(Axis::log("tokens"), Axis::log("multiplications"))
            .series(Series::new("weights first", cost(0)))
            .series(Series::new("state first", cost(1)));
        Ok(Figure::new("Linear attention: the order of a product")
            .panel("weights of linear attention", square(&orders.weights)?)
            .panel("weights of softmax attention", square(&orders.softmax)?)
            .panel("cost of the two orders", costs)
            .note("Without the softmax, the product of three matrices can be computed from the right: the cost then grows with the length.")
            .note("The weights of linear attention are flatter, since φ cannot grow as fast as an exponential."))
    }
}

/// Returns the numbers of multiplications with the weights first and with the state first.
fn products(tokens: usize, d: usize) -> [u64; 2] {
    let (n, d) = (tokens as u64, d as u64);
    [2 * n * n * d, 2 * n * d * d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_and_the_operation_agree() {
        for (tokens, d) in [(2, 1), (8, 4), (64, 32)] {
            let found = Linear { tokens, d, seed: 3 }.show().unwrap().json;
            assert!(found["difference_of_orders"].as_f64().unwrap() < 1e-10, "{found}");
            assert!(found["largest_difference"].as_f64().unwrap() < 1e-4, "{found}");
        }
        assert_eq!(products(8, 4), [512, 256]);
        assert!(Linear { tokens: 65, ..Linear::default() }.show().is_err());
    }
}
