//! A convolution as attention (Cordonnier et al. 2020): a `K × K` kernel becomes `K²` heads, one for each shift `Δ_h`, with
//! scores `−α ‖δ − Δ_h‖²` that fall with the squared distance; `δ` points from the query's pixel to the key's. For large `α` the
//! softmax is nearly 1 at `δ = Δ_h`, and `W_V^h W_O^h` is the kernel's slice at that shift.
//!
//! With `θ = Σ_m exp(−α m²)` over all integers `m`, a head gives its pixel at least the weight `1/θ²`. The difference is
//! therefore at most `Σ_h ‖W_h‖₁ · (1 − 1/θ²)` times the range of the values, which falls as `4 e^{−α}`.

use burn::tensor::{Device, Tensor, TensorData};
use regard_figures::{
    Axis, ColourScale, Figure, FigureError, Heatmap, LineStyle, Lines, Series, Table, ValueRange, number,
};
use regard_nn::ConfigError;
use regard_ops::{AttentionOptions, Precision, attention, attention_weights, linear};
use serde::Serialize;

use super::limits::check_range;
use super::matrix::Matrix;
use super::{ShowError, Shown, normals, random};

/// Settings of the comparison.
#[derive(Debug, Clone)]
pub struct Convolution {
    /// Height and width of the picture in pixels.
    pub size: usize,
    /// Height and width of the kernel: 1, 3 or 5.
    pub kernel: usize,
    /// Number of input and output channels of the random kernel.
    pub channels: usize,
    /// Sharpnesses `α` of the heads, in ascending order.
    pub sharpness: Vec<f64>,
    /// Seed of the random picture and kernel.
    pub seed: u64,
}

impl Default for Convolution {
    fn default() -> Self {
        let sharpness = vec![0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0];
        Self { size: 14, kernel: 3, channels: 3, sharpness, seed: 0 }
    }
}

/// A picture, a kernel and their convolution.
#[derive(Debug)]
struct Problem {
    /// Pixels `[size², channels]`.
    picture: Matrix,
    /// Kernel `[kernel² · channels, channels]`, ordered by shift.
    weights: Matrix,
    /// Convolved picture `[size², channels]`.
    convolved: Matrix,
}

/// The attention of all heads for one sharpness. Queries and keys are zero, so only the bias matters.
#[derive(Debug)]
struct Attention {
    /// Queries `[1, kernel², size², 1]`.
    q: Tensor<4>,
    /// Keys `[1, 1, padded², 1]`.
    k: Tensor<4>,
    options: AttentionOptions,
}

#[derive(Debug, Serialize)]
struct Row {
    sharpness: f64,
    /// Smallest weight that a head gives to its own pixel.
    least_weight: f64,
    /// Largest difference from the convolution with the edge detector.
    edges: f64,
    edges_bound: f64,
    /// Largest difference from the convolution with the random kernel.
    random: f64,
    random_bound: f64,
}

impl Convolution {
    /// Compares the convolution with the attention for each sharpness.
    pub fn show(&self) -> Result<Shown, ShowError> {
        self.validate()?;
        let (edges, random) = (self.edges(), self.random());
        let mut rows = Vec::with_capacity(self.sharpness.len());
        let mut imitations = Vec::with_capacity(self.sharpness.len());
        for &alpha in &self.sharpness {
            let attention = self.attention(alpha);
            let imitated = self.imitate(&attention, &edges)?;
            let least_weight = self.least_weight(&attention)?;
            rows.push(Row {
                sharpness: alpha,
                least_weight,
                edges: imitated.minus(&edges.convolved).largest(),
                edges_bound: bound(&edges, alpha),
                random: self.imitate(&attention, &random)?.minus(&random.convolved).largest(),
                random_bound: bound(&random, alpha),
            });
            imitations.push(imitated);
        }
        let table = table(&rows);
        let heads = self.kernel * self.kernel;
        let last = &rows[rows.len() - 1];
        let text = format!(
            "A {0} × {0} convolution as {heads} attention heads, one per shift Δ, with the scores −α‖δ − Δ‖²,\n\
             on {1} × {1} pixels with zero padding; largest difference from the convolution itself (f64),\n\
             and the smallest weight that a head gives to its own shift:\n\n{2}\n\
             at α = {3} the heads equal the convolution up to {4} (edges) and {5} ({6} channels)\n",
            self.kernel,
            self.size,
            table.to_text(),
            number(last.sharpness, 4),
            number(last.edges, 2),
            number(last.random, 2),
            self.channels,
        );
        let json = serde_json::json!({
            "size": self.size, "kernel": self.kernel, "heads": heads, "channels": self.channels, "rows": rows,
            "largest_edges": edges.convolved.largest(), "largest_random": random.convolved.largest(),
        });
        Ok(Shown { text, json, figure: self.figure(&edges, &imitations, &rows)? })
    }

