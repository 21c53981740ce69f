//! Attention in f64 by its definition, with one loop for each index.

use super::options::{AttentionOptions, AttentionShape};
use super::scores::dropout_decisions;

/// Queries, keys, values and the learnable biases in f64, stored without gaps.
#[derive(Clone)]
pub(super) struct Inputs {
    pub(super) q: Vec<f64>,
    pub(super) k: Vec<f64>,
    pub(super) v: Vec<f64>,
    /// `[batch, n_heads, queries, keys]` through the strides of the options.
    pub(super) bias: Vec<f64>,
    pub(super) distance: Vec<f64>,
}

pub(super) struct Outputs {
    pub(super) out: Vec<f64>,
    pub(super) log_sum_exp: Vec<f64>,
    pub(super) weights: Vec<f64>,
}

pub(super) fn attention(shape: AttentionShape, options: &AttentionOptions<'_>, inputs: &Inputs) -> Outputs {
    let AttentionShape { batch, n_heads, kv_heads, queries, keys, d_head, d_value } = shape;
    let mut out = vec![0.0; batch * n_heads * queries * d_value];
    let mut log_sum_exp = vec![f64::NEG_INFINITY; batch * n_heads * queries];
    let mut weights = vec![0.0; batch * n_heads * queries * keys];
    let dropped = options.dropout.map(|d| dropout_decisions(d.probability, d.seed, batch * n_heads * queries, keys));
    for b in 0..batch {
        for h in 0..n_heads {
            let kv = b * kv_heads + h / (n_heads / kv_heads);
            for i in 0..queries {
                let row = (b * n_heads + h) * queries + i;
                let position = i as isize + keys as isize - queries as isize;
                let mut scores = Vec::new();
                for j in 0..keys {
                    let distance = j as isize - position;
                    let visible = options.band.left.is_none_or(|left| distance >= -(left as isize))
                        && options.band.right.is_none_or(|right| distance <= right as isize)
                        && options.lengths.is_none_or(|lengths| j < lengths[b])
                        && options.mask.is_none_or(|m| {
                            let [s0, s1, s2, s3] = m.strides;
                            m.data[b * s0 + h * s1 + i * s2 + j * s3] != 0
                        })
                        && options.sparse.is_none_or(|sparse| sparse.row(i).contains(&j));
                    if !visible {
                        continue;
                    }
                    let product: f64 =
                        (0..d_head).map(|t| inputs.q[row * d_head + t] * inputs.k[(kv * keys + j) * d_head + t]).sum();
                    let mut score = f64::from(options.scale) * product;
                    if let Some(bias) = options.bias {
                        let [s0, s1, s2, s3] = bias.strides;
                        score += inputs.bias[b * s0 + h * s1 + i * s2 + j * s3];
                    }
                    if options.distance.is_some() {
                        let index = (distance + keys as isize - 1) as usize;
                        score += inputs.distance[h * (queries + keys - 1) + index];
                    }
                    scores.push((j, score));
                }
                if scores.is_empty() {
                    continue;
                }
                let max = scores.iter().map(|s| s.1).fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = scores.iter().map(|s| (s.1 - max).exp()).sum();
                log_sum_exp[row] = max + total.ln();
                for (j, score) in scores {
                    let weight = (score - log_sum_exp[row]).exp();
                    weights[row * keys + j] = weight;
                    let weight = weight * dropped.as_ref().map_or(1.0, |dropped| f64::from(dropped[row * keys + j]));
                    for t in 0..d_value {
                        out[row * d_value + t] += weight * inputs.v[(kv * keys + j) * d_value + t];
                    }
                }
            }
        }
    }
    Outputs { out, log_sum_exp, weights }
}
