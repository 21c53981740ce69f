//! Classification, n → 1: one label, several, or a number for a whole text.
//!
//! The tokens of a text go through a Transformer encoder or a recurrent network, and attention pooling reduces them to one
//! vector. The baseline, `model.kind=bag`, is a dense network on the mean of the embeddings and ignores word order.

mod choice;
mod config;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use regard_data::builtin::{Opinion, sentiment};
use regard_data::{
    Column, END, Fold, Labelled, LabelledColumns, SPECIALS, START, Source, Split, Splits, Tokenizer, TokenizerKind,
    UNK, batches, in_order, lacks_spaces, load_labelled, read_labelled, read_texts,
};
use regard_inspect::count::{Architecture, Description, Extra, ExtraKind, RecurrentModel, Rows};
use regard_inspect::show::position::Trained;
use regard_nn::layers::embedding::Embedding;
use regard_nn::layers::linear::Bias;
use regard_nn::layers::pooling::PoolingConfig;
use regard_nn::layers::recurrent::Direction;
use regard_nn::models::classifier::{Classifier, ClassifierConfig};
use regard_nn::{AttentionKind, Init, Pass};
use serde_json::Value;

pub use self::config::{Config, DataConfig, EncoderKeys, ModelConfig};
use crate::answers::{Answer, Answers, TargetKind};
use crate::auto::{Asked, Choice, Facts};
use crate::error::TaskError;
use crate::folder::{Files, tokenizer_file};
use crate::hugging_face::{Around, export_bert_classifier};
use crate::input::{Given, InputKind, check_length};
use crate::model::{lookup, positions, sizes};
use crate::notes;
use crate::pretrained;
use crate::rows::{SCORING, device_of, padded, spread};
use crate::survey::{RawExample, RawInput};
use crate::task::{Evaluation, Legend, Loss, Parts, Prediction, Questions, Sample, Task, Validate};

/// Seed of the built-in sentences, which are the same in every run.
const BUILT_IN_SEED: u64 = 1;

/// A text with its tokens and its answer.
#[derive(Debug, Clone)]
struct Example {
    text: String,
    ids: Vec<u32>,
    answer: Answer,
}

/// A text to classify, with its tokens.
#[derive(Debug, Clone)]
pub struct Typed {
    text: String,
    encoded: regard_data::Encoded,
}

/// The encoded examples of a split.
#[derive(Debug)]
pub struct Part {
    examples: Vec<Example>,
    /// Labels that the training split does not have.
    unseen: Vec<String>,
    /// Number of texts cut to `data.max_length` tokens.
    cut: usize,
}

/// The classification task; see the [module](self).
#[derive(Debug)]
pub struct Classify {
    config: Config,
    tokenizer: Tokenizer,
    answers: Answers,
}

impl Classify {
    /// Reads the examples of the run, not yet tokenised.
    fn texts(config: &Config) -> Result<Splits<Labelled>, TaskError> {
        let DataConfig { path, fold, target, .. } = &config.data;
        labelled_texts(path.as_deref(), *fold, *target, &config.data.columns())
    }

    fn encode(&self, texts: &[Labelled]) -> Result<Part, TaskError> {
        let unseen = self.answers.unseen(texts.iter().map(|example| example.label.as_str()));
        let encoded =
            self.tokenizer.encode_batch(&texts.iter().map(|example| example.text.as_str()).collect::<Vec<_>>());
        let example = |(labelled, encoded): (&Labelled, regard_data::Encoded)| {
            let answer = self.answers.read(labelled, &unseen)?;
            Ok(Example { text: labelled.text.clone(), ids: encoded.ids, answer })
        };
        let examples = texts.iter().zip(encoded).map(example).collect::<Result<_, TaskError>>()?;
        Ok(Part { examples, unseen, cut: 0 })
    }

    /// Encodes texts for scoring. A text that is too long is cut; one without tokens becomes an unknown word.
    fn scored(&self, texts: &[Labelled]) -> Result<Part, TaskError> {
        let mut part = self.encode(texts)?;
        for example in &mut part.examples {
            part.cut += usize::from(example.ids.len() > self.config.data.max_length);
            example.ids.truncate(self.config.data.max_length);
            if example.ids.is_empty() {
                example.ids.push(UNK);
            }
        }
        Ok(part)
    }

