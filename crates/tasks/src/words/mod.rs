//! Word vectors: skip-gram and CBOW with negative sampling (Mikolov 2013) on plain text.
//!
//! An example is a passage of text. The pairs of words learnt from it depend only on the seed, the epoch and the passage
//! ([`draws`]).

mod ask;
mod choice;
mod config;
mod draws;
mod lexicon;
mod picture;
mod plane;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use burn::tensor::{Int, Tensor, TensorData};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use regard_data::{Splits, builtin, excerpt, lacks_spaces, read_text, split_text};
use regard_figures::Content;
use regard_inspect::count::{Description, Extra, Sizes};
use regard_nn::models::word_vectors::{WordVectors, WordVectorsConfig};
use regard_nn::{Init, Pass};
use serde_json::{Value, json};

use self::ask::{Question, SHOWN, Section, Table, known, read_analogies};
pub use self::config::{Config, Kind, ModelConfig};
use self::draws::{Draws, generator};
use self::lexicon::{Lexicon, Part, plain, words};
use crate::auto::{Asked, Choice, Facts};
use crate::error::TaskError;
use crate::folder::Files;
use crate::input::{Given, InputKind};
use crate::model::lookup;
use crate::notes;
use crate::rows::{device_of, spread};
use crate::survey::RawExample;
use crate::task::{Better, Evaluation, Legend, Loss, Parts, Picture, Prediction, Sample, Task};
use crate::train::TrainConfig;

const VOCABULARY: &str = "vocabulary.json";
const ANALOGIES: &str = "analogies.json";
/// File with the vectors in the text format of word2vec, for other programs.
pub(crate) const VECTORS: &str = "vectors.txt";
/// Words of a batch when no gradients are kept.
const SCORED_WORDS: usize = 4_096;
/// Seed of all evaluations, independent of the seed of the run, so that losses are comparable.
const SCORING_SEED: u64 = 0xE7A1;

/// The word-vector task; see the [module](self).
#[derive(Debug)]
pub struct Words {
    config: Config,
    lexicon: Lexicon,
    draws: Draws,
    analogies: Vec<Section>,
}

impl Words {
    fn new(config: Config, lexicon: Lexicon, analogies: Vec<Section>) -> Result<Self, TaskError> {
        let ModelConfig { window, negatives, .. } = config.model;
        let draws = Draws::new(&lexicon.counts, config.data.subsample, window, negatives)?;
        Ok(Self { config, lexicon, draws, analogies })
    }

    fn texts(config: &Config) -> Result<Splits<String>, TaskError> {
        let Some(path) = &config.data.path else { return Ok(stories()) };
        Ok(split_text(path)?)
    }

    /// Encodes a text as passages; refuses a text that has none.
    fn encoded(&self, texts: &[String], name: &str) -> Result<Part, TaskError> {
        let text = plain(&texts.join("\n\n"), self.config.data.case);
        let part = self.lexicon.part(&text);
        if part.len() == 0 {
            let got = format!("none in {} words", words(&text).count());
            return Err(TaskError::input(name, "a passage with two or more words of the training text", got));
        }
        Ok(part)
    }

    /// Encodes the splits of a run.
    fn encoded_parts(&self, texts: Splits<String>) -> Result<Parts<Part>, TaskError> {
        let train = self.encoded(&texts.train, "training text")?;
        let dev = self.encoded(&texts.dev, "dev text")?;
        let test = match texts.test.is_empty() {
            true => None,
            false => Some(self.encoded(&texts.test, "test text")?),
        };
        let mut notes = texts.notes;
        notes.push(notes::sizes("words", train.words(), dev.words(), test.as_ref().map(Part::words)));
        notes.push(format!("{} words to learn from, {} of them distinct", train.words(), self.lexicon.words.len()));
        if lacks_spaces(texts.train.iter().map(String::as_str)) {
            notes.push("the text has no spaces between words, so whole phrases count as words: split it first".into());
        }
        let asked: usize = self.questions().iter().map(|(_, questions)| questions.len()).sum();
        let all: usize = self.analogies.iter().map(|section| section.questions.len()).sum();
        if asked < all {
            notes.push(format!("{} of {all} analogies are left out: the text lacks some of their words", all - asked));
        }
        Ok(Parts { train, dev, test, notes })
    }

