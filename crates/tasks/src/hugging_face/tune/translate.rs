//! Translation by a checkpoint: a Marian or T5 learns from further pairs of texts.
//!
//! Source and target are encoded by the folder's tokeniser, and the target ends with the end token. The decoder reads the target
//! shifted to the right, after the token that the folder's decoder begins with. Translations are written as the folder says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn::tensor::Tensor;
use rayon::prelude::*;
use regard_data::{
    Around, Budget, Column, Fold, Pair, PublishedText, Split, Splits, batches, in_order, read_pairs, read_sources,
};
use regard_inspect::count;
use regard_nn::config::check_positive;
use regard_nn::models::encoder_decoder::EncoderDecoder;
use regard_nn::{ConfigError, Pass};
use regard_ops::CrossEntropyOptions;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::base_model::{Base, Goal, check_below};
use super::choice::{Load, Way, choose};
use super::config::{PublishedModel, WritingSections, check_network, make_absolute};
use super::export::export;
use crate::auto::{Asked, Choice, Facts};
use crate::data_share::check_share;
use crate::decode::Wish;
use crate::error::TaskError;
use crate::folder::{CONFIG, Files};
use crate::hugging_face::generate::written;
use crate::hugging_face::generation::{GENERATION, Generation};
use crate::hugging_face::network::{Network, NetworkConfig, Texts, padded, padded_with};
use crate::hugging_face::verify::ending;
use crate::input::{Given, InputKind, check_length};
use crate::model::sizes;
use crate::notes;
use crate::rows::{SCORING, device_of, spread};
use crate::run_config::{DataSection, RunConfig, check_built_in};
use crate::survey::RawExample;
use crate::task::{Evaluation, Legend, Loss, Parts, Prediction, Questions, Sample, Task, Validate};
use crate::translate::encoded::{Encoded, Pairs, Sentence, sentences};
use crate::translate::files::PairFiles;
use crate::translate::scoring::{evaluation, samples};

/// Target of padding, which has no loss. No token has this number.
const PADDING: i32 = -100;
/// Number of training pairs whose text is kept, to show some of them.
const SHOWN_OF_TRAINING: usize = 1_000;

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DataConfig {
    /// File or folder of sentence pairs; built-in ones if absent.
    path: Option<PathBuf>,
    /// Fold `k/n` that is the test split of a single file.
    fold: Option<Fold>,
    /// Language, key or column of the source; the first by default.
    source: Option<Column>,
    /// Language, key or column of the target; the second by default.
    target: Option<Column>,
    /// Text before every source that says what to do with it, as T5 has been trained.
    prefix: String,
    /// Share of the training pairs that is used, by a hash of the source; the same pairs for every seed.
    share: f64,
    /// Maximum tokens of a source or target, with those around it: longer pairs are left out of training, longer inputs refused.
    max_length: usize,
}

impl Default for DataConfig {
    fn default() -> Self {
        let (path, fold, source, target) = (None, None, None, None);
        Self { path, fold, source, target, prefix: String::new(), share: 1.0, max_length: 128 }
    }
}

impl DataConfig {
    fn files(&self) -> PairFiles<'_> {
        let Self { path, fold, source, target, share, .. } = self;
        PairFiles { path: path.as_deref(), fold: *fold, source, target, share: *share }
    }
}

impl DataSection for DataConfig {
    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

/// The `[decode]` section. What is absent is as the folder says.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DecodeKeys {
    /// Number of hypotheses of the beam search; 1 for none.
    beams: Option<usize>,
    /// Length penalty of the beam search.
    length_penalty: Option<f64>,
}

pub(crate) type Config = RunConfig<DataConfig, PublishedModel, WritingSections<DecodeKeys>>;

