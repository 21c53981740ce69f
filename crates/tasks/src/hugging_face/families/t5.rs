//! T5 (Raffel 2020), in its first version and in 1.1: scores without a scale, and a bias by buckets of distances that all layers
//! of a side share.

use regard_inspect::count::{Architecture, CountError, Description, Sizes};
use regard_nn::layers::attention::multi_head::ScoreScale;
use regard_nn::layers::block::NormPlace;
use regard_nn::layers::feed_forward::Gate;
use regard_nn::layers::linear::Bias;
use regard_nn::layers::norm::NormKind;
use regard_nn::layers::position::Position;
use regard_nn::layers::position::relative::{RelativeConfig, Sides};
use regard_nn::models::transformer::{OutputScale, OutputWeights, StateDropout, TransformerConfig};
use regard_ops::Activation;

use super::{BlockNames, CrossNames, Family, Tuning, block, cross, no_head, norm, plain};
use crate::hugging_face::config::{ConfigFile, HeadKind, wrong};
use crate::hugging_face::network::NetworkConfig;
use crate::hugging_face::table::Builder;

pub(super) struct T5;

const READ: &[&str] = &[
    "d_ff",
    "d_kv",
    "d_model",
    "dense_act_fn",
    "dropout_rate",
    "feed_forward_proj",
    "is_gated_act",
    "layer_norm_epsilon",
    "n_positions",
    "num_decoder_layers",
    "num_heads",
    "num_layers",
    "relative_attention_max_distance",
    "relative_attention_num_buckets",
    "scale_decoder_outputs",
    "vocab_size",
];

const ENCODER: BlockNames = BlockNames {
    query: "layer.0.SelfAttention.q",
    key: "layer.0.SelfAttention.k",
    value: "layer.0.SelfAttention.v",
    output: "layer.0.SelfAttention.o",
    attention_norm: "layer.0.layer_norm",
    gate: "layer.1.DenseReluDense.wi_0",
    up: "layer.1.DenseReluDense.wi",
    down: "layer.1.DenseReluDense.wo",
    feed_forward_norm: "layer.1.layer_norm",
};

const DECODER: BlockNames = BlockNames {
    gate: "layer.2.DenseReluDense.wi_0",
    up: "layer.2.DenseReluDense.wi",
    down: "layer.2.DenseReluDense.wo",
    feed_forward_norm: "layer.2.layer_norm",
    ..ENCODER
};

const CROSS: CrossNames = CrossNames {
    query: "layer.1.EncDecAttention.q",
    key: "layer.1.EncDecAttention.k",
    value: "layer.1.EncDecAttention.v",
    output: "layer.1.EncDecAttention.o",
    norm: "layer.1.layer_norm",
};

fn transformer(file: ConfigFile) -> Result<TransformerConfig, CountError> {
    let n_layers = file.positive("num_layers", 6)?;
    let (activation, gate) = match file.text("feed_forward_proj", "relu")? {
        "relu" => (Activation::Relu, Gate::None),
        "gated-gelu" => (Activation::GeluTanh, Gate::Product),
        "gelu" => (Activation::Gelu, Gate::None),
        _ => {
            let allowed = "relu, gelu or gated-gelu";
            return Err(wrong("feed_forward_proj", &file.0["feed_forward_proj"], allowed));
        }
    };
    let tied = file.flag("tie_word_embeddings", true)?;
    let scaled = file.flag("scale_decoder_outputs", tied)?;
    let relative = RelativeConfig {
        max_distance: file.positive("relative_attention_max_distance", 128)?,
        buckets: Some(file.positive("relative_attention_num_buckets", 32)?),
        sides: Sides::Both,
    };
    Ok(TransformerConfig {
        vocab: file.positive("vocab_size", 32_128)?,
        n_layers,
        n_decoder_layers: Some(file.positive("num_decoder_layers", n_layers)?),
        d_model: file.positive("d_model", 512)?,
        n_heads: file.positive("num_heads", 8)?,
        d_head: Some(file.positive("d_kv", 64)?),
        d_ff: file.positive("d_ff", 2048)?,
        activation,
        gate,
        norm: NormKind::Rms,
        epsilon: file.number("layer_norm_epsilon", 1e-6)?,
        norm_place: NormPlace::Pre,
        bias: Bias::None,
        score_scale: ScoreScale::None,
        position: Position::Relative(relative),
        output_weights: if tied { OutputWeights::Embedding } else { OutputWeights::Own },
        output_bias: Bias::None,
        state_dropout: StateDropout::Features,
        output_scale: if scaled { OutputScale::InverseRoot } else { OutputScale::None },
        ..plain()
    })
}

