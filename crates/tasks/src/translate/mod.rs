//! Translation, n → m: a Transformer or a recurrent network with attention learns from pairs of sentences and translates by
//! greedy or beam search.
//!
//! Source and target share one tokeniser and one embedding. The encoder reads the source and `</s>`; the decoder reads `<s>`
//! and the target, and predicts the target and `</s>`.

mod choice;
mod config;
pub(crate) mod encoded;
pub(crate) mod files;
pub(crate) mod scoring;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::Module;
use rayon::prelude::*;
use regard_data::{
    Budget, Column, END, PAD, Pair, START, Split, Splits, Tokenizer, TokenizerKind, UNK, batches, in_order,
    lacks_spaces, read_pairs, read_sources,
};
use regard_inspect::count::{Architecture, Description, RecurrentModel};
use regard_inspect::show::position::Trained;
use regard_nn::layers::attention::context::Selection;
use regard_nn::models::encoder_decoder::EncoderDecoder;
use regard_nn::models::recurrent_translator::RecurrentTranslator;
use regard_nn::models::stack::TokenEmbedding;
use regard_nn::{Init, Pass};
use regard_ops::CrossEntropyOptions;
use serde_json::Value;

pub use self::config::Config;
use self::config::NetworkConfig;
use self::encoded::{Encoded, Pairs, Sentence, sentences};
use self::scoring::{evaluation, samples};
use crate::auto::{Asked, Choice, Facts};
use crate::decode::{Hypothesis, RecurrentDecoder, TransformerDecoder, beam};
use crate::error::TaskError;
use crate::folder::{Files, tokenizer_file};
use crate::hugging_face::{TranslatorParts, export_marian, no_recurrence};
use crate::input::{Given, InputKind, check_length};
use crate::model::{Chosen, sizes};
use crate::notes;
use crate::rewards;
use crate::rows::{SCORING, device_of, padded, spread};
use crate::survey::RawExample;
use crate::task::{Evaluation, Legend, Loss, Parts, Prediction, Questions, Sample, Task};

/// Number of training pairs whose text is kept, to show some of them.
const SHOWN_OF_TRAINING: usize = 1_000;
/// Number of pairs tokenised at once, on all threads.
const ENCODED_TOGETHER: usize = 4_096;

/// A translation model.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a model has only one")]
pub enum Translator {
    /// Transformer encoder and decoder.
    Transformer(EncoderDecoder),
    /// Recurrent encoder and decoder, with or without attention.
    Recurrent(RecurrentTranslator),
}

/// A sentence to translate, with its tokens.
#[derive(Debug, Clone)]
pub struct Typed {
    text: String,
    ids: Vec<u32>,
}

/// The examples of a split.
#[derive(Debug, Default)]
pub struct Part {
    /// Tokens of the pairs that are neither empty nor too long.
    pairs: Pairs,
    /// Sources to translate, with their references; in the training split only those that may be shown.
    sentences: Vec<Sentence>,
    /// Number of pairs left out because they are empty or longer than `data.max_length`, and longer than `data.longest`.
    left_out: [usize; 2],
}

/// The translation task; see the [module](self).
#[derive(Debug)]
pub struct Translate {
    config: Config,
    tokenizer: Tokenizer,
}

impl Translate {
    /// Encodes the splits of a run, and drops each as soon as it is encoded: a large file must not be in memory twice.
    fn encoded_parts(&self, pairs: Splits<Pair>) -> Result<Parts<Part>, TaskError> {
        let Splits { train, dev, test, mut notes } = pairs;
        let all = train.len();
        notes.push(notes::sizes("pairs", all, dev.len(), Some(test.len())));
        if lacks_spaces(texts(&train)) {
            notes.extend(notes::unspaced(self.tokenizer.kind()));
        }
        let (train, dev, test) = (self.learnt(train), self.scored(dev), self.scored(test));
        let what = if self.tokenizer.kind() == TokenizerKind::Word { "words" } else { "characters" };
        let parts = [(Split::Train, &train), (Split::Dev, &dev), (Split::Test, &test)];
        notes.extend(notes::unknown(what, UNK, parts.map(|(split, part)| (split, part.pairs.ids()))));
        let [left_out, longer] = train.left_out;
        if left_out > 0 {
            let most = self.config.data.max_length;
            notes.push(format!(
                "{left_out} pairs are empty or longer than {most} tokens (data.max_length): left out of training"
            ));
        }
        if let Some(longest) = self.config.data.longest {
            notes.push(format!("{longer} pairs are longer than {longest} tokens (data.longest): left out of training"));
        }
        if train.pairs.len() == 0 {
            let got = format!("none among {all}");
            return Err(TaskError::input("training pairs", "at least one that is neither empty nor too long", got));
        }
        Ok(Parts { train, dev, test: Some(test), notes })
    }

