//! `regard show`: shows a mechanism in numbers and as a picture.

use std::path::PathBuf;

use anyhow::{Error, Result};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use regard_figures::{Figure, FigureError};
use regard_inspect::show::attention::Attention;
use regard_inspect::show::cells::Cells;
use regard_inspect::show::complexity::{Complexity, Timed};
use regard_inspect::show::convolution::Convolution;
use regard_inspect::show::dense::Dense;
use regard_inspect::show::embedding::Embedding;
use regard_inspect::show::equivariance::Equivariance;
use regard_inspect::show::hard::Hard;
use regard_inspect::show::heads::Heads;
use regard_inspect::show::identity::Identity;
use regard_inspect::show::linear::Linear;
use regard_inspect::show::lstm::{Lstm, Weights};
use regard_inspect::show::masks::Masks;
use regard_inspect::show::position::{Position, kind_names};
use regard_inspect::show::scaling::Scaling;
use regard_inspect::show::softmax::Softmax;
use regard_inspect::show::window::Window;
use regard_inspect::show::{Progress, ShowError, Shown};
use regard_nn::NnError;
use regard_ops::Mask;

use crate::failure::wrong_use;
use crate::print::{print, tell, tell_note};
use crate::progress::Progress as Bar;
use crate::value::{from_one, from_zero, number, take_negatives};

/// The arguments of `regard show`.
#[derive(Args)]
#[command(mut_args(take_negatives), mut_subcommands(|command| command.mut_args(take_negatives)))]
pub struct Show {
    #[command(subcommand)]
    mechanism: Mechanism,
    /// Write a picture, too: a file ending in .svg, .png or .html
    #[arg(long, global = true, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    json: bool,
    /// Seed of the random numbers
    #[arg(long, global = true, value_name = "N", default_value_t = 0, value_parser = from_zero::<u64>)]
    seed: u64,
}

