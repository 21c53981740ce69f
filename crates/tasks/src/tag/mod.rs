//! Tagging, n → n: a tag for each word of a sentence, from the word, its characters and the words around it.
//!
//! Words that are rare in training have no embedding: their tags come from their characters and the context. `model.from`
//! adds the states of a word's pieces in a pre-trained encoder.

mod choice;
mod config;
pub(crate) mod encoded;
mod pieces;
pub(crate) mod scores;
mod size;
pub(crate) mod typed;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use burn::tensor::Tensor;
use regard_data::{
    Source, Split, Splits, TagColumn, Tagged, Untagged, Vocabulary, batches, builtin, excerpt, in_order, is_jsonl,
    listed, load_tagged, read_tagged,
};
use regard_inspect::count::Description;
use regard_inspect::show::position::Trained;
use regard_nn::models::tagger::{Tagger, TaggerConfig};
use regard_nn::{Init, Pass, Side};
use serde_json::{Value, json};

pub use self::config::{Config, DataConfig, ModelConfig};
use self::config::{Sizes, WordsConfig};
use self::encoded::{Encoded, Lexicon, SPECIALS, UNKNOWN, tag_tensor};
use self::pieces::PieceEncoder;
use self::scores::{Outcome, evaluation};
use crate::auto::{Asked, Choice, Facts};
use crate::data_share::keep_share;
use crate::error::TaskError;
use crate::folder::Files;
use crate::input::{Given, InputKind, check_length};
use crate::model::{positions, sizes};
use crate::notes;
use crate::pretrained;
use crate::rows::{SCORING, device_of, spread};
use crate::survey::{RawExample, RawInput};
use crate::task::{Evaluation, Legend, Loss, Parts, Prediction, Questions, Sample, Task};

pub(crate) const WORDS: &str = "words.json";
const CHARACTERS: &str = "characters.json";
pub(crate) const LABELS: &str = "labels.json";
/// Number of distinct tags that is always accepted. If more of them mostly occur once, the column does not hold tags, and
/// would only cost memory.
const FREE_TAGS: usize = 1_000;
/// JSON key of a list of words, as an input and in a prediction.
const TOKENS: &str = "tokens";
/// Factor on the learning rate of a pre-trained encoder that a new run has unless `model.encoder_rate` is set. At the rate of
/// new layers it forgets what it has read: a tagger of 602 sentences has 83.7 % on dev, 89.6 % with this factor, and 89.3 % with
/// a frozen encoder.
const ENCODER_RATE: f32 = 0.03;
/// Input of `look` if none is given: one word with two parts of speech.
pub(crate) const TELLING: &str = "I saw a saw.";
/// Numbers of built-in sentences of the dev and test splits.
const BUILTIN_DEV: usize = 500;
const BUILTIN_TEST: usize = 2_000;

/// The encoded sentences of a split.
#[derive(Debug)]
pub struct Part {
    sentences: Vec<Encoded>,
    /// Tags that the training split does not have.
    extra: Vec<String>,
}

/// The tagging task; see the [module](self).
#[derive(Debug)]
pub struct Tag {
    config: Config,
    lexicon: Lexicon,
    encoder: Option<PieceEncoder>,
}

impl Tag {
    /// Encodes a split.
    fn encoded(&self, sentences: Vec<Tagged>) -> Part {
        let labels = &self.lexicon.labels;
        let extra = unseen_tags(&sentences, labels);
        let sentences = sentences.into_iter().map(|Tagged { tokens, tags }| {
            let tags = tags.iter().map(|tag| tag_number(tag, labels, &extra)).collect();
            self.lexicon.encode(tokens, tags, self.encoder.as_ref())
        });
        Part { sentences: sentences.collect(), extra }
    }

