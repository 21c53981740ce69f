//! Sets and sequences of real vectors: a label or a number for each example (n → 1) or for each vector (n → n), or the vectors
//! that come next.
//!
//! A Transformer sees them in order or, without positions, as a set; recurrent networks read them; a dense network on their
//! mean is the baseline.

mod answer;
mod augment;
mod choice;
pub(crate) mod config;
pub(crate) mod examples;
mod forecast;
mod overflow;
mod picture;
mod resample;
mod scaling;
pub(crate) mod size;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use regard_data::builtin::{self, Sizes};
use regard_data::{
    Series, Source, Split, Splits, Target, Unlike, Vectors, batches, excerpt, in_order, is_jsonl, load_series,
    load_vectors, read_series, read_vectors, vectors_from_json,
};
use regard_inspect::count::Description;
use regard_inspect::show::position::Trained;
use regard_nn::models::target;
use regard_nn::models::vectors::{AnswerPer, VectorModel, VectorModelConfig};
use regard_nn::{AttentionKind, Init, Pass};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::answer::{given, written};
pub use self::config::{Aim, Config, DataConfig};
pub use self::examples::Part;
use self::examples::{Example, Goal, Shown, padded};
use self::forecast::{Forecast, Forecasted};
use self::resample::resampled;
use self::scaling::{Scaling, flags};
use crate::answers::{Answer, Answers, TargetKind};
use crate::auto::{Asked, Choice, Facts};
use crate::error::TaskError;
use crate::folder::Files;
use crate::input::{Given, InputKind, check_length};
use crate::model::{positions, sizes};
use crate::notes;
use crate::rows::{SCORING, device_of, spread};
use crate::survey::{RawExample, RawInput};
use crate::task::{Better, Evaluation, Legend, Loss, Parts, Prediction, Questions, Sample, Task, Validate};

/// File with the scales and the kind of answer.
const FILE: &str = "vectors.json";
/// Name of the random numbers that change training examples.
const AUGMENT: &str = "augment";
const BUILT_IN_SEED: u64 = 1;
const BUILT_IN_SIZES: Sizes = Sizes { train: 2_400, dev: 300, test: 600 };

/// The content of [`FILE`]; labels have a file of their own.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Learnt {
    scaling: Scaling,
    goal: LearntGoal,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LearntGoal {
    Label(AnswerPer),
    Value(AnswerPer),
    Next(Forecast),
}

/// Vectors to predict from, `[length, width]`.
#[derive(Debug, Clone)]
pub struct Typed(Vec<f32>);

/// The task of vectors; see the [module](self).
#[derive(Debug)]
pub struct VectorTask {
    config: Config,
    scaling: Scaling,
    goal: Goal,
}

impl VectorTask {
    /// Reads the series of the run as they are in the data.
    fn series(config: &Config) -> Result<Splits<Series>, TaskError> {
        let DataConfig { path, fold, target, .. } = &config.data;
        let Some(path) = path else { return Ok(builtin::motions(BUILT_IN_SIZES, BUILT_IN_SEED).map(Series::whole)) };
        let source = Source { path: path.clone(), fold: *fold };
        Ok(match target {
            Aim::Given => load_vectors(&source)?.map(Series::whole),
            Aim::Next => load_series(&source)?,
        })
    }

    fn thinned(&self, series: Series) -> Series {
        thinned(series, &self.config.data, self.scaling.flags())
    }

    fn width(&self) -> usize {
        self.scaling.width()
    }

