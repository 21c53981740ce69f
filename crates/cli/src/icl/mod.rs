//! `regard icl`: studies in-context learning as a spin glass.

mod train;

use std::path::{Path, PathBuf};

use anyhow::{Error, Result};
use clap::{Args, Subcommand};
use regard_figures::Figure;
use regard_system::{Ranks, save_atomically};
use regard_theory::TheoryError;
use regard_theory::blocks::PUBLISHED_BINS;
use regard_theory::fields::Origin;
use regard_theory::prompt::{Correlation, Divisor, Task};
use regard_theory::show::Shown;
use regard_theory::show::fields::{Counting, ShowFields};
use regard_theory::show::landscape::ShowLandscape;
use regard_theory::show::solve::Solve;
use regard_theory::show::spectrum::ShowSpectrum;
use regard_theory::solver::{Method, Options};
use regard_theory::sweep::{Done, Settings, Sweep};
use regard_theory::train::TrainOptions;

use self::train::Train;
use crate::failure::wrong_use;
use crate::print::{print, tell, tell_note};
use crate::progress::Progress;
use crate::ranks;
use crate::show::picture_report;
use crate::signal::{Signals, stop_on_signal};
use crate::value::{from_one, from_zero, number, take_negatives};

/// The arguments of `regard icl`.
#[derive(Args)]
#[command(mut_args(take_negatives), mut_subcommands(|command| command.mut_args(take_negatives)))]
pub struct Icl {
    #[command(subcommand)]
    work: Work,
    /// Write a picture, too: a file ending in .svg, .png or .html
    #[arg(long, global = true, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the numbers as CSV, too
    #[arg(long, global = true, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    json: bool,
    /// Seed of the random numbers
    #[arg(long, global = true, value_name = "N", default_value_t = 1, value_parser = from_zero::<u64>)]
    seed: u64,
}

/// The flags that describe the prompts.
#[derive(Args, Clone, Copy)]
struct Prompts {
    #[command(flatten)]
    inputs: Inputs,
    /// Number of examples before the query
    #[arg(long, value_name = "N", default_value_t = USUAL_N, value_parser = from_zero::<usize>)]
    n: usize,
}

/// Usual number of examples before the query.
const USUAL_N: usize = 100;

/// The flags that describe the prompts, except their length.
#[derive(Args, Clone, Copy)]
struct Inputs {
    /// Dimension of the inputs
    #[arg(long, value_name = "D", default_value_t = 20, value_parser = from_zero::<usize>)]
    d: usize,
    /// Correlation between the inputs of a prompt, from 0 to 1
    #[arg(long, value_name = "C", default_value_t = 0.0, value_parser = number)]
    c: f64,
    #[command(flatten)]
    drawing: Drawing,
}

/// The flags of the prompts that a sweep cannot vary.
#[derive(Args, Clone, Copy)]
struct Drawing {
    /// Standard deviation of the noise on the labels
    #[arg(long, value_name = "S", default_value_t = 0.0, value_parser = number)]
    noise: f64,
    /// Divisor of the sums over a prompt: its N + 1 columns or its N examples
    #[arg(long, value_name = "columns|examples", default_value = "columns")]
    divisor: Divisor,
    /// Covariance that --c describes: equal (any two inputs have correlation C) or published (that of the published script, in which
    /// later inputs vary less)
    #[arg(long, value_name = "equal|published", default_value = "equal")]
    correlation: Correlation,
}

impl Prompts {
    fn task(self) -> Task {
        self.inputs.task(self.n)
    }
}

impl Inputs {
    fn task(self, n: usize) -> Task {
        let Self { d, c, drawing: Drawing { noise, divisor, correlation } } = self;
        Task { d, n, c, correlation, noise, divisor }
    }
}

