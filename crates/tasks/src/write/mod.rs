//! Handwriting (Graves 2013): writes a text as strokes of a pen, or goes on writing without a text.
//!
//! A line of handwriting is a sequence of movements at equal distances, scaled by the mean and deviation of the training split.
//! The network predicts the density of the next movement; its main score is the mean log-likelihood of a movement, in nats.

mod config;
mod examples;
mod pen;
mod picture;
mod size;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::{Device, Tensor, TensorData};
use regard_data::builtin::{self, LINES};
use regard_data::{
    Handwritten, Source, Split, Splits, Unlike, batches, excerpt, in_order, load_strokes, read_strokes,
    strokes_from_json,
};
use regard_inspect::count::Description;
use regard_nn::models::handwriting::{Handwriting, HandwritingConfig, Texts};
use regard_nn::{Init, Pass};
use serde_json::{Value, json};

pub use self::config::{Config, DataConfig};
use self::examples::{Example, Learnt, POINT, add_noise};
use self::pen::{Beginning, Manner, Trace, Wish};
use self::picture::Sketch;
use crate::error::TaskError;
use crate::folder::Files;
use crate::ink::{Ink, PenOptions, PenRequest};
use crate::input::{Given, InputKind, check_length};
use crate::notes;
use crate::rows::{SCORING, device_of, spread};
use crate::survey::{RawExample, RawInput};
use crate::task::{Better, Evaluation, Legend, Loss, Parts, Prediction, Sample, Task};

/// File with the scales and the alphabet.
const FILE: &str = "strokes.json";
/// Name of the random numbers that change training examples.
const NOISE: &str = "noise";
const BUILT_IN_SEED: u64 = 1;
/// Number of characters of an example's text that is shown.
const SHOWN: usize = 24;

/// A text to write, or handwriting to look at.
#[derive(Debug, Clone, PartialEq)]
pub struct Typed {
    text: String,
    ids: Vec<u32>,
    /// Scaled movements of handwriting that was given with the text.
    points: Option<Vec<f32>>,
}

/// The examples of a split.
#[derive(Debug, Default)]
pub struct Part {
    examples: Vec<Example>,
    /// Number of examples that were too long.
    cut: usize,
}

/// The task of handwriting; see the [module](self).
#[derive(Debug)]
pub struct WriteTask {
    config: Config,
    learnt: Learnt,
}

impl WriteTask {
    fn read(data: &DataConfig) -> Result<Splits<Handwritten>, TaskError> {
        match &data.path {
            Some(path) => Ok(load_strokes(&Source { path: path.clone(), fold: data.fold })?),
            None => Ok(builtin::handwriting(LINES, BUILT_IN_SEED)),
        }
    }

    fn network(&self) -> HandwritingConfig {
        self.config.model.network(self.learnt.characters())
    }

    /// Encodes an example. Without a text, a network that reads one has nothing to do.
    fn example(&self, Handwritten { text, strokes }: Handwritten) -> Example {
        let ids = if self.config.model.reads_text() { self.learnt.known(&text) } else { Vec::new() };
        Example { ids, points: self.learnt.scaled(&strokes, self.config.data.spacing), text }
    }

    fn fits(&self, example: &Example) -> bool {
        let DataConfig { max_points, max_length, .. } = self.config.data;
        let reads = self.config.model.reads_text();
        (1..=max_points).contains(&example.length()) && (!reads || (1..=max_length).contains(&example.ids.len()))
    }

    fn training(&self, all: Vec<Handwritten>) -> Part {
        let count = all.len();
        let examples: Vec<Example> =
            all.into_iter().map(|one| self.example(one)).filter(|one| self.fits(one)).collect();
        Part { cut: count - examples.len(), examples }
    }

    /// Encodes examples to be scored: those that are too long are scored by their first points.
    fn scored(&self, all: Vec<Handwritten>) -> Part {
        let most = self.config.data.max_points * POINT;
        let mut part = Part::default();
        for mut example in all.into_iter().map(|one| self.example(one)) {
            part.cut += usize::from(!self.fits(&example));
            example.points.truncate(most);
            example.ids.truncate(self.config.data.max_length);
            if self.fits(&example) {
                part.examples.push(example);
            }
        }
        part
    }

