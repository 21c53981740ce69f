//! The answer to an input: a label, several labels or a number, read from the data, encoded for the network, scored, and shown
//! to the user.

mod scoring;

use std::collections::{BTreeMap, BTreeSet};

use burn::tensor::{Device, Int, Tensor, TensorData};
use regard_data::{LabelColumn, Labelled, Vocabulary, excerpt, listed};
use regard_figures::number;
use regard_nn::models::target::{self, Target};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::TaskError;
use crate::folder::Files;
use crate::task::Evaluation;

/// File with the answers.
const FILE: &str = "labels.json";
/// Text shown for an empty set of labels.
const NO_LABEL: &str = "(none)";
/// Name of the training labels in error messages.
const LABELS: &str = "labels of the training examples";
/// Number of distinct labels that is always accepted. If more of them mostly occur once, the column holds numbers or
/// identifiers, which would only cost memory.
const FREE_LABELS: usize = 1_000;

/// What is predicted for an input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// One label.
    #[default]
    Label,
    /// Any number of labels, separated by `|`.
    Labels,
    /// A number to predict.
    Value,
}

/// The answer to one input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    /// Index of the label; unseen labels are numbered after the training labels.
    One(usize),
    /// Indices of the labels in ascending order, unseen labels after the training labels.
    Several(Vec<usize>),
    /// The value as it stands in the data.
    Number(f64),
}

/// The answers that the model can give; saved as `labels.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Answers {
    /// One of these labels.
    One(Vocabulary),
    /// Any number of these labels.
    Several(Vocabulary),
    /// A number, scaled for the network.
    Number(Scale),
}

/// Mean and standard deviation of the training values. The network predicts `(value − mean) / deviation`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scale {
    mean: f64,
    deviation: f64,
}

impl Answers {
    /// Collects the answers of the training examples; fails if they cannot be learnt, such as a single label.
    pub(crate) fn learn(target: TargetKind, train: &[Labelled]) -> Result<Self, TaskError> {
        train.iter().try_for_each(|example| suits(target, example))?;
        let labels = || train.iter().map(|example| example.label.as_str());
        match target {
            TargetKind::Label => Self::of_labels(labels()),
            TargetKind::Labels => {
                check_different(labels())?;
                match vocabulary(labels().flat_map(split), train.len())? {
                    none if none.is_empty() => Err(TaskError::input(LABELS, "one or more labels", "none")),
                    names => Ok(Self::Several(names)),
                }
            }
            TargetKind::Value => Self::of_numbers(&train.iter().map(value).collect::<Result<Vec<f64>, _>>()?),
        }
    }

