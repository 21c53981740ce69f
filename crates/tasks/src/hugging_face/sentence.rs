//! Embeddings of texts: the pooling and the length that a folder of sentence-transformers asks for.

use std::borrow::Cow;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use regard_data::{PublishedText, PublishedTokenizer};
use regard_nn::Pass;
use regard_nn::layers::position::Position;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::joined;
use super::load::Loaded;
use super::network::{Network, NetworkConfig};
use super::store::read_json;
use crate::error::TaskError;
use crate::folder::CONFIG;
use crate::rows::device_of;
use crate::train::share::{parts, share};

/// Number of tokens that go through the model together when texts are embedded.
const TOKENS_TOGETHER: usize = 1_024;
/// Largest settings file that is read, in bytes.
const MOST_BYTES: u64 = 1_000_000;

/// Returns the names of the folders with settings that `modules.json` names, none if there is no such file.
pub(super) fn module_folders(folder: &Path) -> Result<Vec<String>, TaskError> {
    let modules = folder.join("modules.json");
    if !modules.is_file() {
        return Ok(Vec::new());
    }
    let list = read_json(&modules, MOST_BYTES)?;
    let paths = list.as_array().into_iter().flatten().filter_map(|module| module["path"].as_str());
    Ok(paths
        .filter(|path| is_folder_name(path) && folder.join(path).join(CONFIG).is_file())
        .map(str::to_string)
        .collect())
}

/// Returns whether a path names a folder directly inside another one.
fn is_folder_name(path: &str) -> bool {
    !path.is_empty() && !path.starts_with('.') && !path.contains(['/', '\\'])
}

/// How the states of the tokens become the vector of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Pooling {
    Mean,
    First,
    Last,
    Max,
}

/// How texts become vectors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sentences {
    pooling: Pooling,
    normalised: bool,
    lower_case: bool,
    /// Largest number of tokens of a text; those beyond are left out.
    max_length: Option<usize>,
}

impl Sentences {
    /// Reads `modules.json` and the files that it names. Without it, an encoder has the mean of its states and a language model
    /// its last state, normalised.
    pub fn read(loaded: &Loaded) -> Result<Self, TaskError> {
        Self::of_folder(&loaded.folder, &loaded.config)
    }

    /// Does the same as [`read`](Self::read) for a folder and the configuration of its network.
    pub fn of_folder(folder: &Path, config: &NetworkConfig) -> Result<Self, TaskError> {
        let pooling = match config {
            NetworkConfig::Next(_) => Pooling::Last,
            _ => Pooling::Mean,
        };
        let modules = folder.join("modules.json");
        let mut found = Self { pooling, normalised: true, lower_case: false, max_length: None };
        let settings = folder.join("sentence_bert_config.json");
        if settings.is_file() {
            found.read_settings(&settings)?;
        }
        if !modules.is_file() {
            return Ok(found);
        }
        found.normalised = false;
        let refuse = |problem: String| TaskError::folder(&modules, problem);
        let list = read_json(&modules, MOST_BYTES)?;
        let list = list.as_array().ok_or_else(|| refuse("expected a list of modules".to_string()))?;
        for module in list {
            let kind = module["type"].as_str().unwrap_or_default();
            let path = module["path"].as_str().unwrap_or_default();
            match kind.rsplit('.').next().unwrap_or_default() {
                "Transformer" if path.is_empty() => {}
                "Pooling" => {
                    if !is_folder_name(path) {
                        return Err(refuse(format!("{path:?} is not the name of a folder in this one")));
                    }
                    found.pooling = pooling_of(&folder.join(path).join(CONFIG))?;
                }
                "Normalize" => found.normalised = true,
                _ => {
                    let problem = format!("module {kind:?} in {path:?}: expected Transformer, Pooling or Normalize");
                    return Err(refuse(problem));
                }
            }
        }
        Ok(found)
    }

    fn read_settings(&mut self, path: &Path) -> Result<(), TaskError> {
        let settings = read_json(path, MOST_BYTES)?;
        let refuse = |key: &str, expected: &str| {
            TaskError::folder(path, format!("{key}: {} found, expected {expected}", settings[key]))
        };
        if !settings["max_seq_length"].is_null() {
            let length = settings["max_seq_length"].as_u64().filter(|&length| length > 0);
            let length = length.ok_or_else(|| refuse("max_seq_length", "a whole number, 1 or more"))?;
            self.max_length = usize::try_from(length).ok();
        }
        if !settings["do_lower_case"].is_null() {
            let lower = settings["do_lower_case"].as_bool();
            self.lower_case = lower.ok_or_else(|| refuse("do_lower_case", "true or false"))?;
        }
        Ok(())
    }

