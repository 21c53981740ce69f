//! Benchmarks of training steps: the GPT and the classifiers of images in the speed table, and what all of them share.

use std::ops::Range;
use std::time::Instant;

use anyhow::Result;
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use regard_nn::models::image::ImageClassifier;
use regard_nn::models::language_model::LanguageModel;
use regard_nn::models::target::Answers;
use regard_nn::{Init, NnError, Pass};
use regard_ops::{AdamW, AdamWOptions, CrossEntropyOptions, Decay, Precision};
use regard_tasks::task::Loss;
use regard_tasks::train::{StepGradients, parts};

use super::gpt::GptShape;
use super::image::{ImageModel, LABELS};
use super::kernels::values;
use crate::print::print;
use crate::progress::Progress;

/// Computes the mean loss of a model on one part of a batch.
type PartLoss<M, P> = Box<dyn Fn(&M, &P) -> Result<Tensor<1>, NnError> + Sync>;

/// A model in training on one batch, which threads share as in `regard train` ([`examples_of_parts`]).
pub struct Training<M, P> {
    model: Option<M>,
    optimiser: AdamW,
    parts: Vec<P>,
    loss: PartLoss<M, P>,
}

impl<M: Module + Sync, P: Sync> Training<M, P> {
    /// Prepares a model for training with AdamW on a batch in `parts` of the same size.
    pub fn new(model: M, parts: Vec<P>, loss: impl Fn(&M, &P) -> Result<Tensor<1>, NnError> + Sync + 'static) -> Self {
        let options =
            AdamWOptions { learning_rate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.01, l2: 0.0 };
        let optimiser = AdamW::new(options, Some(1.0), Decay::All);
        Self { model: Some(model), optimiser, parts, loss: Box::new(loss) }
    }

    /// Runs the forward pass, the backward pass and the update. Returns the loss before the update.
    pub fn step(&mut self) -> Result<f32> {
        let model = self.model.take().expect("each step puts the model back");
        let mut sum = StepGradients::default();
        let loss =
            |part: &P, model: &M| Ok::<_, NnError>(Loss { mean: (self.loss)(model, part)?, targets: 1, tokens: 0 });
        match self.parts.as_slice() {
            [whole] => sum.add_batch(loss(whole, &model)?, &model),
            parts => sum.add_parts(&model, parts.iter().collect(), |_, part, model| loss(part, model))?,
        }
        let mean = sum.loss() as f32;
        let gradients = sum.into_gradients().expect("a batch has at least one part");
        let (model, _) = self.optimiser.step_with(model, gradients)?;
        self.model = Some(model);
        Ok(mean)
    }
}

/// Fewest tokens of a part of a batch that pay for sharing it: a tiny GPT on 32 tokens takes 0.87 ms, and 1.4 ms in two parts.
const FEWEST_TOKENS: usize = 64;

/// Returns the examples of each part of a batch: one part for each thread if all are then equally large and large enough, else one
/// part. `tokens` is the number of tokens of an example.
pub fn examples_of_parts(batch: usize, tokens: usize) -> Vec<Range<usize>> {
    let count = parts();
    let count = if batch.is_multiple_of(count) && batch / count * tokens >= FEWEST_TOKENS { count } else { 1 };
    (0..count).map(|part| part * batch / count..(part + 1) * batch / count).collect()
}

/// Returns a GPT in training on a text that it can learn: most tokens follow from the previous one.
fn gpt(shape: &GptShape, precision: Precision) -> Result<Training<LanguageModel, [Tensor<2, Int>; 2]>> {
    let device = Device::flex().autodiff();
    let mut state = 1u64;
    let mut text = Vec::with_capacity(shape.batch * (shape.seq + 1));
    for _ in 0..shape.batch * (shape.seq + 1) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let before = text.last().copied().unwrap_or(0);
        let random = (state >> 33) as i64;
        text.push(if random % 4 == 0 { random / 4 } else { before * 31 + 7 } % shape.vocab as i64);
    }
    let tokens = |examples: &Range<usize>, offset: usize| {
        let rows = text.chunks_exact(shape.seq + 1).map(|row| &row[offset..offset + shape.seq]);
        let rows: Vec<i64> = rows.skip(examples.start).take(examples.len()).flatten().copied().collect();
        Tensor::<2, Int>::from_data(TensorData::new(rows, [examples.len(), shape.seq]), &device)
    };
    let parts =
        examples_of_parts(shape.batch, shape.seq).iter().map(|part| [tokens(part, 0), tokens(part, 1)]).collect();
    let model = LanguageModel::new(&shape.config(), &Init::new(0, &device))?;
    Ok(Training::new(model, parts, move |model, [ids, targets]| {
        let pass = Pass::inference().with_precision(precision);
        model.loss(ids.clone(), targets.clone(), CrossEntropyOptions::default(), &pass)
    }))
}

/// Returns a call of one training step of a classifier of images.
pub fn image_step(model: ImageModel) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let device = Device::flex().autodiff();
    let side = model.side();
    let part = |examples: Range<usize>| {
        let images = values(examples.len() * side * side, 1 + examples.start as u64);
        let images = Tensor::<4>::from_data(TensorData::new(images, [examples.len(), 1, side, side]), &device);
        let labels: Vec<i64> = examples.clone().map(|n| (n % LABELS) as i64).collect();
        (images, Tensor::<1, Int>::from_data(TensorData::new(labels, [examples.len()]), &device))
    };
    let parts = examples_of_parts(model.batch(), side * side).into_iter().map(part).collect();
    let model = model.config().init(&Init::new(0, &device))?;
    let mut training = Training::new(model, parts, |model: &ImageClassifier, (images, labels)| {
        model.loss(images.clone(), Answers::One(labels.clone()), 0.0, &Pass::inference())
    });
    Ok(Box::new(move || training.step().map(|_| ())))
}

/// Returns a call of one training step of a GPT.
pub fn step(shape: GptShape, precision: Precision) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let mut training = gpt(&shape, precision)?;
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
    let mut training = gpt(&shape, Precision::F32)?;
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