    /// Makes the examples of the dev and test splits and the notes on all.
    fn completed(&self, train: Part, counts: [usize; 3], rest: Splits<Series>) -> Result<Parts<Part>, TaskError> {
        let data = &self.config.data;
        let (dev, test) = (self.goal.part(data, rest.dev, false)?, self.goal.part(data, rest.test, false)?);
        let mut told = rest.notes;
        let [trained, chosen, tested] = counts;
        let what = if data.target == Aim::Next { "series" } else { "examples" };
        told.push(notes::sizes(what, trained, chosen, Some(tested)));
        match &self.goal {
            Goal::Given(answers, per) => {
                let all = train.examples.iter().flat_map(|example| &example.answers);
                let labels: Vec<String> = all.map(|answer| answers.text(answer, &train.unseen)).collect();
                told.extend(answers.note(labels.iter().map(String::as_str)));
                if *per == AnswerPer::Vector {
                    told.push("each vector has its own answer".to_string());
                }
            }
            Goal::Next(forecast) => {
                let windows =
                    notes::sizes("windows", train.examples.len(), dev.examples.len(), Some(test.examples.len()));
                told.push(format!("{windows}; {} of {} features", forecast.features.len(), self.width()));
            }
        }
        if train.cut > 0 {
            let most = data.max_length;
            told.push(format!(
                "{} of {trained} examples are longer than {most} vectors (data.max_length): left out of training",
                train.cut
            ));
        }
        for (split, part) in [(Split::Dev, &dev), (Split::Test, &test)] {
            if part.cut > 0 {
                let (cut, all, most) = (part.cut, part.examples.len(), data.max_length);
                told.push(format!(
                    "{cut} of {all} {split} examples are scored by their first {most} vectors (data.max_length)"
                ));
            }
            told.extend(notes::unseen(split, "labels", &part.unseen));
        }
        Ok(Parts { train, dev, test: Some(test), notes: told })
    }

    fn network(&self) -> VectorModelConfig {
        let (target, answers) = match &self.goal {
            Goal::Given(answers, per) => (answers.target(), *per),
            Goal::Next(_) => (target::Target::Value, AnswerPer::Example),
        };
        let network = self.config.model.network();
        VectorModelConfig { width: self.scaling.seen(), outputs: self.goal.outputs(), target, answers, ..network }
    }

    /// Computes the outputs of the network for each example, row by row.
    fn outputs(&self, model: &VectorModel, windows: &[&[f32]], pass: &Pass) -> Result<Vec<Vec<f32>>, TaskError> {
        let device = device_of(model);
        let lengths: Vec<usize> = windows.iter().map(|window| window.len() / self.width()).collect();
        let mut outputs = vec![Vec::new(); windows.len()];
        let batches = in_order(&lengths, SCORING);
        for (done, batch) in batches.iter().enumerate() {
            pass.report(done, batches.len())?;
            let scaled: Vec<Vec<f32>> = batch.iter().map(|&row| self.scaling.apply(windows[row])).collect();
            let (x, lengths) = padded(&scaled, self.scaling.seen(), &device);
            let found: Vec<f32> = model.predict(x, &lengths, pass)?.into_data().iter::<f32>().collect();
            let mut rest = found.as_slice();
            for (&row, &length) in batch.iter().zip(&lengths) {
                let rows = if matches!(self.goal, Goal::Given(_, AnswerPer::Vector)) { length } else { 1 };
                let (own, after) = rest.split_at(rows * self.goal.outputs());
                outputs[row] = own.to_vec();
                rest = after;
            }
        }
        Ok(outputs)
    }

    /// Returns the windows of an input that the network sees: all of it, or the end that a forecast looks back on.
    fn seen<'a>(&self, Typed(vectors): &'a Typed) -> &'a [f32] {
        match &self.goal {
            Goal::Given(..) => vectors,
            Goal::Next(_) => &vectors[vectors.len().saturating_sub(self.config.data.window * self.width())..],
        }
    }
}

/// Resamples the vectors of an example if the configuration says so.
fn thinned(mut series: Series, data: &DataConfig, flags: &[usize]) -> Series {
    if let Some(count) = data.resample {
        let Vectors { features, width, .. } = &mut series.vectors;
        *features = resampled(features, *width, count, flags);
    }
    series
}

impl Task for VectorTask {
    const NAME: &'static str = "vectors";
    const CONFIG: &'static str = include_str!("../../../../configs/vectors.toml");
    type Config = Config;
    type Model = VectorModel;
    type Part = Part;
    type Input = Typed;
    const INPUT: InputKind = InputKind::Vectors;

    fn choose(facts: &Facts, asked: &Asked<Config>) -> Option<Choice> {
        Some(choice::choose(facts, asked))
    }

