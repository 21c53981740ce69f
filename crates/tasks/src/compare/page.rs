//! Figure and HTML page of a comparison.

use std::fs;
use std::path::Path;

use regard_figures::{Axis, Bars, Content, Figure, LineStyle, Lines, Report, Section, Series};
use serde_json::Value;

use super::summary::{Main, Row, Spread, cells, metric_names};
use super::{Document, Entry};
use crate::error::TaskError;
use crate::folder::METRICS;

/// Draws bars for each metric, and the course of the main one during training.
pub(super) fn figure(document: &Document, main: Option<&Main>, place: &Path) -> Result<Figure, TaskError> {
    let rows = &document.table;
    let names = rows.iter().map(|row| row.name.clone());
    let groups: Vec<String> = names.collect();
    let mut figure = Figure::new(format!("regard compare {}: {}", document.plan.task, document.keys().join(", ")));
    for metric in metric_names(rows, main) {
        let value = |row: &Row| {
            row.metrics.get(&metric).map_or((f64::NAN, 0.0), |spread| (spread.mean, spread.deviation.unwrap_or(0.0)))
        };
        let bars = Bars::new(Axis::linear(metric.as_str()), groups.clone());
        figure.push(format!("{metric}, held-out split"), bars.series_with_deviations("", rows.iter().map(value))?);
    }
    if let Some(main) = main {
        let mut lines = Lines::new(Axis::linear("step"), Axis::linear(main.name.as_str()));
        for row in rows {
            let runs = document.runs.iter().filter(|entry| entry.name() == row.name);
            let points = curve(runs, &main.name, place);
            if !points.is_empty() {
                lines = lines.series(Series::new(row.name.as_str(), points).style(LineStyle::Solid));
            }
        }
        figure.push(format!("{}, dev split, during training", main.name), lines);
    }
    let seeds = document.seeds;
    Ok(match seeds {
        1 => figure,
        _ => figure.note(format!("Means over {seeds} seeds; error bars show the sample standard deviation.")),
    })
}

/// Builds the page with the table of results and the figure.
pub(super) fn page(document: &Document, main: Option<&Main>, figure: Figure) -> String {
    let plan = &document.plan;
    let mut report = Report::new(format!("regard compare {}", plan.task))
        .fact("varied", document.keys().join(", "))
        .fact("runs", document.runs.len().to_string())
        .fact("seeds", document.seeds.to_string());
    for set in &plan.sets {
        report = report.fact("set", set.as_str());
    }
    let table = Content::Table(cells(&document.keys(), &document.table, main));
    let mut section = Section::new("Scores").text("Scores on the held-out split; * marks the best.").content(table);
    for row in &document.table {
        section.content.extend(row.errors.iter().map(|error| Content::Text(format!("{} failed, {error}", row.name))));
    }
    let report = report.section(section).section(Section::new("Pictures").content(Content::Figure(figure)));
    report.to_html()
}

/// Averages the course of a score over runs; a run without a metrics file is left out.
fn curve<'a>(runs: impl Iterator<Item = &'a Entry>, metric: &str, place: &Path) -> Vec<(f64, f64)> {
    let mut steps: Vec<(u64, Vec<f64>)> = Vec::new();
    for entry in runs.filter(|entry| entry.outcome.measured().is_some()) {
        let journal = fs::read_to_string(place.join(&entry.folder).join(METRICS)).unwrap_or_default();
        for line in journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let (Some(step), Some(value)) = (line["step"].as_u64(), line["metrics"][metric].as_f64()) else { continue };
            match steps.iter_mut().find(|(known, _)| *known == step) {
                Some((_, values)) => values.push(value),
                None => steps.push((step, vec![value])),
            }
        }
    }
    steps.sort_by_key(|(step, _)| *step);
    let mean = |(step, values): (u64, Vec<f64>)| Some((step as f64, Spread::of(&values)?.mean));
    steps.into_iter().filter_map(mean).collect()
}
