//! Texts that a checkpoint writes token by token.

use burn::tensor::Device;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use regard_nn::Pass;

use super::load::Loaded;
use super::network::{Network, Texts, padded};
use crate::decode::{LanguageModelDecoder, SampleOptions, TransformerDecoder, sample};
use crate::error::TaskError;

/// Continues each text by at most `count` tokens, always the most probable one, without an end; a translator writes translations
/// of the texts.
pub(super) fn continued(loaded: &Loaded, texts: &Texts, count: usize, pass: &Pass) -> Result<Vec<Vec<u32>>, TaskError> {
    let options = SampleOptions { temperature: 0.0, max_len: count, ..SampleOptions::default() };
    let mut written = vec![Vec::new(); texts.ids.len()];
    let seeds = vec![0; texts.ids.len()];
    write(loaded, texts, &seeds, &options, pass, |row, token| written[row].push(token))?;
    Ok(written)
}

/// Continues each text with its own seed and calls `token` with the index of the text for each token.
pub(super) fn write(
    loaded: &Loaded,
    texts: &Texts,
    seeds: &[u64],
    options: &SampleOptions,
    pass: &Pass,
    token: impl FnMut(usize, u32),
) -> Result<(), TaskError> {
    let mut random: Vec<ChaCha8Rng> = seeds.iter().map(|&seed| ChaCha8Rng::seed_from_u64(seed)).collect();
    match &loaded.network {
        Network::Next(model) => {
            let mut decoder = LanguageModelDecoder::new(model, texts.ids.len(), None, *pass)?;
            Ok(sample(&mut decoder, &texts.ids, options, &mut random, token)?)
        }
        Network::Translation(model) => {
            let source = model.encode(padded(&texts.ids, &Device::flex())?, texts.lengths(), pass)?;
            let start = start_token(loaded)?;
            let mut decoder = TransformerDecoder::new(model.writer(), source, *pass);
            let prompts = vec![vec![start]; texts.ids.len()];
            Ok(sample(&mut decoder, &prompts, options, &mut random, token)?)
        }
        _ => Err(TaskError::Unsupported {
            task: super::TASK,
            what: "generate text: this checkpoint is no language model and no translator".to_string(),
        }),
    }
}

/// Returns the token that a translator's decoder begins with.
pub(super) fn start_token(loaded: &Loaded) -> Result<u32, TaskError> {
    let id = loaded.settings["decoder_start_token_id"].as_u64().and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| {
        let problem = "decoder_start_token_id is missing, which a translator begins with";
        TaskError::folder(loaded.folder.join(crate::folder::CONFIG), problem)
    })
}