impl Validate for Config {
    fn validate(&self) -> Result<(), TaskError> {
        let DataConfig { path, fold, source, target, share, max_length, .. } = &self.data;
        check_share(*share)?;
        check_positive("data.max_length", *max_length)?;
        if path.is_none() {
            check_built_in(*fold, &[("data.source", source), ("data.target", target)])?;
        }
        if let Some(beams) = self.more.decode.beams.filter(|beams| !(1..=1_024).contains(beams)) {
            return Err(ConfigError::new("decode.beams", beams, "a whole number from 1 to 1024").into());
        }
        check_network(self.model.keys(), &self.more.lora)
    }
}

/// A text to translate, with its tokens.
#[derive(Debug, Clone)]
pub(crate) struct Typed {
    text: String,
    encoded: PublishedText,
}

/// The examples of a split.
#[derive(Default)]
pub(crate) struct Part {
    /// Tokens of the pairs that are neither empty nor too long.
    pairs: Pairs,
    /// Sources to translate, with their references; in the training split only those that may be shown.
    sentences: Vec<Sentence>,
    /// Number of pairs left out because they are empty or too long.
    left_out: usize,
}

/// The translation task of checkpoints; see the [module](self).
pub(crate) struct TunedTranslate {
    config: Config,
    base: Base,
    generation: Generation,
    /// Number of distinct tokens of targets.
    vocab: usize,
    /// Token that the decoder reads first.
    start: u32,
    /// Token that a target ends with.
    end: u32,
}

impl TunedTranslate {
    fn new(config: Config, base: Base) -> Result<Self, TaskError> {
        let from = base.from().unwrap_or(Path::new(""));
        let generation = match base.copied_json(GENERATION)? {
            Some(settings) => Generation::of_file(&settings, base.settings(), from.join(GENERATION))?,
            None => Generation::of(&Value::Null, base.settings(), from.join(CONFIG))?,
        };
        let NetworkConfig::Translation(network) = base.config else {
            return Err(TaskError::folder(from, "expected a translator"));
        };
        let vocab = network.target_vocab.unwrap_or(network.vocab);
        let end = ending(base.settings()).first().and_then(|&id| u32::try_from(id).ok());
        let end = end.ok_or_else(|| TaskError::folder(from.join(CONFIG), "eos_token_id is missing"))?;
        let start = generation.start_token()?;
        if let Some(token) = [start, end].into_iter().find(|&token| token as usize >= vocab) {
            let problem = format!("token {token} begins or ends targets, expected a number below {vocab}");
            return Err(TaskError::folder(from.join(CONFIG), problem));
        }
        Ok(Self { config, base, generation, vocab, start, end })
    }

    /// Returns the largest number of tokens of a source or target.
    fn longest(&self) -> usize {
        self.base.longest(self.config.data.max_length)
    }

    fn source(&self, text: &str) -> Result<PublishedText, TaskError> {
        let text = format!("{}{text}", self.config.data.prefix);
        let encoded = self.base.tokenizer()?.encode(&text, Around::Special)?;
        self.base.check_tokens(&encoded)?;
        Ok(encoded)
    }

    /// Returns the tokens of a target, the end token included.
    fn target(&self, text: &str) -> Result<Vec<u32>, TaskError> {
        let encoded = self.base.tokenizer()?.encode(text, Around::Special)?;
        let mut ids = encoded.ids;
        check_below(&ids, self.vocab)?;
        if ids.last() != Some(&self.end) {
            ids.push(self.end);
        }
        Ok(ids)
    }

    fn encoded(&self, pairs: &[Pair], sentences: Vec<Sentence>) -> Result<Part, TaskError> {
        let mut part = Part { sentences, ..Part::default() };
        let longest = self.longest();
        let ids = |pair: &Pair| match pair.source().trim().is_empty() || pair.target().trim().is_empty() {
            true => Ok(None),
            false => Ok(Some([self.source(pair.source())?.ids, self.target(pair.target())?])),
        };
        for encoded in pairs.par_iter().map(ids).collect::<Result<Vec<_>, TaskError>>()? {
            match encoded {
                Some([source, target]) if source.len().max(target.len()) <= longest => {
                    part.pairs.push(Encoded { source: &source, target: &target });
                }
                _ => part.left_out += 1,
            }
        }
        Ok(part)
    }

