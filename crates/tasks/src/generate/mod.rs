//! Language models: a Transformer such as GPT or a recurrent network learns plain text token by token and continues a
//! prompt.
//!
//! A training example is a block of text from a random place. A score covers the whole text of a split in blocks that do
//! not overlap: every token but the first is predicted once, from the tokens before it in its block.

mod choice;
mod config;
mod network;
#[cfg(test)]
mod tests;
mod trained_writer;
pub(crate) mod writing;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use burn::tensor::Tensor;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use regard_data::{SPECIALS, Split, Splits, Tokenizer, TokenizerKind, UNK, excerpt, listed, read_text};
use regard_inspect::count::{Architecture, Description, RecurrentModel, Sizes};
use regard_inspect::show::position::Trained;
use regard_nn::models::language_model::LanguageModel;
use regard_nn::models::recurrent_language_model::RecurrentLanguageModel;
use regard_nn::models::transformer::OutputWeights;
use regard_nn::{Init, Pass};
use regard_ops::CrossEntropyOptions;
use serde_json::Value;

pub use self::config::Config;
use self::config::NetworkConfig;
pub use self::network::Network;
use self::trained_writer::TrainedWriter;
use self::writing::{Texting, write};
use crate::auto::{Asked, Choice, Facts};
use crate::decode::{Plan, SampleOptions, Start, Wish};
use crate::error::TaskError;
use crate::folder::{Files, tokenizer_file};
use crate::hugging_face::{export_gpt2, no_recurrence};
use crate::input::{Given, InputKind};
use crate::metrics::text::TextLoss;
use crate::notes;
use crate::plain_text;
use crate::rows::{SCORING, device_of, matrix};
use crate::survey::RawExample;
use crate::task::{Better, Evaluation, Legend, Loss, Parts, Prediction, Prompt, Sample, Task};
use crate::writer::Writer;

/// Maximum characters of a sample's prompt.
const PROMPT: usize = 40;
/// Tokens that the model generates for `look` if no input is given.
const SHOWN: usize = 32;

/// The text of a split and its tokens.
#[derive(Debug)]
pub struct Part {
    text: String,
    ids: Vec<u32>,
}

/// The language-modelling task; see the [module](self).
#[derive(Debug)]
pub struct Generate {
    config: Config,
    tokenizer: Tokenizer,
}

impl Generate {
    fn encoded(&self, text: String) -> Part {
        Part { ids: self.tokenizer.ids(&text), text }
    }

    /// Encodes the splits of a run; refuses a text that is too short.
    fn encoded_parts(&self, text: Splits<String>) -> Result<Parts<Part>, TaskError> {
        let part = |mut texts: Vec<String>| match texts.len() {
            1 => texts.pop().map(|text| self.encoded(text)),
            _ => None,
        };
        let (Some(train), Some(dev)) = (part(text.train), part(text.dev)) else {
            return Err(TaskError::input("text", "a train and a dev split", "fewer"));
        };
        let test = part(text.test);
        let (block, found) = (self.config.data.block, train.ids.len());
        if found <= block {
            let expected = format!("more tokens than data.block, {block}");
            return Err(TaskError::input("training text", expected, found.to_string()));
        }
        for (name, part) in [("dev", Some(&dev)), ("test", test.as_ref())] {
            if let Some(part) = part.filter(|part| part.ids.len() < 2) {
                return Err(TaskError::input(format!("{name} text"), "2 tokens or more", part.ids.len().to_string()));
            }
        }
        let parts = [(Split::Train, Some(&train)), (Split::Dev, Some(&dev)), (Split::Test, test.as_ref())];
        let mut notes = text.notes;
        notes.push(notes::sizes("tokens", found, dev.ids.len(), test.as_ref().map(|test| test.ids.len())));
        let ids = parts.into_iter().filter_map(|(split, part)| Some((split, part?.ids.iter())));
        if let Some(unknown) = notes::unknown("tokens", UNK, ids) {
            let why = match train.ids.contains(&UNK) {
                false => "the training text does not have them",
                true => "beyond data.tokenizer.vocab or below its min_count",
            };
            notes.push(format!("{unknown}: {why}"));
        }
        Ok(Parts { train, dev, test, notes })
    }