    /// Draws examples from some passages and computes their mean loss and number of targets; `None` if there are no targets.
    fn drawn_loss(
        &self,
        part: &Part,
        passages: &[(usize, u64)],
        random: &ChaCha8Rng,
        model: &WordVectors,
    ) -> Result<Option<(Tensor<1>, usize)>, TaskError> {
        let found = self.draws.examples(part, passages, self.config.model.kind, random);
        let (n, device) = (found.centres.len(), device_of(model));
        if n == 0 {
            return Ok(None);
        }
        let row = |ids: Vec<i32>| Tensor::<1, Int>::from_data(TensorData::new(ids, [n]), &device);
        let ModelConfig { window, negatives, .. } = self.config.model;
        let wrong = Tensor::<2, Int>::from_data(TensorData::new(found.wrong, [n, negatives]), &device);
        let mean = match self.config.model.kind {
            Kind::SkipGram => model.skip_gram_loss(row(found.centres), row(found.around), wrong)?,
            Kind::Cbow => {
                let around = Tensor::<2, Int>::from_data(TensorData::new(found.around, [n, 2 * window]), &device);
                model.cbow_loss(around, &found.counts, row(found.centres), wrong)?
            }
        };
        Ok(Some((mean, n)))
    }

    fn table(&self, model: &WordVectors) -> Table {
        let values = model.input.val().into_data().iter::<f32>().collect();
        Table { values, width: self.config.model.d_model }
    }

    /// The analogies of each section whose words are all known, as indices.
    fn questions(&self) -> Vec<(&Section, Vec<[usize; 4]>)> {
        let id = |word: &String| self.lexicon.words.get(&plain(word, self.config.data.case));
        let known = |[a, b, c, d]: &[String; 4]| Some([id(a)?, id(b)?, id(c)?, id(d)?]);
        let sections = self.analogies.iter();
        sections.map(|section| (section, section.questions.iter().filter_map(known).collect())).collect()
    }

    /// Accuracy on analogies, with a table of all sections; `None` if no analogy has known words.
    fn analogy_accuracy(&self, model: &WordVectors, limit: Option<usize>) -> Option<(f64, Content)> {
        let table = self.table(model);
        let mut rows = regard_figures::Table::new(["analogies", "asked", "right", "accuracy", "words unknown"]);
        let (mut right, mut asked) = (0, 0);
        for (section, questions) in self.questions() {
            let unknown = section.questions.len() - questions.len();
            let step = limit.map_or(1, |limit| questions.len().div_ceil(limit.max(1)).max(1));
            let some: Vec<[usize; 4]> = questions.into_iter().step_by(step).collect();
            let hits = table.answers(&some, &device_of(model)).into_iter().filter(|hit| *hit).count();
            let share =
                if some.is_empty() { "–".to_string() } else { format!("{:.3}", hits as f64 / some.len() as f64) };
            let name = if section.name.is_empty() { "all" } else { &section.name };
            rows.push([name, &some.len().to_string(), &hits.to_string(), &share, &unknown.to_string()]);
            (right, asked) = (right + hits, asked + some.len());
        }
        (asked > 0).then(|| (right as f64 / asked as f64, Content::Table(rows)))
    }