    fn scored(&self, pairs: &[Pair]) -> Result<Part, TaskError> {
        self.encoded(pairs, sentences(pairs.iter()))
    }

    fn encoded_parts(&self, pairs: Splits<Pair>, mut told: Vec<String>) -> Result<Parts<Part>, TaskError> {
        let Splits { train, dev, test, notes } = pairs;
        told.extend(notes);
        told.push(notes::sizes("pairs", train.len(), dev.len(), Some(test.len())));
        let shown = sentences(spread(train.len(), Some(SHOWN_OF_TRAINING)).map(|at| &train[at]));
        let all = train.len();
        let (train, dev, test) = (self.encoded(&train, shown)?, self.scored(&dev)?, self.scored(&test)?);
        for (split, part) in [(Split::Train, &train), (Split::Dev, &dev), (Split::Test, &test)] {
            if part.left_out > 0 {
                let (out, most) = (part.left_out, self.longest());
                told.push(format!("{out} {split} pairs are empty or longer than {most} tokens: left out of the loss"));
            }
        }
        if train.pairs.len() == 0 {
            let got = format!("none among {all}");
            return Err(TaskError::input("training pairs", "at least one that is neither empty nor too long", got));
        }
        Ok(Parts { train, dev, test: Some(test), notes: told })
    }

    /// Computes the loss of some pairs.
    fn pair_loss(&self, pairs: &[Encoded], model: &Network, smoothing: f32, pass: &Pass) -> Result<Loss, TaskError> {
        let sources = Texts::new(pairs.iter().map(|pair| pair.source.to_vec()).collect());
        let targets: Vec<Vec<u32>> = pairs.iter().map(|pair| pair.target.to_vec()).collect();
        let mean = translation_loss(translator(model), &sources, &targets, self.start, smoothing, pass)?;
        let count: usize = targets.iter().map(Vec::len).sum();
        let tokens = count + sources.ids.iter().map(Vec::len).sum::<usize>();
        Ok(Loss { mean, targets: count, tokens })
    }

    /// Translates sources.
    fn translated(&self, model: &Network, sources: &[&[u32]], pass: &Pass) -> Result<Vec<Vec<u32>>, TaskError> {
        let DecodeKeys { beams, length_penalty } = self.config.more.decode;
        let wish = Wish { beams, length_penalty, ..Wish::default() };
        let plan = self.generation.plan(&wish)?;
        let lengths: Vec<usize> = sources.iter().map(|source| source.len()).collect();
        let budget = Budget { tokens: SCORING.tokens / plan.beams, ..SCORING };
        let mut found = vec![Vec::new(); sources.len()];
        let tokenizer = self.base.tokenizer()?;
        let decode = |ids: &[u32]| tokenizer.decode(ids).unwrap_or_default();
        let batches = in_order(&lengths, budget);
        for (done, batch) in batches.iter().enumerate() {
            pass.report(done, batches.len())?;
            let texts = Texts::new(batch.iter().map(|&at| sources[at].to_vec()).collect());
            let starts = self.generation.translations(&self.base.config, &texts, &wish)?;
            for (&at, tokens) in batch.iter().zip(written(model, &texts, &starts, &plan, &decode, pass)?) {
                found[at] = tokens;
            }
        }
        Ok(found)
    }

    fn texts(&self, found: &[Vec<u32>]) -> Result<Vec<String>, TaskError> {
        let tokenizer = self.base.tokenizer()?;
        found.iter().map(|ids| self.generation.text(tokenizer, ids)).collect()
    }
}

fn translator(model: &Network) -> &EncoderDecoder {
    match model {
        Network::Translation(model) => model,
        _ => unreachable!("the goal is a translator"),
    }
}