    /// Encodes the splits of a run and adds to the notes on them.
    fn encoded_parts(&self, splits: Splits<Tagged>, mut notes: Vec<String>) -> Parts<Part> {
        let (train, dev, test) = (self.encoded(splits.train), self.encoded(splits.dev), self.encoded(splits.test));
        notes.push(format!("{} tags: {}", self.lexicon.labels.len(), listed(self.lexicon.labels.names())));
        let parts = [(Split::Train, &train), (Split::Dev, &dev), (Split::Test, &test)];
        let words = parts.map(|(split, part)| (split, part.sentences.iter().flat_map(|sentence| &sentence.words)));
        notes.extend(notes::unknown("words", UNKNOWN, words));
        for (split, part) in &parts[1..] {
            notes.extend(notes::unseen(*split, "tags", &part.extra));
        }
        Parts { train, dev, test: Some(test), notes }
    }

    fn tagger(&self) -> TaggerConfig {
        let Lexicon { words, characters, labels, .. } = &self.lexicon;
        let sizes =
            Sizes { words: words.len(), unknown: UNKNOWN as usize, characters: characters.len(), tags: labels.len() };
        let encoder = self.encoder.as_ref().map(|encoder| encoder.config);
        TaggerConfig { encoder, ..self.config.tagger(sizes) }
    }

    /// Predicts the tags of sentences, and computes the loss.
    fn tagged(&self, model: &Tagger, sentences: &[Encoded], pass: &Pass) -> Result<Tagging, TaskError> {
        let device = device_of(model);
        let most = self.config.data.max_length;
        // Sentences that are too long for the model are split into windows.
        let mut windows: Vec<(usize, Encoded)> = Vec::new();
        for (at, sentence) in sentences.iter().enumerate().filter(|(_, sentence)| sentence.tokens.len() > most) {
            let length = sentence.tokens.len();
            let cut = (0..length).step_by(most);
            windows
                .extend(cut.map(|from| (at, sentence.window(from, (from + most).min(length), self.encoder.as_ref()))));
        }
        let whole = sentences.iter().enumerate().filter(|(_, sentence)| sentence.tokens.len() <= most);
        let rows: Vec<(usize, &Encoded)> = whole.chain(windows.iter().map(|(at, window)| (*at, window))).collect();
        let lengths: Vec<usize> = rows.iter().map(|(_, row)| row.tokens.len()).collect();
        let mut found: Vec<Probable> = vec![Default::default(); rows.len()];
        let (mut nats, mut words) = (0.0, 0usize);
        let batches = in_order(&lengths, SCORING);
        for (done, batch) in batches.iter().enumerate() {
            pass.report(done, batches.len())?;
            let batch_rows: Vec<&Encoded> = batch.iter().map(|&at| rows[at].1).collect();
            let input = self.lexicon.batch(&batch_rows, &self.config.more.words.characters, &device);
            let logits = model.logits(&input, pass)?;
            let is_known = |row: &&Encoded| row.tags.iter().all(|&tag| tag < self.lexicon.labels.len());
            let (tags, loss) = match &model.crf {
                Some(crf) => {
                    let known = batch_rows.iter().all(is_known);
                    let right = || tag_tensor(&batch_rows, &device);
                    let loss = known.then(|| crf.loss(logits.clone(), right(), Some(&input.lengths))).transpose()?;
                    let count: usize = input.lengths.iter().sum();
                    let loss = loss.map(|loss| (f64::from(loss.into_scalar::<f32>()) * count as f64, count));
                    let tags = crf.decode(logits, Some(&input.lengths))?;
                    (tags.into_iter().map(|tags| (tags, Vec::new())).collect(), loss)
                }
                None => most_probable(logits, &batch_rows),
            };
            if let Some((sum, count)) = loss {
                nats += sum;
                words += count;
            }
            for (&at, tags) in batch.iter().zip(tags) {
                found[at] = tags;
            }
        }
        let mut tags: Vec<Vec<usize>> = vec![Vec::new(); sentences.len()];
        let mut probabilities: Vec<Vec<f64>> = vec![Vec::new(); sentences.len()];
        for ((at, _), (found, probable)) in rows.iter().zip(found) {
            tags[*at].extend(found);
            probabilities[*at].extend(probable);
        }
        Ok(Tagging { tags, probabilities, loss: (words > 0).then(|| nats / words as f64) })
    }

