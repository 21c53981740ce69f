//! What a task is: the one trait that the trainer, `predict`, `eval`, `look` and `compare` know.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use burn::module::Module;
use burn::tensor::Tensor;
use regard_data::Split;
use regard_figures::{Content, Figure, Saved, number};
use regard_inspect::{AttentionView, InspectError, MapGroup, ViewFormat, count};
use regard_nn::{AttentionMap, Init, Pass};
use regard_system::save_atomically;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decode::SampleOptions;
use crate::error::TaskError;
use crate::input::{Given, InputKind};
use crate::train::TrainConfig;

/// A configuration that can be checked before anything is read or written.
pub trait Validate {
    /// Refuses what makes no sense.
    fn validate(&self) -> Result<(), TaskError>;
}

/// The configuration of a task.
pub trait Settings: Validate + Serialize + DeserializeOwned + Debug + Clone {
    /// The `[train]` section.
    fn train(&self) -> &TrainConfig;

    /// The seed of weights, order and dropout.
    fn seed(&self) -> u64;

    /// Where the examples come from; nothing for built-in data.
    fn data_path(&self) -> Option<&Path>;

    /// By what the data are known again.
    fn fingerprint(&self) -> Result<String, TaskError>;
}

/// A task with all that is known before its model: configuration, tokenisers, labels.
pub trait Task: Sized + Send + Sync + 'static {
    /// The name by which `regard train` calls the task.
    const NAME: &'static str;
    /// The commented configuration with every default.
    const CONFIG: &'static str;
    /// The configuration of the task.
    type Config: Settings;
    /// The network of the task.
    type Model: Module + Debug + Sync;
    /// What its model is asked about, read and checked.
    type Input;
    /// What kind of thing that is.
    const INPUT: InputKind;
    /// The encoded examples of one split.
    type Part: Sync;

    /// Reads the training data as far as tokenisers and labels need them.
    fn start(config: Self::Config) -> Result<Self, TaskError>;

    /// The files that [`open`](Self::open) needs beside the configuration: `tokenizer.json`, `labels.json`.
    fn files(&self) -> Result<BTreeMap<String, Vec<u8>>, TaskError>;

    /// The task of a folder, from its configuration and [`files`](Self::files), given by name.
    fn open(config: Self::Config, file: &mut dyn FnMut(&str) -> Result<Vec<u8>, TaskError>) -> Result<Self, TaskError>;

    /// The configuration of this run.
    fn config(&self) -> &Self::Config;

    /// The examples of the run.
    fn parts(&self) -> Result<Parts<Self::Part>, TaskError>;

    /// All examples of a file, for `eval --data`.
    fn part(&self, path: &Path) -> Result<Self::Part, TaskError>;

    /// The network and the sizes of a batch in numbers, so that its cost is known before it is built; none where they
    /// cannot be described.
    fn described(&self) -> Option<count::Description> {
        None
    }

    /// A network with its first weights.
    fn model(&self, init: &Init) -> Result<Self::Model, TaskError>;

    /// The network with what it takes over from another model before its first step. Nothing by default.
    fn warm(&self, model: Self::Model) -> Result<Self::Model, TaskError> {
        Ok(model)
    }

    /// The batches of an epoch, as lists of examples; a function of the seed and the epoch.
    fn plan(&self, train: &Self::Part, epoch: u64) -> Vec<Vec<usize>>;

    /// The loss of a batch. `memory` is what the task keeps between steps; it is saved with a checkpoint.
    fn loss(
        &self,
        train: &Self::Part,
        batch: &[usize],
        model: &Self::Model,
        memory: &mut Value,
        pass: &Pass,
    ) -> Result<Loss, TaskError>;

    /// Whether the loss of a batch is the mean of those of its parts, weighed by their targets, and keeps no memory:
    /// threads may then share a batch.
    fn is_divisible(&self) -> bool {
        true
    }

    /// The scores of a model on `limit` examples, spread over a split, or on all.
    fn evaluate(
        &self,
        part: &Self::Part,
        model: &Self::Model,
        limit: Option<usize>,
        pass: &Pass,
    ) -> Result<Evaluation, TaskError>;

    /// Reads an input; refuses what the model cannot take.
    fn input(&self, given: &Given) -> Result<Self::Input, TaskError>;

    /// The inputs of a file in a format of its own, such as columns; nothing of a file with an input a line.
    fn questions(&self, _path: &Path) -> Result<Option<Questions>, TaskError> {
        Ok(None)
    }

    /// What the model makes of inputs, one prediction each.
    fn predict(&self, model: &Self::Model, inputs: &[Self::Input], pass: &Pass) -> Result<Vec<Prediction>, TaskError>;

    /// A few examples of a split with what was expected, to be shown beside the predictions.
    fn samples(&self, part: &Self::Part, count: usize) -> Vec<Sample>;

    /// An input to look at where none is given.
    fn telling(&self, model: &Self::Model) -> Result<Self::Input, TaskError>;

    /// Takes an input through the model, whose attention the caller's pass captures, and says how to read the maps.
    fn look(&self, model: &Self::Model, input: &Self::Input, pass: &Pass) -> Result<Legend, TaskError>;

    /// What there is to see instead, of a model that has no attention. Nothing by default.
    fn picture(&self, _model: &Self::Model, _input: Option<&Self::Input>) -> Result<Option<Picture>, TaskError> {
        Ok(None)
    }

    /// Files for other programs that depend on the trained model, by name. None by default.
    fn extras(&self, _model: &Self::Model) -> Result<BTreeMap<String, Vec<u8>>, TaskError> {
        Ok(BTreeMap::new())
    }

    /// Text that goes on from each of several prompts, all written at once and handed out piece by piece with the number of
    /// its prompt. What is drawn after a prompt depends on its seed and not on the other prompts.
    fn generate(
        &self,
        _model: &Self::Model,
        _prompts: &[Prompt<Self::Input>],
        _options: &SampleOptions,
        _pass: &Pass,
        _piece: &mut dyn FnMut(usize, &str),
    ) -> Result<(), TaskError> {
        Err(TaskError::Unsupported {
            task: Self::NAME,
            what: "generate text; train generate makes a model that can".to_string(),
        })
    }
}