    /// Collects the labels of the training examples, one each; fails if they cannot be learnt.
    pub(crate) fn of_labels<'a>(train: impl Iterator<Item = &'a str> + Clone) -> Result<Self, TaskError> {
        check_different(train.clone())?;
        let examples = train.clone().count();
        Ok(Self::One(vocabulary(train, examples)?))
    }

    /// Learns the scale of the training numbers; fails if they do not differ.
    pub(crate) fn of_numbers(train: &[f64]) -> Result<Self, TaskError> {
        Ok(Self::Number(Scale::of(train)?))
    }

    /// Note to the user: the number of labels, and the most frequent ones with their counts.
    pub(crate) fn note<'a>(&self, train: impl Iterator<Item = &'a str>) -> Option<String> {
        let labels = self.labels()?;
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        train.flat_map(|label| written(self.kind(), label)).for_each(|label| *counts.entry(label).or_default() += 1);
        let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let named: Vec<String> = counts.iter().map(|(label, count)| format!("{label} {count}")).collect();
        Some(format!("{} labels: {}", labels.len(), listed(&named)))
    }

    /// Reads `labels.json`.
    pub(crate) fn open(target: TargetKind, files: &Files) -> Result<Self, TaskError> {
        Ok(match target {
            TargetKind::Label => Self::One(files.json(FILE)?),
            TargetKind::Labels => Self::Several(files.json(FILE)?),
            TargetKind::Value => Self::Number(files.json(FILE)?),
        })
    }

    /// Returns the name and the content of the file with the list of labels or the scale of numbers.
    pub(crate) fn file(&self) -> (String, Vec<u8>) {
        (FILE.to_string(), serde_json::to_vec_pretty(self).expect("plain values can be written as JSON"))
    }

    /// The kind of target that the network predicts.
    pub(crate) fn target(&self) -> Target {
        match self {
            Self::One(_) => Target::One,
            Self::Several(_) => Target::Several,
            Self::Number(_) => Target::Value,
        }
    }

    /// Number of outputs of the network.
    pub(crate) fn outputs(&self) -> usize {
        match self {
            Self::One(labels) | Self::Several(labels) => labels.len(),
            Self::Number(_) => 1,
        }
    }

    /// The labels of `examples` that training does not have, sorted.
    pub(crate) fn unseen<'a>(&self, examples: impl Iterator<Item = &'a str>) -> Vec<String> {
        let Some(labels) = self.labels() else { return Vec::new() };
        let all = examples.flat_map(|label| written(self.kind(), label));
        let unseen: BTreeSet<&str> = all.filter(|label| labels.get(label).is_none()).collect();
        unseen.into_iter().map(str::to_string).collect()
    }

    /// The answer of an example; each of its labels must be known or among the [`unseen`](Self::unseen) ones.
    pub(crate) fn read(&self, example: &Labelled, unseen: &[String]) -> Result<Answer, TaskError> {
        suits(self.kind(), example)?;
        Ok(match self {
            Self::One(_) => Answer::One(self.index(&example.label, unseen)),
            Self::Several(_) => {
                let set: BTreeSet<usize> = split(&example.label).map(|label| self.index(label, unseen)).collect();
                Answer::Several(set.into_iter().collect())
            }
            Self::Number(_) => Answer::Number(value(example)?),
        })
    }

    /// The index of a label, which must be known or among the [`unseen`](Self::unseen) ones.
    pub(crate) fn index(&self, label: &str, unseen: &[String]) -> usize {
        let known = self.labels().and_then(|labels| labels.get(label));
        known.unwrap_or_else(|| {
            let before = unseen.partition_point(|name| name.as_str() < label);
            self.labels().map_or(0, Vocabulary::len) + before
        })
    }

    pub(crate) fn labels(&self) -> Option<&Vocabulary> {
        match self {
            Self::One(labels) | Self::Several(labels) => Some(labels),
            Self::Number(_) => None,
        }
    }

    /// Mean and deviation of numbers, which the network predicts as `(number − mean) / deviation`.
    pub(crate) fn scale(&self) -> Option<[f64; 2]> {
        match self {
            Self::One(_) | Self::Several(_) => None,
            Self::Number(Scale { mean, deviation }) => Some([*mean, *deviation]),
        }
    }

    fn kind(&self) -> TargetKind {
        match self {
            Self::One(_) => TargetKind::Label,
            Self::Several(_) => TargetKind::Labels,
            Self::Number(_) => TargetKind::Value,
        }
    }

    /// The name of the label with this index.
    fn name<'a>(&'a self, label: usize, unseen: &'a [String]) -> &'a str {
        let known = self.labels().map_or(&[][..], Vocabulary::names);
        known.iter().chain(unseen).nth(label).map_or("", String::as_str)
    }

    /// The answers of a batch as tensors for the loss.
    pub(crate) fn tensor(&self, answers: &[&Answer], device: &Device) -> target::Answers {
        let (batch, outputs) = (answers.len(), self.outputs());
        let many = |one: &dyn Fn(&Answer, usize) -> i32| -> Tensor<2, Int> {
            let ids: Vec<i32> = answers.iter().flat_map(|answer| (0..outputs).map(move |n| one(answer, n))).collect();
            Tensor::from_data(TensorData::new(ids, [batch, outputs]), device)
        };
        match self {
            Self::One(_) => {
                let ids: Vec<i32> = answers.iter().map(|answer| answer.one() as i32).collect();
                target::Answers::One(Tensor::from_data(TensorData::new(ids, [batch]), device))
            }
            Self::Several(_) => target::Answers::Several(many(&|answer, n| i32::from(answer.several().contains(&n)))),
            Self::Number(scale) => {
                let values: Vec<f32> = answers.iter().map(|answer| scale.scaled(answer.number()) as f32).collect();
                target::Answers::Value(Tensor::from_data(TensorData::new(values, [batch, 1]), device))
            }
        }
    }

    /// Scores outputs of the network, one per example, with tables and figures for the report.
    pub(crate) fn evaluation(
        &self,
        truth: &[&Answer],
        outputs: &[Vec<f32>],
        unseen: &[String],
    ) -> Result<Evaluation, TaskError> {
        let outputs: Vec<&[f32]> = outputs.iter().map(Vec::as_slice).collect();
        let (main, better) = self.main();
        let contents = self.contents(truth, &outputs, unseen)?;
        let evaluation = Evaluation::new(self.scores(truth, &outputs, unseen), main, better);
        Ok(Evaluation { examples: truth.len(), contents, ..evaluation })
    }

    /// The answer for one output of the network: probabilities of the labels, or a scaled number.
    pub(crate) fn decide(&self, output: &[f32]) -> Answer {
        match self {
            Self::One(_) => {
                let best = output.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
                Answer::One(best.map_or(0, |(label, _)| label))
            }
            Self::Several(_) => Answer::Several((0..output.len()).filter(|&label| output[label] > 0.5).collect()),
            Self::Number(scale) => Answer::Number(scale.unscaled(f64::from(output[0]))),
        }
    }

    /// The answer as text for the user.
    pub(crate) fn text(&self, answer: &Answer, unseen: &[String]) -> String {
        match answer {
            Answer::One(label) => self.name(*label, unseen).to_string(),
            Answer::Several(set) if set.is_empty() => NO_LABEL.to_string(),
            Answer::Several(set) => set.iter().map(|&label| self.name(label, unseen)).collect::<Vec<_>>().join("|"),
            Answer::Number(value) => number(*value, 4),
        }
    }

    /// The fields that a prediction adds to its JSON.
    pub(crate) fn document(&self, output: &[f32]) -> BTreeMap<String, Value> {
        let probabilities = |labels: &Vocabulary| -> Value {
            labels.names().iter().zip(output).map(|(name, &p)| (name.clone(), json!(p))).collect()
        };
        let entries = match (self, self.decide(output)) {
            (Self::One(labels), answer) => {
                vec![("label", json!(labels.name(answer.one()))), ("probabilities", probabilities(labels))]
            }
            (Self::Several(labels), answer) => {
                let names: Vec<&str> = answer.several().iter().map(|&label| labels.name(label)).collect();
                vec![("labels", json!(names)), ("probabilities", probabilities(labels))]
            }
            (Self::Number(_), answer) => vec![("value", json!(answer.number()))],
        };
        entries.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }
}

