//! Attention as a dense layer. On the flattened input, a dense layer from `n` tokens of `d` features to as many has `n²d²`
//! weights. Attention is such a layer, `vec(Y) = (A ⊗ W_Vᵀ) vec(X)`, where `vec` concatenates the tokens: every pair of tokens
//! has the same small block `W_Vᵀ`, times a number computed from the input.

use burn::module::{Module, Param};
use burn::tensor::Device;
use regard_figures::{ColourScale, Figure, FigureError, Heatmap, Table, ValueRange, number, thousands};
use regard_nn::layers::attention::multi_head::MultiHeadConfig;
use regard_nn::layers::attention::self_attention::SelfAttention;
use regard_nn::layers::linear::Bias;
use regard_nn::layers::position::Places;
use regard_nn::{Capture, Init, Pass, Spread, Wanted};
use regard_ops::AttentionOptions;
use serde::Serialize;

use super::limits::check_range;
use super::matrix::Matrix;
use super::{ShowError, Shown, normals, random};

/// Settings of the comparison.
#[derive(Debug, Clone, Copy)]
pub struct Dense {
    /// Number of tokens, `n`.
    pub tokens: usize,
    /// Number of features of a token, `d`.
    pub d_model: usize,
    /// Seed of weights and tokens.
    pub seed: u64,
}

impl Default for Dense {
    fn default() -> Self {
        Self { tokens: 6, d_model: 8, seed: 0 }
    }
}

/// The attention layer and the dense layer that equals it.
#[derive(Debug)]
struct Sides {
    /// Attention weights `A`, `[tokens, tokens]`.
    weights: Matrix,
    /// Block `W_Vᵀ`, `[d_model, d_model]`.
    block: Matrix,
    /// Dense matrix `A ⊗ W_Vᵀ`, `[tokens · d_model, tokens · d_model]`.
    matrix: Matrix,
    /// Output of the attention layer, as one column.
    output: Matrix,
    /// Product of the dense matrix and the flattened tokens.
    product: Matrix,
    /// Number of weights of the attention layer, with all its matrices.
    parameters: usize,
}

/// Number of weights for a sequence of `tokens` tokens.
#[derive(Debug, Serialize)]
struct Count {
    tokens: usize,
    d_model: usize,
    /// Weights of a dense layer, `n²d²`.
    dense: u64,
    /// Weights of an attention layer, `4d²`: queries, keys, values and output.
    attention: u64,
}

impl Dense {
    /// Compares the layer's output with the product with one large matrix.
    pub fn show(&self) -> Result<Shown, ShowError> {
        let Self { tokens, d_model, .. } = *self;
        check_range("tokens", tokens, 2..=32)?;
        check_range("d_model", d_model, 2..=32)?;
        let sides = self.sides()?;
        let difference = sides.product.minus(&sides.output).largest();
        let size = sides.output.largest();
        let sizes = [(tokens, d_model), (16, 64), (128, 256), (512, 512), (1024, 768), (8192, 1024)];
        let counts: Vec<Count> = sizes.map(count).into();
        let table = table(&counts);
        let text = format!(
            "Attention of {tokens} tokens with {d_model} features as one dense layer, vec(Y) = (A ⊗ W_Vᵀ) vec(X):\n\
             largest difference from the attention layer {}, for outputs up to {}: rounding.\n\n\
             Weights of a dense layer on the flattened sequence, and of an attention layer (W_Q, W_K, W_V, W_O):\n\n{}\n\
             The matrix of attention has {} elements, made from {} of W_V and {} of A, which depends on the input.\n",
            number(difference, 3),
            number(size, 3),
            table.to_text(),
            thousands(sides.matrix.values.len() as u64),
            d_model * d_model,
            tokens * tokens,
        );
        let json = serde_json::json!({
            "tokens": tokens, "d_model": d_model, "largest_difference": difference, "largest_output": size,
            "dense_weights": sides.matrix.values.len(), "attention_weights": sides.parameters, "counts": counts,
        });
        Ok(Shown { text, json, figure: self.figure(&sides, difference, table)? })
    }

