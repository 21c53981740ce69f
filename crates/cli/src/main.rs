//! `regard`, the command-line program.
#![deny(unsafe_code)]
#![deny(clippy::print_stderr, reason = "`eprintln!` panics if standard error is closed or full; use `tell!`")]

mod bench;
mod compare;
mod count;
mod data;
mod failure;
mod icl;
mod print;
mod progress;
mod ranks;
mod serve;
mod shell;
mod show;
mod signal;
mod train;
mod trained;
mod value;
mod watch;

use std::process::ExitCode;

use anyhow::{Error, Result};
use clap::{Parser, Subcommand};

use crate::failure::{Said, exit_code, wrong_use};
use crate::print::{print, tell};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Keeps freed memory for 10 s before it goes back to the system, unless `MIMALLOC_PURGE_DELAY` is set.
///
/// A training step reuses what the previous one freed. With mimalloc's default of 1 s, 6 % of the time went into fresh pages.
#[allow(unsafe_code, reason = "the allocator's options are a C function")]
fn keep_memory_for_the_next_step() {
    /// The number of `mi_option_purge_delay`, which the bindings skip between 14 and 16.
    const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
    if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
        // SAFETY: `mi_option_set` only stores a number, and no other thread runs yet.
        unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, 10_000) };
    }
}

/// A self-attention workbench: train, look inside and use attention models on the CPU you have.
#[derive(Parser)]
#[command(name = "regard", version, about)]
struct Cli {
    /// Number of threads to compute with; all cores by default
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    #[command(subcommand)]
    command: Option<Command>,
}

/// The text that `regard` prints when it is called without a command.
const FIRST_SCREEN: &str = "\
Regard: train, look inside and use attention models on the CPU you have.

  train, compare                   train models on your data file or on built-in data
  predict, generate, embed, serve  use a trained model or a published checkpoint, here or over HTTP
  eval, heads, look, dump, verify  see how good a model is, where it looks, which heads matter, and what it computes
  show, count, icl                 see how attention works, what a model costs, why it learns in context

Three commands to try first:
  regard train translate           learn English to French in a minute or two
  regard show attention            work attention out by hand, with small numbers
  regard count --preset gpt2       list what GPT-2 is made of
`regard help` lists all commands, `regard help train` explains one.
";

#[derive(Subcommand)]
enum Command {
    /// Train a model for a task, on your data file or on built-in data
    Train(train::Train),
    /// Score a trained model on its held-out data or on a file of yours
    Eval(trained::Eval),
    /// Print what a trained model predicts for your inputs
    Predict(trained::Predict),
    /// Show where a trained model looks: the attention maps of an input, or its positions, as a web page, a picture or JSON
    Look(trained::Look),
    /// Measure how much each attention head of a trained model matters and what it looks at
    Heads(trained::Heads),
    /// Print the vectors of texts, computed by a checkpoint of transformers or sentence-transformers
    Embed(trained::Embed),
    /// Print logits, hidden states and attention weights of a checkpoint for an input
    Dump(trained::Dump),
    /// Compare the outputs of a checkpoint with reference outputs
    Verify(trained::Verify),
    /// Write a checkpoint as a folder that transformers loads
    Export(trained::Export),
    /// Train several variants of a model and show their scores side by side
    Compare(compare::Compare),
    /// Write text with a trained language model
    Generate(trained::Generate),
    /// Answer requests over HTTP with trained models and published checkpoints
    Serve(serve::Serve),
    /// List built-in data, check a data set for mistakes, or write the built-in data as files
    Data(data::Data),
    /// Measure the speed of the kernels, of a training step or of the in-context-learning solver
    Bench(bench::Bench),
    /// Show how a mechanism of attention works, in numbers and as a picture
    Show(show::Show),
    /// Count the parameters, operations and memory of a model from its description, without building it
    Count(count::Count),
    /// Study in-context learning as a spin glass: solve it, sweep its settings, draw it
    Icl(icl::Icl),
    /// Print a completion script for your shell; load it with `source <(regard completions bash)`
    Completions(shell::Completions),
    /// Print the manual page of a command, or write the pages of all commands into a folder
    Man(shell::Manual),
}

fn main() -> ExitCode {
    keep_memory_for_the_next_step();
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<print::ReaderGone>() => ExitCode::SUCCESS,
        Err(error) => {
            if !error.is::<signal::Stopped>() && !error.is::<Said>() {
                // One line with every cause, after the same prefix as clap's errors.
                tell!("error: {error:#}");
            }
            ExitCode::from(exit_code(&error))
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    let Some(command) = cli.command else { return print(FIRST_SCREEN) };
    regard_kernels::Isa::from_environment().map_err(|error| wrong_use(Error::new(error).context("REGARD_ISA")))?;
    let threads = cli.threads.map_or(0, usize::from);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    // Everything runs inside the pool: entering it from outside would double the time of a tiny training step.
    pool.install(|| match command {
        Command::Train(train) => train.run(),
        Command::Eval(eval) => eval.run(),
        Command::Predict(predict) => predict.run(),
        Command::Look(look) => look.run(),
        Command::Heads(heads) => heads.run(),
        Command::Embed(embed) => embed.run(),
        Command::Dump(dump) => dump.run(),
        Command::Verify(verify) => verify.run(),
        Command::Export(export) => export.run(),
        Command::Compare(compare) => compare.run(),
        Command::Generate(generate) => generate.run(),
        Command::Serve(serve) => serve.run(),
        Command::Data(data) => data.run(),
        Command::Bench(bench) => bench.run(),
        Command::Show(show) => show.run(),
        Command::Count(count) => count.run(),
        Command::Icl(icl) => icl.run(),
        Command::Completions(completions) => completions.run(),
        Command::Man(manual) => manual.run(),
    })
}