impl Answer {
    /// Returns the label. All answers of a task have the same form, so another form is a bug in this module.
    pub(crate) fn one(&self) -> usize {
        match self {
            Self::One(label) => *label,
            other => unreachable!("expected one label, got {other:?}"),
        }
    }

    pub(crate) fn several(&self) -> &[usize] {
        match self {
            Self::Several(labels) => labels,
            other => unreachable!("expected a set of labels, got {other:?}"),
        }
    }

    pub(crate) fn number(&self) -> f64 {
        match self {
            Self::Number(value) => *value,
            other => unreachable!("expected a number, got {other:?}"),
        }
    }
}

impl Scale {
    fn of(values: &[f64]) -> Result<Self, TaskError> {
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
        if deviation > 0.0 && deviation.is_finite() {
            return Ok(Self { mean, deviation });
        }
        let got = values.first().map_or("none".to_string(), |value| format!("only {value}"));
        Err(TaskError::input("values of the training examples", "different finite numbers, none extremely large", got))
    }

    fn scaled(self, value: f64) -> f64 {
        (value - self.mean) / self.deviation
    }

    fn unscaled(self, value: f64) -> f64 {
        value * self.deviation + self.mean
    }
}

/// Refuses labels that are all the same.
fn check_different<'a>(mut labels: impl Iterator<Item = &'a str>) -> Result<(), TaskError> {
    let first = labels.next().unwrap_or_default();
    if labels.any(|label| label != first) {
        return Ok(());
    }
    Err(TaskError::input(LABELS, "two or more different labels", format!("only {}", excerpt(first))))
}

/// The distinct labels of `examples` training examples, sorted.
fn vocabulary<'a>(labels: impl Iterator<Item = &'a str>, examples: usize) -> Result<Vocabulary, TaskError> {
    let names: BTreeSet<&str> = labels.collect();
    if names.len() > FREE_LABELS && 2 * names.len() > examples {
        let got = format!("{} different labels in {examples} examples", names.len());
        let expected = "labels that several examples share (for numbers, use --set data.target=value)";
        return Err(TaskError::input(LABELS, expected, got));
    }
    Ok(Vocabulary::from_names(names.into_iter().map(str::to_string).collect())?)
}

