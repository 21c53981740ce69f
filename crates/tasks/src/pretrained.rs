//! Starting from a pre-trained encoder (row E3): `model.from` names a folder of `pretrain`, whose tokeniser, sizes and
//! encoder a new model takes over.

use std::path::Path;

use regard_data::Tokenizer;
use regard_nn::ConfigError;
use regard_nn::models::encoder::Encoder;

use crate::error::TaskError;
use crate::folder::{CONFIG, Description, Folder, MODEL};
use crate::model::{ModelConfig, ModelKind};
use crate::weights;

const TASK: &str = "pretrain";
const TOKENIZER: &str = "tokenizer.json";
const PREFIX: &str = "encoder.";

/// What a new model takes over before it is built: the tokeniser, and `model` with the sizes of the encoder. What says how
/// it is trained, such as dropout, stays as it is in `model`.
pub(crate) fn start(path: &Path, model: &ModelConfig) -> Result<(Tokenizer, ModelConfig), TaskError> {
    let (folder, description) = open(path)?;
    let tokenizer = Tokenizer::from_json(&folder.read(&description, TOKENIZER)?, &folder.file(TOKENIZER))?;
    let theirs: ModelConfig = serde_path_to_error::deserialize(&description.config["model"]).map_err(|error| {
        TaskError::folder(folder.file(CONFIG), format!("config.model.{}: {}", error.path(), error.inner()))
    })?;
    let ours = model.clone();
    let merged = ModelConfig {
        from: Some(path.canonicalize().map_err(TaskError::io(path))?),
        dropout: ours.dropout,
        attention_dropout: ours.attention_dropout,
        word_dropout: ours.word_dropout,
        pooling: ours.pooling,
        ..theirs
    };
    Ok((tokenizer, merged))
}

/// The encoder of a new model with the weights of the one in the folder.
pub(crate) fn warm(path: &Path, encoder: Encoder) -> Result<Encoder, TaskError> {
    let (folder, description) = open(path)?;
    let file = folder.file(MODEL);
    let tensors = weights::from_bytes(&folder.read(&description, MODEL)?, &file)?;
    let tensors =
        tensors.into_iter().filter_map(|(name, tensor)| Some((name.strip_prefix(PREFIX)?.to_string(), tensor)));
    weights::load(encoder, tensors.collect(), &file)
}

/// Refuses a network that has no encoder to start from.
pub(crate) fn validate(model: &ModelConfig) -> Result<(), ConfigError> {
    match (&model.from, model.kind) {
        (Some(path), kind) if kind != ModelKind::Transformer => {
            let expected = "nothing, or model.kind=transformer: only an encoder can be taken over";
            Err(ConfigError::new("model.from", path.display(), expected))
        }
        _ => Ok(()),
    }
}

fn open(path: &Path) -> Result<(Folder, Description), TaskError> {
    let (folder, description) = Folder::open(path)?;
    match description.task.as_str() {
        TASK => Ok((folder, description)),
        other => Err(TaskError::folder(path, format!("model.from needs a model of {TASK}, this is one of {other}"))),
    }
}