#[derive(Subcommand)]
enum Mechanism {
    /// Draw every kind of position encoding, how it changes with distance, and small cases to check by hand
    Position {
        /// Number of positions
        #[arg(long, value_name = "N", default_value_t = Position::default().length, value_parser = from_one::<usize>)]
        length: usize,
        /// Number of features of a token
        #[arg(long, value_name = "D", default_value_t = Position::default().d_model, value_parser = from_one::<usize>)]
        d_model: usize,
        /// Number of attention heads
        #[arg(long, value_name = "N", default_value_t = Position::default().n_heads, value_parser = from_one::<usize>)]
        n_heads: usize,
        /// Show this kind in detail; all kinds side by side by default
        #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(kind_names()))]
        kind: Option<String>,
        /// Number of positions that the rotation of the sinusoids shifts by
        #[arg(long, value_name = "K", default_value_t = Position::default().shift, value_parser = from_zero::<usize>)]
        shift: usize,
    },
    /// Work attention out step by step, with small numbers
    Attention {
        /// The words of the example; `I saw a saw` by default
        #[arg(value_name = "WORD")]
        words: Vec<String>,
        /// Which tokens a token may see
        #[arg(long, value_enum, default_value_t = Sight::Full)]
        mask: Sight,
    },
    /// Show what the temperature of a softmax does to the weights of some scores
    Softmax {
        /// The scores, separated by commas
        #[arg(
            long,
            value_name = "S,S,…",
            value_delimiter = ',',
            default_values_t = Softmax::default().scores,
            value_parser = number
        )]
        scores: Vec<f64>,
        /// The temperature that the scores are divided by
        #[arg(long, value_name = "T", default_value_t = Softmax::default().temperature, value_parser = number)]
        temperature: f64,
    },
    /// Show that linear attention may multiply its matrices in another order, and what that saves
    Linear {
        /// Number of tokens of the sequence
        #[arg(long, value_name = "N", default_value_t = Linear::default().tokens, value_parser = from_one::<usize>)]
        tokens: usize,
        /// Number of features of a token
        #[arg(long, value_name = "D", default_value_t = Linear::default().d, value_parser = from_one::<usize>)]
        d: usize,
    },
    /// Slide the Gaussian window of handwriting along a text
    Window {
        /// The text
        #[arg(value_name = "TEXT", default_value_t = Window::default().text)]
        text: String,
        /// Number of steps
        #[arg(long, value_name = "N", default_value_t = Window::default().steps, value_parser = from_one::<usize>)]
        steps: usize,
        /// Height of the window
        #[arg(long, value_name = "α", default_value_t = Window::default().height, value_parser = number)]
        height: f64,
        /// Sharpness of the window
        #[arg(long, value_name = "β", default_value_t = Window::default().sharpness, value_parser = number)]
        sharpness: f64,
        /// Number of characters that the window moves in a step
        #[arg(long, value_name = "V", default_value_t = Window::default().speed, value_parser = number)]
        speed: f64,
    },
    /// Draw keys by hard attention, and compare their shares with the weights of soft attention
    Hard {
        /// The scores, separated by commas
        #[arg(
            long,
            value_name = "S,S,…",
            value_delimiter = ',',
            default_values_t = Hard::default().scores,
            value_parser = number
        )]
        scores: Vec<f64>,
        /// Number of choices to draw
        #[arg(long, value_name = "N", default_value_t = Hard::default().draws, value_parser = from_one::<usize>)]
        draws: usize,
        /// Temperature of the Gumbel-softmax
        #[arg(long, value_name = "τ", default_value_t = Hard::default().temperature, value_parser = number)]
        temperature: f64,
    },
    /// Show words as one-hot vectors, and that such a vector times the embedding matrix is a row of it
    Embedding {
        /// The words of the example; `the cat saw the dog` by default
        #[arg(value_name = "WORD")]
        words: Vec<String>,
        /// Number of features of a word
        #[arg(long, value_name = "D", default_value_t = Embedding::default().d_model, value_parser = from_one::<usize>)]
        d_model: usize,
    },
    /// Draw all masks and biases: which token may see which; and a graph with its mask and attention
    Masks {
        /// Number of tokens of the sequence
        #[arg(long, value_name = "N", default_value_t = Masks::default().length, value_parser = from_one::<usize>)]
        length: usize,
        /// Number of keys before a query that its window covers
        #[arg(long, value_name = "N", default_value_t = Masks::default().left, value_parser = from_zero::<usize>)]
        left: usize,
        /// Number of keys after a query that its window covers
        #[arg(long, value_name = "N", default_value_t = Masks::default().right, value_parser = from_zero::<usize>)]
        right: usize,
    },
    /// Show when attention changes nothing: large, nearly orthogonal tokens with Q = K = V = X
    Identity {
        /// Number of tokens of the sequence
        #[arg(long, value_name = "N", default_value_t = Identity::default().tokens, value_parser = from_one::<usize>)]
        tokens: usize,
        /// Numbers of features, one curve each
        #[arg(
            long,
            value_name = "D,D,…",
            value_delimiter = ',',
            default_values_t = Identity::default().d,
            value_parser = from_one::<usize>
        )]
        d: Vec<usize>,
    },
    /// Test whether attention sees the order of its tokens, with and without positions
    Equivariance {
        /// Number of tokens of the sequence
        #[arg(
            long,
            value_name = "N",
            default_value_t = Equivariance::default().tokens,
            value_parser = from_one::<usize>
        )]
        tokens: usize,
        /// Number of features of a token
        #[arg(
            long,
            value_name = "D",
            default_value_t = Equivariance::default().d_model,
            value_parser = from_one::<usize>
        )]
        d_model: usize,
        /// Number of heads
        #[arg(
            long,
            value_name = "N",
            default_value_t = Equivariance::default().n_heads,
            value_parser = from_one::<usize>
        )]
        n_heads: usize,
        /// The kind of positions to draw beside `none`
        #[arg(
            long,
            value_name = "NAME",
            default_value_t = Equivariance::default().kind,
            value_parser = PossibleValuesParser::new(kind_names())
        )]
        kind: String,
    },
    /// Show why scores are divided by √d: the variance of q·k and the entropy of the softmax as d grows
    Scaling {
        /// Largest d; powers of two up to it are measured
        #[arg(long, value_name = "D", default_value_t = Scaling::default().largest, value_parser = from_one::<usize>)]
        largest: usize,
        /// Number of keys of each softmax
        #[arg(long, value_name = "N", default_value_t = Scaling::default().keys, value_parser = from_one::<usize>)]
        keys: usize,
    },
    /// Show that multi-head attention is a sum over its heads
    Heads {
        /// Number of tokens of the sequence
        #[arg(long, value_name = "N", default_value_t = Heads::default().tokens, value_parser = from_one::<usize>)]
        tokens: usize,
        /// Number of features of a token
        #[arg(long, value_name = "D", default_value_t = Heads::default().d_model, value_parser = from_one::<usize>)]
        d_model: usize,
        /// Number of heads
        #[arg(long, value_name = "H", default_value_t = Heads::default().n_heads, value_parser = from_one::<usize>)]
        n_heads: usize,
    },
    /// Imitate a convolution with attention heads, and plot the difference against their sharpness
    Convolution {
        /// Side of the image in pixels
        #[arg(long, value_name = "N", default_value_t = Convolution::default().size, value_parser = from_one::<usize>)]
        size: usize,
        /// Side of the kernel in pixels: 1, 3 or 5
        #[arg(
            long,
            value_name = "K",
            default_value_t = Convolution::default().kernel,
            value_parser = from_one::<usize>
        )]
        kernel: usize,
        /// Number of channels of the random kernel
        #[arg(
            long,
            value_name = "C",
            default_value_t = Convolution::default().channels,
            value_parser = from_one::<usize>
        )]
        channels: usize,
        /// Values of the heads' sharpness, increasing and separated by commas
        #[arg(
            long,
            value_name = "α,…",
            value_delimiter = ',',
            default_values_t = Convolution::default().sharpness,
            value_parser = number
        )]
        sharpness: Vec<f64>,
    },
    /// Write attention as one dense layer on the flattened tokens, and compare the numbers of weights
    Dense {
        /// Number of tokens of the sequence
        #[arg(long, value_name = "N", default_value_t = Dense::default().tokens, value_parser = from_one::<usize>)]
        tokens: usize,
        /// Number of features of a token
        #[arg(long, value_name = "D", default_value_t = Dense::default().d_model, value_parser = from_one::<usize>)]
        d_model: usize,
    },
    /// Draw the gates of an LSTM over time, with weights set by hand or random
    Lstm {
        /// Number of steps of the sequence
        #[arg(long, value_name = "N", default_value_t = Lstm::default().steps, value_parser = from_one::<usize>)]
        steps: usize,
        /// Origin of the weights
        #[arg(long, value_name = "FROM", value_enum, default_value = "by-hand")]
        weights: WeightsFrom,
        /// The unit to print the numbers of, counted from 1
        #[arg(long, value_name = "U", default_value_t = Lstm::default().unit, value_parser = from_one::<usize>)]
        unit: usize,
    },
    /// Train RNN, LSTM and GRU on a task that needs memory, and compare their sizes, speeds and scores
    Cells {
        /// Number of hidden units of each network
        #[arg(long, value_name = "D", default_value_t = Cells::default().d_hidden, value_parser = from_one::<usize>)]
        d_hidden: usize,
        /// Number of symbols between the one to remember and the question
        #[arg(long, value_name = "N", default_value_t = Cells::default().delay, value_parser = from_one::<usize>)]
        delay: usize,
        /// Number of training steps
        #[arg(long, value_name = "N", default_value_t = Cells::default().steps, value_parser = from_one::<usize>)]
        steps: usize,
    },
    /// Compare the cost of self-attention, CNN, RNN, truncated and linear attention, by formula and measured
    Complexity {
        /// Length of the shortest sequence
        #[arg(long, value_name = "N", default_value_t = Complexity::default().from, value_parser = from_one::<usize>)]
        from: usize,
        /// Length of the longest sequence; lengths double up to it
        #[arg(long, value_name = "N", default_value_t = Complexity::default().to, value_parser = from_one::<usize>)]
        to: usize,
        /// Number of features of a token
        #[arg(
            long,
            value_name = "D",
            default_value_t = Complexity::default().d_model,
            value_parser = from_one::<usize>
        )]
        d_model: usize,
        /// Number of tokens that a convolution sees
        #[arg(long, value_name = "K", default_value_t = Complexity::default().kernel, value_parser = from_one::<usize>)]
        kernel: usize,
        /// Number of keys that a query of truncated attention sees
        #[arg(long, value_name = "W", default_value_t = Complexity::default().window, value_parser = from_one::<usize>)]
        window: usize,
        /// Least number of calls at each length; the fastest counts
        #[arg(
            long,
            value_name = "N",
            default_value_t = Complexity::default().repeats,
            value_parser = from_one::<usize>
        )]
        repeats: usize,
        /// Measure the backward pass, too
        #[arg(long)]
        backward: bool,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum WeightsFrom {
    /// Set by hand, so that each unit does one thing
    ByHand,
    /// Random, from --seed
    Random,
}

