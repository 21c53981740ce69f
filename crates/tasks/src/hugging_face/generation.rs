//! How a checkpoint generates text by default: `generation_config.json`, or the same keys of an old `config.json`.

use std::path::PathBuf;

use regard_data::PublishedTokenizer;
use serde_json::Value;

use super::load::Loaded;
use super::network::{NetworkConfig, Texts};
use super::sentence::longest;
use super::store::read_json;
use crate::decode::{Patience, Plan, Rules, SampleOptions, Start, Summed, Wish};
use crate::error::TaskError;
use crate::folder::CONFIG;

/// Name of the file.
pub(super) const GENERATION: &str = "generation_config.json";
/// Largest file that is read, in bytes.
const MOST_BYTES: u64 = 10_000_000;

/// Settings that are followed.
const READ: &[&str] = &[
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "decoder_start_token_id",
    "do_sample",
    "early_stopping",
    "eos_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "min_length",
    "min_new_tokens",
    "no_repeat_ngram_size",
    "num_beams",
    "pad_token_id",
    "renormalize_logits",
    "repetition_penalty",
    "stop_strings",
    "suppress_tokens",
    "temperature",
    "top_k",
    "top_p",
];

/// Settings that change the text and have only these values here; null counts as one of them.
const FIXED: &[(&str, &[&str])] = &[
    ("constraints", &[]),
    ("diversity_penalty", &["0.0", "0"]),
    ("dola_layers", &[]),
    ("encoder_no_repeat_ngram_size", &["0"]),
    ("encoder_repetition_penalty", &["1.0", "1"]),
    ("epsilon_cutoff", &["0.0", "0"]),
    ("eta_cutoff", &["0.0", "0"]),
    ("exponential_decay_length_penalty", &[]),
    ("force_words_ids", &[]),
    ("generation_kwargs", &["{}"]),
    ("guidance_scale", &["1.0", "1"]),
    ("max_time", &[]),
    ("min_p", &["0.0", "0"]),
    ("num_beam_groups", &["1"]),
    ("num_return_sequences", &["1"]),
    ("penalty_alpha", &["0.0", "0"]),
    ("sequence_bias", &[]),
    ("token_healing", &["false"]),
    ("top_h", &[]),
    ("typical_p", &["1.0", "1"]),
    ("watermarking_config", &[]),
];

/// Settings that do not change the text.
const WITHOUT_EFFECT: &[&str] = &[
    "_commit_hash",
    "_from_model_config",
    "assistant_confidence_threshold",
    "assistant_early_exit",
    "assistant_lookbehind",
    "cache_config",
    "cache_implementation",
    "chat_format",
    "compile_config",
    "continuous_batching_config",
    "disable_compile",
    "is_assistant",
    "low_memory",
    "max_matching_ngram_size",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "prefill_chunk_size",
    "prompt_lookup_num_tokens",
    "remove_invalid_values",
    "return_dict_in_generate",
    "return_legacy_cache",
    "target_lookbehind",
    "transformers_version",
    "trust_remote_code",
    "use_cache",
    "use_model_defaults",
];

/// How a checkpoint generates text by default.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Generation {
    /// How tokens are chosen. Its largest number of tokens is unused.
    plan: Plan,
    /// Largest number of tokens with the prompt.
    max_total: Option<usize>,
    /// Largest number of tokens after the prompt.
    max_new: Option<usize>,
    /// Token that a translator begins with.
    start: Option<u32>,
    /// Token that a text without a prompt begins with.
    beginning: Option<u32>,
    path: PathBuf,
}

impl Generation {
    /// Reads the settings of a folder. A setting that we do not know or do not follow is an error.
    pub fn read(loaded: &Loaded) -> Result<Self, TaskError> {
        let path = loaded.folder.join(GENERATION);
        match path.is_file() {
            true => Self::of_file(&read_json(&path, MOST_BYTES)?, &loaded.settings, path),
            false => Self::of(&Value::Null, &loaded.settings, loaded.folder.join(CONFIG)),
        }
    }

    /// Reads the settings of a file, and tokens that they lack from `config`. A setting that we do not know is an error.
    pub fn of_file(settings: &Value, config: &Value, path: PathBuf) -> Result<Self, TaskError> {
        let Some(fields) = settings.as_object() else {
            return Err(TaskError::folder(&path, "expected a JSON object"));
        };
        let is_known = |key: &str| {
            READ.contains(&key) || WITHOUT_EFFECT.contains(&key) || FIXED.iter().any(|(name, _)| *name == key)
        };
        if let Some((key, value)) = fields.iter().find(|(key, value)| !is_known(key) && !value.is_null()) {
            let problem =
                format!("{key}: {value} found: Regard does not know this setting, which may change what is written");
            return Err(TaskError::folder(&path, problem));
        }
        Self::of(settings, config, path)
    }

