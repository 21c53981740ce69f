//! Summary of a comparison: means and standard deviations over the runs of each variant.

use std::collections::{BTreeMap, BTreeSet};

use regard_figures::{Table, deviation_text, number};
use serde::Serialize;

use super::{Entry, Measured, Outcome};
use crate::task::Better;

/// The mean and standard deviation of a value that was measured once or more.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Mean of all values; NaN if one of them is NaN.
    pub mean: f64,
    /// Sample standard deviation, `√(Σ(x − mean)² / (n − 1))`; `None` for a single value.
    pub deviation: Option<f64>,
}

impl Spread {
    /// Computes mean and deviation; returns `None` without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let square: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
        let deviation = (values.len() > 1).then(|| (square / (count - 1.0)).sqrt());
        (!values.is_empty()).then_some(Self { mean, deviation })
    }

    fn text(self) -> String {
        deviation_text(self.mean, self.deviation.unwrap_or(0.0))
    }
}

/// The results of a variant's runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Value of each varied key.
    pub variant: BTreeMap<String, String>,
    /// Values separated by commas, in the order of the keys.
    #[serde(skip)]
    pub name: String,
    /// Number of finished runs.
    pub runs: usize,
    /// Errors of the failed runs.
    pub errors: Vec<String>,
    /// Number of parameters of the network.
    pub parameters: Option<usize>,
    /// Scores on the held-out split by name.
    pub metrics: BTreeMap<String, Spread>,
    /// Seconds spent on training.
    pub seconds: Option<Spread>,
    /// Tokens per second of training.
    pub tokens_per_second: Option<Spread>,
}

/// The main score, which decides which variant is best.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Main {
    pub name: String,
    pub better: Better,
}

impl Row {
    /// Summarises the runs of one variant.
    pub(super) fn of(entries: &[&Entry]) -> Self {
        let done: Vec<&Measured> = entries.iter().filter_map(|entry| entry.outcome.measured()).collect();
        let spread =
            |value: &dyn Fn(&Measured) -> f64| Spread::of(&done.iter().map(|run| value(run)).collect::<Vec<_>>());
        let names: BTreeSet<&String> = done.iter().flat_map(|run| run.metrics.keys()).collect();
        let metric = |name: &String| {
            let value = |run: &Measured| run.metrics.get(name).copied().flatten().unwrap_or(f64::NAN);
            Some((name.clone(), spread(&value)?))
        };
        let errors = entries.iter().filter_map(|entry| match &entry.outcome {
            Outcome::Failed { error } => Some(format!("seed {}: {error}", entry.seed)),
            Outcome::Finished(_) | Outcome::Stopped => None,
        });
        let settings = entries.first().map(|entry| entry.settings.clone()).unwrap_or_default();
        Self {
            name: settings.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", "),
            variant: settings.into_iter().collect(),
            runs: done.len(),
            errors: errors.collect(),
            parameters: done.first().map(|run| run.parameters),
            metrics: names.into_iter().filter_map(metric).collect(),
            seconds: spread(&|run| run.seconds),
            tokens_per_second: spread(&|run| run.tokens_per_second),
        }
    }
}

/// Returns the names of all metrics, the main one and its `_longer` variant first.
pub(super) fn metric_names(rows: &[Row], main: Option<&Main>) -> Vec<String> {
    let names: BTreeSet<&String> = rows.iter().flat_map(|row| row.metrics.keys()).collect();
    let rank = |name: &str| match main {
        Some(main) if name == main.name => 0,
        Some(main) if name.strip_suffix("_longer") == Some(&main.name) => 1,
        _ => 2,
    };
    let mut names: Vec<String> = names.into_iter().cloned().collect();
    names.sort_by_key(|name| rank(name));
    names
}

/// Builds the table of results; an asterisk marks the best main score.
pub(super) fn cells(keys: &[String], rows: &[Row], main: Option<&Main>) -> Table {
    let names = metric_names(rows, main);
    let marked: Vec<(&String, Option<f64>)> = names.iter().map(|name| (name, best(name, rows, main))).collect();
    let after = ["parameters", "seconds", "tokens/s"].map(str::to_string);
    let mut table = Table::new([keys.join(", ")].into_iter().chain(names.iter().cloned()).chain(after));
    let dash = || "–".to_string();
    for row in rows {
        let mut cells = vec![row.name.clone()];
        for (name, best) in &marked {
            cells.push(row.metrics.get(*name).map_or_else(dash, |spread| {
                let mark = if best.is_some_and(|best| best == spread.mean) { " *" } else { "" };
                format!("{}{mark}", spread.text())
            }));
        }
        cells.push(row.parameters.map_or_else(dash, |count| count.to_string()));
        cells.push(row.seconds.map_or_else(dash, |spread| number(spread.mean, 3)));
        cells.push(row.tokens_per_second.map_or_else(dash, |spread| format!("{:.0}", spread.mean)));
        table.push(cells);
    }
    table
}

