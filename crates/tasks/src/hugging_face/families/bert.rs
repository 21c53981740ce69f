//! BERT (Devlin 2019), also as sentence encoders such as MiniLM.

use regard_inspect::count::{Architecture, CountError, Description, Extra, Rows, Sizes};
use regard_nn::layers::linear::Bias;
use regard_nn::models::headed::{HeadConfig, HeadInput};
use regard_nn::models::transformer::{EmbeddingNorm, TransformerConfig};
use regard_ops::Activation;

use super::{BlockNames, Family, Tuning, block, learned, no_head, norm, plain, prefix};
use crate::hugging_face::config::{ConfigFile, HeadKind, wrong};
use crate::hugging_face::network::NetworkConfig;
use crate::hugging_face::table::Builder;

pub(super) struct Bert;

pub(super) const READ: &[&str] = &[
    "hidden_act",
    "hidden_size",
    "intermediate_size",
    "layer_norm_eps",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "type_vocab_size",
    "vocab_size",
    // Sizes of a pooler that no class of transformers uses.
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
];

const NAMES: BlockNames = BlockNames {
    query: "attention.self.query",
    key: "attention.self.key",
    value: "attention.self.value",
    output: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    gate: "",
    up: "intermediate.dense",
    down: "output.dense",
    feed_forward_norm: "output.LayerNorm",
};

impl Family for Bert {
    fn types(&self) -> &'static [(&'static str, &'static str)] {
        &[("bert", "Bert")]
    }

    fn tuning(&self, file: ConfigFile) -> Result<Tuning, CountError> {
        tuning(file)
    }

    fn describe(&self, file: ConfigFile) -> Result<Description, CountError> {
        describe(file, transformer(file, 0)?)
    }

    fn check(&self, file: ConfigFile) -> Result<(), CountError> {
        check_words(file)?;
        file.check_settings(READ, &[])
    }

    fn plan(&self, file: ConfigFile, table: &mut Builder) -> Result<NetworkConfig, CountError> {
        let config = transformer(file, 0)?;
        let prefix = prefix(table, ["bert.", ""], "embeddings.word_embeddings.weight");
        encoder(table, prefix, &config);
        let d_model = config.d_model;
        let pooler = format!("{prefix}pooler.dense");
        match file.head()? {
            HeadKind::Bare => {
                table.unused(|name| name.starts_with("cls."));
                Ok(bare(table, config, &pooler))
            }
            HeadKind::Words => {
                table.unused(|name| name.starts_with("cls.seq_relationship.") || name.starts_with(&pooler));
                let words = format!("{prefix}embeddings.word_embeddings.weight");
                table.linear("transform", "cls.predictions.transform.dense", [d_model, d_model], Bias::Learned);
                norm(table, "norm", "cls.predictions.transform.LayerNorm", &config);
                table.same("bias", "cls.predictions.bias", &[config.vocab]);
                table.tied("cls.predictions.decoder.weight", words);
                table.tied("cls.predictions.decoder.bias", "cls.predictions.bias");
                Ok(NetworkConfig::Words(config))
            }
            HeadKind::Tokens => {
                table.unused(|name| name.starts_with(&pooler));
                let labels = file.labels()?;
                table.linear("head.output", "classifier", [d_model, labels], Bias::Learned);
                Ok(tokens(config, labels))
            }
            HeadKind::Whole => {
                let labels = file.labels()?;
                table.linear("head.hidden", &pooler, [d_model, d_model], Bias::Learned);
                table.linear("head.output", "classifier", [d_model, labels], Bias::Learned);
                Ok(whole(config, Activation::Tanh, labels))
            }
            HeadKind::Next | HeadKind::Translation => no_head(file, HEADS),
        }
    }
}

/// Reads the settings of training of BERT and its relatives.
pub(super) fn tuning(file: ConfigFile) -> Result<Tuning, CountError> {
    Ok(Tuning {
        dropout: file.number("hidden_dropout_prob", 0.1)?,
        embedding_dropout: None,
        attention_dropout: file.number("attention_probs_dropout_prob", 0.1)?,
        inner_dropout: Some(0.0),
        head_dropout: file.optional_number("classifier_dropout")?,
        adapted: &["query", "value"],
        fixed: &[],
    })
}

/// The heads of BERT and its relatives.
pub(super) const HEADS: &str = "…Model, …ForMaskedLM, …ForTokenClassification or …ForSequenceClassification";

