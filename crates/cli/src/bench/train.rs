//! Benchmarks of training steps: the GPT and the classifiers of images in the speed table, and what all of them share.

use std::time::Instant;

use anyhow::Result;
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use regard_nn::models::image::ImageClassifier;
use regard_nn::models::language_model::LanguageModel;
use regard_nn::models::target::Answers;
use regard_nn::{Init, NnError, Pass};
use regard_ops::{AdamW, AdamWOptions, CrossEntropyOptions, Decay};

use super::gpt::GptShape;
use super::image::{ImageModel, LABELS};
use super::kernels::values;
use crate::print::print;
use crate::progress::Progress;

/// Computes the loss of a model on one batch.
type BatchLoss<M> = Box<dyn Fn(&M) -> Result<Tensor<1>, NnError>>;

/// A model in training on one batch.
pub struct Training<M> {
    model: Option<M>,
    optimiser: AdamW,
    loss: BatchLoss<M>,
}

impl<M: Module> Training<M> {
    /// Prepares a model for training with AdamW.
    pub fn new(model: M, loss: impl Fn(&M) -> Result<Tensor<1>, NnError> + 'static) -> Self {
        let options =
            AdamWOptions { learning_rate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.01, l2: 0.0 };
        Self { model: Some(model), optimiser: AdamW::new(options, Some(1.0), Decay::All), loss: Box::new(loss) }
    }

    /// Runs the forward pass, the backward pass and the update. Returns the loss before the update.
    pub fn step(&mut self) -> Result<f32> {
        let model = self.model.take().expect("each step puts the model back");
        let loss = (self.loss)(&model)?;
        let gradients = loss.clone().backward();
        let (model, _) = self.optimiser.step(model, gradients)?;
        self.model = Some(model);
        Ok(loss.into_scalar())
    }
}

/// Returns a GPT in training on a text that it can learn: most tokens follow from the previous one.
fn gpt(shape: &GptShape) -> Result<Training<LanguageModel>> {
    let device = Device::flex().autodiff();
    let mut state = 1u64;
    let mut text = Vec::with_capacity(shape.batch * (shape.seq + 1));
    for _ in 0..shape.batch * (shape.seq + 1) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let before = text.last().copied().unwrap_or(0);
        let random = (state >> 33) as i64;
        text.push(if random % 4 == 0 { random / 4 } else { before * 31 + 7 } % shape.vocab as i64);
    }
    let part = |offset: usize| {
        let rows = text.chunks_exact(shape.seq + 1).flat_map(|row| &row[offset..offset + shape.seq]);
        let data = TensorData::new(rows.copied().collect::<Vec<i64>>(), [shape.batch, shape.seq]);
        Tensor::<2, Int>::from_data(data, &device)
    };
    let (ids, targets) = (part(0), part(1));
    let model = LanguageModel::new(&shape.config(), &Init::new(0, &device))?;
    Ok(Training::new(model, move |model| {
        model.loss(ids.clone(), targets.clone(), CrossEntropyOptions::default(), &Pass::inference())
    }))
}

/// Returns a call of one training step of a classifier of images.
pub fn image_step(model: ImageModel) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let device = Device::flex().autodiff();
    let (batch, side) = (model.batch(), model.side());
    let images = TensorData::new(values(batch * side * side, 1), [batch, 1, side, side]);
    let images = Tensor::<4>::from_data(images, &device);
    let labels: Vec<i64> = (0..batch).map(|n| (n % LABELS) as i64).collect();
    let labels = Tensor::<1, Int>::from_data(TensorData::new(labels, [batch]), &device);
    let mut training = Training::new(model.config().init(&Init::new(0, &device))?, move |model: &ImageClassifier| {
        model.loss(images.clone(), Answers::One(labels.clone()), 0.0, &Pass::inference())
    });
    Ok(Box::new(move || training.step().map(|_| ())))
}

/// Returns a call of one training step of a GPT.
pub fn step(shape: GptShape) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let mut training = gpt(&shape)?;
    Ok(Box::new(move || training.step().map(|_| ())))
}

/// Trains the reference model for `steps` steps with live progress, and prints its speed.
pub fn show(steps: u32) -> Result<()> {
    let shape = GptShape::REFERENCE;
    let GptShape { batch, seq, d_model, n_layers, n_heads, d_ff, vocab } = shape;
    print(&format!(
        "GPT of {n_layers} layers: d_model {d_model}, {n_heads} heads, d_ff {d_ff}, vocab {vocab}; batch {batch} × {seq}; \
         {}, {} threads\n",
        regard_kernels::Isa::current().name(),
        rayon::current_num_threads()
    ))?;
    let mut training = gpt(&shape)?;
    let progress = Progress::new("step ");
    let (mut best, mut first, mut last) = (f64::INFINITY, None, 0.0);
    for number in 1..=steps {
        let start = Instant::now();
        last = training.step()?;
        let took = start.elapsed().as_secs_f64();
        first.get_or_insert(last);
        best = best.min(took);
        progress.set(number.into(), steps.into(), format_args!("loss {last:.3}  {:.0} ms", took * 1e3));
    }
    drop(progress);
    let tokens = (batch * seq) as f64;
    print(&format!(
        "loss {:.3} → {last:.3} in {steps} steps\nbest step {:.0} ms: {:.0} tokens/s, {:.0} GFLOP/s\n",
        first.unwrap_or(last),
        best * 1e3,
        tokens / best,
        shape.training_flops() / best / 1e9
    ))
}