    /// Splits a typed sentence into words.
    fn words(&self, text: &str) -> Vec<String> {
        typed::words(text, |word| self.lexicon.word(word).is_some())
    }

    /// Encodes words whose tags are unknown.
    fn asked(&self, words: Vec<String>) -> Encoded {
        let tags = vec![0; words.len()];
        self.lexicon.encode(words, tags, self.encoder.as_ref())
    }
}

/// The tags of a sentence, and the probability of each.
type Probable = (Vec<usize>, Vec<f64>);

/// The result of [`Tag::tagged`].
struct Tagging {
    tags: Vec<Vec<usize>>,
    /// Probability of each tag; empty if a CRF has chosen the tags of a sentence together.
    probabilities: Vec<Vec<f64>>,
    /// Mean negative log-likelihood of the correct tags, without those unseen in training (a CRF skips their whole batch).
    loss: Option<f64>,
}

impl Task for Tag {
    const NAME: &'static str = "tag";
    const CONFIG: &'static str = include_str!("../../../../configs/tag.toml");
    type Config = Config;
    type Model = Tagger;
    type Part = Part;
    type Input = Encoded;
    const INPUT: InputKind = InputKind::Text;

    fn choose(facts: &Facts, asked: &Asked<Config>) -> Option<Choice> {
        Some(choice::choose(facts, asked))
    }

    fn start(mut config: Config) -> Result<(Self, Parts<Part>), TaskError> {
        let encoder = config.model.from().map(PieceEncoder::of).transpose()?;
        if encoder.is_some() {
            // Written into the configuration: a run that was begun with another default goes on with its own.
            config.model.tagger_keys_mut().encoder_rate.get_or_insert(ENCODER_RATE);
        }
        let (splits, mut notes) = read_sentences(&config.data)?;
        let train: Vec<&Tagged> = splits.train.iter().collect();
        let words = &mut config.more.words;
        let mut lexicon = Lexicon::learn(&train, words.min_count, words.case);
        let mut from_file = words.vector_keys();
        from_file.make_absolute()?;
        if let Some(vectors) = from_file.read(words.case, |word| lexicon.words.get(word).is_some())? {
            let (all, note) = vectors.extend(std::mem::take(&mut lexicon.words), SPECIALS.len())?;
            lexicon.words = all;
            (words.d_word, words.vectors) = (vectors.width(), from_file.vectors);
            notes.push(note);
        }
        check_labels(&lexicon.labels, &splits.train)?;
        let task = Self { config, lexicon, encoder };
        let parts = task.encoded_parts(splits, notes);
        Ok((task, parts))
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let list = |names: &Vocabulary| serde_json::to_vec(names).expect("plain names");
        let Lexicon { words, characters, labels, .. } = &self.lexicon;
        let mut files = BTreeMap::from([
            (WORDS.to_string(), list(words)),
            (CHARACTERS.to_string(), list(characters)),
            (LABELS.to_string(), list(labels)),
        ]);
        if let Some(encoder) = &self.encoder {
            files.extend(encoder.files());
        }
        files
    }

