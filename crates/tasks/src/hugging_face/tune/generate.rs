//! Language modelling with a checkpoint: a causal language model learns further text.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use regard_data::{Around, Splits, read_text};
use regard_inspect::count::{Description, Sizes};
use regard_nn::Pass;
use regard_nn::config::check_positive;
use regard_nn::models::language_model::LanguageModel;
use regard_ops::CrossEntropyOptions;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::base_model::{Base, Goal};
use super::choice::{Load, Way, choose};
use super::config::{PublishedModel, WritingSections, check_network, make_absolute};
use super::export::export;
use crate::auto::{Asked, Choice, Facts};
use crate::decode::{LanguageModelDecoder, Plan, SampleOptions, Start, Wish, sample};
use crate::error::TaskError;
use crate::folder::Files;
use crate::generate::writing::{Texting, write};
use crate::generate::{beginnings, plan_blocks, plan_for, sum_over_blocks, text_scores, visible};
use crate::hugging_face::network::Network;
use crate::hugging_face::verify::ending;
use crate::input::{Given, InputKind};
use crate::metrics::text::TextLoss;
use crate::notes;
use crate::plain_text;
use crate::rows::{device_of, matrix};
use crate::run_config::{DataSection, RunConfig};
use crate::survey::RawExample;
use crate::task::{Better, Evaluation, Legend, Loss, Parts, Prediction, Prompt, Sample, Task, Validate};

/// Number of bytes of text that the tokeniser gets at once; a text is cut between lines.
const PIECE: usize = 1 << 16;
/// Tokens that the model generates for `look` if no input is given.
const SHOWN: usize = 32;

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DataConfig {
    /// File or folder of plain text; built-in stories if absent.
    path: Option<PathBuf>,
    /// Tokens of a training example, which is also how far the model is trained to look back.
    block: usize,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self { path: None, block: 128 }
    }
}

impl DataSection for DataConfig {
    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

/// Configuration of a run. Its `[decode]` says how `predict` draws the tokens after a prompt; `regard generate` has flags for this.
pub(crate) type Config = RunConfig<DataConfig, PublishedModel, WritingSections<SampleOptions>>;

impl Validate for Config {
    fn validate(&self) -> Result<(), TaskError> {
        check_positive("data.block", self.data.block)?;
        self.more.decode.validate().map_err(|error| error.within("decode"))?;
        check_network(self.model.keys(), &self.more.lora)
    }
}

/// The text of a split and its tokens.
pub(crate) struct Part {
    text: String,
    ids: Vec<u32>,
}

/// The language-modelling task of checkpoints; see the [module](self).
pub(crate) struct TunedGenerate {
    config: Config,
    base: Base,
}

impl TunedGenerate {
    fn ids(&self, text: &str) -> Result<Vec<u32>, TaskError> {
        let encoded = self.base.tokenizer()?.encode(text, Around::Nothing)?;
        self.base.check_tokens(&encoded)?;
        Ok(encoded.ids)
    }

    fn encoded(&self, text: String) -> Result<Part, TaskError> {
        let (mut ids, mut rest) = (Vec::new(), text.as_str());
        while !rest.is_empty() {
            let end = rest.bytes().skip(PIECE).position(|byte| byte == b'\n').map_or(rest.len(), |at| PIECE + at + 1);
            let (piece, after) = rest.split_at(end);
            ids.extend(self.ids(piece)?);
            rest = after;
        }
        Ok(Part { text, ids })
    }

    fn encoded_parts(&self, text: Splits<String>, mut notes: Vec<String>) -> Result<Parts<Part>, TaskError> {
        let part = |mut texts: Vec<String>| match texts.len() {
            1 => texts.pop().map(|text| self.encoded(text)).transpose(),
            _ => Ok(None),
        };
        notes.extend(text.notes);
        let (Some(train), Some(dev)) = (part(text.train)?, part(text.dev)?) else {
            return Err(TaskError::input("text", "a train and a dev split", "fewer"));
        };
        let test = part(text.test)?;
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
        notes.push(notes::sizes("tokens", found, dev.ids.len(), test.as_ref().map(|test| test.ids.len())));
        Ok(Parts { train, dev, test, notes })
    }

    fn check(self) -> Result<Self, TaskError> {
        let (block, most) = (self.config.data.block, self.base.longest(usize::MAX));
        match block <= most {
            true => Ok(self),
            false => {
                let expected = format!("1 to {most}, the tokens that the network reads");
                Err(regard_nn::ConfigError::new("data.block", block, expected).into())
            }
        }
    }

