//! Descriptions of published models, by name.

use regard_nn::layers::block::NormPlace;
use regard_nn::layers::feed_forward::Gate;
use regard_nn::layers::linear::Bias;
use regard_nn::layers::norm::NormKind;
use regard_nn::layers::position::Position;
use regard_nn::layers::position::learned::LearnedConfig;
use regard_nn::layers::position::rope::RopeConfig;
use regard_nn::models::transformer::{EmbeddingScale, OutputWeights, Sight, TransformerConfig};
use regard_ops::{Activation, Pairing};

use super::description::{Architecture, Description, Input, Sizes};
use super::error::CountError;
use super::extra::{Extra, Rows};

/// A published model.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// Name of the preset.
    pub name: &'static str,
    /// One-line summary.
    pub about: &'static str,
    describe: fn() -> Description,
}

impl Preset {
    /// Returns the description, with sizes for one sequence of the model's full length.
    pub fn description(&self) -> Description {
        (self.describe)()
    }
}

/// Returns the description of the preset called `name`.
pub fn preset(name: &str) -> Result<Description, CountError> {
    let found = PRESETS.iter().find(|preset| preset.name == name).map(Preset::description);
    let known = || PRESETS.iter().map(|preset| preset.name).collect();
    found.ok_or_else(|| CountError::UnknownPreset { name: name.into(), known: known() })
}

/// All presets.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "transformer-base",
        about: "Vaswani 2017, base: 37,000 shared tokens, output tied",
        describe: || translator(512, 8, 2048),
    },
    Preset {
        name: "transformer-big",
        about: "Vaswani 2017, big: 37,000 shared tokens, output tied",
        describe: || translator(1024, 16, 4096),
    },
    Preset {
        name: "worked-example",
        about: "encoder-decoder of 8 + 8 layers, d_model 1024, 4 heads of 192, two vocabularies of 30,000",
        describe: exercise,
    },
    Preset { name: "gpt2", about: "Radford 2019, 124 M", describe: || gpt2(768, 12, 12) },
    Preset { name: "gpt2-medium", about: "Radford 2019, 355 M", describe: || gpt2(1024, 24, 16) },
    Preset { name: "gpt2-large", about: "Radford 2019, 774 M", describe: || gpt2(1280, 36, 20) },
    Preset { name: "gpt2-xl", about: "Radford 2019, 1.6 G", describe: || gpt2(1600, 48, 25) },
    Preset { name: "bert-base-uncased", about: "Devlin 2019, with its pooler", describe: || bert(30_522, 768, 12, 12) },
    Preset {
        name: "bert-large-uncased",
        about: "Devlin 2019, with its pooler",
        describe: || bert(30_522, 1024, 24, 16),
    },
    Preset { name: "distilbert-base-uncased", about: "Sanh 2019", describe: distilbert },
    Preset { name: "minilm-l6", about: "all-MiniLM-L6-v2, with its pooler", describe: || bert(30_522, 384, 6, 12) },
    Preset { name: "t5-small", about: "Raffel 2020, 6 + 6 layers", describe: t5_small },
    Preset { name: "llama-2-7b", about: "Touvron 2023", describe: || llama_2(4096, 32, 32, 32, 11_008, 4096) },
    Preset { name: "llama-3-8b", about: "Grattafiori 2024", describe: llama_3 },
    Preset { name: "mistral-7b", about: "Jiang 2023, version 0.1 with its window of 4,096", describe: mistral },
    Preset { name: "tinyllama-1.1b", about: "Zhang 2024", describe: || llama_2(2048, 22, 32, 4, 5632, 2048) },
    Preset {
        name: "vit-base-16",
        about: "Dosovitskiy 2021, patches of 16 in images of 224, 1,000 classes",
        describe: vit_base,
    },
];

fn translator(d_model: usize, n_heads: usize, d_ff: usize) -> Description {
    let config = TransformerConfig {
        d_model,
        n_heads,
        d_ff,
        output_weights: OutputWeights::Embedding,
        output_bias: Bias::None,
        ..TransformerConfig::default()
    };
    Description::new(Architecture::EncoderDecoder(config))
}

fn exercise() -> Description {
    Description::new(Architecture::EncoderDecoder(TransformerConfig {
        vocab: 30_000,
        target_vocab: Some(30_000),
        n_layers: 8,
        d_model: 1024,
        n_heads: 4,
        d_head: Some(192),
        d_ff: 1536,
        ..TransformerConfig::default()
    }))
}

fn gpt2(d_model: usize, n_layers: usize, n_heads: usize) -> Description {
    let config = TransformerConfig {
        vocab: 50_257,
        n_layers,
        d_model,
        n_heads,
        d_ff: 4 * d_model,
        activation: Activation::GeluTanh,
        norm_place: NormPlace::Pre,
        position: learned(1024),
        embedding_scale: EmbeddingScale::None,
        output_weights: OutputWeights::Embedding,
        output_bias: Bias::None,
        ..TransformerConfig::default()
    };
    Description { sizes: Sizes::of(1024), ..Description::new(Architecture::Decoder(config)) }
}

