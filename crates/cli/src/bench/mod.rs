//! `regard bench`: measures the speed of Regard; `bench/compare` runs it side by side with PyTorch.

mod checkpoint;
mod gpt;
mod graph;
mod handwriting;
mod icl;
mod image;
mod inference;
mod kernels;
mod speech;
mod train;
mod work;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::failure::wrong_use;
use crate::print::{print, tell};
use crate::trained::WeightType;
use work::{UnknownWork, Work};

/// The arguments of `regard bench`.
#[derive(Args)]
pub struct Bench {
    /// What to measure
    #[arg(value_enum, default_value_t = Subject::Kernels)]
    subject: Subject,
    /// Only benchmarks whose name contains this, or one of any shape, such as attention/causal/2x8x512x64/forward
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Seconds to repeat each benchmark, about; the shortest call counts
    #[arg(long, default_value_t = 1.0, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    seconds: f64,
    /// Number of training steps that `bench train` shows without --only and --json
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Folder of the checkpoint that `bench checkpoint` measures
    #[arg(long, value_name = "FOLDER")]
    model: Option<PathBuf>,
    /// File with one text per line that `bench checkpoint` embeds
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// How the checkpoint's weights are stored
    #[arg(long, value_name = "TYPE", value_enum, default_value_t = WeightType::F32)]
    weights: WeightType,
    /// Print one JSON document on standard output; times still go to standard error
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Subject {
    /// Attention, windows, recurrent layers, embeddings, convolutions, group norm and CTC, forward and backward
    Kernels,
    /// A training step of a GPT, of networks for images, graphs, speech and handwriting
    Train,
    /// Without gradients: a step of decoding, a step of an LSTM and a GRU, evaluation of a GPT and of a graph network
    Infer,
    /// In-context learning: drawing the fields, and the node iteration on them
    Icl,
    /// A published checkpoint, --model: embed, embed/one, prompt/TOKENS, generate/PROMPTxTOKENS, beam/TEXTSxSOURCExTOKENSxBEAMS
    Checkpoint,
}

impl Bench {
    /// Runs the benchmarks and prints the shortest time of each.
    pub fn run(self) -> Result<()> {
        if self.subject == Subject::Train && self.only.is_none() && !self.json {
            return train::show(self.steps);
        }
        if self.subject == Subject::Checkpoint {
            return self.run_checkpoint();
        }
        let works = self.works()?;
        let isa = regard_kernels::Isa::current().name();
        let threads = rayon::current_num_threads();
        tell!("{isa}, {threads} threads, shortest call in about {} s each", self.seconds);
        let mut results = Vec::new();
        for work in works {
            let name = work.name();
            let mut call = work.prepare()?;
            let ours_ms = least_ms(self.seconds, &mut call)?;
            tell!("{name:<44} {ours_ms:>10.3} ms");
            // `bench/compare` measures the peer, PyTorch, and fills in the rest.
            results.push(json!({
                "work": name, "ours_ms": ours_ms, "peak_bytes": peak_bytes(),
                "peer": null, "peer_ms": null, "ratio": null, "goal": null,
            }));
        }
        if self.json {
            print(&format!("{:#}\n", json!({ "isa": isa, "threads": threads, "results": results })))?;
        }
        Ok(())
    }

    fn works(&self) -> Result<Vec<Work>> {
        let all = match self.subject {
            Subject::Kernels => Work::kernels(),
            Subject::Train => Work::training(),
            Subject::Infer => Work::inference(),
            Subject::Icl => Work::icl(),
            Subject::Checkpoint => Vec::new(),
        };
        let Some(only) = &self.only else { return Ok(all) };
        // A complete name is a benchmark of its own, of any shape.
        match only.parse::<Work>() {
            Ok(work) if work.subject() == self.subject => Ok(vec![work]),
            Ok(work) => {
                let value = work.subject().to_possible_value();
                let subject = value.as_ref().map_or("", |value| value.get_name());
                Err(wrong_use(UnknownWork::new(only, &format!("it is measured by `regard bench {subject}`"))))
            }
            Err(unknown) => {
                let chosen: Vec<Work> = all.into_iter().filter(|work| work.name().contains(only.as_str())).collect();
                if chosen.is_empty() { Err(wrong_use(unknown)) } else { Ok(chosen) }
            }
        }
    }
}

/// Returns the shortest time of a call in milliseconds, over at least three calls and about `seconds`.
fn least_ms(seconds: f64, call: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
    call()?;
    let (mut best, begin, mut calls) = (Duration::MAX, Instant::now(), 0);
    while calls < 3 || begin.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        call()?;
        best = best.min(start.elapsed());
        calls += 1;
    }
    Ok(best.as_secs_f64() * 1e3)
}

/// Returns the peak memory of this process in bytes, or `None` if the system does not report it.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds from 0 to 3600".into()),
    }
}