    /// Encodes texts for training, and returns notes on those left out.
    fn learnt(&self, texts: &[Labelled]) -> Result<(Part, Vec<String>), TaskError> {
        let DataConfig { max_length, longest, .. } = self.config.data;
        let (field, most) = longest.map_or(("max_length", max_length), |longest| ("longest", longest));
        let mut part = self.encode(texts)?;
        let all = part.examples.len();
        let empty = part.examples.iter().filter(|example| example.ids.is_empty()).count();
        part.examples.retain(|example| (1..=most).contains(&example.ids.len()));
        let longer = all - part.examples.len() - empty;
        if part.examples.is_empty() {
            let expected = format!("at least one of 1 to {most} tokens (data.{field})");
            return Err(TaskError::input("training examples", expected, format!("{longer} longer, {empty} empty")));
        }
        let notes =
            [(longer, format!("are longer than {most} tokens (data.{field})")), (empty, "have no tokens".to_string())];
        let told = notes.into_iter().filter(|(count, _)| *count > 0);
        let told = told.map(|(count, what)| format!("{count} of {all} texts {what}: left out of training"));
        Ok((part, told.collect()))
    }

    /// Encodes the splits of a run; refuses unusable examples.
    fn encoded_parts(&self, texts: Splits<Labelled>) -> Result<Parts<Part>, TaskError> {
        let (train, left_out) = self.learnt(&texts.train)?;
        let (dev, test) = (self.scored(&texts.dev)?, self.scored(&texts.test)?);
        let mut told = texts.notes;
        told.push(notes::sizes("texts", texts.train.len(), texts.dev.len(), Some(texts.test.len())));
        told.extend(self.answers.note(texts.train.iter().map(|example| example.label.as_str())));
        if lacks_spaces(texts.train.iter().map(|example| example.text.as_str())) {
            told.extend(notes::unspaced(self.tokenizer.kind()));
        }
        let what = if self.tokenizer.kind() == TokenizerKind::Word { "words" } else { "characters" };
        let parts = [(Split::Train, &train), (Split::Dev, &dev), (Split::Test, &test)];
        let ids = parts.map(|(split, part)| (split, part.examples.iter().flat_map(|example| &example.ids)));
        told.extend(notes::unknown(what, UNK, ids));
        told.extend(left_out);
        for (split, part) in &parts[1..] {
            if part.cut > 0 {
                let (cut, all, most) = (part.cut, part.examples.len(), self.config.data.max_length);
                told.push(format!(
                    "{cut} of {all} {split} texts are scored by their first {most} tokens (data.max_length)"
                ));
            }
            told.extend(notes::unseen(*split, "labels", &part.unseen));
        }
        Ok(Parts { train, dev, test: Some(test), notes: told })
    }

    fn network(&self) -> ClassifierConfig {
        ClassifierConfig {
            unknown: UNK as usize,
            outputs: self.answers.outputs(),
            target: self.answers.target(),
            ..self.config.model.classifier(self.tokenizer.vocab())
        }
    }

    /// The tokens as the network reads them: between `<s>` and `</s>` for a pre-trained encoder, which has learnt this.
    fn framed<'a>(&self, ids: &'a [u32]) -> Cow<'a, [u32]> {
        match self.config.model.pretrained() {
            Some(_) => [START].into_iter().chain(ids.iter().copied()).chain([END]).collect(),
            None => Cow::Borrowed(ids),
        }
    }

    /// Computes the outputs of the network, one row per example.
    fn outputs(&self, model: &Classifier, rows: &[&[u32]], pass: &Pass) -> Result<Vec<Vec<f32>>, TaskError> {
        let device = device_of(model);
        let rows: Vec<Cow<[u32]>> = rows.iter().map(|row| self.framed(row)).collect();
        let lengths: Vec<usize> = rows.iter().map(|row| row.len()).collect();
        let mut outputs = vec![Vec::new(); rows.len()];
        let batches = in_order(&lengths, SCORING);
        for (done, batch) in batches.iter().enumerate() {
            pass.report(done, batches.len())?;
            let (ids, lengths) = padded(&batch.iter().map(|&row| &rows[row]).collect::<Vec<_>>(), &device);
            let found: Vec<f32> = model.predict(ids, &lengths, pass)?.into_data().iter::<f32>().collect();
            for (&row, output) in batch.iter().zip(found.chunks_exact(self.answers.outputs())) {
                outputs[row] = output.to_vec();
            }
        }
        Ok(outputs)
    }
}

