//! Language models of our own as GPT-2.

use std::path::Path;

use burn::module::Module;
use regard_data::SPECIALS;
use regard_nn::models::transformer::{Sight, TransformerConfig};
use serde_json::json;

use super::{Twin, positions, tokenizer_files};
use crate::error::TaskError;
use crate::hugging_face::generation::GENERATION;
use crate::hugging_face::tune::{by_name, write_folder};
use crate::weights;

/// Writes a causal Transformer as a folder of GPT-2; returns an error that names the settings in which it is none.
pub(crate) fn export_gpt2(
    config: &TransformerConfig,
    model: &impl Module,
    tokenizer: &str,
    to: &Path,
) -> Result<(), TaskError> {
    let settings = json!({
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "activation_function": "gelu_new",
        "vocab_size": config.vocab,
        "n_embd": config.d_model,
        "n_layer": config.n_layers,
        "n_head": config.n_heads,
        "n_inner": config.d_ff,
        "n_positions": positions(config),
        "layer_norm_epsilon": config.epsilon,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.attention_dropout,
        "tie_word_embeddings": true,
        "bos_token_id": null,
        "eos_token_id": null,
        "dtype": "float32",
    });
    let twin = Twin { task: "generate", name: "GPT-2", settings };
    let (theirs, table) = twin.planned()?;
    // A language model never sees later tokens.
    let sight = if config.sight == Sight::Causal { Sight::Full } else { config.sight };
    twin.check(&TransformerConfig { sight, ..*config }, theirs.transformer())?;
    let parameters = weights::parameters(model);
    // Text never has special tokens, which come first.
    let specials: Vec<usize> = (0..SPECIALS.len()).collect();
    let generation = json!({"do_sample": false, "suppress_tokens": specials}).to_string();
    let mut files = tokenizer_files(tokenizer, [&[], &[]], to)?;
    files.insert(GENERATION.to_string(), generation.into_bytes());
    write_folder(&table, &by_name(&parameters), |_, _| {}, &files, &twin.settings, to)
}
