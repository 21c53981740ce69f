//! `regard icl`: in-context learning as a spin glass.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use regard_figures::Figure;
use regard_system::save_atomically;
use regard_theory::TheoryError;
use regard_theory::prompt::{Divisor, Task};
use regard_theory::show::Shown;
use regard_theory::show::fields::ShowFields;
use regard_theory::show::landscape::ShowLandscape;
use regard_theory::show::solve::{Solve, Source};
use regard_theory::show::spectrum::ShowSpectrum;
use regard_theory::show::train::ShowTrain;
use regard_theory::solver::{Method, Options};
use regard_theory::sweep::{Done, Settings, Sweep};
use regard_theory::train::{Model, TrainOptions};

use crate::print::{print, tell, tell_note};
use crate::show::picture_report;
use crate::signal::stop_on_signal;
use crate::value::{from_one, from_zero, number, take_negatives};

/// The arguments of `regard icl`.
#[derive(Args)]
#[command(mut_args(take_negatives), mut_subcommands(|command| command.mut_args(take_negatives)))]
pub struct Icl {
    #[command(subcommand)]
    work: Work,
    /// Draw it: a file ending in .svg, .png or .html
    #[arg(long, global = true, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write its table too, as CSV
    #[arg(long, global = true, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    json: bool,
    /// Selects the random numbers
    #[arg(long, global = true, value_name = "N", default_value_t = 1, value_parser = from_zero::<u64>)]
    seed: u64,
}

/// The prompts.
#[derive(Args, Clone, Copy)]
struct Prompts {
    /// Features of an input
    #[arg(long, value_name = "D", default_value_t = 20, value_parser = from_zero::<usize>)]
    d: usize,
    /// Examples before the query
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = from_zero::<usize>)]
    n: usize,
    /// Correlation between any two inputs of a prompt
    #[arg(long, value_name = "C", default_value_t = 0.0, value_parser = number)]
    c: f64,
    #[command(flatten)]
    drawing: Drawing,
}

/// What no sweep varies.
#[derive(Args, Clone, Copy)]
struct Drawing {
    /// Deviation of the noise on labels
    #[arg(long, value_name = "S", default_value_t = 0.0, value_parser = number)]
    noise: f64,
    /// What sums over a prompt are divided by: N + 1 columns, or N examples
    #[arg(long, value_name = "columns|examples", default_value = "columns")]
    divisor: Divisor,
}

impl Prompts {
    fn task(self) -> Task {
        let Self { d, n, c, drawing: Drawing { noise, divisor } } = self;
        Task { d, n, c, noise, divisor }
    }
}

/// The solver.
#[derive(Args, Clone, Copy)]
struct Solver {
    /// Who solves: edges, node, amp, exact, gibbs or hmc
    #[arg(long, value_name = "NAME", default_value = "exact")]
    solver: Method,
    /// Inverse temperature: variances, not means, depend on it
    #[arg(long, value_name = "B", default_value_t = Options::default().beta, value_parser = number)]
    beta: f64,
    /// Share of the old messages kept in an iteration of edges, node, amp; 0.5 if left out
    #[arg(long, value_name = "S", value_parser = number)]
    damping: Option<f64>,
    /// Change of a mean, over the largest, at which an iteration has come to rest
    #[arg(long, value_name = "E", value_parser = number)]
    tolerance: Option<f64>,
    /// Iterations at most; 2000 if left out
    #[arg(long, value_name = "N", value_parser = from_one::<usize>)]
    iterations: Option<usize>,
    /// Sweeps of gibbs, hmc; 2000 if left out
    #[arg(long, value_name = "N", value_parser = from_one::<usize>)]
    sweeps: Option<usize>,
    /// Fresh prompts that the test error is taken over
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = from_one::<u64>)]
    tests: u64,
}

