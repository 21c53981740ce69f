//! The numbers to show for a kind of positions, which depend on where it enters.

use burn::tensor::{Device, Tensor};
use regard_kernels::attention::{alibi_distances, relative_distances};
use regard_nn::layers::position::{Positions, Rotation};
use regard_ops::{Distance, OpError, rope};
use serde_json::{Value, json};

use super::by_hand::matrices;
use crate::show::matrix::{Matrix, short};
use crate::show::{ShowError, normals, random};

/// The numbers of a kind of positions.
pub(super) enum View {
    /// No positions.
    Nothing,
    /// Vectors added to the tokens, `[length, d_model]`.
    Added { table: Matrix },
    /// A rotation of queries and keys.
    Turned {
        /// Angles `[length, d_head/2]`.
        angles: Matrix,
        /// `q·k/|q|²` of equal vectors by distance: for vectors of ones, and the mean for random vectors.
        decay: [Vec<f64>; 2],
        /// Largest difference of `q·k/|q|²` between pairs at the same distance.
        uneven: f64,
        /// A position, and its block-diagonal matrix `R(p)`, `[d_head, d_head]`.
        example: (usize, Matrix),
    },
    /// A bias added to the scores, `[length, length]` for each head.
    Biased { by_head: Vec<Matrix> },
}

/// A quantity as a function of the distance.
pub(super) struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// Number of random vectors to average over.
const SAMPLES: usize = 64;

impl View {
    pub fn of(layer: &Positions, length: usize, seed: u64) -> Result<Self, ShowError> {
        let device = Device::flex();
        if let Some(table) = layer.table(length, 0, &device)? {
            return Ok(Self::Added { table: Matrix::of(table) });
        }
        let places = layer.places(length, 0, &device);
        if let Some(rotation) = places.rotation {
            return Ok(turned(&rotation, length, seed)?);
        }
        let by_distance = match places.distance {
            Distance::None => return Ok(Self::Nothing),
            Distance::Alibi { slopes } => alibi_distances(&slopes, length, length),
            Distance::Relative { table } => {
                let max = table.dims()[1] / 2;
                relative_distances(&Matrix::of(table).singles(), max, length, length).map_err(OpError::from)?
            }
        };
        let square = |head: &[f32]| {
            let cell = |index: usize| head[index % length + length - 1 - index / length];
            Matrix::new(length, length, (0..length * length).map(cell).collect::<Vec<_>>())
        };
        Ok(Self::Biased { by_head: by_distance.chunks_exact(2 * length - 1).map(square).collect() })
    }

    pub fn enters(&self) -> &'static str {
        match self {
            Self::Nothing => "nowhere",
            Self::Added { .. } => "tokens",
            Self::Turned { .. } => "queries and keys",
            Self::Biased { .. } => "scores",
        }
    }

    /// Returns what the curves measure.
    pub fn measured(&self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Added { .. } => "PE(p)·PE(p+k)/|PE|², mean over p",
            Self::Turned { .. } => "q·k/|q|² of equal vectors, rotated",
            Self::Biased { .. } => "bias of head 0, key k after query",
        }
    }

    /// Returns the curves over the distance: a similarity from distance 0 on, a bias for both directions.
    pub fn curves(&self) -> Vec<Curve> {
        let from_zero = |name: &str, values: &[f64]| Curve {
            name: name.to_string(),
            points: values.iter().enumerate().map(|(k, &v)| (k as f64, v)).collect(),
        };
        match self {
            Self::Nothing => Vec::new(),
            Self::Added { table } => vec![from_zero("mean over p", &similarity(table))],
            Self::Turned { decay, .. } => {
                vec![from_zero("q = k = (1, …, 1)", &decay[0]), from_zero("mean of random q = k", &decay[1])]
            }
            Self::Biased { by_head } => by_head.iter().enumerate().map(|(head, bias)| bias_curve(head, bias)).collect(),
        }
    }

    pub fn json(&self, name: &str) -> Value {
        let curve = |curve: Curve| {
            let (distances, values): (Vec<f64>, Vec<f64>) = curve.points.into_iter().unzip();
            json!({ "name": curve.name, "distances": distances, "values": values })
        };
        let curves: Vec<Value> = self.curves().into_iter().map(curve).collect();
        let mut json = json!({ "kind": name, "enters": self.enters(), "measured": self.measured(), "curves": curves });
        match self {
            Self::Nothing => {}
            Self::Added { table } => json["table"] = table.json(),
            Self::Turned { angles, uneven, .. } => {
                json["angles"] = angles.json();
                json["largest_difference_at_one_distance"] = short(*uneven);
            }
            // The curves contain all biases.
            Self::Biased { .. } => {}
        }
        json
    }
}