    /// The prompt if none is given: the end of a line, of a sentence or of a word, or else any token.
    fn beginning(&self) -> Vec<u32> {
        let known = |text: &&str| {
            let ids = self.tokenizer.ids(text);
            !ids.is_empty() && !ids.contains(&UNK)
        };
        let ends = ["\n", ".", " "];
        ends.iter().find(|text| known(text)).map_or(vec![SPECIALS.len() as u32], |text| self.tokenizer.ids(text))
    }

    /// Tokenises a prompt; the error for unknown tokens lists them.
    fn prompt(&self, text: &str) -> Result<Vec<u32>, TaskError> {
        let encoded = self.tokenizer.encode(text);
        let unknown = encoded.ids.iter().zip(&encoded.offsets).filter(|(id, _)| **id == UNK);
        let unknown: BTreeSet<&str> = unknown.map(|(_, &(from, to))| text.get(from..to).unwrap_or("")).collect();
        if !unknown.is_empty() {
            let kind = match self.tokenizer.kind() {
                TokenizerKind::Word => "words",
                TokenizerKind::Char | TokenizerKind::Bpe => "characters",
            };
            let list: Vec<String> = unknown.iter().map(|unknown| format!("{unknown:?}")).collect();
            let expected = format!("{kind} that the model knows from its training text");
            return Err(TaskError::input("prompt", expected, listed(&list)));
        }
        if encoded.ids.is_empty() {
            return Err(TaskError::input("prompt", "at least one token", excerpt(text)));
        }
        Ok(encoded.ids)
    }

    /// Generates text after each prompt, given with its seed, and calls `piece` with the prompt's index and each piece.
    fn write(
        &self,
        model: &Network,
        prompts: &[(Vec<u32>, u64)],
        plan: &Plan,
        pass: &Pass,
        piece: &mut dyn FnMut(usize, &str),
    ) -> Result<(), TaskError> {
        let limit = plan.sampling.max_len;
        let start = |(tokens, seed): &(Vec<u32>, u64)| (Start { tokens: tokens.clone(), limit }, *seed);
        let (starts, seeds): (Vec<Start>, Vec<u64>) = prompts.iter().map(start).unzip();
        let decode = |ids: &[u32]| self.tokenizer.decode(ids);
        let texting = Texting { decode: &decode, is_continued: true };
        model.decode(prompts.len(), self.config.window(), pass, |decoder| {
            write(decoder, &starts, &seeds, plan, &texting, piece)
        })
    }

    /// Computes the loss of all tokens but the first, in blocks of `block` tokens, or of the first `limit` blocks.
    fn loss_of(
        &self,
        ids: &[u32],
        model: &Network,
        block: usize,
        limit: Option<usize>,
        pass: &Pass,
    ) -> Result<TextLoss, TaskError> {
        let device = device_of(model);
        let (nats, targets) = sum_over_blocks(ids, block, limit, pass, |read, next| {
            let (read, next) = (matrix(read, &device), matrix(next, &device));
            Ok(model.loss(read, next, CrossEntropyOptions::default(), pass)?)
        })?;
        let characters = self.characters(&ids[ids.len().min(1)..ids.len().min(targets + 1)]) as u64;
        Ok(TextLoss { nats, tokens: targets as u64, characters })
    }

    /// Number of characters of the tokens; 0 for words, which do not keep the spaces between them.
    fn characters(&self, ids: &[u32]) -> usize {
        match self.tokenizer.kind() {
            TokenizerKind::Char => ids.len(),
            TokenizerKind::Bpe => self.tokenizer.decode(ids).chars().count(),
            TokenizerKind::Word => 0,
        }
    }

    /// Number of blocks of a batch.
    fn batch_blocks(&self) -> usize {
        let train = &self.config.train;
        train.batch_examples.min(train.batch_tokens / self.config.data.block).max(1)
    }
}

impl Task for Generate {
    const NAME: &'static str = "generate";
    const CONFIG: &'static str = include_str!("../../../../configs/generate.toml");
    type Config = Config;
    type Model = Network;
    type Part = Part;
    type Input = Vec<u32>;
    const INPUT: InputKind = InputKind::Text;

