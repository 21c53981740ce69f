//! The [`Task`] trait, through which the trainer and all commands use a task, and the types in its methods.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use burn::module::Module;
use burn::tensor::Tensor;
use regard_data::{Split, Splits};
use regard_figures::{Content, number};
use regard_inspect::count;
use regard_inspect::show::position::Trained;
use regard_nn::{Init, Pass};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::auto::{Asked, Auto, Choice, Facts};
use crate::decode::Wish;
use crate::error::TaskError;
use crate::folder::Files;
use crate::ink::{Ink, PenOptions, PenRequest};
use crate::input::{Given, InputKind};
pub use crate::looked::{Draw, Legend, Looked, Picture};
use crate::survey::RawExample;
use crate::train::TrainConfig;
use crate::writer::Writer;

/// A configuration that can be checked before anything is read or written.
pub trait Validate {
    /// Returns an error if a value is invalid.
    fn validate(&self) -> Result<(), TaskError>;
}

/// The configuration of a task.
pub trait Settings: Validate + Serialize + DeserializeOwned + Debug + Clone {
    /// Returns the `[train]` section.
    fn train(&self) -> &TrainConfig;

    /// Returns the seed of the initial weights, the order of examples and dropout.
    fn seed(&self) -> u64;

    /// Returns whether settings that are not given follow the data. By default they do not.
    fn auto(&self) -> Auto {
        Auto::Off
    }

    /// Returns the path of the examples; `None` for built-in data.
    fn data_path(&self) -> Option<&Path>;

    /// Returns the fingerprint of the data, which changes when the data do.
    fn fingerprint(&self) -> Result<String, TaskError>;
}

