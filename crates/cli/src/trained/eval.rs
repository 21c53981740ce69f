//! `regard eval`: scores a trained model.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use regard_data::Split;
use regard_nn::Pass;
use regard_tasks::Examples;
use regard_tasks::task::Evaluation;
use serde_json::{Value, json};

use super::{Weights, Without, dev_or, opened_as};
use crate::failure::failure;
use crate::print::print;
use crate::progress::Progress;

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
    #[command(flatten)]
    weights: Weights,
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

impl Eval {
    pub fn run(self) -> Result<()> {
        let model = opened_as(&self.model, self.weights.weights)?;
        let split = self.split.as_deref().map(str::parse::<Split>).transpose()?;
        let own = split.map_or(Examples::HeldOut, Examples::Split);
        let examples = self.data.as_deref().map_or(own, Examples::File);
        let ablation = self.without.ablation(model.as_ref(), dev_or(self.data.as_deref()))?;
        let progress = Progress::new("");
        let tell = |done, all| progress.part("scoring", done, all);
        let pass = Pass::inference().with_progress(&tell);
        let whole = model.evaluate(examples, &pass).map_err(failure)?;
        let less = match &ablation {
            Some(ablation) => Some(model.evaluate(examples, &pass.with_ablation(ablation)).map_err(failure)?),
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