    fn open(config: Config, files: &Files) -> Result<Self, TaskError> {
        let list = |name: &str| -> Result<Vocabulary, TaskError> {
            let names: Vocabulary = files.json(name)?;
            match names.len() {
                0 | 1 => Err(files.damaged(name, format!("expected 2 or more names, got {}", names.len()))),
                _ => Ok(names),
            }
        };
        let (words, characters, labels) = (list(WORDS)?, list(CHARACTERS)?, list(LABELS)?);
        let encoder = config.model.from().map(|_| PieceEncoder::open(files)).transpose()?;
        let lexicon = Lexicon::new(words, characters, labels, config.more.words.case);
        Ok(Self { config, lexicon, encoder })
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn parts(&self) -> Result<Parts<Part>, TaskError> {
        let (splits, notes) = read_sentences(&self.config.data)?;
        Ok(self.encoded_parts(splits, notes))
    }

    fn raw(config: &Config) -> Result<Option<Splits<RawExample>>, TaskError> {
        Ok(Some(raw_sentences(&config.data)?))
    }

    fn part(&self, path: &Path) -> Result<Part, TaskError> {
        Ok(self.encoded(read_tagged(path, self.config.data.column)?))
    }

    fn described(&self) -> Option<Description> {
        let sizes = sizes(self.config.train.batch_tokens, self.config.data.max_length);
        Some(size::description(&self.config.model, &self.tagger(), sizes))
    }

    fn model(&self, init: &Init) -> Result<Tagger, TaskError> {
        let mut model = self.tagger().init(init).map_err(|error| error.within("model"))?;
        model.encoder =
            model.encoder.map(|encoder| pretrained::tracked(encoder, self.config.model.tagger_keys().freeze));
        let from_file = self.config.more.words.vector_keys();
        model.words = model.words.map(|words| from_file.tracked(words));
        Ok(model)
    }

    fn warm(&self, mut model: Tagger) -> Result<Tagger, TaskError> {
        if let (Some(path), Some(encoder)) = (self.config.model.from(), model.encoder.take()) {
            model.encoder = Some(pretrained::warm(path, encoder)?);
        }
        let WordsConfig { case, .. } = self.config.more.words;
        let from_file = self.config.more.words.vector_keys();
        let warm = |words| from_file.warm(words, case, |word| self.lexicon.words.get(word));
        model.words = model.words.map(warm).transpose()?;
        Ok(model)
    }

    fn rate(&self, path: &str) -> f32 {
        match self.config.model.from() {
            Some(_) => pretrained::rate(path, self.config.model.tagger_keys().encoder_rate.unwrap_or(1.0)),
            None => 1.0,
        }
    }

    fn plan(&self, train: &Part, epoch: u64) -> Vec<Vec<usize>> {
        let lengths: Vec<usize> = train.sentences.iter().map(|sentence| sentence.tokens.len()).collect();
        batches(&lengths, self.config.train.budget(), self.config.seed, epoch)
    }

    fn loss(
        &self,
        train: &Part,
        batch: &[usize],
        model: &Tagger,
        _: &mut Value,
        pass: &Pass,
    ) -> Result<Loss, TaskError> {
        let device = device_of(model);
        let sentences: Vec<&Encoded> = batch.iter().map(|&index| &train.sentences[index]).collect();
        let input = self.lexicon.batch(&sentences, &self.config.more.words.characters, &device);
        let words = input.lengths.iter().sum();
        let tags = tag_tensor(&sentences, &device);
        let mean = model.loss(&input, tags, self.config.train.label_smoothing, pass)?;
        Ok(Loss { mean, targets: words, tokens: words })
    }

    fn evaluate(
        &self,
        part: &Part,
        model: &Tagger,
        limit: Option<usize>,
        pass: &Pass,
    ) -> Result<Evaluation, TaskError> {
        let chosen: Vec<Encoded>;
        let sentences = match limit {
            None => &part.sentences[..],
            Some(_) => {
                chosen = spread(part.sentences.len(), limit).map(|at| part.sentences[at].clone()).collect();
                &chosen
            }
        };
        let Tagging { tags: found, loss, .. } = self.tagged(model, sentences, pass)?;
        let outcome = Outcome { sentences, found, loss };
        evaluation(&outcome, &self.lexicon.labels, &part.extra, self.config.data.longest)
    }

    fn questions(&self, path: &Path) -> Result<Option<Questions>, TaskError> {
        read_questions(path, self.config.data.column)
    }

    fn input(&self, given: &Given) -> Result<Encoded, TaskError> {
        let words = read_words(given, self.config.data.max_length, |word| self.lexicon.word(word).is_some())?;
        Ok(self.asked(words))
    }

    fn given(&self, input: &Encoded) -> Given {
        Given::from(input.tokens.join(" "))
    }

    fn predict(&self, model: &Tagger, inputs: &[Encoded], pass: &Pass) -> Result<Vec<Prediction>, TaskError> {
        let Tagging { tags: found, probabilities, .. } = self.tagged(model, inputs, pass)?;
        let predict = |((sentence, tags), probabilities): ((&Encoded, &Vec<usize>), &Vec<f64>)| {
            let tags: Vec<&str> = tags.iter().map(|&tag| self.lexicon.labels.name(tag)).collect();
            prediction(&sentence.tokens, &tags, probabilities)
        };
        Ok(inputs.iter().zip(&found).zip(&probabilities).map(predict).collect())
    }

    fn samples(&self, part: &Part, count: usize) -> Vec<Sample> {
        tagged_samples(&part.sentences, &self.lexicon.labels, &part.extra, count, |sentence| {
            sentence.tokens.len() <= self.config.data.max_length
                && self.words(&sentence.tokens.join(" ")) == sentence.tokens
        })
    }

    fn telling(&self, _: &Tagger) -> Result<Encoded, TaskError> {
        Ok(self.asked(self.words(TELLING).into_iter().take(self.config.data.max_length).collect()))
    }

    fn positions<'a>(&self, model: &'a Tagger) -> Vec<Trained<'a>> {
        positions(model.encoder.as_ref(), &model.body, self.config.data.max_length)
    }

    fn look(&self, model: &Tagger, sentence: &Encoded, pass: &Pass) -> Result<Legend, TaskError> {
        let tagging = self.tagged(model, std::slice::from_ref(sentence), pass)?;
        let tags: Vec<&str> = tagging.tags[0].iter().map(|&tag| self.lexicon.labels.name(tag)).collect();
        let title = written(&sentence.tokens, &tags);
        let (words, pieces) = (sentence.tokens.clone(), sentence.pieces.as_ref().map(|pieces| pieces.tokens.clone()));
        let reads_both_ways = matches!(self.config.model, ModelConfig::Intra(_));
        Ok(Legend::new(title, move |map| {
            let name = map.site.words();
            let (name, tokens) = match (&pieces, map.site.side, map.head) {
                (Some(pieces), Some(Side::Encoder), _) => (name, pieces.clone()),
                // Each head of intra-attention reads in one direction, and its map has the words in that order.
                (_, _, 0) if reads_both_ways => (format!("{name}, read forwards"), words.clone()),
                (_, _, _) if reads_both_ways => {
                    (format!("{name}, read backwards"), words.iter().rev().cloned().collect())
                }
                _ => (name, words.clone()),
            };
            (tokens.clone(), tokens, name)
        }))
    }
}