/// Computes the mean loss of the tokens of `targets`, each of which the decoder predicts from `start` and those before it.
pub(super) fn translation_loss(
    model: &EncoderDecoder,
    sources: &Texts,
    targets: &[Vec<u32>],
    start: u32,
    smoothing: f32,
    pass: &Pass,
) -> Result<Tensor<1>, TaskError> {
    let device = device_of(model);
    let read: Vec<Vec<u32>> = targets.iter().map(|target| shifted(start, target)).collect();
    let options = CrossEntropyOptions { ignore_index: Some(i64::from(PADDING)), label_smoothing: smoothing };
    let source = model.encode(padded(&sources.ids, &device)?, sources.lengths(), pass)?;
    let wanted = padded_with(PADDING, targets, &device)?;
    Ok(model.loss(&source, padded(&read, &device)?, wanted, options, pass)?)
}

/// Returns the tokens that a decoder reads to predict those of a target.
pub(in crate::hugging_face) fn shifted(start: u32, target: &[u32]) -> Vec<u32> {
    let before = target.split_last().map_or(&[][..], |(_, before)| before);
    [&[start], before].concat()
}

impl Task for TunedTranslate {
    const NAME: &'static str = "translate";
    const CONFIG: &'static str = include_str!("../../../../../configs/finetune-translate.toml");
    type Config = Config;
    type Model = Network;
    type Part = Part;
    type Input = Typed;
    const INPUT: InputKind = InputKind::Text;

    fn choose(facts: &Facts, asked: &Asked<Config>) -> Option<Choice> {
        let load = Load::of_texts(asked.config.model.keys().from.as_deref(), facts);
        Some(choose(Way::of_rank(asked.config.more.lora.rank), load, facts, ("pairs", 16), asked))
    }

    fn start(mut config: Config) -> Result<(Self, Parts<Part>), TaskError> {
        make_absolute(&mut config.model.keys_mut().from)?;
        let pairs = config.data.files().read()?;
        let (base, told) = Base::start(config.model.keys(), &config.more.lora, &Goal::Translation)?;
        let task = Self::new(config, base)?;
        let parts = task.encoded_parts(pairs, told)?;
        Ok((task, parts))
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.base.files()
    }

    fn open(config: Config, files: &Files) -> Result<Self, TaskError> {
        let base = Base::open(files, config.model.keys(), &config.more.lora)?;
        Self::new(config, base)
    }

    fn parts(&self) -> Result<Parts<Part>, TaskError> {
        self.encoded_parts(self.config.data.files().read()?, Vec::new())
    }

    fn raw(config: &Config) -> Result<Option<Splits<RawExample>>, TaskError> {
        Ok(Some(config.data.files().raw()?))
    }

    fn part(&self, path: &Path) -> Result<Part, TaskError> {
        self.scored(&read_pairs(path, &self.config.data.files().columns_of(path))?.examples)
    }

    fn described(&self) -> Option<count::Description> {
        let sizes = sizes(self.config.train.batch_tokens, self.longest());
        Some(count::Description { sizes, ..self.base.described()? })
    }

    of_base!();

    fn plan(&self, train: &Part, epoch: u64) -> Vec<Vec<usize>> {
        let lengths: Vec<usize> = train.pairs.iter().map(|pair| pair.longest()).collect();
        batches(&lengths, self.config.train.budget(), self.config.seed, epoch)
    }

    fn loss(
        &self,
        train: &Part,
        batch: &[usize],
        model: &Network,
        _: &mut Value,
        pass: &Pass,
    ) -> Result<Loss, TaskError> {
        let pairs: Vec<Encoded> = batch.iter().map(|&at| train.pairs.get(at)).collect();
        self.pair_loss(&pairs, model, self.config.train.label_smoothing, pass)
    }

