//! DistilBERT (Sanh 2019): BERT without token types and without a pooler. There is no dropout of the output of attention.

use regard_inspect::count::{Architecture, CountError, Description, Extra, Rows, Sizes};
use regard_nn::layers::linear::Bias;
use regard_nn::models::headed::{HeadConfig, HeadInput};
use regard_nn::models::transformer::{EmbeddingNorm, TransformerConfig};
use regard_ops::Activation;

use super::bert::{HEADS, positions, tokens, whole};
use super::{BlockNames, Family, Tuning, block, learned, no_head, norm, plain, prefix};
use crate::hugging_face::config::{ConfigFile, HeadKind, wrong};
use crate::hugging_face::network::NetworkConfig;
use crate::hugging_face::table::Builder;

pub(super) struct DistilBert;

const READ: &[&str] = &[
    "activation",
    "dim",
    "hidden_dim",
    "max_position_embeddings",
    "n_heads",
    "n_layers",
    "sinusoidal_pos_embds",
    "vocab_size",
];

const NAMES: BlockNames = BlockNames {
    query: "attention.q_lin",
    key: "attention.k_lin",
    value: "attention.v_lin",
    output: "attention.out_lin",
    attention_norm: "sa_layer_norm",
    gate: "",
    up: "ffn.lin1",
    down: "ffn.lin2",
    feed_forward_norm: "output_layer_norm",
};

fn transformer(file: ConfigFile) -> Result<TransformerConfig, CountError> {
    Ok(TransformerConfig {
        vocab: file.positive("vocab_size", 30_522)?,
        n_layers: file.positive("n_layers", 6)?,
        d_model: file.positive("dim", 768)?,
        n_heads: file.positive("n_heads", 12)?,
        d_ff: file.positive("hidden_dim", 3072)?,
        activation: file.activation("activation", "gelu")?,
        epsilon: 1e-12,
        // The table is stored also if it holds sinusoids.
        position: learned(file.positive("max_position_embeddings", 512)?, 0),
        attention_output_dropout: Some(0.0),
        embedding_norm: EmbeddingNorm::Norm,
        ..plain()
    })
}

impl Family for DistilBert {
    fn types(&self) -> &'static [(&'static str, &'static str)] {
        &[("distilbert", "DistilBert")]
    }

    fn tuning(&self, file: ConfigFile) -> Result<Tuning, CountError> {
        let head_dropout = match file.head()? {
            HeadKind::Whole => Some(file.number("seq_classif_dropout", 0.2)?),
            _ => None,
        };
        // transformers trains a table of sinusoids no further.
        let fixed: &[&str] = match file.flag("sinusoidal_pos_embds", false)? {
            true => &["encoder.embedding.position.Learned.weight"],
            false => &[],
        };
        Ok(Tuning {
            dropout: file.number("dropout", 0.1)?,
            embedding_dropout: None,
            attention_dropout: file.number("attention_dropout", 0.1)?,
            inner_dropout: Some(0.0),
            head_dropout,
            adapted: &["q_lin", "v_lin"],
            fixed,
        })
    }

    fn describe(&self, file: ConfigFile) -> Result<Description, CountError> {
        let config = transformer(file)?;
        let d_model = config.d_model;
        let extra = match file.head()? {
            HeadKind::Whole => vec![
                Extra::linear("pre_classifier", d_model, d_model, Rows::Sequences),
                Extra::linear("classifier", d_model, file.labels()?, Rows::Sequences),
            ],
            HeadKind::Tokens => vec![Extra::linear("classifier", d_model, file.labels()?, Rows::Tokens)],
            HeadKind::Words => vec![
                Extra::linear("transform", d_model, d_model, Rows::Tokens),
                Extra::norm("transform_norm", d_model),
                Extra::table("output_bias", 1, config.vocab),
            ],
            HeadKind::Bare | HeadKind::Next | HeadKind::Translation => Vec::new(),
        };
        let sizes = Sizes::of(file.size("max_position_embeddings", 512)?);
        Ok(Description { extra, sizes, ..Description::new(Architecture::Encoder(config)) })
    }

    fn check(&self, file: ConfigFile) -> Result<(), CountError> {
        if file.head()? == HeadKind::Words && file.activation("activation", "gelu")? != Activation::Gelu {
            return Err(wrong("activation", &file.0["activation"], "gelu in a masked language model"));
        }
        file.check_settings(READ, &[("tie_weights_", &["true"])])
    }

    fn plan(&self, file: ConfigFile, table: &mut Builder) -> Result<NetworkConfig, CountError> {
        let config = transformer(file)?;
        let (d_model, ours) = (config.d_model, "encoder.embedding");
        let prefix = prefix(table, ["distilbert.", ""], "embeddings.word_embeddings.weight");
        let words = format!("{prefix}embeddings.word_embeddings.weight");
        table.same(format!("{ours}.tokens.weight"), words.as_str(), &[config.vocab, d_model]);
        let theirs = format!("{prefix}embeddings.position_embeddings.weight");
        positions(table, &format!("{ours}.position"), theirs, &config);
        norm(table, &format!("{ours}.norm"), &format!("{prefix}embeddings.LayerNorm"), &config);
        for layer in 0..config.n_layers {
            let theirs = format!("{prefix}transformer.layer.{layer}");
            block(table, &format!("encoder.stack.layers.{layer}"), &theirs, &NAMES, &config);
        }
        table.unused(|name| name.ends_with("embeddings.position_ids"));
        let labels = file.labels()?;
        let is_words = |name: &str| name.starts_with("vocab_");
        match file.head()? {
            HeadKind::Bare => {
                table.unused(is_words);
                Ok(NetworkConfig::Encoder(config, HeadConfig::new(HeadInput::First)))
            }
            HeadKind::Words => {
                table.linear("transform", "vocab_transform", [d_model, d_model], Bias::Learned);
                norm(table, "norm", "vocab_layer_norm", &config);
                table.same("bias", "vocab_projector.bias", &[config.vocab]);
                table.tied("vocab_projector.weight", words);
                Ok(NetworkConfig::Words(config))
            }
            HeadKind::Tokens => {
                table.linear("head.output", "classifier", [d_model, labels], Bias::Learned);
                Ok(tokens(config, labels))
            }
            HeadKind::Whole => {
                table.linear("head.hidden", "pre_classifier", [d_model, d_model], Bias::Learned);
                table.linear("head.output", "classifier", [d_model, labels], Bias::Learned);
                Ok(whole(config, Activation::Relu, labels))
            }
            HeadKind::Next | HeadKind::Translation => no_head(file, HEADS),
        }
    }
}
