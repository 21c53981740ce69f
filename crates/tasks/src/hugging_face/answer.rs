//! What a checkpoint answers to an input, depending on its head.

use std::collections::BTreeMap;

use burn::tensor::Device;
use regard_data::{Around, PublishedText, PublishedTokenizer};
use regard_nn::Pass;
use serde_json::{Value, json};

use super::network::{Network, NetworkConfig, Texts};
use super::opened::Checkpoint;
use super::sentence::longest;
use crate::error::TaskError;
use crate::task::Prediction;

/// Number of words that are listed for a hidden one.
const LISTED: usize = 5;
/// Number of tokens by which a language model continues an input in a prediction.
const CONTINUED: usize = 20;
/// Number of texts that go through the model together.
const TOGETHER: usize = 32;

/// An input that a checkpoint can read.
#[derive(Debug, Clone)]
pub(super) enum Read {
    /// A text with its tokens.
    Text(String, PublishedText),
    /// The pixels of a picture, `[channels, height, width]`, as the model reads them.
    Picture(Vec<f32>),
}

impl Checkpoint {
    /// Answers each input.
    pub(super) fn answers(&self, inputs: &[Read], pass: &Pass) -> Result<Vec<Prediction>, TaskError> {
        let mut found = Vec::with_capacity(inputs.len());
        for some in inputs.chunks(TOGETHER) {
            pass.check_cancelled()?;
            found.extend(self.answers_together(some, pass)?);
        }
        Ok(found)
    }

    fn answers_together(&self, inputs: &[Read], pass: &Pass) -> Result<Vec<Prediction>, TaskError> {
        let texts: Vec<&PublishedText> = inputs.iter().filter_map(Read::text).collect();
        match &self.loaded.network {
            Network::Image(_) => {
                let outputs = self.loaded.network.see(self.pixels(inputs)?, pass)?;
                let Some(logits) = outputs.logits else { return Err(no_answer("the labels of pictures")) };
                let width = logits.dims()[2];
                let values: Vec<f32> = logits.to_data().iter().collect();
                Ok(values.chunks_exact(width).map(|row| self.labelled(row)).collect())
            }
            Network::Encoder(model) if model.head.output.is_none() => {
                Err(no_answer("answers: this checkpoint has no head, and regard embed gives its vectors"))
            }
            Network::Encoder(_) | Network::Words(_) => {
                let outputs = self.loaded.network.run(&joined(&texts), None, &Device::flex(), pass)?;
                let Some(logits) = outputs.logits else { return Err(no_answer("answers")) };
                let [_, seq, width] = logits.dims();
                let values: Vec<f32> = logits.to_data().iter().collect();
                let rows = inputs.iter().zip(values.chunks_exact(seq * width));
                rows.map(|(input, values)| self.of_text(input, values, width)).collect()
            }
            Network::Next(_) => {
                let written = self.answered(&texts, CONTINUED, pass)?;
                written.iter().map(|ids| Ok(Prediction::new(self.text(ids)?, BTreeMap::new()))).collect()
            }
            Network::Translation(_) => {
                let written = self.translated(&texts, pass)?;
                written.iter().map(|ids| Ok(Prediction::of_translation(self.text(ids)?))).collect()
            }
        }
    }

    fn of_text(&self, input: &Read, logits: &[f32], width: usize) -> Result<Prediction, TaskError> {
        let Read::Text(text, encoded) = input else { return Err(no_answer("answers to pictures")) };
        if let Network::Words(_) = self.loaded.network {
            return self.filled(text, encoded, logits, width);
        }
        if !self.loaded.network.labels_tokens() {
            return Ok(self.labelled(&logits[..width]));
        }
        let real = encoded.is_special.iter().zip(&encoded.tokens).zip(logits.chunks_exact(width));
        let real = real.filter(|((is_special, _), _)| !**is_special);
        let (mut tokens, mut tags, mut sure) = (Vec::new(), Vec::new(), Vec::new());
        for ((_, token), row) in real {
            let probabilities = softmax(row);
            let best = largest(row);
            tokens.push(token.clone());
            tags.push(self.label(best));
            sure.push(probabilities[best]);
        }
        let output: Vec<String> = tokens.iter().zip(&tags).map(|(token, tag)| format!("{token}/{tag}")).collect();
        let more = BTreeMap::from([
            ("tokens".to_string(), json!(tokens)),
            ("tags".to_string(), json!(tags)),
            ("probabilities".to_string(), json!(sure)),
        ]);
        Ok(Prediction::new(output.join(" "), more))
    }

    /// Fills the hidden words of a text.
    fn filled(
        &self,
        text: &str,
        encoded: &PublishedText,
        logits: &[f32],
        width: usize,
    ) -> Result<Prediction, TaskError> {
        let tokenizer = self.tokenizer()?;
        let (mask, id) = mask_token(tokenizer)?;
        let hidden: Vec<usize> = (0..encoded.ids.len()).filter(|&at| encoded.ids[at] == id).collect();
        if hidden.is_empty() {
            return Err(TaskError::input("input", format!("a text with {mask} for a hidden word"), text));
        }
        let (mut ids, mut words) = (encoded.ids.clone(), Vec::new());
        for at in hidden {
            let row = &logits[at * width..][..width];
            let probabilities = softmax(row);
            let mut order: Vec<usize> = (0..width).collect();
            order.sort_by(|&a, &b| probabilities[b].total_cmp(&probabilities[a]).then(a.cmp(&b)));
            order.truncate(LISTED);
            ids[at] = order[0] as u32;
            let word = |&token: &usize| {
                let name = tokenizer.token(token as u32).unwrap_or_default();
                json!({ "token": name, "probability": probabilities[token] })
            };
            words.push(Value::from(order.iter().map(word).collect::<Vec<_>>()));
        }
        let more = BTreeMap::from([("candidates".to_string(), Value::from(words))]);
        Ok(Prediction::new(tokenizer.decode(&ids)?, more))
    }