/// The splits.
#[derive(Debug, Clone)]
pub struct Parts<P> {
    /// To learn from.
    pub train: P,
    /// To choose by.
    pub dev: P,
    /// To score once; nothing where only dev is held out, as of a plain text.
    pub test: Option<P>,
    /// What the user should know of them, such as their sizes and examples that were left out.
    pub notes: Vec<String>,
}

impl<P> Parts<P> {
    /// One of them, if it is there.
    pub fn take(self, split: Split) -> Option<P> {
        match split {
            Split::Train => Some(self.train),
            Split::Dev => Some(self.dev),
            Split::Test => self.test,
        }
    }

    /// The split that a run is scored by at its end: test, or dev where there is no test.
    pub fn held_out(&self) -> (Split, &P) {
        match &self.test {
            Some(test) => (Split::Test, test),
            None => (Split::Dev, &self.dev),
        }
    }
}

/// The inputs of a file that has them in a format of its own.
pub struct Questions {
    /// The inputs in their order.
    pub inputs: Vec<Given>,
    /// Writes the answer to the input of this number as the file would, or its place where there is no answer. Without it an
    /// answer is a line.
    pub written: Option<Written>,
}

/// See [`Questions`].
pub type Written = Box<dyn Fn(usize, Option<&Prediction>) -> String>;

impl Questions {
    /// Questions whose answers are lines.
    pub fn lines(inputs: Vec<String>) -> Self {
        Self { inputs: inputs.into_iter().map(Given::from).collect(), written: None }
    }
}

/// The loss of a batch.
#[derive(Debug)]
pub struct Loss {
    /// The mean over `targets`, `[1]`; its gradient is followed.
    pub mean: Tensor<1>,
    /// Tokens or labels that it is the mean of.
    pub targets: usize,
    /// Tokens that went through the model, without padding: the measure of speed.
    pub tokens: usize,
}

/// Which scores are good ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Such as an accuracy.
    Higher,
    /// Such as a loss.
    Lower,
}

/// The scores of a split and what is to be seen of them.
#[derive(Debug)]
pub struct Evaluation {
    /// By name.
    pub scores: BTreeMap<String, f64>,
    /// The one that decides which weights are best.
    pub main: &'static str,
    /// Whether a higher score is better.
    pub better: Better,
    /// What was scored: a split, or the path of a file. The caller fills it in.
    pub part: String,
    /// Examples that were scored.
    pub examples: usize,
    /// Figures and tables for the report, such as a confusion matrix.
    pub contents: Vec<Content>,
}

impl Evaluation {
    /// Scores without pictures.
    pub fn new(scores: impl IntoIterator<Item = (&'static str, f64)>, main: &'static str, better: Better) -> Self {
        let scores = scores.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        Self { scores, main, better, part: String::new(), examples: 0, contents: Vec::new() }
    }

    /// The score that decides; larger is better.
    pub fn worth(&self) -> f64 {
        let value = self.scores.get(self.main).copied().unwrap_or(f64::NAN);
        let value = match self.better {
            Better::Higher => value,
            Better::Lower => -value,
        };
        // A score that is no number is worse than any.
        if value.is_nan() { f64::NEG_INFINITY } else { value }
    }
}

/// How the maps of an input are to be read.
pub struct Legend {
    /// The input with what the model made of it.
    pub title: String,
    /// The tokens of a map's rows and columns, as a layer without heads.
    pub describe: Box<dyn Fn(&AttentionMap) -> MapGroup>,
}

impl Legend {
    /// For a model in which every layer looks from the same tokens at the same tokens.
    pub fn of_tokens(title: impl Into<String>, tokens: Vec<String>) -> Self {
        Self::new(title, move |map| (tokens.clone(), tokens.clone(), map.site.words()))
    }