/// Reads labelled texts of a file or folder, or the built-in ones, with what `target` asks for as their labels.
pub(crate) fn labelled_texts(
    path: Option<&Path>,
    fold: Option<Fold>,
    target: TargetKind,
    columns: &LabelledColumns,
) -> Result<Splits<Labelled>, TaskError> {
    if let Some(path) = path {
        return Ok(load_labelled(&Source { path: path.to_path_buf(), fold }, columns)?);
    }
    let labelled = |Opinion { text, label, value }: Opinion| {
        let label = if target == TargetKind::Value { value.to_string() } else { label.name().to_string() };
        Labelled::new(text, label)
    };
    Ok(sentiment(Opinion::sizes(), BUILT_IN_SEED).map(labelled))
}

/// Returns labelled texts as `regard data` shows them.
pub(crate) fn raw_texts(texts: Splits<Labelled>, target: TargetKind) -> Splits<RawExample> {
    let numbers = target == TargetKind::Value;
    texts.map(|Labelled { text, label, .. }| {
        let labels = label.split('|').filter(|_| !numbers).map(|label| label.trim().to_string()).collect();
        RawExample { input: RawInput::Text(text), answer: label, labels }
    })
}

/// Adds the words of `words.vectors`, if there are any, to the tokeniser, and takes over the width of the vectors. Returns a note on
/// them.
fn with_vectors(config: &mut Config, tokenizer: Tokenizer) -> Result<(Tokenizer, Option<String>), TaskError> {
    let keys = &mut config.more.words;
    keys.make_absolute()?;
    let is_own = |word: &str| tokenizer.id(word).is_some_and(|id| id as usize >= SPECIALS.len());
    let Some(vectors) = keys.read(config.data.tokenizer.case, is_own)? else { return Ok((tokenizer, None)) };
    if tokenizer.kind() != TokenizerKind::Word {
        let problem = "vectors of words need data.tokenizer.kind=word".to_string();
        return Err(TaskError::Settings { place: "words.vectors".to_string(), problem });
    }
    let note = vectors.note(tokenizer.vocab() - SPECIALS.len(), is_own)?;
    config.model.set_width(vectors.width());
    Ok((tokenizer.with_words(vectors.words())?, Some(note)))
}

/// Changes the table of the tokens' vectors, wherever the network has it.
fn with_table(
    model: &mut Classifier,
    change: impl FnOnce(Embedding) -> Result<Embedding, TaskError>,
) -> Result<(), TaskError> {
    let table = match (&mut model.words, &mut model.encoder) {
        (Some(words), _) => words,
        (None, Some(encoder)) => &mut encoder.embedding.tokens,
        (None, None) => return Ok(()),
    };
    *table = change(table.clone())?;
    Ok(())
}

impl Task for Classify {
    const NAME: &'static str = "classify";
    const CONFIG: &'static str = include_str!("../../../../configs/classify.toml");
    type Config = Config;
    type Model = Classifier;
    type Part = Part;
    type Input = Typed;
    const INPUT: InputKind = InputKind::Text;

    fn choose(facts: &Facts, asked: &Asked<Config>) -> Option<Choice> {
        Some(choice::choose(facts, asked))
    }

    fn start(mut config: Config) -> Result<(Self, Parts<Part>), TaskError> {
        let texts = Self::texts(&config)?;
        let answers = Answers::learn(config.data.target, &texts.train)?;
        let tokenizer = match config.model.pretrained() {
            Some((keys, path)) => {
                let (tokenizer, keys) = pretrained::start(path, keys)?;
                config.model = ModelConfig::Transformer(keys);
                tokenizer
            }
            None => config.data.tokenizer.train(texts.train.iter().map(|example| example.text.as_str()))?,
        };
        let (tokenizer, note) = with_vectors(&mut config, tokenizer)?;
        config.validate()?;
        let task = Self { config, tokenizer, answers };
        let mut parts = task.encoded_parts(texts)?;
        parts.notes.extend(note);
        Ok((task, parts))
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        BTreeMap::from([tokenizer_file(&self.tokenizer), self.answers.file()])
    }

