//! Sweeps: one problem for each combination of listed `D, N, P, λ, c`, each solved several times.
//!
//! Every finished run is a line of a journal, so a sweep that was stopped or refined computes only the missing runs.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use regard_system::Ranks;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::TheoryError;
use crate::fields::{Fields, test_error};
use crate::journal::Journal;
use crate::prompt::{Correlation, Divisor, Task, check_prompts, check_tests};
use crate::solver::{Method, Options};
use crate::spectrum::{hessian_spectrum, zero_fraction};
use crate::statistics::mean_and_deviation;
use crate::weights::contrast;

/// Largest number of runs in a sweep.
const MOST_RUNS: usize = 1_000_000;

/// Number of runs of each thread between two collections of results. With more, a rank waits less for the others; with fewer, less
/// is lost when a rank dies.
const RUNS_PER_ROUND: usize = 4;

/// The values to vary and the settings of all runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// Numbers of features, `D`.
    pub d: Vec<usize>,
    /// Numbers of examples, `N`.
    pub n: Vec<usize>,
    /// Numbers of prompts, `P`.
    pub p: Vec<u64>,
    /// Regularisations `λ`.
    pub lambda: Vec<f64>,
    /// Correlations `c` between inputs.
    pub c: Vec<f64>,
    /// Number of runs per point, each with new prompts.
    pub repeats: usize,
    /// Settings that all points share.
    pub settings: Settings,
}

/// Settings that all runs of a sweep share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The solver.
    pub method: Method,
    /// Settings of the solver.
    pub options: Options,
    /// Number of new prompts for the test error.
    pub tests: u64,
    /// Standard deviation of the noise on the labels.
    pub noise: f64,
    /// Divisor of the sums over a prompt.
    pub divisor: Divisor,
    /// Covariance of the inputs that the correlations describe.
    #[serde(default)]
    pub correlation: Correlation,
    /// Seed of the first run of a point; further runs use the seeds after it.
    pub seed: u64,
}

/// One combination of the varied values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Number of features, `D`.
    pub d: usize,
    /// Number of examples, `N`.
    pub n: usize,
    /// Number of prompts, `P`.
    pub p: u64,
    /// Regularisation `λ`.
    pub lambda: f64,
    /// Correlation `c` between inputs.
    pub c: f64,
}

/// One run of a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The problem that was solved.
    #[serde(flatten)]
    pub point: Point,
    /// Index of the run within its point, from 0.
    pub repeat: usize,
    /// Test error; `None` if the solver failed.
    pub test_error: Option<f64>,
    /// Contrast with the identity; `None` if the solver failed.
    pub contrast: Option<f64>,
    /// Whether the solver converged.
    pub converged: bool,
    /// Number of iterations of the solver.
    pub iterations: usize,
    /// Share of zero eigenvalues of the Hessian without regularisation.
    pub zero_fraction: f64,
}

/// Averages over all runs of a point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The problem that was solved.
    #[serde(flatten)]
    pub point: Point,
    /// Number of runs.
    pub repeats: usize,
    /// Mean test error of the converged runs; `None` if no run converged.
    pub test_error_mean: Option<f64>,
    /// Standard deviation of the test error between converged runs; `None` for fewer than two.
    pub test_error_std: Option<f64>,
    /// Mean contrast of the converged runs; `None` if no run converged.
    pub contrast_mean: Option<f64>,
    /// Share of runs that converged.
    pub converged_fraction: f64,
    /// Mean share of zero eigenvalues of the Hessian without regularisation.
    pub zero_fraction: f64,
}

/// The progress of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Number of runs finished, those from the journal included.
    pub runs: usize,
    /// Number of runs of the sweep.
    pub all: usize,
    /// Number of runs taken from the journal.
    pub kept: usize,
}

impl Sweep {
    /// Returns all combinations of the listed values; `c` varies fastest.
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

