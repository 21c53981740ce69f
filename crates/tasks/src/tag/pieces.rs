//! A pre-trained encoder to start from: its description, its tokeniser, and the pieces of a sentence's words.

use std::ops::Range;
use std::path::Path;

use burn::module::Module;
use regard_data::{END, START, Tokenizer};
use regard_nn::models::transformer::TransformerConfig;

use crate::error::TaskError;
use crate::folder::{Folder, MODEL};
use crate::model::ModelConfig;
use crate::weights;

/// The tokeniser's file.
pub(super) const TOKENIZER: &str = "tokenizer.json";
/// The file with the encoder's description, so that a finished folder does not need the one it started from.
pub(super) const ENCODER: &str = "encoder.json";

/// Paths of the parameters that are taken over.
const PREFIX: &str = "encoder.";

/// An encoder of pieces, without its weights.
#[derive(Debug)]
pub(super) struct PieceEncoder {
    pub config: TransformerConfig,
    pub tokenizer: Tokenizer,
}

/// A sentence as the encoder reads it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pieces {
    /// With `<s>` and `</s>`.
    pub ids: Vec<u32>,
    /// As people read them.
    pub tokens: Vec<String>,
    /// Which are those of each word.
    pub words: Vec<Range<usize>>,
}

impl PieceEncoder {
    /// That of a model folder of `pretrain`.
    pub fn of(path: &Path) -> Result<Self, TaskError> {
        let (folder, description) = Folder::open(path)?;
        if description.task != "pretrain" {
            let problem = format!("its task is {}; model.from takes a folder of pretrain", description.task);
            return Err(TaskError::folder(path, problem));
        }
        let model: ModelConfig = serde_path_to_error::deserialize(&description.config["model"]).map_err(|error| {
            let problem = format!("config.model.{}: {}", error.path(), error.inner());
            TaskError::folder(folder.file(crate::folder::CONFIG), problem)
        })?;
        let tokenizer = tokenizer(&folder.read(&description, TOKENIZER)?, &folder.file(TOKENIZER))?;
        Ok(Self { config: model.transformer(tokenizer.vocab(), None), tokenizer })
    }

    /// That of a tagger's own files.
    pub fn open(encoder: &[u8], tokenizer_json: &[u8]) -> Result<Self, TaskError> {
        let config = serde_json::from_slice(encoder)
            .map_err(|error| TaskError::folder(ENCODER, format!("no description of an encoder: {error}")))?;
        Ok(Self { config, tokenizer: tokenizer(tokenizer_json, Path::new(TOKENIZER))? })
    }

    /// The pieces of a sentence.
    pub fn pieces(&self, words: &[String]) -> Pieces {
        let text = words.join(" ");
        let encoded = self.tokenizer.encode(&text);
        let special = |id| self.tokenizer.token(id).unwrap_or_default();
        let ids: Vec<u32> = [START].into_iter().chain(encoded.ids).chain([END]).collect();
        let tokens = [special(START)].into_iter().chain(encoded.tokens).chain([special(END)]).collect();
        let mut ranges = Vec::with_capacity(words.len());
        let mut begin = 0;
        for word in words {
            let end = begin + word.len();
            let touches = |&(from, to): &(usize, usize)| from < end && to > begin;
            let first = encoded.offsets.iter().position(touches);
            let count = encoded.offsets.iter().filter(|offset| touches(offset)).count();
            // One more for `<s>`. A word that a tokeniser drops altogether is read as its neighbour.
            let last = ids.len() - 1;
            ranges.push(first.map_or(0..1, |first| (first + 1)..(first + 1 + count).min(last)));
            begin = end + 1;
        }
        Pieces { ids, tokens, words: ranges }
    }
}

/// The network with the encoder's weights from a folder of `pretrain`: all of the encoder must be there and fit.
pub(super) fn warmed<M: Module>(model: M, path: &Path) -> Result<M, TaskError> {
    let (folder, description) = Folder::open(path)?;
    let file = folder.file(MODEL);
    let pretrained = weights::from_bytes(&folder.read(&description, MODEL)?, &file)?;
    let mut tensors = weights::parameters(&model);
    if let Some(missing) =
        tensors.keys().find(|name| name.starts_with(PREFIX) && !pretrained.contains_key(name.as_str()))
    {
        return Err(TaskError::folder(file, format!("{missing} is missing")));
    }
    tensors.extend(pretrained.into_iter().filter(|(name, _)| name.starts_with(PREFIX)));
    weights::load(model, tensors, &file)
}

