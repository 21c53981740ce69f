//! `icl sweep`: test error, contrast, convergence and zero modes against any of `D, N, P, λ, c`.

use std::path::Path;

use regard_figures::{Axis, ColourScale, Figure, Heatmap, LineStyle, Lines, Series, ValueRange, number};
use regard_system::Ranks;
use serde_json::json;

use super::{Shown, csv, optional};
use crate::asymptotic::asymptotic_error;
use crate::error::TheoryError;
use crate::prompt::Task;
use crate::solver::Method;
use crate::sweep::{Done, Point, Summary, Sweep};

/// A quantity that a sweep can vary.
struct Varied {
    name: &'static str,
    /// Returns its value at a point.
    of: fn(&Point) -> f64,
    /// Returns the number of its values.
    count: fn(&Sweep) -> usize,
}

const P: Varied = Varied { name: "P", of: |point| point.p as f64, count: |sweep| sweep.p.len() };
const ALL: [Varied; 5] = [
    Varied { name: "D", of: |point| point.d as f64, count: |sweep| sweep.d.len() },
    Varied { name: "N", of: |point| point.n as f64, count: |sweep| sweep.n.len() },
    P,
    Varied { name: "λ", of: |point| point.lambda, count: |sweep| sweep.lambda.len() },
    Varied { name: "c", of: |point| point.c, count: |sweep| sweep.c.len() },
];

/// Runs a sweep, whose runs the ranks share out, and shows it. Returns `None` if it was stopped; the journal then has the finished
/// runs.
pub fn show(
    sweep: &Sweep,
    journal: Option<&Path>,
    ranks: &Ranks,
    stop: &(dyn Fn() -> bool + Sync),
    progress: &(dyn Fn(Done) + Sync),
) -> Result<Option<Shown>, TheoryError> {
    let Some(points) = sweep.go(journal, ranks, stop, progress)? else { return Ok(None) };
    Ok(Some(Shown {
        text: text(sweep, &points),
        json: json!({ "settings": sweep.settings, "points": with_theory(sweep, &points) }),
        csv: table(sweep, &points),
        figure: figure(sweep, &points)?,
    }))
}

/// Returns the test error of a point by the theory of large `D`, if the theory applies.
fn expected(sweep: &Sweep, point: &Point) -> Option<f64> {
    let settings = &sweep.settings;
    if settings.noise > 0.0 || matches!(settings.method, Method::Node) {
        return None;
    }
    let task = Task { c: point.c, divisor: settings.divisor, ..Task::new(point.d, point.n) };
    asymptotic_error(&task, point.p as f64, point.lambda).ok()
}

/// Returns the points as JSON, each with the test error by theory.
fn with_theory(sweep: &Sweep, points: &[Summary]) -> Vec<serde_json::Value> {
    let of = |summary: &Summary| {
        let mut point = json!(summary);
        point["test_error_theory"] = json!(expected(sweep, &summary.point));
        point
    };
    points.iter().map(of).collect()
}

fn text(sweep: &Sweep, points: &[Summary]) -> String {
    let mut text = format!(
        "{:>4} {:>6} {:>9} {:>9} {:>5} {:>20} {:>9} {:>9} {:>10} {:>7}\n",
        "D", "N", "P", "λ", "c", "test error", "large D", "contrast", "converged", "zeros"
    );
    for summary in points {
        let Point { d, n, p, lambda, c } = summary.point;
        let error = match (summary.test_error_mean, summary.test_error_std) {
            (Some(mean), Some(spread)) => format!("{mean:.4} ± {spread:.4}"),
            (Some(mean), None) => format!("{mean:.4} ± –"),
            _ => "none converged".to_string(),
        };
        let number = |value: Option<f64>| value.map_or("–".to_string(), |value| format!("{value:.4}"));
        text += &format!(
            "{d:>4} {n:>6} {p:>9} {lambda:>9} {c:>5} {error:>20} {:>9} {:>9} {:>9.0} % {:>7.4}\n",
            number(expected(sweep, &summary.point)),
            number(summary.contrast_mean),
            100.0 * summary.converged_fraction,
            summary.zero_fraction
        );
    }
    text += "± standard deviation between runs; large D: test error by the theory of large D; zeros: share of zero eigenvalues\n";
    text
}

fn table(sweep: &Sweep, points: &[Summary]) -> String {
    let header = [
        "d",
        "n",
        "p",
        "lambda",
        "c",
        "repeats",
        "test_error_mean",
        "test_error_std",
        "contrast_mean",
        "converged_fraction",
        "zero_fraction",
        "test_error_theory",
    ];
    csv(
        header,
        points.iter().map(|summary| {
            let Point { d, n, p, lambda, c } = summary.point;
            [
                d.to_string(),
                n.to_string(),
                p.to_string(),
                lambda.to_string(),
                c.to_string(),
                summary.repeats.to_string(),
                optional(summary.test_error_mean),
                optional(summary.test_error_std),
                optional(summary.contrast_mean),
                summary.converged_fraction.to_string(),
                summary.zero_fraction.to_string(),
                optional(expected(sweep, &summary.point)),
            ]
        }),
    )
}

