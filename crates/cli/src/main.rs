//! `regard`: the commands.
#![deny(unsafe_code)]
#![deny(clippy::print_stderr, reason = "a line that cannot be printed must not end a run: tell!")]

mod bench;
mod compare;
mod count;
mod data;
mod failure;
mod icl;
mod print;
mod shell;
mod show;
mod signal;
mod train;
mod trained;
mod value;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::print::{print, tell};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Lets freed memory stay for 10 s before it goes back to the system, unless `MIMALLOC_PURGE_DELAY` says otherwise.
///
/// A training step frees what the next one needs. After 1 s, mimalloc's default, 6 % of the time went into fresh pages.
#[allow(unsafe_code, reason = "the allocator's options are a C function")]
fn keep_memory_for_the_next_step() {
    /// `mi_option_purge_delay`, which the bindings leave out between 14 and 16.
    const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
    if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
        // SAFETY: it stores a number, and no other thread runs yet.
        unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, 10_000) };
    }
}

/// A self-attention workbench: train, look inside and serve attention models on the CPU you have.
#[derive(Parser)]
#[command(name = "regard", version, about)]
struct Cli {
    /// Threads to compute with; all cores by default
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    #[command(subcommand)]
    command: Option<Command>,
}

/// What `regard` says when it is given nothing to do.
const FIRST_SCREEN: &str = "\
Regard: train, look inside and serve attention models on the CPU you have.

  train, compare                   from your data file, or built-in data, to a model folder with a report
  predict, eval, generate          what a trained model answers, and how good it is
  look, heads                      where it looks, and which of its heads matter
  show, count, icl                 how attention works, what a model costs, why it learns in context

  regard train translate           try this: English to French, learnt in a minute or two
  regard show attention            or this: attention worked out with small numbers
  regard count --preset gpt2       or this: what GPT-2 is made of
`regard help` lists all commands, `regard help train` explains one.
";

#[derive(Subcommand)]
enum Command {
    /// Train a model for a task, on a data file or on built-in data
    Train(train::Train),
    /// Score a trained model
    Eval(trained::Eval),
    /// What a trained model makes of inputs
    Predict(trained::Predict),
    /// Where a trained model looks: the attention maps of an input as a page, a picture or JSON
    Look(trained::Look),
    /// What each attention head of a trained model is worth and what it looks at
    Heads(trained::Heads),
    /// Train a task in several variants and show them side by side
    Compare(compare::Compare),
    /// Text from a trained language model
    Generate(trained::Generate),
    /// The built-in data as files
    Data(data::Data),
    /// Measure the speed of the kernels, of a training step or of the solver of in-context learning
    Bench(bench::Bench),
    /// Show what a mechanism of attention does, by numbers and as a picture
    Show(show::Show),
    /// Count the parameters, operations and memory of a model from its description, without building it
    Count(count::Count),
    /// In-context learning as a spin glass: solve it, sweep it, look at it
    Icl(icl::Icl),
    /// Print the completions of a shell, to be sourced or saved where the shell looks for them
    Completions(shell::Completions),
    /// Print the manual page of a command, or write those of all commands into a folder
    Man(shell::Manual),
}

fn main() -> ExitCode {
    keep_memory_for_the_next_step();
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<print::ReaderGone>() => ExitCode::SUCCESS,
        Err(error) if error.is::<signal::Stopped>() => {
            ExitCode::from(error.downcast_ref::<signal::Stopped>().map_or(1, |stopped| stopped.0))
        }
        Err(error) => {
            // In a line, with every cause, and in the words of clap.
            tell!("error: {error:#}");
            // 2 is wrong use, as for the flags that clap refuses.
            let wrong_use = error.is::<bench::UnknownWork>()
                || error.is::<WrongIsa>()
                || error.is::<shell::UnknownCommand>()
                || error.downcast_ref::<failure::Failure>().is_some_and(|failure| failure.0.is_wrong_use())
                || error.is::<show::WrongUse>()
                || error.downcast_ref::<icl::IclFailure>().is_some_and(icl::IclFailure::is_wrong_use)
                || error.downcast_ref::<count::CountFailure>().is_some_and(count::CountFailure::is_wrong_use);
            ExitCode::from(if wrong_use { 2 } else { 1 })
        }
    }
}

/// `REGARD_ISA` names an instruction set that is not there.
#[derive(Debug, thiserror::Error)]
#[error("REGARD_ISA: {0}")]
struct WrongIsa(regard_kernels::IsaUnavailable);

fn run(cli: Cli) -> Result<()> {
    let Some(command) = cli.command else { return print(FIRST_SCREEN) };
    regard_kernels::Isa::from_environment().map_err(WrongIsa)?;
    let threads = cli.threads.map_or(0, usize::from);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    // Inside the pool: a hand-over from outside would double the time of a tiny training step.
    pool.install(|| match command {
        Command::Train(train) => train.run(),
        Command::Eval(eval) => eval.run(),
        Command::Predict(predict) => predict.run(),
        Command::Look(look) => look.run(),
        Command::Heads(heads) => heads.run(),
        Command::Compare(compare) => compare.run(),
        Command::Generate(generate) => generate.run(),
        Command::Data(data) => data.run(),
        Command::Bench(bench) => bench.run(),
        Command::Show(show) => show.run(),
        Command::Count(count) => count.run(),
        Command::Icl(icl) => icl.run(),
        Command::Completions(completions) => completions.run(),
        Command::Man(manual) => manual.run(),
    })
}