impl Curve {
    pub fn at(&self, distance: f64) -> Option<f64> {
        self.points.iter().find(|point| point.0 == distance).map(|point| point.1)
    }
}

fn bias_curve(head: usize, bias: &Matrix) -> Curve {
    let last = bias.rows - 1;
    // The last row has the keys before the query, the first row those after it.
    let before = (0..last).map(|key| (key as f64 - last as f64, bias.at(last, key)));
    let after = (0..=last).map(|key| (key as f64, bias.at(0, key)));
    Curve { name: format!("head {head}"), points: before.chain(after).collect() }
}

/// Returns `mean_p PE(p)·PE(p + k)` over the mean of `|PE(p)|²`, for each `k`.
fn similarity(table: &Matrix) -> Vec<f64> {
    let dot = |p: usize, q: usize| table.row(p).iter().zip(table.row(q)).map(|(a, b)| a * b).sum::<f64>();
    let mean = |k: usize| (0..table.rows - k).map(|p| dot(p, p + k)).sum::<f64>() / (table.rows - k) as f64;
    let size = mean(0).max(f64::MIN_POSITIVE);
    (0..table.rows).map(|k| mean(k) / size).collect()
}

fn turned(rotation: &Rotation, length: usize, seed: u64) -> Result<View, OpError> {
    let d_head = 2 * rotation.angles.dims()[1];
    let turn = |vectors: &[f32]| -> Result<Matrix, OpError> {
        let vectors = Matrix::new(vectors.len() / d_head, d_head, vectors.to_vec()).tensor::<3>().swap_dims(0, 1);
        let heads = vectors.dims()[0];
        let everywhere: Tensor<4> = vectors.unsqueeze::<4>().expand([1, heads, length, d_head]);
        Ok(Matrix::of(rope(everywhere, rotation.angles.clone(), rotation.pairing)?))
    };
    let dot = |m: &Matrix, a: usize, b: usize| m.row(a).iter().zip(m.row(b)).map(|(a, b)| a * b).sum::<f64>();
    let ones = turn(&vec![1.0; d_head])?;
    let of_ones = |p: usize, k: usize| dot(&ones, p, p + k) / d_head as f64;
    let uneven = (0..length).flat_map(|k| (0..length - k).map(move |p| (p, k)));
    let uneven = uneven.map(|(p, k)| (of_ones(p, k) - of_ones(0, k)).abs()).fold(0.0, f64::max);
    let many = turn(&normals(&mut random(seed), SAMPLES * d_head))?;
    let mean = |k: usize| (0..SAMPLES).map(|s| dot(&many, s * length, s * length + k)).sum::<f64>();
    let decay = [(0..length).map(|k| of_ones(0, k)).collect(), (0..length).map(|k| mean(k) / mean(0)).collect()];
    // At position 5, fast and slow pairs can be told apart.
    let p = 5.min(length - 1);
    let here = Rotation { angles: rotation.angles.clone().narrow(0, p, 1), pairing: rotation.pairing };
    let example = (p, matrices(&here)?.swap_remove(0));
    Ok(View::Turned { angles: Matrix::of(rotation.angles.clone()), decay, uneven, example })
}