    fn answer(&self, table: &Table, input: &str) -> Result<Prediction, TaskError> {
        let question = Question::parse(input, self.config.data.case, &self.lexicon)?;
        let name = |word: usize| self.lexicon.words.name(word);
        let mut more = BTreeMap::new();
        let near = match &question {
            Question::Near(word) => table.near(*word, SHOWN),
            Question::Sum(terms) => table.sum(terms, SHOWN),
            Question::Pair(one, other) => {
                let cosine = table.cosine(*one, *other);
                more.insert("cosine".to_string(), json!(cosine));
                return Ok(Prediction::new(format!("{cosine:.3}"), more));
            }
        };
        let list: Vec<Value> =
            near.iter().map(|&(word, cosine)| json!({ "word": name(word), "cosine": cosine })).collect();
        more.insert("neighbours".to_string(), Value::Array(list));
        let output = match question {
            // Only the best word, as the expected answer of an analogy.
            Question::Sum(_) => near.first().map_or(String::new(), |&(word, _)| name(word).to_string()),
            _ => {
                near.iter().map(|&(word, cosine)| format!("{} {cosine:.2}", name(word))).collect::<Vec<_>>().join(", ")
            }
        };
        Ok(Prediction::new(output, more))
    }
}

impl Task for Words {
    const NAME: &'static str = "words";
    const CONFIG: &'static str = include_str!("../../../../configs/words.toml");
    type Config = Config;
    type Model = WordVectors;
    type Part = Part;
    type Input = String;
    const INPUT: InputKind = InputKind::Text;

    fn choose(facts: &Facts, asked: &Asked<Config>) -> Option<Choice> {
        Some(choice::choose(facts, asked))
    }

    fn start(config: Config) -> Result<(Self, Parts<Part>), TaskError> {
        let texts = Self::texts(&config)?;
        let lexicon = {
            let text = plain(&texts.train.join("\n\n"), config.data.case);
            Lexicon::of(&text, config.data.min_count, config.data.max_words)?
        };
        let analogies = match (&config.data.analogies, &config.data.path) {
            (Some(path), _) => read_analogies(path)?,
            (None, None) => built_in_analogies(),
            (None, Some(_)) => Vec::new(),
        };
        let task = Self::new(config, lexicon, analogies)?;
        let parts = task.encoded_parts(texts)?;
        Ok((task, parts))
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let json = |value: Value| value.to_string().into_bytes();
        BTreeMap::from([
            (VOCABULARY.to_string(), json(json!(self.lexicon))),
            (ANALOGIES.to_string(), json(json!(self.analogies))),
        ])
    }

