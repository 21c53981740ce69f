//! Multi-head attention as a sum over its heads. Without biases, `Y = Σ_i softmax(Q_i K_iᵀ/√d_head) X (W_V^i W_O^i)`: each head
//! mixes the tokens by its own weights and then multiplies every token by one matrix of rank `d_head`.

use burn::tensor::Device;
use regard_figures::{ColourScale, Figure, FigureError, Heatmap, Table, Text, ValueRange, number};
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

/// Settings of the decomposition.
#[derive(Debug, Clone, Copy)]
pub struct Heads {
    /// Number of tokens.
    pub tokens: usize,
    /// Number of features of a token.
    pub d_model: usize,
    /// Number of heads.
    pub n_heads: usize,
    /// Seed of weights and tokens.
    pub seed: u64,
}

impl Default for Heads {
    fn default() -> Self {
        Self { tokens: 8, d_model: 12, n_heads: 3, seed: 0 }
    }
}

/// The contribution of one head.
#[derive(Debug)]
struct Head {
    /// Attention weights `[tokens, tokens]`.
    weights: Matrix,
    /// Matrix `W_V^i W_O^i`, `[d_model, d_model]`.
    matrix: Matrix,
    /// Contribution to the output, `[tokens, d_model]`.
    contribution: Matrix,
}

#[derive(Debug, Serialize)]
struct Row {
    head: usize,
    /// Mean entropy of the queries' weights, in nats.
    entropy: f64,
    /// Frobenius norm of the head's contribution.
    norm: f64,
    /// Largest absolute difference between the layer's output and the sum of the heads up to this one.
    missing: f64,
}

impl Heads {
    /// Compares the layer's output with the sum over its heads.
    pub fn show(&self) -> Result<Shown, ShowError> {
        let Self { tokens, d_model, n_heads, .. } = *self;
        check_range("tokens", tokens, 2..=64)?;
        check_range("d_model", d_model, 1..=64)?;
        check_range("n_heads", n_heads, 1..=8)?;
        let (output, heads) = self.heads()?;
        let mut sums: Vec<Matrix> = Vec::with_capacity(n_heads);
        for head in &heads {
            let sum = sums.last().map_or_else(|| head.contribution.clone(), |sum| sum.plus(&head.contribution));
            sums.push(sum);
        }
        let difference = sums[n_heads - 1].minus(&output);
        let row = |(index, (head, sum)): (usize, (&Head, &Matrix))| Row {
            head: index + 1,
            entropy: head.weights.values.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum::<f64>() / tokens as f64,
            norm: head.contribution.norm(),
            missing: sum.minus(&output).largest(),
        };
        let rows: Vec<Row> = heads.iter().zip(&sums).enumerate().map(row).collect();
        let table = table(&rows);
        let (largest, size) = (difference.largest(), output.largest());
        let text = format!(
            "Multi-head attention of {tokens} tokens, d_model {d_model}, {n_heads} heads of {}, no biases.\n\
             The sum over heads Σ softmax(QKᵀ/√d_head) X (W_V W_O), in f64, against the layer's output:\n\n{}\n\
             largest difference of the whole sum {}, for outputs up to {}: rounding\n",
            d_model / n_heads,
            table.to_text(),
            number(largest, 3),
            number(size, 3),
        );
        let json = serde_json::json!({
            "tokens": tokens, "d_model": d_model, "n_heads": n_heads, "heads": rows,
            "largest_difference": largest, "largest_output": size,
        });
        Ok(Shown { text, json, figure: self.figure(&output, &heads, &sums, table)? })
    }

    /// Returns the layer's output and its heads, recomputed in f64.
    fn heads(&self) -> Result<(Matrix, Vec<Head>), ShowError> {
        let Self { tokens, d_model, n_heads, seed } = *self;
        let config =
            MultiHeadConfig { bias: Bias::None, output_bias: Bias::None, ..MultiHeadConfig::new(d_model, n_heads) };
        // Scores of variance 4 make the heads choose; with small weights all maps would be grey.
        let spread = Spread::Normal((2.0 / d_model as f32).sqrt());
        let init = Init::new(seed, &Device::flex()).with_spread(spread).enter("attention");
        let layer = SelfAttention::new(&config, &init)?;
        let x = Matrix::new(tokens, d_model, normals(&mut random(seed), tokens * d_model));
        let capture = Capture::new(Wanted::default());
        let pass = Pass::inference().with_capture(&capture);
        let output = layer.forward(x.tensor(), &AttentionOptions::default(), &Places::default(), &pass)?;

        let (qkv, w_o) = (Matrix::of(layer.qkv.weight.val()), Matrix::of(layer.output.weight.val()));
        let d_head = config.d_head();
        let head = |map: &regard_nn::AttentionMap| {
            let (from, to) = (map.head * d_head, (map.head + 1) * d_head);
            let values = 2 * n_heads * d_head;
            let w_v = qkv.part(0..d_model, values + from..values + to);
            let matrix = w_v.times(&w_o.part(from..to, 0..d_model));
            let weights = Matrix::of_rows(&map.rows);
            Head { contribution: weights.times(&x).times(&matrix), weights, matrix }
        };
        Ok((Matrix::of(output), capture.into_maps().iter().map(head).collect()))
    }