    fn validate(&self) -> Result<(), ConfigError> {
        check_range("size", self.size, 4..=24)?;
        check_range("channels", self.channels, 1..=16)?;
        if ![1, 3, 5].contains(&self.kernel) {
            return Err(ConfigError::new("kernel", self.kernel, "1, 3 or 5"));
        }
        let list: Vec<String> = self.sharpness.iter().map(f64::to_string).collect();
        let in_range = self.sharpness.iter().all(|alpha| (0.01..=1e4).contains(alpha));
        let rises = self.sharpness.windows(2).all(|pair| pair[0] < pair[1]);
        if !(2..=32).contains(&list.len()) || !in_range || !rises {
            let allowed = "2 to 32 rising numbers from 0.01 to 10000";
            return Err(ConfigError::new("sharpness", list.join(","), allowed));
        }
        Ok(())
    }

    /// Returns a drawn picture with an edge detector: each pixel minus the mean of its neighbours.
    fn edges(&self) -> Problem {
        let (size, heads) = (self.size, self.kernel * self.kernel);
        let pixel = |i: usize, j: usize| {
            let (y, x) = ((i as f64 + 0.5) / size as f64, (j as f64 + 0.5) / size as f64);
            let in_disc = (y - 0.36).hypot(x - 0.36) < 0.24;
            let in_bar = (0.68..0.86).contains(&y) && (0.2..0.9).contains(&x);
            if in_disc || in_bar { 0.95 } else { 0.3 * x }
        };
        let picture = Matrix::from_fn(size * size, 1, |p, _| pixel(p / size, p % size));
        let around = -1.0 / (heads.max(2) - 1) as f64;
        let weights = Matrix::from_fn(heads, 1, |h, _| if h == heads / 2 { 1.0 } else { around });
        self.convolve(picture, weights)
    }

    /// Returns a random picture with a random kernel.
    fn random(&self) -> Problem {
        let Self { size, kernel, channels, seed, .. } = *self;
        let mut random = random(seed);
        let picture = Matrix::new(size * size, channels, normals(&mut random, size * size * channels));
        let rows = kernel * kernel * channels;
        let kernel = Matrix::new(rows, channels, normals(&mut random, rows * channels));
        let scale = 1.0 / (rows as f64).sqrt();
        self.convolve(picture, kernel.map(|_, _, value| scale * value))
    }

    /// Computes the convolution by its definition, with zero padding.
    fn convolve(&self, picture: Matrix, weights: Matrix) -> Problem {
        let (size, channels) = (self.size, picture.columns);
        let convolved = Matrix::from_fn(size * size, weights.columns, |p, out| {
            let mut sum = 0.0;
            for (h, [down, right]) in self.shifts().into_iter().enumerate() {
                let (y, x) = ((p / size) as isize + down, (p % size) as isize + right);
                let inside = |at: isize| (0..size as isize).contains(&at);
                if inside(y) && inside(x) {
                    let from = y as usize * size + x as usize;
                    sum += (0..channels).map(|c| picture.at(from, c) * weights.at(h * channels + c, out)).sum::<f64>();
                }
            }
            sum
        });
        Problem { picture, weights, convolved }
    }

    /// Returns the shift of each head, row by row from the upper left.
    fn shifts(&self) -> Vec<[isize; 2]> {
        let (side, reach) = (self.kernel as isize, (self.kernel / 2) as isize);
        (0..side * side).map(|h| [h / side - reach, h % side - reach]).collect()
    }

    /// Returns the height and width of the picture with its padding.
    fn padded(&self) -> usize {
        self.size + self.kernel - 1
    }

    /// Returns the offset from the pixel of a query to that of a key.
    fn offset(&self, query: usize, key: usize) -> [isize; 2] {
        let (size, padded, reach) = (self.size, self.padded(), (self.kernel / 2) as isize);
        let place = |index: usize, side: usize| [(index / side) as isize, (index % side) as isize];
        let ([y, x], [ky, kx]) = (place(query, size), place(key, padded));
        [ky - reach - y, kx - reach - x]
    }

    fn attention(&self, alpha: f64) -> Attention {
        let (queries, keys, device) = (self.size * self.size, self.padded() * self.padded(), Device::flex());
        let shifts = self.shifts();
        let mut bias = Vec::with_capacity(shifts.len() * queries * keys);
        for [down, right] in &shifts {
            for query in 0..queries {
                bias.extend((0..keys).map(|key| {
                    let [y, x] = self.offset(query, key);
                    (-alpha * ((y - down).pow(2) + (x - right).pow(2)) as f64) as f32
                }));
            }
        }
        let bias = Tensor::from_data(TensorData::new(bias, [1, shifts.len(), queries, keys]), &device);
        Attention {
            q: Tensor::zeros([1, shifts.len(), queries, 1], &device),
            k: Tensor::zeros([1, 1, keys, 1], &device),
            options: AttentionOptions { bias: Some(bias), ..AttentionOptions::default() },
        }
    }