    fn open(config: Config, files: &Files) -> Result<Self, TaskError> {
        let lexicon: Lexicon = files.json(VOCABULARY)?;
        if lexicon.counts.len() != lexicon.words.len() {
            let problem = format!("{} words with {} counts", lexicon.words.len(), lexicon.counts.len());
            return Err(files.damaged(VOCABULARY, problem));
        }
        Self::new(config, lexicon, files.json(ANALOGIES)?)
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn parts(&self) -> Result<Parts<Part>, TaskError> {
        self.encoded_parts(Self::texts(&self.config)?)
    }

    fn raw(config: &Config) -> Result<Option<Splits<RawExample>>, TaskError> {
        Ok(Some(RawExample::lines(Self::texts(config)?)))
    }

    fn part(&self, path: &Path) -> Result<Part, TaskError> {
        self.encoded(&[read_text(path)?], "text")
    }

    /// Describes two tables of vectors, and the number of vectors that a batch looks up.
    fn described(&self) -> Option<Description> {
        let ModelConfig { kind, d_model, window, negatives } = self.config.model;
        let (vocab, words) = (self.lexicon.words.len(), self.config.train.batch_tokens);
        let sizes = match kind {
            // The window reaches (window + 1) / 2 words to each side on average.
            Kind::SkipGram => Sizes { batch: words.saturating_mul(window + 1), ..Sizes::of(negatives + 1) },
            Kind::Cbow => Sizes { batch: words, ..Sizes::of(2 * window + negatives + 1) },
        };
        let extra = vec![Extra::table("contexts", vocab, d_model)];
        Some(Description { sizes, extra, ..Description::new(lookup(vocab, d_model)) })
    }

    fn model(&self, init: &Init) -> Result<WordVectors, TaskError> {
        let config = WordVectorsConfig { vocab: self.lexicon.words.len(), d_word: self.config.model.d_model };
        Ok(config.init(init)?)
    }

    fn plan(&self, train: &Part, epoch: u64) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..train.len()).collect();
        let mut random = ChaCha8Rng::seed_from_u64(self.config.seed);
        random.set_stream(epoch);
        order.shuffle(&mut random);
        let TrainConfig { batch_tokens, batch_examples, .. } = self.config.train;
        // Indices continue from epoch to epoch, so that each epoch has its own draws.
        let first = epoch as usize * train.len();
        let (mut batches, mut words) = (Vec::new(), usize::MAX);
        for passage in order {
            let more = train.passage(passage).len();
            if batches
                .last()
                .is_none_or(|batch: &Vec<usize>| batch.len() >= batch_examples || words + more > batch_tokens)
            {
                batches.push(Vec::new());
                words = 0;
            }
            batches.last_mut().expect("a batch was pushed above").push(first + passage);
            words += more;
        }
        batches
    }

    fn loss(
        &self,
        train: &Part,
        batch: &[usize],
        model: &WordVectors,
        _: &mut Value,
        _: &Pass,
    ) -> Result<Loss, TaskError> {
        let passages: Vec<(usize, u64)> = batch.iter().map(|&index| (index % train.len(), index as u64)).collect();
        let tokens = passages.iter().map(|&(passage, _)| train.passage(passage).len()).sum();
        let found = self.drawn_loss(train, &passages, &generator(self.config.seed), model)?;
        // If subsampling leaves at most one word in each passage, there are no targets: the loss has a zero gradient.
        let nothing = || ((model.input.val().sum() + model.output.val().sum()) * 0.0, 0);
        let (mean, targets) = found.unwrap_or_else(nothing);
        Ok(Loss { mean, targets, tokens })
    }

    fn evaluate(
        &self,
        part: &Part,
        model: &WordVectors,
        limit: Option<usize>,
        pass: &Pass,
    ) -> Result<Evaluation, TaskError> {
        let passages: Vec<(usize, u64)> = spread(part.len(), limit).map(|p| (p, p as u64)).collect();
        let random = generator(SCORING_SEED);
        let (mut nats, mut targets) = (0.0, 0usize);
        let together = (SCORED_WORDS * part.len() / part.words().max(1)).max(1);
        for (done, some) in passages.chunks(together).enumerate() {
            pass.report(done, passages.len().div_ceil(together))?;
            if let Some((mean, count)) = self.drawn_loss(part, some, &random, model)? {
                nats += f64::from(mean.into_scalar::<f32>()) * count as f64;
                targets += count;
            }
        }
        let mut scores: Vec<_> = (targets > 0).then(|| ("loss", nats / targets as f64)).into_iter().collect();
        let mut contents = Vec::new();
        if let Some((accuracy, table)) = self.analogy_accuracy(model, limit) {
            scores.push(("analogy_accuracy", accuracy));
            contents.push(table);
        }
        Ok(Evaluation { examples: passages.len(), contents, ..Evaluation::new(scores, "loss", Better::Lower) })
    }

    fn input(&self, given: &Given) -> Result<String, TaskError> {
        given.text().map(str::to_string)
    }

    fn given(&self, input: &String) -> Given {
        Given::from(input.as_str())
    }

    fn predict(&self, model: &WordVectors, inputs: &[String], _: &Pass) -> Result<Vec<Prediction>, TaskError> {
        let table = self.table(model);
        inputs.iter().map(|input| self.answer(&table, input)).collect()
    }

    fn samples(&self, _: &Part, count: usize) -> Vec<Sample> {
        let sections: Vec<Vec<[usize; 4]>> = self
            .questions()
            .into_iter()
            .map(|(_, questions)| questions)
            .filter(|questions| !questions.is_empty())
            .collect();
        let name = |word: usize| self.lexicon.words.name(word).to_string();
        if sections.is_empty() {
            // Words of medium frequency, whose neighbours are the most informative.
            let first = (self.lexicon.words.len() / 20).min(200);
            let words = (first..self.lexicon.words.len()).step_by(7).take(count);
            return words.map(|word| Sample { given: name(word).into(), expected: String::new() }).collect();
        }
        let sample = |index: usize| {
            let questions = &sections[index % sections.len()];
            let [a, b, c, d] = questions[index * 31 % questions.len()];
            Sample { given: format!("{} - {} + {}", name(b), name(a), name(c)).into(), expected: name(d) }
        };
        (0..count).map(sample).collect()
    }

    fn telling(&self, _: &WordVectors) -> Result<String, TaskError> {
        Err(TaskError::Unsupported { task: Self::NAME, what: "show attention: word vectors have none".to_string() })
    }

    fn look(&self, model: &WordVectors, _: &String, _: &Pass) -> Result<Legend, TaskError> {
        self.telling(model).map(|input| Legend::of_tokens(input, Vec::new()))
    }

    fn picture(&self, model: &WordVectors, input: Option<&String>) -> Result<Option<Picture>, TaskError> {
        let table = self.table(model);
        let (title, groups) = match input {
            Some(input) => {
                let line = plain(input, self.config.data.case);
                let asked = words(&line).map(|word| known(word, &self.lexicon, input));
                let asked: Vec<usize> = asked.collect::<Result<_, _>>()?;
                if asked.is_empty() {
                    return Err(TaskError::input(format!("input {}", excerpt(input)), "one or more words", "none"));
                }
                (input.as_str(), picture::around(&table, &self.lexicon, asked, usize::MAX))
            }
            None => ("groups", self.groups(&table)),
        };
        picture::draw(title, &table, &self.lexicon, &groups).map(Some)
    }

    fn extras(&self, model: &WordVectors) -> Result<BTreeMap<String, Vec<u8>>, TaskError> {
        let table = self.table(model);
        let mut text = format!("{} {}\n", self.lexicon.words.len(), table.width);
        for (word, name) in self.lexicon.words.names().iter().enumerate() {
            text.push_str(name);
            for value in table.row(word) {
                write!(text, " {value}").expect("writing to a string cannot fail");
            }
            text.push('\n');
        }
        Ok(BTreeMap::from([(VECTORS.to_string(), text.into_bytes())]))
    }
}

