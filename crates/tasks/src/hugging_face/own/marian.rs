//! Translators of our own as Marian.
//!
//! Ours interleave the sines and cosines of a position, Marian has all sines first. The order of the features is arbitrary
//! everywhere else: every matrix that reads or writes them is written with its rows or columns in Marian's order.

use std::path::Path;

use burn::module::Module;
use regard_data::{END, PAD, START};
use regard_nn::layers::linear::Bias;
use regard_nn::layers::position::Position;
use regard_nn::models::transformer::{EmbeddingScale, TransformerConfig};
use serde_json::json;

use super::{Twin, tokenizer_files};
use crate::decode::BeamOptions;
use crate::error::TaskError;
use crate::hugging_face::config::activation_name;
use crate::hugging_face::generation::GENERATION;
use crate::hugging_face::table::Entry;
use crate::hugging_face::tune::{by_name, write_folder};
use crate::weights;

/// Least number of positions of an exported translator, which are computed and cost nothing to have.
const POSITIONS: usize = 512;

/// What a folder needs beside the weights of a translator.
pub(crate) struct TranslatorParts<'a> {
    /// The tokeniser as JSON.
    pub tokenizer: &'a str,
    /// How translations are searched.
    pub decode: BeamOptions,
    /// Maximum tokens of a translation.
    pub max_length: usize,
}

/// Writes a Transformer with encoder and decoder as a folder of Marian; returns an error that names the settings in which it is none.
pub(crate) fn export_marian(
    config: &TransformerConfig,
    model: &impl Module,
    parts: &TranslatorParts,
    to: &Path,
) -> Result<(), TaskError> {
    let settings = json!({
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": true,
        "vocab_size": config.vocab,
        "decoder_vocab_size": config.vocab,
        "share_encoder_decoder_embeddings": true,
        "tie_word_embeddings": true,
        "d_model": config.d_model,
        "encoder_layers": config.n_layers,
        "decoder_layers": config.n_decoder_layers.unwrap_or(config.n_layers),
        "encoder_attention_heads": config.n_heads,
        "decoder_attention_heads": config.n_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "activation_function": activation_name(config.activation).unwrap_or("gelu"),
        "scale_embedding": config.embedding_scale == EmbeddingScale::Root,
        "max_position_embeddings": POSITIONS.max(parts.max_length + 2),
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": 0.0,
        "pad_token_id": PAD,
        "bos_token_id": START,
        "eos_token_id": END,
        "decoder_start_token_id": START,
        "forced_eos_token_id": null,
        "dtype": "float32",
    });
    let twin = Twin { task: "translate", name: "Marian", settings };
    let (theirs, table) = twin.planned()?;
    // A bias that ours lacks is written as zeros, and theirs computes the table of positions.
    let ours = TransformerConfig { output_bias: Bias::Learned, ..*config };
    twin.check(&ours, &TransformerConfig { position: Position::Sinusoidal, ..*theirs.transformer() })?;
    let parameters = weights::parameters(model);
    let (mut by_name, none) = (by_name(&parameters), vec![0.0; config.vocab]);
    by_name.entry("output.bias").or_insert(&none);
    let mut files = tokenizer_files(parts.tokenizer, [&[], &[END]], to)?;
    let generation = json!({
        "num_beams": parts.decode.size,
        "length_penalty": parts.decode.length_penalty,
        "max_new_tokens": parts.max_length,
        "pad_token_id": PAD,
        "eos_token_id": END,
        "decoder_start_token_id": START,
    });
    files.insert(GENERATION.to_string(), generation.to_string().into_bytes());
    let order = sines_first(config.d_model);
    let change = |entry: &Entry, values: &mut Vec<f32>| reorder(entry, &order, values);
    write_folder(&table, &by_name, change, &files, &twin.settings, to)
}

/// Returns for each feature in Marian's order its index in ours.
fn sines_first(d_model: usize) -> Vec<usize> {
    (0..d_model).step_by(2).chain((1..d_model).step_by(2)).collect()
}

/// Puts the features of the states that a parameter reads or writes into another order.
fn reorder(entry: &Entry, order: &[usize], values: &mut Vec<f32>) {
    let reads = ["qkv.weight", "query.weight", "key_value.weight", "up.weight"];
    let writes = ["tokens.weight", "attention.output.weight", "attention.output.bias", "down.weight", "down.bias"];
    let is_one_of = |ends: &[&str]| ends.iter().any(|end| entry.ours.ends_with(end));
    let d_model = order.len();
    if is_one_of(&reads) {
        let width = values.len() / d_model;
        *values = order.iter().flat_map(|&row| values[row * width..][..width].to_vec()).collect();
    } else if is_one_of(&writes) || entry.ours.contains("norm.") {
        *values = values.chunks_exact(d_model).flat_map(|row| order.iter().map(|&at| row[at])).collect();
    }
}
