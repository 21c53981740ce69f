//! `regard generate`: writes text with a language model.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use regard_nn::Pass;
use regard_tasks::decode::SampleOptions;
use regard_tasks::input::Given;
use regard_tasks::task::Prompt;
use serde_json::json;

use super::opened;
use crate::failure::failure;
use crate::print::print;
use crate::value::{from_one, from_zero, number, take_negatives};

/// The arguments of `regard generate`.
#[derive(Args)]
#[command(mut_args(take_negatives))]
pub struct Generate {
    /// A model folder written by `regard train generate`
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// The text to continue; empty by default
    #[arg(value_name = "PROMPT", default_value = "")]
    prompt: String,
    /// Number of tokens to write
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = from_one::<usize>)]
    tokens: usize,
    /// Sampling temperature: below 1 favours likely tokens, above 1 unlikely ones; 0 always takes the likeliest
    #[arg(long, value_name = "T", default_value_t = 0.8, value_parser = number)]
    temperature: f64,
    /// Sample only among the K likeliest tokens; among all by default
    #[arg(long, value_name = "K", value_parser = from_one::<usize>)]
    top_k: Option<usize>,
    /// Sample only among the likeliest tokens that together have probability P; among all by default
    #[arg(long, value_name = "P", value_parser = number)]
    top_p: Option<f64>,
    /// Seed of the sampling
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = from_zero::<u64>)]
    seed: u64,
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

impl Generate {
    pub fn run(self) -> Result<()> {
        let model = opened(&self.model)?;
        let options = SampleOptions {
            temperature: self.temperature as f32,
            top_k: self.top_k,
            top_p: self.top_p.map(|p| p as f32),
            max_len: self.tokens,
            stop: Vec::new(),
        };
        options.validate().map_err(failure)?;
        let mut text = String::new();
        let live = !self.json;
        // The prompt is printed with the first piece, once the model has accepted it.
        let mut prompt = Some(self.prompt.as_str());
        let mut hear = |_: usize, piece: &str| {
            if live {
                let piece = format!("{}{piece}", prompt.take().unwrap_or_default());
                let mut out = std::io::stdout().lock();
                // The last `print` below notices a closed pipe.
                let _ = out.write_all(piece.as_bytes()).and_then(|()| out.flush());
            } else {
                text.push_str(piece);
            }
        };
        let given = (!self.prompt.is_empty()).then(|| Given::argument(&self.prompt, model.input_kind()));
        let input = given.transpose().map_err(failure)?;
        let prompts = [Prompt { input, seed: self.seed }];
        model.generate(&prompts, &options, &Pass::inference(), &mut hear).map_err(failure)?;
        match self.json {
            true => print(&format!("{}\n", json!({ "input": self.prompt, "output": text }))),
            false => print("\n"),
        }
    }
}