    fn batch_blocks(&self) -> usize {
        let train = &self.config.train;
        train.batch_examples.min(train.batch_tokens / self.config.data.block).max(1)
    }

    /// Draws the tokens after each prompt, given with its seed, until the end of the text.
    fn draw(
        &self,
        model: &Network,
        prompts: &[(Vec<u32>, u64)],
        options: &SampleOptions,
        pass: &Pass,
        token: impl FnMut(usize, u32),
    ) -> Result<(), TaskError> {
        let (prompts, mut random): (Vec<Vec<u32>>, Vec<ChaCha8Rng>) =
            prompts.iter().map(|(prompt, seed)| (prompt.clone(), ChaCha8Rng::seed_from_u64(*seed))).unzip();
        let mut decoder = self.decoder(model, prompts.len(), pass)?;
        Ok(sample(&mut decoder, &prompts, &self.ending(options), &mut random, token)?)
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
        let plan = Plan { sampling: self.ending(&plan.sampling), ..plan.clone() };
        let limit = plan.sampling.max_len;
        let start = |(tokens, seed): &(Vec<u32>, u64)| (Start { tokens: tokens.clone(), limit }, *seed);
        let (starts, seeds): (Vec<Start>, Vec<u64>) = prompts.iter().map(start).unzip();
        let tokenizer = self.base.tokenizer()?;
        let decode = |ids: &[u32]| tokenizer.decode(ids).unwrap_or_default();
        let texting = Texting { decode: &decode, is_continued: true };
        write(&mut self.decoder(model, prompts.len(), pass)?, &starts, &seeds, &plan, &texting, piece)
    }

    fn decoder<'a>(
        &self,
        model: &'a Network,
        rows: usize,
        pass: &Pass<'a>,
    ) -> Result<LanguageModelDecoder<'a>, TaskError> {
        let window = Some(self.base.longest(usize::MAX)).filter(|&most| most < usize::MAX);
        Ok(LanguageModelDecoder::new(language_model(model), rows, window, *pass)?)
    }

    /// Returns options that also stop at the tokens that end a text of the checkpoint.
    fn ending(&self, options: &SampleOptions) -> SampleOptions {
        let ends = ending(self.base.settings()).into_iter().filter_map(|id| u32::try_from(id).ok());
        SampleOptions { stop: options.stop.iter().copied().chain(ends).collect(), ..options.clone() }
    }

    /// Returns the prompt if none is given: the token that begins or ends texts.
    fn beginning(&self) -> Vec<u32> {
        let settings = self.base.settings();
        let id = ["bos_token_id", "eos_token_id"].iter().find_map(|key| settings[*key].as_u64());
        vec![id.and_then(|id| u32::try_from(id).ok()).unwrap_or(0)]
    }
}

fn language_model(model: &Network) -> &LanguageModel {
    match model {
        Network::Next(model) => model,
        _ => unreachable!("the goal is a language model"),
    }
}

impl Task for TunedGenerate {
    const NAME: &'static str = "generate";
    const CONFIG: &'static str = include_str!("../../../../../configs/finetune-generate.toml");
    type Config = Config;
    type Model = Network;
    type Part = Part;
    type Input = Vec<u32>;
    const INPUT: InputKind = InputKind::Text;

    fn choose(facts: &Facts, asked: &Asked<Config>) -> Option<Choice> {
        // About four characters make a token.
        let blocks = facts.characters / (4 * asked.config.data.block.max(1));
        let facts = Facts { examples: blocks.max(1), ..facts.clone() };
        let load = Load::of_texts(asked.config.model.keys().from.as_deref(), &facts);
        Some(choose(Way::of_rank(asked.config.more.lora.rank), load, &facts, ("blocks of text", 8), asked))
    }

    fn start(mut config: Config) -> Result<(Self, Parts<Part>), TaskError> {
        make_absolute(&mut config.model.keys_mut().from)?;
        let text = plain_text::load(config.data.path.as_deref())?;
        let (base, told) = Base::start(config.model.keys(), &config.more.lora, &Goal::Next)?;
        let task = Self { config, base }.check()?;
        let parts = task.encoded_parts(text, told)?;
        Ok((task, parts))
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.base.files()
    }

    fn open(config: Config, files: &Files) -> Result<Self, TaskError> {
        let base = Base::open(files, config.model.keys(), &config.more.lora)?;
        Self { config, base }.check()
    }

    fn parts(&self) -> Result<Parts<Part>, TaskError> {
        self.encoded_parts(plain_text::load(self.config.data.path.as_deref())?, Vec::new())
    }