    fn start(config: Config) -> Result<(Self, Parts<Part>), TaskError> {
        let all = Self::series(&config)?;
        let counts = [all.train.len(), all.dev.len(), all.test.len()];
        let width = all.train.first().map_or(1, |series| series.vectors.width);
        let flags = flags(width, all.train.iter().map(|series| series.vectors.features.as_slice()));
        let mut all = all.map(|series| thinned(series, &config.data, &flags));
        let goal = Goal::learn(&config.data, &all.train)?;
        if matches!(&goal, Goal::Given(Answers::Number(_), _)) && config.train.label_smoothing != 0.0 {
            let got = config.train.label_smoothing.to_string();
            return Err(TaskError::input("train.label_smoothing", "0 for data with numbers as targets", got));
        }
        if config.data.resample.is_some() && matches!(&goal, Goal::Given(_, AnswerPer::Vector)) {
            let got = "labels or values for each vector";
            return Err(TaskError::input("data.resample", "data with one answer for each example", got));
        }
        let train = goal.part(&config.data, std::mem::take(&mut all.train), true)?;
        let scaling = Scaling::learn(&config.data, width, flags, &train);
        let task = Self { config, scaling, goal };
        task.config.validate()?;
        let parts = task.completed(train, counts, all)?;
        Ok((task, parts))
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let goal = match &self.goal {
            Goal::Given(Answers::Number(_), per) => LearntGoal::Value(*per),
            Goal::Given(_, per) => LearntGoal::Label(*per),
            Goal::Next(forecast) => LearntGoal::Next(forecast.clone()),
        };
        let learnt = Learnt { scaling: self.scaling.clone(), goal };
        let learnt = serde_json::to_vec_pretty(&learnt).expect("plain values can be written as JSON");
        let mut files = BTreeMap::from([(FILE.to_string(), learnt)]);
        if let Goal::Given(answers, _) = &self.goal {
            files.extend([answers.file()]);
        }
        files
    }

