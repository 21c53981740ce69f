//! Everything that a pass through a checkpoint computes, as JSON or safetensors.

use std::collections::BTreeMap;

use burn::tensor::Tensor;
use regard_nn::{AttentionKind, AttentionMap, Side};
use serde_json::{Map, Value, json};

use super::network::Outputs;
use crate::weights::{Stored, Tensors, to_bytes};

/// The outputs of a pass for one input.
#[derive(Debug)]
pub struct Dump {
    tokens: Option<Vec<String>>,
    /// Tensors by name, with the names of the verification references; all have a batch of one.
    tensors: Tensors,
}

impl Dump {
    pub(super) fn new(tokens: Option<Vec<String>>, outputs: Outputs, maps: Vec<AttentionMap>) -> Self {
        let mut tensors = Tensors::new();
        let mut add = |name: String, x: Tensor<3>| {
            tensors.insert(name, (x.dims().to_vec(), x.to_data().iter().collect()));
        };
        for (layer, states) in outputs.states.into_iter().enumerate() {
            add(format!("hidden_states.{layer}"), states);
        }
        add("last_hidden_state".to_string(), outputs.last);
        if let Some(logits) = outputs.logits {
            add("logits".to_string(), logits);
        }
        if let Some(pooled) = outputs.pooled {
            add("pooler_output".to_string(), pooled);
        }
        let mut layers: BTreeMap<(&str, usize), Vec<&AttentionMap>> = BTreeMap::new();
        for map in &maps {
            let kind = match (map.site.kind, map.site.side) {
                (AttentionKind::Cross, _) => "cross_attentions",
                (_, Some(Side::Encoder)) => "encoder_attentions",
                _ => "attentions",
            };
            layers.entry((kind, map.site.layer)).or_default().push(map);
        }
        for ((kind, layer), mut heads) in layers {
            heads.sort_by_key(|map| map.head);
            let rows = heads[0].rows.len();
            let keys = heads[0].rows.first().map_or(0, Vec::len);
            let values = heads.iter().flat_map(|map| map.rows.iter().flatten().copied()).collect();
            tensors.insert(format!("{kind}.{layer}"), (vec![1, heads.len(), rows, keys], values));
        }
        Self { tokens, tensors }
    }

    /// Returns `{"tokens", "logits", "last_hidden_state", "attentions": [layer][head][query][key], …}`.
    pub fn to_json(&self) -> Value {
        let mut document = Map::new();
        if let Some(tokens) = &self.tokens {
            document.insert("tokens".to_string(), json!(tokens));
        }
        for (name, (shape, values)) in &self.tensors {
            let value = nested(&shape[1..], values);
            match name.rsplit_once('.') {
                Some((kind, layer)) => {
                    let layers = document.entry(kind).or_insert_with(|| Value::Array(Vec::new()));
                    let at = layer.parse::<usize>().unwrap_or(0);
                    if let Value::Array(layers) = layers {
                        if layers.len() <= at {
                            layers.resize(at + 1, Value::Null);
                        }
                        layers[at] = value;
                    }
                }
                None => {
                    document.insert(name.clone(), value);
                }
            }
        }
        Value::Object(document)
    }

    /// Returns the bytes of a safetensors file.
    pub fn to_safetensors(&self) -> Vec<u8> {
        to_bytes(&Stored::all(&self.tensors))
    }
}

/// Returns values as nested lists.
fn nested(shape: &[usize], values: &[f32]) -> Value {
    match shape {
        [] => values.first().map_or(Value::Null, |&value| json!(value)),
        [_] => json!(values),
        [_, rest @ ..] => {
            let size: usize = rest.iter().product();
            Value::from(values.chunks(size.max(1)).map(|part| nested(rest, part)).collect::<Vec<_>>())
        }
    }
}
