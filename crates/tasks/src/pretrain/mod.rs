//! Pre-training (BERT): an encoder learns from plain text by predicting masked tokens. `tag` and `classify` start from its
//! folder with `--set model.from=DIR`.
//!
//! A line is an example, `<s> … </s>`; a line that is too long makes several. Which tokens are masked depends on the seed, the
//! epoch and the example; in the dev and test splits on the example alone, so that scores are comparable.

mod choice;
mod config;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::{Device, Int, Tensor, TensorData};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use regard_data::{
    Budget, END, MASK, SPECIALS, START, Splits, Tokenizer, TokenizerKind, batches, excerpt, in_order, read_text,
};
use regard_inspect::count::{Architecture, Description, Extra, ExtraKind, Rows};
use regard_inspect::show::position::Trained;
use regard_nn::models::masked_language_model::{Masked, MaskedLanguageModel, Masking, mask_tokens};
use regard_nn::{Init, Pass};
use regard_ops::{CrossEntropyOptions, cross_entropy, softmax};
use serde_json::{Value, json};

pub use self::config::{Config, ModelConfig};
use crate::auto::{Asked, Choice, Facts};
use crate::error::TaskError;
use crate::folder::{Files, tokenizer_file};
use crate::hugging_face::export_masked_bert;
use crate::input::{Given, InputKind, check_length};
use crate::model::sizes;
use crate::notes;
use crate::plain_text;
use crate::rows::{SCORING, device_of, padded, spread};
use crate::survey::RawExample;
use crate::task::{Better, Evaluation, Legend, Loss, Parts, Prediction, Sample, Task};

/// Number of candidates in a prediction for each mask.
const CANDIDATES: usize = 5;
/// Seed of the masks of the dev and test splits.
const FIXED: u64 = 0x5EED_0F5C_0CED;
/// Input of `look` if none is given.
const LOOKED_AT: &str = "The king put on his coat, for he was cold.";

/// The examples of a split: rows of tokens from `<s>` to `</s>`.
#[derive(Debug)]
pub struct Part {
    rows: Vec<Vec<u32>>,
}

/// An input text and its tokens, some of which may be `<mask>`.
#[derive(Debug, Clone)]
pub struct Typed {
    text: String,
    row: Vec<u32>,
}

/// A batch of rows with masked tokens.
struct Guesses {
    ids: Tensor<2, Int>,
    lengths: Vec<usize>,
    /// Positions of the tokens to predict, `row · seq + column`.
    positions: Vec<usize>,
    /// The original tokens at these positions.
    targets: Vec<i32>,
}

/// The pre-training task; see the [module](self).
#[derive(Debug)]
pub struct Pretrain {
    config: Config,
    tokenizer: Tokenizer,
}

impl Pretrain {
    /// Encodes the lines of a text as rows.
    fn encoded(&self, text: &str) -> Part {
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let encoded = self.tokenizer.encode_batch(&lines);
        let pieces = encoded.iter().flat_map(|line| line.ids.chunks(self.config.data.max_length));
        // A piece without known tokens has nothing to mask.
        let known = pieces.filter(|ids| ids.iter().any(|&id| id as usize >= SPECIALS.len()));
        Part { rows: known.map(row).collect() }
    }

    /// Encodes the splits of a run; refuses a split without lines.
    fn encoded_parts(&self, text: Splits<String>) -> Result<Parts<Part>, TaskError> {
        let part = |texts: Vec<String>| self.encoded(&texts.concat());
        let test = (!text.test.is_empty()).then(|| part(text.test));
        let (mut train, dev) = (part(text.train), part(text.dev));
        let mut notes = text.notes;
        let all = test.as_ref().map(|test| test.rows.len());
        notes.push(notes::sizes("examples", train.rows.len(), dev.rows.len(), all));
        if let Some(longest) = self.config.data.longest {
            let all = train.rows.len();
            train.rows.retain(|row| tokens(row) <= longest);
            let left = all - train.rows.len();
            notes.push(format!("{left} examples are longer than {longest} tokens: left out of training"));
        }
        for (name, part) in [("training", Some(&train)), ("dev", Some(&dev)), ("test", test.as_ref())] {
            if part.is_some_and(|part| part.rows.is_empty()) {
                return Err(TaskError::input(format!("{name} text"), "at least one line", "none"));
            }
        }
        Ok(Parts { train, dev, test, notes })
    }

