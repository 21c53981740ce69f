//! Marian translators (Junczys-Dowmunt 2018): the Transformer as published, with positions whose cosines follow the sines.

use regard_inspect::count::{Architecture, CountError, Description, Sizes};
use regard_nn::layers::block::NormPlace;
use regard_nn::layers::linear::Bias;
use regard_nn::layers::position::Position;
use regard_nn::models::transformer::{EmbeddingScale, OutputWeights, TransformerConfig};

use super::{BlockNames, CrossNames, Family, Tuning, block, cross, learned, no_head, plain};
use crate::hugging_face::config::{ConfigFile, HeadKind, wrong};
use crate::hugging_face::network::NetworkConfig;
use crate::hugging_face::table::Builder;

/// Largest number of positions of a table.
const MOST_POSITIONS: usize = 1 << 16;

pub(super) struct Marian;

const READ: &[&str] = &[
    "activation_function",
    "d_model",
    "decoder_attention_heads",
    "decoder_ffn_dim",
    "decoder_layers",
    "decoder_vocab_size",
    "encoder_attention_heads",
    "encoder_ffn_dim",
    "encoder_layers",
    "extra_pos_embeddings",
    "max_position_embeddings",
    "num_hidden_layers",
    "scale_embedding",
    "share_encoder_decoder_embeddings",
    "vocab_size",
];

const NAMES: BlockNames = BlockNames {
    query: "self_attn.q_proj",
    key: "self_attn.k_proj",
    value: "self_attn.v_proj",
    output: "self_attn.out_proj",
    attention_norm: "self_attn_layer_norm",
    gate: "",
    up: "fc1",
    down: "fc2",
    feed_forward_norm: "final_layer_norm",
};

const CROSS: CrossNames = CrossNames {
    query: "encoder_attn.q_proj",
    key: "encoder_attn.k_proj",
    value: "encoder_attn.v_proj",
    output: "encoder_attn.out_proj",
    norm: "encoder_attn_layer_norm",
};

fn transformer(file: ConfigFile) -> Result<TransformerConfig, CountError> {
    let vocab = file.positive("vocab_size", 58_101)?;
    let n_heads = file.positive("encoder_attention_heads", 16)?;
    let d_ff = file.positive("encoder_ffn_dim", 4096)?;
    for (field, other) in [("decoder_attention_heads", n_heads), ("decoder_ffn_dim", d_ff)] {
        if file.size(field, other)? != other {
            return Err(wrong(field, &file.0[field], &format!("{other}, as in the encoder")));
        }
    }
    let shared = file.flag("share_encoder_decoder_embeddings", true)?;
    let target_vocab = if shared { None } else { Some(file.positive("decoder_vocab_size", vocab)?) };
    let before = file.flag("normalize_before", false)?;
    let scaled = file.flag("scale_embedding", false)?;
    Ok(TransformerConfig {
        vocab,
        target_vocab,
        n_layers: file.positive("encoder_layers", 12)?,
        n_decoder_layers: Some(file.positive("decoder_layers", 12)?),
        d_model: file.positive("d_model", 1024)?,
        n_heads,
        d_ff,
        activation: file.activation("activation_function", "gelu")?,
        norm_place: if before { NormPlace::Pre } else { NormPlace::Post },
        embedding_scale: if scaled { EmbeddingScale::Root } else { EmbeddingScale::None },
        output_weights: file.output_weights(true)?,
        output_bias: Bias::None,
        ..plain()
    })
}

/// Returns the positions as Marian stores them: all sines, then all cosines.
fn sinusoids(positions: usize, d_model: usize) -> Vec<f32> {
    let half = d_model.div_ceil(2);
    let value = move |position: usize, at: usize| {
        let pair = if at < half { at } else { at - half };
        let angle = position as f64 / 10_000f64.powf((2 * pair) as f64 / d_model as f64);
        if at < half { angle.sin() as f32 } else { angle.cos() as f32 }
    };
    (0..positions).flat_map(|position| (0..d_model).map(move |at| value(position, at))).collect()
}