    /// Computes the convolution with our operations: attention over the padded picture, then the kernel's slices.
    fn imitate(&self, attention_: &Attention, problem: &Problem) -> Result<Matrix, ShowError> {
        let (size, padded, reach) = (self.size, self.padded(), self.kernel / 2);
        let channels = problem.picture.columns;
        let tokens = Matrix::from_fn(padded * padded, channels, |p, c| {
            let (y, x) = ((p / padded).wrapping_sub(reach), (p % padded).wrapping_sub(reach));
            if y < size && x < size { problem.picture.at(y * size + x, c) } else { 0.0 }
        });
        let Attention { q, k, options } = attention_;
        let mixed = attention(q.clone(), k.clone(), tokens.tensor(), options)?;
        let joined = mixed.swap_dims(1, 2).reshape([size * size, self.kernel * self.kernel * channels]);
        Ok(Matrix::of(linear(joined, problem.weights.tensor(), None, None, Precision::F32)?))
    }

    /// Returns the weights that the middle pixel gives to all pixels in one head, padding included.
    fn map(&self, attention: &Attention, head: usize) -> Result<Matrix, ShowError> {
        let query = (self.size / 2) * self.size + self.size / 2;
        let Attention { q, k, options } = attention;
        let weights = attention_weights(q.clone(), k.clone(), options, (0, head), query..query + 1)?;
        Ok(Matrix::of(weights.reshape([self.padded(), self.padded()])))
    }

    /// Returns the smallest weight that a head gives to its own pixel, at the middle pixel, where competing neighbours are most.
    fn least_weight(&self, attention: &Attention) -> Result<f64, ShowError> {
        let mut least = f64::INFINITY;
        for head in 0..self.kernel * self.kernel {
            least = least.min(self.map(attention, head)?.largest());
        }
        Ok(least)
    }

    fn figure(&self, edges: &Problem, imitations: &[Matrix], rows: &[Row]) -> Result<Figure, ShowError> {
        let (size, last) = (self.size, rows.len() - 1);
        let picture = |values: &Matrix, scale: ColourScale| -> Result<Heatmap, FigureError> {
            let values = Matrix { rows: size, columns: size, values: values.values.clone() };
            Ok(values.heatmap()?.scale(scale).side(250))
        };
        let most = edges.convolved.largest();
        let signed = ColourScale::diverging(ValueRange::Fixed { low: -most as f32, high: most as f32 });
        // A blurred version to compare with: the sharpness nearest to 1.
        let near_one = |a: &f64, b: &f64| (a.ln().abs()).total_cmp(&b.ln().abs());
        let soft = (0..last).min_by(|&a, &b| near_one(&self.sharpness[a], &self.sharpness[b])).unwrap_or(0);
        let alpha = |index: usize| number(self.sharpness[index], 4);
        let difference = imitations[last].minus(&edges.convolved);
        let head = self.kernel - 1;
        let [down, right] = self.shifts()[head];
        let map = |index: usize| -> Result<Heatmap, ShowError> {
            let values = self.map(&self.attention(self.sharpness[index]), head)?;
            let unit = ColourScale::sequential(ValueRange::Fixed { low: 0.0, high: 1.0 });
            Ok(values.heatmap()?.scale(unit).side(250))
        };
        let shift = format!("({down:+}, {right:+})").replace('-', "−");
        let points = |y: fn(&Row) -> f64| rows.iter().map(move |row| (row.sharpness, y(row))).collect::<Vec<_>>();
        let curves = Lines::new(Axis::linear("sharpness α"), Axis::log("largest difference"))
            .series(Series::new("edges", points(|row| row.edges)).style(LineStyle::MarkedLine))
            .series(Series::new("random kernel", points(|row| row.random)).style(LineStyle::MarkedLine))
            .series(
                Series::new("bound, edges", floor(points(|row| row.edges_bound))).style(LineStyle::Dashed).colour(0),
            )
            .series(
                Series::new("bound, random", floor(points(|row| row.random_bound))).style(LineStyle::Dashed).colour(1),
            );
        let heads = self.kernel * self.kernel;
        Ok(Figure::new(format!("A {0} × {0} convolution is {heads} attention heads", self.kernel))
            .panel("the picture", picture(&edges.picture, ColourScale::viridis(ValueRange::Data))?)
            .panel("its convolution: edges", picture(&edges.convolved, signed)?)
            .panel(format!("{heads} heads, α = {}", alpha(soft)), picture(&imitations[soft], signed)?)
            .panel(format!("{heads} heads, α = {}", alpha(last)), picture(&imitations[last], signed)?)
            .panel(
                format!("difference, α = {}", alpha(last)),
                picture(&difference, ColourScale::diverging(ValueRange::Data))?,
            )
            .panel(format!("head of shift {shift}, α = {}: weights of the middle pixel", alpha(soft)), map(soft)?)
            .panel(format!("head of shift {shift}, α = {}: weights of the middle pixel", alpha(last)), map(last)?)
            .panel("difference from the convolution", curves)
            .columns(4)
            .note(format!(
                "Each of the {heads} heads attends to one shift Δ (down, right) by the scores −α‖δ − Δ‖² and applies the kernel's weight there; zero tokens around the picture are the padding."
            ))
            .note("Sharper heads come closer: the difference falls as 4e^(−α) until only rounding is left. A logarithmic axis cannot show differences of exactly zero."))
    }
}

