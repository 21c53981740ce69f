//! Learned absolute positions (Gehring 2017, BERT, GPT-2): a table with a vector for each position.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::config::{check_positive, check_product};
use crate::error::{ConfigError, NnError};
use crate::init::Init;

/// What happens to positions beyond the end of the table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Beyond {
    /// They get the last row.
    #[default]
    Last,
    /// They are an error.
    Refuse,
}

/// Configuration of a [`LearnedPosition`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LearnedConfig {
    /// Number of rows of the table.
    pub max_length: usize,
    /// What happens to positions beyond the end of the table.
    pub beyond: Beyond,
    /// Row of position 0. The rows before it are not used, as in RoBERTa, where the first of them belongs to padding.
    pub first: usize,
}

impl Default for LearnedConfig {
    fn default() -> Self {
        Self { max_length: 512, beyond: Beyond::Last, first: 0 }
    }
}

impl LearnedConfig {
    /// Returns an error if the table is empty.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("max_length", self.max_length)?;
        match self.first < self.max_length {
            true => Ok(()),
            false => Err(ConfigError::new("first", self.first, format!("below max_length, {}", self.max_length))),
        }
    }

    /// Creates the table, normal with standard deviation 0.02 as in BERT and GPT-2.
    pub fn init(&self, d_model: usize, init: &Init) -> Result<LearnedPosition, ConfigError> {
        self.validate()?;
        check_positive("d_model", d_model)?;
        check_product("max_length", &[self.max_length, d_model])?;
        let weight = init.normal("weight", [self.max_length, d_model], 0.02);
        Ok(LearnedPosition { weight, beyond: self.beyond, first: self.first })
    }
}

/// Learned absolute positions: a table with a vector for each position.
#[derive(Module, Debug)]
pub struct LearnedPosition {
    /// Table, `[max_length, d_model]`.
    pub weight: Param<Tensor<2>>,
    #[module(skip)]
    beyond: Beyond,
    first: usize,
}

impl LearnedPosition {
    /// Returns the vectors of the positions `offset..offset + seq`.
    ///
    /// # Shapes
    /// → `[seq, d_model]`.
    pub fn encode(&self, seq: usize, offset: usize) -> Result<Tensor<2>, NnError> {
        let table = self.weight.val();
        let [max_length, d_model] = table.dims();
        let offset = offset.saturating_add(self.first);
        let end = offset.saturating_add(seq);
        if (offset, seq) == (0, max_length) {
            return Ok(table);
        }
        if end <= max_length {
            return Ok(table.narrow(0, offset, seq));
        }
        if self.beyond == Beyond::Refuse {
            let expected = format!("at most {} positions (position.max_length)", max_length - self.first);
            return Err(NnError::input("sequence", expected, (end - self.first).to_string()));
        }
        let last = table.clone().narrow(0, max_length - 1, 1);
        let known = max_length.saturating_sub(offset);
        let repeated = last.expand([seq - known, d_model]);
        Ok(if known == 0 { repeated } else { Tensor::cat(vec![table.narrow(0, offset, known), repeated], 0) })
    }
}