fn bert_layers(vocab: usize, d_model: usize, n_layers: usize, n_heads: usize) -> TransformerConfig {
    TransformerConfig {
        vocab,
        n_layers,
        d_model,
        n_heads,
        d_ff: 4 * d_model,
        activation: Activation::Gelu,
        epsilon: 1e-12,
        position: learned(512),
        embedding_scale: EmbeddingScale::None,
        attention_dropout: 0.1,
        ..TransformerConfig::default()
    }
}

fn bert(vocab: usize, d_model: usize, n_layers: usize, n_heads: usize) -> Description {
    let extra = vec![
        Extra::table("token_types", 2, d_model),
        Extra::norm("embedding_norm", d_model),
        Extra::linear("pooler", d_model, d_model, Rows::Sequences),
    ];
    let config = bert_layers(vocab, d_model, n_layers, n_heads);
    Description { extra, ..Description::new(Architecture::Encoder(config)) }
}

fn distilbert() -> Description {
    let config = bert_layers(30_522, 768, 6, 12);
    let extra = vec![Extra::norm("embedding_norm", 768)];
    Description { extra, ..Description::new(Architecture::Encoder(config)) }
}

fn t5_small() -> Description {
    let config = TransformerConfig {
        vocab: 32_128,
        norm: NormKind::Rms,
        norm_place: NormPlace::Pre,
        bias: Bias::None,
        position: Position::None,
        output_weights: OutputWeights::Embedding,
        output_bias: Bias::None,
        ..TransformerConfig::default()
    };
    // One table per side for all layers, with a bias for each of 32 distance ranges and each head.
    let extra = vec![Extra::table("encoder_distances", 32, 8), Extra::table("decoder_distances", 32, 8)];
    Description { extra, ..Description::new(Architecture::EncoderDecoder(config)) }
}

fn llama(config: TransformerConfig, base: f32, seq: usize) -> Description {
    let config = TransformerConfig {
        activation: Activation::Silu,
        gate: Gate::Product,
        norm: NormKind::Rms,
        norm_place: NormPlace::Pre,
        bias: Bias::None,
        position: Position::Rope(RopeConfig { base, pairing: Pairing::Halves, ..RopeConfig::default() }),
        embedding_scale: EmbeddingScale::None,
        output_bias: Bias::None,
        dropout: 0.0,
        ..config
    };
    Description { sizes: Sizes::of(seq), ..Description::new(Architecture::Decoder(config)) }
}

fn llama_2(d_model: usize, n_layers: usize, n_heads: usize, kv_heads: usize, d_ff: usize, seq: usize) -> Description {
    let kv_heads = Some(kv_heads);
    let config =
        TransformerConfig { vocab: 32_000, n_layers, d_model, n_heads, kv_heads, d_ff, ..TransformerConfig::default() };
    llama(config, 10_000.0, seq)
}

/// Returns the configuration that Llama 3 and Mistral share.
fn eight_billion(vocab: usize) -> TransformerConfig {
    TransformerConfig {
        vocab,
        n_layers: 32,
        d_model: 4096,
        n_heads: 32,
        kv_heads: Some(8),
        d_ff: 14_336,
        ..TransformerConfig::default()
    }
}

fn llama_3() -> Description {
    llama(eight_billion(128_256), 500_000.0, 8192)
}

fn mistral() -> Description {
    let sight = Sight::Window { left: 4095, right: 0 };
    llama(TransformerConfig { sight, ..eight_billion(32_000) }, 10_000.0, 8192)
}

fn vit_base() -> Description {
    let config = TransformerConfig {
        vocab: 1,
        n_layers: 12,
        d_model: 768,
        n_heads: 12,
        d_ff: 3072,
        activation: Activation::Gelu,
        epsilon: 1e-12,
        norm_place: NormPlace::Pre,
        position: learned(197),
        embedding_scale: EmbeddingScale::None,
        dropout: 0.0,
        ..TransformerConfig::default()
    };
    let extra = vec![
        Extra::table("class_token", 1, 768),
        Extra::linear("patches", 3 * 16 * 16, 768, Rows::TokensButFirst),
        Extra::linear("classifier", 768, 1000, Rows::Sequences),
    ];
    let (architecture, sizes) = (Architecture::Encoder(config), Sizes::of(197));
    Description { architecture, input: Input::Features, extra, sizes }
}

/// Returns learned positions for at most `max_length` tokens.
fn learned(max_length: usize) -> Position {
    Position::Learned(LearnedConfig { max_length, ..LearnedConfig::default() })
}