    /// Masks random tokens of a row.
    fn masked(&self, row: &[u32], mut random: ChaCha8Rng) -> Result<Masked, TaskError> {
        let masking = Masking {
            probability: self.config.data.masked,
            ..Masking::new(self.tokenizer.vocab(), SPECIALS.len(), MASK as usize)
        };
        let ids: Vec<i32> = row.iter().map(|&id| id as i32).collect();
        Ok(mask_tokens(&ids, row.len(), &[row.len()], &masking, &mut random)?)
    }

    /// Makes a batch of rows, each given with the number of the random stream that selects its masks.
    fn guesses(&self, rows: &[(&[u32], u64)], seed: u64, device: &Device) -> Result<Guesses, TaskError> {
        let masked = rows.iter().map(|(row, number)| self.masked(row, generator(seed, *number)));
        let masked: Vec<Masked> = masked.collect::<Result<_, _>>()?;
        let inputs: Vec<Vec<u32>> =
            masked.iter().map(|masked| masked.inputs.iter().map(|&id| id as u32).collect()).collect();
        let (ids, lengths) = padded(&inputs, device);
        let seq = ids.dims()[1];
        let positions = masked.iter().enumerate();
        let positions = positions.flat_map(|(at, masked)| masked.positions.iter().map(move |place| at * seq + place));
        Ok(Guesses {
            positions: positions.collect(),
            targets: masked.iter().flat_map(|masked| masked.targets.iter().copied()).collect(),
            ids,
            lengths,
        })
    }

