//! Export: a checkpoint as a folder that `transformers` loads, written with the table that loaded it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use regard_system::{create_folder, save_atomically, save_streamed};

use super::load::Loaded;
use super::sentence::module_folders;
use super::store::{Content, Written, write};
use crate::error::TaskError;
use crate::folder::{CONFIG, MODEL, check_free};
use crate::weights;

/// Files that belong to a checkpoint beside its weights and are copied as they are.
pub(super) const COPIED: &[&str] = &[
    "added_tokens.json",
    "chat_template.jinja",
    "config_sentence_transformers.json",
    "generation_config.json",
    "merges.txt",
    "modules.json",
    "preprocessor_config.json",
    "sentence_bert_config.json",
    "sentencepiece.bpe.model",
    "source.spm",
    "special_tokens_map.json",
    "spiece.model",
    "target.spm",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
];

/// Writes a checkpoint into a new folder. Tensors have the names, the order and the element types of the original; tensors that
/// the network does not use are copied.
pub(super) fn export(loaded: &Loaded, to: &Path) -> Result<(), TaskError> {
    check_free(to)?;
    create_folder(to).map_err(TaskError::io(to))?;
    let parameters = weights::parameters(&loaded.network);
    // The first part of a path is the kind of network.
    let by_path: BTreeMap<&str, &Vec<f32>> = parameters
        .iter()
        .map(|(path, (_, values))| (path.split_once('.').map_or(path.as_str(), |(_, rest)| rest), values))
        .collect();
    let mut places = BTreeMap::new();
    for entry in &loaded.table.entries {
        for (at, piece) in entry.pieces.iter().enumerate() {
            places.insert(piece.name.as_str(), (entry, at));
        }
    }
    let ties: BTreeMap<&str, &str> =
        loaded.table.ties.iter().map(|(name, other)| (name.as_str(), other.as_str())).collect();
    let mut tensors = Vec::new();
    for name in loaded.store.in_order() {
        let info = &loaded.store.tensors()[name];
        let place = places.get(ties.get(name).copied().unwrap_or(name)).copied();
        let content = match (place, info.float()) {
            (Some((entry, at)), Some(float)) => {
                let missing = || TaskError::folder(to, format!("{} is not in the network", entry.ours));
                let values: &Vec<f32> = by_path.get(entry.ours.as_str()).copied().ok_or_else(missing)?;
                Content::Values(float, Box::new(move || Ok(entry.piece(at, values))))
            }
            _ => Content::Copied(&loaded.store),
        };
        tensors.push(Written { name, dtype: &info.dtype, shape: &info.shape, content });
    }
    let path = to.join(MODEL);
    save_streamed(&path, |file| write(&tensors, &path, file).map_err(std::io::Error::other))?;
    for name in COPIED {
        copy(&loaded.folder.join(name), &to.join(name))?;
    }
    for module in module_folders(&loaded.folder)? {
        create_folder(&to.join(&module)).map_err(TaskError::io(to))?;
        copy(&loaded.folder.join(&module).join(CONFIG), &to.join(&module).join(CONFIG))?;
    }
    // Last, so that a folder without it is known to be incomplete.
    copy(&loaded.folder.join(CONFIG), &to.join(CONFIG))
}

/// Copies a file, if it exists.
fn copy(from: &Path, to: &Path) -> Result<(), TaskError> {
    if !from.is_file() {
        return Ok(());
    }
    let content = fs::read(from).map_err(TaskError::io(from))?;
    Ok(save_atomically(to, &content)?)
}
