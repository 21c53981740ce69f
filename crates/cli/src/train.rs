//! `regard train`: trains a model on a data file or on built-in data and writes a model folder.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::{Args, ValueEnum};
use regard_ops::Precision;
use regard_system::Ranks;
use regard_tasks::task::{Prediction, Sample};
use regard_tasks::train::{Event, Observer, Origin};
use regard_tasks::{Finished, Kind, Request, Watch};
use serde_json::json;

use crate::failure::failure;
use crate::print::{print, tell};
use crate::progress::Progress;
use crate::ranks;
use crate::signal::stop_on_signal;
use crate::value::{from_one, from_zero, number, take_negatives, task};
use crate::watch::Watched;

const EXAMPLES: &str = "\
Examples:
  regard train translate                              learn from built-in English-French sentences
  regard train tag --data en_ewt-ud --out runs/tags   learn from your data, into a folder of your choice
  regard train tag --set model.position=rope          change a setting; --print-config lists them all
  regard train tag --resume --out runs/tags           continue after Ctrl-C, a crash or --minutes";

/// The arguments of `regard train`.
#[derive(Args)]
#[command(mut_args(take_negatives), after_help = EXAMPLES)]
pub struct Train {
    /// The task to train for
    #[arg(value_name = "TASK", value_parser = task())]
    task: &'static dyn Kind,
    /// A TOML file with settings that replace the task's defaults (see --print-config)
    #[arg(long, value_name = "F.toml")]
    config: Option<PathBuf>,
    /// A data file, or a folder with train.*, dev.* (or val.*) and test.*; built-in data by default
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// The model folder to write; by default the first free one of runs/TASK, runs/TASK-2, …; with --resume the newest
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Change one setting, such as model.position=rope; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Number of training steps; by default as in the settings (train.steps or train.epochs)
    #[arg(long, value_name = "N", value_parser = from_one::<u64>)]
    steps: Option<u64>,
    /// Stop training after M minutes and score the model; --resume continues the run later
    #[arg(long, value_name = "M", value_parser = number)]
    minutes: Option<f64>,
    /// Seed of the initial weights, the order of examples and dropout; 1 unless the settings say otherwise
    #[arg(long, value_name = "N", value_parser = from_zero::<u64>)]
    seed: Option<u64>,
    /// Operands of large matrix products; bf16 is faster and needs a processor with AVX-512 BF16. All else is f32
    #[arg(long, value_name = "TYPE", value_enum)]
    precision: Option<PrecisionType>,
    /// Continue the run in the folder from its last checkpoint
    #[arg(long)]
    resume: bool,
    /// Resume even if the result cannot have the same bits, for example with another --threads
    #[arg(long, requires = "resume")]
    force: bool,
    /// Show the run in the inspector, a page at a free port of this machine, and write what it shows into the run's folder: maps of
    /// an example at each evaluation. The page can stop the run as Ctrl-C does
    #[arg(long)]
    watch: bool,
    /// Print one JSON document per evaluation instead of text
    #[arg(long)]
    json: bool,
    /// Print the task's settings, with defaults and comments, and exit
    #[arg(long, conflicts_with_all = ["resume", "json", "watch"])]
    print_config: bool,
}

/// The values of `--precision`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PrecisionType {
    F32,
    Bf16,
}

impl From<PrecisionType> for Precision {
    fn from(precision: PrecisionType) -> Self {
        match precision {
            PrecisionType::F32 => Precision::F32,
            PrecisionType::Bf16 => Precision::Bf16,
        }
    }
}

impl Train {
    pub fn run(self) -> Result<()> {
        if self.print_config {
            return print(self.task.config());
        }
        ranks::run(|ranks| self.train(ranks))
    }