    /// With the queries and the keys of each map, and the words for its layer.
    pub fn new(
        title: impl Into<String>,
        tokens: impl Fn(&AttentionMap) -> (Vec<String>, Vec<String>, String) + 'static,
    ) -> Self {
        let describe = move |map: &AttentionMap| {
            let (queries, keys, words) = tokens(map);
            MapGroup::of(map.site, queries, keys).named(words)
        };
        Self { title: title.into(), describe: Box::new(describe) }
    }

    /// The maps that a pass has captured.
    pub fn view(&self, maps: &[AttentionMap]) -> Result<AttentionView, InspectError> {
        AttentionView::from_maps(self.title.as_str(), maps, |map| Some((self.describe)(map)))
    }
}

/// What a text goes on from.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt<I> {
    /// The beginning of the text; without one the model begins it.
    pub input: Option<I>,
    /// The seed of what is drawn.
    pub seed: u64,
}

/// What a model made of an input: `{"input", "output", …}`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The input as it came; the caller fills it in.
    pub input: Value,
    /// The answer as a person reads it.
    pub output: String,
    /// What the task adds: `tags`, `label`, `probabilities`, `translation`.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

impl Prediction {
    /// How sure the model is, where the prediction says so: ` (probability 0.93)`.
    pub fn certainty(&self) -> String {
        let label = self.more.get("probabilities").and_then(|all| all.get(&self.output)).and_then(Value::as_f64);
        let log = self.more.get("log_probability").and_then(Value::as_f64);
        match (label, log) {
            (Some(probability), _) => format!(" (probability {})", number(probability, 3)),
            (None, Some(log)) => format!(" (log-probability {})", number(log, 3)),
            (None, None) => String::new(),
        }
    }

    /// A prediction as a task gives it, without its input.
    pub fn new(output: impl Into<String>, more: BTreeMap<String, Value>) -> Self {
        Self { input: Value::Null, output: output.into(), more }
    }
}

/// A drawing of a model, and the same as numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// For people.
    pub figure: Figure,
    /// For programs.
    pub data: Value,
}

/// What `look` has to show.
#[derive(Debug, Clone, PartialEq)]
pub enum Looked {
    /// Where a model looks.
    Attention(AttentionView),
    /// Something else.
    Picture(Picture),
}

impl From<AttentionView> for Looked {
    fn from(view: AttentionView) -> Self {
        Self::Attention(view)
    }
}

impl From<Picture> for Looked {
    fn from(picture: Picture) -> Self {
        Self::Picture(picture)
    }
}

impl Looked {
    /// The same with what was seen of another input by the same model.
    pub fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Attention(view), Self::Attention(other)) => Self::Attention(view.join(other)),
            (Self::Picture(mut picture), Self::Picture(other)) => {
                picture.figure.panels.extend(other.figure.panels);
                picture.data = match picture.data {
                    Value::Array(mut list) => {
                        list.push(other.data);
                        Value::Array(list)
                    }
                    one => Value::Array(vec![one, other.data]),
                };
                Self::Picture(picture)
            }
            (one, _) => one,
        }
    }

    /// Writes it as the extension of the path says: `.html`, `.svg`, `.png` or `.json`; atomically.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Saved, InspectError> {
        let path = path.as_ref();
        match self {
            Self::Attention(view) => view.save(path),
            Self::Picture(picture) => match ViewFormat::of(path)? {
                ViewFormat::Json => {
                    save_atomically(path, format!("{}\n", picture.data).as_bytes())?;
                    Ok(Saved::default())
                }
                ViewFormat::Html | ViewFormat::Svg | ViewFormat::Png => Ok(picture.figure.save(path)?),
            },
        }
    }
}

/// An example to be shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The input as a person would give it.
    pub given: Given,
    /// The right answer, as a prediction's `output` would be.
    pub expected: String,
}

/// Asking a task as callers do, for its tests.
#[cfg(test)]
pub(crate) mod testing {
    use regard_nn::Wanted;

    use super::*;
    use crate::opened::viewed;

    /// What the model makes of texts.
    pub(crate) fn answers<T: Task>(task: &T, model: &T::Model, texts: &[&str]) -> Result<Vec<Prediction>, TaskError> {
        let inputs = texts.iter().map(|&text| task.input(&text.into())).collect::<Result<Vec<_>, _>>()?;
        task.predict(model, &inputs, &Pass::inference())
    }

    /// The maps of a text, or of an input that the task finds telling.
    pub(crate) fn maps<T: Task>(task: &T, model: &T::Model, text: Option<&str>) -> Result<AttentionView, TaskError> {
        let input = match text {
            Some(text) => task.input(&text.into())?,
            None => task.telling(model)?,
        };
        viewed(task, model, &input, Wanted::default(), &Pass::inference())
    }
}