/// A task with everything that is known before its model is built: configuration, tokenisers, labels.
pub trait Task: Sized + Send + Sync + 'static {
    /// Name of the task in commands, as in `regard train NAME`.
    const NAME: &'static str;
    /// Commented TOML configuration with every default.
    const CONFIG: &'static str;
    /// Configuration of the task.
    type Config: Settings;
    /// Network of the task.
    type Model: Module + Debug + Sync;
    /// Input of the model, read and checked.
    type Input;
    /// Kind of input that the model takes.
    const INPUT: InputKind;
    /// Encoded examples of one split.
    type Part: Sync;

    /// Chooses settings for data that the user has given, which suit them better than the defaults. `None`, the default, keeps
    /// the defaults.
    fn choose(_facts: &Facts, _asked: &Asked<Self::Config>) -> Option<Choice> {
        None
    }

    /// Creates the task of a new run from its data: learns tokenisers and labels, and encodes the examples.
    fn start(config: Self::Config) -> Result<(Self, Parts<Self::Part>), TaskError>;

    /// Returns the files that [`open`](Self::open) needs beside the configuration, by name, such as `tokenizer.json`. By default
    /// there are none.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        BTreeMap::new()
    }

    /// Restores the task of a model folder from its configuration and its [`files`](Self::files).
    fn open(config: Self::Config, files: &Files) -> Result<Self, TaskError>;

    /// Returns the configuration of this run.
    fn config(&self) -> &Self::Config;

    /// Loads the examples of the run again, to resume it or to score its model.
    fn parts(&self) -> Result<Parts<Self::Part>, TaskError>;

    /// Loads all examples of a file, for `regard eval --data`.
    fn part(&self, path: &Path) -> Result<Self::Part, TaskError>;

    /// Reads the examples as their files have them, for `regard data`. Returns `None` if examples are made as needed, which is
    /// the default.
    fn raw(_config: &Self::Config) -> Result<Option<Splits<RawExample>>, TaskError> {
        Ok(None)
    }

    /// Describes the network and the sizes of a batch, so that their cost is known before anything is built. `None` if there is
    /// no such description.
    fn described(&self) -> Option<count::Description> {
        None
    }

    /// Creates the network with its initial weights.
    fn model(&self, init: &Init) -> Result<Self::Model, TaskError>;

    /// Loads what the network takes over from another model before its first step. By default that is nothing.
    fn warm(&self, model: Self::Model) -> Result<Self::Model, TaskError> {
        Ok(model)
    }

    /// Returns what [`prepare`](Self::prepare) does, for people, such as `computing vectors`; `None`, the default, if it does nothing.
    fn preparation(&self) -> Option<&'static str> {
        None
    }

    /// Computes what the losses of all steps need, before the first of them. By default that is nothing.
    fn prepare(&self, _train: &Self::Part, _model: &Self::Model, _pass: &Pass) -> Result<(), TaskError> {
        Ok(())
    }

    /// Returns the factor on the learning rate of a parameter, given by its path. By default it is 1.
    fn rate(&self, _path: &str) -> f32 {
        1.0
    }

    /// Returns the batches of an epoch as lists of example indices. They depend only on the seed and the epoch.
    fn plan(&self, train: &Self::Part, epoch: u64) -> Vec<Vec<usize>>;

    /// Computes the loss of a batch. `memory` is the task's state between steps; it is saved with each checkpoint.
    fn loss(
        &self,
        train: &Self::Part,
        batch: &[usize],
        model: &Self::Model,
        memory: &mut Value,
        pass: &Pass,
    ) -> Result<Loss, TaskError>;

    /// Returns whether threads may share a batch. The loss of a batch must then be the mean of the losses of its parts, weighted
    /// by their targets, and must not use `memory`.
    fn is_divisible(&self) -> bool {
        true
    }

    /// Scores a model on all examples of a split, or on `limit` of them spread evenly.
    fn evaluate(
        &self,
        part: &Self::Part,
        model: &Self::Model,
        limit: Option<usize>,
        pass: &Pass,
    ) -> Result<Evaluation, TaskError>;

    /// Reads an input; returns an error if the model cannot take it.
    fn input(&self, given: &Given) -> Result<Self::Input, TaskError>;

    /// Returns an input as [`input`](Self::input) reads it from JSON, without the name of any file.
    fn given(&self, input: &Self::Input) -> Given;

    /// Reads the inputs of a file in a format of the task's own, such as columns; returns `None` for one input per line.
    fn questions(&self, _path: &Path) -> Result<Option<Questions>, TaskError> {
        Ok(None)
    }

    /// Predicts the answers to inputs, one prediction per input.
    fn predict(&self, model: &Self::Model, inputs: &[Self::Input], pass: &Pass) -> Result<Vec<Prediction>, TaskError>;

    /// Returns at most `count` examples of a split with their expected answers, to be shown beside the predictions.
    fn samples(&self, part: &Self::Part, count: usize) -> Vec<Sample>;

    /// Returns an instructive input to look at when the user gives none.
    fn telling(&self, model: &Self::Model) -> Result<Self::Input, TaskError>;

    /// Runs the model on an input, while the caller's pass captures its attention, and returns how to read the maps.
    fn look(&self, model: &Self::Model, input: &Self::Input, pass: &Pass) -> Result<Legend, TaskError>;

    /// Returns a picture to show instead of attention maps, for a model without attention. `None` by default.
    fn picture(&self, _model: &Self::Model, _input: Option<&Self::Input>) -> Result<Option<Picture>, TaskError> {
        Ok(None)
    }

    /// Returns the positions of the model, for `regard look --positions`. By default there are none.
    fn positions<'a>(&self, _model: &'a Self::Model) -> Vec<Trained<'a>> {
        Vec::new()
    }

    /// Returns files of the trained model for other programs, by name. By default there are none.
    fn extras(&self, _model: &Self::Model) -> Result<BTreeMap<String, Vec<u8>>, TaskError> {
        Ok(BTreeMap::new())
    }

    /// Writes the trained model as a folder of `transformers`. By default there is none that fits.
    fn export(&self, _model: &Self::Model, _to: &Path) -> Result<(), TaskError> {
        Err(TaskError::Unsupported {
            task: Self::NAME,
            what: "be written for transformers: no architecture there is this network".to_string(),
        })
    }

    /// Continues several prompts at once and calls `piece` with the index of a prompt and the next piece of its text. The text
    /// of a prompt depends on its own seed and not on the other prompts.
    fn generate(
        &self,
        _model: &Self::Model,
        _prompts: &[Prompt<Self::Input>],
        _wish: &Wish,
        _pass: &Pass,
        _piece: &mut dyn FnMut(usize, &str),
    ) -> Result<(), TaskError> {
        Err(TaskError::Unsupported {
            task: Self::NAME,
            what: "generate text; regard train generate trains a model that can".to_string(),
        })
    }

    /// Returns the interface for texts that join and leave while others are written. By default the task has none.
    fn writer<'a>(&'a self, _model: &'a Self::Model) -> Option<Box<dyn Writer + 'a>> {
        None
    }

    /// Writes lines by hand. A text that the model cannot write gets an error without affecting the others.
    fn write_by_hand(
        &self,
        _model: &Self::Model,
        _lines: &[PenRequest],
        _options: &PenOptions,
        _pass: &Pass,
    ) -> Result<Vec<Result<Ink, TaskError>>, TaskError> {
        Err(TaskError::Unsupported {
            task: Self::NAME,
            what: "write by hand; regard train write trains a model that can".to_string(),
        })
    }
}