impl Words {
    /// The groups of words that are drawn if no input is given.
    fn groups(&self, table: &Table) -> Vec<picture::Group> {
        if self.config.data.path.is_some() {
            return picture::telling(table, &self.lexicon);
        }
        let id = |word: &&str| self.lexicon.words.get(&plain(word, self.config.data.case));
        let groups = builtin::related().into_iter();
        groups.map(|(name, words)| (name.to_string(), words.iter().filter_map(id).collect())).collect()
    }
}

/// The built-in stories: 90 % for training, 5 % each for dev and test.
fn stories() -> Splits<String> {
    let text = builtin::text(1);
    let passages: Vec<&str> = text.split("\n\n").collect();
    let (train, rest) = passages.split_at(passages.len() * 9 / 10);
    let (dev, test) = rest.split_at(rest.len() / 2);
    let [train, dev, test] = [train, dev, test].map(|passages| vec![passages.join("\n\n")]);
    Splits::new(train, dev, test)
}

/// The built-in analogies, in sections named after the groups of their words.
fn built_in_analogies() -> Vec<Section> {
    let groups = builtin::related();
    let group = |word: &str| groups.iter().find(|(_, words)| words.contains(&word)).map_or("other", |(name, _)| name);
    let mut sections: Vec<Section> = Vec::new();
    for question in builtin::analogies() {
        let name = format!("{} to {}", group(question[0]), group(question[1]));
        let question = question.map(str::to_string);
        match sections.iter_mut().find(|section| section.name == name) {
            Some(section) => section.questions.push(question),
            None => sections.push(Section { name, questions: vec![question] }),
        }
    }
    sections
}