    /// Returns a text as the tokeniser gets it: without the blanks around it, which sentence-transformers leaves out, and in small
    /// letters if the folder says so.
    pub fn prepared<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let text = text.trim();
        if self.lower_case { Cow::Owned(text.to_lowercase()) } else { Cow::Borrowed(text) }
    }

    /// Encodes a text with the length of the folder's settings, else that of the tokeniser, and never more than the model reads.
    pub fn encode(
        &self,
        text: &str,
        tokenizer: &PublishedTokenizer,
        config: &NetworkConfig,
    ) -> Result<PublishedText, TaskError> {
        let positions = longest(config).unwrap_or(usize::MAX);
        let most = self.max_length.or(tokenizer.truncation()).unwrap_or(usize::MAX).min(positions);
        Ok(tokenizer.encode_within(&self.prepared(text), most)?)
    }

    /// Computes the vectors of texts, in their order.
    pub fn vectors(
        &self,
        network: &Network,
        texts: &[&PublishedText],
        pass: &Pass,
    ) -> Result<Vec<Vec<f32>>, TaskError> {
        // Texts of similar length go together, so that little is spent on padding.
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(texts[at].ids.len()));
        let mut batches: Vec<&[usize]> = Vec::new();
        let mut rest = order.as_slice();
        while let Some(&longest) = rest.first() {
            let together = (TOKENS_TOGETHER / texts[longest].ids.len().max(1)).clamp(1, rest.len());
            let (batch, after) = rest.split_at(together);
            batches.push(batch);
            rest = after;
        }
        // Each thread takes the next batch through the whole model: splitting each operation over threads costs more.
        let next = AtomicUsize::new(0);
        let work = |_: usize, ()| -> Result<Vec<(usize, Vec<f32>)>, TaskError> {
            let mut found = Vec::new();
            while let Some(some) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                let batch: Vec<&PublishedText> = some.iter().map(|&at| texts[at]).collect();
                let states = network.last_states(&joined(&batch), &device_of(network), pass)?;
                let [_, seq, width] = states.dims();
                let numbers = states.into_data().try_into_vec_as::<f32>();
                let values = numbers.map_err(|error| TaskError::input("states", "numbers", error.to_string()))?;
                for (&at, rows) in some.iter().zip(values.chunks_exact(seq * width)) {
                    found.push((at, self.pool(&rows[..texts[at].ids.len() * width], width)));
                }
                pass.report(next.load(Ordering::Relaxed).min(batches.len()), batches.len())?;
            }
            Ok(found)
        };
        let mut vectors = vec![Vec::new(); texts.len()];
        for found in share(vec![(); parts().min(batches.len())], work) {
            found?.into_iter().for_each(|(at, vector)| vectors[at] = vector);
        }
        Ok(vectors)
    }

    /// Computes the vector of a text from the states of its tokens, `[tokens, d_model]`.
    fn pool(&self, states: &[f32], d_model: usize) -> Vec<f32> {
        let mut rows = states.chunks_exact(d_model);
        let count = (states.len() / d_model.max(1)).max(1) as f64;
        let mut vector: Vec<f64> = match self.pooling {
            Pooling::First => rows.next().unwrap_or_default().iter().map(|&x| f64::from(x)).collect(),
            Pooling::Last => rows.next_back().unwrap_or_default().iter().map(|&x| f64::from(x)).collect(),
            Pooling::Mean => {
                let mut sum = vec![0.0; d_model];
                rows.for_each(|row| sum.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x)));
                sum.into_iter().map(|sum| sum / count).collect()
            }
            Pooling::Max => {
                let mut most = vec![f64::NEG_INFINITY; d_model];
                rows.for_each(|row| most.iter_mut().zip(row).for_each(|(most, &x)| *most = most.max(f64::from(x))));
                most
            }
        };
        if self.normalised {
            // The smallest length that PyTorch divides by.
            let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-12);
            vector.iter_mut().for_each(|x| *x /= length);
        }
        vector.into_iter().map(|x| x as f32).collect()
    }
}

/// Returns the largest number of tokens that a model with a table of positions reads.
pub(super) fn longest(config: &NetworkConfig) -> Option<usize> {
    match config.transformer().position {
        Position::Learned(learned) => Some(learned.max_length - learned.first),
        _ => None,
    }
}

/// Reads the settings of a pooling module.
fn pooling_of(path: &Path) -> Result<Pooling, TaskError> {
    let settings = read_json(path, MOST_BYTES)?;
    let kinds = [
        ("pooling_mode_mean_tokens", "mean", Some(Pooling::Mean)),
        ("pooling_mode_cls_token", "cls", Some(Pooling::First)),
        ("pooling_mode_lasttoken", "lasttoken", Some(Pooling::Last)),
        ("pooling_mode_max_tokens", "max", Some(Pooling::Max)),
        ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", None),
        ("pooling_mode_weightedmean_tokens", "weightedmean", None),
    ];
    let is_on = |&&(key, name, _): &&(&str, &str, Option<Pooling>)| {
        settings[key] == Value::Bool(true) || settings["pooling_mode"] == name
    };
    let chosen: Vec<_> = kinds.iter().filter(is_on).collect();
    match chosen.as_slice() {
        [(_, _, Some(pooling))] => Ok(*pooling),
        [(key, _, None)] => Err(TaskError::folder(path, format!("{key}: expected mean, cls, lasttoken or max"))),
        [] => Err(TaskError::folder(path, "no pooling is on: expected one of mean, cls, lasttoken or max")),
        _ => Err(TaskError::folder(path, "several poolings are on, expected one")),
    }
}