    fn choose(facts: &Facts, asked: &Asked<Config>) -> Option<Choice> {
        Some(choice::choose(facts, asked))
    }

    fn start(config: Config) -> Result<(Self, Parts<Part>), TaskError> {
        let text = plain_text::load(config.data.path.as_deref())?;
        let tokenizer = Tokenizer::train(&config.data.tokenizer, text.train.iter().map(String::as_str))?;
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
        let part = self.encoded(read_text(path)?);
        match part.ids.len() {
            0 | 1 => Err(TaskError::input("text", "2 tokens or more", part.ids.len().to_string())),
            _ => Ok(part),
        }
    }

    fn described(&self) -> Option<Description> {
        let (vocab, block) = (self.tokenizer.vocab(), self.config.data.block);
        let architecture = match self.config.network(vocab) {
            NetworkConfig::Transformer(config) => Architecture::Decoder(config),
            // An embedding that is also the output layer is counted once, as the output layer.
            NetworkConfig::Recurrent(model) => Architecture::Recurrent(RecurrentModel {
                cell: model.cell,
                d_in: model.d_model,
                d_hidden: model.d_hidden,
                n_layers: model.n_layers,
                vocab: (model.output_weights == OutputWeights::Own).then_some(vocab),
                outputs: Some(vocab),
                ..RecurrentModel::default()
            }),
        };
        let sizes = Sizes { batch: self.batch_blocks(), ..Sizes::of(block) };
        Some(Description { sizes, ..Description::new(architecture) })
    }

    fn model(&self, init: &Init) -> Result<Network, TaskError> {
        let (first_weights, n_layers) = self.config.first_weights();
        let init = first_weights.spread(n_layers, init);
        Ok(match self.config.network(self.tokenizer.vocab()) {
            NetworkConfig::Transformer(config) => Network::Transformer(LanguageModel::new(&config, &init)?),
            NetworkConfig::Recurrent(config) => Network::Recurrent(RecurrentLanguageModel::new(&config, &init)?),
        })
    }

    /// Lists blocks by their first token: the text is cut into blocks from a random offset and shuffled. Each token is seen
    /// at most once in an epoch; blocks drawn independently would miss a third of the text.
    fn plan(&self, train: &Part, epoch: u64) -> Vec<Vec<usize>> {
        plan_blocks(train.ids.len(), self.config.data.block, self.batch_blocks(), self.config.seed, epoch)
    }

    fn loss(
        &self,
        train: &Part,
        batch: &[usize],
        model: &Network,
        _: &mut Value,
        pass: &Pass,
    ) -> Result<Loss, TaskError> {
        let block = self.config.data.block;
        let shifted = |by: usize| {
            let read: Vec<&[u32]> = batch.iter().map(|&place| &train.ids[place + by..place + by + block]).collect();
            matrix(&read, &device_of(model))
        };
        let mean = model.loss(shifted(0), shifted(1), self.config.train.loss_options(), pass)?;
        let targets = batch.len() * block;
        Ok(Loss { mean, targets, tokens: targets })
    }

    fn evaluate(
        &self,
        part: &Part,
        model: &Network,
        limit: Option<usize>,
        pass: &Pass,
    ) -> Result<Evaluation, TaskError> {
        let block = self.config.data.block;
        let found = self.loss_of(&part.ids, model, block, limit, pass)?;
        let mut scores = text_scores(&found);
        if let Some(longer) = self.config.data.evaluate_block {
            let blocks = limit.map(|limit| limit.saturating_mul(block).div_ceil(longer));
            let longer = self.loss_of(&part.ids, model, longer, blocks, pass)?.loss();
            scores.extend(longer.map(|loss| ("loss_longer", loss)));
        }
        let examples = (found.tokens as usize).div_ceil(block);
        Ok(Evaluation { examples, ..Evaluation::new(scores, "loss", Better::Lower) })
    }

    fn input(&self, given: &Given) -> Result<Vec<u32>, TaskError> {
        self.prompt(given.text()?)
    }