/// Reads the sentences of a run, and returns notes on those that are not used.
pub(crate) fn read_sentences(data: &DataConfig) -> Result<(Splits<Tagged>, Vec<String>), TaskError> {
    let mut splits = match &data.path {
        Some(path) => load_tagged(&Source { path: path.clone(), fold: data.fold }, data.column)?,
        None => built_in(data.sentences),
    };
    let mut notes = std::mem::take(&mut splits.notes);
    notes.push(notes::sizes("sentences", splits.train.len(), splits.dev.len(), Some(splits.test.len())));
    keep_share(&mut splits, data.share, "sentences", |sentence| sentence.tokens.join(" "))?;
    notes.append(&mut splits.notes);
    for (key, most) in [("max_length", Some(data.max_length)), ("longest", data.longest)] {
        let Some(most) = most else { continue };
        let before = splits.train.len();
        splits.train.retain(|sentence| sentence.tokens.len() <= most);
        let left_out = before - splits.train.len();
        if left_out > 0 {
            notes.push(format!("{left_out} sentences of more than {most} words (data.{key}) are left out of training"));
        }
    }
    match splits.train.is_empty() {
        true => Err(TaskError::input("training data", "at least one sentence", "none that is short enough")),
        false => Ok((splits, notes)),
    }
}