    /// Tokenises an input in which `<mask>` stands for a masked token; refuses an empty or too long one.
    fn typed_row(&self, text: &str) -> Result<Vec<u32>, TaskError> {
        let name = SPECIALS[MASK as usize];
        let parts: Vec<&str> = text.split(name).collect();
        let mut ids = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                ids.push(MASK);
            }
            // A word of a byte-level tokeniser begins with its space, so the mask replaces both.
            let hidden = self.tokenizer.kind() == TokenizerKind::Bpe && at + 1 < parts.len();
            ids.extend(self.tokenizer.ids(if hidden { part.strip_suffix(' ').unwrap_or(part) } else { part }));
        }
        check_length(&text, ids.len(), self.config.data.max_length, "tokens")?;
        Ok(row(&ids))
    }

    /// Computes the probabilities of all tokens at each mask of a row.
    fn probabilities(&self, model: &MaskedLanguageModel, row: &[u32], pass: &Pass) -> Result<Vec<Vec<f32>>, TaskError> {
        let places: Vec<usize> = (0..row.len()).filter(|&place| row[place] == MASK).collect();
        let (ids, _) = padded(&[row.to_vec()], &device_of(model));
        let logits = model.logits(ids, None, &places, pass)?;
        let vocab = logits.dims()[1];
        let all: Vec<f32> = softmax(logits)?.into_data().iter().collect();
        Ok(all.chunks(vocab).map(<[f32]>::to_vec).collect())
    }

    /// The most probable tokens that are not special, with their probabilities.
    fn best(&self, probabilities: &[f32]) -> Vec<(u32, f32)> {
        let ordinary = probabilities.iter().enumerate().skip(SPECIALS.len());
        let mut tokens: Vec<(u32, f32)> = ordinary.map(|(id, &p)| (id as u32, p)).collect();
        tokens.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        tokens.truncate(CANDIDATES);
        tokens
    }

    /// Computes the mean loss, the accuracy and the number of masked tokens of some rows.
    fn score(
        &self,
        rows: &[(usize, &Vec<u32>)],
        model: &MaskedLanguageModel,
        pass: &Pass,
    ) -> Result<(f64, f64, usize), TaskError> {
        let (device, mut nats, mut right, mut all) = (device_of(model), 0.0, 0, 0);
        let lengths: Vec<usize> = rows.iter().map(|(_, row)| row.len()).collect();
        let batches = in_order(&lengths, Budget { examples: 1_024, ..SCORING });
        for (done, batch) in batches.iter().enumerate() {
            pass.report(done, batches.len())?;
            let batch: Vec<(&[u32], u64)> =
                batch.iter().map(|&at| (rows[at].1.as_slice(), rows[at].0 as u64)).collect();
            let Guesses { ids, lengths, positions, targets } = self.guesses(&batch, FIXED, &device)?;
            let logits = model.logits(ids, Some(lengths), &positions, pass)?;
            let best = logits.clone().argmax(1).into_data();
            right += best.iter::<i64>().zip(&targets).filter(|(best, target)| *best == i64::from(**target)).count();
            let count = targets.len();
            let targets = Tensor::<1, Int>::from_data(TensorData::new(targets, [count]), &device);
            let loss = cross_entropy(logits, targets, CrossEntropyOptions::default())?;
            nats += f64::from(loss.into_scalar::<f32>()) * count as f64;
            all += count;
        }
        Ok((nats / all.max(1) as f64, right as f64 / all.max(1) as f64, all))
    }

    /// Position of the whole word nearest to the middle of a row, which a sample masks.
    fn word(&self, row: &[u32]) -> Option<usize> {
        let token = |place: usize| self.tokenizer.token(row[place]).unwrap_or_default();
        let is_word = |place: usize| {
            let piece = token(place);
            let letters = piece.trim_start();
            let (whole, least) = match self.tokenizer.kind() {
                TokenizerKind::Bpe => {
                    (piece.starts_with(' ') && !token(place + 1).starts_with(char::is_alphanumeric), 3)
                }
                TokenizerKind::Word => (true, 3),
                TokenizerKind::Char => (true, 1),
            };
            letters.chars().count() >= least && letters.chars().all(char::is_alphabetic) && whole
        };
        let middle = row.len() / 2;
        let mut places: Vec<usize> = (2..row.len().saturating_sub(1)).collect();
        places.sort_by_key(|&place| (place.abs_diff(middle), place));
        places.into_iter().find(|&place| is_word(place))
    }

    /// The text of a row with `<mask>` at position `hidden`, as a person would type it.
    fn typed(&self, row: &[u32], hidden: usize) -> String {
        let (before, after) = (self.tokenizer.decode(&row[..hidden]), self.tokenizer.decode(&row[hidden + 1..]));
        match self.tokenizer.kind() {
            TokenizerKind::Bpe => format!("{before} <mask>{after}"),
            TokenizerKind::Word if after.starts_with(char::is_alphanumeric) => {
                format!("{} <mask> {after}", before.trim_end())
            }
            TokenizerKind::Word => format!("{} <mask>{after}", before.trim_end()),
            TokenizerKind::Char => format!("{before}<mask>{after}"),
        }
    }
}

impl Task for Pretrain {
    const NAME: &'static str = "pretrain";
    const CONFIG: &'static str = include_str!("../../../../configs/pretrain.toml");
    type Config = Config;
    type Model = MaskedLanguageModel;
    type Part = Part;
    type Input = Typed;
    const INPUT: InputKind = InputKind::Text;

    fn choose(facts: &Facts, asked: &Asked<Config>) -> Option<Choice> {
        Some(choice::choose(facts, asked))
    }

    fn start(config: Config) -> Result<(Self, Parts<Part>), TaskError> {
        let text = plain_text::load(config.data.path.as_deref())?;
        let lines = text.train.iter().flat_map(|text| text.lines()).map(str::trim);
        let tokenizer = Tokenizer::train(&config.data.tokenizer, lines)?;
        let task = Self { config, tokenizer };
        let parts = task.encoded_parts(text)?;
        Ok((task, parts))
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        BTreeMap::from([tokenizer_file(&self.tokenizer)])
    }

