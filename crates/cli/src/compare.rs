//! `regard compare`: trains variants of one task and shows them side by side.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use regard_system::Ranks;
use regard_tasks::compare::{Comparison, Document, Entry, Outcome, Progress, Vary, compare};
use regard_tasks::train::Event;
use regard_tasks::{Kind, Request, TaskError};
use serde_json::json;

use crate::failure::failure;
use crate::print::print;
use crate::progress::Progress as Bar;
use crate::ranks;
use crate::signal::{Signals, stop_on_signal};
use crate::train::scores_text;
use crate::value::{from_one, from_zero, take_negatives, task};

const EXAMPLES: &str = "\
Examples:
  regard compare tag --vary model.position=none,rope,alibi --seeds 3
  regard compare translate --vary model.kind=transformer,lstm --vary model.n_layers=1,2";

/// The arguments of `regard compare`.
#[derive(Args)]
#[command(mut_args(take_negatives), after_help = EXAMPLES)]
pub struct Compare {
    /// The task to train for
    #[arg(value_name = "TASK", value_parser = task())]
    task: &'static dyn Kind,
    /// A setting and the values to compare; repeat it to train all combinations
    #[arg(long, value_name = "KEY=A,B,C", required = true)]
    vary: Vec<String>,
    /// Number of runs of each variant, each with its own seed; two or more give standard deviations
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = from_one::<u64>)]
    seeds: u64,
    /// First seed; 1 unless the settings say otherwise
    #[arg(long, value_name = "N", value_parser = from_zero::<u64>)]
    seed: Option<u64>,
    /// A TOML file with settings that replace the task's defaults (see `regard train TASK --print-config`)
    #[arg(long, value_name = "F.toml")]
    config: Option<PathBuf>,
    /// A data file, or a folder with train.*, dev.* (or val.*) and test.*; built-in data by default
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// The folder to write, with a model folder for each run; runs/compare-TASK by default
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Change one setting of all variants that have it, such as model.d_model=64; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Number of training steps of each run; by default as in the settings (train.steps or train.epochs)
    #[arg(long, value_name = "N", value_parser = from_one::<u64>)]
    steps: Option<u64>,
    /// Resume runs even if their results cannot have the same bits, for example with another --threads
    #[arg(long)]
    force: bool,
    /// Print one JSON document instead of the table
    #[arg(long)]
    json: bool,
}

impl Compare {
    /// Trains the runs that have not finished yet, and prints the table.
    pub fn run(self) -> Result<()> {
        let mut vary: Vec<Vary> = Vec::new();
        for text in &self.vary {
            let one = Vary::parse(text).map_err(failure)?;
            if vary.iter().any(|known| known.key == one.key) {
                let problem = format!("{} is given twice; name all its values in one --vary", one.key);
                return Err(failure(TaskError::Settings { place: format!("--vary {text}"), problem }));
            }
            vary.push(one);
        }
        let positions = vary.iter().any(|one| one.key == "model.position");
        ranks::run(|ranks| self.compare(vary, positions, ranks))
    }

    fn compare(self, vary: Vec<Vary>, positions: bool, ranks: &Ranks) -> Result<()> {
        let comparison = Comparison {
            request: Request {
                config: self.config,
                sets: self.sets,
                data: self.data,
                out: self.out,
                steps: self.steps,
                seed: self.seed,
                force: self.force,
                ranks: ranks.clone(),
                ..Request::default()
            },
            vary,
            seeds: self.seeds,
        };
        let signals = stop_on_signal("the training so far will be saved", ranks)?;
        let mut teller = Teller { progress: Bar::new(""), run: String::new(), known: false, steps: 0 };
        let mut hear = |progress: &Progress| {
            if ranks.is_first() {
                teller.hear(progress);
            }
        };
        let compared = compare(self.task, &comparison, &mut hear, &signals.stop).map_err(failure)?;
        drop(teller);
        if !ranks.is_first() {
            return ended(&compared.document, &signals);
        }
        let folder = compared.folder.display();
        if self.json {
            let mut document = serde_json::to_value(&compared.document)?;
            document["folder"] = json!(compared.folder);
            print(&format!("{document}\n"))?;
            return ended(&compared.document, &signals);
        }
        let mut text = compared.document.text();
        if !compared.document.finished {
            text += "stopped; run the same command again to continue\n";
        } else if self.seeds == 1 {
            text += "one run of each variant; --seeds 3 adds two more of each and shows deviations\n";
        }
        let settings = self.task.configured(&Request::default()).map_err(failure)?.config;
        let longer = ["longest", "evaluate_block"].into_iter().find(|&key| settings["data"].get(key).is_some());
        if let Some(key) = longer.filter(|_| positions && !text.contains("_longer")) {
            text += &format!("to score inputs longer than those in training, add --set data.{key}=N\n");
        }
        text += &format!("wrote {folder}; open {folder}/compare.html\n");
        print(&text)?;
        ended(&compared.document, &signals)
    }
}

/// Fails if the comparison was stopped or if a run failed, although the table has been printed.
fn ended(document: &Document, signals: &Signals) -> Result<()> {
    if !document.finished {
        return Err(signals.stopped());
    }
    let failed = document.runs.iter().filter(|entry| matches!(entry.outcome, Outcome::Failed { .. })).count();
    anyhow::ensure!(failed == 0, "{failed} of {} runs failed", document.runs.len());
    Ok(())
}

/// Shows the progress of a comparison.
struct Teller {
    progress: Bar,
    /// Number and name of the current run, such as `run 3/8  lstm, seed 1`.
    run: String,
    /// Whether the current run had finished in an earlier call.
    known: bool,
    steps: u64,
}

impl Teller {
    fn hear(&mut self, progress: &Progress) {
        match progress {
            Progress::Run { number, count, entry } => {
                self.run = format!("run {number}/{count}  {}, seed {}", entry.name(), entry.seed);
                self.known = matches!(entry.outcome, Outcome::Finished(_));
                self.progress.restart(format!("{}  step ", self.run));
            }
            Progress::Event(Event::Started { step, steps, .. }) => {
                self.steps = *steps;
                self.progress.set(*step, *steps, "");
            }
            Progress::Event(Event::Step { step, loss, .. }) => {
                self.progress.set(*step, self.steps, format_args!("loss {loss:.3}"));
            }
            Progress::Event(Event::Warning(text)) => {
                self.progress.say(format_args!("{}  warning: {text}", self.run));
            }
            Progress::Event(Event::Progress { what, done, all }) => self.progress.part(what, *done, *all),
            Progress::Event(Event::Evaluated { .. } | Event::Doing(_) | Event::Note(_)) => {}
            Progress::Ended { entry } => self.ended(entry),
        }
    }

    fn ended(&self, entry: &Entry) {
        let what = match &entry.outcome {
            Outcome::Finished(measured) => {
                let scores: Vec<(&String, &f64)> =
                    measured.metrics.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))).collect();
                let known = if self.known { "trained before  " } else { "" };
                format!("{known}{}  {:.0} s", scores_text(scores, "  "), measured.seconds)
            }
            Outcome::Stopped => "stopped".to_string(),
            Outcome::Failed { error } => format!("failed: {error}"),
        };
        self.progress.say(format_args!("{}  {what}", self.run));
    }
}