/// Returns the best mean of the main score or its `_longer` variant; `None` for other metrics and for a single row.
fn best(name: &str, rows: &[Row], main: Option<&Main>) -> Option<f64> {
    let main = main.filter(|main| name == main.name || name.strip_suffix("_longer") == Some(&main.name))?;
    let means: Vec<f64> = rows.iter().filter_map(|row| row.metrics.get(name)).map(|spread| spread.mean).collect();
    let numbers = means.iter().copied().filter(|mean| !mean.is_nan());
    let best = match main.better {
        Better::Higher => numbers.reduce(f64::max),
        Better::Lower => numbers.reduce(f64::min),
    };
    best.filter(|_| means.len() > 1)
}

/// Formats a table as text, with the first column aligned left and the others right.
pub(super) fn text(table: &Table) -> String {
    let width = |text: &str| text.chars().count();
    let rows = || [table.header()].into_iter().chain(table.rows().iter().map(Vec::as_slice));
    let widths: Vec<usize> = (0..table.header().len())
        .map(|column| rows().map(|row| width(&row[column])).max().unwrap_or_default())
        .collect();
    let line = |row: &[String]| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &wide))| {
            let room = " ".repeat(wide - width(cell));
            if column == 0 { format!("{cell}{room}") } else { format!("{room}{cell}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
    };
    rows().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_sample_deviations() {
        let spread = Spread::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert!((spread.mean - 5.0).abs() < 1e-12);
        assert!((spread.deviation.unwrap() - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(Spread::of(&[3.0]), Some(Spread { mean: 3.0, deviation: None }));
        assert_eq!(Spread::of(&[]), None);
        assert!(Spread::of(&[1.0, f64::NAN]).unwrap().mean.is_nan());
    }

    fn entry(kind: &str, seed: u64, outcome: Outcome) -> Entry {
        let settings = vec![("model.kind".to_string(), kind.to_string())];
        Entry { settings, seed, folder: String::new(), outcome }
    }

    fn measured(accuracy: f64) -> Outcome {
        let metrics = [("accuracy", accuracy), ("accuracy_longer", accuracy / 2.0), ("a", 1.0)];
        Outcome::Finished(Measured {
            main: "accuracy".to_string(),
            better: Better::Higher,
            metrics: metrics.iter().map(|(name, value)| (name.to_string(), Some(*value))).collect(),
            parameters: 10,
            steps: 5,
            seconds: 2.0,
            tokens_per_second: 100.0,
        })
    }

    #[test]
    fn rows_summarise_the_runs() {
        let failed = Outcome::Failed { error: "diverged".to_string() };
        let entries = [
            entry("lstm", 1, measured(0.5)),
            entry("lstm", 2, measured(0.7)),
            entry("gru", 1, measured(0.9)),
            entry("gru", 2, failed.clone()),
            entry("rnn", 1, failed),
        ];
        let of = |kind: &str| Row::of(&entries.iter().filter(|e| e.settings[0].1 == kind).collect::<Vec<_>>());
        let rows = [of("lstm"), of("gru"), of("rnn")];
        assert_eq!((rows[0].runs, rows[1].runs, rows[2].runs), (2, 1, 0));
        assert_eq!(rows[1].errors, ["seed 2: diverged"]);
        let main = Main { name: "accuracy".to_string(), better: Better::Higher };
        assert_eq!(metric_names(&rows, Some(&main)), ["accuracy", "accuracy_longer", "a"]);
        let text = text(&cells(&["model.kind".to_string()], &rows, Some(&main)));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("lstm") && lines[1].contains("0.60 ± 0.14"), "{text}");
        assert!(lines[2].contains("0.9 *") && lines[2].contains("0.45 *"), "{text}");
        assert!(lines[3].starts_with("rnn") && lines[3].contains('–'), "{text}");
        let lower = Main { better: Better::Lower, ..main };
        assert_eq!(best("accuracy", &rows, Some(&lower)), Some(0.6));
        assert_eq!(best("a", &rows, Some(&lower)), None);
    }
}