    fn completed(&self, splits: Splits<Handwritten>) -> Result<Parts<Part>, TaskError> {
        let Splits { train, dev, test, notes: mut told } = splits;
        let all = train.len();
        told.push(notes::sizes("lines", all, dev.len(), Some(test.len())));
        let (train, dev, test) = (self.training(train), self.scored(dev), self.scored(test));
        let Learnt { alphabet, points, .. } = &self.learnt;
        told.push(format!("{points:.0} points in a line on average; characters {}", excerpt(alphabet)));
        let (most, longest) = (self.config.data.max_points, self.config.data.max_length);
        if train.cut > 0 {
            told.push(format!(
                "{} of {all} lines do not move, have no text, or have more than {most} points (data.max_points) or {longest} \
                 characters (data.max_length): left out of training",
                train.cut
            ));
        }
        for (split, part) in [(Split::Dev, &dev), (Split::Test, &test)] {
            if part.cut > 0 {
                told.push(format!(
                    "{} lines of {split} are scored by their first {most} points and {longest} characters, if they have any",
                    part.cut
                ));
            }
        }
        if train.examples.is_empty() {
            let expected = "at least one line that moves and is not too long";
            return Err(TaskError::input("training lines", expected, format!("none among {all}")));
        }
        Ok(Parts { train, dev, test: Some(test), notes: told })
    }

    fn texts(&self, model: &Handwriting, ids: Vec<Vec<u32>>, device: &Device) -> Result<Option<Texts>, TaskError> {
        match self.config.model.reads_text() {
            true => Ok(Some(model.texts(ids, device)?)),
            false => Ok(None),
        }
    }

    fn manner(&self) -> Manner {
        Manner { bias: self.config.more.pen.bias, beginning: None, points: None }
    }

    fn wish(&self, input: &Typed) -> Wish {
        Wish { text: input.text.clone(), ids: input.ids.clone(), seed: self.config.seed }
    }

    /// Checks a text to write.
    fn typed(&self, text: &str) -> Result<Typed, TaskError> {
        let text = text.trim();
        if !self.config.model.reads_text() {
            let expected = "none: this model writes without a text (model.kind=prediction)";
            return match text.is_empty() {
                true => Ok(Typed { text: String::new(), ids: Vec::new(), points: None }),
                false => Err(TaskError::input("text", expected, excerpt(text))),
            };
        }
        let most = self.config.data.max_length;
        check_length(&text, text.chars().count(), most, "characters")?;
        Ok(Typed { text: text.to_string(), ids: self.learnt.ids(text)?, points: None })
    }

    /// Checks handwriting to go on from.
    fn beginning(&self, Handwritten { text, strokes }: &Handwritten) -> Result<Beginning, TaskError> {
        let mut ids = Vec::new();
        if self.config.model.reads_text() {
            ids = self.typed(text)?.ids;
            // A new word begins after the given one, where the network knows spaces.
            ids.extend(self.learnt.known(" "));
        }
        let points = self.learnt.scaled(strokes, self.config.data.spacing);
        let most = self.config.data.max_points;
        if !(1..=most).contains(&(points.len() / POINT)) {
            let expected = format!("1 to {most} movements (data.max_points of this model)");
            return Err(TaskError::input("strokes", expected, (points.len() / POINT).to_string()));
        }
        Ok(Beginning { ids, points })
    }
}

/// Returns points as the network reads them, each after the one that predicts it, and the points to predict: both
/// `[batch, longest, 3]`, padded with zeros.
fn padded(points: &[Vec<f32>], device: &Device) -> (Tensor<3>, Tensor<3>, Vec<usize>) {
    let lengths: Vec<usize> = points.iter().map(|points| points.len() / POINT).collect();
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let (mut read, mut wanted) = (Vec::new(), Vec::new());
    for points in points {
        let row = wanted.len();
        wanted.extend_from_slice(points);
        wanted.resize(row + longest * POINT, 0.0);
        read.extend([0.0; POINT]);
        read.extend_from_slice(&points[..points.len() - POINT]);
        read.resize(row + longest * POINT, 0.0);
    }
    let tensor = |data: Vec<f32>| Tensor::from_data(TensorData::new(data, [points.len(), longest, POINT]), device);
    (tensor(read), tensor(wanted), lengths)
}

impl Task for WriteTask {
    const NAME: &'static str = "write";
    const CONFIG: &'static str = include_str!("../../../../configs/write.toml");
    type Config = Config;
    type Model = Handwriting;
    type Part = Part;
    type Input = Typed;
    const INPUT: InputKind = InputKind::Text;

    fn start(config: Config) -> Result<(Self, Parts<Part>), TaskError> {
        let splits = Self::read(&config.data)?;
        let learnt = Learnt::of(&splits.train, config.data.spacing)?;
        let task = Self { config, learnt };
        let parts = task.completed(splits)?;
        Ok((task, parts))
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let learnt = serde_json::to_vec_pretty(&self.learnt).expect("plain values can be written as JSON");
        BTreeMap::from([(FILE.to_string(), learnt)])
    }