/// The flags of the solver.
#[derive(Args, Clone, Copy)]
struct Solver {
    /// Solver of the ground state: exact (factorisation), edges (cavity), node (as published), amp, gibbs or hmc (samplers)
    #[arg(long, value_name = "NAME", default_value = "exact")]
    solver: Method,
    /// Inverse temperature; it changes the variances but not the means
    #[arg(long, value_name = "B", default_value_t = Options::default().beta, value_parser = number)]
    beta: f64,
    /// Share of the old messages that each iteration of edges, node or amp keeps; 0.5 by default
    #[arg(long, value_name = "S", value_parser = number)]
    damping: Option<f64>,
    /// Largest change of a mean, relative to the largest mean, at which edges, node or amp has converged; 1e-10 by default
    #[arg(long, value_name = "E", value_parser = number)]
    tolerance: Option<f64>,
    /// Largest number of iterations of edges, node or amp; 2000 by default
    #[arg(long, value_name = "N", value_parser = from_one::<usize>)]
    iterations: Option<usize>,
    /// Number of sweeps of gibbs or hmc; 2000 by default
    #[arg(long, value_name = "N", value_parser = from_one::<usize>)]
    sweeps: Option<usize>,
    /// Number of new prompts for the test error
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = from_one::<u64>)]
    tests: u64,
}

impl Solver {
    /// Returns the options of the solver, or an error if a flag does not apply to it.
    fn options(self, seed: u64) -> Result<Options> {
        let Self { solver, beta, damping, tolerance, iterations, sweeps, .. } = self;
        let iterates = matches!(solver, Method::Edges | Method::Node | Method::Amp);
        let samples = matches!(solver, Method::Gibbs | Method::Hmc);
        for (name, is_given, is_known, solvers) in [
            ("damping", damping.is_some(), iterates, "--solver edges, node or amp"),
            ("tolerance", tolerance.is_some(), iterates, "--solver edges, node or amp"),
            ("iterations", iterations.is_some(), iterates, "--solver edges, node or amp"),
            ("sweeps", sweeps.is_some(), samples, "--solver gibbs or hmc"),
        ] {
            if is_given && !is_known {
                let got = format!("--solver {solver}");
                return Err(report(TheoryError::setting(name, format!("{solvers} with this flag"), got)));
            }
        }
        let usual = Options::default();
        Ok(Options {
            beta,
            damping: damping.unwrap_or(usual.damping),
            tolerance: tolerance.unwrap_or(usual.tolerance),
            most_iterations: iterations.unwrap_or(usual.most_iterations),
            sweeps: sweeps.unwrap_or(usual.sweeps),
            seed,
        })
    }
}

