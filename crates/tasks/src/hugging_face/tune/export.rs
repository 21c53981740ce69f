//! Export of trained networks as folders that `transformers` loads.

use std::collections::BTreeMap;
use std::path::Path;

use regard_system::{create_folder, save_atomically, save_streamed};
use serde_json::Value;

use super::adapters::merge;
use super::base_model::{Base, ours};
use crate::error::TaskError;
use crate::folder::{CONFIG, MODEL, check_free};
use crate::hugging_face::network::Network;
use crate::hugging_face::store::{Content, Float, Written, write};
use crate::hugging_face::table::{Entry, Table};
use crate::weights::{self, Tensors};

/// Writes a network that was trained further, with its adapters merged into its matrices. A head that predicts numbers has learnt
/// them as `(number − mean) / deviation`; `scale`, mean and deviation, turns its outputs into the numbers themselves.
pub(super) fn export(base: &Base, network: &Network, scale: Option<[f64; 2]>, to: &Path) -> Result<(), TaskError> {
    let parameters = weights::parameters(network);
    let by_name = by_name(&parameters);
    let change = |entry: &Entry, values: &mut Vec<f32>| {
        merge(entry, base.adapters.as_ref(), &by_name, values);
        rescale(entry, scale, values);
    };
    write_folder(&base.table, &by_name, change, base.copied(), base.settings(), to)
}

/// Turns the outputs of a head that predicts `(number − mean) / deviation` into the numbers themselves.
pub(in crate::hugging_face) fn rescale(entry: &Entry, scale: Option<[f64; 2]>, values: &mut [f32]) {
    let Some([mean, deviation]) = scale else { return };
    let shift = match entry.ours.as_str() {
        "head.output.weight" => 0.0,
        "head.output.bias" => mean,
        _ => return,
    };
    values.iter_mut().for_each(|value| *value = (f64::from(*value) * deviation + shift) as f32);
}

/// Returns the values of parameters by their names in a table.
pub(in crate::hugging_face) fn by_name(parameters: &Tensors) -> BTreeMap<&str, &Vec<f32>> {
    parameters.iter().map(|(path, (_, values))| (ours(path), values)).collect()
}

/// Writes parameters as the tensors of a table, each changed by `change`, with the files in `copied` and this `config.json`.
pub(in crate::hugging_face) fn write_folder(
    table: &Table,
    parameters: &BTreeMap<&str, &Vec<f32>>,
    change: impl Fn(&Entry, &mut Vec<f32>),
    copied: &BTreeMap<String, Vec<u8>>,
    settings: &Value,
    to: &Path,
) -> Result<(), TaskError> {
    check_free(to)?;
    create_folder(to).map_err(TaskError::io(to))?;
    let mut tensors = Vec::new();
    for entry in &table.entries {
        let missing = || TaskError::folder(to, format!("{} is not in the network", entry.ours));
        let values: &Vec<f32> = parameters.get(entry.ours.as_str()).copied().ok_or_else(missing)?;
        for (at, piece) in entry.pieces.iter().enumerate() {
            let change = &change;
            let values = move || {
                let mut values = values.clone();
                change(entry, &mut values);
                Ok(entry.piece(at, &values))
            };
            let content = Content::Values(Float::F32, Box::new(values));
            tensors.push(Written { name: &piece.name, dtype: "F32", shape: &piece.shape, content });
        }
    }
    let path = to.join(MODEL);
    save_streamed(&path, |file| write(&tensors, &path, file).map_err(std::io::Error::other))?;
    for (name, content) in copied {
        save_atomically(&to.join(name), content)?;
    }
    // Last, so that a folder without it is known to be incomplete.
    let config = serde_json::to_vec_pretty(settings).expect("plain values");
    Ok(save_atomically(&to.join(CONFIG), &config)?)
}
