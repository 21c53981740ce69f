//! `regard show`: a mechanism by numbers and as a picture.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use miette::{IntoDiagnostic, Result, WrapErr};
use regard_inspect::show::attention::Attention;
use regard_inspect::show::equivariance::Equivariance;
use regard_inspect::show::identity::Identity;
use regard_inspect::show::masks::Masks;
use regard_inspect::show::position::Position;
use regard_inspect::show::scaling::Scaling;
use regard_inspect::show::{ShowError, Shown};
use regard_ops::Mask;

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
    /// How positions look: each kind as an image, with what is left of it over a distance
    Position {
        /// Positions
        #[arg(long, value_name = "N", default_value_t = Position::default().length)]
        length: usize,
        /// Features of a token
        #[arg(long, value_name = "D", default_value_t = Position::default().d_model)]
        d_model: usize,
        /// Heads of an attention
        #[arg(long, value_name = "N", default_value_t = Position::default().n_heads)]
        n_heads: usize,
        /// One kind in detail: none, sinusoidal, learned, relative, rope, alibi
        #[arg(long, value_name = "NAME")]
        kind: Option<String>,
        /// How far the rotation of the sinusoids moves them
        #[arg(long, value_name = "K", default_value_t = Position::default().shift)]
        shift: usize,
    },
    /// Attention worked out with small numbers, step by step
    Attention {
        /// The tokens; `I saw a saw` if none are given
        #[arg(value_name = "WORD")]
        words: Vec<String>,
        /// Which tokens a token sees
        #[arg(long, value_enum, default_value_t = Sight::Full)]
        mask: Sight,
    },
    /// All masks and biases: who may see whom
    Masks {
        /// Tokens of the sequence
        #[arg(long, value_name = "N", default_value_t = Masks::default().length)]
        length: usize,
        /// Of the windows: keys before
        #[arg(long, value_name = "N", default_value_t = Masks::default().left)]
        left: usize,
        /// Of the window: keys after
        #[arg(long, value_name = "N", default_value_t = Masks::default().right)]
        right: usize,
    },
    /// When attention changes nothing: large, nearly orthogonal tokens with Q = K = V = X
    Identity {
        /// Tokens of the sequence
        #[arg(long, value_name = "N", default_value_t = Identity::default().tokens)]
        tokens: usize,
        /// Numbers of features, each a curve
        #[arg(long, value_name = "D,D,…", value_delimiter = ',', default_values_t = Identity::default().d)]
        d: Vec<usize>,
    },
    /// Whether attention sees the order of its tokens, without and with positions
    Equivariance {
        /// Tokens of the sequence
        #[arg(long, value_name = "N", default_value_t = Equivariance::default().tokens)]
        tokens: usize,
        /// Features of a token
        #[arg(long, value_name = "D", default_value_t = Equivariance::default().d_model)]
        d_model: usize,
        /// Heads
        #[arg(long, value_name = "N", default_value_t = Equivariance::default().n_heads)]
        n_heads: usize,
        /// The positions drawn beside none: sinusoidal, learned, relative, rope, alibi
        #[arg(long, value_name = "NAME", default_value_t = Equivariance::default().kind)]
        kind: String,
    },
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

/// The masks of the worked example.
#[derive(Clone, Copy, ValueEnum)]
enum Sight {
    /// All tokens
    Full,
    /// Itself and those before
    Causal,
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
            Mechanism::Position { length, d_model, n_heads, kind, shift } => {
                Position { length, d_model, n_heads, kind, shift, seed }.show()
            }
            Mechanism::Attention { words, mask } => {
                let mask = match mask {
                    Sight::Full => Mask::Full,
                    Sight::Causal => Mask::Causal,
                };
                let given: Vec<String> =
                    words.iter().flat_map(|word| word.split_whitespace()).map(String::from).collect();
                let words = if words.is_empty() { Attention::default().words } else { given };
                Attention { words, mask, seed }.show()
            }
            Mechanism::Masks { length, left, right } => Masks { length, left, right }.show(),
            Mechanism::Identity { tokens, d } => Identity { tokens, d, seed }.show(),
            Mechanism::Equivariance { tokens, d_model, n_heads, kind } => {
                Equivariance { tokens, d_model, n_heads, kind, seed }.show()
            }
            Mechanism::Scaling { largest, keys } => Scaling { largest, keys, seed, ..Scaling::default() }.show(),
        }
    }
}
