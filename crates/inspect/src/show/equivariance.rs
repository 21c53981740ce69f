//! The order of tokens. Without positions, self-attention is permutation-equivariant: permuted tokens give equally permuted
//! outputs, and the mean of the outputs is invariant. With positions neither holds.

use regard_figures::{Axis, Bars, ColourScale, Figure, FigureError, Table, ValueRange, number};
use regard_nn::layers::attention::multi_head::MultiHeadConfig;
use regard_nn::layers::attention::self_attention::SelfAttention;
use regard_nn::layers::position::{Position as Kind, PositionSizes};
use regard_nn::{ConfigError, Init, Pass};
use regard_ops::AttentionOptions;
use serde_json::json;

use burn::tensor::Device;

use super::limits::{check_pairs, check_range};
use super::matrix::Matrix;
use super::position::{kind_named, kinds, layer};
use super::{ShowError, Shown, normals, random};

/// Settings of the comparison.
#[derive(Debug, Clone)]
pub struct Equivariance {
    /// Number of tokens.
    pub tokens: usize,
    /// Number of features of a token.
    pub d_model: usize,
    /// Number of heads.
    pub n_heads: usize,
    /// Name of the kind of positions that is drawn beside `none`.
    pub kind: String,
    /// Seed of the layer's weights, the tokens and the permutation.
    pub seed: u64,
}

impl Default for Equivariance {
    fn default() -> Self {
        Self { tokens: 8, d_model: 16, n_heads: 2, kind: "sinusoidal".to_string(), seed: 0 }
    }
}

/// Outputs of the layer for the same tokens in two orders.
struct Compared {
    name: &'static str,
    /// Output for the original input.
    output: Matrix,
    /// Output for the permuted input.
    permuted: Matrix,
    /// `permuted` minus the permuted `output`.
    difference: Matrix,
    /// Largest `|difference|`.
    largest: f64,
    /// Largest difference between the means over the tokens.
    pooled: f64,
}

impl Equivariance {
    /// Compares two orders of the same tokens, with each kind of positions.
    pub fn show(&self) -> Result<Shown, ShowError> {
        self.validate()?;
        let drawn = kind_named(self.tokens, &self.kind)?.name();
        let order = self.permutation();
        let kinds = kinds(self.tokens);
        let all = kinds.iter().map(|kind| self.compare(kind, &order)).collect::<Result<Vec<_>, _>>()?;
        let rows: Vec<_> = all
            .iter()
            .map(|c| json!({ "position": c.name, "largest_difference": c.largest, "pooled_difference": c.pooled }))
            .collect();
        let json = json!({ "tokens": self.tokens, "d_model": self.d_model, "n_heads": self.n_heads, "permutation": order, "rows": rows });
        Ok(Shown { text: self.text(&all, &order), json, figure: self.figure(&all, &order, drawn)? })
    }

    fn validate(&self) -> Result<(), ConfigError> {
        let Self { tokens, d_model, n_heads, .. } = *self;
        check_range("tokens", tokens, 3..=24)?;
        check_range("n_heads", n_heads, 1..=16)?;
        check_range("d_model", d_model, 2..=64)?;
        check_pairs(d_model, n_heads)
    }

    /// Returns a permutation: place `i` takes token `order[i]`. Not the identity, nor the reverse, which ALiBi cannot see.
    fn permutation(&self) -> Vec<usize> {
        let keys = normals(&mut random(self.seed ^ 0x0DE5), self.tokens);
        let mut order: Vec<usize> = (0..self.tokens).collect();
        order.sort_by(|&a, &b| keys[a].total_cmp(&keys[b]));
        if order.is_sorted() || order.iter().rev().is_sorted() {
            order.sort_unstable();
            order.rotate_left(1);
        }
        order
    }

    fn compare(&self, kind: &Kind, order: &[usize]) -> Result<Compared, ShowError> {
        let Self { tokens, d_model, n_heads, seed, .. } = *self;
        let init = Init::new(seed, &Device::flex());
        let attention = SelfAttention::new(&MultiHeadConfig::new(d_model, n_heads), &init.enter("attention"))?;
        let positions = layer(kind, PositionSizes { d_model, n_heads, d_head: d_model / n_heads }, seed)?;
        let x = Matrix::new(tokens, d_model, normals(&mut random(seed), tokens * d_model));
        let run = |x: &Matrix| -> Result<Matrix, ShowError> {
            let x = positions.add_to(x.tensor(), 0)?;
            let places = positions.places(tokens, 0, &Device::flex());
            Ok(Matrix::of(attention.forward(x, &AttentionOptions::default(), &places, &Pass::inference())?))
        };
        let (output, permuted) = (run(&x)?, run(&x.reordered(order))?);
        let expected = output.reordered(order);
        let difference = permuted.minus(&expected);
        let largest = difference.largest();
        let pooled = permuted.mean().largest_difference(&output.mean());
        Ok(Compared { name: kind.name(), output, permuted, difference, largest, pooled })
    }

    fn text(&self, all: &[Compared], order: &[usize]) -> String {
        let names = names(order).join(" ");
        let mut text = format!(
            "Self-attention of {} tokens and of the same tokens as {names}. Largest difference between the output of the\n\
             permuted input and the permuted output, and between their means over the tokens:\n\n{:<12} {:>12} {:>12}\n",
            self.tokens, "positions", "outputs", "mean"
        );
        for Compared { name, largest, pooled, .. } in all {
            text += &format!("{name:<12} {:>12} {:>12}\n", number(*largest, 2), number(*pooled, 2));
        }
        text + "\nWithout positions both are rounding errors: attention does not see the order of its tokens. With positions it does.\n"
    }