impl Family for Marian {
    fn types(&self) -> &'static [(&'static str, &'static str)] {
        &[("marian", "Marian")]
    }

    fn tuning(&self, file: ConfigFile) -> Result<Tuning, CountError> {
        for key in ["encoder_layerdrop", "decoder_layerdrop"] {
            if file.number(key, 0.0)? != 0.0 {
                return Err(wrong(key, &file.0[key], "0 for training: every layer is part of every step"));
            }
        }
        Ok(Tuning {
            dropout: file.number("dropout", 0.1)?,
            embedding_dropout: None,
            attention_dropout: file.number("attention_dropout", 0.0)?,
            inner_dropout: Some(file.number("activation_dropout", 0.0)?),
            head_dropout: None,
            adapted: &["q_proj", "v_proj"],
            fixed: &["output.bias"],
        })
    }

    fn describe(&self, file: ConfigFile) -> Result<Description, CountError> {
        let sizes = Sizes::of(file.size("max_position_embeddings", 1024)?);
        let config = TransformerConfig { position: Position::Sinusoidal, ..transformer(file)? };
        Ok(Description { sizes, ..Description::new(Architecture::EncoderDecoder(config)) })
    }

    fn check(&self, file: ConfigFile) -> Result<(), CountError> {
        if file.head()? != HeadKind::Translation {
            return no_head(file, "MarianMTModel");
        }
        let fixed: &[(&str, &[&str])] = &[
            ("add_bias_logits", &["false"]),
            ("add_final_layer_norm", &["false"]),
            ("normalize_before", &["false"]),
            ("normalize_embedding", &["false"]),
            ("static_position_embeddings", &["true"]),
            ("tie_word_embeddings", &["true"]),
        ];
        file.check_settings(READ, fixed)
    }

    fn plan(&self, file: ConfigFile, table: &mut Builder) -> Result<NetworkConfig, CountError> {
        let positions = file.positive("max_position_embeddings", 1024)?;
        // The table is computed, so no stored tensor limits it.
        if positions > MOST_POSITIONS {
            let expected = format!("at most {MOST_POSITIONS}");
            return Err(wrong("max_position_embeddings", &file.0["max_position_embeddings"], &expected));
        }
        let config = TransformerConfig {
            position: learned(positions, 0),
            output_weights: OutputWeights::Embedding,
            output_bias: Bias::Learned,
            ..transformer(file)?
        };
        let d_model = config.d_model;
        let computed = |table: &mut Builder, ours: &str| {
            table.computed(format!("{ours}.position.Learned.weight"), move || sinusoids(positions, d_model));
        };
        computed(table, "source_embedding");
        let embedded = |side: &str| format!("model.{side}.embed_tokens.weight");
        match config.target_vocab {
            None => {
                let shared = "model.shared.weight";
                table.same("source_embedding.tokens.weight", shared, &[config.vocab, d_model]);
                for name in [embedded("encoder"), embedded("decoder"), "lm_head.weight".to_string()] {
                    table.tied(name, shared);
                }
            }
            Some(vocab) => {
                computed(table, "target_embedding");
                table.same("source_embedding.tokens.weight", embedded("encoder"), &[config.vocab, d_model]);
                table.same("target_embedding.tokens.weight", embedded("decoder"), &[vocab, d_model]);
                table.tied("lm_head.weight", embedded("decoder"));
            }
        }
        for layer in 0..config.n_layers {
            let theirs = format!("model.encoder.layers.{layer}");
            block(table, &format!("encoder.layers.{layer}"), &theirs, &NAMES, &config);
        }
        for layer in 0..config.n_decoder_layers.unwrap_or(config.n_layers) {
            let (ours, theirs) = (format!("decoder.{layer}"), format!("model.decoder.layers.{layer}"));
            block(table, &ours, &theirs, &NAMES, &config);
            cross(table, &ours, &theirs, &CROSS, &config);
        }
        let vocab = config.target_vocab.unwrap_or(config.vocab);
        table.same("output.bias", "final_logits_bias", &[1, vocab]);
        table.unused(|name| name.ends_with("embed_positions.weight"));
        Ok(NetworkConfig::Translation(config))
    }
}