/// Returns the bound of the module documentation, without rounding errors.
fn bound(problem: &Problem, alpha: f64) -> f64 {
    let theta = 1.0 + 2.0 * (1..).map(|m| (-alpha * f64::from(m * m)).exp()).take_while(|&e| e > 1e-300).sum::<f64>();
    let Problem { picture, weights, .. } = problem;
    let sum = |out| (0..weights.rows).map(|row| weights.at(row, out).abs()).sum::<f64>();
    let weights = (0..weights.columns).map(sum).fold(0.0, f64::max);
    // The padding also has values: zeros.
    let (low, high) = picture.values.iter().fold((0.0f64, 0.0f64), |(low, high), &v| (low.min(v), high.max(v)));
    // Computing 1 − 1/θ² directly would lose θ − 1 to rounding.
    let rest = theta - 1.0;
    weights * (high - low) * rest * (2.0 + rest) / (theta * theta)
}

/// Drops bounds below 1e-9, which rounding errors hide.
fn floor(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.into_iter().filter(|point| point.1 > 1e-9).collect()
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(["α", "least weight", "edges", "bound", "random kernel", "bound"]);
    for row in rows {
        table.push([
            number(row.sharpness, 4),
            number(row.least_weight, 5),
            number(row.edges, 3),
            number(row.edges_bound, 3),
            number(row.random, 3),
            number(row.random_bound, 3),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(convolution: &Convolution) {
        let shown = convolution.show().unwrap();
        let rows = shown.json["rows"].as_array().unwrap();
        for kind in ["edges", "random"] {
            let of = |row: &serde_json::Value, field: &str| row[field].as_f64().unwrap();
            let size = shown.json[format!("largest_{kind}")].as_f64().unwrap();
            for row in rows {
                assert!(of(row, kind) <= of(row, &format!("{kind}_bound")) + 2e-6 * size.max(1.0), "{row}");
            }
            assert!(of(&rows[rows.len() - 1], kind) < 2e-6 * size.max(1.0), "{:?}", rows[rows.len() - 1]);
            if convolution.kernel > 1 {
                assert!(of(&rows[0], kind) > 0.1 * size, "a blurred result should be far off: {}", rows[0]);
            }
        }
    }

    #[test]
    fn sharp_heads_are_the_convolution() {
        check(&Convolution::default());
        check(&Convolution { size: 7, kernel: 5, channels: 2, seed: 4, ..Convolution::default() });
        check(&Convolution { size: 4, kernel: 1, channels: 1, seed: 4, ..Convolution::default() });
    }

    #[test]
    fn a_head_gives_its_pixel_the_weight_of_the_formula() {
        // In the middle of a large picture a head gives its pixel the weight 1/θ², if the tails are inside the picture.
        let convolution = Convolution { size: 24, sharpness: vec![0.5, 1.0], ..Convolution::default() };
        let shown = convolution.show().unwrap();
        for (row, alpha) in [0.5f64, 1.0].into_iter().enumerate() {
            let theta = 1.0 + 2.0 * (1..20).map(|m| (-alpha * f64::from(m * m)).exp()).sum::<f64>();
            let weight = shown.json["rows"][row]["least_weight"].as_f64().unwrap();
            assert!((weight * theta * theta - 1.0).abs() < 1e-5, "{weight}");
        }
    }

    #[test]
    fn options_are_checked() {
        let message = |convolution: Convolution| convolution.show().unwrap_err().to_string();
        assert_eq!(message(Convolution { kernel: 2, ..Convolution::default() }), "kernel = 2: expected 1, 3 or 5");
        let falling = Convolution { sharpness: vec![2.0, 1.0], ..Convolution::default() };
        assert!(message(falling).starts_with("sharpness = 2,1: expected 2 to 32 rising numbers"));
        assert!(
            message(Convolution { sharpness: vec![1.0, f64::NAN], ..Convolution::default() }).contains("sharpness")
        );
        assert!(message(Convolution { size: 25, ..Convolution::default() }).starts_with("size = 25"));
    }
}