    fn raw(config: &Config) -> Result<Option<Splits<RawExample>>, TaskError> {
        Ok(Some(RawExample::lines(plain_text::load(config.data.path.as_deref())?)))
    }

    fn part(&self, path: &Path) -> Result<Part, TaskError> {
        let part = self.encoded(read_text(path)?)?;
        match part.ids.len() {
            0 | 1 => Err(TaskError::input("text", "2 tokens or more", part.ids.len().to_string())),
            _ => Ok(part),
        }
    }

    fn described(&self) -> Option<Description> {
        let sizes = Sizes { batch: self.batch_blocks(), ..Sizes::of(self.config.data.block) };
        Some(Description { sizes, ..self.base.described()? })
    }

    of_base!();

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
        let mean = language_model(model).loss(shifted(0), shifted(1), self.config.train.loss_options(), pass)?;
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
        let (block, device) = (self.config.data.block, device_of(model));
        let (nats, targets) = sum_over_blocks(&part.ids, block, limit, pass, |read, next| {
            let (read, next) = (matrix(read, &device), matrix(next, &device));
            Ok(language_model(model).loss(read, next, CrossEntropyOptions::default(), pass)?)
        })?;
        let scored = &part.ids[part.ids.len().min(1)..part.ids.len().min(targets + 1)];
        let characters = self.base.tokenizer()?.decode(scored)?.chars().count() as u64;
        let found = TextLoss { nats, tokens: targets as u64, characters };
        let examples = targets.div_ceil(block);
        Ok(Evaluation { examples, ..Evaluation::new(text_scores(&found), "loss", Better::Lower) })
    }

    fn input(&self, given: &Given) -> Result<Vec<u32>, TaskError> {
        let text = given.text()?;
        let ids = self.ids(text)?;
        match ids.is_empty() {
            true => Err(TaskError::input("prompt", "at least one token", text)),
            false => Ok(ids),
        }
    }

    fn given(&self, input: &Vec<u32>) -> Given {
        let text = self.base.tokenizer().and_then(|tokenizer| Ok(tokenizer.decode(input)?));
        Given::from(text.unwrap_or_default())
    }

    fn predict(&self, model: &Network, inputs: &[Vec<u32>], pass: &Pass) -> Result<Vec<Prediction>, TaskError> {
        // The same seed for each prompt, so that its answer does not depend on the other prompts.
        let prompts: Vec<(Vec<u32>, u64)> = inputs.iter().map(|prompt| (prompt.clone(), self.config.seed)).collect();
        let mut outputs = vec![String::new(); prompts.len()];
        let mut piece = |prompt: usize, text: &str| outputs[prompt].push_str(text);
        self.write(model, &prompts, &self.config.more.decode.clone().into(), pass, &mut piece)?;
        Ok(outputs.into_iter().map(|output| Prediction::new(output, BTreeMap::new())).collect())
    }

    fn samples(&self, part: &Part, count: usize) -> Vec<Sample> {
        let fits = |text: &str| self.ids(text).is_ok_and(|ids| (1..=self.config.data.block).contains(&ids.len()));
        beginnings(&part.text, count, |text| text, fits)
    }

    /// Text that the model generates without a prompt.
    fn telling(&self, model: &Network) -> Result<Vec<u32>, TaskError> {
        let mut ids = self.beginning();
        let options =
            SampleOptions { max_len: SHOWN.min(self.config.data.block) - 1, ..self.config.more.decode.clone() };
        let prompt = [(ids.clone(), self.config.seed)];
        self.draw(model, &prompt, &options, &Pass::inference(), |_, token| ids.push(token))?;
        Ok(ids)
    }

    fn look(&self, model: &Network, ids: &Vec<u32>, pass: &Pass) -> Result<Legend, TaskError> {
        let most = self.base.longest(usize::MAX);
        if ids.len() > most {
            return Err(TaskError::input("prompt", format!("1 to {most} tokens"), ids.len().to_string()));
        }
        language_model(model).logits(matrix(&[ids], &device_of(model)), pass)?;
        let tokenizer = self.base.tokenizer()?;
        let tokens = ids.iter().map(|&id| visible(tokenizer.token(id).unwrap_or_default())).collect();
        Ok(Legend::of_tokens(tokenizer.decode(ids)?, tokens))
    }

    fn extras(&self, model: &Network) -> Result<BTreeMap<String, Vec<u8>>, TaskError> {
        Ok(self.base.adapter_files(model, Some("CAUSAL_LM"), None))
    }

    fn export(&self, model: &Network, to: &Path) -> Result<(), TaskError> {
        export(&self.base, model, None, to)
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
}