/// A tokeniser from the bytes of its file.
fn tokenizer(json: &[u8], path: &Path) -> Result<Tokenizer, TaskError> {
    Ok(Tokenizer::from_json(json, path)?)
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use proptest::prelude::*;
    use regard_data::{Case, TokenizerConfig, TokenizerKind};
    use regard_nn::Init;
    use regard_nn::models::masked_language_model::MaskedLanguageModel;
    use regard_nn::models::tagger::TaggerConfig;

    use super::*;
    use crate::folder::Description;

    fn trained(kind: TokenizerKind) -> Tokenizer {
        let config = TokenizerConfig { kind, vocab: 300, case: Case::Keep, min_count: 1 };
        Tokenizer::train(&config, ["I saw a saw in the old house.", "the right to right wrongs"].into_iter()).unwrap()
    }

    fn model_config() -> ModelConfig {
        ModelConfig { d_model: 8, n_heads: 2, d_ff: 8, n_layers: 1, ..ModelConfig::default() }
    }

    /// A folder as `pretrain` writes it.
    fn pretrained(path: &Path, task: &str) -> MaskedLanguageModel {
        let tokenizer = trained(TokenizerKind::Bpe);
        let init = Init::new(5, &Device::flex());
        let model = MaskedLanguageModel::new(&model_config().transformer(tokenizer.vocab(), None), &init).unwrap();
        let folder = Folder::create(path).unwrap();
        let mut description = Description::new(task, serde_json::json!({ "model": model_config() }));
        folder.write(&mut description, TOKENIZER, tokenizer.to_json().as_bytes()).unwrap();
        folder.write(&mut description, MODEL, &weights::to_bytes(&weights::parameters(&model))).unwrap();
        folder.describe(&description).unwrap();
        model
    }

    #[test]
    fn the_encoder_is_taken_over_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let model = pretrained(place.path(), "pretrain");
        let encoder = PieceEncoder::of(place.path()).unwrap();
        let again =
            PieceEncoder::open(&serde_json::to_vec(&encoder.config).unwrap(), encoder.tokenizer.to_json().as_bytes());
        assert_eq!(again.unwrap().config, encoder.config);
        let config =
            TaggerConfig { vocab: 3, char_vocab: 3, tags: 2, encoder: Some(encoder.config), ..TaggerConfig::default() };
        let init = Init::new(6, &Device::flex());
        let (before, model) = (config.init(&init).unwrap(), weights::parameters(&model));
        let before = weights::parameters(&before);
        let after = weights::parameters(&warmed(config.init(&init).unwrap(), place.path()).unwrap());
        let of_encoder = |name: &str| name.starts_with(PREFIX);
        assert!(after.keys().any(|name| of_encoder(name)) && before.keys().eq(after.keys()));
        for (name, tensor) in &after {
            assert_eq!(tensor, if of_encoder(name) { &model[name] } else { &before[name] }, "{name}");
        }
    }

    #[test]
    fn what_is_no_encoder_is_refused() {
        let place = tempfile::tempdir().unwrap();
        pretrained(place.path(), "tag");
        let error = PieceEncoder::of(place.path()).unwrap_err().to_string();
        assert!(error.contains("its task is tag") && error.contains("pretrain"), "{error}");
        // An encoder of other sizes than the folder says.
        let other = TaggerConfig {
            vocab: 3,
            char_vocab: 3,
            tags: 2,
            encoder: Some(ModelConfig { d_model: 16, ..model_config() }.transformer(300, None)),
            ..TaggerConfig::default()
        };
        let error = warmed(other.init(&Init::new(6, &Device::flex())).unwrap(), place.path()).unwrap_err().to_string();
        assert!(error.contains("encoder.") && error.contains("expected"), "{error}");
    }

    proptest! {
        #[test]
        fn every_word_has_its_pieces(words in prop::collection::vec("[a-zé.!]{1,6}", 1..8)) {
            for kind in [TokenizerKind::Bpe, TokenizerKind::Word, TokenizerKind::Char] {
                let tokenizer = trained(kind);
                let encoder = PieceEncoder { config: model_config().transformer(tokenizer.vocab(), None), tokenizer };
                let pieces = encoder.pieces(&words);
                prop_assert_eq!(pieces.ids.len(), pieces.tokens.len());
                prop_assert_eq!(pieces.words.len(), words.len());
                for (word, range) in words.iter().zip(&pieces.words) {
                    prop_assert!(!range.is_empty() && range.end < pieces.ids.len());
                    if kind == TokenizerKind::Bpe {
                        let text = encoder.tokenizer.decode(&pieces.ids[range.clone()]);
                        prop_assert_eq!(text.trim(), word.as_str());
                    }
                }
                prop_assert!(pieces.words.windows(2).all(|pair| pair[0].end <= pair[1].start));
            }
        }
    }
}
