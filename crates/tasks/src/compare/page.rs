//! Figure and HTML page of a comparison.

use std::fs;
use std::path::Path;

use regard_figures::{Axis, Bars, Content, Figure, LineStyle, Lines, Report, Section, Series};
use serde_json::Value;

use super::summary::{Main, Row, Spread, cells, metric_names};
use super::{Document, Entry, Vary};
use crate::error::TaskError;
use crate::folder::METRICS;

/// Draws each metric as bars, or as curves over a key that was varied over numbers, and the course of the main one during training.
pub(super) fn figure(document: &Document, main: Option<&Main>, place: &Path) -> Result<Figure, TaskError> {
    let rows = &document.table;
    let groups: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
    let over = Over::of(document);
    let mut figure = Figure::new(format!("regard compare {}: {}", document.plan.task, document.keys().join(", ")));
    for metric in metric_names(rows, main) {
        let title = format!("{metric}, held-out split");
        if let Some(over) = &over {
            figure.push(title, over.curves(&metric, rows));
            continue;
        }
        let bars = Bars::new(Axis::linear(metric.as_str()), groups.clone());
        figure.push(title, bars.series_with_deviations("", rows.iter().map(|row| value(row, &metric)))?);
    }
    if let Some(main) = main {
        let mut lines = Lines::new(Axis::linear("step"), Axis::linear(main.name.as_str()));
        // Of a curve over numbers only the last point, or there would be too many lines.
        for row in rows.iter().filter(|row| over.as_ref().is_none_or(|over| over.is_last(row))) {
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

/// Mean and deviation of a metric, for an error bar.
fn value(row: &Row, metric: &str) -> (f64, f64) {
    row.metrics.get(metric).map_or((f64::NAN, 0.0), |spread| (spread.mean, spread.deviation.unwrap_or(0.0)))
}

/// A varied key whose values are numbers, as the horizontal axis of curves. Each combination of the other keys is a curve.
struct Over {
    key: String,
    values: Vec<f64>,
}

impl Over {
    /// Smallest number of values that are drawn as a curve; fewer are easier to read as bars.
    const FEWEST: usize = 3;

    /// The first varied key with enough numbers as its values, all different and above 0.
    fn of(document: &Document) -> Option<Self> {
        let numbers = |vary: &Vary| -> Option<Vec<f64>> {
            let mut values = vary.values.iter().map(|value| number_in(value)).collect::<Option<Vec<f64>>>()?;
            values.sort_by(f64::total_cmp);
            values.dedup();
            (values.len() >= Self::FEWEST.max(vary.values.len())).then_some(values)
        };
        document.plan.vary.iter().find_map(|vary| Some(Self { key: vary.key.clone(), values: numbers(vary)? }))
    }

    /// The number of a row, and the values of its other keys.
    fn place<'a>(&self, row: &'a Row) -> (f64, Vec<&'a str>) {
        let others = row.variant.iter().filter(|(key, _)| **key != self.key).map(|(_, value)| value.as_str());
        let at = row.variant.get(&self.key).and_then(|value| number_in(value));
        (at.unwrap_or(f64::NAN), others.collect())
    }

    fn is_last(&self, row: &Row) -> bool {
        self.values.last() == Some(&self.place(row).0)
    }

    fn curves(&self, metric: &str, rows: &[Row]) -> Lines {
        let is_wide = self.values.first().zip(self.values.last()).is_some_and(|(first, last)| last / first >= 10.0);
        let x = if is_wide { Axis::log(self.key.as_str()) } else { Axis::linear(self.key.as_str()) };
        let mut curves: Vec<(Vec<&str>, Vec<&Row>)> = Vec::new();
        for row in rows {
            let (_, others) = self.place(row);
            match curves.iter_mut().find(|(known, _)| *known == others) {
                Some((_, points)) => points.push(row),
                None => curves.push((others, vec![row])),
            }
        }
        let series = curves.into_iter().map(|(others, mut points)| {
            points.sort_by(|a, b| self.place(a).0.total_cmp(&self.place(b).0));
            let measured = points.iter().map(|row| (self.place(row).0, value(row, metric)));
            let (points, deviations): (Vec<_>, Vec<_>) = measured.map(|(x, (y, bar))| ((x, y), bar)).unzip();
            Series::new(others.join(", "), points).style(LineStyle::MarkedLine).deviations(deviations)
        });
        series.fold(Lines::new(x, Axis::linear(metric)), Lines::series)
    }
}

/// A finite number above 0 in the text of a value.
fn number_in(value: &str) -> Option<f64> {
    value.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Conditions, Plan, Row};

    fn row(kind: &str, limit: &str, accuracy: f64) -> Row {
        let settings =
            vec![("model.kind".to_string(), kind.to_string()), ("data.limit".to_string(), limit.to_string())];
        let mut row =
            Row::of(&[&Entry { settings, seed: 1, folder: String::new(), outcome: super::super::Outcome::Stopped }]);
        row.metrics.insert("accuracy".to_string(), Spread { mean: accuracy, deviation: Some(0.01) });
        row
    }

    fn document(vary: &[&str]) -> Document {
        let plan = Plan {
            task: "image".to_string(),
            vary: vary.iter().map(|text| Vary::parse(text).unwrap()).collect(),
            sets: Vec::new(),
            config: None,
            data: None,
            steps: None,
            seed: 1,
            fingerprint: String::new(),
            conditions: Conditions::default(),
        };
        Document { plan, seeds: 1, finished: true, table: Vec::new(), runs: Vec::new() }
    }

    #[test]
    fn numbers_become_curves_of_the_other_keys() {
        let over = Over::of(&document(&["model.kind=vit,cnn", "data.limit=4000,500,1000"])).unwrap();
        assert_eq!((over.key.as_str(), &over.values), ("data.limit", &vec![500.0, 1000.0, 4000.0]));
        let rows = [row("vit", "4000", 0.9), row("vit", "500", 0.5), row("cnn", "4000", 0.95), row("cnn", "500", 0.8)];
        let lines = over.curves("accuracy", &rows);
        let found: Vec<_> = lines.series.iter().map(|series| (series.name.as_str(), series.points.clone())).collect();
        let expected = [("vit", vec![(500.0, 0.5), (4000.0, 0.9)]), ("cnn", vec![(500.0, 0.8), (4000.0, 0.95)])];
        assert_eq!(found, expected);
        assert_eq!(lines.x, Axis::linear("data.limit"));
        assert!(over.is_last(&rows[0]) && !over.is_last(&rows[1]));
        let wide = Over::of(&document(&["data.limit=10,30,100"])).unwrap();
        assert_eq!(wide.curves("accuracy", &[]).x, Axis::log("data.limit"));
    }

    #[test]
    fn few_numbers_and_words_stay_bars() {
        for vary in
            ["data.limit=500,1000", "model.kind=vit,cnn,dnn", "model.dropout=0,0.1,0.2", "model.channels=[1],[2],[3]"]
        {
            assert!(Over::of(&document(&[vary])).is_none(), "{vary}");
        }
    }
}