/// Reads the configuration of the encoder; `first` is the row of the first position.
pub(super) fn transformer(file: ConfigFile, first: usize) -> Result<TransformerConfig, CountError> {
    Ok(TransformerConfig {
        vocab: file.positive("vocab_size", 30_522)?,
        n_layers: file.positive("num_hidden_layers", 12)?,
        d_model: file.positive("hidden_size", 768)?,
        n_heads: file.positive("num_attention_heads", 12)?,
        d_ff: file.positive("intermediate_size", 3072)?,
        activation: file.activation("hidden_act", "gelu")?,
        epsilon: file.number("layer_norm_eps", 1e-12)?,
        position: learned(file.positive("max_position_embeddings", 512)?, first),
        token_types: file.size("type_vocab_size", 2)?,
        embedding_norm: EmbeddingNorm::Norm,
        ..plain()
    })
}

/// Describes an encoder with its head.
pub(super) fn describe(file: ConfigFile, config: TransformerConfig) -> Result<Description, CountError> {
    let (d_model, max_length) = (config.d_model, file.size("max_position_embeddings", 512)?);
    let pooler = || Extra::linear("pooler", d_model, d_model, Rows::Sequences);
    let extra = match file.head()? {
        HeadKind::Tokens => vec![Extra::linear("classifier", d_model, file.labels()?, Rows::Tokens)],
        HeadKind::Whole => {
            vec![pooler(), Extra::linear("classifier", d_model, file.labels()?, Rows::Sequences)]
        }
        HeadKind::Words => vec![
            Extra::linear("transform", d_model, d_model, Rows::Tokens),
            Extra::norm("transform_norm", d_model),
            Extra::table("output_bias", 1, config.vocab),
        ],
        HeadKind::Bare | HeadKind::Next | HeadKind::Translation => vec![pooler()],
    };
    Ok(Description { extra, sizes: Sizes::of(max_length), ..Description::new(Architecture::Encoder(config)) })
}

/// Returns an error if the head over words is not the published one: with the embedding's weights, and GELU.
pub(super) fn check_words(file: ConfigFile) -> Result<(), CountError> {
    if file.head()? != HeadKind::Words {
        return Ok(());
    }
    if !file.flag("tie_word_embeddings", true)? {
        return Err(wrong("tie_word_embeddings", &file.0["tie_word_embeddings"], "true in a masked language model"));
    }
    match file.activation("hidden_act", "gelu")? {
        Activation::Gelu => Ok(()),
        _ => Err(wrong("hidden_act", &file.0["hidden_act"], "gelu in a masked language model")),
    }
}

/// Adds the embedding and the blocks of an encoder.
pub(super) fn encoder(table: &mut Builder, prefix: &str, config: &TransformerConfig) {
    let (d_model, ours) = (config.d_model, "encoder.embedding");
    let name = |name: &str| format!("{prefix}embeddings.{name}");
    table.same(format!("{ours}.tokens.weight"), name("word_embeddings.weight"), &[config.vocab, d_model]);
    if config.token_types > 0 {
        let shape = [config.token_types, d_model];
        table.same(format!("{ours}.types.weight"), name("token_type_embeddings.weight"), &shape);
    }
    positions(table, &format!("{ours}.position"), name("position_embeddings.weight"), config);
    norm(table, &format!("{ours}.norm"), &name("LayerNorm"), config);
    for layer in 0..config.n_layers {
        let ours = format!("encoder.stack.layers.{layer}");
        block(table, &ours, &format!("{prefix}encoder.layer.{layer}"), &NAMES, config);
    }
    table.unused(|name| name.ends_with("embeddings.position_ids") || name.ends_with("embeddings.token_type_ids"));
}

/// Adds a table of learned positions.
pub(super) fn positions(table: &mut Builder, ours: &str, theirs: String, config: &TransformerConfig) {
    if let regard_nn::layers::position::Position::Learned(learned) = config.position {
        table.same(format!("{ours}.Learned.weight"), theirs, &[learned.max_length, config.d_model]);
    }
}

/// Returns a bare encoder, with its pooler if the checkpoint has one.
pub(super) fn bare(table: &mut Builder, config: TransformerConfig, pooler: &str) -> NetworkConfig {
    let has_pooler = table.has(&format!("{pooler}.weight"));
    if has_pooler {
        table.linear("head.hidden", pooler, [config.d_model, config.d_model], Bias::Learned);
    }
    let hidden = has_pooler.then_some(Activation::Tanh);
    NetworkConfig::Encoder(config, HeadConfig { hidden, ..HeadConfig::new(HeadInput::First) })
}

/// Returns a classifier of tokens.
pub(super) fn tokens(config: TransformerConfig, labels: usize) -> NetworkConfig {
    let head = HeadConfig { outputs: Some(labels), ..HeadConfig::new(HeadInput::Every) };
    NetworkConfig::Encoder(config, head)
}

/// Returns a classifier of texts with a hidden layer.
pub(super) fn whole(config: TransformerConfig, hidden: Activation, labels: usize) -> NetworkConfig {
    let head = HeadConfig { hidden: Some(hidden), outputs: Some(labels), ..HeadConfig::new(HeadInput::First) };
    NetworkConfig::Encoder(config, head)
}