    /// Returns an error if a setting of any point is out of range.
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
            return Err(TheoryError::setting("d, n, p, lambda, c", "at least one value for each", "none"));
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
        let Settings { noise, divisor, correlation, .. } = self.settings;
        Task { d, n, c, correlation, noise, divisor }
    }

    /// Computes the runs that the journal lacks, shared out over the ranks, and returns a summary of each point, or `None` if `stop`
    /// returned true on any rank. Rank 0 alone keeps the journal, so other ranks get `None` if it had runs already. `progress` is
    /// called after each run.
    pub fn go(
        &self,
        journal: Option<&Path>,
        ranks: &Ranks,
        stop: &(dyn Fn() -> bool + Sync),
        progress: &(dyn Fn(Done) + Sync),
    ) -> Result<Option<Vec<Summary>>, TheoryError> {
        if ranks.is_alone() {
            return self.alone(journal, stop, progress);
        }
        let gone = self.shared(journal, ranks, stop, progress).inspect_err(|error| ranks.leave(error))?;
        ranks.agree(Ok::<_, TheoryError>(String::new()))?;
        ranks.part();
        Ok(gone)
    }

    fn alone(
        &self,
        journal: Option<&Path>,
        stop: &(dyn Fn() -> bool + Sync),
        progress: &(dyn Fn(Done) + Sync),
    ) -> Result<Option<Vec<Summary>>, TheoryError> {
        self.validate()?;
        let (journal, wanted) = self.wanted(journal)?;
        let journal = journal.map(Mutex::new);
        let kept = wanted.iter().filter(|wanted| wanted.run.is_some()).count();
        let (all, done) = (wanted.len(), AtomicUsize::new(kept));
        progress(Done { runs: kept, all, kept });
        let runs = self.computed(&wanted.iter().collect::<Vec<_>>(), stop, &|run| {
            if let Some(journal) = &journal {
                journal.lock().expect("no thread panics while holding the lock").write(&self.settings, run)?;
            }
            progress(Done { runs: done.fetch_add(1, Ordering::Relaxed) + 1, all, kept });
            Ok(())
        })?;
        Ok(self.summaries(runs))
    }

    /// Computes runs that have no result yet on all threads, and calls `hear` with each; a run is `None` if `stop` returned true.
    fn computed(
        &self,
        wanted: &[&Wanted],
        stop: &(dyn Fn() -> bool + Sync),
        hear: &(dyn Fn(&Run) -> Result<(), TheoryError> + Sync),
    ) -> Result<Vec<Option<Run>>, TheoryError> {
        let computed = wanted.par_iter().map(|Wanted { point, repeat, run }| {
            if run.is_some() || stop() {
                return Ok(run.clone());
            }
            let run = self.run(*point, *repeat)?;
            hear(&run)?;
            Ok(Some(run))
        });
        computed.collect()
    }

    /// Computes the runs in rounds: in each, every rank has some runs for each of its threads, and rank 0 collects them.
    fn shared(
        &self,
        journal: Option<&Path>,
        ranks: &Ranks,
        stop: &(dyn Fn() -> bool + Sync),
        progress: &(dyn Fn(Done) + Sync),
    ) -> Result<Option<Vec<Summary>>, TheoryError> {
        self.validate()?;
        let (mut journal, mut wanted) = self.wanted(journal.filter(|_| ranks.is_first()))?;
        let missing = wanted.iter().enumerate().filter(|(_, wanted)| wanted.run.is_none()).map(|(at, _)| at);
        let missing: Vec<usize> = parsed(&ranks.from_first(Ok::<_, TheoryError>(json(&missing.collect::<Vec<_>>())))?)?;
        let (all, kept) = (wanted.len(), wanted.len() - missing.len());
        let done = AtomicUsize::new(kept);
        progress(Done { runs: kept, all, kept });
        let each = RUNS_PER_ROUND * rayon::current_num_threads();
        for round in missing.chunks(each * ranks.size()) {
            let own: Vec<usize> = round.iter().copied().skip(ranks.rank()).step_by(ranks.size()).collect();
            let some: Vec<&Wanted> = own.iter().map(|&at| &wanted[at]).collect();
            let runs = self.computed(&some, stop, &|_| {
                progress(Done { runs: done.fetch_add(1, Ordering::Relaxed) + 1, all, kept });
                Ok(())
            })?;
            let runs: Vec<(usize, Option<Run>)> = own.into_iter().zip(runs).collect();
            let texts = ranks.agree(Ok::<_, TheoryError>(json(&runs)))?;
            for (rank, text) in texts.iter().enumerate() {
                for (at, run) in parsed::<Vec<(usize, Option<Run>)>>(text)? {
                    if let (Some(journal), Some(run)) = (&mut journal, &run) {
                        journal.write(&self.settings, run)?;
                    }
                    if rank != ranks.rank() && run.is_some() {
                        progress(Done { runs: done.fetch_add(1, Ordering::Relaxed) + 1, all, kept });
                    }
                    wanted[at].run = run;
                }
            }
            if round.iter().any(|&at| wanted[at].run.is_none()) {
                return Ok(None);
            }
        }
        // The other ranks do not have the runs of the journal, and rank 0 shows the sweep.
        Ok(self.summaries(wanted.into_iter().map(|wanted| wanted.run).collect()))
    }

    /// Opens the journal and returns all runs of the sweep, those in the journal with their results.
    fn wanted(&self, journal: Option<&Path>) -> Result<(Option<Journal>, Vec<Wanted>), TheoryError> {
        let (journal, mut known) = match journal.map(Journal::open::<Settings, Run>).transpose()? {
            Some((journal, runs)) => {
                let keyed = runs.into_iter().map(|(settings, run)| (key(&settings, &run.point, run.repeat), run));
                (Some(journal), keyed.collect())
            }
            None => (None, HashMap::new()),
        };
        let all = self.points().into_iter().flat_map(|point| (0..self.repeats).map(move |repeat| (point, repeat)));
        let wanted = all.map(|(point, repeat)| {
            let run = known.remove(&key(&self.settings, &point, repeat));
            Wanted { point, repeat, run }
        });
        Ok((journal, wanted.collect()))
    }

    /// Summarises the runs of each point; returns `None` if one is missing.
    fn summaries(&self, runs: Vec<Option<Run>>) -> Option<Vec<Summary>> {
        let runs: Option<Vec<Run>> = runs.into_iter().collect();
        Some(runs?.chunks(self.repeats).map(summary).collect())
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

/// A run of a sweep, with its result if it has been computed.
struct Wanted {
    point: Point,
    repeat: usize,
    run: Option<Run>,
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("runs and numbers serialise to JSON")
}

fn parsed<V: DeserializeOwned>(text: &str) -> Result<V, TheoryError> {
    let other = |error: serde_json::Error| TheoryError::setting("messages", "the same Regard on all ranks", error);
    serde_json::from_str(text).map_err(other)
}

/// Returns the key of a run in the journal: everything that the run depends on.
fn key(settings: &Settings, point: &Point, repeat: usize) -> String {
    serde_json::to_string(&(settings, point, repeat)).expect("settings, points and numbers serialise to JSON")
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
