//! `regard show`: a mechanism by numbers and as a picture.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use miette::{IntoDiagnostic, Result, WrapErr};
use regard_inspect::show::scaling::Scaling;
use regard_inspect::show::{ShowError, Shown};

/// The arguments of `regard show`.
#[derive(Args)]
pub struct Show {
    #[command(subcommand)]
    mechanism: Mechanism,
    /// Draw it: a file ending in .svg, .png or .html
    #[arg(long, global = true, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    json: bool,
    /// Selects the random numbers
    #[arg(long, global = true, value_name = "N", default_value_t = 0)]
    seed: u64,
}

#[derive(Subcommand)]
enum Mechanism {
    /// Why scores are divided by √d: variance of q·k and entropy of the softmax against d
    Scaling {
        /// The largest d
        #[arg(long, value_name = "D", default_value_t = Scaling::default().largest)]
        largest: usize,
        /// Keys of each softmax
        #[arg(long, value_name = "N", default_value_t = Scaling::default().keys)]
        keys: usize,
    },
}

/// An option that makes no sense.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[error(transparent)]
pub struct WrongUse(#[from] regard_nn::ConfigError);

impl Show {
    pub fn run(self) -> Result<()> {
        let Self { mechanism, out, json, seed } = self;
        let shown = match mechanism.show(seed) {
            Err(ShowError::Config(error)) => return Err(WrongUse(error).into()),
            shown => shown.into_diagnostic()?,
        };
        if json {
            println!("{}", shown.json);
        } else {
            print!("{}", shown.text);
        }
        if let Some(path) = out {
            shown.figure.save(&path).into_diagnostic().wrap_err("the picture was not written")?;
            eprintln!("wrote {}", path.display());
        }
        Ok(())
    }
}

impl Mechanism {
    fn show(self, seed: u64) -> Result<Shown, ShowError> {
        match self {
            Mechanism::Scaling { largest, keys } => Scaling { largest, keys, seed, ..Scaling::default() }.show(),
        }
    }
}