/// The splits of a run's data, with `P` as the examples of a split.
#[derive(Debug, Clone)]
pub struct Parts<P> {
    /// Examples to learn from.
    pub train: P,
    /// Examples to choose the best weights by.
    pub dev: P,
    /// Examples to score once, at the end; `None` if only dev is held out.
    pub test: Option<P>,
    /// Notes for the user, such as sizes and examples that were left out.
    pub notes: Vec<String>,
}

impl<P> Parts<P> {
    /// Returns one of the splits, if it exists.
    pub fn take(self, split: Split) -> Option<P> {
        match split {
            Split::Train => Some(self.train),
            Split::Dev => Some(self.dev),
            Split::Test => self.test,
        }
    }

    /// Returns the split that a run is scored on at its end: test, or dev if there is no test split.
    pub fn held_out(&self) -> (Split, &P) {
        match &self.test {
            Some(test) => (Split::Test, test),
            None => (Split::Dev, &self.dev),
        }
    }
}

/// The inputs of a file in a format of a task's own.
pub struct Questions {
    /// Inputs in the order of the file.
    pub inputs: Vec<Given>,
    /// Formats answers as in the file. If `None`, each answer is printed as a line.
    pub written: Option<Written>,
}

/// Function that formats the answer to the input with this index, or a placeholder if there is no answer.
pub type Written = Box<dyn Fn(usize, Option<&Prediction>) -> String>;

impl Questions {
    /// Creates questions whose answers are lines.
    pub fn lines(inputs: Vec<String>) -> Self {
        Self { inputs: inputs.into_iter().map(Given::from).collect(), written: None }
    }
}

/// The loss of a batch.
#[derive(Debug)]
pub struct Loss {
    /// Mean loss over `targets`, `[1]`, from which the gradients are computed.
    pub mean: Tensor<1>,
    /// Number of tokens or labels that the mean is taken over.
    pub targets: usize,
    /// Number of tokens that went through the model, without padding, to measure speed.
    pub tokens: usize,
}

/// Whether higher or lower scores are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Higher scores are better, as for an accuracy.
    Higher,
    /// Lower scores are better, as for a loss.
    Lower,
}

/// The scores of a model on some examples, with figures for the report.
#[derive(Debug)]
pub struct Evaluation {
    /// Scores by name.
    pub scores: BTreeMap<String, f64>,
    /// Name of the main score, which decides which weights are best.
    pub main: &'static str,
    /// Whether a higher or a lower main score is better.
    pub better: Better,
    /// Name of the split or path of the file that was scored. The caller sets it.
    pub part: String,
    /// Number of examples that were scored.
    pub examples: usize,
    /// Figures and tables for the report, such as a confusion matrix.
    pub contents: Vec<Content>,
}

