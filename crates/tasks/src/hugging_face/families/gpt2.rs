//! GPT-2 (Radford 2019). Its linear layers are stored as we have them, `[d_in, d_out]`, with queries, keys and values together.

use regard_inspect::count::{Architecture, CountError, Description, Sizes};
use regard_nn::layers::block::NormPlace;
use regard_nn::layers::linear::Bias;
use regard_nn::models::transformer::{OutputWeights, TransformerConfig};

use super::bert::positions;
use super::{Family, Tuning, check_next, learned, norm, plain, prefix};
use crate::hugging_face::config::ConfigFile;
use crate::hugging_face::network::NetworkConfig;
use crate::hugging_face::table::Builder;

pub(super) struct Gpt2;

const READ: &[&str] = &[
    "activation_function",
    "layer_norm_epsilon",
    "n_ctx",
    "n_embd",
    "n_head",
    "n_inner",
    "n_layer",
    "n_positions",
    "vocab_size",
    // Settings of a head that a language model does not have.
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
];

fn transformer(file: ConfigFile) -> Result<TransformerConfig, CountError> {
    let d_model = file.positive("n_embd", 768)?;
    Ok(TransformerConfig {
        vocab: file.positive("vocab_size", 50_257)?,
        n_layers: file.positive("n_layer", 12)?,
        d_model,
        n_heads: file.positive("n_head", 12)?,
        d_ff: file.optional("n_inner")?.unwrap_or(d_model.saturating_mul(4)),
        activation: file.activation("activation_function", "gelu_new")?,
        epsilon: file.number("layer_norm_epsilon", 1e-5)?,
        norm_place: NormPlace::Pre,
        position: learned(file.positive("n_positions", 1024)?, 0),
        output_weights: file.output_weights(true)?,
        output_bias: Bias::None,
        ..plain()
    })
}

impl Family for Gpt2 {
    fn types(&self) -> &'static [(&'static str, &'static str)] {
        &[("gpt2", "GPT2")]
    }

    fn tuning(&self, file: ConfigFile) -> Result<Tuning, CountError> {
        Ok(Tuning {
            dropout: file.number("resid_pdrop", 0.1)?,
            embedding_dropout: Some(file.number("embd_pdrop", 0.1)?),
            attention_dropout: file.number("attn_pdrop", 0.1)?,
            inner_dropout: Some(0.0),
            head_dropout: None,
            adapted: &["c_attn"],
            fixed: &[],
        })
    }

    fn describe(&self, file: ConfigFile) -> Result<Description, CountError> {
        let sizes = Sizes::of(file.size("n_positions", 1024)?);
        Ok(Description { sizes, ..Description::new(Architecture::Decoder(transformer(file)?)) })
    }

    fn check(&self, file: ConfigFile) -> Result<(), CountError> {
        check_next(file)?;
        let fixed: &[(&str, &[&str])] = &[
            ("reorder_and_upcast_attn", &["false"]),
            ("scale_attn_by_inverse_layer_idx", &["false"]),
            ("scale_attn_weights", &["true"]),
        ];
        file.check_settings(READ, fixed)
    }

    fn plan(&self, file: ConfigFile, table: &mut Builder) -> Result<NetworkConfig, CountError> {
        let config = transformer(file)?;
        let (d_model, d_ff) = (config.d_model, config.d_ff);
        let prefix = prefix(table, ["transformer.", ""], "wte.weight");
        let words = format!("{prefix}wte.weight");
        table.same("embedding.tokens.weight", words.as_str(), &[config.vocab, d_model]);
        positions(table, "embedding.position", format!("{prefix}wpe.weight"), &config);
        for layer in 0..config.n_layers {
            let (ours, theirs) = (format!("stack.layers.{layer}"), format!("{prefix}h.{layer}"));
            norm(table, &format!("{ours}.attention_residual.norm"), &format!("{theirs}.ln_1"), &config);
            norm(table, &format!("{ours}.feed_forward_residual.norm"), &format!("{theirs}.ln_2"), &config);
            for (layer, name, d_in, d_out) in [
                ("attention.qkv", "attn.c_attn", d_model, 3 * d_model),
                ("attention.output", "attn.c_proj", d_model, d_model),
                ("feed_forward.up", "mlp.c_fc", d_model, d_ff),
                ("feed_forward.down", "mlp.c_proj", d_ff, d_model),
            ] {
                table.same(format!("{ours}.{layer}.weight"), format!("{theirs}.{name}.weight"), &[d_in, d_out]);
                table.same(format!("{ours}.{layer}.bias"), format!("{theirs}.{name}.bias"), &[d_out]);
            }
        }
        norm(table, "stack.norm", &format!("{prefix}ln_f"), &config);
        match config.output_weights {
            OutputWeights::Embedding => table.tied("lm_head.weight", words),
            OutputWeights::Own => table.linear("output.linear", "lm_head", [d_model, config.vocab], Bias::None),
        }
        table.unused(|name| name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
        Ok(NetworkConfig::Next(config))
    }
}