    /// Encodes pairs for training, without those longer than `data.longest`.
    fn learnt(&self, pairs: Vec<Pair>) -> Part {
        let shown = sentences(spread(pairs.len(), Some(SHOWN_OF_TRAINING)).map(|at| &pairs[at]));
        self.encoded(&pairs, shown, self.config.data.longest)
    }

    /// Encodes pairs for scoring.
    fn scored(&self, pairs: Vec<Pair>) -> Part {
        let all = sentences(pairs.iter());
        self.encoded(&pairs, all, None)
    }

    /// Tokenises pairs, leaving out those that are empty or too long.
    fn encoded(&self, pairs: &[Pair], sentences: Vec<Sentence>, longest: Option<usize>) -> Part {
        let mut part = Part { sentences, ..Part::default() };
        let fits = |tokens: &[u32]| (1..=self.config.data.max_length).contains(&tokens.len());
        let ids = |pair: &Pair| [self.tokenizer.ids(pair.source()), self.tokenizer.ids(pair.target())];
        for some in pairs.chunks(ENCODED_TOGETHER) {
            let encoded: Vec<[Vec<u32>; 2]> = some.par_iter().map(ids).collect();
            for [source, target] in &encoded {
                let pair = Encoded { source, target };
                match fits(source) && fits(target) {
                    false => part.left_out[0] += 1,
                    true if longest.is_some_and(|longest| pair.longest() > longest) => part.left_out[1] += 1,
                    true => part.pairs.push(pair),
                }
            }
        }
        part
    }

    /// Computes the loss of some pairs.
    fn pair_loss(
        &self,
        pairs: &[Encoded],
        model: &Translator,
        memory: &mut Value,
        smoothing: f32,
        pass: &Pass,
    ) -> Result<Loss, TaskError> {
        let device = device_of(model);
        let with = |before: Option<u32>, tokens: &[u32], after: Option<u32>| -> Vec<u32> {
            before.into_iter().chain(tokens.iter().copied()).chain(after).collect()
        };
        let source: Vec<Vec<u32>> = pairs.iter().map(|pair| with(None, pair.source, Some(END))).collect();
        let read: Vec<Vec<u32>> = pairs.iter().map(|pair| with(Some(START), pair.target, None)).collect();
        let wanted: Vec<Vec<u32>> = pairs.iter().map(|pair| with(None, pair.target, Some(END))).collect();
        let (source, lengths) = padded(&source, &device);
        let (read, read_lengths) = padded(&read, &device);
        let (wanted, _) = padded(&wanted, &device);
        let targets: usize = read_lengths.iter().sum();
        let tokens = targets + lengths.iter().sum::<usize>();
        let options = CrossEntropyOptions { ignore_index: Some(i64::from(PAD)), label_smoothing: smoothing };
        let mean = match model {
            Translator::Transformer(model) => {
                let source = model.encode(source, Some(lengths), pass)?;
                model.loss(&source, read, wanted, options, pass)?
            }
            Translator::Recurrent(model) => {
                let source = model.encode(source, Some(lengths), pass)?;
                let found = model.loss(&source, read, wanted, options, pass)?;
                rewards::total(found, memory)?
            }
        };
        Ok(Loss { mean, targets, tokens })
    }

