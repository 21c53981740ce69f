//! Many problems beside each other: any of `D, N, P, λ, c` over lists of values, each point several times.
//!
//! Every finished run is a line of a journal, so that a sweep that was stopped, or is made finer, computes only what is new.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::TheoryError;
use crate::fields::{Fields, test_error};
use crate::prompt::{Divisor, Task, check_prompts, check_tests};
use crate::solver::{Method, Options};
use crate::spectrum::{hessian_spectrum, zero_fraction};
use crate::statistics::mean_and_deviation;
use crate::weights::contrast;

/// The most runs of a sweep.
const MOST_RUNS: usize = 1_000_000;
/// What a line of a journal begins with.
const BEGIN: &[u8] = br#"{"version":""#;

/// What is varied, and what is not.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// `D`.
    pub d: Vec<usize>,
    /// `N`.
    pub n: Vec<usize>,
    /// `P`.
    pub p: Vec<u64>,
    /// `λ`.
    pub lambda: Vec<f64>,
    /// `c`.
    pub c: Vec<f64>,
    /// Times that each point is drawn anew.
    pub repeats: usize,
    /// The same for all points.
    pub settings: Settings,
}

/// What all runs of a sweep share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Who solves.
    pub method: Method,
    /// How.
    pub options: Options,
    /// Fresh prompts that the test error is taken over.
    pub tests: u64,
    /// Noise on the labels.
    pub noise: f64,
    /// What sums over a prompt are divided by.
    pub divisor: Divisor,
    /// The seed of the first repeat; the others follow.
    pub seed: u64,
}

/// One problem.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// `D`.
    pub d: usize,
    /// `N`.
    pub n: usize,
    /// `P`.
    pub p: u64,
    /// `λ`.
    pub lambda: f64,
    /// `c`.
    pub c: f64,
}

/// One run of a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The problem.
    #[serde(flatten)]
    pub point: Point,
    /// From 0.
    pub repeat: usize,
    /// None where the solver failed.
    pub test_error: Option<f64>,
    /// None where the solver failed.
    pub contrast: Option<f64>,
    /// Whether the solver came to rest.
    pub converged: bool,
    /// Iterations of the solver.
    pub iterations: usize,
    /// The share of zero eigenvalues of the Hessian of the data.
    pub zero_fraction: f64,
}

/// All runs of a point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The problem.
    #[serde(flatten)]
    pub point: Point,
    /// Runs.
    pub repeats: usize,
    /// Over the runs that converged; none if none has.
    pub test_error_mean: Option<f64>,
    /// The standard deviation between them; none of one.
    pub test_error_std: Option<f64>,
    /// Over the runs that converged.
    pub contrast_mean: Option<f64>,
    /// The share that converged.
    pub converged_fraction: f64,
    /// The share of zero eigenvalues of the Hessian.
    pub zero_fraction: f64,
}

/// How far a sweep is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Runs that are there.
    pub runs: usize,
    /// Runs in all.
    pub all: usize,
    /// Runs that the journal had.
    pub kept: usize,
}

impl Sweep {
    /// The problems, the last list fastest.
    pub fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for &d in &self.d {
            for &n in &self.n {
                for &p in &self.p {
                    for &lambda in &self.lambda {
                        points.extend(self.c.iter().map(|&c| Point { d, n, p, lambda, c }));
                    }
                }
            }
        }
        points
    }

    /// Refuses what cannot be solved, before anything is.
    pub fn validate(&self) -> Result<(), TheoryError> {
        self.settings.options.validate()?;
        check_tests(self.settings.tests)?;
        let lists = [self.d.len(), self.n.len(), self.p.len(), self.lambda.len(), self.c.len(), self.repeats];
        let runs = lists.into_iter().fold(1, usize::saturating_mul);
        TheoryError::check_range("repeats", 1..=MOST_RUNS, self.repeats)?;
        if runs > MOST_RUNS {
            return Err(TheoryError::setting("d, n, p, lambda, c", format!("at most {MOST_RUNS} runs"), runs));
        }
        let points = self.points();
        if points.is_empty() {
            return Err(TheoryError::setting("d, n, p, lambda, c", "a value of each", "none"));
        }
        for point in points {
            self.task(point).validate()?;
            check_prompts(point.p)?;
        }
        let (most, threads) = (self.d.iter().max().map_or(0, |d| d * (d + 1)), rayon::current_num_threads());
        let numbers = 6.0 * (most as f64).powi(2) * threads as f64;
        TheoryError::check_memory(format!("{threads} spin glasses of {most} spins"), numbers)
    }

    fn task(&self, Point { d, n, c, .. }: Point) -> Task {
        Task { d, n, c, noise: self.settings.noise, divisor: self.settings.divisor }
    }

    /// Runs what the journal lacks and sums all up; none if `stop` says so before the end. `progress` hears how many runs
    /// are there, of how many, and how many of them the journal had.
    pub fn go(
        &self,
        journal: Option<&Path>,
        stop: &(dyn Fn() -> bool + Sync),
        progress: &(dyn Fn(Done) + Sync),
    ) -> Result<Option<Vec<Summary>>, TheoryError> {
        self.validate()?;
        let (journal, mut known) = match journal.map(Journal::open).transpose()? {
            Some((journal, known)) => (Some(Mutex::new(journal)), known),
            None => (None, HashMap::new()),
        };
        let wanted: Vec<(Point, usize, Option<Run>)> = self
            .points()
            .into_iter()
            .flat_map(|point| (0..self.repeats).map(move |repeat| (point, repeat)))
            .map(|(point, repeat)| (point, repeat, known.remove(&key(&self.settings, &point, repeat))))
            .collect();
        let kept = wanted.iter().filter(|(_, _, run)| run.is_some()).count();
        let (all, done) = (wanted.len(), AtomicUsize::new(kept));
        progress(Done { runs: kept, all, kept });
        let runs: Vec<Option<Run>> = wanted
            .into_par_iter()
            .map(|(point, repeat, known)| {
                if known.is_some() || stop() {
                    return Ok(known);
                }
                let run = self.run(point, repeat)?;
                if let Some(journal) = &journal {
                    journal.lock().expect("no run panics").write(&self.settings, &run)?;
                }
                progress(Done { runs: done.fetch_add(1, Ordering::Relaxed) + 1, all, kept });
                Ok(Some(run))
            })
            .collect::<Result<_, TheoryError>>()?;
        let runs: Option<Vec<Run>> = runs.into_iter().collect();
        Ok(runs.map(|runs| runs.chunks(self.repeats).map(summary).collect()))
    }

    fn run(&self, point: Point, repeat: usize) -> Result<Run, TheoryError> {
        let Settings { method, options, tests, seed, .. } = self.settings;
        let (task, seed) = (self.task(point), seed.wrapping_add(repeat as u64));
        let fields = Fields::draw(&task, point.p, point.lambda, seed, &mut |_| {})?;
        let zero_fraction = zero_fraction(&hessian_spectrum(&fields)?);
        let solved = method.solver(Options { seed, ..options }).solve(&fields, &mut |_, _| {});
        let failed =
            Run { point, repeat, test_error: None, contrast: None, converged: false, iterations: 0, zero_fraction };
        match solved {
            Ok(solution) => Ok(Run {
                test_error: Some(test_error(&task, &solution.means, tests, seed).0).filter(|error| error.is_finite()),
                contrast: Some(contrast(&solution.means, point.d)).filter(|contrast| contrast.is_finite()),
                converged: solution.converged,
                iterations: solution.iterations,
                ..failed
            }),
            Err(TheoryError::NegativePrecision { iteration, .. }) => Ok(Run { iterations: iteration, ..failed }),
            Err(TheoryError::Indefinite { .. }) => Ok(failed),
            Err(other) => Err(other),
        }
    }
}