    fn open(config: Config, files: &Files) -> Result<Self, TaskError> {
        let (tokenizer, answers) = (files.tokenizer()?, Answers::open(config.data.target, files)?);
        Ok(Self { config, tokenizer, answers })
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn parts(&self) -> Result<Parts<Part>, TaskError> {
        self.encoded_parts(Self::texts(&self.config)?)
    }

    fn raw(config: &Config) -> Result<Option<Splits<RawExample>>, TaskError> {
        Ok(Some(raw_texts(Self::texts(config)?, config.data.target)))
    }

    fn part(&self, path: &Path) -> Result<Part, TaskError> {
        self.scored(&read_labelled(path, &self.config.data.columns())?.examples)
    }

    fn described(&self) -> Option<Description> {
        let network = self.network();
        let vocab = network.vocab;
        let (architecture, width) = match (network.encoder, self.config.model.recurrent()) {
            (Some(encoder), _) => (Architecture::Encoder(encoder), encoder.d_model),
            (None, Some(layers)) => {
                let layers = RecurrentModel { direction: Direction::Both, vocab: Some(vocab), ..layers };
                (Architecture::Recurrent(layers), network.d_model)
            }
            (None, None) => (lookup(vocab, network.d_word), network.d_word),
        };
        let mut extra = Vec::new();
        if let PoolingConfig::Attention { d_hidden } = network.pooling {
            let hidden = d_hidden.unwrap_or(width);
            extra.push(Extra::linear("pooling.hidden", width, hidden, Rows::Tokens));
            let query = ExtraKind::Linear { d_in: hidden, d_out: 1, bias: Bias::None, rows: Rows::Tokens };
            extra.push(Extra { name: "pooling.query".to_string(), part: query });
        }
        let mut below = width;
        for (number, &layer) in network.hidden.iter().chain([&network.outputs]).enumerate() {
            extra.push(Extra::linear(&format!("answer.{number}"), below, layer, Rows::Sequences));
            below = layer;
        }
        let sizes = sizes(self.config.train.batch_tokens, self.config.data.max_length.saturating_add(2));
        Some(Description { sizes, extra, ..Description::new(architecture) })
    }

    fn model(&self, init: &Init) -> Result<Classifier, TaskError> {
        let mut model = self.network().init(init)?;
        if let Some((keys, _)) = self.config.model.pretrained() {
            model.encoder = model.encoder.map(|encoder| pretrained::tracked(encoder, keys.more.freeze));
        }
        with_table(&mut model, |table| Ok(self.config.more.words.tracked(table)))?;
        Ok(model)
    }

    fn warm(&self, mut model: Classifier) -> Result<Classifier, TaskError> {
        if let Some((_, path)) = self.config.model.pretrained() {
            model.encoder = model.encoder.map(|encoder| pretrained::warm(path, encoder)).transpose()?;
        }
        let id = |word: &str| self.tokenizer.id(word).map(|id| id as usize);
        with_table(&mut model, |table| self.config.more.words.warm(table, self.config.data.tokenizer.case, id))?;
        Ok(model)
    }

    fn rate(&self, path: &str) -> f32 {
        match self.config.model.pretrained() {
            Some((keys, _)) => pretrained::rate(path, keys.more.encoder_rate.unwrap_or(1.0)),
            None => 1.0,
        }
    }

    fn plan(&self, train: &Part, epoch: u64) -> Vec<Vec<usize>> {
        let lengths: Vec<usize> = train.examples.iter().map(|example| self.framed(&example.ids).len()).collect();
        batches(&lengths, self.config.train.budget(), self.config.seed, epoch)
    }

    fn loss(
        &self,
        train: &Part,
        batch: &[usize],
        model: &Classifier,
        _: &mut Value,
        pass: &Pass,
    ) -> Result<Loss, TaskError> {
        let device = device_of(model);
        let examples: Vec<&Example> = batch.iter().map(|&index| &train.examples[index]).collect();
        let rows: Vec<Cow<[u32]>> = examples.iter().map(|example| self.framed(&example.ids)).collect();
        let (ids, lengths) = padded(&rows, &device);
        let answers = self.answers.tensor(&examples.iter().map(|example| &example.answer).collect::<Vec<_>>(), &device);
        let mean = model.loss(ids, &lengths, answers, self.config.train.label_smoothing, pass)?;
        Ok(Loss { mean, targets: batch.len(), tokens: lengths.iter().sum() })
    }

    fn evaluate(
        &self,
        part: &Part,
        model: &Classifier,
        limit: Option<usize>,
        pass: &Pass,
    ) -> Result<Evaluation, TaskError> {
        let examples: Vec<&Example> = spread(part.examples.len(), limit).map(|at| &part.examples[at]).collect();
        let rows: Vec<&[u32]> = examples.iter().map(|example| example.ids.as_slice()).collect();
        let outputs = self.outputs(model, &rows, pass)?;
        let truth: Vec<&Answer> = examples.iter().map(|example| &example.answer).collect();
        let mut evaluation = self.answers.evaluation(&truth, &outputs, &part.unseen)?;
        if let Some(longest) = self.config.data.longest {
            let longer: Vec<usize> = (0..rows.len()).filter(|&row| rows[row].len() > longest).collect();
            let truth: Vec<&Answer> = longer.iter().map(|&row| truth[row]).collect();
            let outputs: Vec<&[f32]> = longer.iter().map(|&row| outputs[row].as_slice()).collect();
            let scores = self.answers.scores(&truth, &outputs, &part.unseen);
            evaluation.scores.extend(scores.into_iter().map(|(name, value)| (format!("{name}_longer"), value)));
        }
        Ok(evaluation)
    }

    fn questions(&self, path: &Path) -> Result<Option<Questions>, TaskError> {
        Ok(read_texts(path, &self.config.data.columns())?.map(Questions::lines))
    }

    fn input(&self, given: &Given) -> Result<Typed, TaskError> {
        let own = self.config.data.text.as_ref().and_then(Column::name);
        let text = given.text_under(own.as_slice())?;
        let encoded = self.tokenizer.encode(text);
        check_length(&text, encoded.ids.len(), self.config.data.max_length, "tokens")?;
        Ok(Typed { text: text.to_string(), encoded })
    }

    fn given(&self, input: &Typed) -> Given {
        Given::from(input.text.as_str())
    }

    fn predict(&self, model: &Classifier, inputs: &[Typed], pass: &Pass) -> Result<Vec<Prediction>, TaskError> {
        let rows: Vec<&[u32]> = inputs.iter().map(|input| input.encoded.ids.as_slice()).collect();
        let outputs = self.outputs(model, &rows, pass)?;
        let predict = |output: &Vec<f32>| {
            let answer = self.answers.text(&self.answers.decide(output), &[]);
            Prediction::new(answer, self.answers.document(output))
        };
        Ok(outputs.iter().map(predict).collect())
    }

    fn samples(&self, part: &Part, count: usize) -> Vec<Sample> {
        // Spread over the split, since files are often sorted by label. `predict` refuses texts that were cut.
        let fits = |example: &&Example| self.input(&example.text.as_str().into()).is_ok();
        let step = (part.examples.len() / count.max(1)).max(1);
        let sample = |example: &Example| Sample {
            given: example.text.as_str().into(),
            expected: self.answers.text(&example.answer, &part.unseen),
        };
        part.examples.iter().step_by(step).filter(fits).take(count).map(sample).collect()
    }

    fn telling(&self, _: &Classifier) -> Result<Typed, TaskError> {
        if self.config.data.path.is_some() {
            let what = "choose an input unless the data are built in; give it a text".to_string();
            return Err(TaskError::Unsupported { task: Self::NAME, what });
        }
        self.input(&Given::from("The plot was not great, it was dull."))
    }

    fn positions<'a>(&self, model: &'a Classifier) -> Vec<Trained<'a>> {
        positions(model.encoder.as_ref(), &model.body, self.config.data.max_length)
    }

    fn export(&self, model: &Classifier, to: &Path) -> Result<(), TaskError> {
        let around = if self.config.model.pretrained().is_some() { Around::Marks } else { Around::Nothing };
        let tokenizer = self.tokenizer.to_json();
        export_bert_classifier(&self.network(), model, &self.answers, (&tokenizer, around), to)
    }

    fn look(&self, model: &Classifier, Typed { text, encoded }: &Typed, pass: &Pass) -> Result<Legend, TaskError> {
        let outputs = self.outputs(model, &[&encoded.ids], pass)?;
        let answer = self.answers.text(&self.answers.decide(&outputs[0]), &[]);
        let sure = Prediction::new(answer.clone(), self.answers.document(&outputs[0])).certainty();
        let mut tokens = encoded.tokens.clone();
        if self.config.model.pretrained().is_some() {
            let name = |id| self.tokenizer.token(id).unwrap_or_default();
            tokens = [name(START)].into_iter().chain(tokens).chain([name(END)]).collect();
        }
        Ok(Legend::new(format!("{text} → {answer}{sure}"), move |map| {
            let pools = map.site.kind == AttentionKind::Pooling;
            let queries = if pools { vec![answer.clone()] } else { tokens.clone() };
            (queries, tokens.clone(), map.site.words())
        }))
    }
}