    /// Searches for the best translations of each source.
    fn search(&self, model: &Translator, sources: &[&[u32]], pass: &Pass) -> Result<Vec<Vec<Hypothesis>>, TaskError> {
        let device = device_of(model);
        let lengths: Vec<usize> = sources.iter().map(|source| source.len() + 1).collect();
        let budget = Budget { tokens: SCORING.tokens / self.config.more.decode.size.max(1), ..SCORING };
        let mut found: Vec<Vec<Hypothesis>> = vec![Vec::new(); sources.len()];
        let batches = in_order(&lengths, budget);
        for (done, batch) in batches.iter().enumerate() {
            pass.report(done, batches.len())?;
            let rows: Vec<Vec<u32>> =
                batch.iter().map(|&row| sources[row].iter().copied().chain([END]).collect()).collect();
            let (ids, lengths) = padded(&rows, &device);
            // A translation is hardly ever three times as long as its source, unless the source is very short.
            let limits: Vec<usize> = lengths.iter().map(|&length| 3 * length + 10).collect();
            let options = &self.config.more.decode;
            let hypotheses = match model {
                Translator::Transformer(model) => {
                    let source = model.encode(ids, Some(lengths), pass)?;
                    let mut decoder = TransformerDecoder::new(model.writer(), source, *pass);
                    beam(&mut decoder, START, END, &self.within(&limits), options)?
                }
                Translator::Recurrent(model) => {
                    let source = model.encode(ids, Some(lengths), pass)?;
                    let mut decoder = RecurrentDecoder::new(model.writer(), source, *pass);
                    beam(&mut decoder, START, END, &self.within(&limits), options)?
                }
            };
            for (&row, hypotheses) in batch.iter().zip(hypotheses) {
                found[row] = hypotheses;
            }
        }
        Ok(found)
    }

    /// Limits lengths to `data.max_length`, beyond which learned positions are not trained.
    fn within(&self, limits: &[usize]) -> Vec<usize> {
        limits.iter().map(|&limit| limit.min(self.config.data.max_length)).collect()
    }

    /// The prediction for the best hypothesis of a search.
    fn predicted(&self, found: &[Hypothesis]) -> Prediction {
        let output = self.text(found);
        let score = found.first().map_or(f64::NAN, |best| best.log_probability);
        let more = BTreeMap::from([
            ("translation".to_string(), Value::from(output.clone())),
            ("log_probability".to_string(), Value::from(score)),
        ]);
        Prediction::new(output, more)
    }

    fn text(&self, hypotheses: &[Hypothesis]) -> String {
        hypotheses.first().map_or_else(String::new, |best| self.tokenizer.decode(&best.tokens))
    }
}

impl Task for Translate {
    const NAME: &'static str = "translate";
    const CONFIG: &'static str = include_str!("../../../../configs/translate.toml");
    type Config = Config;
    type Model = Translator;
    type Part = Part;
    type Input = Typed;
    const INPUT: InputKind = InputKind::Text;

    fn choose(facts: &Facts, asked: &Asked<Config>) -> Option<Choice> {
        Some(choice::choose(facts, asked))
    }

    fn start(mut config: Config) -> Result<(Self, Parts<Part>), TaskError> {
        let pairs = config.data.files().read()?;
        let tokenizer = config.data.tokenizer.train(texts(&pairs.train))?;
        let task = Self { config, tokenizer };
        let parts = task.encoded_parts(pairs)?;
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
        self.encoded_parts(self.config.data.files().read()?)
    }

    fn raw(config: &Config) -> Result<Option<Splits<RawExample>>, TaskError> {
        Ok(Some(config.data.files().raw()?))
    }

    fn part(&self, path: &Path) -> Result<Part, TaskError> {
        Ok(self.scored(read_pairs(path, &self.config.data.files().columns_of(path))?.examples))
    }

