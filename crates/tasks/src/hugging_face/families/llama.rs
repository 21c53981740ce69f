//! Llama (Touvron 2023) and its relatives: Mistral, Qwen2, Qwen3, SmolLM.

use regard_inspect::count::{Architecture, CountError, Description, Sizes};
use regard_nn::layers::attention::multi_head::QueryKeyNorm;
use regard_nn::layers::block::NormPlace;
use regard_nn::layers::feed_forward::Gate;
use regard_nn::layers::linear::Bias;
use regard_nn::layers::norm::NormKind;
use regard_nn::layers::position::Position;
use regard_nn::layers::position::rope::{RopeConfig, RopeScaling};
use regard_nn::models::transformer::{EmbeddingScale, OutputWeights, Sight, TransformerConfig};
use regard_ops::Pairing;
use serde_json::Value;

use super::{BlockNames, Family, Tuning, block, check_next, norm, prefix};
use crate::hugging_face::config::{ConfigFile, wrong};
use crate::hugging_face::network::NetworkConfig;
use crate::hugging_face::table::Builder;

pub(super) struct Llama;

const READ: &[&str] = &[
    "attention_bias",
    "head_dim",
    "hidden_act",
    "hidden_size",
    "intermediate_size",
    "is_llama_config",
    "layer_types",
    "max_position_embeddings",
    "max_window_layers",
    "mlp_bias",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "sliding_window",
    "use_sliding_window",
    "vocab_size",
];

const NAMES: BlockNames = BlockNames {
    query: "self_attn.q_proj",
    key: "self_attn.k_proj",
    value: "self_attn.v_proj",
    output: "self_attn.o_proj",
    attention_norm: "input_layernorm",
    gate: "mlp.gate_proj",
    up: "mlp.up_proj",
    down: "mlp.down_proj",
    feed_forward_norm: "post_attention_layernorm",
};

/// Value of `layer_types` for a layer with a sliding window.
const WINDOW: &str = "sliding_attention";

/// Returns the kind of attention of each layer, if the file lists it.
fn layer_types(file: ConfigFile<'_>) -> Option<&Vec<Value>> {
    file.get("layer_types").and_then(Value::as_array)
}

fn transformer(file: ConfigFile) -> Result<TransformerConfig, CountError> {
    let kind = file.text("model_type", "")?;
    let d_head = match file.optional("head_dim")? {
        None if kind == "qwen3" => Some(128),
        d_head => d_head,
    };
    let bias = |flag: bool| if flag { Bias::Learned } else { Bias::None };
    let everywhere = file.flag("mlp_bias", false)?;
    let qkv_bias = kind == "qwen2" || file.flag("attention_bias", false)?;
    Ok(TransformerConfig {
        vocab: file.positive("vocab_size", 32_000)?,
        n_layers: file.positive("num_hidden_layers", 32)?,
        d_model: file.positive("hidden_size", 4096)?,
        n_heads: file.positive("num_attention_heads", 32)?,
        kv_heads: file.optional("num_key_value_heads")?,
        d_head,
        d_ff: file.positive("intermediate_size", 11_008)?,
        activation: file.activation("hidden_act", "silu")?,
        gate: Gate::Product,
        norm: NormKind::Rms,
        epsilon: file.number("rms_norm_eps", 1e-6)?,
        norm_place: NormPlace::Pre,
        bias: bias(everywhere),
        qkv_bias: Some(bias(qkv_bias)),
        query_key_norm: if kind == "qwen3" { QueryKeyNorm::Rms } else { QueryKeyNorm::None },
        position: Position::Rope(rope(file)?),
        sight: sight(file, kind)?,
        embedding_scale: EmbeddingScale::None,
        output_weights: file.output_weights(false)?,
        output_bias: Bias::None,
        dropout: 0.0,
        ..TransformerConfig::default()
    })
}

/// Reads the sliding window. Mistral always uses it, Qwen only if `use_sliding_window` is set, in the layers that `layer_types` or
/// `max_window_layers` says.
fn sight(file: ConfigFile, kind: &str) -> Result<Sight, CountError> {
    let in_some_layer = match layer_types(file) {
        Some(types) => types.iter().any(|kind| kind == WINDOW),
        None => file.size("max_window_layers", 28)? < file.positive("num_hidden_layers", 32)?,
    };
    let windowed = kind == "mistral" || (file.flag("use_sliding_window", false)? && in_some_layer);
    // A missing window is the published one, `null` is none.
    let window = match file.0.get("sliding_window") {
        None => Some(4096),
        Some(_) => file.optional("sliding_window")?,
    };
    Ok(match window.filter(|_| windowed) {
        Some(window) => Sight::Window { left: window.saturating_sub(1), right: 0 },
        None => Sight::Causal,
    })
}

/// Reads the rotation from `rope_parameters`, or from the older `rope_theta` and `rope_scaling`.
fn rope(file: ConfigFile) -> Result<RopeConfig, CountError> {
    let place = if file.get("rope_parameters").is_some() { "rope_parameters" } else { "rope_scaling" };
    let empty = Value::Null;
    let settings = ConfigFile(file.get(place).unwrap_or(&empty));
    let within = |error: CountError| match error {
        CountError::Field { field, why } => CountError::field(format!("{place}.{field}"), why),
        other => other,
    };
    let theta = f64::from(file.number("rope_theta", 10_000.0)?);
    let base = settings.number("rope_theta", theta).map_err(within)?;
    let scaling = scaling(settings, file).map_err(within)?;
    Ok(RopeConfig { base, pairing: Pairing::Halves, scaling, ..RopeConfig::default() })
}