#[derive(Subcommand)]
enum Work {
    /// Show the distributions of features, fields and couplings, and how they change with N
    Fields {
        #[command(flatten)]
        inputs: Inputs,
        /// Number of examples before the query; 100 by default, and 20 with --published
        #[arg(long, value_name = "N", value_parser = from_zero::<usize>)]
        n: Option<usize>,
        /// Number of prompts
        #[arg(long, value_name = "P", default_value_t = 1000, value_parser = from_zero::<u64>)]
        p: u64,
        /// Numbers of additional examples at which to compute the divergence; 0 gives the noise floor. By default up to 80, and up to
        /// 180 with --published
        #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = from_zero::<usize>)]
        more: Vec<usize>,
        /// Number of sets of prompts, whose elements are pooled or, with --published, whose divergences are averaged
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = from_one::<usize>)]
        repeats: usize,
        /// Number of bins of the histograms; 50 by default
        #[arg(long, value_name = "N", value_parser = from_one::<usize>)]
        bins: Option<usize>,
        /// Compute the divergence as published: 100 bins over one range for all N, one added to each count, in bits, from single
        /// sets of prompts, against N = 20, with sums divided by N
        #[arg(long, conflicts_with_all = ["bins", "divisor"])]
        published: bool,
    },
    /// Solve for the attention matrix of a set of prompts: the ground state of the spins
    Solve {
        #[command(flatten)]
        prompts: Prompts,
        /// Number of prompts
        #[arg(long, value_name = "P", default_value_t = 10_000, value_parser = from_zero::<u64>)]
        p: u64,
        /// Regularisation λ
        #[arg(long, value_name = "L", default_value_t = 0.01, value_parser = number)]
        lambda: f64,
        /// How to draw fields and couplings: from simulated prompts, from closed expressions for their features, or element by
        /// element from distributions fitted to the blocks
        #[arg(long, value_name = "prompts|closed|fitted", default_value = "prompts")]
        fields: Origin,
        #[command(flatten)]
        solver: Solver,
        /// Also train merged linear attention on the same prompts
        #[arg(long)]
        trained: bool,
        /// Number of steps of Adam; 2000 by default
        #[arg(long, value_name = "N", requires = "trained", value_parser = from_one::<usize>)]
        steps: Option<usize>,
        /// Learning rate of Adam; 0.01 by default
        #[arg(long, value_name = "R", requires = "trained", value_parser = number)]
        rate: Option<f64>,
    },
    /// Train models on the prompts with Adam
    Train(Box<Train>),
    /// Compute test error, contrast and convergence for all combinations of several settings
    Sweep {
        /// Dimension of the inputs
        #[arg(long, value_name = "D,…", value_delimiter = ',', default_values_t = [20], value_parser = from_zero::<usize>)]
        d: Vec<usize>,
        /// Number of examples before the query
        #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [100], value_parser = from_zero::<usize>)]
        n: Vec<usize>,
        /// Number of prompts
        #[arg(long, value_name = "P,…", value_delimiter = ',', default_values_t = [10_000], value_parser = from_zero::<u64>)]
        p: Vec<u64>,
        /// Regularisation λ
        #[arg(long, value_name = "L,…", value_delimiter = ',', default_values_t = [0.01], value_parser = number)]
        lambda: Vec<f64>,
        /// Correlation between any two inputs of a prompt, from 0 to 1
        #[arg(long, value_name = "C,…", value_delimiter = ',', default_values_t = [0.0], value_parser = number)]
        c: Vec<f64>,
        #[command(flatten)]
        drawing: Drawing,
        #[command(flatten)]
        solver: Solver,
        /// Number of runs of each combination
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = from_one::<usize>)]
        repeats: usize,
        /// The file that keeps finished runs; they are not computed again
        #[arg(long, value_name = "FILE", default_value = "runs/icl-sweep.jsonl")]
        journal: PathBuf,
    },
    /// Draw the energy on a plane through the ground state
    Landscape {
        #[command(flatten)]
        prompts: Prompts,
        /// Numbers of prompts, each drawn as a panel of its own
        #[arg(long, value_name = "P,…", value_delimiter = ',', default_values_t = [100, 10_000], value_parser = from_zero::<u64>)]
        p: Vec<u64>,
        /// Regularisation λ
        #[arg(long, value_name = "L", default_value_t = 0.0001, value_parser = number)]
        lambda: f64,
        /// Largest distance from the ground state along each axis
        #[arg(long, value_name = "R", default_value_t = 5.0, value_parser = number)]
        reach: f64,
        /// Number of grid points along a side
        #[arg(long, value_name = "N", default_value_t = 41, value_parser = from_one::<usize>)]
        points: usize,
    },
    /// Show the eigenvalues of the Hessian and of the inputs
    Spectrum {
        #[command(flatten)]
        prompts: Prompts,
        /// Numbers of prompts, one spectrum each
        #[arg(long, value_name = "P,…", value_delimiter = ',', default_values_t = [50, 100, 200, 300, 420, 600, 1000], value_parser = from_zero::<u64>)]
        p: Vec<u64>,
        /// Number of bins of the histograms
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = from_one::<usize>)]
        bins: usize,
    },
}

/// Marks an error as wrong use if a flag is invalid, as opposed to a computation that failed.
fn report(error: TheoryError) -> Error {
    if error.is_wrong_use() { wrong_use(error) } else { error.into() }
}

impl Icl {
    pub fn run(self) -> Result<()> {
        let Self { work, out, csv, json, seed } = self;
        // Checked before the computation, which may take long.
        if let Some(path) = &out {
            Figure::check_path(path).map_err(picture_report)?;
        }
        // The ranks share out the runs of a sweep; rank 0 shows it.
        let shown = match work {
            Work::Sweep { .. } => {
                let mut shown = None;
                ranks::run(|ranks| {
                    shown = work.show(seed, ranks)?;
                    Ok(())
                })?;
                shown
            }
            work => work.show(seed, &Ranks::default())?,
        };
        let Some(shown) = shown else { return Ok(()) };
        print(&if json { format!("{}\n", shown.json) } else { shown.text })?;
        if let Some(path) = csv {
            save_atomically(&path, shown.csv.as_bytes())?;
            tell!("wrote {}", path.display());
        }
        if let Some(path) = out {
            let saved = shown.figure.save(&path).map_err(picture_report)?;
            tell!("wrote {}", path.display());
            tell_note(&saved);
        }
        Ok(())
    }
}

