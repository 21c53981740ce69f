//! Examples of `vectors`: which vectors the network sees, what it is to say about them, and how both are scaled.

use burn::tensor::{Device, Tensor, TensorData};
use regard_data::{Scaler, Series, Target, Vectors};
use regard_nn::models::target;
use regard_nn::models::vectors::AnswerPer;

use super::augment::Mix;
use super::config::{Aim, DataConfig};
use super::forecast::{Forecast, changes};
use super::scaling::Scaling;
use crate::answers::{Answer, Answers};
use crate::error::TaskError;

/// What the network predicts, learnt from the training part.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Goal {
    /// Labels or numbers that the data give.
    Given(Answers, AnswerPer),
    /// The next vectors.
    Next(Forecast),
}

/// The vectors `from … to` of a series, with their answers.
#[derive(Debug, Clone)]
pub(super) struct Example {
    pub series: usize,
    pub from: usize,
    pub to: usize,
    /// One answer, or one for each vector; none if the following vectors are the answer.
    pub answers: Vec<Answer>,
}

impl Example {
    pub fn length(&self) -> usize {
        self.to - self.from
    }
}

/// An example as the network sees it in training.
pub(super) struct Shown<'a> {
    pub example: &'a Example,
    /// Indices of the vectors that are not left out.
    pub kept: Vec<usize>,
    /// The linear map of the vectors.
    pub mix: Option<Mix>,
}

/// The examples of a split.
#[derive(Debug)]
pub struct Part {
    /// Numbers of each series as they are in the data, `[length, width]`.
    pub(super) series: Vec<Vec<f32>>,
    pub(super) examples: Vec<Example>,
    /// Labels that the training split does not have.
    pub(super) unseen: Vec<String>,
    /// Number of examples that are cut to `data.max_length` vectors.
    pub(super) cut: usize,
}

impl Part {
    /// Returns the vectors that the network sees.
    pub(super) fn window(&self, example: &Example, width: usize) -> &[f32] {
        &self.series[example.series][example.from * width..example.to * width]
    }
}

impl Goal {
    /// Learns labels or scales from the training part.
    pub fn learn(data: &DataConfig, train: &[Series]) -> Result<Self, TaskError> {
        let all = || train.iter().map(|series| &series.vectors);
        if data.target == Aim::Next {
            return Ok(Self::Next(learn_changes(data, train)?));
        }
        let labels = || all().flat_map(labels_of);
        let numbers = || all().flat_map(numbers_of).collect::<Vec<f64>>();
        match all().next().and_then(|first| first.target.as_ref()) {
            Some(Target::Label(_)) => Ok(Self::Given(Answers::of_labels(labels())?, AnswerPer::Example)),
            Some(Target::Labels(_)) => Ok(Self::Given(Answers::of_labels(labels())?, AnswerPer::Vector)),
            Some(Target::Value(_)) => Ok(Self::Given(Answers::of_numbers(&numbers())?, AnswerPer::Example)),
            Some(Target::Values(_)) => Ok(Self::Given(Answers::of_numbers(&numbers())?, AnswerPer::Vector)),
            None => {
                let expected = "label, labels, value or values, or --set data.target=next to forecast";
                Err(TaskError::input("vectors", expected, "none of them"))
            }
        }
    }

    /// Number of outputs of the network in each row.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Given(answers, _) => answers.outputs(),
            Self::Next(forecast) => forecast.changes.width(),
        }
    }

    /// Makes the examples of a split. `is_training` leaves out those that are too long; in other splits they are cut.
    pub fn part(&self, data: &DataConfig, all: Vec<Series>, is_training: bool) -> Result<Part, TaskError> {
        let mut part = Part { series: Vec::new(), examples: Vec::new(), unseen: Vec::new(), cut: 0 };
        if let Self::Given(answers, _) = self {
            part.unseen = answers.unseen(all.iter().flat_map(|series| labels_of(&series.vectors)));
        }
        for (at, Series { vectors, from }) in all.into_iter().enumerate() {
            let length = vectors.length();
            match self {
                Self::Given(answers, per) => {
                    let to = length.min(data.max_length);
                    part.cut += usize::from(to < length);
                    if to == length || !is_training {
                        let mut found = read(answers, *per, &vectors, &part.unseen)?;
                        found.truncate(to);
                        part.examples.push(Example { series: at, from: 0, to, answers: found });
                    }
                }
                Self::Next(forecast) => {
                    let ends = from.max(1)..(length + 1).saturating_sub(forecast.horizon);
                    // A series shorter than the window still has windows: all that precedes the forecast.
                    let ends = ends.filter(|&to| to >= data.window || to + forecast.horizon == length);
                    part.examples.extend(ends.map(|to| {
                        let from = to.saturating_sub(data.window);
                        Example { series: at, from, to, answers: Vec::new() }
                    }));
                }
            }
            part.series.push(vectors.features);
        }
        if part.examples.is_empty() {
            let (expected, got) = match self {
                Self::Given(..) => {
                    let most = data.max_length;
                    (format!("at least one of 1 to {most} vectors (data.max_length)"), format!("{} longer", part.cut))
                }
                Self::Next(forecast) => {
                    let least = forecast.horizon + 1;
                    (format!("a series of {least} or more vectors to forecast in (data.horizon)"), "none".to_string())
                }
            };
            return Err(TaskError::input("examples of a split", expected, got));
        }
        Ok(part)
    }

    /// Returns the answers of some examples for the loss.
    pub fn tensor(&self, part: &Part, examples: &[Shown], scaling: &Scaling, device: &Device) -> target::Answers {
        match self {
            Self::Given(answers, per) => {
                let own = |Shown { example, kept, .. }: &Shown| match per {
                    AnswerPer::Example => example.answers.clone(),
                    AnswerPer::Vector => kept.iter().map(|&at| example.answers[at].clone()).collect(),
                };
                let all: Vec<Answer> = examples.iter().flat_map(own).collect();
                answers.tensor(&all.iter().collect::<Vec<_>>(), device)
            }
            Self::Next(forecast) => {
                let wanted = |Shown { example, mix, .. }: &Shown| {
                    forecast.wanted(&part.series[example.series], example.to, scaling, mix.as_ref())
                };
                let values: Vec<f32> = examples.iter().flat_map(wanted).collect();
                let shape = [examples.len(), self.outputs()];
                target::Answers::Value(Tensor::from_data(TensorData::new(values, shape), device))
            }
        }
    }
}