    /// Reads settings, and tokens that they lack from `config`, which has all settings if there are none.
    pub fn of(settings: &Value, config: &Value, path: PathBuf) -> Result<Self, TaskError> {
        let file = Fields { settings: if settings.is_null() { config } else { settings }, path: &path };
        for (key, allowed) in FIXED {
            let value = &file.settings[*key];
            if !value.is_null() && !allowed.contains(&value.to_string().as_str()) {
                let expected = if allowed.is_empty() { "null" } else { allowed[0] };
                return Err(file.wrong(key, &format!("{expected}: Regard has nothing else")));
            }
        }
        let own = Fields { settings: config, path: &path };
        let token = |key: &str| -> Result<Option<u32>, TaskError> {
            Ok(file.tokens(key)?.or(own.tokens(key)?).and_then(|ids| ids.first().copied()))
        };
        let ends = file.tokens("eos_token_id")?.or(own.tokens("eos_token_id")?).unwrap_or_default();
        let temperature = match file.flag("do_sample")?.unwrap_or(false) {
            true => file.number("temperature")?.unwrap_or(1.0) as f32,
            false => 0.0,
        };
        let sampling = SampleOptions {
            temperature,
            // `transformers` draws from 50 tokens by default.
            top_k: Some(file.count("top_k")?.unwrap_or(50)).filter(|&count| count > 0),
            top_p: file.number("top_p")?.map(|p| p as f32).filter(|&p| p < 1.0),
            max_len: usize::MAX,
            stop: ends.clone(),
        };
        let rules = Rules {
            repetition_penalty: file.number("repetition_penalty")?.unwrap_or(1.0) as f32,
            no_repeat: file.count("no_repeat_ngram_size")?.unwrap_or(0),
            banned: file.lists("bad_words_ids")?,
            suppressed: file.tokens("suppress_tokens")?.unwrap_or_default(),
            banned_first: file.tokens("begin_suppress_tokens")?.unwrap_or_default(),
            ends,
            min_total: file.count("min_length")?.unwrap_or(0),
            min_new: file.count("min_new_tokens")?.unwrap_or(0),
            forced_first: file.tokens("forced_bos_token_id")?.and_then(|ids| ids.first().copied()),
            forced_last: file.tokens("forced_eos_token_id")?.unwrap_or_default(),
            summed: match file.flag("renormalize_logits")?.unwrap_or(false) {
                true => Summed::Normalised,
                false => Summed::Changed,
            },
        };
        let patience = match &file.settings["early_stopping"] {
            Value::Null | Value::Bool(false) => Patience::Now,
            Value::Bool(true) => Patience::Enough,
            Value::String(never) if never == "never" => Patience::Ever,
            _ => return Err(file.wrong("early_stopping", "true, false or \"never\"")),
        };
        let stop = match &file.settings["stop_strings"] {
            Value::Null => Vec::new(),
            Value::String(one) => vec![one.clone()],
            Value::Array(all) if all.iter().all(Value::is_string) => {
                all.iter().filter_map(|one| one.as_str().map(str::to_string)).collect()
            }
            _ => return Err(file.wrong("stop_strings", "a list of strings")),
        };
        let stop = stop.into_iter().filter(|one| !one.is_empty()).collect();
        let plan = Plan {
            sampling,
            beams: file.count("num_beams")?.unwrap_or(1).max(1),
            length_penalty: file.number("length_penalty")?.unwrap_or(1.0),
            patience,
            rules,
            stop,
        };
        plan.validate().map_err(|error| TaskError::folder(&path, error.to_string()))?;
        if temperature > 0.0 && plan.beams > 1 {
            return Err(file.wrong("num_beams", "1 with do_sample: Regard does not draw in a beam search"));
        }
        Ok(Self {
            plan,
            max_total: file.count("max_length")?,
            max_new: file.count("max_new_tokens")?,
            start: token("decoder_start_token_id")?,
            beginning: token("bos_token_id")?.or(token("eos_token_id")?),
            path,
        })
    }

    /// Returns how text is generated with what a caller asks for.
    pub fn plan(&self, wish: &Wish) -> Result<Plan, TaskError> {
        Ok(self.plan.clone().with(wish)?)
    }