    fn train(self, ranks: &Ranks) -> Result<()> {
        let signals = stop_on_signal("the training so far will be saved", ranks)?;
        let request = Request {
            config: self.config,
            sets: self.sets,
            data: self.data,
            out: self.out,
            steps: self.steps,
            minutes: self.minutes,
            seed: self.seed,
            precision: self.precision.map(Into::into),
            force: self.force,
            watch: if self.watch { Watch::On } else { Watch::Off },
            ranks: ranks.clone(),
            ..Request::default()
        };
        let from = if self.resume { Origin::Checkpoint } else { Origin::Scratch };
        let mut listener: Box<dyn Observer> = match self.json {
            // Only rank 0 hears of the run.
            _ if !ranks.is_first() => Box::new(()),
            true => Box::new(Documents { ranks: ranks.size() }),
            false => Box::new(Steps {
                progress: Progress::new("step "),
                ranks: ranks.size(),
                all: 0,
                tokens: 0,
                since: Instant::now(),
            }),
        };
        if self.watch {
            listener = Box::new(Watched::new(listener));
        }
        let finished = self.task.train(&request, from, listener.as_mut(), &signals.stop).map_err(failure)?;
        drop(listener);
        match self.json {
            _ if !ranks.is_first() => {}
            true => print(&format!("{}\n", document(&finished)))?,
            false => print(&summary(&finished))?,
        }
        match finished.finished {
            // It finished before it noticed a signal.
            true => Ok(()),
            // Without a signal it was stopped from the inspector, which is no failure.
            false if ranks.is_alone() => signals.check(),
            false => Err(signals.stopped()),
        }
    }
}

fn document(finished: &Finished) -> serde_json::Value {
    json!({
        "finished": finished.finished,
        "out_of_time": finished.out_of_time,
        "task": finished.task,
        "step": finished.step,
        "split": finished.split.to_string(),
        "metrics": finished.scores,
        "seconds": finished.seconds,
        "tokens_per_second": finished.tokens as f64 / finished.seconds.max(1e-9),
        "folder": finished.folder,
    })
}

/// Formats an example with the model's prediction, marked as right or wrong.
fn shown(sample: &Sample, prediction: &Prediction) -> String {
    let mark = match sample.expected.as_str() {
        "" => "→",
        expected if expected == prediction.output => "✓",
        // Predicted numbers are close or far, not right or wrong.
        _ if prediction.more.contains_key("value") || prediction.more.contains_key("values") => "≈",
        _ => "✗",
    };
    let mut text = format!("\n  {}\n  {mark} {}\n", sample.given.brief(), prediction.output);
    if sample.expected != prediction.output && !sample.expected.is_empty() {
        text += &format!("    expected: {}\n", sample.expected);
    }
    text
}

/// Returns the text that is printed at the end of a run.
fn summary(finished: &Finished) -> String {
    let folder = finished.folder.display();
    let rate = finished.tokens as f64 / finished.seconds.max(1e-9);
    if !finished.finished {
        return format!(
            "stopped after step {}; to continue:\n  regard train {} --resume --out {folder}\n",
            finished.step, finished.task
        );
    }
    let mut text = String::new();
    if !finished.seen.is_empty() {
        text += "\nexamples seen in training:\n";
        finished.seen.iter().for_each(|(sample, prediction)| text += &shown(sample, prediction));
        text += "\nexamples never seen:\n";
    }
    finished.samples.iter().for_each(|(sample, prediction)| text += &shown(sample, prediction));
    text += &format!("\n{} split: {}\n", finished.split, scores_text(&finished.scores, ", "));
    if let Some(step) = finished.kept {
        let loss = if finished.kept_by_loss { " and loss" } else { "" };
        text +=
            &format!("kept the weights of step {step}, which had the best {}{loss} on the dev split\n", finished.main);
    }
    text += &format!("{} steps in {:.0} s, {rate:.0} tokens/s\n", finished.step, finished.seconds);
    if finished.out_of_time {
        text += &format!(
            "--minutes were over before the last step; to continue:\n  regard train {} --resume --out {folder}\n",
            finished.task
        );
    }
    text += &format!("\nwrote {folder}; open {folder}/report.html, or try\n");
    let (command, nothing) = if finished.task == "generate" { ("generate", "") } else { ("predict", "…") };
    let first = finished.samples.first();
    let input = first.map_or_else(|| nothing.to_string(), |(sample, _)| sample.given.to_string());
    if first.is_some_and(|(sample, _)| sample.given.brief() != input) {
        // The input is too long for a command.
        let file = "FILE, with an input such as those above in each line";
        return text + &format!("  regard {command} {folder} --input {file}\n");
    }
    text += &format!("  regard {command} {folder} {input:?}\n");
    if finished.is_seen {
        text += &format!("  regard look {folder} {input:?} --out look.html\n");
    }
    text
}