fn labels_of(vectors: &Vectors) -> impl Iterator<Item = &str> + Clone {
    let labels = match &vectors.target {
        Some(Target::Label(label)) => std::slice::from_ref(label),
        Some(Target::Labels(labels)) => labels,
        Some(Target::Value(_) | Target::Values(_)) | None => &[],
    };
    labels.iter().map(String::as_str)
}

fn numbers_of(vectors: &Vectors) -> impl Iterator<Item = f64> {
    let numbers = match &vectors.target {
        Some(Target::Value(value)) => std::slice::from_ref(value),
        Some(Target::Values(values)) => values,
        Some(Target::Label(_) | Target::Labels(_)) | None => &[],
    };
    numbers.iter().map(|&value| f64::from(value))
}

/// Reads the answers of an example, which must be of the kind that the model predicts.
fn read(answers: &Answers, per: AnswerPer, vectors: &Vectors, unseen: &[String]) -> Result<Vec<Answer>, TaskError> {
    let (expected, found): (_, Vec<Answer>) = match (answers, per) {
        (Answers::Number(_), per) => {
            let expected = if per == AnswerPer::Example { "value" } else { "values" };
            (expected, numbers_of(vectors).map(Answer::Number).collect())
        }
        (_, per) => {
            let expected = if per == AnswerPer::Example { "label" } else { "labels" };
            (expected, labels_of(vectors).map(|label| Answer::One(answers.index(label, unseen))).collect())
        }
    };
    let got = vectors.target.as_ref().map_or("no target", |target| target.kind().name());
    if got == expected {
        return Ok(found);
    }
    let place = vectors.line.map_or(String::new(), |line| format!(" of line {line}"));
    Err(TaskError::input(format!("target{place}"), format!("{expected}, which this model predicts"), got))
}

/// Learns the scale of the changes that are to be forecast.
fn learn_changes(data: &DataConfig, train: &[Series]) -> Result<Forecast, TaskError> {
    let width = train.first().map_or(1, |series| series.vectors.width);
    let features: Vec<usize> = match &data.features {
        Some(list) => list.iter().map(|feature| feature - 1).collect(),
        None => (0..width).collect(),
    };
    if let Some(feature) = features.iter().find(|&&feature| feature >= width) {
        let expected = format!("features from 1 to {width}, the width of the vectors");
        return Err(TaskError::input("data.features", expected, (feature + 1).to_string()));
    }
    let horizon = data.horizon;
    let rows: Vec<Vec<f32>> = train
        .iter()
        .flat_map(|Series { vectors, .. }| {
            let ends = 1..(vectors.length() + 1).saturating_sub(horizon);
            ends.map(|to| changes(&vectors.features, width, to, &features, horizon))
        })
        .collect();
    let changes = Scaler::learn(features.len() * horizon, rows.iter().map(Vec::as_slice));
    Ok(Forecast { features, horizon, changes })
}

/// Pads scaled examples with zeros to one tensor, `[examples, longest, width]`; also returns their lengths.
pub(crate) fn padded(examples: &[Vec<f32>], width: usize, device: &Device) -> (Tensor<3>, Vec<usize>) {
    let lengths: Vec<usize> = examples.iter().map(|example| example.len() / width).collect();
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let mut numbers = vec![0.0; examples.len() * longest * width];
    for (row, example) in numbers.chunks_exact_mut((longest * width).max(1)).zip(examples) {
        row[..example.len()].copy_from_slice(example);
    }
    let shape = [examples.len(), longest, width];
    (Tensor::from_data(TensorData::new(numbers, shape), device), lengths)
}