    fn open(config: Config, files: &Files) -> Result<Self, TaskError> {
        Ok(Self { config, tokenizer: files.tokenizer()? })
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn parts(&self) -> Result<Parts<Part>, TaskError> {
        self.encoded_parts(plain_text::load(self.config.data.path.as_deref())?)
    }

    fn raw(config: &Config) -> Result<Option<Splits<RawExample>>, TaskError> {
        Ok(Some(RawExample::lines(plain_text::load(config.data.path.as_deref())?)))
    }

    fn part(&self, path: &Path) -> Result<Part, TaskError> {
        let part = self.encoded(&read_text(path)?);
        match part.rows.is_empty() {
            true => Err(TaskError::input("text", "at least one line", "none")),
            false => Ok(part),
        }
    }

    fn described(&self) -> Option<Description> {
        let vocab = self.tokenizer.vocab();
        let encoder = self.config.model.transformer(vocab);
        let width = encoder.d_model;
        let norm = ExtraKind::Norm { norm: encoder.norm, width };
        let extra = vec![
            Extra::linear("transform", width, width, Rows::Tokens),
            Extra { name: "head_norm".to_string(), part: norm },
            Extra::table("bias", vocab, 1),
        ];
        let sizes = sizes(self.config.train.batch_tokens, self.config.data.max_length.saturating_add(2));
        Some(Description { sizes, extra, ..Description::new(Architecture::Encoder(encoder)) })
    }

    fn model(&self, init: &Init) -> Result<MaskedLanguageModel, TaskError> {
        let config = self.config.model.transformer(self.tokenizer.vocab());
        Ok(MaskedLanguageModel::new(&config, &self.config.model.spread(init))?)
    }

    /// Numbers examples onwards from epoch to epoch, so that each epoch masks other tokens.
    fn plan(&self, train: &Part, epoch: u64) -> Vec<Vec<usize>> {
        let lengths: Vec<usize> = train.rows.iter().map(Vec::len).collect();
        let first = epoch as usize * train.rows.len();
        let mut plan = batches(&lengths, self.config.train.budget(), self.config.seed, epoch);
        plan.iter_mut().flatten().for_each(|example| *example += first);
        plan
    }

    fn loss(
        &self,
        train: &Part,
        batch: &[usize],
        model: &MaskedLanguageModel,
        _: &mut Value,
        pass: &Pass,
    ) -> Result<Loss, TaskError> {
        let device = device_of(model);
        let rows: Vec<(&[u32], u64)> =
            batch.iter().map(|&at| (train.rows[at % train.rows.len()].as_slice(), at as u64)).collect();
        let Guesses { ids, lengths, positions, targets } = self.guesses(&rows, self.config.seed, &device)?;
        let (count, read) = (targets.len(), lengths.iter().sum());
        let targets = Tensor::<1, Int>::from_data(TensorData::new(targets, [count]), &device);
        let options = self.config.train.loss_options();
        let mean = model.loss(ids, Some(lengths), &positions, targets, options, pass)?;
        Ok(Loss { mean, targets: count, tokens: read })
    }

    fn evaluate(
        &self,
        part: &Part,
        model: &MaskedLanguageModel,
        limit: Option<usize>,
        pass: &Pass,
    ) -> Result<Evaluation, TaskError> {
        let rows: Vec<(usize, &Vec<u32>)> = spread(part.rows.len(), limit).map(|at| (at, &part.rows[at])).collect();
        let longest = self.config.data.longest.unwrap_or(usize::MAX);
        let longer: Vec<(usize, &Vec<u32>)> = rows.iter().copied().filter(|(_, row)| tokens(row) > longest).collect();
        let mut scores = Vec::new();
        if !rows.is_empty() {
            let (loss, accuracy, _) = self.score(&rows, model, pass)?;
            scores.extend([("loss", loss), ("perplexity", loss.exp()), ("accuracy", accuracy)]);
        }
        if !longer.is_empty() {
            let (loss, accuracy, _) = self.score(&longer, model, pass)?;
            scores.extend([("loss_longer", loss), ("accuracy_longer", accuracy)]);
        }
        Ok(Evaluation { examples: rows.len(), ..Evaluation::new(scores, "loss", Better::Lower) })
    }

    fn input(&self, given: &Given) -> Result<Typed, TaskError> {
        let text = given.text()?;
        Ok(Typed { text: text.to_string(), row: self.typed_row(text)? })
    }

    fn given(&self, input: &Typed) -> Given {
        Given::from(input.text.as_str())
    }

    fn predict(
        &self,
        model: &MaskedLanguageModel,
        inputs: &[Typed],
        pass: &Pass,
    ) -> Result<Vec<Prediction>, TaskError> {
        let predict = |input: &Typed| {
            pass.check_cancelled()?;
            let mut row = input.row.clone();
            let masks: Vec<usize> = (0..row.len()).filter(|&place| row[place] == MASK).collect();
            if masks.is_empty() {
                let got = excerpt(&input.text);
                return Err(TaskError::input("input", "a <mask> for each token to predict", got));
            }
            let found = self.probabilities(model, &row, pass)?;
            let found: Vec<Vec<(u32, f32)>> = found.iter().map(|probabilities| self.best(probabilities)).collect();
            for (&place, best) in masks.iter().zip(&found) {
                row[place] = best.first().map_or(MASK, |best| best.0);
            }
            let name = |id: u32| self.tokenizer.token(id).unwrap_or_default().trim().to_string();
            let candidate = |&(id, probability): &(u32, f32)| json!({ "token": name(id), "probability": probability });
            let candidates: Vec<Vec<Value>> = found.iter().map(|best| best.iter().map(candidate).collect()).collect();
            let more = BTreeMap::from([("candidates".to_string(), Value::from(candidates))]);
            Ok(Prediction::new(self.tokenizer.decode(&row).trim_start(), more))
        };
        inputs.iter().map(predict).collect()
    }

    fn samples(&self, part: &Part, count: usize) -> Vec<Sample> {
        let step = (part.rows.len() / count.max(1)).max(1);
        let sample = |row: &Vec<u32>| {
            let given = self.typed(row, self.word(row)?).into();
            Some(Sample { given, expected: self.tokenizer.decode(row) })
        };
        part.rows.iter().step_by(step).filter_map(sample).take(count).collect()
    }

    fn telling(&self, _: &MaskedLanguageModel) -> Result<Typed, TaskError> {
        self.input(&Given::from(LOOKED_AT))
    }

    fn positions<'a>(&self, model: &'a MaskedLanguageModel) -> Vec<Trained<'a>> {
        // Two tokens mark the beginning and the end.
        let longest = self.config.data.max_length.saturating_add(2);
        vec![Trained { part: "encoder", layer: &model.encoder.embedding.position, longest }]
    }

    fn export(&self, model: &MaskedLanguageModel, to: &Path) -> Result<(), TaskError> {
        let config = self.config.model.transformer(self.tokenizer.vocab());
        export_masked_bert(&config, model, &self.tokenizer.to_json(), to)
    }

    fn look(&self, model: &MaskedLanguageModel, Typed { text, row }: &Typed, pass: &Pass) -> Result<Legend, TaskError> {
        let (ids, _) = padded(std::slice::from_ref(row), &device_of(model));
        model.encoder.forward(ids, None, pass)?;
        let filled = self.predict(model, &[Typed { text: text.clone(), row: row.clone() }], &pass.without_capture());
        let title = match filled {
            Ok(found) if !found.is_empty() => format!("{text} → {}", found[0].output),
            // The text has no masks to fill.
            _ => text.clone(),
        };
        let tokens: Vec<String> = row.iter().map(|&id| self.tokenizer.token(id).unwrap_or_default()).collect();
        Ok(Legend::of_tokens(title, tokens))
    }
}

/// Puts tokens between `<s>` and `</s>`.
fn row(ids: &[u32]) -> Vec<u32> {
    [START].into_iter().chain(ids.iter().copied()).chain([END]).collect()
}

/// Number of tokens of a row without `<s>` and `</s>`.
fn tokens(row: &[u32]) -> usize {
    row.len().saturating_sub(2)
}

/// Random number generator of the example with this number.
fn generator(seed: u64, number: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(number);
    random
}
