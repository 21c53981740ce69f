//! Model of sets and sequences of vectors: labels or numbers for a whole example, or for each of its vectors.
//!
//! A [`Body`] makes the vectors aware of each other, [`Pooling`] combines them into one unless each has its own answer, and dense
//! layers compute the output. A Transformer body without positions treats the vectors as a set. Without a body, with mean
//! pooling and hidden layers, it is a deep network on the mean of the vectors ([`VectorModelConfig::dense`]).

use burn::module::Module;
use burn::tensor::{Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use super::body::{Body, BodyConfig, BodySizes};
use super::target::{Answers, Target};
use crate::config::{check_dropout, check_positive, name_or_table};
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::dropout::Dropout;
use crate::layers::mlp::{Mlp, MlpConfig};
use crate::layers::pooling::{Pooling, PoolingConfig};
use crate::lengths::Lengths;
use crate::pass::Pass;

/// Configuration of a [`VectorModel`]. `width` and `outputs` must be set from the data: their default of zero is invalid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VectorModelConfig {
    /// Number of features of a vector.
    pub width: usize,
    /// Number of labels, or of numbers to predict.
    pub outputs: usize,
    /// What the model predicts.
    pub target: Target,
    /// Whether the answer is for the whole example or for each vector.
    pub answers: AnswerPer,
    /// Body, in which vectors learn about each other.
    #[serde(deserialize_with = "name_or_table")]
    pub body: BodyConfig,
    /// Features of a vector's state in the body.
    pub d_model: usize,
    /// Number of layers of the body.
    pub n_layers: usize,
    /// Pooling of the states into one vector, for an answer per example.
    #[serde(deserialize_with = "name_or_table")]
    pub pooling: PoolingConfig,
    /// Widths of the hidden layers before the output.
    pub hidden: Vec<usize>,
    /// Dropout probability in the body, of the states before the output and of hidden features.
    pub dropout: f32,
}

/// The unit that has an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerPer {
    /// One answer for the whole example, n → 1.
    #[default]
    Example,
    /// An answer for each vector, n → n.
    Vector,
}

impl Default for VectorModelConfig {
    fn default() -> Self {
        Self {
            width: 0,
            outputs: 0,
            target: Target::One,
            answers: AnswerPer::Example,
            body: BodyConfig::transformer(),
            d_model: 64,
            n_layers: 2,
            pooling: PoolingConfig::attention(),
            hidden: Vec::new(),
            dropout: 0.1,
        }
    }
}

impl VectorModelConfig {
    /// Returns a deep network on the mean of the vectors, or on each vector alone: the baseline in which vectors do not learn
    /// about each other.
    pub fn dense(hidden: impl Into<Vec<usize>>) -> Self {
        Self { body: BodyConfig::None, pooling: PoolingConfig::Mean, hidden: hidden.into(), ..Self::default() }
    }

    /// Returns an error if the configuration is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("width", self.width)?;
        self.target.validate(self.outputs)?;
        for (n, &size) in self.hidden.iter().enumerate() {
            check_positive(&format!("hidden[{n}]"), size)?;
        }
        check_dropout("dropout", self.dropout)?;
        self.pooling.validate().map_err(|error| error.within("pooling"))?;
        self.body.validate(self.sizes())
    }

    /// Builds the model.
    pub fn init(&self, init: &Init) -> Result<VectorModel, ConfigError> {
        self.validate()?;
        let d_out = self.body.d_out(self.sizes());
        let sizes: Vec<usize> = [d_out].into_iter().chain(self.hidden.iter().copied()).chain([self.outputs]).collect();
        let pooling = match self.answers {
            AnswerPer::Example => Some(self.pooling.init(d_out, &init.enter("pooling"))?),
            AnswerPer::Vector => None,
        };
        Ok(VectorModel {
            body: self.body.init(self.sizes(), &init.enter("body"))?,
            pooling,
            output: MlpConfig { dropout: self.dropout, ..MlpConfig::new(sizes) }.init(&init.enter("output"))?,
            dropout: Dropout::new("dropout", self.dropout, &init.enter("dropout"))?,
            target: self.target,
            width: self.width,
        })
    }

    fn sizes(&self) -> BodySizes {
        BodySizes { d_in: self.width, d_model: self.d_model, n_layers: self.n_layers, dropout: self.dropout }
    }
}

/// Model of vectors; see the [module](self).
#[derive(Module, Debug)]
pub struct VectorModel {
    /// Body, in which vectors learn about each other.
    pub body: Body,
    /// Pooling of the states into one vector; `None` if each vector has its own answer.
    pub pooling: Option<Pooling>,
    /// Dense layers from the states to the output.
    pub output: Mlp,
    dropout: Dropout,
    #[module(skip)]
    target: Target,
    width: usize,
}

impl VectorModel {
    /// Computes the logits of the labels, or the predicted numbers. There is a row for each example, or a row for each vector
    /// within its length: first all vectors of the first example, then those of the second, and so on.
    ///
    /// # Shapes
    /// `x` `[batch, seq, width]`, `lengths` `[batch]` → `[rows, outputs]`.
    pub fn logits(&self, x: Tensor<3>, lengths: &[usize], pass: &Pass) -> Result<Tensor<2>, NnError> {
        let [batch, seq, width] = x.dims();
        if width != self.width {
            let expected = format!("[batch, seq, {}]", self.width);
            return Err(NnError::input("vectors", expected, format!("{:?}", x.dims())));
        }
        // A body may pass padding on as it is; this also refuses lengths that do not fit.
        let x = Lengths::new(Some(lengths), [batch, seq], &x.device())?.blank(x);
        let states = self.body.forward(x, Some(lengths), pass)?;
        let states = match &self.pooling {
            Some(pooling) => pooling.forward(states, Some(lengths), pass)?,
            None => within(states, lengths),
        };
        Ok(self.output.forward(self.dropout.forward(states, pass)?, pass)?)
    }

    /// Computes the probability of each label, or the predicted numbers, in the rows of [`logits`](Self::logits).
    ///
    /// # Shapes
    /// `x` `[batch, seq, width]`, `lengths` `[batch]` → `[rows, outputs]`.
    pub fn predict(&self, x: Tensor<3>, lengths: &[usize], pass: &Pass) -> Result<Tensor<2>, NnError> {
        Ok(self.target.predict(self.logits(x, lengths, pass)?)?)
    }

    /// Computes the mean loss over the rows of [`logits`](Self::logits).
    ///
    /// # Shapes
    /// `x` `[batch, seq, width]`, `lengths` `[batch]` → `[1]`.
    pub fn loss(
        &self,
        x: Tensor<3>,
        lengths: &[usize],
        answers: Answers,
        label_smoothing: f32,
        pass: &Pass,
    ) -> Result<Tensor<1>, NnError> {
        self.target.loss(self.logits(x, lengths, pass)?, answers, label_smoothing)
    }
}

/// Returns the vectors within the lengths, example by example.
///
/// # Shapes
/// `x` `[batch, seq, d]` → `[Σ lengths, d]`.
fn within(x: Tensor<3>, lengths: &[usize]) -> Tensor<2> {
    let [batch, seq, d] = x.dims();
    let rows = x.clone().reshape([batch * seq, d]);
    if lengths.iter().all(|&length| length == seq) {
        return rows;
    }
    let places: Vec<i32> =
        (0..batch).flat_map(|row| (row * seq..row * seq + lengths[row]).map(|at| at as i32)).collect();
    let count = places.len();
    rows.select(0, Tensor::<1, Int>::from_data(TensorData::new(places, [count]), &x.device()))
}