    fn given(&self, input: &Vec<u32>) -> Given {
        Given::from(self.tokenizer.decode(input))
    }

    fn predict(&self, model: &Network, inputs: &[Vec<u32>], pass: &Pass) -> Result<Vec<Prediction>, TaskError> {
        // The same seed for each prompt, so that its answer does not depend on the other prompts.
        let prompts: Vec<(Vec<u32>, u64)> = inputs.iter().map(|prompt| (prompt.clone(), self.config.seed)).collect();
        let mut outputs = vec![String::new(); prompts.len()];
        let mut piece = |prompt: usize, text: &str| outputs[prompt].push_str(text);
        self.write(model, &prompts, &self.config.more.decode.clone().into(), pass, &mut piece)?;
        Ok(outputs.into_iter().map(|output| Prediction::new(output, BTreeMap::new())).collect())
    }

    /// Beginnings of lines as prompts. There is no expected output, since a text can continue in many ways.
    fn samples(&self, part: &Part, count: usize) -> Vec<Sample> {
        // At most `data.block` tokens, the limit of `look`.
        let cut = |text: String| {
            let ids = self.tokenizer.ids(&text);
            match ids.len() > self.config.data.block {
                true => self.tokenizer.decode(&ids[..self.config.data.block]),
                false => text,
            }
        };
        beginnings(&part.text, count, cut, |input| self.prompt(input).is_ok())
    }

    /// Text that the model generates without a prompt.
    fn telling(&self, model: &Network) -> Result<Vec<u32>, TaskError> {
        let mut ids = self.beginning();
        let most = SHOWN.min(self.config.data.block);
        let options = SampleOptions { max_len: most.saturating_sub(ids.len()), ..self.config.more.decode.clone() };
        model.draw(ids.clone(), self.config.seed, self.config.window(), &options, |token| ids.push(token))?;
        Ok(ids)
    }

    fn positions<'a>(&self, model: &'a Network) -> Vec<Trained<'a>> {
        match model {
            Network::Transformer(model) => {
                vec![Trained { part: "decoder", layer: &model.embedding.position, longest: self.config.data.block }]
            }
            Network::Recurrent(_) => Vec::new(),
        }
    }

    fn look(&self, model: &Network, ids: &Vec<u32>, pass: &Pass) -> Result<Legend, TaskError> {
        let most = self.config.data.block;
        if ids.len() > most {
            let expected = format!("1 to {most} tokens (data.block of this model)");
            return Err(TaskError::input("prompt", expected, ids.len().to_string()));
        }
        model.read(ids, pass)?;
        let tokens = ids.iter().map(|&id| visible(self.tokenizer.token(id).unwrap_or_default())).collect();
        Ok(Legend::of_tokens(self.tokenizer.decode(ids), tokens))
    }

    fn export(&self, model: &Network, to: &Path) -> Result<(), TaskError> {
        match self.config.network(self.tokenizer.vocab()) {
            NetworkConfig::Transformer(config) => export_gpt2(&config, model, &self.tokenizer.to_json(), to),
            NetworkConfig::Recurrent(_) => Err(no_recurrence(Self::NAME)),
        }
    }

    fn generate(
        &self,
        model: &Network,
        prompts: &[Prompt<Vec<u32>>],
        wish: &Wish,
        pass: &Pass,
        piece: &mut dyn FnMut(usize, &str),
    ) -> Result<(), TaskError> {
        let begin = |prompt: &Prompt<Vec<u32>>| (prompt.input.clone().unwrap_or_else(|| self.beginning()), prompt.seed);
        self.write(model, &prompts.iter().map(begin).collect::<Vec<_>>(), &plan_for(wish)?, pass, piece)
    }

    fn writer<'a>(&'a self, model: &'a Network) -> Option<Box<dyn Writer + 'a>> {
        match model {
            Network::Transformer(model) => Some(Box::new(TrainedWriter { task: self, model })),
            Network::Recurrent(_) => None,
        }
    }
}