/// The masks that the worked example can use.
#[derive(Clone, Copy, ValueEnum)]
enum Sight {
    /// All tokens
    Full,
    /// The token itself and those before it
    Causal,
}

impl Show {
    pub fn run(self) -> Result<()> {
        let Self { mechanism, out, json, seed } = self;
        // Checked before the computation, which may take long.
        if let Some(path) = &out {
            Figure::check_path(path).map_err(picture_report)?;
        }
        let shown = mechanism.show(seed).map_err(report)?;
        print(&if json { format!("{}\n", shown.json) } else { shown.text })?;
        if let Some(path) = out {
            let saved = shown.figure.save(&path).map_err(picture_report)?;
            tell!("wrote {}", path.display());
            tell_note(&saved);
        }
        Ok(())
    }
}

fn report(error: ShowError) -> Error {
    match error {
        ShowError::Config(error) | ShowError::Layer(NnError::Config(error)) => wrong_use(error),
        other => Error::new(other),
    }
}

pub fn picture_report(error: FigureError) -> Error {
    match error {
        FigureError::Extension { .. } => wrong_use(error),
        other => Error::new(other).context("cannot write the picture"),
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
                Attention { words: words_or(words, Attention::default().words), mask, seed }.show()
            }
            Mechanism::Embedding { words, d_model } => {
                Embedding { words: words_or(words, Embedding::default().words), d_model, seed }.show()
            }
            Mechanism::Softmax { scores, temperature } => Softmax { scores, temperature }.show(),
            Mechanism::Linear { tokens, d } => Linear { tokens, d, seed }.show(),
            Mechanism::Window { text, steps, height, sharpness, speed } => {
                Window { text, steps, height, sharpness, speed }.show()
            }
            Mechanism::Hard { scores, draws, temperature } => Hard { scores, draws, temperature, seed }.show(),
            Mechanism::Masks { length, left, right } => Masks { length, left, right, seed }.show(),
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
            Mechanism::Cells { d_hidden, delay, steps } => {
                with_bar(|progress| Cells { d_hidden, delay, steps, seed }.show(progress))
            }
            Mechanism::Complexity { from, to, d_model, kernel, window, repeats, backward } => {
                let timed = if backward { Timed::Both } else { Timed::Forward };
                let complexity = Complexity { from, to, d_model, kernel, window, repeats, timed, seed };
                with_bar(|progress| complexity.show(progress))
            }
        }
    }
}

/// Returns the words of the arguments, each of which may hold several, or `default` if there are no arguments.
fn words_or(arguments: Vec<String>, default: Vec<String>) -> Vec<String> {
    match arguments.is_empty() {
        true => default,
        false => arguments.iter().flat_map(|some| some.split_whitespace()).map(String::from).collect(),
    }
}

/// Runs `show` and shows its progress.
fn with_bar(show: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<Shown, ShowError>) -> Result<Shown, ShowError> {
    let bar = Bar::new("");
    show(&mut |Progress { done, total, what }| bar.set(done as u64, total as u64, what))
}

#[cfg(test)]
mod tests {
    use regard_nn::ConfigError;

    use super::*;
    use crate::failure::WrongUse;

    #[test]
    fn a_setting_that_a_layer_refuses_is_wrong_use() {
        let config = || ConfigError::new("n_heads", 3, "a divisor of d_model");
        for error in [ShowError::Config(config()), ShowError::Layer(NnError::Config(config()))] {
            assert!(report(error).is::<WrongUse>());
        }
        let other = ShowError::Figure(FigureError::Raster { why: "no".into() });
        assert!(!report(other).is::<WrongUse>());
    }
}
