//! Export of language models of our own that are exactly a GPT-2.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use burn::module::Module;
use regard_data::SPECIALS;
use regard_nn::layers::position::Position;
use regard_nn::layers::position::learned::{Beyond, LearnedConfig};
use regard_nn::models::transformer::{Sight, TransformerConfig};
use serde_json::{Value, json};

use super::config::ConfigFile;
use super::families::family;
use super::generation::GENERATION;
use super::network::NetworkConfig;
use super::table::Builder;
use super::tune::{by_name, write_folder};
use crate::error::TaskError;
use crate::folder::TOKENIZER;
use crate::weights;

/// Name of the task in messages.
const TASK: &str = "generate";

/// Writes a causal Transformer as a folder of GPT-2; returns an error that names the settings in which it is none.
pub(crate) fn export_gpt2(
    config: &TransformerConfig,
    model: &impl Module,
    tokenizer: String,
    to: &Path,
) -> Result<(), TaskError> {
    let refuse = |what: String| TaskError::Unsupported { task: TASK, what };
    let positions = match config.position {
        Position::Learned(LearnedConfig { max_length, .. }) => max_length,
        _ => 1,
    };
    let settings = json!({
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "activation_function": "gelu_new",
        "vocab_size": config.vocab,
        "n_embd": config.d_model,
        "n_layer": config.n_layers,
        "n_head": config.n_heads,
        "n_inner": config.d_ff,
        "n_positions": positions,
        "layer_norm_epsilon": config.epsilon,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.attention_dropout,
        "tie_word_embeddings": true,
        "bos_token_id": null,
        "eos_token_id": null,
        "dtype": "float32",
    });
    let (file, none) = (ConfigFile(&settings), BTreeSet::new());
    let mut table = Builder::to_write(&none);
    let planned = family(file).and_then(|family| family.plan(file, &mut table));
    let theirs = match planned.map_err(|error| refuse(format!("be written for transformers: {error}")))? {
        NetworkConfig::Next(theirs) => theirs,
        _ => unreachable!("GPT-2 is a language model"),
    };
    let differing = differences(&compared(config), &compared(&theirs));
    if !differing.is_empty() {
        let what = format!(
            "be written for transformers: of its architectures GPT-2 is nearest, but needs {}",
            differing.join(", ")
        );
        return Err(refuse(what));
    }
    let parameters = weights::parameters(model);
    // Text never has special tokens, which come first.
    let specials: Vec<usize> = (0..SPECIALS.len()).collect();
    let generation = json!({"do_sample": false, "suppress_tokens": specials}).to_string();
    let copied = BTreeMap::from([
        (TOKENIZER.to_string(), tokenizer.into_bytes()),
        (GENERATION.to_string(), generation.into_bytes()),
    ]);
    write_folder(&table.finish()?, &by_name(&parameters), |_, _| {}, &copied, &settings, to)
}

/// Returns the settings that decide what a language model computes.
fn compared(config: &TransformerConfig) -> Value {
    let position = match config.position {
        // How longer texts are treated is no part of the network.
        Position::Learned(learned) => Position::Learned(LearnedConfig { beyond: Beyond::Refuse, ..learned }),
        other => other,
    };
    let sight = if config.sight == Sight::Causal { Sight::Full } else { config.sight };
    let config = TransformerConfig {
        position,
        sight,
        kv_heads: config.kv_heads.filter(|&heads| heads != config.n_heads),
        dropout: 0.0,
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