    fn described(&self) -> Option<Description> {
        let vocab = self.tokenizer.vocab();
        let network = NetworkConfig::of(&self.config.model, vocab);
        // The samples of hard attention are written together.
        let samples = match &network {
            NetworkConfig::Transformer(_) => 1,
            NetworkConfig::Recurrent(model) => model.selection.samples(),
        };
        let architecture = match network {
            NetworkConfig::Transformer(config) => Architecture::EncoderDecoder(config),
            // Encoder and decoder as one stack; the parameters of the attention are few in comparison.
            NetworkConfig::Recurrent(model) => Architecture::Recurrent(RecurrentModel {
                cell: model.cell,
                d_in: model.d_model,
                d_hidden: model.d_hidden,
                n_layers: 2 * model.n_layers,
                vocab: Some(vocab),
                outputs: Some(vocab),
                ..RecurrentModel::default()
            }),
        };
        let tokens = self.config.train.batch_tokens.saturating_mul(samples);
        let sizes = sizes(tokens, self.config.data.max_length);
        Some(Description { sizes, ..Description::new(architecture) })
    }

    fn model(&self, init: &Init) -> Result<Translator, TaskError> {
        Ok(match NetworkConfig::of(&self.config.model, self.tokenizer.vocab()) {
            NetworkConfig::Transformer(config) => Translator::Transformer(EncoderDecoder::new(&config, init)?),
            NetworkConfig::Recurrent(config) => Translator::Recurrent(RecurrentTranslator::new(&config, init)?),
        })
    }

    fn plan(&self, train: &Part, epoch: u64) -> Vec<Vec<usize>> {
        let lengths: Vec<usize> = train.pairs.iter().map(|pair| pair.longest() + 1).collect();
        batches(&lengths, self.config.train.budget(), self.config.seed, epoch)
    }

    fn loss(
        &self,
        train: &Part,
        batch: &[usize],
        model: &Translator,
        memory: &mut Value,
        pass: &Pass,
    ) -> Result<Loss, TaskError> {
        let pairs: Vec<Encoded> = batch.iter().map(|&index| train.pairs.get(index)).collect();
        self.pair_loss(&pairs, model, memory, self.config.train.label_smoothing, pass)
    }

    /// False for hard attention, whose reward baseline depends on the whole batch.
    fn is_divisible(&self) -> bool {
        match self.config.model.chosen() {
            Chosen::Transformer(_) => true,
            Chosen::Recurrent(_, keys) => keys.more.selection == Selection::Soft,
        }
    }

    fn evaluate(
        &self,
        part: &Part,
        model: &Translator,
        limit: Option<usize>,
        pass: &Pass,
    ) -> Result<Evaluation, TaskError> {
        let pairs: Vec<Encoded> = spread(part.pairs.len(), limit).map(|at| part.pairs.get(at)).collect();
        let lengths: Vec<usize> = pairs.iter().map(|pair| pair.longest() + 1).collect();
        let (mut nats, mut targets) = (0.0, 0usize);
        for batch in in_order(&lengths, SCORING) {
            pass.check_cancelled()?;
            let pairs: Vec<Encoded> = batch.iter().map(|&index| pairs[index]).collect();
            let loss = self.pair_loss(&pairs, model, &mut Value::Null, 0.0, pass)?;
            nats += f64::from(loss.mean.into_scalar::<f32>()) * loss.targets as f64;
            targets += loss.targets;
        }
        let sentences: Vec<&Sentence> = spread(part.sentences.len(), limit).map(|at| &part.sentences[at]).collect();
        let most = self.config.data.max_length;
        let mut sources: Vec<Vec<u32>> =
            sentences.iter().map(|sentence| self.tokenizer.ids(&sentence.source)).collect();
        let longest = self.config.data.longest.unwrap_or(usize::MAX);
        let longer: Vec<usize> = (0..sources.len()).filter(|&at| sources[at].len() > longest).collect();
        // A source that is too long for the model is cut, and the translation of its beginning is scored.
        sources.iter_mut().for_each(|source| source.truncate(most));
        let sources: Vec<&[u32]> = sources.iter().map(Vec::as_slice).collect();
        let found: Vec<String> = self.search(model, &sources, pass)?.iter().map(|found| self.text(found)).collect();
        let loss = (targets > 0).then(|| nats / targets as f64);
        Ok(evaluation(&sentences, &found, loss, &longer))
    }

