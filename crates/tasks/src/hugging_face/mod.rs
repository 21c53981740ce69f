//! Checkpoints of `transformers`: folders with `config.json`, `model.safetensors` and `tokenizer.json` are loaded as our networks,
//! used like trained models, compared with reference outputs and written again.
//!
//! A family of models is one file in `families`: how its `config.json` is read, and a table of its tensors that serves loading
//! and export. A setting or a tensor that we do not know is an error, never ignored.

mod answer;
mod chat;
mod config;
mod dump;
mod export;
mod families;
mod generate;
mod generation;
mod llama2_c;
mod load;
mod network;
mod opened;
mod own;
#[cfg(test)]
mod published;
mod scaling;
mod score;
mod sentence;
mod store;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod tune;
mod verify;
mod windows;

pub use dump::Dump;
pub use llama2_c::import_llama2_c;
pub use load::describe;
pub use opened::{Checkpoint, DumpInput};
pub(crate) use own::{
    Around, TranslatorParts, export_bert_classifier, export_gpt2, export_marian, export_masked_bert, no_recurrence,
};
pub use verify::Comparison;

/// Name of checkpoints in messages, where a trained model has the name of its task.
const TASK: &str = "checkpoint";
