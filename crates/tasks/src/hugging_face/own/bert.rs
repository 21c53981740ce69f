//! Pre-trained encoders of our own, and classifiers on them, as BERT.
//!
//! BERT adds a vector for the type of each token. Ours have no types; their vectors are written as zeros.

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::Module;
use regard_data::{END, PAD, START};
use regard_nn::layers::pooling::PoolingConfig;
use regard_nn::models::classifier::{Classifier, ClassifierConfig};
use regard_nn::models::masked_language_model::MaskedLanguageModel;
use regard_nn::models::transformer::TransformerConfig;
use serde_json::{Value, json};

use super::{Twin, positions, tokenizer_files};
use crate::answers::Answers;
use crate::error::TaskError;
use crate::hugging_face::config::activation_name;
use crate::hugging_face::table::Entry;
use crate::hugging_face::tune::{goal_of, rescale, write_folder};
use crate::weights;

/// Number of token types. The tokenisers of BERT know two.
const TYPES: usize = 2;

/// Writes a masked language model as a folder of BERT; returns an error that names the settings in which it is none.
pub(crate) fn export_masked_bert(
    config: &TransformerConfig,
    model: &MaskedLanguageModel,
    tokenizer: &str,
    to: &Path,
) -> Result<(), TaskError> {
    let mut settings = settings(config);
    settings["architectures"] = json!(["BertForMaskedLM"]);
    // The activation before the words is always this one in ours, and that of the blocks in theirs.
    settings["hidden_act"] = json!("gelu");
    let twin = Twin { task: "pretrain", name: "BERT", settings };
    written(&twin, config, model, |name| name.to_string(), |_, _| {}, (tokenizer, Around::Marks), to)
}

/// Whether the network reads texts between `<s>` and `</s>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Around {
    /// It does, as in pre-training.
    Marks,
    /// It reads texts as they are.
    Nothing,
}

/// Writes a classifier as a folder of BERT; returns an error that names the settings in which it is none.
pub(crate) fn export_bert_classifier(
    config: &ClassifierConfig,
    model: &Classifier,
    answers: &Answers,
    (tokenizer, around): (&str, Around),
    to: &Path,
) -> Result<(), TaskError> {
    let task = "classify";
    let Some(encoder) = &config.encoder else {
        let what = "be written for transformers: only model.kind=transformer has an architecture there".to_string();
        return Err(TaskError::Unsupported { task, what });
    };
    let mut settings = settings(encoder);
    let Some(activation) = activation_name(encoder.activation) else {
        let what = "be written for transformers: BERT needs another model.activation, such as gelu".to_string();
        return Err(TaskError::Unsupported { task, what });
    };
    settings["hidden_act"] = json!(activation);
    let twin = Twin { task, name: "BERT", settings };
    if config.pooling != PoolingConfig::First || config.hidden != [encoder.d_model] {
        return Err(
            twin.refused("BERT reads the first token through a hidden layer: model.pooling=first, model.hidden=1")
        );
    }
    let settings = goal_of(answers).settings(&twin.settings).map_err(|error| twin.refused(&error.to_string()))?;
    let twin = Twin { settings, ..twin };
    let renamed = |name: &str| {
        let head = [("output.layers.0.linear.", "head.hidden."), ("output.layers.1.linear.", "head.output.")];
        let found = head.iter().find_map(|(ours, theirs)| Some(format!("{theirs}{}", name.strip_prefix(ours)?)));
        found.unwrap_or_else(|| name.to_string())
    };
    let change = |entry: &Entry, values: &mut Vec<f32>| rescale(entry, answers.scale(), values);
    written(&twin, encoder, model, renamed, change, (tokenizer, around), to)
}

fn settings(config: &TransformerConfig) -> Value {
    json!({
        "model_type": "bert",
        "vocab_size": config.vocab,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "intermediate_size": config.d_ff,
        "max_position_embeddings": positions(config),
        "layer_norm_eps": config.epsilon,
        "type_vocab_size": TYPES,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "pad_token_id": PAD,
        "tie_word_embeddings": true,
        "dtype": "float32",
    })
}

/// Writes a model whose parameters have the names that `renamed` gives them in the table.
fn written(
    twin: &Twin,
    config: &TransformerConfig,
    model: &impl Module,
    renamed: impl Fn(&str) -> String,
    change: impl Fn(&Entry, &mut Vec<f32>),
    (tokenizer, around): (&str, Around),
    to: &Path,
) -> Result<(), TaskError> {
    let (theirs, table) = twin.planned()?;
    twin.check(&TransformerConfig { token_types: TYPES, ..*config }, theirs.transformer())?;
    let parameters = weights::parameters(model);
    let names: Vec<String> = parameters.keys().map(|path| renamed(path)).collect();
    let types = vec![0.0; TYPES * config.d_model];
    let mut by_name: BTreeMap<&str, &Vec<f32>> =
        names.iter().map(String::as_str).zip(parameters.values().map(|(_, values)| values)).collect();
    by_name.insert("encoder.embedding.types.weight", &types);
    let around: [&[u32]; 2] = match around {
        Around::Marks => [&[START], &[END]],
        Around::Nothing => [&[], &[]],
    };
    write_folder(&table, &by_name, change, &tokenizer_files(tokenizer, around, to)?, &twin.settings, to)
}