impl Solver {
    /// The options; those that the solver does not know are refused.
    fn options(self, seed: u64) -> Result<Options, IclFailure> {
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
                return Err(
                    TheoryError::setting(name, format!("{solvers} with it"), format!("--solver {solver}")).into()
                );
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
    /// Distributions of features, fields and couplings, and how far they move with N
    Fields {
        #[command(flatten)]
        prompts: Prompts,
        /// Prompts
        #[arg(long, value_name = "P", default_value_t = 1000, value_parser = from_zero::<u64>)]
        p: u64,
        /// Examples more at which the divergence is taken; 0 is the noise floor
        #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [0, 1, 2, 5, 10, 20, 40, 80], value_parser = from_zero::<usize>)]
        more: Vec<usize>,
        /// Sets of prompts whose elements are taken together
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = from_one::<usize>)]
        repeats: usize,
        /// Bins of the histograms
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = from_one::<usize>)]
        bins: usize,
    },
    /// The ground state of a set of prompts
    Solve {
        #[command(flatten)]
        prompts: Prompts,
        /// Prompts
        #[arg(long, value_name = "P", default_value_t = 10_000, value_parser = from_zero::<u64>)]
        p: u64,
        /// Regularisation
        #[arg(long, value_name = "L", default_value_t = 0.01, value_parser = number)]
        lambda: f64,
        /// How fields and couplings are drawn: prompt by prompt, by the closed expressions for what matters of a prompt, or each
        /// element by itself from distributions fitted to the blocks
        #[arg(long, value_name = "prompts|closed|fitted", default_value = "prompts")]
        fields: Source,
        #[command(flatten)]
        solver: Solver,
        /// Train merged linear attention on the same prompts too
        #[arg(long)]
        trained: bool,
        /// Steps of Adam
        #[arg(long, value_name = "N", requires = "trained", value_parser = from_one::<usize>)]
        steps: Option<usize>,
        /// The learning rate of training
        #[arg(long, value_name = "R", requires = "trained", value_parser = number)]
        rate: Option<f64>,
    },
    /// Train models of the task with Adam
    Train {
        #[command(flatten)]
        prompts: Prompts,
        /// Prompts; several draw the double descent
        #[arg(long, value_name = "P,…", value_delimiter = ',', default_values_t = [1000], value_parser = from_zero::<u64>)]
        p: Vec<u64>,
        /// Regularisation: half the weight decay
        #[arg(long, value_name = "L", default_value_t = 0.01, value_parser = number)]
        lambda: f64,
        /// Models: merged, separate, full, multi_head, softmax, block
        #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_values = ["merged"])]
        model: Vec<Model>,
        /// Heads of multi_head; 4 if left out
        #[arg(long, value_name = "H", value_parser = from_one::<usize>)]
        heads: Option<usize>,
        /// Steps of Adam
        #[arg(long, value_name = "N", default_value_t = TrainOptions::default().steps, value_parser = from_one::<usize>)]
        steps: usize,
        /// The learning rate
        #[arg(long, value_name = "R", default_value_t = TrainOptions::default().rate, value_parser = number)]
        rate: f64,
        /// Fresh prompts that the test error is taken over
        #[arg(long, value_name = "N", default_value_t = 4000, value_parser = from_one::<u64>)]
        tests: u64,
        /// Times that each is trained
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = from_one::<usize>)]
        repeats: usize,
    },
    /// Test error, contrast and convergence over lists of settings
    Sweep {
        /// Features of an input
        #[arg(long, value_name = "D,…", value_delimiter = ',', default_values_t = [20], value_parser = from_zero::<usize>)]
        d: Vec<usize>,
        /// Examples before the query
        #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [100], value_parser = from_zero::<usize>)]
        n: Vec<usize>,
        /// Prompts
        #[arg(long, value_name = "P,…", value_delimiter = ',', default_values_t = [10_000], value_parser = from_zero::<u64>)]
        p: Vec<u64>,
        /// Regularisation
        #[arg(long, value_name = "L,…", value_delimiter = ',', default_values_t = [0.01], value_parser = number)]
        lambda: Vec<f64>,
        /// Correlation between any two inputs of a prompt
        #[arg(long, value_name = "C,…", value_delimiter = ',', default_values_t = [0.0], value_parser = number)]
        c: Vec<f64>,
        #[command(flatten)]
        drawing: Drawing,
        #[command(flatten)]
        solver: Solver,
        /// Runs of each point
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = from_one::<usize>)]
        repeats: usize,
        /// The file of finished runs: those that it has are not computed again
        #[arg(long, value_name = "FILE", default_value = "runs/icl-sweep.jsonl")]
        journal: PathBuf,
    },
    /// The energy over a plane through the ground state
    Landscape {
        #[command(flatten)]
        prompts: Prompts,
        /// Prompts, a picture each
        #[arg(long, value_name = "P,…", value_delimiter = ',', default_values_t = [100, 10_000], value_parser = from_zero::<u64>)]
        p: Vec<u64>,
        /// Regularisation
        #[arg(long, value_name = "L", default_value_t = 0.0001, value_parser = number)]
        lambda: f64,
        /// How far to each side
        #[arg(long, value_name = "R", default_value_t = 5.0, value_parser = number)]
        reach: f64,
        /// Points of a side
        #[arg(long, value_name = "N", default_value_t = 41, value_parser = from_one::<usize>)]
        points: usize,
    },
    /// Eigenvalues of the Hessian and of the inputs
    Spectrum {
        #[command(flatten)]
        prompts: Prompts,
        /// Prompts, a spectrum each
        #[arg(long, value_name = "P,…", value_delimiter = ',', default_values_t = [50, 100, 200, 300, 420, 600, 1000], value_parser = from_zero::<u64>)]
        p: Vec<u64>,
        /// Bins of the histograms
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = from_one::<usize>)]
        bins: usize,
    },
}

/// A setting that makes no sense, or a problem without a solution.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct IclFailure(#[from] TheoryError);

impl IclFailure {
    /// Whether the command was wrongly used.
    pub fn is_wrong_use(&self) -> bool {
        self.0.is_wrong_use()
    }
}