    fn open(config: Config, files: &Files) -> Result<Self, TaskError> {
        let learnt: Learnt = files.json(FILE)?;
        match learnt.is_consistent() {
            true => Ok(Self { config, learnt }),
            false => Err(files.damaged(FILE, "the scales or the alphabet are not valid")),
        }
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn parts(&self) -> Result<Parts<Part>, TaskError> {
        self.completed(Self::read(&self.config.data)?)
    }

    fn part(&self, path: &Path) -> Result<Part, TaskError> {
        let part = self.scored(read_strokes(path)?.examples);
        match part.examples.is_empty() {
            true => Err(TaskError::input(path.display().to_string(), "lines that move, with a known text", "none")),
            false => Ok(part),
        }
    }

    fn raw(config: &Config) -> Result<Option<Splits<RawExample>>, TaskError> {
        let raw = |written: Handwritten| {
            let hash = written.hash();
            let length = written.strokes.iter().map(Vec::len).sum();
            let input = RawInput::Vectors { shown: written.text.clone(), hash, length, mean: Vec::new(), size: 0.0 };
            RawExample { input, answer: written.text, labels: Vec::new() }
        };
        Ok(Some(Self::read(&config.data)?.map(raw)))
    }

    fn described(&self) -> Option<Description> {
        Some(size::described(&self.config, &self.network()))
    }

    fn model(&self, init: &Init) -> Result<Handwriting, TaskError> {
        Ok(Handwriting::new(&self.network(), init)?)
    }

    fn plan(&self, train: &Part, epoch: u64) -> Vec<Vec<usize>> {
        let lengths: Vec<usize> = train.examples.iter().map(Example::length).collect();
        batches(&lengths, self.config.train.budget(), self.config.seed, epoch)
    }

    fn loss(
        &self,
        train: &Part,
        batch: &[usize],
        model: &Handwriting,
        _: &mut Value,
        pass: &Pass,
    ) -> Result<Loss, TaskError> {
        let device = device_of(model);
        let mut random = pass.random(&NOISE.into());
        let examples: Vec<&Example> = batch.iter().map(|&index| &train.examples[index]).collect();
        let noisy = |example: &&Example| {
            let mut points = example.points.clone();
            if let Some(random) = random.as_mut().filter(|_| self.config.data.noise > 0.0) {
                add_noise(&mut points, self.config.data.noise, random);
            }
            points
        };
        let points: Vec<Vec<f32>> = examples.iter().map(noisy).collect();
        let (read, wanted, lengths) = padded(&points, &device);
        let texts = self.texts(model, examples.iter().map(|example| example.ids.clone()).collect(), &device)?;
        let mean = model.loss(read, wanted, texts.as_ref(), &lengths, pass)?;
        let targets = lengths.iter().sum();
        Ok(Loss { mean, targets, tokens: targets })
    }

    fn evaluate(
        &self,
        part: &Part,
        model: &Handwriting,
        limit: Option<usize>,
        pass: &Pass,
    ) -> Result<Evaluation, TaskError> {
        let device = device_of(model);
        let chosen: Vec<&Example> = spread(part.examples.len(), limit).map(|at| &part.examples[at]).collect();
        let lengths: Vec<usize> = chosen.iter().map(|example| example.length()).collect();
        let batches = in_order(&lengths, SCORING);
        let mut sums = vec![0.0; chosen.len()];
        for (done, batch) in batches.iter().enumerate() {
            pass.report(done, batches.len())?;
            let points: Vec<Vec<f32>> = batch.iter().map(|&row| chosen[row].points.clone()).collect();
            let ids = batch.iter().map(|&row| chosen[row].ids.clone()).collect();
            let (read, wanted, lengths) = padded(&points, &device);
            let texts = self.texts(model, ids, &device)?;
            let found = model.log_likelihood(read, wanted, texts.as_ref(), &lengths, pass)?;
            let longest = found.dims()[1];
            let found: Vec<f32> = found.into_data().iter().collect();
            for ((&row, length), found) in batch.iter().zip(lengths).zip(found.chunks_exact(longest)) {
                sums[row] = found[..length].iter().map(|&log| f64::from(log)).sum::<f64>();
            }
        }
        let points: usize = lengths.iter().sum();
        let total: f64 = sums.iter().sum();
        let scores = [("log_likelihood", total / points as f64)].into_iter().filter(|_| points > 0);
        Ok(Evaluation { examples: chosen.len(), ..Evaluation::new(scores, "log_likelihood", Better::Higher) })
    }

    /// Reads a text, or handwriting as `{"text": …, "strokes": …}` to look at.
    fn input(&self, given: &Given) -> Result<Typed, TaskError> {
        let strokes = match given {
            Given::Json(value) => value.get(InputKind::Strokes.key()),
            Given::Text(_) => None,
        };
        let Some(strokes) = strokes else { return self.typed(given.text()?) };
        let strokes = strokes_from_json(strokes)
            .map_err(|Unlike { expected, found }| TaskError::input("input", expected, found))?;
        let text = if self.config.model.reads_text() { given.text()? } else { "" };
        let typed = self.typed(text)?;
        let handwritten = Handwritten { text: typed.text.clone(), strokes };
        Ok(Typed { points: Some(self.beginning(&handwritten)?.points), ..typed })
    }

    fn given(&self, input: &Typed) -> Given {
        Given::from(input.text.as_str())
    }

    fn predict(&self, model: &Handwriting, inputs: &[Typed], pass: &Pass) -> Result<Vec<Prediction>, TaskError> {
        // The same seed for each text, so that its answer does not depend on the other texts.
        let wishes: Vec<Wish> = inputs.iter().map(|input| self.wish(input)).collect();
        let traces = self.traces(model, &wishes, &self.manner(), pass)?;
        let prediction = |(input, trace): (&Typed, &Trace)| {
            let ink = self.ink(&input.text, trace, false);
            let more = BTreeMap::from([
                ("strokes".to_string(), json!(ink.strokes)),
                ("characters".to_string(), json!(ink.characters)),
                ("finished".to_string(), json!(ink.is_finished)),
            ]);
            Prediction::new(ink.summary(), more)
        };
        Ok(inputs.iter().zip(&traces).map(prediction).collect())
    }

    fn samples(&self, part: &Part, count: usize) -> Vec<Sample> {
        if !self.config.model.reads_text() {
            // A line without a text; there is nothing to choose from.
            return vec![Sample { given: "".into(), expected: String::new() }];
        }
        let known = |example: &&Example| self.typed(&example.text).is_ok() && example.text.chars().count() <= SHOWN;
        let usable: Vec<&Example> = part.examples.iter().filter(known).collect();
        let sample = |at: usize| Sample { given: usable[at].text.as_str().into(), expected: String::new() };
        spread(usable.len(), Some(count)).map(sample).collect()
    }

    fn telling(&self, _: &Handwriting) -> Result<Typed, TaskError> {
        match ["", "attention", "0123456789"].iter().find_map(|text| self.typed(text).ok()) {
            Some(typed) => Ok(typed),
            None => self.typed(&self.learnt.alphabet.chars().take(8).collect::<String>()),
        }
    }

    fn look(&self, model: &Handwriting, input: &Typed, pass: &Pass) -> Result<Legend, TaskError> {
        let trace = match &input.points {
            Some(points) => Trace::given(points.clone()),
            None => self.traces(model, &[self.wish(input)], &self.manner(), &pass.without_capture())?.remove(0),
        };
        let points = trace.points.clone();
        let device = device_of(model);
        let (read, _, lengths) = padded(std::slice::from_ref(&points), &device);
        let texts = self.texts(model, vec![input.ids.clone()], &device)?;
        let raw: Vec<f32> = model.forward(read, texts.as_ref(), &lengths, pass)?.into_data().iter().collect();
        let keys: Vec<String> = input.text.chars().map(|character| character.to_string()).collect();
        let steps: Vec<String> = (1..=lengths[0]).map(|step| step.to_string()).collect();
        let sketch = Sketch {
            ink: self.ink(&input.text, &trace, false),
            points,
            raw,
            density: self.network().density(),
            learnt: self.learnt.clone(),
        };
        let legend = Legend::new(input.text.clone(), move |map| (steps.clone(), keys.clone(), map.site.words()));
        Ok(legend.drawn(move |view| sketch.picture(view)))
    }

    fn write_by_hand(
        &self,
        model: &Handwriting,
        lines: &[PenRequest],
        options: &PenOptions,
        pass: &Pass,
    ) -> Result<Vec<Result<Ink, TaskError>>, TaskError> {
        let beginning = options.prime.as_ref().map(|prime| self.beginning(prime)).transpose();
        let beginning = beginning
            .map_err(|error| TaskError::input("--prime", "a text and strokes for this model", error.to_string()))?;
        let bias = options.bias.unwrap_or(self.config.more.pen.bias);
        let manner = Manner { bias, beginning, points: options.points };
        let read: Vec<Result<Wish, TaskError>> = lines
            .iter()
            .map(|line| self.typed(&line.text).map(|typed| Wish { seed: line.seed, ..self.wish(&typed) }))
            .collect();
        let wishes: Vec<Wish> = read.iter().filter_map(|wish| wish.as_ref().ok().cloned()).collect();
        let is_begun = manner.beginning.is_some();
        let mut traces = self.traces(model, &wishes, &manner, pass)?.into_iter();
        let write = |wish: Result<Wish, TaskError>| {
            let wish = wish?;
            let trace = traces.next().ok_or_else(|| TaskError::input("line", "one for each text", "none"))?;
            Ok(self.ink(&wish.text, &trace, is_begun))
        };
        Ok(read.into_iter().map(write).collect())
    }
}
