//! The attention weights of edges, for programs: in the JSON of a prediction and as a table of all edges.

use std::collections::BTreeMap;

use regard_nn::{AttentionMap, Capture, Pass, Wanted};
use serde_json::{Value, json};

use crate::error::TaskError;

/// File with the weights of all edges.
pub(super) const FILE: &str = "edges.tsv";
/// Largest number of edges whose weights are written with a model: more would make a large file of every model.
pub(super) const MOST_WRITTEN: usize = 200_000;

/// The weights of the edges to the first nodes of a batch, in every head.
pub(super) struct EdgeWeights {
    /// A map for each head of each layer, in the order of the model.
    maps: Vec<AttentionMap>,
}

/// Runs `run` with a pass that captures the weights of the edges to the first `nodes` nodes.
pub(super) fn of<R>(
    nodes: usize,
    pass: &Pass,
    run: impl FnOnce(&Pass) -> Result<R, TaskError>,
) -> Result<(R, EdgeWeights), TaskError> {
    let capture = Capture::new(Wanted { rows: Some(0..nodes), ..Wanted::default() });
    let result = run(&pass.with_capture(&capture))?;
    Ok((result, EdgeWeights { maps: capture.into_maps() }))
}

impl EdgeWeights {
    /// Names of the heads, such as `0.2`.
    pub fn heads(&self) -> Vec<String> {
        self.maps.iter().map(|map| map.site.head(map.head)).collect()
    }

    /// Returns the nodes that a node sees, each with its weight in every head. A model without attention has none.
    pub fn seen(&self, node: usize) -> Vec<(usize, Vec<f32>)> {
        // All layers see along the same edges.
        let Some(keys) = self.maps.first().and_then(|map| map.keys.as_ref()?.get(node)) else { return Vec::new() };
        let weight = |at: usize| self.maps.iter().map(|map| map.rows[node].get(at).copied().unwrap_or(0.0)).collect();
        keys.iter().enumerate().map(|(at, &key)| (key, weight(at))).collect()
    }

    /// Returns the keys that a prediction adds to its JSON: `heads` and `edges`, with a weight per head. `name` returns the name of
    /// a node.
    pub fn document<'a>(&self, node: usize, name: impl Fn(usize) -> &'a str) -> BTreeMap<String, Value> {
        if self.maps.is_empty() {
            return BTreeMap::new();
        }
        let edge = |(from, weight): (usize, Vec<f32>)| json!({"from": name(from), "to": name(node), "weight": weight});
        let edges: Vec<Value> = self.seen(node).into_iter().map(edge).collect();
        BTreeMap::from([("heads".to_string(), json!(self.heads())), ("edges".to_string(), Value::Array(edges))])
    }

    /// Returns a table with a line for each edge and a column for each head, named as in `regard heads`.
    pub fn table(&self, names: &[String]) -> String {
        let mut table = format!("from\tto\t{}\n", self.heads().join("\t"));
        for (to, name) in names.iter().enumerate() {
            for (from, weights) in self.seen(to) {
                table += &format!("{}\t{name}", names[from]);
                weights.iter().for_each(|weight| table += &format!("\t{weight}"));
                table.push('\n');
            }
        }
        table
    }
}