    fn figure(&self, output: &Matrix, heads: &[Head], sums: &[Matrix], table: Table) -> Result<Figure, FigureError> {
        // One scale for all terms of the sum, so that colours can be compared.
        let all = heads.iter().map(|head| &head.contribution).chain(sums).chain([output]);
        let most = all.map(Matrix::largest).fold(0.0, f64::max);
        let signed = |values: &Matrix, most: f64| -> Result<Heatmap, FigureError> {
            let range = ValueRange::Fixed { low: -most as f32, high: most as f32 };
            Ok(values.heatmap()?.scale(ColourScale::diverging(range)).side(240))
        };
        let mut figure = Figure::new("Multi-head attention is a sum over its heads").columns(4);
        for (index, head) in heads.iter().enumerate() {
            let number = index + 1;
            let weights = head.weights.heatmap()?.axes("query", "key").side(240);
            figure.push(
                format!("head {number}: weights A"),
                weights.scale(ColourScale::sequential(ValueRange::Fixed { low: 0.0, high: 1.0 })),
            );
            let matrix = signed(&head.matrix, head.matrix.largest())?.axes("feature in", "feature out");
            figure.push(format!("head {number}: W_V·W_O, rank {}", self.d_model / self.n_heads), matrix);
            let contribution = signed(&head.contribution, most)?.axes("token", "feature");
            figure.push(format!("head {number} adds A·X·W_V·W_O"), contribution);
            let title = if index == 0 { "sum so far".to_string() } else { format!("sum of heads 1 to {number}") };
            figure.push(title, signed(&sums[index], most)?.axes("token", "feature"));
        }
        figure.push("missing after each head", table);
        figure.push("", Text::new("Y = Σ A·X·(W_V·W_O)\nA = softmax(Q·Kᵀ/√d_head)"));
        let difference = sums[sums.len() - 1].minus(output);
        let range = difference.largest();
        figure.push(
            format!("whole sum − layer: at most {}", number(range, 2)),
            signed(&difference, range)?.axes("token", "feature"),
        );
        figure.push("the layer's output", signed(output, most)?.axes("token", "feature"));
        Ok(figure
            .note("Each head mixes the tokens by its own weights A, then multiplies every token by the same matrix W_V·W_O; heads interact only by addition.")
            .note("The last sum (f64, from the captured weights) equals the layer's output (f32) up to rounding."))
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(["head", "entropy", "norm", "missing"]);
    for row in rows {
        let Row { head, entropy, norm, missing } = row;
        table.push([head.to_string(), format!("{entropy:.3}"), format!("{norm:.3}"), number(*missing, 3)]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_over_heads_is_the_layer() {
        for (tokens, d_model, n_heads) in [(8, 12, 3), (2, 1, 1), (30, 64, 8), (5, 16, 2)] {
            let shown = Heads { tokens, d_model, n_heads, seed: 3 }.show().unwrap();
            let (difference, size) = (&shown.json["largest_difference"], &shown.json["largest_output"]);
            let (difference, size) = (difference.as_f64().unwrap(), size.as_f64().unwrap());
            assert!(difference < 2e-6 * size, "{difference} of {size}");
            assert_eq!(shown.json["heads"].as_array().unwrap().len(), n_heads);
        }
    }

    #[test]
    fn every_head_counts() {
        let shown = Heads::default().show().unwrap();
        // Without its last head the sum is far off; with it, the sum equals the layer.
        assert!(shown.json["heads"][1]["missing"].as_f64().unwrap() > 0.1);
        assert!(shown.json["heads"][2]["missing"].as_f64().unwrap() < 1e-5);
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        let error = Heads { n_heads: 5, ..Heads::default() }.show().unwrap_err().to_string();
        assert!(error.starts_with("n_heads = 5: expected a divisor of d_model (1, 2, 3, 4, 6, 12)"), "{error}");
        let error = Heads { tokens: 1, ..Heads::default() }.show().unwrap_err().to_string();
        assert_eq!(error, "tokens = 1: expected a whole number from 2 to 64");
    }
}