    fn questions(&self, path: &Path) -> Result<Option<Questions>, TaskError> {
        Ok(read_sources(path, &self.config.data.files().columns_of(path))?.map(Questions::lines))
    }

    fn input(&self, given: &Given) -> Result<Typed, TaskError> {
        let own = self.config.data.source.as_ref().and_then(Column::name);
        let text = given.text_under(&[own.unwrap_or("source"), "source"])?;
        let ids = self.tokenizer.ids(text);
        check_length(&text, ids.len(), self.config.data.max_length, "tokens")?;
        Ok(Typed { text: text.to_string(), ids })
    }

    fn given(&self, input: &Typed) -> Given {
        Given::from(input.text.as_str())
    }

    fn predict(&self, model: &Translator, inputs: &[Typed], pass: &Pass) -> Result<Vec<Prediction>, TaskError> {
        let sources: Vec<&[u32]> = inputs.iter().map(|input| input.ids.as_slice()).collect();
        let found = self.search(model, &sources, pass)?;
        Ok(found.iter().map(|found| self.predicted(found)).collect())
    }

    fn samples(&self, part: &Part, count: usize) -> Vec<Sample> {
        samples(&part.sentences, count).collect()
    }

    fn telling(&self, _: &Translator) -> Result<Typed, TaskError> {
        self.input(&Given::from("I saw a saw."))
    }

    fn positions<'a>(&self, model: &'a Translator) -> Vec<Trained<'a>> {
        let Translator::Transformer(model) = model else { return Vec::new() };
        let longest = self.config.data.max_length;
        let of = |part, embedding: &'a TokenEmbedding| Trained { part, layer: &embedding.position, longest };
        match &model.target_embedding {
            Some(target) => vec![of("encoder", &model.source_embedding), of("decoder", target)],
            None => vec![of("encoder and decoder", &model.source_embedding)],
        }
    }

    fn export(&self, model: &Translator, to: &Path) -> Result<(), TaskError> {
        let NetworkConfig::Transformer(config) = NetworkConfig::of(&self.config.model, self.tokenizer.vocab()) else {
            return Err(no_recurrence(Self::NAME));
        };
        let (decode, max_length) = (self.config.more.decode, self.config.data.max_length);
        let parts = TranslatorParts { tokenizer: &self.tokenizer.to_json(), decode, max_length };
        export_marian(&config, model, &parts, to)
    }

    fn look(&self, model: &Translator, Typed { text, ids: source }: &Typed, pass: &Pass) -> Result<Legend, TaskError> {
        let found = self.search(model, &[source], &pass.without_capture())?;
        let best = found[0].first().map_or(Vec::new(), |best| best.tokens.clone());
        let device = device_of(model);
        let (ids, lengths) = padded(&[source.iter().copied().chain([END]).collect::<Vec<_>>()], &device);
        let (read, _) = padded(&[[START].into_iter().chain(best.iter().copied()).collect::<Vec<_>>()], &device);
        match model {
            Translator::Transformer(model) => {
                let encoded = model.encode(ids, Some(lengths), pass)?;
                model.logits(&encoded, read, pass)?;
            }
            Translator::Recurrent(model) => {
                let encoded = model.encode(ids, Some(lengths), pass)?;
                model.logits(&encoded, read, pass)?;
            }
        }
        let pieces = |ids: &[u32]| -> Vec<String> {
            ids.iter().map(|&id| self.tokenizer.token(id).unwrap_or_default()).collect()
        };
        let ended = |mut tokens: Vec<String>| {
            tokens.push("</s>".to_string());
            tokens
        };
        let source = ended(pieces(source));
        let written = ended(pieces(&best));
        let read: Vec<String> = ["<s>".to_string()].into_iter().chain(pieces(&best)).collect();
        let sure = self.predicted(&found[0]).certainty();
        let title = format!("{text} → {}{sure}", self.tokenizer.decode(&best));
        Ok(Legend::of_translation(title, source, read, written))
    }
}

/// Iterates over the sources and targets of pairs.
fn texts(pairs: &[Pair]) -> impl Iterator<Item = &str> + Clone {
    pairs.iter().flat_map(|pair| [pair.source(), pair.target()])
}