    fn evaluate(
        &self,
        part: &Part,
        model: &Network,
        limit: Option<usize>,
        pass: &Pass,
    ) -> Result<Evaluation, TaskError> {
        let pairs: Vec<Encoded> = spread(part.pairs.len(), limit).map(|at| part.pairs.get(at)).collect();
        let lengths: Vec<usize> = pairs.iter().map(|pair| pair.longest()).collect();
        let (mut nats, mut targets) = (0.0, 0usize);
        for batch in in_order(&lengths, SCORING) {
            pass.check_cancelled()?;
            let pairs: Vec<Encoded> = batch.iter().map(|&at| pairs[at]).collect();
            let loss = self.pair_loss(&pairs, model, 0.0, pass)?;
            nats += f64::from(loss.mean.into_scalar::<f32>()) * loss.targets as f64;
            targets += loss.targets;
        }
        let sentences: Vec<&Sentence> = spread(part.sentences.len(), limit).map(|at| &part.sentences[at]).collect();
        let longest = self.longest();
        let source = |sentence: &&Sentence| -> Result<Vec<u32>, TaskError> {
            let mut ids = self.source(&sentence.source)?.ids;
            // A source that is too long is cut before its last token, which ends it.
            if ids.len() > longest {
                ids.drain(longest - 1..ids.len() - 1);
            }
            Ok(ids)
        };
        let sources = sentences.iter().map(source).collect::<Result<Vec<_>, _>>()?;
        let sources: Vec<&[u32]> = sources.iter().map(Vec::as_slice).collect();
        let found = self.texts(&self.translated(model, &sources, pass)?)?;
        Ok(evaluation(&sentences, &found, (targets > 0).then(|| nats / targets as f64), &[]))
    }

    fn questions(&self, path: &Path) -> Result<Option<Questions>, TaskError> {
        Ok(read_sources(path, &self.config.data.files().columns_of(path))?.map(Questions::lines))
    }

    fn input(&self, given: &Given) -> Result<Typed, TaskError> {
        let own = self.config.data.source.as_ref().and_then(Column::name);
        let text = given.text_under(&[own.unwrap_or("source"), "source"])?;
        let encoded = self.source(text)?;
        check_length(&text, encoded.ids.len(), self.longest(), "tokens")?;
        Ok(Typed { text: text.to_string(), encoded })
    }

    fn given(&self, input: &Typed) -> Given {
        Given::from(input.text.as_str())
    }

    fn predict(&self, model: &Network, inputs: &[Typed], pass: &Pass) -> Result<Vec<Prediction>, TaskError> {
        let sources: Vec<&[u32]> = inputs.iter().map(|input| input.encoded.ids.as_slice()).collect();
        let found = self.texts(&self.translated(model, &sources, pass)?)?;
        Ok(found.into_iter().map(Prediction::of_translation).collect())
    }

    fn samples(&self, part: &Part, count: usize) -> Vec<Sample> {
        samples(&part.sentences, count).filter(|sample| self.input(&sample.given).is_ok()).collect()
    }

    fn telling(&self, _: &Network) -> Result<Typed, TaskError> {
        self.input(&Given::from("I saw a saw."))
    }

    fn look(&self, model: &Network, Typed { text, encoded }: &Typed, pass: &Pass) -> Result<Legend, TaskError> {
        let found = self.translated(model, &[&encoded.ids], &pass.without_capture())?;
        let ended: Vec<u32> = found[0].iter().copied().chain([self.end]).collect();
        let read = shifted(self.start, &ended);
        let device = device_of(model);
        let source = translator(model).encode(padded(std::slice::from_ref(&encoded.ids), &device)?, None, pass)?;
        translator(model).logits(&source, padded(std::slice::from_ref(&read), &device)?, pass)?;
        let tokenizer = self.base.tokenizer()?;
        let names = |ids: &[u32]| ids.iter().map(|&id| tokenizer.token(id).unwrap_or_default()).collect();
        let title = format!("{text} → {}", self.generation.text(tokenizer, &found[0])?);
        Ok(Legend::of_translation(title, encoded.tokens.clone(), names(&read), names(&ended)))
    }

    fn extras(&self, model: &Network) -> Result<BTreeMap<String, Vec<u8>>, TaskError> {
        Ok(self.base.adapter_files(model, Some("SEQ_2_SEQ_LM"), None))
    }

    fn export(&self, model: &Network, to: &Path) -> Result<(), TaskError> {
        export(&self.base, model, None, to)
    }
}
