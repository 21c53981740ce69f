//! `regard`: the commands.
#![forbid(unsafe_code)]

mod bench;

use clap::{Parser, Subcommand};
use miette::{IntoDiagnostic, Result, WrapErr};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A self-attention workbench: train, look inside and serve attention models on the CPU you have.
#[derive(Parser)]
#[command(name = "regard", version, about, arg_required_else_help = true)]
struct Cli {
    /// Threads to compute with; all cores by default
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure the speed of the kernels or of a training step
    Bench(bench::Bench),
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    regard_kernels::Isa::from_environment().into_diagnostic().wrap_err("REGARD_ISA")?;
    let threads = cli.threads.map_or(0, usize::from);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().into_diagnostic()?;
    // Inside the pool: a hand-over from outside would double the time of a tiny training step.
    pool.install(|| match cli.command {
        Command::Bench(bench) => bench.run(),
    })
}
