//! Low-rank adapters of a checkpoint: which matrices get one, and the files that the library `peft` reads.

use std::collections::{BTreeMap, BTreeSet};

use regard_nn::ConfigError;
use regard_nn::layers::adapter::AdapterPlan;
use serde_json::json;

use super::base_model::{Base, block};
use super::config::LoraKeys;
use super::export::{by_name, rescale};
use crate::error::TaskError;
use crate::hugging_face::network::Network;
use crate::hugging_face::table::{Entry, Piece, Table};
use crate::weights::{self, Stored, Tensors};

/// Name of `lora.targets` that stands for all linear layers of the blocks.
const ALL: &str = "all-linear";

/// Returns the matrices that get adapters: those whose names end in one of the targets, or in one of `usual` if none is given.
pub(super) fn plan_adapters(table: &Table, lora: &LoraKeys, usual: &[&str]) -> Result<Option<AdapterPlan>, TaskError> {
    if lora.rank == 0 {
        return Ok(None);
    }
    let targets = lora.targets.as_ref().map_or_else(|| usual.to_vec(), |targets| targets.names());
    let mut layers = BTreeMap::new();
    let mut matched = BTreeSet::new();
    for entry in table.entries.iter().filter(|entry| is_matrix(entry)) {
        let mut first = 0;
        for piece in &entry.pieces {
            let width = piece.matrix()[1];
            let target = targets.iter().find(|target| **target == ALL || is_named(module(piece), target));
            if let Some(target) = target {
                matched.insert(*target);
                let columns: &mut Vec<_> = layers.entry(layer(entry).to_string()).or_default();
                columns.push(first..first + width);
            }
            first += width;
        }
    }
    if let Some(target) = targets.iter().find(|target| !matched.contains(*target)) {
        let names: BTreeSet<&str> = table
            .entries
            .iter()
            .filter(|entry| is_matrix(entry))
            .flat_map(|entry| &entry.pieces)
            .filter_map(|piece| module(piece).rsplit('.').next())
            .collect();
        let names: Vec<&str> = names.into_iter().collect();
        let expected = format!("{ALL}, or names of linear layers: {}", names.join(", "));
        return Err(ConfigError::new("lora.targets", target, expected).into());
    }
    Ok(Some(AdapterPlan { layers, rank: lora.rank, scale: lora.alpha / lora.rank as f32, dropout: lora.dropout }))
}

/// Returns whether a parameter is the matrix of a linear layer inside a block.
fn is_matrix(entry: &Entry) -> bool {
    block(&entry.ours).is_some()
        && entry.ours.ends_with(".weight")
        && entry.pieces.iter().all(|piece| piece.shape.len() == 2)
}

/// Returns the path of the layer of a matrix.
fn layer(entry: &Entry) -> &str {
    entry.ours.strip_suffix(".weight").unwrap_or(&entry.ours)
}

/// Returns the name of the layer in `transformers` that a matrix belongs to.
fn module(piece: &Piece) -> &str {
    piece.name.strip_suffix(".weight").unwrap_or(&piece.name)
}

fn is_named(module: &str, target: &str) -> bool {
    module.strip_suffix(target).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Adds the product of the adapters of a matrix, if it has any, to its values.
pub(super) fn merge(
    entry: &Entry,
    plan: Option<&AdapterPlan>,
    parameters: &BTreeMap<&str, &Vec<f32>>,
    values: &mut [f32],
) {
    let Some((plan, columns)) = plan.and_then(|plan| Some((plan, plan.layers.get(layer(entry))?))) else { return };
    let width: usize = entry.pieces.iter().map(|piece| piece.matrix()[1]).sum();
    for (number, columns) in columns.iter().enumerate() {
        let matrix = |name: &str| {
            let path = format!("{}.adapter.parts.{number}.{name}", layer(entry));
            parameters.get(path.as_str()).map_or(&[][..], |values| values.as_slice())
        };
        let (down, up) = (matrix("down"), matrix("up"));
        for (row, down) in values.chunks_exact_mut(width).zip(down.chunks_exact(plan.rank)) {
            for (at, value) in row[columns.clone()].iter_mut().enumerate() {
                let up = up.iter().skip(at).step_by(columns.len());
                let product: f64 = down.iter().zip(up).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
                *value = (f64::from(*value) + f64::from(plan.scale) * product) as f32;
            }
        }
    }
}

impl Base {
    /// Returns the files of the adapters that the library `peft` reads, by name; none without adapters. `scale` is that of a head for
    /// numbers, as in an export.
    pub fn adapter_files(
        &self,
        network: &Network,
        task: Option<&str>,
        scale: Option<[f64; 2]>,
    ) -> BTreeMap<String, Vec<u8>> {
        let Some(plan) = &self.adapters else { return BTreeMap::new() };
        let parameters = weights::parameters(network);
        let by_name = by_name(&parameters);
        let mut tensors = Tensors::new();
        let mut targets = BTreeSet::new();
        for entry in &self.table.entries {
            let Some(columns) = plan.layers.get(layer(entry)).filter(|_| is_matrix(entry)) else { continue };
            let mut first = 0;
            for piece in &entry.pieces {
                let [rows, width] = piece.matrix();
                if let Some(number) = columns.iter().position(|columns| columns.start == first) {
                    targets.insert(module(piece).to_string());
                    for (theirs, ours, shape) in
                        [("lora_A", "down", [rows, plan.rank]), ("lora_B", "up", [plan.rank, width])]
                    {
                        let path = format!("{}.adapter.parts.{number}.{ours}", layer(entry));
                        let values = by_name.get(path.as_str()).map_or(&[][..], |values| values.as_slice());
                        let name = format!("base_model.model.{}.{theirs}.weight", module(piece));
                        tensors.insert(name, (vec![shape[1], shape[0]], transposed(values, shape)));
                    }
                }
                first += width;
            }
        }
        let mut saved = BTreeSet::new();
        for (name, at, entry) in self.saved_beside_adapters() {
            let Some(values) = by_name.get(entry.ours.as_str()) else { continue };
            let (piece, mut values) = (&entry.pieces[at], values.to_vec());
            rescale(entry, scale, &mut values);
            tensors.insert(format!("base_model.model.{name}"), (piece.shape.clone(), entry.piece(at, &values)));
            let module = name.rsplit_once('.').map_or(name, |(module, _)| module);
            saved.insert(if module.starts_with("classifier") { "classifier" } else { module }.to_string());
        }
        let is_transposed = self.settings()["model_type"] == "gpt2";
        let config = json!({
            "peft_type": "LORA",
            "task_type": task,
            "base_model_name_or_path": self.from(),
            "r": plan.rank,
            "lora_alpha": self.lora.alpha,
            "lora_dropout": self.lora.dropout,
            "target_modules": targets,
            "modules_to_save": (!saved.is_empty()).then_some(saved),
            "fan_in_fan_out": is_transposed,
            "bias": "none",
            "inference_mode": true,
        });
        let config = serde_json::to_vec_pretty(&config).expect("plain values");
        BTreeMap::from([
            ("adapter_config.json".to_string(), config),
            ("adapter_model.safetensors".to_string(), weights::to_bytes(&Stored::all(&tensors))),
        ])
    }
}

/// Returns a matrix `[rows, columns]` transposed.
fn transposed(values: &[f32], [rows, columns]: [usize; 2]) -> Vec<f32> {
    (0..columns).flat_map(|column| (0..rows).map(move |row| values[row * columns + column])).collect()
}
