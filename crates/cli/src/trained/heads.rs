//! `regard heads`: measures how much each attention head matters, and what it looks at.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use regard_figures::Figure;
use regard_nn::Pass;
use regard_tasks::heads::Heads as Found;

use super::{dev_or, opened};
use crate::failure::failure;
use crate::print::{print, tell_note};
use crate::progress::Progress;
use crate::value::from_one;

/// The arguments of `regard heads`.
#[derive(Args)]
pub struct Heads {
    /// A model folder written by `regard train`
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Measure on this file instead of the dev split of the model's own data
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Number of examples to score without each head, at most
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = from_one::<usize>)]
    examples: usize,
    /// Write a picture, too: a file ending in .svg, .png or .html
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

impl Heads {
    /// Switches off one head after another, and prints the results.
    pub fn run(self) -> Result<()> {
        if let Some(path) = &self.out {
            Figure::check_path(path).map_err(failure)?;
        }
        let model = opened(&self.model)?;
        let progress = Progress::new("");
        let mut tell = |done: usize, all: usize| progress.set(done as u64, all as u64, "heads");
        let examples = dev_or(self.data.as_deref());
        let found = model.heads(examples, self.examples, &Pass::inference(), &mut tell).map_err(failure)?;
        drop(progress);
        if let Some(path) = &self.out {
            let saved = found.figure().and_then(|figure| figure.save(path));
            tell_note(&saved.map_err(failure)?);
        }
        match self.json {
            true => print(&format!("{}\n", serde_json::to_string(&found)?)),
            false => print(&text(&found)),
        }
    }
}

fn text(found: &Found) -> String {
    let score = regard_figures::number(found.score, 4);
    format!(
        "{}, {} examples: {} {score} with all heads; entropy, distance and pattern are means over {} inputs\n\n{}",
        found.split,
        found.examples,
        found.metric,
        found.watched,
        found.table().to_text()
    )
}
