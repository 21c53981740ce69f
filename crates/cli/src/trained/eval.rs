//! `regard eval`: scores a trained model.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use indicatif::ProgressBar;
use regard_data::Split;
use regard_nn::Pass;
use regard_tasks::Examples;
use regard_tasks::task::Evaluation;
use serde_json::{Value, json};

use super::{Without, dev_or, opened};
use crate::failure::Failure;
use crate::print::{percent, print, tell};
use crate::train::BETWEEN_LINES;

/// The arguments of `regard eval`.
#[derive(Args)]
pub struct Eval {
    /// A model folder written by `regard train`
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Score all examples of this file instead of the data the model was trained with
    #[arg(long, value_name = "PATH", conflicts_with = "split")]
    data: Option<PathBuf>,
    /// The split of the model's own data to score; by default test, or dev if there is no test split
    #[arg(long, value_name = "SPLIT", value_parser = ["dev", "test"])]
    split: Option<String>,
    #[command(flatten)]
    without: Without,
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

impl Eval {
    pub fn run(self) -> Result<()> {
        let model = opened(&self.model)?;
        let split = self.split.as_deref().map(str::parse::<Split>).transpose()?;
        let own = split.map_or(Examples::HeldOut, Examples::Split);
        let examples = self.data.as_deref().map_or(own, Examples::File);
        let ablation = self.without.ablation(model.as_ref(), dev_or(self.data.as_deref()))?;
        let progress = Scoring::new();
        let tell = |done, all| progress.hear(done, all);
        let pass = Pass::inference().with_progress(&tell);
        let whole = model.evaluate(examples, &pass).map_err(Failure)?;
        let less = match &ablation {
            Some(ablation) => Some(model.evaluate(examples, &pass.with_ablation(ablation)).map_err(Failure)?),
            None => None,
        };
        drop(progress);
        let name = whole.part.clone();
        if self.json {
            let mut document = scored(&whole);
            document["task"] = json!(model.description().task);
            document["split"] = json!(name);
            if let Some(less) = &less {
                document["without"] = scored(less);
            }
            return print(&format!("{document}\n"));
        }
        print(&text(&name, &whole, less.as_ref().map(|less| (self.without.names(), less))))
    }
}

/// Shows the progress of scoring: one changing line on a terminal, a new line every ten seconds in a log.
struct Scoring {
    bar: ProgressBar,
    last: Mutex<Instant>,
}

impl Scoring {
    fn new() -> Self {
        let bar = match std::io::stderr().is_terminal() {
            true => ProgressBar::new_spinner(),
            false => ProgressBar::hidden(),
        };
        Self { bar, last: Mutex::new(Instant::now()) }
    }

    fn hear(&self, done: usize, all: usize) {
        let Ok(mut last) = self.last.lock() else { return };
        let text = percent("scoring", done, all);
        if self.bar.is_hidden() && last.elapsed() >= BETWEEN_LINES {
            tell!("{text}");
            *last = Instant::now();
        }
        self.bar.set_message(text);
        self.bar.tick();
    }
}

impl Drop for Scoring {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn scored(evaluation: &Evaluation) -> Value {
    json!({ "examples": evaluation.examples, "metrics": evaluation.scores })
}

/// Formats the scores, one per line, with a second column for the scores without the parts of `--without`.
fn text(name: &str, whole: &Evaluation, less: Option<(&str, &Evaluation)>) -> String {
    let number = |value: f64| regard_figures::number(value, 4);
    let mut text = format!("{name}: {} examples\n", whole.examples);
    if let Some((names, _)) = less {
        text += &format!("  {:<20} {:>10}  without {names}\n", "", "whole");
    }
    for (metric, value) in &whole.scores {
        text += &match less.and_then(|(_, less)| less.scores.get(metric)) {
            Some(after) => format!("  {metric:<20} {:>10}  {}\n", number(*value), number(*after)),
            None => format!("  {metric:<20} {}\n", number(*value)),
        };
    }
    text
}
