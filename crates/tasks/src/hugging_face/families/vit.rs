//! Vision Transformer (Dosovitskiy 2021).

use regard_inspect::count::{Architecture, CountError, Description, Extra, ExtraKind, Input, Rows, Sizes};
use regard_nn::layers::block::NormPlace;
use regard_nn::layers::linear::Bias;
use regard_nn::layers::position::Position;
use regard_nn::models::headed::{HeadConfig, HeadInput};
use regard_nn::models::transformer::TransformerConfig;

use super::{BlockNames, Family, Tuning, block, learned, no_head, norm, plain, prefix};
use crate::hugging_face::config::{ConfigFile, HeadKind, wrong};
use crate::hugging_face::network::NetworkConfig;
use crate::hugging_face::table::Builder;

pub(super) struct Vit;

const READ: &[&str] = &[
    "encoder_stride",
    "hidden_act",
    "hidden_size",
    "image_size",
    "intermediate_size",
    "layer_norm_eps",
    "num_attention_heads",
    "num_channels",
    "num_hidden_layers",
    "patch_size",
    "pooler_act",
    "qkv_bias",
];

const NAMES: BlockNames = BlockNames {
    query: "attention.attention.query",
    key: "attention.attention.key",
    value: "attention.attention.value",
    output: "attention.output.dense",
    attention_norm: "layernorm_before",
    gate: "",
    up: "intermediate.dense",
    down: "output.dense",
    feed_forward_norm: "layernorm_after",
};

/// The sizes of images and patches.
struct Sizing {
    channels: usize,
    image: usize,
    patch: usize,
}

impl Sizing {
    fn read(file: ConfigFile) -> Result<Self, CountError> {
        let (image, patch) = (file.positive("image_size", 224)?, file.size("patch_size", 16)?);
        if patch == 0 || image < patch {
            return Err(CountError::field("patch_size", format!("{patch} found, expected 1 to image_size, {image}")));
        }
        Ok(Self { channels: file.positive("num_channels", 3)?, image, patch })
    }

    fn tokens(&self) -> usize {
        let side = self.image / self.patch;
        side.saturating_mul(side).saturating_add(1)
    }
}

fn transformer(file: ConfigFile) -> Result<(TransformerConfig, Sizing), CountError> {
    let sizing = Sizing::read(file)?;
    let bias = if file.flag("qkv_bias", true)? { Bias::Learned } else { Bias::None };
    let config = TransformerConfig {
        vocab: 1,
        n_layers: file.positive("num_hidden_layers", 12)?,
        d_model: file.positive("hidden_size", 768)?,
        n_heads: file.positive("num_attention_heads", 12)?,
        d_ff: file.positive("intermediate_size", 3072)?,
        activation: file.activation("hidden_act", "gelu")?,
        epsilon: file.number("layer_norm_eps", 1e-12)?,
        norm_place: NormPlace::Pre,
        qkv_bias: Some(bias),
        position: learned(sizing.tokens(), 0),
        dropout: 0.0,
        ..plain()
    };
    Ok((config, sizing))
}

impl Family for Vit {
    fn types(&self) -> &'static [(&'static str, &'static str)] {
        &[("vit", "ViT")]
    }

    fn tuning(&self, file: ConfigFile) -> Result<Tuning, CountError> {
        Ok(Tuning {
            dropout: file.number("hidden_dropout_prob", 0.0)?,
            embedding_dropout: None,
            attention_dropout: file.number("attention_probs_dropout_prob", 0.0)?,
            inner_dropout: Some(0.0),
            head_dropout: Some(0.0),
            adapted: &["query", "value"],
            fixed: &[],
        })
    }

    fn describe(&self, file: ConfigFile) -> Result<Description, CountError> {
        let (config, sizing) = transformer(file)?;
        let d_model = config.d_model;
        let pixels = sizing.channels.saturating_mul(sizing.patch).saturating_mul(sizing.patch);
        let head = match file.head()? {
            HeadKind::Whole => Extra::linear("classifier", d_model, file.labels()?, Rows::Sequences),
            _ => Extra::linear("pooler", d_model, d_model, Rows::Sequences),
        };
        let bias = Bias::Learned;
        let patches = ExtraKind::Linear { d_in: pixels, d_out: d_model, bias, rows: Rows::TokensButFirst };
        let patches = Extra { name: "patches".into(), part: patches };
        let extra = vec![Extra::table("class_token", 1, d_model), patches, head];
        let architecture = Architecture::Encoder(config);
        Ok(Description { architecture, input: Input::Features, extra, sizes: Sizes::of(sizing.tokens()) })
    }

    fn check(&self, file: ConfigFile) -> Result<(), CountError> {
        let sizing = Sizing::read(file)?;
        if !sizing.image.is_multiple_of(sizing.patch) {
            return Err(wrong("image_size", &file.0["image_size"], &format!("a multiple of {}", sizing.patch)));
        }
        let d_model = file.positive("hidden_size", 768)?.to_string();
        file.check_settings(READ, &[("pooler_output_size", &[d_model.as_str()])])
    }

    fn plan(&self, file: ConfigFile, table: &mut Builder) -> Result<NetworkConfig, CountError> {
        let (config, Sizing { channels, image: size, patch }) = transformer(file)?;
        let d_model = config.d_model;
        let prefix = prefix(table, ["vit.", ""], "embeddings.cls_token");
        let name = |name: &str| format!("{prefix}{name}");
        let patches = name("embeddings.patch_embeddings.projection");
        table.transposed("vision.embedding.weight", format!("{patches}.weight"), &[d_model, channels, patch, patch]);
        table.same("vision.embedding.bias", format!("{patches}.bias"), &[d_model]);
        table.same("vision.class_token", name("embeddings.cls_token"), &[1, 1, d_model]);
        if let Position::Learned(learned) = config.position {
            let shape = [1, learned.max_length, d_model];
            table.same("vision.position.Learned.weight", name("embeddings.position_embeddings"), &shape);
        }
        for layer in 0..config.n_layers {
            let theirs = name(&format!("encoder.layer.{layer}"));
            block(table, &format!("vision.stack.layers.{layer}"), &theirs, &NAMES, &config);
        }
        norm(table, "vision.stack.norm", &name("layernorm"), &config);
        let pooler = name("pooler.dense");
        let head = match file.head()? {
            HeadKind::Whole => {
                table.unused(|name| name.starts_with(&pooler));
                let labels = file.labels()?;
                table.linear("head.output", "classifier", [d_model, labels], Bias::Learned);
                HeadConfig { outputs: Some(labels), ..HeadConfig::new(HeadInput::First) }
            }
            HeadKind::Bare => {
                let hidden = file.activation("pooler_act", "tanh")?;
                let hidden = table.has(&format!("{pooler}.weight")).then_some(hidden);
                if hidden.is_some() {
                    table.linear("head.hidden", &pooler, [d_model, d_model], Bias::Learned);
                }
                HeadConfig { hidden, ..HeadConfig::new(HeadInput::First) }
            }
            _ => return no_head(file, "ViTModel or ViTForImageClassification"),
        };
        Ok(NetworkConfig::Image { config, head, channels, size, patch })
    }
}
