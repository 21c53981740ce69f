//! RoBERTa (Liu 2019) and its relatives in other languages: BERT with positions that begin after the row of padding.

use regard_inspect::count::{CountError, Description};
use regard_nn::layers::linear::Bias;
use regard_nn::models::headed::{HeadConfig, HeadDropout, HeadInput};
use regard_ops::Activation;

use super::bert::{self, READ, bare, check_words, encoder, tokens, transformer};
use super::{Family, Tuning, no_head, norm, prefix};
use crate::hugging_face::config::{ConfigFile, HeadKind};
use crate::hugging_face::network::NetworkConfig;
use crate::hugging_face::table::Builder;

pub(super) struct Roberta;

/// Reads the row of the first position, which follows that of the padding token.
fn first_position(file: ConfigFile) -> Result<usize, CountError> {
    Ok(file.size("pad_token_id", 1)?.saturating_add(1))
}

impl Family for Roberta {
    fn types(&self) -> &'static [(&'static str, &'static str)] {
        &[("roberta", "Roberta"), ("xlm-roberta", "XLMRoberta"), ("camembert", "Camembert")]
    }

    fn tuning(&self, file: ConfigFile) -> Result<Tuning, CountError> {
        bert::tuning(file)
    }

    fn describe(&self, file: ConfigFile) -> Result<Description, CountError> {
        bert::describe(file, transformer(file, first_position(file)?)?)
    }

    fn check(&self, file: ConfigFile) -> Result<(), CountError> {
        check_words(file)?;
        file.check_settings(READ, &[])
    }

    fn plan(&self, file: ConfigFile, table: &mut Builder) -> Result<NetworkConfig, CountError> {
        let config = transformer(file, first_position(file)?)?;
        let prefix = prefix(table, ["roberta.", ""], "embeddings.word_embeddings.weight");
        encoder(table, prefix, &config);
        let d_model = config.d_model;
        let pooler = format!("{prefix}pooler.dense");
        match file.head()? {
            HeadKind::Bare => {
                table.unused(|name| name.starts_with("lm_head."));
                Ok(bare(table, config, &pooler))
            }
            HeadKind::Words => {
                table.unused(|name| name.starts_with(&pooler));
                table.linear("transform", "lm_head.dense", [d_model, d_model], Bias::Learned);
                norm(table, "norm", "lm_head.layer_norm", &config);
                table.same("bias", "lm_head.bias", &[config.vocab]);
                table.tied("lm_head.decoder.weight", format!("{prefix}embeddings.word_embeddings.weight"));
                table.tied("lm_head.decoder.bias", "lm_head.bias");
                Ok(NetworkConfig::Words(config))
            }
            HeadKind::Tokens => {
                table.unused(|name| name.starts_with(&pooler));
                let labels = file.labels()?;
                table.linear("head.output", "classifier", [d_model, labels], Bias::Learned);
                Ok(tokens(config, labels))
            }
            HeadKind::Whole => {
                table.unused(|name| name.starts_with(&pooler));
                let labels = file.labels()?;
                table.linear("head.hidden", "classifier.dense", [d_model, d_model], Bias::Learned);
                table.linear("head.output", "classifier.out_proj", [d_model, labels], Bias::Learned);
                let head = HeadConfig {
                    hidden: Some(Activation::Tanh),
                    outputs: Some(labels),
                    dropout_at: HeadDropout::Both,
                    ..HeadConfig::new(HeadInput::First)
                };
                Ok(NetworkConfig::Encoder(config, head))
            }
            HeadKind::Next | HeadKind::Translation => no_head(file, bert::HEADS),
        }
    }
}