fn scaling(settings: ConfigFile, file: ConfigFile) -> Result<RopeScaling, CountError> {
    let kind = settings.text("rope_type", settings.text("type", "default")?)?;
    let (known, scaling): (&[&str], RopeScaling) = match kind {
        "default" => (&[], RopeScaling::None),
        "linear" => (&["factor"], RopeScaling::Linear { factor: factor(settings)? }),
        "llama3" => {
            let scaling = RopeScaling::Llama3 {
                factor: factor(settings)?,
                low: settings.number("low_freq_factor", 1.0)?,
                high: settings.number("high_freq_factor", 4.0)?,
                original: original(settings, file)?,
            };
            (&["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"], scaling)
        }
        "yarn" => {
            let factor = factor(settings)?;
            let default = if factor <= 1.0 { 1.0 } else { 0.1 * f64::from(factor).ln() + 1.0 };
            let scaling = RopeScaling::Yarn {
                factor,
                fast: settings.number("beta_fast", 32.0)?,
                slow: settings.number("beta_slow", 1.0)?,
                attention: settings.number("attention_factor", default)?,
                original: original(settings, file)?,
            };
            let known: &[&str] =
                &["factor", "beta_fast", "beta_slow", "attention_factor", "original_max_position_embeddings"];
            (known, scaling)
        }
        _ => return Err(wrong("rope_type", &Value::from(kind), "default, linear, llama3 or yarn")),
    };
    let all: Vec<&str> = known.iter().copied().chain(["rope_type", "type", "rope_theta"]).collect();
    settings.check_settings(&all, &[("partial_rotary_factor", &["1.0", "1"]), ("truncate", &["true"])])?;
    Ok(scaling)
}

/// Reads the factor of a scaling, which has no default.
fn factor(settings: ConfigFile) -> Result<f32, CountError> {
    match settings.get("factor") {
        Some(_) => settings.number("factor", 1.0),
        None => Err(CountError::field("factor", "missing, expected a number")),
    }
}

fn original(settings: ConfigFile, file: ConfigFile) -> Result<usize, CountError> {
    let longest = file.positive("max_position_embeddings", 2048)?;
    settings.positive("original_max_position_embeddings", longest)
}

impl Family for Llama {
    fn types(&self) -> &'static [(&'static str, &'static str)] {
        &[("llama", "Llama"), ("mistral", "Mistral"), ("qwen2", "Qwen2"), ("qwen3", "Qwen3")]
    }

    fn tuning(&self, file: ConfigFile) -> Result<Tuning, CountError> {
        Ok(Tuning {
            // These models have dropout of attention weights only.
            dropout: 0.0,
            embedding_dropout: None,
            attention_dropout: file.number("attention_dropout", 0.0)?,
            inner_dropout: Some(0.0),
            head_dropout: None,
            adapted: &["q_proj", "v_proj"],
            fixed: &[],
        })
    }

    fn describe(&self, file: ConfigFile) -> Result<Description, CountError> {
        let sizes = Sizes::of(file.size("max_position_embeddings", 2048)?);
        Ok(Description { sizes, ..Description::new(Architecture::Decoder(transformer(file)?)) })
    }

    fn check(&self, file: ConfigFile) -> Result<(), CountError> {
        check_next(file)?;
        let biases = ["attention_bias", "mlp_bias"].map(|key| file.flag(key, false));
        if let [Ok(true), Ok(false)] = biases {
            let allowed =
                "false, or true together with mlp_bias: Regard has a bias after attention only with the others";
            return Err(wrong("attention_bias", &file.0["attention_bias"], allowed));
        }
        // All layers must see equally far.
        let windowed = sight(file, file.text("model_type", "")?)? != Sight::Causal;
        let full = file.size("max_window_layers", 28)?;
        let expected = if windowed { WINDOW } else { "full_attention" };
        match layer_types(file) {
            Some(types) => {
                if let Some(other) = types.iter().find(|kind| *kind != expected) {
                    return Err(wrong("layer_types", other, &format!("{expected} in every layer")));
                }
            }
            None if windowed && full > 0 && file.text("model_type", "")? != "mistral" => {
                return Err(wrong("max_window_layers", &file.0["max_window_layers"], "0: a window in every layer"));
            }
            None => {}
        }
        let fixed: &[(&str, &[&str])] =
            &[("rope_interleaved", &["false"]), ("partial_rotary_factor", &["1.0", "1"]), ("use_mrope", &["false"])];
        file.check_settings(READ, fixed)
    }

    fn plan(&self, file: ConfigFile, table: &mut Builder) -> Result<NetworkConfig, CountError> {
        let config = transformer(file)?;
        let d_model = config.d_model;
        let prefix = prefix(table, ["model.", ""], "embed_tokens.weight");
        let words = format!("{prefix}embed_tokens.weight");
        table.same("embedding.tokens.weight", words.as_str(), &[config.vocab, d_model]);
        for layer in 0..config.n_layers {
            let (ours, theirs) = (format!("stack.layers.{layer}"), format!("{prefix}layers.{layer}"));
            block(table, &ours, &theirs, &NAMES, &config);
            if config.query_key_norm == QueryKeyNorm::Rms {
                let d_head = config.block().attention().d_head();
                for (norm, name) in [("query_norm", "q_norm"), ("key_norm", "k_norm")] {
                    let theirs = format!("{theirs}.self_attn.{name}");
                    table.norm(&format!("{ours}.attention.{norm}"), &theirs, d_head, Bias::None);
                }
            }
        }
        norm(table, "stack.norm", &format!("{prefix}norm"), &config);
        match config.output_weights {
            OutputWeights::Embedding => table.tied("lm_head.weight", words),
            OutputWeights::Own => table.linear("output.linear", "lm_head", [d_model, config.vocab], Bias::None),
        }
        table.unused(|name| name.ends_with("rotary_emb.inv_freq"));
        Ok(NetworkConfig::Next(config))
    }
}
