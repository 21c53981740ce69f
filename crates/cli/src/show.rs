//! `regard show`: a mechanism by numbers and as a picture.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use miette::{IntoDiagnostic, Result, WrapErr};
use regard_inspect::show::attention::Attention;
use regard_inspect::show::complexity::{Complexity, Progress, Timed};
use regard_inspect::show::convolution::Convolution;
use regard_inspect::show::dense::Dense;
use regard_inspect::show::equivariance::Equivariance;
use regard_inspect::show::heads::Heads;
use regard_inspect::show::identity::Identity;
use regard_inspect::show::lstm::{Lstm, Weights};
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
    /// Multi-head attention as a sum over its heads, and the largest difference
    Heads {
        /// Tokens of the sequence
        #[arg(long, value_name = "N", default_value_t = Heads::default().tokens)]
        tokens: usize,
        /// Features of a token
        #[arg(long, value_name = "D", default_value_t = Heads::default().d_model)]
        d_model: usize,
        /// Heads
        #[arg(long, value_name = "H", default_value_t = Heads::default().n_heads)]
        n_heads: usize,
    },
    /// A convolution imitated by attention heads, and the difference against their sharpness
    Convolution {
        /// Pixels of a side
        #[arg(long, value_name = "N", default_value_t = Convolution::default().size)]
        size: usize,
        /// Pixels of a side of the kernel: 1, 3 or 5
        #[arg(long, value_name = "K", default_value_t = Convolution::default().kernel)]
        kernel: usize,
        /// Channels of the random kernel
        #[arg(long, value_name = "C", default_value_t = Convolution::default().channels)]
        channels: usize,
        /// Sharpness of the heads, rising, joined by commas
        #[arg(long, value_name = "α,…", value_delimiter = ',', default_values_t = Convolution::default().sharpness)]
        sharpness: Vec<f64>,
    },
    /// Attention as one dense layer on the flattened tokens: its matrix, and weights counted side by side
    Dense {
        /// Tokens of the sequence
        #[arg(long, value_name = "N", default_value_t = Dense::default().tokens)]
        tokens: usize,
        /// Features of a token
        #[arg(long, value_name = "D", default_value_t = Dense::default().d_model)]
        d_model: usize,
    },
    /// The gates of an LSTM over time, with weights set by hand or random
    Lstm {
        /// Steps of the sequence
        #[arg(long, value_name = "N", default_value_t = Lstm::default().steps)]
        steps: usize,
        /// Where the weights come from
        #[arg(long, value_name = "FROM", value_enum, default_value = "by-hand")]
        weights: WeightsFrom,
        /// The unit whose numbers are printed, from 1
        #[arg(long, value_name = "U", default_value_t = Lstm::default().unit)]
        unit: usize,
    },
    /// What self-attention, CNN, RNN, truncated and linear attention cost, by formula and measured
    Complexity {
        /// The shortest sequence
        #[arg(long, value_name = "N", default_value_t = Complexity::default().from)]
        from: usize,
        /// The longest sequence; lengths are doubled up to it
        #[arg(long, value_name = "N", default_value_t = Complexity::default().to)]
        to: usize,
        /// Features of a token
        #[arg(long, value_name = "D", default_value_t = Complexity::default().d_model)]
        d_model: usize,
        /// Tokens that a convolution sees
        #[arg(long, value_name = "K", default_value_t = Complexity::default().kernel)]
        kernel: usize,
        /// Keys that a query of truncated attention sees
        #[arg(long, value_name = "W", default_value_t = Complexity::default().window)]
        window: usize,
        /// Calls at each length, at least; the fastest counts
        #[arg(long, value_name = "N", default_value_t = Complexity::default().repeats)]
        repeats: usize,
        /// Time the backward pass too
        #[arg(long)]
        backward: bool,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum WeightsFrom {
    /// Each unit does one thing
    ByHand,
    /// Drawn from the seed
    Random,
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
            Mechanism::Heads { tokens, d_model, n_heads } => Heads { tokens, d_model, n_heads, seed }.show(),
            Mechanism::Convolution { size, kernel, channels, sharpness } => {
                Convolution { size, kernel, channels, sharpness, seed }.show()
            }
            Mechanism::Dense { tokens, d_model } => Dense { tokens, d_model, seed }.show(),
            Mechanism::Lstm { steps, weights, unit } => {
                let weights = match weights {
                    WeightsFrom::ByHand => Weights::ByHand,
                    WeightsFrom::Random => Weights::Random,
                };
                Lstm { steps, weights, unit, seed }.show()
            }
            Mechanism::Complexity { from, to, d_model, kernel, window, repeats, backward } => {
                let timed = if backward { Timed::Both } else { Timed::Forward };
                let complexity = Complexity { from, to, d_model, kernel, window, repeats, timed, seed };
                with_bar(|progress| complexity.show(progress))
            }
        }
    }
}

/// Runs `show` with a bar on standard error, where that is a terminal.
fn with_bar(show: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<Shown, ShowError>) -> Result<Shown, ShowError> {
    let style = ProgressStyle::with_template("{bar:32} {pos}/{len}  {msg}").unwrap_or(ProgressStyle::default_bar());
    let bar = ProgressBar::new(0).with_style(style);
    let shown = show(&mut |progress| {
        bar.set_length(progress.total as u64);
        bar.set_position(progress.done as u64);
        bar.set_message(format!("{}, {} tokens", progress.layer.name(), progress.length));
    });
    bar.finish_and_clear();
    shown
}
