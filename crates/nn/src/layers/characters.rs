//! Word vectors computed from characters, so that unknown words have informative vectors too.
//!
//! - convolution (Ma & Hovy 2016): windows of `w` characters, `tanh(max_t (W [c_t; …; c_{t+w−1}] + b))`, with zeros beyond
//!   the ends of the word;
//! - recurrent (Lample 2016): the last states of two networks, one that reads the word forward and one backward.
//!
//! The caller passes each distinct word of a batch once. The vector of a word without characters is zero.

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use serde::{Deserialize, Serialize};

use crate::config::{check_positive, check_product, name_or_table, no_settings};
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::block::conv::windows;
use crate::layers::embedding::{Embedding, EmbeddingConfig};
use crate::layers::linear::{Linear, LinearConfig};
use crate::layers::recurrent::{Cell, Direction, Recurrent, RecurrentConfig};
use crate::lengths::Lengths;
use crate::pass::Pass;

/// The network that reads characters. In a file it is a name, `characters = "convolution"`, or a table with settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum CharactersConfig {
    /// No character vectors.
    #[serde(deserialize_with = "no_settings")]
    None,
    /// Convolution over windows of characters.
    Convolution {
        /// Number of features of a character.
        #[serde(default = "default_d_char")]
        d_char: usize,
        /// Number of characters of each kind of window.
        #[serde(default = "default_widths")]
        widths: Vec<usize>,
        /// Number of output features of each kind of window.
        #[serde(default = "default_filters")]
        filters: usize,
    },
    /// Bidirectional recurrent network.
    Recurrent {
        /// Number of features of a character.
        #[serde(default = "default_d_char")]
        d_char: usize,
        /// Recurrent cell.
        #[serde(default = "Cell::lstm", deserialize_with = "name_or_table")]
        cell: Cell,
        /// Number of hidden units of each direction.
        #[serde(default = "default_d_hidden")]
        d_hidden: usize,
    },
}

// These defaults are the sizes of Ma & Hovy 2016 and Lample 2016.
fn default_d_char() -> usize {
    30
}

fn default_widths() -> Vec<usize> {
    vec![3]
}

fn default_filters() -> usize {
    30
}

fn default_d_hidden() -> usize {
    25
}

impl CharactersConfig {
    /// Returns the convolution of Ma & Hovy 2016: 30 features per character and 30 filters of width 3.
    pub fn convolution() -> Self {
        Self::Convolution { d_char: default_d_char(), widths: default_widths(), filters: default_filters() }
    }

    /// Returns a bidirectional LSTM with the default sizes.
    pub fn recurrent() -> Self {
        Self::Recurrent { d_char: default_d_char(), cell: Cell::lstm(), d_hidden: default_d_hidden() }
    }

    /// Returns the number of output features.
    pub fn d_out(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Convolution { widths, filters, .. } => widths.len() * filters,
            Self::Recurrent { d_hidden, .. } => 2 * d_hidden,
        }
    }

    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::None => Ok(()),
            Self::Convolution { d_char, widths, filters } => {
                check_positive("d_char", *d_char)?;
                check_positive("filters", *filters)?;
                if widths.is_empty() {
                    return Err(ConfigError::new("widths", "[]", "at least one window"));
                }
                for (n, &width) in widths.iter().enumerate() {
                    check_positive(&format!("widths[{n}]"), width)?;
                    check_product(&format!("widths[{n}]"), &[width, *d_char, *filters])?;
                }
                Ok(())
            }
            Self::Recurrent { d_char, cell, d_hidden } => {
                check_positive("d_char", *d_char)?;
                network(*cell, *d_char, *d_hidden).validate()
            }
        }
    }

    /// Creates the layer for `vocab` distinct characters, or `None` for [`CharactersConfig::None`].
    pub fn init(&self, vocab: usize, init: &Init) -> Result<Option<Characters>, ConfigError> {
        self.validate()?;
        let (d_char, reader) = match self {
            Self::None => return Ok(None),
            Self::Convolution { d_char, widths, filters } => {
                let windows = widths.iter().enumerate().map(|(n, &width)| {
                    let convolution =
                        LinearConfig::new(width * d_char, *filters).init(&init.enter("windows").enter(n))?;
                    Ok(Window { convolution, width })
                });
                (*d_char, Reader::Convolution(Windows { windows: windows.collect::<Result<_, ConfigError>>()? }))
            }
            Self::Recurrent { d_char, cell, d_hidden } => {
                let network = network(*cell, *d_char, *d_hidden).init(&init.enter("network"))?;
                (*d_char, Reader::Recurrent(network))
            }
        };
        let embedding = EmbeddingConfig { vocab, d_model: d_char }.init(&init.enter("embedding"))?;
        Ok(Some(Characters { embedding, reader }))
    }
}