/// Reads the sentences of a run as `regard data` shows them.
pub(crate) fn raw_sentences(data: &DataConfig) -> Result<Splits<RawExample>, TaskError> {
    let raw = |Tagged { tokens, tags }: Tagged| RawExample {
        input: RawInput::Text(tokens.join(" ")),
        answer: tags.join(" "),
        labels: tags,
    };
    Ok(read_sentences(data)?.0.map(raw))
}

/// Returns the tags of sentences that training does not have, sorted.
pub(crate) fn unseen_tags(sentences: &[Tagged], labels: &Vocabulary) -> Vec<String> {
    let tags = sentences.iter().flat_map(|sentence| &sentence.tags);
    let extra: BTreeSet<&String> = tags.filter(|tag| labels.get(tag).is_none()).collect();
    extra.into_iter().cloned().collect()
}

/// Returns the number of a tag; tags that training does not have, `extra`, follow the labels.
pub(crate) fn tag_number(tag: &String, labels: &Vocabulary, extra: &[String]) -> usize {
    let beyond = || labels.len() + extra.binary_search(tag).unwrap_or(extra.len());
    labels.get(tag).unwrap_or_else(beyond)
}

/// Returns an error if a tagger cannot learn these tags: one alone, or so many that they are none.
pub(crate) fn check_labels(labels: &Vocabulary, train: &[Tagged]) -> Result<(), TaskError> {
    if labels.len() < 2 {
        let got = labels.names().first().map_or("none", String::as_str);
        return Err(TaskError::input("training data", "two or more different tags", format!("only {got}")));
    }
    let words: usize = train.iter().map(|sentence| sentence.tags.len()).sum();
    if labels.len() > FREE_TAGS && 2 * labels.len() > words {
        let got = format!("{} different tags in {words} words", labels.len());
        return Err(TaskError::input("tags of the training data", "tags that several words share", got));
    }
    Ok(())
}

/// Reads the words of a file in one of the formats of tagged sentences, to be answered in that format.
pub(crate) fn read_questions(path: &Path, column: TagColumn) -> Result<Option<Questions>, TaskError> {
    if is_jsonl(path) {
        return Ok(None);
    }
    let Some(file) = Untagged::read(path, column)? else { return Ok(None) };
    let inputs = file.sentences().map(|tokens| Given::Json(json!({ TOKENS: tokens }))).collect();
    let written = move |at: usize, prediction: Option<&Prediction>| {
        let tags = prediction.and_then(|prediction| prediction.more.get("tags")?.as_array());
        let tags: Vec<&str> = tags.into_iter().flatten().filter_map(Value::as_str).collect();
        file.written(at, &tags)
    };
    Ok(Some(Questions { inputs, written: Some(Box::new(written)) }))
}

/// Reads the words of an input: a list, or a sentence that is split, with words for which `is_known` returns true kept whole.
pub(crate) fn read_words(
    given: &Given,
    most: usize,
    is_known: impl Fn(&str) -> bool,
) -> Result<Vec<String>, TaskError> {
    let words = match given {
        Given::Json(Value::Object(object)) if object.contains_key(TOKENS) => words_given(&object[TOKENS])?,
        _ => typed::words(given.text()?, is_known),
    };
    check_length(given, words.len(), most, "words")?;
    Ok(words)
}