impl Evaluation {
    /// Creates an evaluation without figures.
    pub fn new(scores: impl IntoIterator<Item = (&'static str, f64)>, main: &'static str, better: Better) -> Self {
        let scores = scores.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        Self { scores, main, better, part: String::new(), examples: 0, contents: Vec::new() }
    }

    /// Returns the main score with its sign chosen so that larger is better.
    pub fn worth(&self) -> f64 {
        let value = self.scores.get(self.main).copied().unwrap_or(f64::NAN);
        let value = match self.better {
            Better::Higher => value,
            Better::Lower => -value,
        };
        // NaN counts as worse than any number.
        if value.is_nan() { f64::NEG_INFINITY } else { value }
    }
}

/// The beginning of a text to generate, and a seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt<I> {
    /// Beginning of the text; `None` lets the model begin.
    pub input: Option<I>,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// A model's answer to an input; in JSON `{"input", "output", …}`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// Input as it was given. The caller sets it.
    pub input: Value,
    /// Answer in readable form.
    pub output: String,
    /// Further keys of the task, such as `tags`, `label`, `probabilities` or `translation`.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

impl Prediction {
    /// Formats how certain the model is, as ` (probability 0.93)`; empty if the prediction does not say.
    pub fn certainty(&self) -> String {
        let label = self.more.get("probabilities").and_then(|all| all.get(&self.output)).and_then(Value::as_f64);
        let log = self.more.get("log_probability").and_then(Value::as_f64);
        match (label, log) {
            (Some(probability), _) => format!(" (probability {})", number(probability, 3)),
            (None, Some(log)) => format!(" (log-probability {})", number(log, 3)),
            (None, None) => String::new(),
        }
    }

    /// Creates the prediction of a translation, without its input.
    pub fn of_translation(text: String) -> Self {
        let more = BTreeMap::from([("translation".to_string(), Value::from(text.as_str()))]);
        Self::new(text, more)
    }

    /// Creates a prediction without its input.
    pub fn new(output: impl Into<String>, more: BTreeMap<String, Value>) -> Self {
        Self { input: Value::Null, output: output.into(), more }
    }
}

/// An example to show.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Input as a person would give it.
    pub given: Given,
    /// Expected answer, in the form of [`Prediction::output`].
    pub expected: String,
}

/// Calls of a task as its users make them, for tests.
#[cfg(test)]
pub(crate) mod testing {
    use regard_inspect::AttentionView;
    use regard_nn::Wanted;

    use super::*;
    use crate::opened::viewed;
    use crate::settings::resolve;

    /// Resolves the task's default configuration with these settings.
    pub(crate) fn configured<T: Task>(sets: &[&str]) -> Result<T::Config, TaskError> {
        resolve(T::CONFIG, None, &sets.iter().map(|set| set.to_string()).collect::<Vec<_>>(), &[])
    }

    /// Predicts the answers to texts.
    pub(crate) fn answers<T: Task>(task: &T, model: &T::Model, texts: &[&str]) -> Result<Vec<Prediction>, TaskError> {
        let inputs = texts.iter().map(|&text| task.input(&text.into())).collect::<Result<Vec<_>, _>>()?;
        task.predict(model, &inputs, &Pass::inference())
    }

    /// Returns the attention maps of a text, or of the task's own instructive input.
    pub(crate) fn maps<T: Task>(task: &T, model: &T::Model, text: Option<&str>) -> Result<AttentionView, TaskError> {
        let input = match text {
            Some(text) => task.input(&text.into())?,
            None => task.telling(model)?,
        };
        Ok(viewed(task, model, &input, Wanted::default(), &Pass::inference())?.0)
    }
}
