//! Benchmarks without gradients: a step of decoding, a step of a recurrent layer, and the evaluation of a GPT and of a graph network.
//! The models are those of the training benchmarks.

use anyhow::Result;
use burn::tensor::{Device, Int, Tensor, TensorData};
use regard_kernels::recurrent::gru::GruReset;
use regard_nn::layers::recurrent::{Cell, RecurrentConfig};
use regard_nn::models::language_model::LanguageModel;
use regard_nn::{Init, Pass};
use regard_ops::CrossEntropyOptions;

use super::gpt::GptShape;
use super::graph::GraphModel;
use super::kernels::values;

/// A benchmark without gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inference {
    /// `decode/BATCHxCACHEDxD_MODELxN_HEADSxN_LAYERSxD_FFxVOCAB`: one token for each sequence after `CACHED` tokens.
    Decode(GptShape),
    /// `evaluate/BATCHxSEQxD_MODELxN_HEADSxN_LAYERSxD_FFxVOCAB`: the loss of a GPT on a batch.
    Evaluate(GptShape),
    /// `evaluate/gat/NODESxLINKSxFEATURESxOWNxD_MODELxN_HEADSxLABELS`: the logits of all nodes.
    EvaluateGraph(GraphModel),
    /// `step/CELL/BATCHxD_INxD_HIDDEN`: one step of a recurrent layer.
    Step(StepCell, [usize; 3]),
}

/// The layer of a [`Inference::Step`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepCell {
    Lstm,
    Gru,
}

/// The names of the layers.
pub const CELLS: [(&str, StepCell); 2] = [("lstm", StepCell::Lstm), ("gru", StepCell::Gru)];

impl Inference {
    /// Returns the benchmarks of the speed table.
    pub fn all() -> Vec<Self> {
        let decode = [1, 8].map(|batch| Self::Decode(GptShape { batch, ..GptShape::REFERENCE }));
        let evaluate = [Self::Evaluate(GptShape::REFERENCE), Self::EvaluateGraph(GraphModel::CORA)];
        let steps = CELLS.into_iter().flat_map(|(_, cell)| [1, 32].map(|batch| Self::Step(cell, [batch, 256, 256])));
        decode.into_iter().chain(evaluate).chain(steps).collect()
    }

    /// Returns the parts of the name before the sizes, and the sizes.
    pub fn name_and_sizes(&self) -> (String, Vec<usize>) {
        match self {
            Self::Decode(shape) => ("decode".to_string(), shape.sizes().to_vec()),
            Self::Evaluate(shape) => ("evaluate".to_string(), shape.sizes().to_vec()),
            Self::EvaluateGraph(GraphModel(sizes)) => ("evaluate/gat".to_string(), sizes.to_vec()),
            Self::Step(cell, sizes) => {
                let name = CELLS.iter().find(|named| named.1 == *cell).map_or("", |named| named.0);
                (format!("step/{name}"), sizes.to_vec())
            }
        }
    }

    /// Estimates the numbers that the benchmark holds. A float, because huge sizes would overflow an integer.
    pub fn numbers(&self) -> f64 {
        match self {
            Self::Decode(shape) | Self::Evaluate(shape) => shape.training_numbers(),
            Self::EvaluateGraph(model) => model.numbers(),
            Self::Step(_, sizes) => {
                let [batch, d_in, d_hidden] = sizes.map(|size| size as f64);
                4.0 * d_hidden * (d_in + d_hidden) + batch * (d_in + 12.0 * d_hidden)
            }
        }
    }

    /// Creates the model and its input, and returns the call to time.
    pub fn prepare(&self) -> Result<Box<dyn FnMut() -> Result<()>>> {
        match *self {
            Self::Decode(shape) => decode(shape),
            Self::Evaluate(shape) => evaluate(shape),
            Self::EvaluateGraph(model) => evaluate_graph(model),
            Self::Step(cell, sizes) => step(cell, sizes),
        }
    }
}

/// Returns pseudo-random tokens.
fn tokens([rows, seq]: [usize; 2], vocab: usize, seed: u64) -> Tensor<2, Int> {
    let ids = values(rows * seq, seed).into_iter().map(|x| ((x + 1.0) / 2.0 * vocab as f32) as i64 % vocab as i64);
    Tensor::from_data(TensorData::new(ids.collect::<Vec<_>>(), [rows, seq]), &Device::flex())
}

fn decode(shape: GptShape) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let GptShape { batch, seq: cached, vocab, .. } = shape;
    let longer = GptShape { seq: cached + 1, ..shape };
    let model = LanguageModel::new(&longer.config(), &Init::new(0, &Device::flex()))?;
    let (pass, mut caches) = (Pass::inference(), model.caches());
    model.logits_cached(tokens([batch, cached], vocab, 1), &mut caches, &pass)?;
    let next = tokens([batch, 1], vocab, 2);
    Ok(Box::new(move || {
        model.logits_cached(next.clone(), &mut caches, &pass)?;
        for cache in &mut caches {
            cache.truncate(cached)?;
        }
        Ok(())
    }))
}

fn evaluate(shape: GptShape) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let GptShape { batch, seq, vocab, .. } = shape;
    let model = LanguageModel::new(&shape.config(), &Init::new(0, &Device::flex()))?;
    let (ids, targets) = (tokens([batch, seq], vocab, 1), tokens([batch, seq], vocab, 2));
    Ok(Box::new(move || {
        let options = CrossEntropyOptions::default();
        let loss = model.loss(ids.clone(), targets.clone(), options, &Pass::inference())?;
        loss.into_data();
        Ok(())
    }))
}

fn evaluate_graph(model: GraphModel) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let batch = model.batch()?;
    let model = model.config().init(&Init::new(0, &Device::flex()))?;
    Ok(Box::new(move || {
        model.logits(&batch, &Pass::inference())?;
        Ok(())
    }))
}

fn step(cell: StepCell, [batch, d_in, d_hidden]: [usize; 3]) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let cell = match cell {
        StepCell::Lstm => Cell::Lstm { forget_bias: 0.0 },
        StepCell::Gru => Cell::Gru { reset: GruReset::AfterProduct },
    };
    let device = Device::flex();
    let layer = RecurrentConfig::new(cell, d_in, d_hidden).init(&Init::new(0, &device))?;
    let x = Tensor::<2>::from_data(TensorData::new(values(batch * d_in, 1), [batch, d_in]), &device);
    let (pass, mut state) = (Pass::inference(), layer.zero_state(batch));
    Ok(Box::new(move || {
        state = layer.step(x.clone(), state.clone(), &pass)?;
        Ok(())
    }))
}