    /// Returns the text of tokens that were [written](super::generate::written), which ends before the folder's stop strings.
    pub fn text(&self, tokenizer: &PublishedTokenizer, ids: &[u32]) -> Result<String, TaskError> {
        let mut text = tokenizer.decode(ids)?;
        if let Some(end) = self.plan.stop.iter().filter_map(|stop| text.find(stop.as_str())).min() {
            text.truncate(end);
        }
        Ok(text)
    }

    /// Returns the token that a translator's decoder begins with.
    pub fn start_token(&self) -> Result<u32, TaskError> {
        let problem = "decoder_start_token_id is missing, which a translator begins with";
        self.start.ok_or_else(|| TaskError::folder(&self.path, problem))
    }

    /// Returns how the translation of each source begins, and how long it may be.
    pub fn translations(&self, config: &NetworkConfig, sources: &Texts, wish: &Wish) -> Result<Vec<Start>, TaskError> {
        let start = self.start_token()?;
        let begin = |source: &Vec<u32>| self.begin(config, vec![start], wish, 2 * source.len() + 20);
        sources.ids.iter().map(begin).collect()
    }

    /// Returns the token that a text without a prompt begins with.
    pub fn beginning(&self) -> Result<Vec<u32>, TaskError> {
        let none = || TaskError::input("prompt", "the beginning of a text", "none");
        self.beginning.map(|id| vec![id]).ok_or_else(none)
    }

    /// Returns a start with its limit: what the caller asks for, else what the settings say, else `otherwise`; and never more than
    /// there are positions. Returns an error if nothing can follow the tokens though the caller has not asked for nothing.
    pub fn begin(
        &self,
        config: &NetworkConfig,
        tokens: Vec<u32>,
        wish: &Wish,
        otherwise: usize,
    ) -> Result<Start, TaskError> {
        let room = longest(config).unwrap_or(usize::MAX).saturating_sub(tokens.len());
        let total = self.max_total.map(|total| total.saturating_sub(tokens.len()));
        let limit = wish.max_len.or(self.max_new).or(total).unwrap_or(otherwise).min(room);
        if limit == 0 && wish.max_len != Some(0) {
            let most = tokens.len() + room.min(total.unwrap_or(room));
            let expected = format!("fewer than {most} tokens, so that some can follow");
            return Err(TaskError::input("prompt", expected, tokens.len().to_string()));
        }
        Ok(Start { tokens, limit })
    }
}

/// Fields of a file of settings.
#[derive(Clone, Copy)]
struct Fields<'a> {
    settings: &'a Value,
    path: &'a PathBuf,
}

impl Fields<'_> {
    fn wrong(&self, key: &str, expected: &str) -> TaskError {
        TaskError::folder(self.path, format!("{key}: {} found, expected {expected}", self.settings[key]))
    }

    fn read<T>(&self, key: &str, expected: &str, read: impl Fn(&Value) -> Option<T>) -> Result<Option<T>, TaskError> {
        match &self.settings[key] {
            Value::Null => Ok(None),
            value => read(value).map(Some).ok_or_else(|| self.wrong(key, expected)),
        }
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, TaskError> {
        self.read(key, "true or false", Value::as_bool)
    }

    fn number(&self, key: &str) -> Result<Option<f64>, TaskError> {
        self.read(key, "a number", Value::as_f64)
    }

    fn count(&self, key: &str) -> Result<Option<usize>, TaskError> {
        self.read(key, "a whole number, 0 or more", |value| value.as_u64().and_then(|count| count.try_into().ok()))
    }

    /// Reads one token or a list of tokens.
    fn tokens(&self, key: &str) -> Result<Option<Vec<u32>>, TaskError> {
        self.read(key, "a token or a list of tokens", |value| match value {
            Value::Array(all) => all.iter().map(token).collect(),
            one => token(one).map(|id| vec![id]),
        })
    }

    /// Reads a list of lists of tokens.
    fn lists(&self, key: &str) -> Result<Vec<Vec<u32>>, TaskError> {
        let list = |value: &Value| value.as_array().and_then(|all| all.iter().map(token).collect());
        let found = self.read(key, "a list of lists of tokens", |value| {
            value.as_array().and_then(|all| all.iter().map(list).collect::<Option<Vec<Vec<u32>>>>())
        })?;
        Ok(found.unwrap_or_default())
    }
}

fn token(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| u32::try_from(id).ok())
}