impl Icl {
    pub fn run(self) -> Result<()> {
        let Self { work, out, csv, json, seed } = self;
        // Before the work, which may take long.
        if let Some(path) = &out {
            Figure::check_path(path).map_err(picture_report)?;
        }
        let Some(shown) = work.show(seed)? else { return Ok(()) };
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
    fn show(self, seed: u64) -> Result<Option<Shown>> {
        let shown = match self {
            Self::Fields { prompts, p, more, repeats, bins } => {
                staged(|tell| ShowFields { task: prompts.task(), p, more, bins, repeats, seed }.show(tell))
            }
            Self::Solve { prompts, p, lambda, fields, solver, trained, steps, rate } => {
                let usual = TrainOptions::default();
                let (steps, rate) = (steps.unwrap_or(usual.steps), rate.unwrap_or(usual.rate));
                let training = trained.then_some(TrainOptions { steps, rate, heads: 1, seed, ..usual });
                let solve = Solve {
                    task: prompts.task(),
                    p,
                    source: fields,
                    lambda,
                    method: solver.solver,
                    options: solver.options(seed)?,
                    tests: solver.tests,
                    training,
                    seed,
                };
                staged(|tell| solve.show(tell))
            }
            Self::Train { prompts, p, lambda, model, heads, steps, rate, tests, repeats } => {
                if heads.is_some() && !model.contains(&Model::MultiHead) {
                    return Err(IclFailure(TheoryError::setting(
                        "heads",
                        "--model multi_head with it",
                        "other models",
                    ))
                    .into());
                }
                let usual = TrainOptions::default();
                let (weight_decay, heads) =
                    (2.0 * lambda, heads.unwrap_or(usual.heads.min(prompts.d.saturating_add(1))));
                let options = TrainOptions { steps, rate, weight_decay, heads, seed, ..usual };
                let show = ShowTrain { task: prompts.task(), p, models: model, options, tests, repeats, seed };
                let teller = Teller::counted();
                show.show(&mut |what, done, all| teller.tell(what, done, all))
            }
            Self::Sweep { d, n, p, lambda, c, drawing, solver, repeats, journal } => {
                let settings = Settings {
                    method: solver.solver,
                    options: solver.options(seed)?,
                    tests: solver.tests,
                    noise: drawing.noise,
                    divisor: drawing.divisor,
                    seed,
                };
                let sweep = Sweep { d, n, p, lambda, c, repeats, settings };
                let signals = stop_on_signal("finished runs are kept")?;
                let teller = Teller::counted();
                let hear = |done: Done| {
                    if done.kept > 0 && done.runs == done.kept {
                        teller.say(&format!("{} of {} runs are in {}", done.kept, done.all, journal.display()));
                    }
                    teller.tell("runs", done.runs, done.all);
                };
                let shown =
                    regard_theory::show::sweep::show(&sweep, Some(&journal), &|| signals.stop.is_asked(), &hear);
                let shown = shown.map_err(IclFailure)?;
                if shown.is_none() {
                    tell!("stopped; the same command goes on");
                    signals.check()?;
                }
                return Ok(shown);
            }
            Self::Landscape { prompts, p, lambda, reach, points } => {
                staged(|tell| ShowLandscape { task: prompts.task(), p, lambda, reach, points, seed }.show(tell))
            }
            Self::Spectrum { prompts, p, bins } => {
                staged(|tell| ShowSpectrum { task: prompts.task(), p, bins, seed }.show(tell))
            }
        };
        Ok(Some(shown.map_err(IclFailure)?))
    }
}

/// Says what is done now, stage by stage.
fn staged(show: impl FnOnce(&mut dyn FnMut(&str)) -> Result<Shown, TheoryError>) -> Result<Shown, TheoryError> {
    let teller = Teller::new("{spinner} {msg}");
    show(&mut |what| teller.tell(what, 0, 0))
}

/// Tells how far the work is: live on a terminal, else a line now and then.
struct Teller {
    bar: Option<ProgressBar>,
    last: Mutex<Instant>,
}

impl Teller {
    /// Between lines where there is no terminal.
    const PAUSE: Duration = Duration::from_secs(10);

    fn new(template: &str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar());
            let bar = ProgressBar::new(0).with_style(style);
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Self { bar, last: Mutex::new(Instant::now()) }
    }

    fn counted() -> Self {
        Self::new("{bar:32} {pos}/{len} {msg}  {eta} left")
    }

    /// A line that stays.
    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => tell!("{text}"),
        }
    }

    /// Tells how far a work is; one that counts nothing has an `all` of 0.
    fn tell(&self, what: &str, done: usize, all: usize) {
        match &self.bar {
            Some(bar) => {
                bar.set_length(all as u64);
                bar.set_position(done as u64);
                bar.set_message(what.to_string());
            }
            None => {
                let mut last = self.last.lock().expect("nothing panics while it tells");
                if last.elapsed() >= Self::PAUSE {
                    *last = Instant::now();
                    let count = if all > 0 { format!("{done}/{all} ") } else { String::new() };
                    tell!("{count}{what}");
                }
            }
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