    fn open(config: Config, files: &Files) -> Result<Self, TaskError> {
        let Learnt { scaling, goal } = files.json(FILE)?;
        if !scaling.is_consistent() {
            return Err(files.damaged(FILE, "the scales differ in width"));
        }
        let goal = match goal {
            LearntGoal::Label(per) => Goal::Given(Answers::open(TargetKind::Label, files)?, per),
            LearntGoal::Value(per) => Goal::Given(Answers::open(TargetKind::Value, files)?, per),
            LearntGoal::Next(forecast) => {
                let fits = forecast.features.iter().all(|&feature| feature < scaling.width())
                    && forecast.features.len().checked_mul(forecast.horizon) == Some(forecast.changes.width());
                if !fits || forecast.horizon == 0 {
                    return Err(files.damaged(FILE, "the forecast does not fit the width of the vectors"));
                }
                Goal::Next(forecast)
            }
        };
        Ok(Self { config, scaling, goal })
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn parts(&self) -> Result<Parts<Part>, TaskError> {
        let mut all = Self::series(&self.config)?.map(|series| self.thinned(series));
        let counts = [all.train.len(), all.dev.len(), all.test.len()];
        let train = self.goal.part(&self.config.data, std::mem::take(&mut all.train), true)?;
        self.completed(train, counts, all)
    }

    fn part(&self, path: &Path) -> Result<Part, TaskError> {
        let all: Vec<Series> = match &self.goal {
            Goal::Given(..) => read_vectors(path)?.examples.into_iter().map(Series::whole).collect(),
            Goal::Next(_) => read_series(path)?,
        };
        if let Some(other) = all.iter().find(|series| series.vectors.width != self.width()) {
            let expected = format!("{} numbers in each vector, as in training", self.width());
            let got = other.vectors.width.to_string();
            return Err(TaskError::input(path.display().to_string(), expected, got));
        }
        let all = all.into_iter().map(|series| self.thinned(series)).collect();
        self.goal.part(&self.config.data, all, false)
    }

    fn raw(config: &Config) -> Result<Option<Splits<RawExample>>, TaskError> {
        let raw = |Series { vectors, .. }: Series| {
            let answer = match &vectors.target {
                Some(Target::Label(label)) => label.clone(),
                Some(Target::Labels(labels)) => labels.join(" "),
                Some(Target::Value(value)) => value.to_string(),
                Some(Target::Values(values)) => written(values, values.len()),
                None => String::new(),
            };
            let labels = match &vectors.target {
                Some(Target::Label(label)) => vec![label.clone()],
                Some(Target::Labels(labels)) => labels.clone(),
                Some(Target::Value(_) | Target::Values(_)) | None => Vec::new(),
            };
            let (shown, hash) = (written(&vectors.features, vectors.width), vectors.hash());
            let (length, mean, size) = (vectors.length(), vectors.mean(), vectors.size());
            let input = RawInput::Vectors { shown, hash, length, mean, size };
            RawExample { input, answer, labels }
        };
        Ok(Some(Self::series(config)?.map(raw)))
    }

    fn described(&self) -> Option<Description> {
        let DataConfig { target, max_length, window, .. } = self.config.data;
        let longest = if target == Aim::Next { window } else { max_length };
        let sizes = sizes(self.config.train.batch_tokens, longest);
        Some(size::described(&self.config.model, &self.network(), sizes))
    }

    fn model(&self, init: &Init) -> Result<VectorModel, TaskError> {
        Ok(self.network().init(init)?)
    }

    fn plan(&self, train: &Part, epoch: u64) -> Vec<Vec<usize>> {
        let lengths: Vec<usize> = train.examples.iter().map(Example::length).collect();
        batches(&lengths, self.config.train.budget(), self.config.seed, epoch)
    }

    fn loss(
        &self,
        train: &Part,
        batch: &[usize],
        model: &VectorModel,
        _: &mut Value,
        pass: &Pass,
    ) -> Result<Loss, TaskError> {
        let device = device_of(model);
        let augment = &self.config.data.augment;
        let mut random = pass.random(&AUGMENT.into());
        let (mut examples, mut scaled) = (Vec::new(), Vec::new());
        for example in batch.iter().map(|&index| &train.examples[index]) {
            let window = train.window(example, self.width());
            let Some(random) = &mut random else {
                scaled.push(self.scaling.apply(window));
                examples.push(Shown { example, kept: (0..example.length()).collect(), mix: None });
                continue;
            };
            let kept = augment.kept(example.length(), random);
            let vectors = kept.iter().flat_map(|at| &window[at * self.width()..(at + 1) * self.width()]).copied();
            let (changed, mix) = self.scaling.apply_changed(&vectors.collect::<Vec<f32>>(), augment, random);
            scaled.push(changed);
            examples.push(Shown { example, kept, mix });
        }
        let (x, lengths) = padded(&scaled, self.scaling.seen(), &device);
        let answers = self.goal.tensor(train, &examples, &self.scaling, &device);
        let mean = model.loss(x, &lengths, answers, self.config.train.label_smoothing, pass)?;
        let tokens = lengths.iter().sum();
        let targets = if matches!(self.goal, Goal::Given(_, AnswerPer::Vector)) { tokens } else { batch.len() };
        Ok(Loss { mean, targets, tokens })
    }

    fn evaluate(
        &self,
        part: &Part,
        model: &VectorModel,
        limit: Option<usize>,
        pass: &Pass,
    ) -> Result<Evaluation, TaskError> {
        let examples: Vec<&Example> = spread(part.examples.len(), limit).map(|at| &part.examples[at]).collect();
        let windows: Vec<&[f32]> = examples.iter().map(|example| part.window(example, self.width())).collect();
        let outputs = self.outputs(model, &windows, pass)?;
        let mut evaluation = match &self.goal {
            Goal::Given(answers, _) => {
                let truth: Vec<&Answer> = examples.iter().flat_map(|example| &example.answers).collect();
                let rows: Vec<&[f32]> =
                    outputs.iter().flat_map(|output| output.chunks_exact(answers.outputs())).collect();
                let (main, better) = answers.main();
                let mut evaluation = Evaluation::new(answers.scores(&truth, &rows, &part.unseen), main, better);
                evaluation.contents = answers.contents(&truth, &rows, &part.unseen)?;
                evaluation
            }
            Goal::Next(forecast) => {
                let found = examples.iter().zip(outputs);
                let found: Vec<Forecasted> =
                    found.map(|(example, output)| self.forecasted(forecast, part, example, output)).collect();
                let mut evaluation = Evaluation::new(forecast.scores(&found), "mae", Better::Lower);
                evaluation.contents = forecast.contents(&found);
                if let (Some(window), Some(one)) = (windows.get(windows.len() / 2), found.get(found.len() / 2)) {
                    let figure = forecast.figure(window, self.width(), &one.found, Some(&one.truth));
                    evaluation.contents.push(regard_figures::Content::Figure(figure));
                }
                evaluation
            }
        };
        evaluation.examples = examples.len();
        Ok(evaluation)
    }

    fn questions(&self, path: &Path) -> Result<Option<Questions>, TaskError> {
        if is_jsonl(path) {
            return Ok(None);
        }
        let all: Vec<Vectors> = match &self.goal {
            Goal::Given(..) => read_vectors(path)?.examples,
            Goal::Next(_) => read_series(path)?.into_iter().map(|series| series.vectors).collect(),
        };
        let inputs = all.iter().map(|vectors| given(&vectors.features, vectors.width)).collect();
        Ok(Some(Questions { inputs, written: None }))
    }

    fn input(&self, given: &Given) -> Result<Typed, TaskError> {
        let wrong = |Unlike { expected, found }: Unlike| TaskError::input("input", expected, found);
        let vectors = match given {
            Given::Json(value @ Value::Array(_)) => vectors_from_json(value, Some(self.width())).map_err(wrong)?.0,
            _ => match given.value(Self::INPUT)? {
                Some(value) => vectors_from_json(value, Some(self.width())).map_err(wrong)?.0,
                None => {
                    let expected = format!("vectors of {} numbers, such as {{\"vectors\": [[…], …]}}", self.width());
                    return Err(TaskError::input("input", expected, excerpt(&given.to_string())));
                }
            },
        };
        let input = match self.config.data.resample {
            Some(count) => Typed(resampled(&vectors, self.width(), count, self.scaling.flags())),
            None => Typed(vectors),
        };
        if self.config.data.resample.is_none() && matches!(self.goal, Goal::Given(..)) {
            check_length(given, input.0.len() / self.width(), self.config.data.max_length, "vectors")?;
        }
        self.check_near(&input)?;
        Ok(input)
    }

    fn given(&self, input: &Typed) -> Given {
        given(&input.0, self.width())
    }

    fn predict(&self, model: &VectorModel, inputs: &[Typed], pass: &Pass) -> Result<Vec<Prediction>, TaskError> {
        let windows: Vec<&[f32]> = inputs.iter().map(|input| self.seen(input)).collect();
        let outputs = self.outputs(model, &windows, pass)?;
        let predicted = |(window, output): (&&[f32], &Vec<f32>)| {
            self.check_answer(window, output)?;
            Ok(self.prediction(window, output))
        };
        windows.iter().zip(&outputs).map(predicted).collect()
    }

    fn samples(&self, part: &Part, count: usize) -> Vec<Sample> {
        let step = (part.examples.len() / count.max(1)).max(1);
        let sample = |example: &Example| Sample {
            given: given(part.window(example, self.width()), self.width()),
            expected: self.expected(part, example),
        };
        part.examples.iter().step_by(step).take(count).map(sample).collect()
    }

    fn telling(&self, _: &VectorModel) -> Result<Typed, TaskError> {
        if self.config.data.path.is_some() {
            let what = "choose an input unless the data are built in; give it vectors".to_string();
            return Err(TaskError::Unsupported { task: Self::NAME, what });
        }
        let mut parts = Self::series(&self.config)?;
        let Series { vectors, .. } = self.thinned(parts.test.swap_remove(0));
        let most = self.config.data.max_length * self.width();
        let end = vectors.features.len().min(most);
        Ok(Typed(vectors.features[..end].to_vec()))
    }

    fn positions<'a>(&self, model: &'a VectorModel) -> Vec<Trained<'a>> {
        positions(None, &model.body, self.config.data.max_length)
    }

    fn look(&self, model: &VectorModel, input: &Typed, pass: &Pass) -> Result<Legend, TaskError> {
        let window = self.seen(input).to_vec();
        let output = self.outputs(model, &[&window], pass)?.remove(0);
        self.check_answer(&window, &output)?;
        let prediction = self.prediction(&window, &output);
        let length = window.len() / self.width();
        let answer = prediction.output.clone();
        let title = format!("{length} vectors → {}{}", excerpt(&answer), prediction.certainty());
        let tokens: Vec<String> = (1..=length).map(|at| at.to_string()).collect();
        let legend = Legend::new(title, move |map| {
            let pools = map.site.kind == AttentionKind::Pooling;
            let queries = if pools { vec![answer.clone()] } else { tokens.clone() };
            (queries, tokens.clone(), map.site.words())
        });
        let sketch = self.sketch(&window, &output);
        Ok(legend.drawn(move |view| sketch.picture(view)))
    }
}