    /// Returns the label, the labels or the number that the outputs of a head mean.
    fn labelled(&self, row: &[f32]) -> Prediction {
        let settings = &self.loaded.settings;
        let number = |value: f32| f64::from(value);
        if row.len() == 1 || settings["problem_type"] == "regression" {
            let values: Vec<f64> = row.iter().map(|&value| number(value)).collect();
            let output: Vec<String> = values.iter().map(f64::to_string).collect();
            let key = if values.len() == 1 { ("value", json!(values[0])) } else { ("values", json!(values)) };
            return Prediction::new(output.join(" "), BTreeMap::from([(key.0.to_string(), key.1)]));
        }
        let several = settings["problem_type"] == "multi_label_classification";
        let probabilities = match several {
            true => row.iter().map(|&value| 1.0 / (1.0 + (-number(value)).exp())).collect(),
            false => softmax(row),
        };
        let by_label: serde_json::Map<String, Value> =
            probabilities.iter().enumerate().map(|(at, &share)| (self.label(at), json!(share))).collect();
        let mut more = BTreeMap::from([("probabilities".to_string(), Value::Object(by_label))]);
        if several {
            let on: Vec<String> =
                (0..row.len()).filter(|&at| probabilities[at] > 0.5).map(|at| self.label(at)).collect();
            more.insert("labels".to_string(), json!(on));
            return Prediction::new(on.join("|"), more);
        }
        let label = self.label(largest(row));
        more.insert("label".to_string(), json!(label));
        Prediction::new(label, more)
    }

    /// Returns the name of a class.
    pub(super) fn label(&self, at: usize) -> String {
        let name = self.loaded.settings["id2label"][at.to_string().as_str()].as_str();
        name.map_or_else(|| format!("LABEL_{at}"), str::to_string)
    }

    /// Encodes a text, with the tokens around it that the checkpoint's tokeniser asks for.
    pub(super) fn encoded(&self, text: &str) -> Result<PublishedText, TaskError> {
        self.encoded_within(text, Around::Special)
    }

    /// Encodes a text with these tokens around it.
    pub(super) fn encoded_within(&self, text: &str, around: Around) -> Result<PublishedText, TaskError> {
        let encoded = self.tokenizer()?.encode(text, around)?;
        let most = longest(&self.loaded.config).unwrap_or(usize::MAX);
        self.checked(&encoded.ids, most)?;
        Ok(encoded)
    }

    /// Returns an error if there are no tokens, more than the model reads, or some that it does not have.
    pub(super) fn checked(&self, ids: &[u32], most: usize) -> Result<(), TaskError> {
        if ids.is_empty() || ids.len() > most {
            let expected = match most {
                usize::MAX => "at least one token".to_string(),
                most => format!("1 to {most} tokens, which this checkpoint reads"),
            };
            return Err(TaskError::input("input", expected, ids.len().to_string()));
        }
        let vocab = match self.loaded.config {
            NetworkConfig::Image { .. } => return Ok(()),
            _ => self.loaded.config.transformer().vocab,
        };
        match ids.iter().find(|&&id| id as usize >= vocab) {
            Some(id) => Err(TaskError::input("token", format!("a number below {vocab}"), id.to_string())),
            None => Ok(()),
        }
    }
}

impl Read {
    pub(super) fn text(&self) -> Option<&PublishedText> {
        match self {
            Self::Text(_, encoded) => Some(encoded),
            Self::Picture(_) => None,
        }
    }
}

/// Returns the texts of a batch, with types if they are not all 0.
pub(super) fn joined(texts: &[&PublishedText]) -> Texts {
    let is_typed = texts.iter().any(|text| text.types.iter().any(|&kind| kind != 0));
    let types = is_typed.then(|| texts.iter().map(|text| text.types.clone()).collect());
    Texts { ids: texts.iter().map(|text| text.ids.clone()).collect(), types }
}

/// Returns the token that hides a word.
pub(super) fn mask_token(tokenizer: &PublishedTokenizer) -> Result<(&'static str, u32), TaskError> {
    let found = ["[MASK]", "<mask>"].into_iter().find_map(|token| Some((token, tokenizer.id(token)?)));
    found.ok_or_else(|| TaskError::input("tokenizer", "a token [MASK] or <mask>", "none"))
}

fn no_answer(what: &str) -> TaskError {
    TaskError::Unsupported { task: super::TASK, what: format!("give {what}") }
}

fn softmax(row: &[f32]) -> Vec<f64> {
    let most = row.iter().fold(f32::NEG_INFINITY, |most, &value| most.max(value));
    let powers: Vec<f64> = row.iter().map(|&value| f64::from(value - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

fn largest(row: &[f32]) -> usize {
    (0..row.len()).fold(0, |best, at| if row[at] > row[best] { at } else { best })
}
