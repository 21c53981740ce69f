//! Descriptions from the `config.json` of a Hugging Face model folder.

use regard_nn::layers::block::NormPlace;
use regard_nn::layers::feed_forward::Gate;
use regard_nn::layers::linear::Bias;
use regard_nn::layers::norm::NormKind;
use regard_nn::layers::position::Position;
use regard_nn::layers::position::rope::RopeConfig;
use regard_nn::models::transformer::{EmbeddingScale, OutputWeights, Sight, TransformerConfig};
use regard_ops::{Activation, Pairing};
use serde_json::Value;

use super::description::{Architecture, Description, Input, Sizes};
use super::error::CountError;
use super::extra::{Extra, ExtraKind, Rows};
use super::preset::learned;

/// The supported values of `model_type`.
const TYPES: &str = "bert, distilbert, gpt2, llama, mistral, qwen2, marian, t5, vit";

/// Reads a `config.json` with a `model_type`. Missing fields have the defaults of `transformers`.
///
/// A head is counted if `architectures` names a classifier or a language model whose layers are known. Heads for pre-training,
/// such as BERT's, are not.
pub fn from_hugging_face(config: &Value) -> Result<Description, CountError> {
    let file = File(config);
    match file.text("model_type", "")? {
        "bert" => bert(file),
        "distilbert" => distilbert(file),
        "gpt2" => gpt2(file),
        "llama" | "mistral" | "qwen2" => llama(file),
        "marian" => marian(file),
        "t5" => t5(file),
        "vit" => vit(file),
        other => Err(CountError::field("model_type", format!("{other:?} is not known; expected one of {TYPES}"))),
    }
}

/// The fields of a `config.json`. A null field counts as missing.
#[derive(Clone, Copy)]
struct File<'a>(&'a Value);

impl<'a> File<'a> {
    fn get(self, field: &str) -> Option<&'a Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    fn optional(self, field: &str) -> Result<Option<usize>, CountError> {
        let number = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
        self.get(field)
            .map(|value| number(value).ok_or_else(|| wrong(field, value, "a whole number, 0 or more")))
            .transpose()
    }

    fn size(self, field: &str, default: usize) -> Result<usize, CountError> {
        Ok(self.optional(field)?.unwrap_or(default))
    }

    fn number(self, field: &str, default: f64) -> Result<f32, CountError> {
        let number = |value: &Value| value.as_f64().ok_or_else(|| wrong(field, value, "a number"));
        Ok(self.get(field).map_or(Ok(default), number)? as f32)
    }

    fn flag(self, field: &str, default: bool) -> Result<bool, CountError> {
        let flag = |value: &Value| value.as_bool().ok_or_else(|| wrong(field, value, "true or false"));
        self.get(field).map_or(Ok(default), flag)
    }

    fn text(self, field: &str, default: &'a str) -> Result<&'a str, CountError> {
        let text = |value: &'a Value| value.as_str().ok_or_else(|| wrong(field, value, "a string"));
        self.get(field).map_or(Ok(default), text)
    }

    fn activation(self, field: &str, default: &str) -> Result<Activation, CountError> {
        match self.text(field, "")? {
            "" => activation(default),
            name => activation(name),
        }
        .ok_or_else(|| wrong(field, &self.0[field], "gelu, gelu_new, relu, silu, swish, tanh or sigmoid"))
    }

    /// Returns true if `architectures` has a class whose name ends with `ending`.
    fn is_for(self, ending: &str) -> bool {
        let names = self.get("architectures").and_then(Value::as_array).into_iter().flatten();
        names.filter_map(Value::as_str).any(|name| name.ends_with(ending))
    }

    /// Returns the number of classes of a classifier.
    fn labels(self) -> Result<usize, CountError> {
        match self.get("id2label").and_then(Value::as_object) {
            Some(labels) => Ok(labels.len()),
            None => self.size("num_labels", 2),
        }
    }

    fn output_weights(self, default: bool) -> Result<OutputWeights, CountError> {
        let tied = self.flag("tie_word_embeddings", default)?;
        Ok(if tied { OutputWeights::Embedding } else { OutputWeights::Own })
    }
}

