//! The fields of a checkpoint's `config.json`.

use regard_inspect::count::CountError;
use regard_nn::models::transformer::OutputWeights;
use regard_ops::Activation;
use serde_json::Value;

/// Keys of a `config.json` that change no output of a model: its origin, its training, how it generates by default.
const WITHOUT_EFFECT: &[&str] = &[
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_attn_implementation_internal",
    "_commit_hash",
    "_flash_attn_2_enabled",
    "_name_or_path",
    "_num_labels",
    "architectures",
    "attn_implementation",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classif_dropout",
    "classifier_dropout",
    "cls_token_id",
    "decoder_start_token_id",
    "directionality",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "eos_token_ids",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "init_std",
    "initializer_factor",
    "initializer_range",
    "is_encoder_decoder",
    "keys_to_ignore_at_inference",
    "label2id",
    "language",
    "length_penalty",
    "mask_token_id",
    "max_length",
    "max_new_tokens",
    "max_sequence_length",
    "min_length",
    "model_max_length",
    "model_type",
    "n_special",
    "name",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_scores",
    "pad_token_id",
    "predict_special_tokens",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "renormalize_logits",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "save_step",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tie_word_embeddings",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_cache",
    "use_return_dict",
    "xla_device",
];

/// Settings that change the arithmetic of several families and have one value here. A missing key has that value too.
const FIXED: &[(&str, &[&str])] = &[
    ("add_cross_attention", &["false"]),
    ("cross_attention_hidden_size", &["null"]),
    ("force_bos_token_to_be_generated", &["false"]),
    ("is_decoder", &["false"]),
    ("position_embedding_type", &["\"absolute\""]),
    ("pruned_heads", &["{}", "null"]),
    ("use_bfloat16", &["false"]),
];

/// The head of a checkpoint, by the class that its `architectures` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadKind {
    /// None, or a pooler.
    Bare,
    /// The words at every position: `…ForMaskedLM`, `…ForPreTraining`.
    Words,
    /// A label for each token: `…ForTokenClassification`.
    Tokens,
    /// A label for the whole text or picture: `…ForSequenceClassification`, `…ForImageClassification`.
    Whole,
    /// The next token: `…ForCausalLM`, `…LMHeadModel`.
    Next,
    /// A text from a text: `…MTModel`, `…ForConditionalGeneration`.
    Translation,
}

/// The fields of a `config.json`. A null field counts as missing.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConfigFile<'a>(pub &'a Value);

