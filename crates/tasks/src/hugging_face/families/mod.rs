//! The families of checkpoints, one file each: how to read the `config.json`, and the table of tensors.

mod bert;
mod distilbert;
mod gpt2;
mod llama;
mod marian;
mod roberta;
mod t5;
mod vit;

use regard_inspect::count::{CountError, Description};
use regard_nn::layers::feed_forward::Gate;
use regard_nn::layers::linear::Bias;
use regard_nn::layers::norm::NormKind;
use regard_nn::layers::position::Position;
use regard_nn::layers::position::learned::{Beyond, LearnedConfig};
use regard_nn::models::transformer::{EmbeddingScale, TransformerConfig};

use super::config::{ConfigFile, HeadKind, wrong};
use super::network::NetworkConfig;
use super::table::Builder;

/// A family of checkpoints.
pub(super) trait Family: Sync {
    /// Returns the values of `model_type`, each with the beginning of the names of its classes.
    fn types(&self) -> &'static [(&'static str, &'static str)];

    /// Returns what training further needs to know, or an error if `transformers` would train in a way that we do not have.
    fn tuning(&self, file: ConfigFile) -> Result<Tuning, CountError>;

    /// Describes the model for counting, from fields that decide its size. Missing fields have the defaults of `transformers`.
    fn describe(&self, file: ConfigFile) -> Result<Description, CountError>;

    /// Returns an error if a setting changes the arithmetic to something that we do not have.
    fn check(&self, file: ConfigFile) -> Result<(), CountError>;

    /// Returns the configuration of the network and adds its parameters to the table.
    fn plan(&self, file: ConfigFile, table: &mut Builder) -> Result<NetworkConfig, CountError>;
}

/// What a `config.json` says about training, and which layers get adapters by default. Dropouts are probabilities; places that have
/// none, or have one more than usual, are part of a family's [plan](Family::plan).
#[derive(Debug, Clone, Copy)]
pub(super) struct Tuning {
    /// Dropout of features.
    pub dropout: f32,
    /// Dropout of embeddings; `None` for that of features.
    pub embedding_dropout: Option<f32>,
    /// Dropout of attention weights.
    pub attention_dropout: f32,
    /// Dropout inside the feed-forward part; `None` for that of features.
    pub inner_dropout: Option<f32>,
    /// Dropout in a head; `None` for that of features.
    pub head_dropout: Option<f32>,
    /// Endings of the names of the layers that get adapters by default, as in the library `peft`.
    pub adapted: &'static [&'static str],
    /// Parameters that `transformers` never trains.
    pub fixed: &'static [&'static str],
}

const FAMILIES: &[&dyn Family] = &[
    &bert::Bert,
    &gpt2::Gpt2,
    &llama::Llama,
    &distilbert::DistilBert,
    &roberta::Roberta,
    &vit::Vit,
    &marian::Marian,
    &t5::T5,
];

/// Returns the family of a `config.json`.
pub(super) fn family(file: ConfigFile) -> Result<&'static dyn Family, CountError> {
    let kind = file.text("model_type", "")?;
    let found = FAMILIES.iter().copied().find(|family| family.types().iter().any(|(name, _)| *name == kind));
    found.ok_or_else(|| {
        let known: Vec<&str> = FAMILIES.iter().flat_map(|family| family.types()).map(|(name, _)| *name).collect();
        CountError::field("model_type", format!("{kind:?} is not known; expected one of {}", known.join(", ")))
    })
}

/// Returns a configuration without a factor on the embedding, which only translation models have.
fn plain() -> TransformerConfig {
    TransformerConfig { embedding_scale: EmbeddingScale::None, dropout: 0.1, ..TransformerConfig::default() }
}

/// Returns a table of learned positions. Texts with more tokens are refused.
fn learned(max_length: usize, first: usize) -> Position {
    Position::Learned(LearnedConfig { max_length, beyond: Beyond::Refuse, first })
}

/// Returns the error for a head that the family does not have here.
fn no_head<T>(file: ConfigFile, heads: &str) -> Result<T, CountError> {
    Err(wrong("architectures", &file.0["architectures"], heads))
}