impl Family for T5 {
    fn types(&self) -> &'static [(&'static str, &'static str)] {
        &[("t5", "T5")]
    }

    fn tuning(&self, file: ConfigFile) -> Result<Tuning, CountError> {
        let dropout = file.number("dropout_rate", 0.1)?;
        Ok(Tuning {
            dropout,
            embedding_dropout: None,
            attention_dropout: dropout,
            inner_dropout: None,
            head_dropout: None,
            adapted: &["q", "v"],
            fixed: &[],
        })
    }

    fn describe(&self, file: ConfigFile) -> Result<Description, CountError> {
        let sizes = Sizes::of(file.size("n_positions", 512)?);
        Ok(Description { sizes, ..Description::new(Architecture::EncoderDecoder(transformer(file)?)) })
    }

    fn check(&self, file: ConfigFile) -> Result<(), CountError> {
        if file.head()? != HeadKind::Translation {
            return no_head(file, "T5ForConditionalGeneration");
        }
        let gated = file.text("feed_forward_proj", "relu")?.starts_with("gated-");
        if file.flag("is_gated_act", gated)? != gated {
            return Err(wrong("is_gated_act", &file.0["is_gated_act"], "what feed_forward_proj says"));
        }
        let activation = transformer(file)?.activation;
        if file.get("dense_act_fn").is_some() && file.activation("dense_act_fn", "relu")? != activation {
            return Err(wrong("dense_act_fn", &file.0["dense_act_fn"], "what feed_forward_proj says"));
        }
        file.check_settings(READ, &[])
    }

    fn plan(&self, file: ConfigFile, table: &mut Builder) -> Result<NetworkConfig, CountError> {
        // A stored output matrix is used, whatever `tie_word_embeddings` says: version 1.1 has one, and transformers 5 calls it tied.
        let own = table.has("lm_head.weight");
        let output_weights = if own { OutputWeights::Own } else { OutputWeights::Embedding };
        let config = TransformerConfig { output_weights, ..transformer(file)? };
        let d_model = config.d_model;
        table.same("source_embedding.tokens.weight", "shared.weight", &[config.vocab, d_model]);
        for side in ["encoder", "decoder"] {
            table.tied(format!("{side}.embed_tokens.weight"), "shared.weight");
        }
        if own {
            table.linear("output.linear", "lm_head", [d_model, config.vocab], Bias::None);
        }
        if let Position::Relative(RelativeConfig { buckets: Some(buckets), .. }) = config.position {
            for (ours, side) in [("source_embedding.position", "encoder"), ("decoder_position", "decoder")] {
                let theirs = format!("{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight");
                table.transposed(format!("{ours}.Relative.weight"), theirs, &[buckets, config.n_heads]);
            }
        }
        let gated = |names: BlockNames, up: &'static str| match config.gate {
            Gate::None => names,
            Gate::Product => BlockNames { up, ..names },
        };
        let names = gated(ENCODER, "layer.1.DenseReluDense.wi_1");
        for layer in 0..config.n_layers {
            block(table, &format!("encoder.layers.{layer}"), &format!("encoder.block.{layer}"), &names, &config);
        }
        norm(table, "encoder.norm", "encoder.final_layer_norm", &config);
        let names = gated(DECODER, "layer.2.DenseReluDense.wi_1");
        for layer in 0..config.n_decoder_layers.unwrap_or(config.n_layers) {
            let (ours, theirs) = (format!("decoder.{layer}"), format!("decoder.block.{layer}"));
            block(table, &ours, &theirs, &names, &config);
            cross(table, &ours, &theirs, &CROSS, &config);
        }
        norm(table, "decoder_norm", "decoder.final_layer_norm", &config);
        // Old files have a bias by distance for cross-attention, which nothing reads.
        table.unused(|name| name.ends_with("EncDecAttention.relative_attention_bias.weight"));
        Ok(NetworkConfig::Translation(config))
    }
}