    fn sides(&self) -> Result<Sides, ShowError> {
        let Self { tokens, d_model, seed } = *self;
        let config = MultiHeadConfig { bias: Bias::None, output_bias: Bias::None, ..MultiHeadConfig::new(d_model, 1) };
        let spread = Spread::Normal((1.0 / d_model as f32).sqrt());
        let init = Init::new(seed, &Device::flex()).with_spread(spread).enter("attention");
        let mut layer = SelfAttention::new(&config, &init)?;
        let parameters = layer.num_params();
        // The statement is about A and W_V, so the output projection is the identity.
        let one = Matrix::from_fn(d_model, d_model, |i, j| f64::from(u8::from(i == j)));
        layer.output.weight = Param::from_tensor(one.tensor());
        let x = Matrix::new(tokens, d_model, normals(&mut random(seed), tokens * d_model));
        let capture = Capture::new(Wanted::default());
        let pass = Pass::inference().with_capture(&capture);
        let output = layer.forward(x.tensor(), &AttentionOptions::default(), &Places::default(), &pass)?;

        let qkv = Matrix::of(layer.qkv.weight.val());
        let block = qkv.part(0..d_model, 2 * d_model..3 * d_model).transposed();
        let maps = capture.into_maps();
        let weights = Matrix::of_rows(maps.first().map_or(&[], |map| &map.rows));
        let matrix = weights.kronecker(&block);
        let product = matrix.times(&x.flattened());
        Ok(Sides { weights, block, matrix, output: Matrix::of(output).flattened(), product, parameters })
    }

    fn figure(&self, sides: &Sides, difference: f64, table: Table) -> Result<Figure, ShowError> {
        let Self { tokens, d_model, seed } = *self;
        let wide = tokens * d_model;
        let scale = 1.0 / (wide as f32).sqrt();
        let dense: Vec<f32> = normals(&mut random(seed ^ 0xDE), wide * wide).iter().map(|v| v * scale).collect();
        let large = |map: Heatmap| map.axes("out: token·d + feature", "in: token·d + feature").side(380);
        let signed = |values: &Matrix| -> Result<Heatmap, FigureError> {
            Ok(values.heatmap()?.scale(ColourScale::diverging(ValueRange::Data)))
        };
        let unit = ColourScale::sequential(ValueRange::Fixed { low: 0.0, high: 1.0 });
        let (n_squared, dense_count) = (thousands((wide * wide) as u64), tokens * tokens);
        Ok(Figure::new("Attention is a dense layer made of copies of one small block")
            .panel("A = softmax(Q·Kᵀ/√d), from the input", sides.weights.heatmap()?.scale(unit).axes("query", "key").side(300))
            .panel("W_Vᵀ, learned", signed(&sides.block)?.axes("feature out", "feature in").side(300))
            .panel(format!("A ⊗ W_Vᵀ: {dense_count} copies of the block"), large(signed(&sides.matrix)?))
            .panel(
                format!("a dense layer: {n_squared} weights, all free"),
                large(Heatmap::new(wide, wide, dense)?.scale(ColourScale::diverging(ValueRange::Data))),
            )
            .panel("weights to learn", table)
            .columns(2)
            .note("vec(Y) = (A ⊗ W_Vᵀ)·vec(X), tokens concatenated: every pair of tokens has the same block, times the attention weight between the two.")
            .note(format!(
                "The product with the large matrix (f64) differs from the attention layer (f32) by at most {}. The dense layer's weights are fixed and random here; A depends on the input.",
                number(difference, 2)
            )))
    }
}

fn count((tokens, d_model): (usize, usize)) -> Count {
    let (n, d) = (tokens as u64, d_model as u64);
    Count { tokens, d_model, dense: n * n * d * d, attention: 4 * d * d }
}

fn table(counts: &[Count]) -> Table {
    let mut table = Table::new(["n", "d", "dense n²d²", "attention 4d²", "ratio n²/4"]);
    for Count { tokens, d_model, dense, attention } in counts {
        let ratio = number(*dense as f64 / *attention as f64, 4);
        table.push([tokens.to_string(), d_model.to_string(), thousands(*dense), thousands(*attention), ratio]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kronecker_product_is_the_layer() {
        for (tokens, d_model) in [(6, 8), (2, 2), (7, 3), (24, 20)] {
            let shown = Dense { tokens, d_model, seed: 1 }.show().unwrap();
            let (difference, size) = (&shown.json["largest_difference"], &shown.json["largest_output"]);
            let (difference, size) = (difference.as_f64().unwrap(), size.as_f64().unwrap());
            assert!(difference < 2e-6 * size, "{difference} of {size}");
            // The number of parameters of the layer itself, not the formula of the table.
            assert_eq!(shown.json["attention_weights"], 4 * d_model * d_model);
            assert_eq!(shown.json["counts"][0]["attention"], shown.json["attention_weights"]);
            assert_eq!(shown.json["counts"][0]["dense"], shown.json["dense_weights"]);
        }
    }

    #[test]
    fn blocks_are_copies_times_the_weight() {
        let sides = Dense::default().sides().unwrap();
        let part = sides.matrix.part(8..16, 24..32);
        let weight = sides.weights.at(1, 3);
        assert!(part.values.iter().zip(&sides.block.values).all(|(p, b)| (p - weight * b).abs() < 1e-15));
    }

    #[test]
    fn too_many_tokens_are_refused() {
        let error = Dense { tokens: 33, ..Dense::default() }.show().unwrap_err().to_string();
        assert_eq!(error, "tokens = 33: expected a whole number from 2 to 32");
    }
}