/// Draws curves against the quantity with most values, or maps if exactly two quantities vary, over more than three values each.
fn figure(sweep: &Sweep, points: &[Summary]) -> Result<Figure, TheoryError> {
    let settings = &sweep.settings;
    let mut varied: Vec<&Varied> = ALL.iter().filter(|varied| (varied.count)(sweep) > 1).collect();
    varied.sort_by_key(|varied| std::cmp::Reverse((varied.count)(sweep)));
    let fixed: Vec<String> = ALL
        .iter()
        .filter(|varied| (varied.count)(sweep) == 1)
        .map(|varied| format!("{} = {}", varied.name, number((varied.of)(&points[0].point), 4)))
        .collect();
    let note = format!(
        "{}; {} solver, {} runs per point, test error over {} new prompts each.",
        fixed.join(", "),
        settings.method,
        sweep.repeats,
        settings.tests
    );
    let mut figure = Figure::new("In-context learning of linear attention").note(note);
    match varied[..] {
        [rows, columns] if (rows.count)(sweep) > 3 && (columns.count)(sweep) > 3 => {
            // P is on the horizontal axis if it is one of the two, else the quantity with more values.
            let (up, right) = if columns.name == P.name { (rows, columns) } else { (columns, rows) };
            for (title, scale, of) in planes() {
                figure.push(title, plane(points, up, right, scale, of)?);
            }
        }
        [] => {
            figure = figure.note("Only one point: see the text.");
            figure.push("test error", lines(points, &P, None, &[], |summary| summary.test_error_mean, None));
        }
        [x, ref others @ ..] => {
            let error: fn(&Summary) -> Option<f64> = |summary| summary.test_error_mean;
            let theory = |point: &Point| expected(sweep, point);
            figure.push("test error", lines(points, x, Some(&theory), others, error, Some(|s| s.test_error_std)));
            figure.push("contrast with the identity", lines(points, x, None, others, |s| s.contrast_mean, None));
            figure.push("zero modes of the Hessian", lines(points, x, None, others, |s| Some(s.zero_fraction), None));
            figure.push("runs that converged", lines(points, x, None, others, |s| Some(s.converged_fraction), None));
        }
    }
    Ok(figure)
}

type Of = fn(&Summary) -> Option<f64>;
/// A function that returns the test error of a point by theory, if the theory applies.
type Theory<'a> = &'a dyn Fn(&Point) -> Option<f64>;

fn planes() -> [(&'static str, ColourScale, Of); 3] {
    [
        ("contrast with the identity", ColourScale::viridis(ValueRange::Fixed { low: 0.0, high: 1.0 }), |s| {
            s.contrast_mean
        }),
        ("test error", ColourScale::viridis(ValueRange::Data), |s| s.test_error_mean),
        ("zero modes of the Hessian", ColourScale::sequential(ValueRange::Fixed { low: 0.0, high: 1.0 }), |s| {
            Some(s.zero_fraction)
        }),
    ]
}

fn plane(points: &[Summary], up: &Varied, right: &Varied, scale: ColourScale, of: Of) -> Result<Heatmap, TheoryError> {
    let values = |varied: &Varied| {
        let mut values: Vec<f64> = points.iter().map(|summary| (varied.of)(&summary.point)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    };
    let (mut rows, columns) = (values(up), values(right));
    rows.reverse();
    let mut cells = vec![f32::NAN; rows.len() * columns.len()];
    for summary in points {
        let place =
            |values: &[f64], varied: &Varied| values.iter().position(|value| *value == (varied.of)(&summary.point));
        if let (Some(row), Some(column)) = (place(&rows, up), place(&columns, right)) {
            cells[row * columns.len() + column] = of(summary).map_or(f32::NAN, |value| value as f32);
        }
    }
    let map = Heatmap::new(rows.len(), columns.len(), cells)?
        .row_labels(rows.iter().map(|value| number(*value, 4)))
        .column_labels(columns.iter().map(|value| number(*value, 4)))
        .axes(up.name, right.name)
        .absent("none converged")
        .scale(scale);
    Ok(map)
}

fn lines(
    points: &[Summary],
    x: &Varied,
    theory: Option<Theory<'_>>,
    others: &[&Varied],
    of: Of,
    deviation: Option<Of>,
) -> Lines {
    let axis = match points.iter().all(|summary| (x.of)(&summary.point) > 0.0) {
        true => Axis::log(x.name),
        false => Axis::linear(x.name),
    };
    let mut lines = Lines::new(axis, Axis::linear("").including(0.0));
    let mut groups: Vec<(Vec<f64>, Vec<&Summary>)> = Vec::new();
    for summary in points {
        let key: Vec<f64> = others.iter().map(|varied| (varied.of)(&summary.point)).collect();
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, members)) => members.push(summary),
            None => groups.push((key, vec![summary])),
        }
    }
    for (_, members) in &mut groups {
        members.sort_by(|a, b| (x.of)(&a.point).total_cmp(&(x.of)(&b.point)));
    }
    for (index, (key, members)) in groups.iter().enumerate() {
        let named = others.iter().zip(key).map(|(varied, value)| format!("{} = {}", varied.name, number(*value, 4)));
        let name = if key.is_empty() { "simulation".to_string() } else { named.collect::<Vec<_>>().join(", ") };
        let found: Vec<(&&Summary, f64)> =
            members.iter().filter_map(|summary| of(summary).map(|value| (summary, value))).collect();
        let series = Series::new(name.clone(), found.iter().map(|(summary, value)| ((x.of)(&summary.point), *value)))
            .style(LineStyle::MarkedLine)
            .colour(index);
        let series = match deviation {
            Some(deviation) => series.deviations(found.iter().map(|(summary, _)| deviation(summary).unwrap_or(0.0))),
            None => series,
        };
        lines = lines.series(series);
        if let Some(theory) = theory {
            let curve: Vec<(f64, f64)> = members
                .iter()
                .filter_map(|summary| theory(&summary.point).map(|value| ((x.of)(&summary.point), value)))
                .collect();
            // A curve needs two points.
            if curve.len() > 1 {
                let name = if key.is_empty() { "large D".to_string() } else { format!("{name}, large D") };
                lines = lines.series(Series::new(name, curve).style(LineStyle::Dashed).colour(index));
            }
        }
    }
    lines
}