/// Returns an error if a text model has another head than that of a language model.
fn check_next(file: ConfigFile) -> Result<(), CountError> {
    match file.head()? {
        HeadKind::Next => Ok(()),
        _ => no_head(file, "a language model, …ForCausalLM or …LMHeadModel"),
    }
}

/// Names of the layers of a block in a checkpoint, after the name of the block.
#[derive(Clone, Copy)]
struct BlockNames {
    query: &'static str,
    key: &'static str,
    value: &'static str,
    output: &'static str,
    attention_norm: &'static str,
    gate: &'static str,
    up: &'static str,
    down: &'static str,
    feed_forward_norm: &'static str,
}

/// Names of the cross-attention of a decoder block.
#[derive(Clone, Copy)]
struct CrossNames {
    query: &'static str,
    key: &'static str,
    value: &'static str,
    output: &'static str,
    norm: &'static str,
}

/// Adds the layers of a block of self-attention and feed-forward whose projections are stored one by one.
fn block(table: &mut Builder, ours: &str, theirs: &str, names: &BlockNames, config: &TransformerConfig) {
    let (attention, d_model, d_ff) = (config.block().attention(), config.d_model, config.d_ff);
    let (all_q, all_k) = (attention.n_heads * attention.d_head(), attention.kv_heads() * attention.d_head());
    let name = |name: &str| format!("{theirs}.{name}");
    let qkv = [(name(names.query), all_q), (name(names.key), all_k), (name(names.value), all_k)];
    table.side_by_side(&format!("{ours}.attention.qkv"), &qkv, d_model, attention.bias);
    let output = format!("{ours}.attention.output");
    table.linear(&output, &name(names.output), [all_q, d_model], attention.output_bias);
    norm(table, &format!("{ours}.attention_residual.norm"), &name(names.attention_norm), config);
    if config.gate == Gate::Product {
        table.linear(&format!("{ours}.feed_forward.gate"), &name(names.gate), [d_model, d_ff], config.bias);
    }
    table.linear(&format!("{ours}.feed_forward.up"), &name(names.up), [d_model, d_ff], config.bias);
    table.linear(&format!("{ours}.feed_forward.down"), &name(names.down), [d_ff, d_model], config.bias);
    norm(table, &format!("{ours}.feed_forward_residual.norm"), &name(names.feed_forward_norm), config);
}

/// Adds the cross-attention of a decoder block.
fn cross(table: &mut Builder, ours: &str, theirs: &str, names: &CrossNames, config: &TransformerConfig) {
    let (attention, d_model) = (config.block().attention(), config.d_model);
    let (all_q, all_k) = (attention.n_heads * attention.d_head(), attention.kv_heads() * attention.d_head());
    let name = |name: &str| format!("{theirs}.{name}");
    let layer = format!("{ours}.cross_attention");
    table.linear(&format!("{layer}.query"), &name(names.query), [d_model, all_q], attention.bias);
    let both = [(name(names.key), all_k), (name(names.value), all_k)];
    table.side_by_side(&format!("{layer}.key_value"), &both, d_model, attention.bias);
    table.linear(&format!("{layer}.output"), &name(names.output), [all_q, d_model], attention.output_bias);
    norm(table, &format!("{ours}.cross_residual.norm"), &name(names.norm), config);
}

/// Adds a norm of the kind of the blocks.
fn norm(table: &mut Builder, ours: &str, theirs: &str, config: &TransformerConfig) {
    let bias = match config.norm {
        NormKind::Layer => Bias::Learned,
        NormKind::LayerUnbiased | NormKind::Rms => Bias::None,
    };
    table.norm(ours, theirs, config.d_model, bias);
}

/// Returns the first of two prefixes if the checkpoint has a tensor under it or is new, else the second.
fn prefix(table: &Builder, prefixes: [&'static str; 2], name: &str) -> &'static str {
    if table.is_new() || table.has(&format!("{}{name}", prefixes[0])) { prefixes[0] } else { prefixes[1] }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_scaling_without_its_factor_is_refused() {
        for kind in ["linear", "llama3", "yarn"] {
            let settings = json!({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "rope_scaling": {"rope_type": kind}});
            let error = family(ConfigFile(&settings)).unwrap().describe(ConfigFile(&settings)).unwrap_err().to_string();
            assert!(error.contains("rope_scaling.factor") && error.contains("missing"), "{error}");
        }
    }
}