/// Splits labels at `|`, without surrounding white space and empty ones.
fn split(labels: &str) -> impl Iterator<Item = &str> {
    labels.split('|').map(str::trim).filter(|label| !label.is_empty())
}

/// The labels in the text of an example's label column.
fn written(target: TargetKind, label: &str) -> Vec<&str> {
    match target {
        TargetKind::Labels => split(label).collect(),
        TargetKind::Label | TargetKind::Value => vec![label],
    }
}

/// Refuses an example whose column (`labels` or `value`) contradicts `data.target`. A `label` column suits every target.
fn suits(target: TargetKind, example: &Labelled) -> Result<(), TaskError> {
    let (same, expected) = match target {
        TargetKind::Label => (LabelColumn::Label, "label (data.target is label)"),
        TargetKind::Labels => (LabelColumn::Labels, "labels or label (data.target is labels)"),
        TargetKind::Value => (LabelColumn::Value, "value or label (data.target is value)"),
    };
    if [same, LabelColumn::Label].contains(&example.column) {
        return Ok(());
    }
    let other = example.column.name();
    let got = format!("{other}: train with --set data.target={other}");
    Err(TaskError::input(format!("column of {}", place(example)), expected, got))
}

/// Describes an example in an error message.
fn place(example: &Labelled) -> String {
    let line = example.line.map_or(String::new(), |line| format!(", line {line}"));
    format!("{}{line}", excerpt(&example.text))
}