fn wrong(field: &str, value: &Value, allowed: &str) -> CountError {
    CountError::field(field, format!("{value} found, expected {allowed}"))
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

/// Returns a configuration without a factor on the embedding, which only translation models have.
fn plain() -> TransformerConfig {
    TransformerConfig { embedding_scale: EmbeddingScale::None, dropout: 0.1, ..TransformerConfig::default() }
}

fn bert(file: File) -> Result<Description, CountError> {
    let d_model = file.size("hidden_size", 768)?;
    let max_length = file.size("max_position_embeddings", 512)?;
    let config = TransformerConfig {
        vocab: file.size("vocab_size", 30_522)?,
        n_layers: file.size("num_hidden_layers", 12)?,
        d_model,
        n_heads: file.size("num_attention_heads", 12)?,
        d_ff: file.size("intermediate_size", 3072)?,
        activation: file.activation("hidden_act", "gelu")?,
        epsilon: file.number("layer_norm_eps", 1e-12)?,
        position: learned(max_length),
        ..plain()
    };
    let types = file.size("type_vocab_size", 2)?;
    let mut extra = vec![Extra::table("token_types", types, d_model), Extra::norm("embedding_norm", d_model)];
    if file.is_for("ForTokenClassification") {
        extra.push(Extra::linear("classifier", d_model, file.labels()?, Rows::Tokens));
    } else {
        extra.push(Extra::linear("pooler", d_model, d_model, Rows::Sequences));
    }
    if file.is_for("ForSequenceClassification") {
        extra.push(Extra::linear("classifier", d_model, file.labels()?, Rows::Sequences));
    }
    Ok(Description { extra, sizes: Sizes::of(max_length), ..Description::new(Architecture::Encoder(config)) })
}

fn distilbert(file: File) -> Result<Description, CountError> {
    let d_model = file.size("dim", 768)?;
    let max_length = file.size("max_position_embeddings", 512)?;
    let fixed = file.flag("sinusoidal_pos_embds", false)?;
    let config = TransformerConfig {
        vocab: file.size("vocab_size", 30_522)?,
        n_layers: file.size("n_layers", 6)?,
        d_model,
        n_heads: file.size("n_heads", 12)?,
        d_ff: file.size("hidden_dim", 3072)?,
        activation: file.activation("activation", "gelu")?,
        epsilon: 1e-12,
        position: if fixed { Position::Sinusoidal } else { learned(max_length) },
        ..plain()
    };
    let mut extra = vec![Extra::norm("embedding_norm", d_model)];
    if file.is_for("ForSequenceClassification") {
        extra.push(Extra::linear("pre_classifier", d_model, d_model, Rows::Sequences));
        extra.push(Extra::linear("classifier", d_model, file.labels()?, Rows::Sequences));
    } else if file.is_for("ForTokenClassification") {
        extra.push(Extra::linear("classifier", d_model, file.labels()?, Rows::Tokens));
    }
    Ok(Description { extra, sizes: Sizes::of(max_length), ..Description::new(Architecture::Encoder(config)) })
}

fn gpt2(file: File) -> Result<Description, CountError> {
    let d_model = file.size("n_embd", 768)?;
    let max_length = file.size("n_positions", 1024)?;
    let config = TransformerConfig {
        vocab: file.size("vocab_size", 50_257)?,
        n_layers: file.size("n_layer", 12)?,
        d_model,
        n_heads: file.size("n_head", 12)?,
        d_ff: file.optional("n_inner")?.unwrap_or(d_model.saturating_mul(4)),
        activation: file.activation("activation_function", "gelu_new")?,
        epsilon: file.number("layer_norm_epsilon", 1e-5)?,
        norm_place: NormPlace::Pre,
        position: learned(max_length),
        output_weights: file.output_weights(true)?,
        output_bias: Bias::None,
        ..plain()
    };
    Ok(Description { sizes: Sizes::of(max_length), ..Description::new(Architecture::Decoder(config)) })
}

fn llama(file: File) -> Result<Description, CountError> {
    let kind = file.text("model_type", "")?;
    let n_heads = file.size("num_attention_heads", 32)?;
    let max_length = file.size("max_position_embeddings", 2048)?;
    let rope =
        RopeConfig { base: file.number("rope_theta", 10_000.0)?, pairing: Pairing::Halves, ..RopeConfig::default() };
    // Mistral always uses its sliding window, Qwen2 only if `use_sliding_window` is set.
    let windowed = kind == "mistral" || file.flag("use_sliding_window", false)?;
    let sight = match file.optional("sliding_window")?.filter(|_| windowed) {
        Some(window) => Sight::Window { left: window.saturating_sub(1), right: 0 },
        None => Sight::Causal,
    };
    let config = TransformerConfig {
        vocab: file.size("vocab_size", 32_000)?,
        n_layers: file.size("num_hidden_layers", 32)?,
        d_model: file.size("hidden_size", 4096)?,
        n_heads,
        kv_heads: file.optional("num_key_value_heads")?,
        d_head: file.optional("head_dim")?,
        d_ff: file.size("intermediate_size", 11_008)?,
        activation: file.activation("hidden_act", "silu")?,
        gate: Gate::Product,
        norm: NormKind::Rms,
        epsilon: file.number("rms_norm_eps", 1e-6)?,
        norm_place: NormPlace::Pre,
        bias: Bias::None,
        position: Position::Rope(rope),
        sight,
        embedding_scale: EmbeddingScale::None,
        output_weights: file.output_weights(false)?,
        output_bias: Bias::None,
        dropout: 0.0,
        ..TransformerConfig::default()
    };
    let attention = config.block().attention();
    let heads = |count: usize| count.saturating_mul(attention.d_head());
    let qkv = heads(n_heads).saturating_add(heads(attention.kv_heads()).saturating_mul(2));
    let mut extra = Vec::new();
    // Only some products have biases; each is a table with a row per layer.
    let all = file.flag("attention_bias", false)?;
    if kind == "qwen2" || all {
        extra.push(Extra::table("qkv_bias", config.n_layers, qkv));
    }
    if all {
        extra.push(Extra::table("attention_output_bias", config.n_layers, config.d_model));
    }
    if file.flag("mlp_bias", false)? {
        let width = config.d_ff.saturating_mul(2).saturating_add(config.d_model);
        extra.push(Extra::table("feed_forward_bias", config.n_layers, width));
    }
    Ok(Description { extra, sizes: Sizes::of(max_length), ..Description::new(Architecture::Decoder(config)) })
}

fn marian(file: File) -> Result<Description, CountError> {
    let vocab = file.size("vocab_size", 58_101)?;
    let d_model = file.size("d_model", 1024)?;
    let (n_heads, d_ff) = (file.size("encoder_attention_heads", 16)?, file.size("encoder_ffn_dim", 4096)?);
    for (field, other) in [("decoder_attention_heads", n_heads), ("decoder_ffn_dim", d_ff)] {
        if file.size(field, other)? != other {
            return Err(wrong(field, &file.0[field], &format!("{other}, as in the encoder")));
        }
    }
    let shared = file.flag("share_encoder_decoder_embeddings", true)?;
    let target_vocab = if shared { None } else { Some(file.size("decoder_vocab_size", vocab)?) };
    let before = file.flag("normalize_before", false)?;
    let scaled = file.flag("scale_embedding", false)?;
    let config = TransformerConfig {
        vocab,
        target_vocab,
        n_layers: file.size("encoder_layers", 12)?,
        n_decoder_layers: Some(file.size("decoder_layers", 12)?),
        d_model,
        n_heads,
        d_ff,
        activation: file.activation("activation_function", "gelu")?,
        norm_place: if before { NormPlace::Pre } else { NormPlace::Post },
        embedding_scale: if scaled { EmbeddingScale::Root } else { EmbeddingScale::None },
        output_weights: file.output_weights(true)?,
        output_bias: Bias::None,
        ..plain()
    };
    let sizes = Sizes::of(file.size("max_position_embeddings", 1024)?);
    Ok(Description { sizes, ..Description::new(Architecture::EncoderDecoder(config)) })
}

fn t5(file: File) -> Result<Description, CountError> {
    let n_heads = file.size("num_heads", 8)?;
    let n_layers = file.size("num_layers", 6)?;
    let (activation, gate) = match file.text("feed_forward_proj", "relu")? {
        "relu" => (Activation::Relu, Gate::None),
        "gated-gelu" => (Activation::GeluTanh, Gate::Product),
        "gelu" => (Activation::Gelu, Gate::None),
        _ => {
            let allowed = "relu, gelu or gated-gelu";
            return Err(wrong("feed_forward_proj", &file.0["feed_forward_proj"], allowed));
        }
    };
    let config = TransformerConfig {
        vocab: file.size("vocab_size", 32_128)?,
        n_layers,
        n_decoder_layers: Some(file.size("num_decoder_layers", n_layers)?),
        d_model: file.size("d_model", 512)?,
        n_heads,
        d_head: Some(file.size("d_kv", 64)?),
        d_ff: file.size("d_ff", 2048)?,
        activation,
        gate,
        norm: NormKind::Rms,
        epsilon: file.number("layer_norm_epsilon", 1e-6)?,
        norm_place: NormPlace::Pre,
        bias: Bias::None,
        position: Position::None,
        output_weights: file.output_weights(true)?,
        output_bias: Bias::None,
        ..plain()
    };
    let buckets = file.size("relative_attention_num_buckets", 32)?;
    let table = |name| Extra::table(name, buckets, n_heads);
    let extra = vec![table("encoder_distances"), table("decoder_distances")];
    let sizes = Sizes::of(file.size("n_positions", 512)?);
    Ok(Description { extra, sizes, ..Description::new(Architecture::EncoderDecoder(config)) })
}

fn vit(file: File) -> Result<Description, CountError> {
    let d_model = file.size("hidden_size", 768)?;
    let (image, patch) = (file.size("image_size", 224)?, file.size("patch_size", 16)?);
    if patch == 0 || image < patch {
        return Err(CountError::field("patch_size", format!("{patch} found, expected 1 to image_size, {image}")));
    }
    let channels = file.size("num_channels", 3)?;
    let side = image / patch;
    let seq = side.saturating_mul(side).saturating_add(1);
    let bias = if file.flag("qkv_bias", true)? { Bias::Learned } else { Bias::None };
    if bias == Bias::None {
        return Err(wrong("qkv_bias", &file.0["qkv_bias"], "true"));
    }
    let config = TransformerConfig {
        vocab: 1,
        n_layers: file.size("num_hidden_layers", 12)?,
        d_model,
        n_heads: file.size("num_attention_heads", 12)?,
        d_ff: file.size("intermediate_size", 3072)?,
        activation: file.activation("hidden_act", "gelu")?,
        epsilon: file.number("layer_norm_eps", 1e-12)?,
        norm_place: NormPlace::Pre,
        position: learned(seq),
        dropout: 0.0,
        ..plain()
    };
    let pixels = channels.saturating_mul(patch).saturating_mul(patch);
    let head = if file.is_for("ForImageClassification") {
        Extra::linear("classifier", d_model, file.labels()?, Rows::Sequences)
    } else {
        Extra::linear("pooler", d_model, d_model, Rows::Sequences)
    };
    let patches = ExtraKind::Linear { d_in: pixels, d_out: d_model, bias, rows: Rows::TokensButFirst };
    let patches = Extra { name: "patches".into(), part: patches };
    let extra = vec![Extra::table("class_token", 1, d_model), patches, head];
    let architecture = Architecture::Encoder(config);
    Ok(Description { architecture, input: Input::Features, extra, sizes: Sizes::of(seq) })
}