    fn figure(&self, all: &[Compared], order: &[usize], drawn: &str) -> Result<Figure, FigureError> {
        let mut figure = Figure::new("Does attention see the order of its tokens?").columns(3);
        let first: Vec<usize> = (0..self.tokens).collect();
        let none = all.iter().find(|compared| compared.name == "none");
        let other = all.iter().find(|compared| compared.name == drawn && drawn != "none");
        // One scale for all panels shows how large a difference is.
        let largest =
            none.iter().chain(&other).flat_map(|c| &c.output.values).fold(0.0f32, |m, &v| m.max(v.abs() as f32));
        let scale = ColourScale::diverging(ValueRange::Fixed { low: -largest, high: largest });
        for compared in none.into_iter().chain(other) {
            let name = if compared.name == "none" { "no positions".to_string() } else { compared.name.to_string() };
            for (title, matrix, order) in [
                ("output", &compared.output, &first[..]),
                ("output of the permuted tokens", &compared.permuted, order),
                ("difference from the permuted output", &compared.difference, order),
            ] {
                let map = matrix.heatmap()?.row_labels(names(order)).axes("token", "feature").scale(scale).side(340);
                figure.push(format!("{name}: {title}"), map);
            }
        }
        let groups = || all.iter().map(|compared| compared.name);
        let bars = Bars::new(Axis::log("largest difference").including(1e-8), groups())
            .series("outputs", all.iter().map(|compared| compared.largest))?
            .series("mean over the tokens", all.iter().map(|compared| compared.pooled))?;
        figure.push("All kinds of positions", bars);
        let mut table = Table::new(["positions", "sees the order", "mean sees the order"]);
        let yes = |difference: f64| if difference > 1e-5 { "yes" } else { "no" }.to_string();
        for Compared { name, largest, pooled, .. } in all {
            table = table.row([name.to_string(), yes(*largest), yes(*pooled)]);
        }
        figure.push("Summary", table);
        Ok(figure
            .note("Letters name tokens; rows are in the order of the input. Without positions the outputs are permuted like their tokens, up to rounding: the layer is permutation-equivariant, and its mean is invariant.")
            .note("With positions, the same token has different outputs in different places. Only ALiBi, which knows distances but not directions, cannot tell a sequence from its reverse."))
    }
}

/// Returns a letter for each token.
fn names(order: &[usize]) -> Vec<String> {
    order.iter().map(|&token| char::from(b'a' + (token % 26) as u8).to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn differences(shown: &Shown) -> Vec<(String, f64, f64)> {
        let row = |row: &serde_json::Value| {
            let number = |name: &str| row[name].as_f64().unwrap();
            (row["position"].as_str().unwrap().to_string(), number("largest_difference"), number("pooled_difference"))
        };
        shown.json["rows"].as_array().unwrap().iter().map(row).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn only_positions_see_the_order(seed in any::<u64>(), tokens in 3usize..=24, n_heads in 1usize..=4) {
            let shown = Equivariance { tokens, n_heads, d_model: 8 * n_heads, seed, ..Equivariance::default() }.show().unwrap();
            for (name, largest, pooled) in differences(&shown) {
                if name == "none" {
                    prop_assert!(largest < 1e-5 && pooled < 1e-5, "{name} {largest} {pooled}");
                } else {
                    prop_assert!(largest > 1e-5, "{name} {largest}");
                }
            }
        }
    }

    #[test]
    fn the_mean_sees_the_order_with_positions() {
        for (name, largest, pooled) in differences(&Equivariance::default().show().unwrap()) {
            assert_eq!((largest > 1e-3, pooled > 1e-4), (name != "none", name != "none"), "{name} {largest} {pooled}");
        }
    }

    #[test]
    fn alibi_does_not_know_a_sequence_from_its_reverse() {
        let options = Equivariance::default();
        let reverse: Vec<usize> = (0..options.tokens).rev().collect();
        for kind in kinds(options.tokens) {
            let Compared { name, largest, .. } = options.compare(&kind, &reverse).unwrap();
            assert_eq!(largest < 1e-5, matches!(name, "none" | "alibi"), "{name} {largest}");
        }
    }

    #[test]
    fn the_permutation_is_neither_the_identity_nor_the_reverse() {
        for seed in 0..50 {
            for tokens in [3, 4, 8] {
                let order = Equivariance { tokens, seed, ..Equivariance::default() }.permutation();
                let mut sorted = order.clone();
                sorted.sort_unstable();
                assert!(
                    !order.is_sorted() && !order.iter().rev().is_sorted() && sorted == (0..tokens).collect::<Vec<_>>()
                );
            }
        }
    }

    #[test]
    fn options_are_checked() {
        let error = |options: Equivariance| options.show().unwrap_err().to_string();
        let default = Equivariance::default;
        assert_eq!(error(Equivariance { tokens: 2, ..default() }), "tokens = 2: expected a whole number from 3 to 24");
        assert!(error(Equivariance { d_model: 6, ..default() }).starts_with("d_model = 6: expected a multiple of 4"));
        assert!(error(Equivariance { n_heads: 0, ..default() }).starts_with("n_heads = 0"));
        assert!(error(Equivariance { kind: "rotary".into(), ..default() }).starts_with("kind = rotary"));
    }
}
