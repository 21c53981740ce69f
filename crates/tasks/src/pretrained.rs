//! Starting from a pre-trained encoder: `model.from` names a model folder of `pretrain`, and the new model takes over its
//! tokeniser, sizes and encoder weights.

use std::path::Path;

use burn::module::Module;
use regard_data::Tokenizer;
use regard_nn::ConfigError;
use regard_nn::models::encoder::Encoder;

use crate::classify::EncoderKeys;
use crate::error::TaskError;
use crate::extended::Extended;
use crate::folder::{CONFIG, Description, Files, Folder, MODEL};
use crate::model::TransformerKeys;
use crate::pretrain::ModelConfig;
use crate::weights;

const TASK: &str = "pretrain";
const PREFIX: &str = "encoder.";

/// Reads the tokeniser and the configuration of a pre-trained encoder.
pub(crate) fn described(path: &Path) -> Result<(Tokenizer, ModelConfig), TaskError> {
    let (folder, description) = open(path)?;
    let tokenizer = Files { folder: &folder, description: &description }.tokenizer()?;
    let model = serde_path_to_error::deserialize(&description.config["model"]).map_err(|error| {
        TaskError::folder(folder.file(CONFIG), format!("config.model.{}: {}", error.path(), error.inner()))
    })?;
    Ok((tokenizer, model))
}

/// Returns what a new model takes over before it is built: the tokeniser, and `ours` with the sizes of the encoder. Settings of
/// training, such as dropout, stay as they are in `ours`.
pub(crate) fn start(
    path: &Path,
    ours: &Extended<TransformerKeys, EncoderKeys>,
) -> Result<(Tokenizer, Extended<TransformerKeys, EncoderKeys>), TaskError> {
    let (tokenizer, ModelConfig::Transformer(theirs)) = described(path)?;
    let base =
        TransformerKeys { dropout: ours.base.dropout, attention_dropout: ours.base.attention_dropout, ..theirs.base };
    let more = EncoderKeys {
        from: Some(path.canonicalize().map_err(TaskError::io(path))?),
        embedding_scale: theirs.more.embedding_scale,
        embedding_norm: theirs.more.embedding_norm,
        ..ours.more.clone()
    };
    Ok((tokenizer, Extended { base, more }))
}

/// Loads the weights of the encoder in a folder into the encoder of a new model.
pub(crate) fn warm(path: &Path, encoder: Encoder) -> Result<Encoder, TaskError> {
    let (folder, description) = open(path)?;
    let file = folder.file(MODEL);
    let tensors = weights::from_bytes(&folder.read(&description, MODEL)?, &file)?;
    let tensors =
        tensors.into_iter().filter_map(|(name, tensor)| Some((name.strip_prefix(PREFIX)?.to_string(), tensor)));
    weights::load(encoder, tensors.collect(), &file)
}

/// Excludes the encoder from training if `freeze` is set.
pub(crate) fn tracked(encoder: Encoder, freeze: bool) -> Encoder {
    if freeze { encoder.no_grad() } else { encoder }
}

/// Returns an error if `freeze` or `encoder_rate` is set without a pre-trained encoder, or if the rate is no factor.
pub(crate) fn check_keys(freeze: bool, encoder_rate: Option<f32>, from: Option<&Path>) -> Result<(), ConfigError> {
    match (freeze, encoder_rate, from) {
        (true, _, None) => Err(ConfigError::new("freeze", true, "false unless model.from names a pre-trained model")),
        (_, Some(rate), None) => {
            Err(ConfigError::new("encoder_rate", rate, "none unless model.from names a pre-trained model"))
        }
        (_, Some(rate), Some(_)) if !(rate > 0.0 && rate <= 1.0) => {
            Err(ConfigError::new("encoder_rate", rate, "above 0 and at most 1"))
        }
        _ => Ok(()),
    }
}

/// Returns the factor on the learning rate of a parameter of a model whose pre-trained encoder has the factor `encoder_rate`.
pub(crate) fn rate(path: &str, encoder_rate: f32) -> f32 {
    if path.starts_with(PREFIX) { encoder_rate } else { 1.0 }
}

fn open(path: &Path) -> Result<(Folder, Description), TaskError> {
    let (folder, description) = Folder::open(path)?;
    match description.task.as_str() {
        TASK => Ok((folder, description)),
        other => Err(TaskError::folder(path, format!("model.from needs a model of {TASK}, not of {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use regard_data::{Case, TokenizerConfig, TokenizerKind};
    use regard_nn::Init;
    use regard_nn::models::masked_language_model::MaskedLanguageModel;

    use super::*;
    use crate::folder::tokenizer_file;

    /// Writes a folder as `pretrain` does and returns the parameters of its encoder.
    fn folder(path: &Path, task: &str) -> weights::Tensors {
        let base = TransformerKeys { d_model: 8, n_layers: 1, n_heads: 2, d_ff: 16, ..TransformerKeys::default() };
        let model = ModelConfig::Transformer(Extended { base, ..Extended::default() });
        let tokenizer = TokenizerConfig { kind: TokenizerKind::Word, vocab: 50, case: Case::Lower, min_count: 1 };
        let tokenizer = Tokenizer::train(&tokenizer, ["one two three"].into_iter()).unwrap();
        let init = Init::new(3, &Device::flex());
        let network = MaskedLanguageModel::new(&model.transformer(tokenizer.vocab()), &init).unwrap();
        let folder = Folder::create(path).unwrap();
        let mut description = Description::new(task, serde_json::json!({ "model": model }));
        let tensors = weights::to_bytes(&weights::stored(&network));
        let files = [tokenizer_file(&tokenizer), (MODEL.to_string(), tensors)];
        folder.commit(&mut description, &files.into_iter().collect()).unwrap();
        weights::parameters(&network.encoder)
    }

    #[test]
    fn sizes_tokeniser_and_encoder_are_taken_over() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("bert");
        let theirs = folder(&path, TASK);
        let ours = Extended {
            base: TransformerKeys { dropout: 0.3, ..TransformerKeys::default() },
            more: EncoderKeys { word_dropout: 0.2, ..EncoderKeys::default() },
        };
        let (tokenizer, Extended { base: model, more }) = start(&path, &ours).unwrap();
        assert_eq!((model.d_model, model.n_layers, model.dropout, more.word_dropout), (8, 1, 0.3, 0.2));
        assert!(tokenizer.id("three").is_some());
        let device = Device::flex().autodiff();
        let encoder = |model: &TransformerKeys| {
            Encoder::new(&model.transformer(tokenizer.vocab()), &Init::new(4, &device)).unwrap()
        };
        assert_ne!(weights::parameters(&encoder(&model)), theirs);
        let warmed = warm(&path, encoder(&model)).unwrap();
        assert_eq!(weights::parameters(&warmed), theirs);
        assert!(warmed.embedding.tokens.weight.val().is_require_grad(), "it is trained on");
        let other = TransformerKeys { d_model: 16, ..model };
        let error = warm(&path, encoder(&other)).unwrap_err().to_string();
        assert!(error.contains("model.safetensors") && error.contains("expected"), "{error}");
    }

    #[test]
    fn a_model_of_another_task_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("other");
        folder(&path, "translate");
        let error = start(&path, &Extended::default()).unwrap_err().to_string();
        assert!(error.contains("pretrain") && error.contains("translate"), "{error}");
    }
}