fn network(cell: Cell, d_char: usize, d_hidden: usize) -> RecurrentConfig {
    RecurrentConfig { direction: Direction::Both, ..RecurrentConfig::new(cell, d_char, d_hidden) }
}

/// Layer that computes word vectors from characters; see the [module](self) for the formulas.
#[derive(Module, Debug)]
pub struct Characters {
    /// Vectors of the characters, `[vocab, d_char]`.
    pub embedding: Embedding,
    /// Network that reads the character vectors.
    pub reader: Reader,
}

/// The network that reads the characters of a word.
#[derive(Module, Debug)]
pub enum Reader {
    /// Reader of [`CharactersConfig::Convolution`].
    Convolution(Windows),
    /// Reader of [`CharactersConfig::Recurrent`].
    Recurrent(Recurrent),
}

/// Convolutions with one or several kinds of windows.
#[derive(Module, Debug)]
pub struct Windows {
    /// Convolutions in the order of the configuration.
    pub windows: Vec<Window>,
}

/// A convolution over the characters of a word.
#[derive(Module, Debug)]
pub struct Window {
    /// Weights, `[width · d_char, filters]`, those of the leftmost character first.
    pub convolution: Linear,
    width: usize,
}

impl Characters {
    /// Computes a vector for each word. Padding has no effect.
    ///
    /// # Shapes
    /// `ids` `[words, chars]`, `lengths` `[words]` → `[words, d_out]`.
    pub fn forward(&self, ids: Tensor<2, Int>, lengths: Option<&[usize]>, pass: &Pass) -> Result<Tensor<2>, NnError> {
        let [words, chars] = ids.dims();
        if words == 0 || chars == 0 {
            return Err(NnError::input("characters", "[words, chars], each 1 or more", format!("[{words}, {chars}]")));
        }
        let x = self.embedding.forward(ids)?;
        match &self.reader {
            Reader::Convolution(windows) => windows.forward(x, lengths),
            Reader::Recurrent(network) => {
                let last = network.forward(x, lengths, None, pass)?.state.hidden;
                let side = |n| last.clone().narrow(0, n, 1).squeeze_dim::<2>(0);
                Ok(Tensor::cat(vec![side(0), side(1)], 1))
            }
        }
    }
}

impl Windows {
    /// Computes the word vectors, `[words, chars, d_char]` → `[words, windows · filters]`.
    fn forward(&self, x: Tensor<3>, lengths: Option<&[usize]>) -> Result<Tensor<2>, NnError> {
        let [words, chars, _] = x.dims();
        let padding = Lengths::new(lengths, [words, chars], &x.device())?;
        let x = padding.blank(x);
        let mut parts = Vec::with_capacity(self.windows.len());
        for window in &self.windows {
            let found = window.convolution.forward(windows(x.clone(), window.width, window.width / 2))?;
            parts.push(padding.fill(found, f32::NEG_INFINITY).max_dim(1).squeeze_dim::<2>(1));
        }
        // tanh is increasing, so it can be applied after the maximum.
        Ok(padding.unmoved(Tensor::cat(parts, 1), None).tanh())
    }
}