impl<'a> ConfigFile<'a> {
    pub fn get(self, field: &str) -> Option<&'a Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    pub fn optional(self, field: &str) -> Result<Option<usize>, CountError> {
        let number = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
        self.get(field)
            .map(|value| number(value).ok_or_else(|| wrong(field, value, "a whole number, 0 or more")))
            .transpose()
    }

    pub fn size(self, field: &str, default: usize) -> Result<usize, CountError> {
        Ok(self.optional(field)?.unwrap_or(default))
    }

    /// Reads a size that may not be 0.
    pub fn positive(self, field: &str, default: usize) -> Result<usize, CountError> {
        match self.size(field, default)? {
            0 => Err(CountError::field(field, "0 found, expected a whole number, 1 or more")),
            size => Ok(size),
        }
    }

    pub fn number(self, field: &str, default: f64) -> Result<f32, CountError> {
        let number = |value: &Value| value.as_f64().ok_or_else(|| wrong(field, value, "a number"));
        Ok(self.get(field).map_or(Ok(default), number)? as f32)
    }

    pub fn optional_number(self, field: &str) -> Result<Option<f32>, CountError> {
        self.get(field).map(|_| self.number(field, 0.0)).transpose()
    }

    pub fn flag(self, field: &str, default: bool) -> Result<bool, CountError> {
        let flag = |value: &Value| value.as_bool().ok_or_else(|| wrong(field, value, "true or false"));
        self.get(field).map_or(Ok(default), flag)
    }

    pub fn text(self, field: &str, default: &'a str) -> Result<&'a str, CountError> {
        let text = |value: &'a Value| value.as_str().ok_or_else(|| wrong(field, value, "a string"));
        self.get(field).map_or(Ok(default), text)
    }

    pub fn activation(self, field: &str, default: &str) -> Result<Activation, CountError> {
        match self.text(field, "")? {
            "" => activation(default),
            name => activation(name),
        }
        .ok_or_else(|| wrong(field, &self.0[field], "gelu, gelu_new, relu, silu, swish, tanh or sigmoid"))
    }

    /// Returns the head of the model, the bare one if `architectures` is missing.
    pub fn head(self) -> Result<HeadKind, CountError> {
        let Some(name) = self.get("architectures").and_then(|names| names.get(0)) else { return Ok(HeadKind::Bare) };
        let is_for = |ending: &str| name.as_str().is_some_and(|name| name.ends_with(ending));
        let kinds = [
            ("ForMaskedLM", HeadKind::Words),
            ("ForPreTraining", HeadKind::Words),
            ("ForTokenClassification", HeadKind::Tokens),
            ("ForSequenceClassification", HeadKind::Whole),
            ("ForImageClassification", HeadKind::Whole),
            ("ForCausalLM", HeadKind::Next),
            ("T5WithLMHeadModel", HeadKind::Translation),
            ("LMHeadModel", HeadKind::Next),
            ("MTModel", HeadKind::Translation),
            ("ForConditionalGeneration", HeadKind::Translation),
            ("Model", HeadKind::Bare),
        ];
        match kinds.iter().find(|(ending, _)| is_for(ending)) {
            Some((_, kind)) => Ok(*kind),
            None => {
                let endings: Vec<&str> = kinds.iter().map(|(ending, _)| *ending).collect();
                Err(wrong("architectures", name, &format!("a name that ends in one of {}", endings.join(", "))))
            }
        }
    }

    /// Returns the number of classes of a classifier.
    pub fn labels(self) -> Result<usize, CountError> {
        match self.get("id2label").and_then(Value::as_object) {
            Some(labels) => Ok(labels.len()),
            None => self.size("num_labels", 2),
        }
    }

    pub fn output_weights(self, default: bool) -> Result<OutputWeights, CountError> {
        let tied = self.flag("tie_word_embeddings", default)?;
        Ok(if tied { OutputWeights::Embedding } else { OutputWeights::Own })
    }

    /// Returns an error if a setting is not known to leave the arithmetic as it is: one that is neither among `read`, the keys that
    /// the family reads, nor known to be without effect, nor at the one value that `fixed` allows.
    pub fn check_settings(self, read: &[&str], fixed: &[(&str, &[&str])]) -> Result<(), CountError> {
        let Some(fields) = self.0.as_object() else { return Ok(()) };
        for (key, value) in fields {
            if let Some((_, allowed)) = fixed.iter().chain(FIXED).find(|(name, _)| name == key) {
                let text = value.to_string();
                if !value.is_null() && !allowed.contains(&text.as_str()) {
                    return Err(wrong(key, value, &format!("{}: Regard has nothing else", allowed.join(" or "))));
                }
                continue;
            }
            let is_harmless = read.contains(&key.as_str())
                || WITHOUT_EFFECT.contains(&key.as_str())
                || key.ends_with("dropout")
                || key.ends_with("_dropout_prob")
                || key.ends_with("_pdrop")
                || key.ends_with("layerdrop");
            if !is_harmless && !value.is_null() {
                let why = format!(
                    "{value} found: Regard does not know this setting, which may change what the model computes"
                );
                return Err(CountError::field(key.as_str(), why));
            }
        }
        Ok(())
    }
}

pub(super) fn wrong(field: &str, value: &Value, allowed: &str) -> CountError {
    CountError::field(field, format!("{value} found, expected {allowed}"))
}

/// Returns the name of an activation in `transformers`, if it has it.
pub(super) fn activation_name(kind: Activation) -> Option<&'static str> {
    ["gelu", "gelu_new", "relu", "silu", "tanh", "sigmoid"].into_iter().find(|name| activation(name) == Some(kind))
}

fn activation(name: &str) -> Option<Activation> {
    Some(match name {
        "gelu" => Activation::Gelu,
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Activation::GeluTanh,
        "relu" => Activation::Relu,
        "silu" | "swish" => Activation::Silu,
        "tanh" => Activation::Tanh,
        "sigmoid" => Activation::Sigmoid,
        _ => return None,
    })
}