/// What a run is known by: all that it depends on.
fn key(settings: &Settings, point: &Point, repeat: usize) -> String {
    serde_json::to_string(&(settings, point, repeat)).expect("plain values")
}

fn summary(runs: &[Run]) -> Summary {
    let good: Vec<&Run> = runs.iter().filter(|run| run.converged).collect();
    let mean = |of: fn(&Run) -> Option<f64>| {
        let values: Vec<f64> = good.iter().filter_map(|run| of(run)).collect();
        let (mean, deviation) = mean_and_deviation(&values);
        (!values.is_empty()).then_some((mean, (values.len() > 1).then_some(deviation)))
    };
    let error = mean(|run| run.test_error);
    let count = runs.len() as f64;
    Summary {
        point: runs[0].point,
        repeats: runs.len(),
        test_error_mean: error.map(|(mean, _)| mean),
        test_error_std: error.and_then(|(_, deviation)| deviation),
        contrast_mean: mean(|run| run.contrast).map(|(mean, _)| mean),
        converged_fraction: good.len() as f64 / count,
        zero_fraction: runs.iter().map(|run| run.zero_fraction).sum::<f64>() / count,
    }
}

/// The file of finished runs, of this and of other sweeps: a line each. It only ever grows.
struct Journal {
    path: PathBuf,
    file: File,
}

/// A line of it.
#[derive(Serialize, Deserialize)]
struct Line<S, R> {
    /// The version of this crate: another one may compute something else.
    version: String,
    settings: S,
    run: R,
}

impl Journal {
    /// Opens or begins it; the runs that are in it. A line that a crash cut off counts as not there.
    fn open(path: &Path) -> Result<(Self, HashMap<String, Run>), TheoryError> {
        let failed = |problem: String| TheoryError::File { path: path.to_path_buf(), problem };
        let io = |error: std::io::Error| failed(error.to_string());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(io)?;
        }
        let mut file = OpenOptions::new().append(true).create(true).open(path).map_err(io)?;
        let bytes = fs::read(path).map_err(io)?;
        let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        let parsed: Vec<Line<Settings, Run>> =
            lines.iter().filter_map(|line| serde_json::from_slice(line).ok()).collect();
        // The first line of a journal may have been cut off.
        let begins = |line: &[u8]| line.starts_with(BEGIN) || BEGIN.starts_with(line);
        if parsed.is_empty() && !(lines.len() <= 1 && lines.iter().all(|line| begins(line))) {
            return Err(failed("is no journal of sweeps; name another file".into()));
        }
        if bytes.last().is_some_and(|byte| *byte != b'\n') {
            file.write_all(b"\n").map_err(io)?;
        }
        let known = parsed
            .into_iter()
            .filter(|line| line.version == env!("CARGO_PKG_VERSION"))
            .map(|Line { settings, run, .. }| (key(&settings, &run.point, run.repeat), run))
            .collect();
        Ok((Self { path: path.to_path_buf(), file }, known))
    }

    fn write(&mut self, settings: &Settings, run: &Run) -> Result<(), TheoryError> {
        let line = Line { version: env!("CARGO_PKG_VERSION").to_string(), settings, run };
        let mut text = serde_json::to_string(&line).expect("plain values");
        text.push('\n');
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| TheoryError::File { path: self.path.clone(), problem: error.to_string() })
    }
}