/// Returns how a trained language model writes what a caller asks for.
pub(crate) fn plan_for(wish: &Wish) -> Result<Plan, TaskError> {
    if wish.chat.is_some() {
        let what = "answer messages: it has no chat template, as published models for conversations have".to_string();
        return Err(TaskError::Unsupported { task: Generate::NAME, what });
    }
    let defaults = SampleOptions { temperature: 0.8, max_len: 300, ..SampleOptions::default() };
    Ok(Plan::from(defaults).with(wish)?)
}

/// Returns batches of `size` blocks by their first tokens: a text of `tokens` is cut into blocks from a random offset and shuffled.
pub(crate) fn plan_blocks(tokens: usize, block: usize, size: usize, seed: u64, epoch: u64) -> Vec<Vec<usize>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(epoch);
    let Some(places) = tokens.checked_sub(block.saturating_add(1)) else { return Vec::new() };
    let first = random.random_range(0..=places.min(block - 1));
    let mut blocks: Vec<usize> = (first..=places).step_by(block).collect();
    blocks.shuffle(&mut random);
    // Drops a last batch that is smaller than the others, unless it is the only one.
    let kept = if blocks.len() < size { blocks.len() } else { blocks.len() / size * size };
    blocks[..kept].chunks(size).map(<[usize]>::to_vec).collect()
}

/// Computes the summed loss of all tokens but the first, in blocks of `block` tokens, or of the first `limit` blocks, and the number
/// of these tokens. `mean` computes the mean loss of rows of tokens, given with the tokens after them.
pub(crate) fn sum_over_blocks(
    ids: &[u32],
    block: usize,
    limit: Option<usize>,
    pass: &Pass,
    mean: impl Fn(&[&[u32]], &[&[u32]]) -> Result<Tensor<1>, TaskError>,
) -> Result<(f64, usize), TaskError> {
    let targets = ids.len().saturating_sub(1).min(limit.map_or(usize::MAX, |limit| limit.saturating_mul(block)));
    let whole = targets / block * block;
    let mut nats = 0.0;
    let mut add = |from: usize, to: usize, length: usize| -> Result<(), TaskError> {
        pass.report(from, targets)?;
        let read: Vec<&[u32]> = ids[from..to].chunks(length).collect();
        let next: Vec<&[u32]> = ids[from + 1..to + 1].chunks(length).collect();
        nats += f64::from(mean(&read, &next)?.into_scalar::<f32>()) * (to - from) as f64;
        Ok(())
    };
    let together = (SCORING.tokens / block).max(1) * block;
    for from in (0..whole).step_by(together) {
        add(from, (from + together).min(whole), block)?;
    }
    if whole < targets {
        add(whole, targets, targets - whole)?;
    }
    Ok((nats, targets))
}

/// Returns the scores of a text.
pub(crate) fn text_scores(found: &TextLoss) -> Vec<(&'static str, f64)> {
    let named = [
        ("loss", found.loss()),
        ("perplexity", found.perplexity()),
        ("bits_per_character", found.bits_per_character()),
    ];
    named.into_iter().filter_map(|(name, score)| Some((name, score?))).collect()
}

/// Returns at most `count` beginnings of lines as prompts, each at most as long as `cut` makes it. There is no expected output, since
/// a text can continue in many ways.
pub(crate) fn beginnings(
    text: &str,
    count: usize,
    cut: impl Fn(String) -> String,
    fits: impl Fn(&str) -> bool,
) -> Vec<Sample> {
    let mut lines: Vec<&str> = text.lines().filter(|line| line.chars().count() >= PROMPT / 2).collect();
    if lines.is_empty() {
        lines = text.lines().filter(|line| !line.trim().is_empty()).collect();
    }
    let step = (lines.len() / count.max(1)).max(1);
    let begins = lines.iter().step_by(step).map(|line| cut(line.chars().take(PROMPT).collect()));
    let begins = begins.filter(|input| fits(input)).take(count);
    begins.map(|input| Sample { given: input.into(), expected: String::new() }).collect()
}

/// Replaces a token of only white space by visible characters.
pub(crate) fn visible(token: String) -> String {
    match token.trim().is_empty() {
        true => token.chars().map(|c| if c == '\n' { '⏎' } else { '␣' }).collect(),
        false => token,
    }
}