impl Work {
    fn show(self, seed: u64, ranks: &Ranks) -> Result<Option<Shown>> {
        let shown = match self {
            Self::Fields { inputs, n, p, more, repeats, bins, published } => {
                let (usual_n, usual_more, usual_bins, counting) = match published {
                    true => (
                        20,
                        [0, 1, 20, 40, 60, 80, 100, 120, 140, 160, 180].as_slice(),
                        PUBLISHED_BINS,
                        Counting::Published,
                    ),
                    false => (USUAL_N, [0, 1, 2, 5, 10, 20, 40, 80].as_slice(), 50, Counting::Pooled),
                };
                let mut task = inputs.task(n.unwrap_or(usual_n));
                if published {
                    task.divisor = Divisor::Examples;
                }
                let (more, bins) = (or_usual(more, usual_more), bins.unwrap_or(usual_bins));
                staged(|tell| ShowFields { task, p, more, bins, counting, repeats, seed }.show(tell))
            }
            Self::Solve { prompts, p, lambda, fields, solver, trained, steps, rate } => {
                let usual = TrainOptions::default();
                let (steps, rate) = (steps.unwrap_or(usual.steps), rate.unwrap_or(usual.rate));
                let training = trained.then_some(TrainOptions { steps, rate, heads: 1, seed, ..usual });
                let solve = Solve {
                    task: prompts.task(),
                    p,
                    origin: fields,
                    lambda,
                    method: solver.solver,
                    options: solver.options(seed)?,
                    tests: solver.tests,
                    training,
                    seed,
                };
                staged(|tell| solve.show(tell))
            }
            Self::Train(train) => return train.show(seed),
            Self::Sweep { d, n, p, lambda, c, drawing, solver, repeats, journal } => {
                let settings = Settings {
                    method: solver.solver,
                    options: solver.options(seed)?,
                    tests: solver.tests,
                    noise: drawing.noise,
                    divisor: drawing.divisor,
                    correlation: drawing.correlation,
                    seed,
                };
                let sweep = Sweep { d, n, p, lambda, c, repeats, settings };
                let signals = stop_on_signal("finished runs are kept", ranks)?;
                let progress = Progress::new("");
                let hear = |done: Done| {
                    if !ranks.is_first() {
                        return;
                    }
                    if done.runs == done.kept {
                        say_kept(&progress, done.kept, done.all, &journal);
                    }
                    progress.set(done.runs as u64, done.all as u64, "runs");
                };
                let stop = || signals.stop.is_asked();
                let shown = regard_theory::show::sweep::show(&sweep, Some(&journal), ranks, &stop, &hear);
                if !ranks.is_first() {
                    shown.map_err(report)?;
                    return signals.check().map(|()| None);
                }
                return unless_stopped(shown.map_err(report)?, &signals);
            }
            Self::Landscape { prompts, p, lambda, reach, points } => {
                staged(|tell| ShowLandscape { task: prompts.task(), p, lambda, reach, points, seed }.show(tell))
            }
            Self::Spectrum { prompts, p, bins } => {
                staged(|tell| ShowSpectrum { task: prompts.task(), p, bins, seed }.show(tell))
            }
        };
        Ok(Some(shown.map_err(report)?))
    }
}

/// Returns the given values, or the usual ones if there are none.
fn or_usual<T: Copy>(values: Vec<T>, usual: &[T]) -> Vec<T> {
    if values.is_empty() { usual.to_vec() } else { values }
}

/// Says how many runs do not have to be computed because the journal has them.
fn say_kept(progress: &Progress, kept: usize, all: usize, journal: &Path) {
    if kept > 0 {
        progress.say(format_args!("{kept} of {all} runs are in {} already", journal.display()));
    }
}

/// Returns what a command shows, or says that it was stopped and how to continue.
fn unless_stopped(shown: Option<Shown>, signals: &Signals) -> Result<Option<Shown>> {
    if shown.is_none() {
        tell!("stopped; run the same command again to continue");
        return Err(signals.stopped());
    }
    Ok(shown)
}

/// Runs `show` and shows each stage that it reports.
fn staged(show: impl FnOnce(&mut dyn FnMut(&str)) -> Result<Shown, TheoryError>) -> Result<Shown, TheoryError> {
    let progress = Progress::new("");
    show(&mut |what| progress.message(what))
}