fn value(example: &Labelled) -> Result<f64, TaskError> {
    example.label.parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(|| {
        let what = format!("value of {}", place(example));
        TaskError::input(what, "a number (data.target is value)", excerpt(&example.label))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::folder::testing::with_files;

    fn labelled(label: &str) -> Labelled {
        Labelled::new(format!("about {label}"), label)
    }

    fn learn(target: TargetKind, labels: &[&str]) -> Result<Answers, TaskError> {
        Answers::learn(target, &labels.iter().map(|label| labelled(label)).collect::<Vec<_>>())
    }

    #[test]
    fn labels_are_numbered_by_name_and_unseen_ones_follow() {
        let answers = learn(TargetKind::Label, &["pos", "neg"]).unwrap();
        assert_eq!(answers.file().1, serde_json::to_vec_pretty(&["neg", "pos"]).unwrap());
        let unseen = answers.unseen(["odd", "pos", "even", "odd"].into_iter());
        assert_eq!(unseen, ["even", "odd"]);
        for (label, number) in [("neg", 0), ("pos", 1), ("even", 2), ("odd", 3)] {
            let answer = answers.read(&labelled(label), &unseen).unwrap();
            assert_eq!((&answer, answers.text(&answer, &unseen)), (&Answer::One(number), label.to_string()));
        }
    }

    #[test]
    fn unseen_labels_are_wrong_answers_without_a_loss() {
        let answers = learn(TargetKind::Label, &["a", "b"]).unwrap();
        let unseen = ["c".to_string()];
        let outputs: [&[f32]; 2] = [&[0.75, 0.25], &[1.0, 0.0]];
        let truth = [&Answer::One(0), &Answer::One(2)];
        let scores: BTreeMap<_, _> = answers.scores(&truth, &outputs, &unseen).into_iter().collect();
        assert_eq!(scores["accuracy"], 0.5);
        assert!((scores["loss"] + 0.75f64.ln()).abs() < 1e-6);
        let scores: BTreeMap<_, _> = answers.scores(&truth[1..], &outputs[1..], &unseen).into_iter().collect();
        assert!(scores["accuracy"] == 0.0 && !scores.contains_key("loss"), "{scores:?}");
        assert_eq!(answers.contents(&truth, &outputs, &unseen).unwrap().len(), 2);
        assert!(answers.scores(&[], &[], &unseen).is_empty(), "no examples have no scores");

        let answers = learn(TargetKind::Labels, &["a|b", "b"]).unwrap();
        let truth = [&Answer::Several(vec![0, 2])];
        let scores: BTreeMap<_, _> = answers.scores(&truth, &[&[1.0, 0.0]], &unseen).into_iter().collect();
        assert_eq!((scores["subset_accuracy"], scores["loss"]), (0.0, 0.0));
        assert!((scores["micro_f1"] - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn a_column_that_contradicts_the_target_is_refused() {
        let of = |column| ["1", "2"].map(|label| Labelled { column, line: Some(7), ..labelled(label) });
        for (column, target, fits) in [
            (LabelColumn::Label, TargetKind::Value, true),
            (LabelColumn::Value, TargetKind::Value, true),
            (LabelColumn::Labels, TargetKind::Labels, true),
            (LabelColumn::Value, TargetKind::Label, false),
            (LabelColumn::Value, TargetKind::Labels, false),
            (LabelColumn::Labels, TargetKind::Label, false),
        ] {
            match Answers::learn(target, &of(column)) {
                Ok(_) => assert!(fits, "{column:?} {target:?}"),
                Err(error) => {
                    let told = error.to_string();
                    assert!(!fits && told.contains(&format!("--set data.target={}", column.name())), "{told}");
                    assert!(told.contains("line 7"), "{told}");
                }
            }
        }
        let error = value(&Labelled { line: Some(3), ..labelled("two") }).unwrap_err().to_string();
        assert!(error.contains("line 3") && error.contains("\"two\""), "{error}");
    }

    #[test]
    fn files_give_back_what_was_learnt() {
        let cases =
            [(TargetKind::Label, ["a", "b"]), (TargetKind::Labels, ["a|b", ""]), (TargetKind::Value, ["0.1", "1e9"])];
        for (target, labels) in cases {
            let answers = learn(target, &labels).unwrap();
            let files = BTreeMap::from([answers.file()]);
            assert_eq!(with_files(files, |files| Answers::open(target, files)).unwrap(), answers);
        }
        let files = BTreeMap::from([(FILE.to_string(), b"[\"a\"]".to_vec())]);
        assert!(with_files(files, |files| Answers::open(TargetKind::Value, files)).is_err());
    }

    #[test]
    fn data_that_teach_nothing_are_refused() {
        for (target, labels) in [
            (TargetKind::Label, ["a", "a"]),
            (TargetKind::Labels, ["a|b", "a|b"]),
            (TargetKind::Labels, ["", "|"]),
            (TargetKind::Value, ["2", "2.0"]),
            (TargetKind::Value, ["1", "inf"]),
            (TargetKind::Value, ["1", "two"]),
        ] {
            assert!(learn(target, &labels).is_err(), "{target:?} {labels:?}");
        }
        let identifiers: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
        let error = learn(TargetKind::Label, &identifiers.iter().map(String::as_str).collect::<Vec<_>>());
        let error = error.unwrap_err().to_string();
        assert!(error.contains("20000 different labels in 20000 examples"), "{error}");
        let long = "x".repeat(100_000);
        assert!(learn(TargetKind::Label, &[&long, &long]).unwrap_err().to_string().len() < 300);
    }

    #[test]
    fn order_repetition_and_white_space_of_labels_do_not_matter() {
        let answers = learn(TargetKind::Labels, &["x|y", "z"]).unwrap();
        let answer = answers.read(&labelled("z | x|z"), &[]).unwrap();
        assert_eq!((&answer, answers.text(&answer, &[])), (&Answer::Several(vec![0, 2]), "x|z".to_string()));
        assert_eq!(answers.decide(&[0.6, 0.5, 0.4]), Answer::Several(vec![0]));
        assert_eq!(answers.document(&[0.6, 0.5, 0.4])["labels"], json!(["x"]));
    }

    proptest! {
        #[test]
        fn numbers_come_back_from_the_scale_of_the_network(
            values in prop::collection::vec(-1e6..1e6f64, 2..30), value in -1e6..1e6f64,
        ) {
            let Ok(scale) = Scale::of(&values) else { return Ok(()) };
            let back = scale.unscaled(scale.scaled(value));
            prop_assert!((back - value).abs() <= 1e-6 * (1.0 + value.abs() + scale.mean.abs()));
            let inside: Vec<f64> = values.iter().map(|&value| scale.scaled(value)).collect();
            let square = inside.iter().map(|x| x * x).sum::<f64>() / inside.len() as f64;
            prop_assert!((square - 1.0).abs() < 1e-6, "deviation 1: {}", square);
        }
    }
}
