//! Attention maps as JSON.

use serde_json::{Value, json};

use crate::attention::{AttentionView, MapGroup};

impl AttentionView {
    /// Returns `{"input", "tokens", "maps": [{"name", "words", "side", "layer", "kind", "head", "queries", "keys",
    /// "weights"}]}`, or an array of such objects for several inputs. `tokens` are the keys of the first layer. Layers and heads
    /// count from 0, weights have four decimals, and a weight that is not finite is `null`.
    pub fn to_json(&self) -> Value {
        let mut inputs: Vec<Value> = self.inputs().into_iter().map(|(name, groups)| one_input(name, &groups)).collect();
        match inputs.len() {
            0 => one_input(&self.title, &[]),
            1 => inputs.remove(0),
            _ => Value::Array(inputs),
        }
    }
}

fn one_input(name: &str, groups: &[&MapGroup]) -> Value {
    let tokens: &[String] = groups.first().map_or(&[], |group| &group.keys);
    let maps: Vec<Value> = groups.iter().flat_map(|group| maps_of(group)).collect();
    json!({ "input": name, "tokens": tokens, "maps": maps })
}

fn maps_of(group: &MapGroup) -> Vec<Value> {
    let map = |head: &crate::attention::HeadMap| {
        let weights: Vec<Vec<Option<f64>>> =
            head.weights(group).map(|row| row.into_iter().map(rounded).collect()).collect();
        json!({
            "name": group.head_name(head.head), "words": group.name,
            "side": group.site.map(|site| site.side), "layer": group.site.map(|site| site.layer),
            "kind": group.site.map(|site| site.kind), "head": head.head,
            "queries": group.queries, "keys": group.keys, "weights": weights,
        })
    };
    group.heads.iter().map(map).collect()
}

/// Rounds to four decimals, as f64: an f32 would print with more digits. `None` if the weight is not finite.
fn rounded(weight: f32) -> Option<f64> {
    let weight = f64::from(weight);
    weight.is_finite().then(|| (weight * 1e4).round() / 1e4)
}