/// Formats scores with their names, in one line with `between` between two.
pub fn scores_text<'a>(scores: impl IntoIterator<Item = (&'a String, &'a f64)>, between: &str) -> String {
    let scores = scores.into_iter().map(|(name, value)| format!("{name} {}", regard_figures::number(*value, 4)));
    scores.collect::<Vec<_>>().join(between)
}

fn opening(event: &Event, ranks: usize) -> Option<String> {
    let Event::Started { task, parameters, step, steps, folder } = event else { return None };
    let from = if *step > 0 { format!(" from step {step}") } else { String::new() };
    let threads = match (ranks, rayon::current_num_threads()) {
        (1, threads) => format!("{threads} threads"),
        (ranks, 1) => format!("{ranks} processes of 1 thread"),
        (ranks, threads) => format!("{ranks} processes of {threads} threads"),
    };
    Some(format!(
        "{task}: {parameters} parameters, {steps} steps{from}, {threads}; writes {}; Ctrl-C saves and stops",
        folder.display()
    ))
}

/// Shows the progress of a run to a person.
struct Steps {
    progress: Progress,
    /// Number of processes that train together.
    ranks: usize,
    /// Number of steps of the whole run.
    all: u64,
    /// Number of tokens since the last evaluation.
    tokens: usize,
    /// Time of the last evaluation.
    since: Instant,
}

impl Observer for Steps {
    fn hear(&mut self, event: &Event) {
        match event {
            Event::Started { step, steps, .. } => {
                self.progress.say(opening(event, self.ranks).unwrap_or_default());
                self.progress.set(*step, *steps, "");
                (self.all, self.since) = (*steps, Instant::now());
            }
            Event::Step { step, loss, tokens, .. } => {
                self.tokens += tokens;
                let rate = self.tokens as f64 / self.since.elapsed().as_secs_f64().max(1e-9);
                self.progress.set(*step, self.all, format_args!("loss {loss:.3}  {rate:.0} tokens/s"));
            }
            Event::Evaluated { step, loss, scores, main, best } => {
                let mark = if *best { format!("  best {main} so far") } else { String::new() };
                let scores = scores_text(scores, "  ");
                self.progress.say(format_args!("step {step}/{}  train loss {loss:.3}  dev {scores}{mark}", self.all));
                (self.tokens, self.since) = (0, Instant::now());
            }
            Event::Note(text) => self.progress.say(text),
            Event::Warning(text) => self.progress.say(format_args!("warning: {text}")),
            Event::Doing(text) => self.progress.stage(text),
            Event::Progress { what, done, all } => self.progress.part(what, *done, *all),
        }
    }
}

/// Prints one JSON document per evaluation on standard output, and notes and warnings on standard error.
struct Documents {
    /// Number of processes that train together.
    ranks: usize,
}

impl Observer for Documents {
    fn hear(&mut self, event: &Event) {
        match event {
            Event::Evaluated { step, loss, scores, best, .. } => {
                let line = json!({
                    "finished": false, "step": step, "split": "dev", "loss": loss, "metrics": scores, "best": best,
                });
                // A closed pipe does not stop the run.
                let _ = print(&format!("{line}\n"));
            }
            Event::Started { .. } => tell!("{}", opening(event, self.ranks).unwrap_or_default()),
            Event::Note(text) => tell!("{text}"),
            Event::Warning(text) => tell!("warning: {text}"),
            Event::Step { .. } | Event::Doing(_) | Event::Progress { .. } => {}
        }
    }
}
