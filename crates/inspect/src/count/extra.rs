//! Parts outside the configuration of a Transformer: token types, a pooler, a classifier, image patches.

use regard_nn::ConfigError;
use regard_nn::config::check_positive;
use regard_nn::layers::linear::Bias;
use regard_nn::layers::norm::NormKind;
use serde::{Deserialize, Serialize};

use super::description::Sizes;
use super::part::Draft;
use super::quantity::{Quantity, q};

/// An additional part of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extra {
    /// Name of the part.
    pub name: String,
    /// Kind and sizes of the part.
    pub part: ExtraKind,
}

/// Kind and sizes of an additional part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ExtraKind {
    /// Vectors that are looked up or added, without a matrix product.
    Table {
        /// Number of vectors.
        rows: usize,
        /// Number of features of each vector.
        width: usize,
    },
    /// A normalisation of every token.
    Norm {
        /// Layer norm or RMS norm.
        #[serde(default)]
        norm: NormKind,
        /// Number of features.
        width: usize,
    },
    /// A linear layer.
    Linear {
        /// Number of input features.
        d_in: usize,
        /// Number of output features.
        d_out: usize,
        /// Whether it has a bias.
        #[serde(default)]
        bias: Bias,
        /// Rows that the layer is applied to.
        #[serde(default)]
        rows: Rows,
    },
}

/// Rows that a linear layer is applied to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rows {
    /// Every token.
    #[default]
    Tokens,
    /// Every token except the first, which has its own vector.
    TokensButFirst,
    /// One token per sequence.
    Sequences,
}

impl Extra {
    /// Creates a table of `rows` vectors.
    pub fn table(name: &str, rows: usize, width: usize) -> Self {
        Self { name: name.into(), part: ExtraKind::Table { rows, width } }
    }

    /// Creates a layer norm.
    pub fn norm(name: &str, width: usize) -> Self {
        Self { name: name.into(), part: ExtraKind::Norm { norm: NormKind::Layer, width } }
    }

    /// Creates a linear layer with a bias.
    pub fn linear(name: &str, d_in: usize, d_out: usize, rows: Rows) -> Self {
        Self { name: name.into(), part: ExtraKind::Linear { d_in, d_out, bias: Bias::Learned, rows } }
    }

    /// Returns an error if a size is zero.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match self.part {
            ExtraKind::Table { rows, width } => {
                check_positive("part.table.rows", rows)?;
                check_positive("part.table.width", width)
            }
            ExtraKind::Norm { width, .. } => check_positive("part.norm.width", width),
            ExtraKind::Linear { d_in, d_out, .. } => {
                check_positive("part.linear.d_in", d_in)?;
                check_positive("part.linear.d_out", d_out)
            }
        }
    }

    pub(super) fn draft(&self, sizes: &Sizes) -> Draft {
        let draft = Draft::new(self.name.as_str());
        match self.part {
            ExtraKind::Table { rows, width } => draft.parameters(q(rows) * width),
            ExtraKind::Norm { norm, width } => norm_draft(draft, norm, width, sizes.tokens()),
            ExtraKind::Linear { d_in, d_out, bias, rows } => {
                let rows = match rows {
                    Rows::Tokens => sizes.tokens(),
                    Rows::TokensButFirst => q(sizes.batch) * (sizes.seq - 1),
                    Rows::Sequences => q(sizes.batch),
                };
                draft.linear(rows, q(d_in), q(d_out), bias == Bias::Learned).keeps(rows * d_in)
            }
        }
    }
}

/// Adds the cost of a norm over `tokens`. It keeps its input and, per token, one or two statistics.
pub(super) fn norm_draft(draft: Draft, kind: NormKind, width: usize, tokens: Quantity) -> Draft {
    let (vectors, numbers) = match kind {
        NormKind::Layer => (2, 2),
        NormKind::LayerUnbiased => (1, 2),
        NormKind::Rms => (1, 1),
    };
    draft.parameters(q(width) * vectors).keeps(tokens * width + tokens * numbers)
}
