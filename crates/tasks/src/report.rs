//! `report.html`, the page that summarises a finished run.

use regard_figures::{Axis, Content, Figure, LineStyle, Lines, Report, Section, Series, Table, number};
use regard_nn::{Pass, Wanted};
use serde_json::Value;

use crate::error::TaskError;
use crate::finished::Finished;
use crate::opened::viewed;
use crate::task::{Evaluation, Picture, Prediction, Sample, Settings, Task};

/// Number of examples whose attention maps are shown.
const LOOKED_AT: usize = 3;

/// The material for the report.
pub(crate) struct Story<'a, T: Task> {
    pub task: &'a T,
    pub model: &'a T::Model,
    pub evaluation: Evaluation,
    pub journal: &'a str,
    pub finished: &'a Finished,
    /// What was chosen for the data and why.
    pub chosen: &'a [String],
}

/// Builds a table of inputs, expected answers and predictions.
fn predictions(samples: &[(Sample, Prediction)]) -> Table {
    let mut table = Table::new(["input", "expected", "model"]);
    for (sample, prediction) in samples {
        table.push([&sample.given.brief(), &sample.expected, &prediction.output]);
    }
    table
}

/// Builds the page; also returns whether it shows attention maps or a picture of the model.
pub(crate) fn page<T: Task>(story: Story<'_, T>) -> Result<(String, bool), TaskError> {
    let Story { task, model, evaluation, journal, finished, chosen } = story;
    let (seconds, split) = (finished.seconds.max(1e-9), finished.split);
    let mut report = Report::new(format!("regard train {}", T::NAME))
        .fact("steps", finished.step.to_string())
        .fact("training time", format!("{:.0} s", finished.seconds))
        .fact("tokens per second", format!("{:.0}", finished.tokens as f64 / seconds))
        .fact(format!("{split} examples"), evaluation.examples.to_string());
    for (name, value) in &evaluation.scores {
        report = report.fact(format!("{name} ({split})"), number(*value, 4));
    }
    report = report.section(curves(journal));
    if !finished.samples.is_empty() {
        let table = predictions(&finished.samples);
        let text = format!("Examples of the {split} split, which training has not seen.");
        report = report.section(Section::new("Predictions").text(text).content(Content::Table(table)));
    }
    if !finished.seen.is_empty() {
        let text = "Examples that the model was trained on.";
        let table = predictions(&finished.seen);
        report = report.section(Section::new("Seen in training").text(text).content(Content::Table(table)));
    }
    if !evaluation.contents.is_empty() {
        let mut section = Section::new("Scores");
        section.content = evaluation.contents;
        report = report.section(section);
    }
    let mut section =
        Section::new("Attention").text("Where the model looks, for a few inputs. Choose a layer and a head.");
    let mut views = Vec::new();
    let mut pictures: Vec<Picture> = task.picture(model, None)?.into_iter().collect();
    let pass = Pass::inference();
    let samples = finished.samples.iter().map(|(sample, _)| task.input(&sample.given)).take(LOOKED_AT);
    // The task's own example is most instructive for built-in data; for a user's data, examples from those data come first.
    let own = [task.telling(model)].into_iter();
    let inputs: Vec<_> = match task.config().data_path() {
        Some(_) => samples.chain(own).collect(),
        None => own.chain(samples).collect(),
    };
    for input in inputs {
        match input.and_then(|input| viewed(task, model, &input, Wanted::default(), &pass)) {
            Ok((view, draw)) => {
                pictures.extend(draw.map(|draw| draw(&view)).transpose()?);
                views.extend(Some(view).filter(|view| !view.groups.is_empty()));
            }
            // The task's own example may be too long for this model.
            Err(TaskError::Unsupported { .. } | TaskError::Input { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let is_seen = !pictures.is_empty() || !views.is_empty();
    if !pictures.is_empty() {
        let contents = pictures.into_iter().map(|picture| Content::Figure(picture.figure));
        report = report.section(contents.fold(Section::new("Picture"), Section::content));
    }
    for view in &views {
        section.content.push(view.to_interactive()?.into());
    }
    if !section.content.is_empty() {
        report = report.section(section);
    }
    let config = serde_json::to_string_pretty(task.config()).expect("plain values");
    let mut section = Section::new("Configuration");
    if !chosen.is_empty() {
        section = section.text("Chosen for these data:").content(Content::Code(chosen.join("\n")));
    }
    report = report.section(section.content(Content::Code(config)));
    Ok((report.to_html(), is_seen))
}

/// Draws losses, scores and learning rate over the steps.
fn curves(journal: &str) -> Section {
    let lines: Vec<Value> = journal.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let points = |split: &str, value: &dyn Fn(&Value) -> Option<f64>| -> Vec<(f64, f64)> {
        let lines = lines.iter().filter(|line| line["split"] == split);
        lines.filter_map(|line| Some((line["step"].as_f64()?, value(line)?))).collect()
    };
    let marked = |name: &str, points: Vec<(f64, f64)>| Series::new(name, points).style(LineStyle::MarkedLine);
    // Markers on every point would hide the course of a long curve.
    let curve = |name: &str, points: Vec<(f64, f64)>| match points.len() {
        0..=20 => marked(name, points),
        _ => Series::new(name, points),
    };
    let mut loss = Lines::new(Axis::linear("step"), Axis::linear("loss"));
    loss = loss.series(curve("train", points("train", &|line| line["loss"].as_f64())));
    let dev = points("dev", &|line| line["metrics"]["loss"].as_f64());
    if !dev.is_empty() {
        loss = loss.series(marked("dev", dev));
    }
    let mut figure = Figure::new("Course of training").panel("Loss", loss);
    let names: std::collections::BTreeSet<&String> =
        lines.iter().filter_map(|line| line["metrics"].as_object()).flat_map(|metrics| metrics.keys()).collect();
    for name in names.into_iter().filter(|name| name.as_str() != "loss") {
        let plot = Lines::new(Axis::linear("step"), Axis::linear(name.as_str()));
        let points = points("dev", &|line| line["metrics"][name.as_str()].as_f64());
        figure.push(format!("{name} on the dev split"), plot.series(marked("", points)));
    }
    let rate = Lines::new(Axis::linear("step"), Axis::linear("learning rate"));
    let rates = points("train", &|line| line["learning_rate"].as_f64());
    figure.push("Learning rate", rate.series(curve("", rates)));
    Section::new("Training").content(Content::Figure(figure))
}