/// Returns the prediction of a sentence's tags.
pub(crate) fn prediction(tokens: &[String], tags: &[&str], probabilities: &[f64]) -> Prediction {
    let mut more = BTreeMap::from([
        (TOKENS.to_string(), Value::from(tokens.to_vec())),
        ("tags".to_string(), Value::from(tags.to_vec())),
    ]);
    if !probabilities.is_empty() {
        more.insert("probabilities".to_string(), Value::from(probabilities.to_vec()));
    }
    Prediction::new(written(tokens, tags), more)
}

/// Returns at most `count` sentences that a person could have typed, spread over a split, since neighbours are often similar.
pub(crate) fn tagged_samples(
    sentences: &[Encoded],
    labels: &Vocabulary,
    extra: &[String],
    count: usize,
    fits: impl Fn(&Encoded) -> bool,
) -> Vec<Sample> {
    let sentences: Vec<&Encoded> = sentences.iter().filter(|sentence| fits(sentence)).collect();
    let apart = sentences.len().div_ceil(count.max(1)).max(1);
    let name = |&tag: &usize| match tag < labels.len() {
        true => labels.name(tag),
        false => &extra[tag - labels.len()],
    };
    let sample = |sentence: &&Encoded| {
        let tags: Vec<&str> = sentence.tags.iter().map(name).collect();
        Sample { given: sentence.tokens.join(" ").into(), expected: written(&sentence.tokens, &tags) }
    };
    sentences.iter().step_by(apart).map(sample).collect()
}

/// Reads a sentence given as a list of words.
fn words_given(tokens: &Value) -> Result<Vec<String>, TaskError> {
    let word = |token: &Value| token.as_str().map(str::trim).filter(|word| !word.is_empty()).map(str::to_string);
    let words = tokens.as_array().and_then(|tokens| tokens.iter().map(word).collect::<Option<Vec<_>>>());
    words.ok_or_else(|| TaskError::input("tokens", "a list of words", excerpt(&tokens.to_string())))
}

/// Words with their tags as text: `I/PRON saw/VERB`.
pub(crate) fn written(tokens: &[String], tags: &[&str]) -> String {
    tokens.iter().zip(tags).map(|(token, tag)| format!("{token}/{tag}")).collect::<Vec<_>>().join(" ")
}

/// Built-in sentences of a grammar; the test split has combinations of words that training does not have.
fn built_in(train: usize) -> Splits<Tagged> {
    let sizes = builtin::Sizes { train, dev: BUILTIN_DEV, test: BUILTIN_TEST };
    builtin::tagged(sizes, 1).map(|sentence| {
        let (tokens, tags) = sentence.into_iter().map(|token| (token.text, token.tag.to_string())).unzip();
        Tagged { tokens, tags }
    })
}

/// Returns the most probable tag of each word with its probability, and the sum and number of the negative log-likelihoods
/// of correct tags that training has.
fn most_probable(logits: Tensor<3>, rows: &[&Encoded]) -> (Vec<Probable>, Option<(f64, usize)>) {
    let [_, seq, n_tags] = logits.dims();
    let logits: Vec<f32> = logits.into_data().iter().collect();
    let (mut nats, mut count) = (0.0, 0);
    let tags = logits.chunks_exact(seq * n_tags).zip(rows).map(|(logits, row)| {
        let words = logits.chunks_exact(n_tags).zip(&row.tags);
        let tag = |(logits, &right): (&[f32], &usize)| {
            let best = (1..n_tags).fold(0, |best, tag| if logits[tag] > logits[best] { tag } else { best });
            let sum: f64 = logits.iter().map(|&other| f64::from(other - logits[best]).exp()).sum();
            if let Some(&logit) = logits.get(right) {
                nats += sum.ln() - f64::from(logit - logits[best]);
                count += 1;
            }
            (best, 1.0 / sum)
        };
        words.map(tag).unzip()
    });
    let tags = tags.collect();
    (tags, (count > 0).then_some((nats, count)))
}
