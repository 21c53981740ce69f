//! Export of models of our own that are exactly a model of `transformers`.
//!
//! The settings of the nearest architecture there are read as those of any checkpoint. If they give the network that we have, the
//! family's table writes it; otherwise the settings that differ are named.

mod bert;
mod gpt2;
mod marian;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use regard_data::{END, MASK, PAD, SPECIALS, START, UNK};
use regard_nn::layers::position::Position;
use regard_nn::layers::position::learned::{Beyond, LearnedConfig};
use regard_nn::models::transformer::TransformerConfig;
use serde_json::{Value, json};

pub(crate) use self::bert::{Around, export_bert_classifier, export_masked_bert};
pub(crate) use self::gpt2::export_gpt2;
pub(crate) use self::marian::{TranslatorParts, export_marian};
use super::config::ConfigFile;
use super::families::family;
use super::network::NetworkConfig;
use super::table::{Builder, Table};
use crate::error::TaskError;
use crate::folder::TOKENIZER;

/// A model of `transformers` that one of ours may be.
struct Twin {
    /// Task of our model, for messages.
    task: &'static str,
    /// Name of the architecture, for messages.
    name: &'static str,
    /// The `config.json`.
    settings: Value,
}

impl Twin {
    /// Returns the network that the settings give and its table.
    fn planned(&self) -> Result<(NetworkConfig, Table), TaskError> {
        let (file, none) = (ConfigFile(&self.settings), BTreeSet::new());
        let mut table = Builder::to_write(&none);
        let refuse = |error: regard_inspect::count::CountError| self.refused(&error.to_string());
        let family = family(file).map_err(refuse)?;
        family.check(file).map_err(refuse)?;
        let config = family.plan(file, &mut table).map_err(refuse)?;
        Ok((config, table.finish()?))
    }

    /// Returns an error that names the settings of `ours` that differ from those of `theirs`.
    fn check(&self, ours: &TransformerConfig, theirs: &TransformerConfig) -> Result<(), TaskError> {
        let differing = differences(&compared(ours), &compared(theirs));
        match differing.is_empty() {
            true => Ok(()),
            false => Err(self.refused(&format!(
                "of its architectures {} is nearest, but needs {}",
                self.name,
                differing.join(", ")
            ))),
        }
    }

    fn refused(&self, why: &str) -> TaskError {
        TaskError::Unsupported { task: self.task, what: format!("be written for transformers: {why}") }
    }
}

/// Returns the error of a network with recurrent layers.
pub(crate) fn no_recurrence(task: &'static str) -> TaskError {
    let what = "be written for transformers: it has no recurrent networks".to_string();
    TaskError::Unsupported { task, what }
}

/// The files of a tokeniser of ours, by name. `around` has the tokens before and after each text.
fn tokenizer_files(json: &str, around: [&[u32]; 2], to: &Path) -> Result<BTreeMap<String, Vec<u8>>, TaskError> {
    let mut tokenizer: Value =
        serde_json::from_str(json).map_err(|error| TaskError::folder(to, format!("the tokeniser: {error}")))?;
    let name = |id: u32| SPECIALS[id as usize];
    if around.iter().any(|tokens| !tokens.is_empty()) {
        let special = |&id: &u32| json!({"SpecialToken": {"id": name(id), "type_id": 0}});
        let text = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
        let [before, after] = around.map(|tokens| tokens.iter().map(special).collect::<Vec<_>>());
        let single = [before.clone(), vec![text("A")], after.clone()].concat();
        let pair = [before, vec![text("A")], after.clone(), vec![text("B")], after].concat();
        let tokens: serde_json::Map<String, Value> = around
            .concat()
            .into_iter()
            .map(|id| (name(id).to_string(), json!({"id": name(id), "ids": [id], "tokens": [name(id)]})))
            .collect();
        let template = json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens});
        tokenizer["post_processor"] = template;
    }
    let settings = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": name(PAD),
        "unk_token": name(UNK),
        "bos_token": name(START),
        "eos_token": name(END),
        "mask_token": name(MASK),
    });
    Ok(BTreeMap::from([
        (TOKENIZER.to_string(), tokenizer.to_string().into_bytes()),
        ("tokenizer_config.json".to_string(), settings.to_string().into_bytes()),
    ]))
}

/// Returns the settings that decide what a network computes.
fn compared(config: &TransformerConfig) -> Value {
    let position = match config.position {
        // How longer texts are treated is no part of the network.
        Position::Learned(learned) => Position::Learned(LearnedConfig { beyond: Beyond::Refuse, ..learned }),
        other => other,
    };
    let config = TransformerConfig {
        position,
        kv_heads: config.kv_heads.filter(|&heads| heads != config.n_heads),
        n_decoder_layers: Some(config.n_decoder_layers.unwrap_or(config.n_layers)),
        dropout: 0.0,
        embedding_dropout: None,
        attention_output_dropout: None,
        attention_dropout: 0.0,
        feed_forward_dropout: 0.0,
        ..*config
    };
    serde_json::to_value(config).expect("plain values")
}

/// Returns the keys in which two configurations differ, with what the second one has.
fn differences(ours: &Value, theirs: &Value) -> Vec<String> {
    let keys = theirs.as_object().into_iter().flatten();
    let differing = keys.filter(|(key, value)| ours.get(key.as_str()) != Some(value));
    differing
        .map(|(key, value)| {
            let value = value.get("kind").unwrap_or(value);
            format!("model.{key}={}", value.as_str().map_or_else(|| value.to_string(), str::to_string))
        })
        .collect()
}

/// Returns the number of positions in a table; 1 for positions of another kind, which no table holds.
fn positions(config: &TransformerConfig) -> usize {
    match config.position {
        Position::Learned(LearnedConfig { max_length, .. }) => max_length,
        _ => 1,
    }
}
